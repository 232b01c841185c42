"""Matrix products: every pair of flags, batches that broadcast, empty factors."""

from __future__ import annotations

from lean_nn.cases import Case, Make, normal

Ints = tuple[int, ...]


def _factors(a: Ints, b: Ints, ta: bool, tb: bool) -> Make:
    """Factors of op-shapes `a` and `b`, stored transposed where the flag says so."""
    left = (*a[:-2], a[-1], a[-2]) if ta else a
    right = (*b[:-2], b[-1], b[-2]) if tb else b
    return lambda rng, dtype: (normal(rng, dtype, *left), normal(rng, dtype, *right))


def _case(name: str, a: Ints, b: Ints, ta: bool = False, tb: bool = False, *tags: str) -> Case:
    flags = ("t" if ta else "n") + ("t" if tb else "n")
    return Case(f"{name}-{flags}", "matmul", _factors(a, b, ta, tb), {"ta": ta, "tb": tb}, frozenset(tags))


FLAGS = [(False, False), (False, True), (True, False), (True, True)]
CASES = [
    *(_case("small", (3, 4), (4, 5), ta, tb) for ta, tb in FLAGS),
    *(_case("batch", (2, 3, 4), (2, 4, 2), ta, tb) for ta, tb in FLAGS),
    *(_case("broadcast", (2, 1, 3, 2), (3, 2, 2), ta, tb) for ta, tb in FLAGS),
    *(_case("one-matrix", (2, 3, 2), (2, 4), ta, tb) for ta, tb in FLAGS),
    *(_case("wide", (7, 9), (9, 19), ta, tb, "no-order3") for ta, tb in FLAGS),
    _case("row", (1, 6), (6, 5)),
    _case("column", (5, 6), (6, 1)),
    _case("inner", (1, 8), (8, 1)),
    _case("outer", (4, 1), (1, 3)),
    _case("no-terms", (3, 0), (0, 2)),
    _case("no-rows", (0, 3), (3, 2)),
    _case("empty-batch", (0, 2, 3), (3, 2)),
    *(_case("large", (200, 300), (300, 210), ta, tb, "large") for ta, tb in FLAGS),
]
