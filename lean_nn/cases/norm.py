"""Cases of standardisation, dropout, cross entropy, and the look-ups of losses."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from lean_nn.cases import Array, Case, Make, normal, uniform

Rng = np.random.Generator
DType = np.dtype[Any]
Shape = tuple[int, ...]

GEOMETRY = (
    ("batch", (4, 3), (0,)), ("images", (2, 3, 2, 2), (0, 2, 3)), ("layer", (3, 6), (1,)), ("groups", (2, 2, 6), (2,)),
    ("all", (2, 4), (0, 1)), ("no group", (4, 0), (0,)),
)  # fmt: skip


def _statistics(shape: Shape, axes: Shape) -> Shape:
    return tuple(1 if a in axes else n for a, n in enumerate(shape))


def _tangent(shape: Shape, axes: Shape) -> Make:
    """A tangent, and z and rstd in general position: the rules hold whatever z and rstd are."""

    def make(rng: Rng, dtype: DType) -> tuple[Array, ...]:
        rstd = uniform(rng, dtype, 0.5, 2.0, *_statistics(shape, axes))
        return normal(rng, dtype, *shape), normal(rng, dtype, *shape), rstd

    return make


def _cotangents(shape: Shape, axes: Shape) -> Make:
    def make(rng: Rng, dtype: DType) -> tuple[Array, ...]:
        group = _statistics(shape, axes)
        g = normal(rng, dtype, *shape), normal(rng, dtype, *group), normal(rng, dtype, *group)
        return *g, normal(rng, dtype, *shape), uniform(rng, dtype, 0.5, 2.0, *group)

    return make


def _affine(shape: Shape, own: Shape) -> Make:
    def make(rng: Rng, dtype: DType) -> tuple[Array, ...]:
        return normal(rng, dtype, *shape), normal(rng, dtype, *own), normal(rng, dtype, *own)

    return make


def _with_statistics(shape: Shape, axes: Shape, own: Shape, cotangents: bool) -> Make:
    """t (with the cotangents of the statistics), x, w, and statistics in general position."""

    def make(rng: Rng, dtype: DType) -> tuple[Array, ...]:
        group = _statistics(shape, axes)
        extra = [normal(rng, dtype, *group) for _ in range(2 * cotangents)]
        x, w, mean = normal(rng, dtype, *shape), normal(rng, dtype, *own), normal(rng, dtype, *group)
        return normal(rng, dtype, *shape), *extra, x, w, mean, uniform(rng, dtype, 0.5, 2.0, *group)

    return make


def _data(shape: Shape) -> Make:
    return lambda rng, dtype: (normal(rng, dtype, *shape),)


def _two(shape: Shape) -> Make:
    return lambda rng, dtype: (normal(rng, dtype, *shape), normal(rng, dtype, *shape))


STANDARD = [
    case
    for label, shape, axes in GEOMETRY
    for case in (
        Case(label, "standardize", _data(shape), {"axes": axes, "eps": 1e-5}),
        Case(label, "standardize_tangent", _tangent(shape, axes), {"axes": axes}),
        Case(label, "standardize_transpose", _cotangents(shape, axes), {"axes": axes}),
    )
]


AFFINE = (
    *((label, shape, axes, _statistics(shape, axes)) for label, shape, axes in (*GEOMETRY, ("one element", (1, 1), (0,)))),
    ("layer features", (3, 6), (1,), (1, 6)), ("rows of two axes", (2, 3, 2, 3), (2, 3), (1, 1, 2, 3)),
    ("group channels", (2, 2, 3, 2), (2, 3), (1, 2, 3, 1)), ("instances", (3, 2, 4), (2,), (1, 2, 1)),
    ("one factor", (2, 3), (1,), (1, 1)), ("no sample", (0, 4), (1,), (1, 4)),
)  # fmt: skip

NORMALIZE = [
    case
    for label, shape, axes, own in AFFINE
    for case in (
        Case(label, "normalize", _affine(shape, own), {"axes": axes, "eps": 0.5 if shape == (1, 1) else 1e-5}),
        Case(label, "normalize_tangent", _with_statistics(shape, axes, own, False), {"axes": axes}),
        Case(label, "normalize_transpose", _with_statistics(shape, axes, own, True), {"axes": axes}),
    )
]


VARIANCE = [
    Case(f"{label}, less {correction}", name, make(shape), {"axes": axes, "correction": correction})
    for name, make in (("variance", _data), ("variance_tangent", _two))
    for label, shape, axes in (*GEOMETRY[:-1], ("middle", (3, 4, 5), (1,)), ("two runs", (2, 3, 2, 4), (1, 3)),
                               ("columns", (40, 3), (0,)), ("long", (2, 1100), (1,)))
    for correction in (0, 1)
    if label in ("layer", "middle") or correction
]  # fmt: skip

CHANNELS = [
    Case(label, "affine", _affine(shape, (shape[1],)))
    for label, shape in (("images", (2, 3, 4, 5)), ("table", (5, 7)), ("one element", (1, 1)), ("no sample", (0, 3, 2)),
                         ("no channel", (2, 0)))
]  # fmt: skip


def _seeded(shape: Shape, seed: int) -> Make:
    return lambda rng, dtype: (normal(rng, dtype, *shape), np.array(seed, np.int64))


DROPOUT = [
    Case(f"p {p} seed {seed}", "dropout", _seeded((5, 7), seed), {"p": p})
    for p, seed in ((0.0, 0), (0.5, 1), (0.25, -1), (0.9, 2**63 - 1))
]


def _look_up(shape: Shape, idx_shape: Shape, axis: int) -> Make:
    def make(rng: Rng, dtype: DType) -> tuple[Array, ...]:
        idx = rng.integers(0, shape[axis], idx_shape)
        idx[rng.random(idx_shape) < 0.3] = -100
        return normal(rng, dtype, *shape), idx

    return make


def _put(shape: Shape, size: int) -> Make:
    def make(rng: Rng, dtype: DType) -> tuple[Array, ...]:
        idx = rng.integers(0, size, shape)
        idx[rng.random(shape) < 0.3] = -100
        return normal(rng, dtype, *shape), idx

    return make


LOOK_UPS = [
    Case("classes", "pick", _look_up((5, 4), (5, 1), 1), {"axis": 1, "ignore": -100}),
    Case("pixels", "pick", _look_up((2, 4, 3), (2, 1, 3), 1), {"axis": 1, "ignore": -100}),
    Case("weights", "pick", _look_up((4,), (9,), 0), {"axis": 0, "ignore": -100}),
    Case("classes", "unpick", _put((5, 1), 4), {"axis": 1, "size": 4, "ignore": -100}),
    Case("weights", "unpick", _put((prod((3, 3)),), 4), {"axis": 0, "size": 4, "ignore": -100}),
]


def _classes(shape: Shape, axis: int, weighted: Shape | None) -> Make:
    """Logits and a class per line, some of them ignored; before them, of shape `weighted`, the lines' weights."""

    def make(rng: Rng, dtype: DType) -> tuple[Array, ...]:
        idx = rng.integers(0, shape[axis], shape[:axis] + shape[axis + 1 :])
        idx[rng.random(idx.shape) < 0.3] = -1
        weights = () if weighted is None else (normal(rng, dtype, *weighted),)
        return *weights, normal(rng, dtype, *shape), idx

    return make


