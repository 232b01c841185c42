"""The matrix product on NumPy arrays: batch axes as the distances between neighbours, 0 where an operand repeats."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from lean_nn.primitive import Aval
from lean_nn_c import gemm
from lean_nn_c.step import Step

Shape = tuple[int, ...]
PACKED_ROWS = 256  # where there are more, packing takes less than a twentieth of the time


def _steps(shape: Shape, rank: int) -> Shape:
    """Distance of neighbours on each of the `rank` batch axes of a contiguous array."""
    steps, size = [0] * rank, shape[-1] * shape[-2]
    for axis in range(1, len(shape) - 1):
        extent = shape[-2 - axis]
        steps[-axis] = size if extent != 1 else 0
        size *= extent
    return tuple(steps)


def matmul_step(a: Aval, b: Aval, *, out: tuple[Aval], ta: bool = False, tb: bool = False, **tail: Any) -> Step:
    """`tail` is what the kernel takes besides: ``bias``, ``other``, ``act``, ``slope``, and ``packed``: b is as `pack_step`
    makes it.
    """
    *batch, m, n = out[0].shape
    k = a.shape[-2] if ta else a.shape[-1]
    steps = _steps(a.shape, len(batch)), _steps(b.shape, len(batch))
    return gemm.step(a.dtype == np.float64, prod(a.shape), prod(b.shape), m, n, k, ta, tb, tuple(batch), *steps, **tail)


def pack_step(b: Aval, out: Aval, ta: bool = False, tb: bool = False) -> Step | None:
    """A step (b, packed b) for a product; None where b is read as it lies, or differs along the batch, or it would not pay."""
    rows, k = prod(out.shape[:-1]), b.shape[-1 if tb else -2]
    if prod(b.shape[:-2]) != 1 or rows > PACKED_ROWS or (ta and prod(out.shape[:-2]) != 1):
        return None
    return gemm.pack(out.dtype == np.float64, rows, out.shape[-1], k, ta, tb)
