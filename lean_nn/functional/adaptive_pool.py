"""Adaptive pooling: the output size is given, the windows follow. PyTorch's names; without a number: any rank."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from lean_nn.functional.pool import pool_average, pool_max, rank_of
from lean_nn.spec.geometry import check_length, per_axis
from lean_nn.window import CACHED, Bins

__all__ = [
    "adaptive_avg_pool", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool",
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d",
]

Tensor = Any
Sizes = int | Sequence[int | None]


@lru_cache(CACHED)
def _uniform(d: int, size: int) -> Bins:
    """The commonest bins, as many on every axis: made once, so that their tables are found by identity."""
    return Bins((size,) * d)


def _bins(op: str, d: int, output_size: Any) -> Bins:
    if type(output_size) is int:
        return _uniform(d, output_size)
    if not isinstance(output_size, (tuple, list)):
        return Bins(per_axis(op, "output_size", output_size, d))
    check_length(op, "output_size", output_size, d)
    return Bins(tuple(None if n is None else per_axis(op, "output_size", n, 1)[0] for n in output_size))


def adaptive_avg_pool(x: Any, output_size: Sequence[int | None]) -> Tensor:
    """``y[p] = mean of x over [⌊p·in/out⌋, ⌈(p+1)·in/out⌉)`` on each axis.

    Parameters
    ----------
    x : Tensor or array, (N, C, *spatial), (C, *spatial) or (*spatial)
    output_size : tuple of int or None
        Size per spatial axis, None to keep it; its length is the number of spatial axes.

    Examples
    --------
    >>> import lean_nn as ln
    >>> ln.functional.adaptive_avg_pool(ln.tensor([[1.0, 2.0, 3.0, 6.0]]), (2,)).tolist()
    [[1.5, 4.5]]
    """
    return pool_average(x, _bins("avg_pool", rank_of("adaptive_avg_pool", "output_size", output_size), output_size))


def adaptive_avg_pool1d(x: Any, output_size: Sizes) -> Tensor:
    """``y[p] = mean of x over [⌊p·in/out⌋, ⌈(p+1)·in/out⌉)`` on one axis; see `adaptive_avg_pool`.

    Examples
    --------
    >>> import lean_nn as ln
    >>> ln.functional.adaptive_avg_pool1d(ln.tensor([[1.0, 2.0, 3.0]]), 2).tolist()
    [[1.5, 2.5]]
    """
    return pool_average(x, _bins("avg_pool", 1, output_size))


def adaptive_avg_pool2d(x: Any, output_size: Sizes) -> Tensor:
    """``y[p] = mean of x over [⌊p·in/out⌋, ⌈(p+1)·in/out⌉)`` on two axes; see `adaptive_avg_pool`.

    Examples
    --------
    >>> import lean_nn as ln
    >>> ln.functional.adaptive_avg_pool2d(ln.tensor([[[1.0, 2.0], [3.0, 6.0]]]), (1, None)).tolist()
    [[[2.0, 4.0]]]
    """
    return pool_average(x, _bins("avg_pool", 2, output_size))


def adaptive_avg_pool3d(x: Any, output_size: Sizes) -> Tensor:
    """``y[p] = mean of x over [⌊p·in/out⌋, ⌈(p+1)·in/out⌉)`` on three axes; see `adaptive_avg_pool`.

    Examples
    --------
    >>> import numpy as np, lean_nn as ln
    >>> ln.functional.adaptive_avg_pool3d(np.arange(8.0).reshape(1, 2, 2, 2), 1).tolist()
    [[[[3.5]]]]
    """
    return pool_average(x, _bins("avg_pool", 3, output_size))


def adaptive_max_pool(x: Any, output_size: Sequence[int | None], return_indices: bool = False) -> Any:
    """``y[p] = max of x over [⌊p·in/out⌋, ⌈(p+1)·in/out⌉)`` on each axis, the first maximum winning.

    Parameters
    ----------
    x : Tensor or array, (N, C, *spatial), (C, *spatial) or (*spatial)
    output_size : tuple of int or None
        Size per spatial axis, None to keep it; its length is the number of spatial axes.
    return_indices : bool
        Also return each winner's flat index into the spatial axes, int64.

    Examples
    --------
    >>> import lean_nn as ln
    >>> y, idx = ln.functional.adaptive_max_pool(ln.tensor([[1.0, 2.0, 3.0, 6.0]]), (2,), return_indices=True)
    >>> y.tolist(), idx.tolist()
    ([[2.0, 6.0]], [[1, 3]])
    """
    bins = _bins("max_pool", rank_of("adaptive_max_pool", "output_size", output_size), output_size)
    return pool_max(x, bins, return_indices)


def adaptive_max_pool1d(x: Any, output_size: Sizes, return_indices: bool = False) -> Any:
    """``y[p] = max of x over [⌊p·in/out⌋, ⌈(p+1)·in/out⌉)`` on one axis; see `adaptive_max_pool`.

    Examples
    --------
    >>> import lean_nn as ln
    >>> ln.functional.adaptive_max_pool1d(ln.tensor([[1.0, 2.0, 0.0]]), 2).tolist()
    [[2.0, 2.0]]
    """
    return pool_max(x, _bins("max_pool", 1, output_size), return_indices)


def adaptive_max_pool2d(x: Any, output_size: Sizes, return_indices: bool = False) -> Any:
    """``y[p] = max of x over [⌊p·in/out⌋, ⌈(p+1)·in/out⌉)`` on two axes; see `adaptive_max_pool`.

    Examples
    --------
    >>> import lean_nn as ln
    >>> ln.functional.adaptive_max_pool2d(ln.tensor([[[1.0, 2.0], [3.0, 6.0]]]), (1, None)).tolist()
    [[[3.0, 6.0]]]
    """
    return pool_max(x, _bins("max_pool", 2, output_size), return_indices)


def adaptive_max_pool3d(x: Any, output_size: Sizes, return_indices: bool = False) -> Any:
    """``y[p] = max of x over [⌊p·in/out⌋, ⌈(p+1)·in/out⌉)`` on three axes; see `adaptive_max_pool`.

    Examples
    --------
    >>> import numpy as np, lean_nn as ln
    >>> ln.functional.adaptive_max_pool3d(np.arange(8.0).reshape(1, 2, 2, 2), 1).tolist()
    [[[[7.0]]]]
    """
    return pool_max(x, _bins("max_pool", 3, output_size), return_indices)
