"""Cases of the shape, indexing, broadcasting and identity families."""

from __future__ import annotations

from typing import Any

import numpy as np

from lean_nn.cases import Case, normal


def _one(*shape: int) -> Any:
    return lambda rng, dtype: (normal(rng, dtype, *shape),)


def _with_index(shape: tuple[int, ...], idx_shape: tuple[int, ...], n: int) -> Any:
    def make(rng: np.random.Generator, dtype: np.dtype[Any]) -> tuple[Any, ...]:
        return normal(rng, dtype, *shape), rng.integers(0, n, idx_shape, np.int64)

    return make


CASES = [
    Case("same", "alias", _one(2, 3)),
    Case("up", "cast", _one(2, 3), {"dtype": "float64"}),
    Case("down", "cast", _one(2, 3), {"dtype": "float32"}, frozenset({"kink"})),  # a staircase, seen closely
    Case("2d to 1d", "reshape", _one(2, 3), {"shape": (6,)}),
    Case("to scalar", "reshape", _one(1, 1), {"shape": ()}),
    Case("empty", "reshape", _one(0, 3), {"shape": (3, 0)}),
    Case("3d", "transpose", _one(2, 3, 4), {"axes": (2, 0, 1)}),
    Case("5d", "transpose", _one(2, 1, 3, 2, 2), {"axes": (4, 2, 0, 3, 1)}),
    Case("matrix", "sum", _one(3, 4), {"axes": (0, 1), "keepdims": False}),
    Case("outer and inner", "sum", _one(3, 2, 4), {"axes": (0, 2), "keepdims": False}),
    Case("long row", "sum", _one(1, 700), {"axes": (1,), "keepdims": False}),
    Case("none", "sum", _one(3), {"axes": (), "keepdims": False}),
    Case("empty axis", "sum", _one(2, 0), {"axes": (1,), "keepdims": False}),
    Case("stretch and lead", "broadcast_to", _one(3, 1), {"shape": (2, 3, 4)}),
    Case("scalar", "broadcast_to", _one(), {"shape": (2, 2)}),
    Case("steps", "slice", _one(5, 6), {"start": (1, 5), "size": (2, 3), "step": (2, -2)}),
    Case("to the front", "slice", _one(4), {"start": (3,), "size": (4,), "step": (-1,)}),
    Case("nothing", "slice", _one(4), {"start": (0,), "size": (0,), "step": (1,)}),
    Case("steps", "unslice", _one(2, 3), {"start": (1, 5), "step": (2, -2), "shape": (5, 6)}),
    Case(
        "three parts",
        "concat",
        lambda rng, dtype: (normal(rng, dtype, 2, 1), normal(rng, dtype, 2, 3), normal(rng, dtype, 2, 0)),
        {"axis": 1},
    ),
    Case("asymmetric", "pad", _one(2, 3), {"padding": ((1, 0), (0, 2)), "value": 0.5}),
    Case("both axes", "flip", _one(3, 4), {"axes": (0, 1)}),
    Case("middle axis", "gather", _with_index((2, 4, 3), (2, 5, 3), 4), {"axis": 1}),
    Case("repeats", "scatter_add", _with_index((2, 5, 3), (2, 5, 3), 3), {"axis": 1, "size": 4}),
    Case("rows", "take", _with_index((4, 3), (2, 3), 4), {"axis": 0}),
    Case("columns", "take", _with_index((2, 4), (3,), 4), {"axis": 1}),
    Case("repeated rows", "take_transpose", _with_index((2, 3, 3), (2, 3), 4), {"axis": 0, "size": 4}),
]
