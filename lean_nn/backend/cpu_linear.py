"""The matrix product on NumPy arrays: batch axes as the distances between neighbours, 0 where an operand repeats."""

from __future__ import annotations

from typing import Any

import numpy as np

from lean_nn_c import gemm

Array = np.ndarray[Any, np.dtype[Any]]


def _steps(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Distance of neighbours on each of the `rank` batch axes of a contiguous array."""
    steps, size = [0] * rank, shape[-1] * shape[-2]
    for axis in range(1, len(shape) - 1):
        extent = shape[-2 - axis]
        steps[-axis] = size if extent != 1 else 0
        size *= extent
    return tuple(steps)


def matmul(a: Array, b: Array, *, out: Array, ta: bool = False, tb: bool = False) -> None:
    *batch, m, n = out.shape
    k = a.shape[-2] if ta else a.shape[-1]
    steps = (tuple(batch), _steps(a.shape, len(batch)), _steps(b.shape, len(batch))) if batch else ((), (), ())
    gemm.matmul(a.reshape(-1), b.reshape(-1), out.reshape(-1), m, n, k, ta, tb, *steps)
