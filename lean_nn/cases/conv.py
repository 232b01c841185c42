"""Convolution: the three contractions over one list of geometries, and unfold and fold."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from lean_nn.cases import Case, Make, normal
from lean_nn.window import conv_spatial

Ints = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


class Form(NamedTuple):
    """One convolution: batch, channels in and out, groups; per axis size, kernel, stride, padding, dilation."""

    name: str
    n: int
    c: int
    o: int
    groups: int
    spatial: Ints
    kernel: Ints
    stride: Ints
    padding: Pairs
    dilation: Ints

    @property
    def window(self) -> dict[str, Any]:
        return {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}

    @property
    def out(self) -> Ints:
        return conv_spatial("conv", self.spatial, self.kernel, self.stride, self.padding, self.dilation)

    @property
    def shapes(self) -> tuple[Ints, Ints, Ints]:
        x = (self.n, self.c, *self.spatial)
        w = (self.o, self.c // self.groups, *self.kernel)
        return x, w, (self.n, self.o, *self.out)


FORMS = [
    Form("0d", 3, 4, 2, 1, (), (), (), (), ()),
    Form("1d", 2, 3, 4, 1, (9,), (3,), (1,), ((1, 1),), (1,)),
    Form("1d-stride-dilation", 1, 2, 2, 1, (13,), (3,), (3,), ((0, 2),), (2,)),
    Form("1d-phases", 1, 1, 2, 1, (11,), (4,), (2,), ((3, 0),), (3,)),
    Form("2d", 2, 3, 4, 1, (5, 6), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    Form("2d-1x1", 1, 4, 3, 1, (4, 5), (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    Form("2d-stride", 1, 2, 3, 1, (7, 6), (3, 2), (2, 3), ((1, 0), (0, 1)), (1, 1)),
    Form("2d-dilation", 1, 2, 2, 1, (7, 8), (2, 3), (1, 1), ((0, 0), (2, 2)), (3, 2)),
    Form("2d-groups", 2, 4, 6, 2, (4, 4), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    Form("2d-depthwise", 1, 3, 3, 3, (5, 5), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    Form("2d-stride-above-kernel", 1, 1, 2, 1, (8, 8), (2, 2), (3, 3), ((0, 0), (0, 0)), (1, 1)),
    Form("2d-window-in-padding", 1, 1, 1, 1, (2, 2), (2, 2), (2, 2), ((3, 3), (2, 4)), (1, 1)),
    Form("3d", 1, 2, 2, 1, (4, 3, 4), (2, 3, 2), (1, 1, 2), ((0, 1), (1, 1), (0, 0)), (1, 1, 1)),
    Form("4d", 1, 1, 2, 1, (3, 2, 3, 2), (2, 1, 2, 2), (1, 1, 2, 1), ((0, 0), (0, 0), (1, 0), (0, 1)), (1,) * 4),
    Form("5d", 1, 1, 1, 1, (2, 2, 2, 2, 3), (2, 1, 2, 1, 2), (1,) * 5, ((0, 1),) + ((0, 0),) * 4, (1,) * 5),
    Form("empty-batch", 0, 2, 3, 1, (5,), (2,), (1,), ((0, 0),), (1,)),
    Form("no-outputs", 2, 2, 0, 1, (4, 4), (2, 2), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    Form("no-inputs", 2, 0, 3, 1, (4,), (2,), (1,), ((0, 0),), (1,)),
    Form("one-cell", 1, 1, 1, 1, (1,), (1,), (1,), ((0, 0),), (1,)),
]
LARGE = [
    Form("2d-3x3-c64", 1, 64, 64, 1, (56, 56), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    Form("2d-7x7-s2", 1, 3, 64, 1, (224, 224), (7, 7), (2, 2), ((3, 3), (3, 3)), (1, 1)),
    Form("3d-3x3x3", 1, 16, 32, 1, (32, 32, 32), (3, 3, 3), (1, 1, 1), ((1, 1),) * 3, (1, 1, 1)),
]


def _arrays(*shapes: Ints) -> Make:
    return lambda rng, dtype: tuple(normal(rng, dtype, *shape) for shape in shapes)


def _cases(form: Form, tags: frozenset[str] = frozenset()) -> list[Case]:
    x, w, y = form.shapes
    geometry = {**form.window, "groups": form.groups}
    if len(form.kernel) > 3:
        tags |= {"no-order3"}
    return [
        Case(form.name, "conv", _arrays(x, w), geometry, tags),
        Case(f"{form.name}-bias", "conv", _arrays(x, w, (form.o,)), geometry, tags),
        Case(form.name, "conv_input", _arrays(y, w), {"spatial": form.spatial, **geometry}, tags),
        Case(f"{form.name}-bias", "conv_input", _arrays(y, w, (form.c,)), {"spatial": form.spatial, **geometry}, tags),
        Case(form.name, "conv_weight", _arrays(x, y), {"kernel": form.kernel, **geometry}, tags),
    ]


def _column_cases(form: Form) -> list[Case]:
    x, _, y = form.shapes
    cols = (form.n, form.c * prod(form.kernel), prod(y[2:]))
    window = {"kernel": form.kernel, **form.window}
    return [
        Case(form.name, "unfold", _arrays(x), window),
        Case(form.name, "fold", _arrays(cols), {"spatial": form.spatial, **window}),
    ]


CASES = [
    *(case for form in FORMS for case in _cases(form)),
    *(case for form in LARGE for case in _cases(form, frozenset({"large"}))),
    *(case for form in FORMS if form.groups == 1 for case in _column_cases(form)),
]
