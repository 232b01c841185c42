"""Pooling: every family over one list of geometries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lean_nn.cases import Array, Case, normal
from lean_nn.window import Bins, Window, strided

Ints = tuple[int, ...]
Rng = np.random.Generator
Dtype = np.dtype[Any]


class Form(NamedTuple):
    """One pooling: input ``(n, c, *spatial)`` and its windows."""

    name: str
    n: int
    c: int
    spatial: Ints
    window: Window | Bins

    @property
    def x(self) -> Ints:
        return (self.n, self.c, *self.spatial)

    @property
    def y(self) -> Ints:
        return (self.n, self.c, *self.window.out_spatial(self.spatial))


def _strided(d: int, *arguments: Any) -> Window:
    return strided("pool", d, *arguments)


FORMS = [
    Form("1d", 2, 2, (7,), _strided(1, 2)),
    Form("1d-overlap", 1, 2, (9,), _strided(1, 3, 1, 1)),
    Form("2d", 2, 2, (4, 6), _strided(2, 2)),
    Form("2d-overlap", 1, 2, (7, 6), _strided(2, 3, 2, 1)),
    Form("2d-dilated", 1, 1, (7, 8), _strided(2, (2, 3), 1, 0, 2)),
    Form("2d-uneven-pads", 1, 1, (4, 5), _strided(2, 3, 2, ((0, 1), (2, 0)))),
    Form("2d-ceil", 1, 1, (5, 6), _strided(2, (2, 3), (2, 4), (0, 1), 1, True)),
    Form("2d-stride-above-kernel", 1, 1, (8, 7), _strided(2, 2, 3)),
    Form("2d-window-in-padding", 1, 1, (2, 3), _strided(2, 2, 2, ((2, 2), (3, 0)))),
    Form("2d-row", 1, 1, (2, 20), _strided(2, (2, 3), (1, 2), (0, 1))),
    Form("3d", 1, 2, (4, 3, 4), _strided(3, (2, 3, 2), (2, 1, 1), (0, 1, 1))),
    Form("4d", 1, 1, (3, 2, 3, 4), _strided(4, 2, (1, 1, 2, 2), (1, 0, 0, 0))),
    Form("5d", 1, 1, (2, 2, 3, 2, 2), _strided(5, (2, 1, 2, 2, 1), 1)),
    Form("one-cell", 1, 1, (1, 1), _strided(2, 1)),
    Form("empty-batch", 0, 2, (4, 4), _strided(2, 2)),
    Form("no-cell", 1, 1, (0,), _strided(1, 2, 1, 1)),
    Form("adaptive-1d", 1, 2, (7,), Bins((3,))),
    Form("adaptive-2d", 2, 1, (5, 6), Bins((3, 2))),
    Form("adaptive-repeats", 1, 1, (2, 3), Bins((5, None))),
    Form("adaptive-3d", 1, 1, (3, 4, 3), Bins((2, 3, 1))),
    Form("adaptive-global", 1, 3, (4, 5), Bins((1, 1))),
]


def _places(rng: Rng, form: Form) -> Array:
    """Indices as max pooling gives them, -1 among them."""
    cells = int(np.prod(form.spatial))
    return rng.integers(-1, cells, form.y)


def _list(primitive: str, make: Callable[[Rng, Dtype, Form], tuple[Array, ...]], spatial: bool = False) -> list[Case]:
    """A case per form; `spatial` for the transposes, which cannot see the input's size."""

    def case(form: Form) -> Case:
        params: dict[str, Any] = {"window": form.window} | ({"spatial": form.spatial} if spatial else {})
        return Case(form.name, primitive, lambda rng, dtype: make(rng, dtype, form), params)

    return [case(form) for form in FORMS]


def _divisors(primitive: str, form: Form, shape: Ints, **extra: Any) -> list[Case]:
    """The two other divisors of the average."""
    params = {"window": form.window, **extra}
    return [
        Case(
            f"{form.name}-{label}",
            primitive,
            lambda rng, dtype: (normal(rng, dtype, *shape),),
            {**params, "count_include_pad": include, "divisor_override": divisor},
        )
        for label, include, divisor in [("real-cells", False, None), ("override", True, -3)]
    ]


def _at(primitive: str, form: Form) -> Case:
    """gather_at or scatter_add_at with the indices of a form."""
    scatter = primitive == "scatter_add_at"
    return Case(
        form.name,
        primitive,
        lambda rng, dtype: (normal(rng, dtype, *(form.y if scatter else form.x)), _places(rng, form)),
        {"spatial": form.spatial} if scatter else {},
    )


def _beta(dtype: Dtype, value: float) -> Array:
    return np.array(value, dtype)


CASES = [
    *_list("max_pool", lambda rng, dtype, f: (normal(rng, dtype, *f.x),)),
    *_list("max_pool_value", lambda rng, dtype, f: (normal(rng, dtype, *f.x),)),
    *[_at(primitive, form) for primitive in ("gather_at", "scatter_add_at") for form in FORMS],
    *_list("avg_pool", lambda rng, dtype, f: (normal(rng, dtype, *f.x),)),
    *_list("avg_pool_transpose", lambda rng, dtype, f: (normal(rng, dtype, *f.y),), spatial=True),
    *[case for f in FORMS if "pad" in f.name or "ceil" in f.name for case in _divisors("avg_pool", f, f.x)],
    *[
        case
        for f in FORMS
        if "pad" in f.name or "ceil" in f.name
        for case in _divisors("avg_pool_transpose", f, f.y, spatial=f.spatial)
    ],
    *_list("smooth_max_pool", lambda rng, dtype, f: (normal(rng, dtype, *f.x), _beta(dtype, 1.5))),
    *_list(
        "smooth_gather",
        lambda rng, dtype, f: (normal(rng, dtype, *f.x), normal(rng, dtype, *f.x), _beta(dtype, -0.75)),
    ),
    *_list(
        "smooth_scatter",
        lambda rng, dtype, f: (normal(rng, dtype, *f.y), normal(rng, dtype, *f.x), _beta(dtype, 1.25)),
    ),
]