def _class_weights(shape: Shape, axis: int, weighted: Shape) -> Make:
    """The lines' weights and their classes."""

    def make(rng: Rng, dtype: DType) -> tuple[Array, ...]:
        weights, _, idx = _classes(shape, axis, weighted)(rng, dtype)
        return weights, idx

    return make


CROSS_ENTROPY = [
    case
    for label, shape, axis in (("classes", (6, 5), 1), ("pixels", (2, 4, 3), 1), ("many", (3, 40), 1), ("one class", (3, 1), 1),
                               ("lone", (1, 1), 1), ("no line", (0, 3), 1))
    for reduction, smoothing in (("none", 0.0), ("sum", 0.25), ("mean", 0.0), ("mean", 0.25))
    for params in ({"axis": axis, "ignore": -1, "smoothing": smoothing, "reduction": reduction},)
    if label not in ("one class", "lone") or smoothing == 0  # else all that is left is a rounding, and nothing beside it
    if label != "no line" or reduction != "mean"  # of nothing it is 0 / 0
    for name in (f"{label} {reduction} {smoothing}",)
    for case in (
        Case(name, "cross_entropy", _classes(shape, axis, None), params),
        Case(name, "cross_entropy_transpose",
             _classes(shape, axis, shape[:axis] + shape[axis + 1 :] if reduction == "none" else ()), params),
    )
]  # fmt: skip



NLL = [
    case
    for label, shape, axis in (("classes", (6, 5), 1), ("pixels", (2, 4, 3), 1), ("first axis", (4, 9), 0), ("lone", (1, 1), 1),
                               ("no line", (0, 3), 1))
    for reduction in ("none", "sum", "mean")
    if label != "no line" or reduction != "mean"  # of nothing it is 0 / 0
    for params in ({"axis": axis, "ignore": -1, "reduction": reduction},)
    for case in (
        Case(f"{label} {reduction}", "nll_loss", _classes(shape, axis, None), params),
        Case(f"{label} {reduction}", "nll_loss_transpose",
             _class_weights(shape, axis, shape[:axis] + shape[axis + 1 :] if reduction == "none" else ()),
             {**params, "size": shape[axis]}),
    )
]  # fmt: skip


def _pairs(shape: tuple[int, ...], weights: tuple[int, ...] | None) -> Make:
    """Weights, if any, then predictions and targets, some of them alike."""

    def make(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Array, ...]:
        x, t = normal(rng, dtype, *shape), normal(rng, dtype, *shape)
        return (x, t) if weights is None else (normal(rng, dtype, *weights), x, t)

    return make


PAIRS = [
    case
    for kind in ("square", "abs", "huber", "logistic")
    for label, shape in (("table", (3, 5)), ("one", ()), ("long", (700,)), ("empty", (0, 3)))
    for reduction in ("none", "sum", "mean")
    if label != "empty" or reduction != "mean"  # of nothing it is 0 / 0
    for params in ({"kind": kind, "delta": 0.75 if kind == "huber" else 0.0},)
    for case in (
        Case(f"{label} {kind} {reduction}", "pair_loss", _pairs(shape, None), {**params, "reduction": reduction}),
        Case(f"{label} {kind} {reduction}", "pair_loss_slope", _pairs(shape, shape if reduction == "none" else ()), params),
    )
    if label != "long" or reduction == "mean"
]

CASES = [*STANDARD, *NORMALIZE, *VARIANCE, *CHANNELS, *DROPOUT, *LOOK_UPS, *CROSS_ENTROPY, *NLL, *PAIRS]
