"""Pooling: the records' parameters as the kernels' arguments."""

from __future__ import annotations

from functools import lru_cache
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


def _divisor(real: np.dtype[Any], count_include_pad: bool, divisor_override: int | None) -> tuple[np.int32, Any]:
    kind, given = divisor(count_include_pad, divisor_override)
    with np.errstate(over="ignore"):  # beyond the range is infinity, and the quotient 0
        return np.int32(kind), real.type(given)


@lru_cache(256)
def _alike(window: Window | Bins, spatial: Shape) -> np.int32:
    """Whether the last axis has windows that differ in place only: then the CPU sums column by column."""
    last = window.tables(spatial)[-1]
    return np.int32(last.stride >= 1 and len(last.first) >= 2)


def avg_pool(
    x: Any, *, out: Any, window: Window | Bins, count_include_pad: bool = True, divisor_override: int | None = None
) -> None:
    by = _divisor(x.dtype, count_include_pad, divisor_override)
    on_windows("avg_pool", geometry(x.shape, window), window, out.size, *by, _alike(window, x.shape[2:]), x, out)


def avg_pool_transpose(
    y_bar: Any, *, out: Any, spatial: Shape, window: Window | Bins, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> None:  # fmt: skip
    by = _divisor(y_bar.dtype, count_include_pad, divisor_override)
    where = geometry(out.shape, window)
    on_windows("avg_pool_transpose", where, window, out.size, *by, _alike(window, spatial), y_bar, out)


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
