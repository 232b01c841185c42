"""Convolution as columns and matrix products: the batch in pieces whose columns fit a budget.

With cols (C·K, B·L) of a piece of B samples, L windows each, per group of channels:

    conv         y = w · cols              (O, B·L), then samples first
    conv_input   cols = wᵀ · ȳ             then a cell adds up its copies
    conv_weight  w̄ = Σ over pieces ȳ · colsᵀ

Each piece is one product for the whole batch in it, so small images fill the device as well as large ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from lean_nn.backend.cuda.launch import Geometry, geometry, launch, limits
from lean_nn.backend.cuda.library import cp
from lean_nn.window import Window

Ints = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


def _geometry(images: Ints, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints) -> Geometry:
    return geometry(images, Window(kernel, stride, padding, dilation))


def _pieces(samples: int, row_bytes: int) -> Iterator[slice]:
    """The batch in pieces; `row_bytes` is what the columns of one sample take."""
    step = max(1, limits.columns // max(1, row_bytes))
    for begin in range(0, samples, step):
        yield slice(begin, min(samples, begin + step))


def _columns(x: Any, kernel: Ints, window: dict[str, Any]) -> Any:
    """(C·K, B·L) of the images x."""
    if not kernel:
        return cp.ascontiguousarray(x.T)
    g = _geometry(x.shape, kernel, **window)
    rows, columns = x.shape[1] * prod(kernel), x.shape[0] * prod(g.windows)
    cols = cp.empty((rows, columns), x.dtype)
    launch("im2col_rows", x.dtype, g.rank, g.largest(), cols.size, g, cols.size, x, cols)
    return cols


def _from_columns(cols: Any, out: Any, kernel: Ints, window: dict[str, Any]) -> None:
    """The images whose cells are the sums of their copies in `cols`, into `out`."""
    if not kernel:
        out[...] = cols.T
        return
    g = _geometry(out.shape, kernel, **window)
    launch("col2im_rows", out.dtype, g.rank, g.largest(), out.size, g, out.size, cols, out)


def _channels_first(y: Any) -> Any:
    """(B, O, *P) as (O, B·L)."""
    return cp.ascontiguousarray(y.swapaxes(0, 1)).reshape(y.shape[1], -1)


def _product(a: Any, b: Any) -> Any:
    """a·b, each (groups, rows, columns): one plain product, or one per group in a batch."""
    if a.shape[0] == 1:
        return cp.dot(a[0], b[0])[None]
    return cp.matmul(a, b)


def _grouped(matrix: Any, groups: int) -> Any:
    return matrix.reshape(groups, matrix.shape[0] // groups, matrix.shape[1])


def _weight(w: Any, groups: int) -> Any:
    return _grouped(w.reshape(w.shape[0], prod(w.shape[1:])), groups)


def _sample_bytes(w: Ints, groups: int, windows: Ints, item: int) -> int:
    return w[1] * groups * prod(w[2:]) * prod(windows) * item


def conv(x: Any, w: Any, b: Any = None, *, out: Any, groups: int, **window: Any) -> None:
    if not out.size:
        return
    if x.shape[1] == 0:
        out.fill(0)
    else:
        weight = _weight(w, groups)
        for piece in _pieces(x.shape[0], _sample_bytes(w.shape, groups, out.shape[2:], x.dtype.itemsize)):
            cols = _grouped(_columns(x[piece], w.shape[2:], window), groups)
            y = _product(weight, cols).reshape(out.shape[1], -1, *out.shape[2:])
            out[piece] = y.swapaxes(0, 1)
    _add_bias(out, b)


def _add_bias(out: Any, b: Any) -> None:
    if b is not None:
        cp.add(out, b.reshape(-1, *(1,) * (out.ndim - 2)), out=out)


def conv_input(y_bar: Any, w: Any, b: Any = None, *, out: Any, spatial: Ints, groups: int, **window: Any) -> None:
    if not out.size:
        return
    if not y_bar.size:
        out.fill(0)
    else:
        turned = _weight(w, groups).swapaxes(1, 2)
        for piece in _pieces(out.shape[0], _sample_bytes(w.shape, groups, y_bar.shape[2:], w.dtype.itemsize)):
            cols = _product(turned, _grouped(_channels_first(y_bar[piece]), groups))
            _from_columns(cp.ascontiguousarray(cols.reshape(-1, cols.shape[2])), out[piece], w.shape[2:], window)
    _add_bias(out, b)


def conv_weight(x: Any, y_bar: Any, *, out: Any, kernel: Ints, groups: int, **window: Any) -> None:
    out.fill(0)
    if not out.size or not y_bar.size:
        return
    for piece in _pieces(x.shape[0], _sample_bytes(out.shape, groups, y_bar.shape[2:], x.dtype.itemsize)):
        cols = _grouped(_columns(x[piece], kernel, window), groups)
        part = _product(_grouped(_channels_first(y_bar[piece]), groups), cols.swapaxes(1, 2))
        cp.add(out, part.reshape(out.shape), out=out)


def unfold(x: Any, *, out: Any, kernel: Ints, **window: Any) -> None:
    if not kernel:
        out[...] = x.reshape(out.shape)
        return
    g = _geometry(x.shape, kernel, **window)
    launch("im2col_batch", x.dtype, g.rank, g.largest(), out.size, g, out.size, x, out)


def fold(cols: Any, *, out: Any, spatial: Ints, kernel: Ints, **window: Any) -> None:
    if not kernel:
        out[...] = cols.reshape(out.shape)
        return
    g = _geometry(out.shape, kernel, **window)
    launch("col2im_batch", out.dtype, g.rank, g.largest(), out.size, g, out.size, cols, out)


def matmul(a: Any, b: Any, *, out: Any, ta: bool = False, tb: bool = False) -> None:
    left, right = a.swapaxes(-1, -2) if ta else a, b.swapaxes(-1, -2) if tb else b
    if not out.size or not left.shape[-1]:
        out.fill(0)
    elif out.ndim == 2:
        cp.dot(left, right, out=out)
    else:
        out[...] = cp.matmul(left, right)


SLOTS = {
    "conv": conv, "conv_input": conv_input, "conv_weight": conv_weight, "unfold": unfold, "fold": fold, "matmul": matmul,
}
