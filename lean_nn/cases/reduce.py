"""Cases of sums, extremes, log-sum-exp and softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from lean_nn.cases import Array, Case, Make, normal

KINK = frozenset({"kink"})


def _normal(*shape: int) -> Make:
    return lambda rng, dtype: (normal(rng, dtype, *shape),)


def _ties(*shape: int) -> Make:
    def make(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Array, ...]:
        return (rng.integers(-2, 3, shape).astype(dtype),)

    return make


SUMS = [
    Case(f"{label}, kept" if keepdims else label, "sum", _normal(*shape), {"axes": axes, "keepdims": keepdims})
    for label, shape, axes in (
        ("rows", (3, 40), (1,)), ("columns", (40, 3), (0,)), ("middle", (2, 5, 3), (1,)), ("all", (2, 3, 4), (0, 1, 2)),
        ("channels", (3, 2, 4, 5), (0, 2, 3)), ("no axis", (2, 3), ()), ("scalar", (), ()), ("nothing", (0, 3), (0,)),
        ("of empty", (0, 3), (1,)), ("rank 5", (2, 2, 2, 2, 2), (0, 2, 4)), ("long", (1100,), (0,)),
    )
    for keepdims in (False, True)
]  # fmt: skip

LINES = (("rows", (3, 6), 1), ("columns", (6, 3), 0), ("middle", (2, 5, 3), 1), ("one", (2, 1), 1), ("empty", (0, 3), 1))

EXTREMES = [
    case
    for name in ("max", "min")
    for case in (
        *(Case(label, name, _normal(*shape), {"axis": axis}) for label, shape, axis in LINES),
        Case("ties", name, _ties(4, 9), {"axis": 1}, KINK),
        Case("wide", name, _normal(3, 70), {"axis": 0}),
    )
]

SOFT = [
    case
    for name in ("logsumexp", "softmax", "log_softmax")
    for case in (
        *(Case(label, name, _normal(*shape), {"axis": axis}) for label, shape, axis in LINES),
        Case("far apart", name, lambda rng, dtype: (normal(rng, dtype, 3, 6) * dtype.type(30),), {"axis": 1}),
    )
]


def _pair(*shape: int) -> Make:
    return lambda rng, dtype: (normal(rng, dtype, *shape), normal(rng, dtype, *shape))


SLOPES = [
    Case(label, name, _pair(*shape), {"axis": axis})
    for name in ("softmax_slope", "log_softmax_transpose", "expect")
    for label, shape, axis in (*LINES, ("lone", (1, 1), 1), ("long", (2, 70), 1), ("long columns", (70, 2), 0))
]

CASES = [*SUMS, *EXTREMES, *SOFT, *SLOPES]
