"""Convolution on NumPy arrays: a record's parameters as the kernels' arguments, and the choice of algorithm.

The kernels choose for themselves ("auto"). `algorithm` forces one, for tests and for comparing numerics:

============  =====================================================================================
"taps"        a product over kernel cells on padded planes; nothing is unfolded (``lean_nn_c/taps.pyx``)
"winograd"    products of transformed tiles: 3 × 3, stride 1 (``winograd.pyx``)
"strips"      few channels, a small padded copy at a time; where none fits, "direct" (``direct.pyx``)
"direct"      the definition, tap by tap (``lean_nn_c/direct.pyx``)
"im2col"      ``unfold`` (or ``fold``) and a matrix product, one sample at a time
============  =====================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from typing import Any

import numpy as np

from lean_nn.window import conv_spatial
from lean_nn_c import conv as kernel_module
from lean_nn_c import gemm

Array = np.ndarray[Any, np.dtype[Any]]
Ints = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]
Sizes = tuple[Ints, Ints, Ints, Ints, Ints, Ints]

ALGORITHMS = ("auto", "taps", "winograd", "strips", "direct", "im2col")
_chosen: ContextVar[str] = ContextVar("conv_algorithm", default="auto")


@contextmanager
def algorithm(name: str) -> Iterator[None]:
    """Compute convolutions by `name` inside the block: one of `ALGORITHMS`."""
    if name not in ALGORITHMS:
        raise ValueError(f"algorithm: unknown; got {name!r}; choose from {ALGORITHMS}")
    token = _chosen.set(name)
    try:
        yield
    finally:
        _chosen.reset(token)


def _sizes(x: Ints, k: Ints, y: Ints, stride: Ints, padding: Pairs, dilation: Ints) -> Sizes:
    """The kernels' geometry: only the padding before an axis matters once the output's size is known."""
    return x[2:], k, y[2:], stride, tuple(before for before, _ in padding), dilation


def conv(
    x: Array,
    w: Array,
    b: Array | None = None,
    *,
    out: Array,
    stride: Ints,
    padding: Pairs,
    dilation: Ints,
    groups: int,
) -> None:
    sizes = _sizes(x.shape, w.shape[2:], out.shape, stride, padding, dilation)
    chosen = _chosen.get()
    if chosen == "im2col":
        return _conv_by_columns(x, w, b, out, groups, sizes)
    head = (x.shape[0], x.shape[1], w.shape[0], groups)
    return kernel_module.conv(x.reshape(-1), w.reshape(-1), b, out.reshape(-1), *head, *sizes, chosen)


def conv_input(
    y_bar: Array,
    w: Array,
    *,
    out: Array,
    spatial: Ints,
    stride: Ints,
    padding: Pairs,
    dilation: Ints,
    groups: int,
) -> None:
    sizes = _sizes(out.shape, w.shape[2:], y_bar.shape, stride, padding, dilation)
    chosen = _chosen.get()
    if chosen == "im2col":
        return _conv_input_by_columns(y_bar, w, out, groups, sizes)
    head = (out.shape[0], out.shape[1], w.shape[0], groups)
    return kernel_module.conv_input(y_bar.reshape(-1), w.reshape(-1), out.reshape(-1), *head, *sizes, chosen)


def conv_weight(
    x: Array,
    y_bar: Array,
    *,
    out: Array,
    kernel: Ints,
    stride: Ints,
    padding: Pairs,
    dilation: Ints,
    groups: int,
) -> None:
    sizes = _sizes(x.shape, kernel, y_bar.shape, stride, padding, dilation)
    chosen = _chosen.get()
    if chosen == "im2col":
        return _conv_weight_by_columns(x, y_bar, out, groups, sizes)
    head = (x.shape[0], x.shape[1], y_bar.shape[1], groups)
    return kernel_module.conv_weight(x.reshape(-1), y_bar.reshape(-1), out.reshape(-1), *head, *sizes, chosen)


def unfold(
    x: Array, *, out: Array, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> None:
    before = tuple(a for a, _ in padding)
    windows = _windows(x.shape[2:], kernel, stride, padding, dilation)
    sizes = (x.shape[2:], kernel, windows, stride, before, dilation)
    kernel_module.unfold(x.reshape(-1), out.reshape(-1), x.shape[0], x.shape[1], *sizes)


def fold(
    cols: Array,
    *,
    out: Array,
    spatial: Ints,
    kernel: Ints,
    stride: Ints,
    padding: Pairs,
    dilation: Ints,
) -> None:
    before = tuple(a for a, _ in padding)
    windows = _windows(spatial, kernel, stride, padding, dilation)
    sizes = (spatial, kernel, windows, stride, before, dilation)
    kernel_module.fold(cols.reshape(-1), out.reshape(-1), out.shape[0], out.shape[1], *sizes)


def _windows(spatial: Ints, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints) -> Ints:
    return conv_spatial("unfold", spatial, kernel, stride, padding, dilation)


# --- im2col: columns and a matrix product, one sample at a time ---


def _product(a: Array, b: Array, c: Array, ta: bool, tb: bool) -> None:
    """c[g] = op(a[g]) @ op(b[g]) for every group g."""
    groups, m, n = c.shape
    k = a.shape[1] if ta else a.shape[2]
    steps = ((a.shape[1] * a.shape[2],), (b.shape[1] * b.shape[2],))
    gemm.matmul(a.reshape(-1), b.reshape(-1), c.reshape(-1), m, n, k, ta, tb, (groups,), *steps)


def _grouped(array: Array, groups: int, columns: int) -> Array:
    """`array` as (groups, rows, columns)."""
    return array.reshape(groups, array.shape[0] // groups, columns)


def _conv_by_columns(x: Array, w: Array, b: Array | None, out: Array, groups: int, sizes: Sizes) -> None:
    taps, outs = prod(sizes[1]), prod(sizes[2])
    weight = _grouped(w, groups, w.shape[1] * taps)
    cols = np.empty((groups, w.shape[1] * taps, outs), x.dtype)
    for image, result in zip(x, out, strict=True):
        kernel_module.unfold(image.reshape(-1), cols.reshape(-1), 1, x.shape[1], *sizes)
        _product(weight, cols, _grouped(result, groups, outs), False, False)
        if b is not None:
            result += b.reshape(-1, *(1,) * len(sizes[0]))


def _conv_input_by_columns(y_bar: Array, w: Array, out: Array, groups: int, sizes: Sizes) -> None:
    taps, outs = prod(sizes[1]), prod(sizes[2])
    weight = _grouped(w, groups, w.shape[1] * taps)
    cols = np.empty((groups, w.shape[1] * taps, outs), w.dtype)
    for cotangent, result in zip(y_bar, out, strict=True):
        _product(weight, _grouped(cotangent, groups, outs), cols, True, False)
        kernel_module.fold(cols.reshape(-1), result.reshape(-1), 1, out.shape[1], *sizes)


def _conv_weight_by_columns(x: Array, y_bar: Array, out: Array, groups: int, sizes: Sizes) -> None:
    taps, outs = prod(sizes[1]), prod(sizes[2])
    cols = np.empty((groups, out.shape[1] * taps, outs), x.dtype)
    part = np.empty((groups, out.shape[0] // groups, out.shape[1] * taps), x.dtype)
    out[...] = 0
    for image, cotangent in zip(x, y_bar, strict=True):
        kernel_module.unfold(image.reshape(-1), cols.reshape(-1), 1, x.shape[1], *sizes)
        _product(_grouped(cotangent, groups, outs), cols, part, False, True)
        out += part.reshape(out.shape)
