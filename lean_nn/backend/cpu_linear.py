"""The matrix product on NumPy arrays: batch axes as the distances between neighbours, 0 where an operand repeats."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from lean_nn.backend.cpu import STEPS
from lean_nn.primitive import Aval
from lean_nn_c import gemm
from lean_nn_c.step import Step

Array = np.ndarray[Any, np.dtype[Any]]
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


@lru_cache(STEPS)
def _step(wide: bool, a: Shape, b: Shape, out: Shape, ta: bool, tb: bool, **tail: Any) -> Step:
    """The kernel for factors and result of these shapes; `tail`: what follows the sums."""
    batch = out[:-2]
    m, n, k = out[-2], out[-1], a[-2] if ta else a[-1]
    steps = _steps(a, len(batch)), _steps(b, len(batch))
    return gemm.step(wide, prod(a), prod(b), m, n, k, ta, tb, batch, *steps, **tail)


def matmul(a: Array, b: Array, *, out: Array, ta: bool = False, tb: bool = False) -> None:
    _step(a.dtype == np.float64, a.shape, b.shape, out.shape, ta, tb)(a, b, out)


def matmul_step(a: Aval, b: Aval, *, out: tuple[Aval], ta: bool = False, tb: bool = False, **tail: Any) -> Step:
    """The same for compiled programs; `tail` is what the kernel takes besides: ``bias``, ``other``, ``act``, ``slope``, and
    ``packed``: b is as `pack_step` makes it.
    """
    return _step(a.dtype == np.float64, a.shape, b.shape, out[0].shape, ta, tb, **tail)


def pack_step(b: Aval, out: Aval, ta: bool = False, tb: bool = False) -> Step | None:
    """A step (b, packed b) for a product; None where b is read as it lies, or differs along the batch, or it would not pay."""
    rows, k = prod(out.shape[:-1]), b.shape[-1 if tb else -2]
    if prod(b.shape[:-2]) != 1 or rows > PACKED_ROWS or (ta and prod(out.shape[:-2]) != 1):
        return None
    return gemm.pack(out.dtype == np.float64, rows, out.shape[-1], k, ta, tb)
