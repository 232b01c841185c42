"""Pooling: the records' parameters as the kernels' arguments."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from lean_nn.backend.cpu_pool import divisor
from lean_nn.backend.cuda.indexing import add_at
from lean_nn.backend.cuda.launch import geometry, launch, on_windows
from lean_nn.backend.cuda.library import cp
from lean_nn.spec.geometry import check_beta
from lean_nn.window import Bins, Window

Shape = tuple[int, ...]


def max_pool(x: Any, *, out: tuple[Any, Any], window: Window | Bins) -> None:
    y, idx = out
    on_windows("max_pool", geometry(x.shape, window), window, y.size, x, y, idx)


def max_pool_value(x: Any, *, out: Any, window: Window | Bins) -> None:
    on_windows("max_pool_value", geometry(x.shape, window), window, out.size, x, out)


def _check_places(op: str, idx: Any, size: int) -> None:
    """The specification's words for an index that is neither −1 nor in the plane."""
    if idx.size:
        low, high = int(idx.min()), int(idx.max())
        if low < -1 or high >= size:
            raise IndexError(f"{op}: indices must be in [-1, {size}); got [{low}, {high}]; use this input's")


def gather_at(x: Any, idx: Any, *, out: Any) -> None:
    size, windows = prod(x.shape[2:]), prod(idx.shape[2:])
    _check_places("gather_at", idx, size)
    launch("gather_at", x.dtype, 1, max(x.size, idx.size), out.size, out.size, windows, size, x, idx, out)


def scatter_add_at(y_bar: Any, idx: Any, *, out: Any, spatial: Shape, window: Window | Bins | None = None) -> None:
    if window is not None:
        on_windows("scatter_winners", geometry(out.shape, window), window, out.size, y_bar, idx, out)
        return
    size, windows = prod(spatial), prod(idx.shape[2:])
    _check_places("scatter_add_at", idx, size)
    if not out.size or not idx.size:
        out.fill(0)
        return
    flat = idx.reshape(-1)
    planes = cp.arange(flat.size, dtype=np.int64) // np.int64(windows)
    nowhere = np.int64(out.size)
    add_at(y_bar, cp.where(flat < 0, nowhere, planes * np.int64(size) + flat), out, out.size, flat.size, 1)


def _average(name: str, count: int, x: Any, out: Any, images: Shape, window: Window | Bins, by: tuple[int, float]) -> None:
    with np.errstate(over="ignore"):  # beyond the range is infinity, and the quotient 0
        given = x.dtype.type(by[1])
    on_windows(name, geometry(images, window), window, count, np.int32(by[0]), given, x, out)


def avg_pool(
    x: Any, *, out: Any, window: Window | Bins, count_include_pad: bool = True, divisor_override: int | None = None
) -> None:
    _average("avg_pool", out.size, x, out, x.shape, window, divisor(count_include_pad, divisor_override))


def avg_pool_transpose(
    y_bar: Any, *, out: Any, spatial: Shape, window: Window | Bins, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> None:  # fmt: skip
    by = divisor(count_include_pad, divisor_override)
    _average("avg_pool_transpose", out.size, y_bar, out, out.shape, window, by)


def _beta(op: str, beta: Any) -> Any:
    value = float(beta.item())
    check_beta(op, value)
    return beta.dtype.type(value)


def smooth_max_pool(x: Any, beta: Any, *, out: Any, window: Window | Bins) -> None:
    b = _beta("smooth_max_pool", beta)
    on_windows("smooth_max_pool", geometry(x.shape, window), window, out.size, b, x, out)


def smooth_gather(t: Any, x: Any, beta: Any, *, out: Any, window: Window | Bins) -> None:
    b = _beta("smooth_gather", beta)
    on_windows("smooth_gather", geometry(x.shape, window), window, out.size, b, t, x, out)


def smooth_scatter(g: Any, x: Any, beta: Any, *, out: Any, window: Window | Bins) -> None:
    b = _beta("smooth_scatter", beta)
    where = geometry(x.shape, window)
    top, total = cp.empty(g.shape, x.dtype), cp.empty(g.shape, x.dtype)
    on_windows("smooth_stats", where, window, g.size, b, x, top, total)
    on_windows("smooth_scatter", where, window, out.size, b, g, x, top, total, out)


SLOTS = {
    "max_pool": max_pool, "max_pool_value": max_pool_value, "gather_at": gather_at, "scatter_add_at": scatter_add_at,
    "avg_pool": avg_pool, "avg_pool_transpose": avg_pool_transpose, "smooth_max_pool": smooth_max_pool,
    "smooth_gather": smooth_gather, "smooth_scatter": smooth_scatter,
}  # fmt: skip
