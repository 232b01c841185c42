"""Convolution on NumPy arrays: a record's parameters as the kernels' arguments, and the choice of algorithm.

The kernels choose for themselves ("auto"). `algorithm` forces one, for tests and for comparing numerics:

============  =====================================================================================
"taps"        a product over kernel cells on padded planes; nothing is unfolded (``lean_nn_c/taps.pyx``)
"points"      the same sums, results side by side: the image is read as it lies, padding never (``_points.pxd``)
"winograd"    products of transformed tiles: 3 × 3 and sums of such (``winograd.pyx``)
"strips"      few channels, a small padded copy at a time; where none fits, "direct" (``direct.pyx``)
"depthwise"   channels one by one, no copies: lanes beyond an edge are masked (``_depthwise.pxd``)
"spread"      conv_input as one product, whose rows are then added to their places (``_spread.pxd``)
"direct"      the definition, tap by tap (``lean_nn_c/direct.pyx``)
"im2col"      ``unfold`` (or ``fold``) and a matrix product, one sample at a time
============  =====================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from lean_nn.backend.cpu_linear import matmul_step
from lean_nn.primitive import Aval
from lean_nn.window import conv_spatial
from lean_nn_c import conv as kernels
from lean_nn_c import engine
from lean_nn_c.step import Step

Array = np.ndarray[Any, np.dtype[Any]]
Ints = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]
Sizes = tuple[int, int, int, int, Ints, Ints, Ints, Ints, Ints, Ints]

ALGORITHMS = ("auto", "taps", "points", "winograd", "strips", "depthwise", "spread", "direct", "im2col")


@contextmanager
def algorithm(name: str) -> Iterator[None]:
    """Compute convolutions by `name` inside the block: one of `ALGORITHMS`."""
    if name not in ALGORITHMS:
        raise ValueError(f"algorithm: unknown; got {name!r}; choose from {ALGORITHMS}")
    before = engine.set_variant(ALGORITHMS.index(name))
    try:
        yield
    finally:
        engine.set_variant(before)


def _chosen() -> str:
    return ALGORITHMS[engine.get_variant()]


def _step(
    name: str, wide: bool, bias: bool, x: Ints, w: Ints, y: Ints, stride: Ints, padding: Pairs, dilation: Ints, groups: int,
    by: str, **tail: Any,
) -> Step:  # fmt: skip
    """The kernel for image, weight and output of these shapes; `tail`: what follows the sums, and a packed weight."""
    return kernels.step(name, wide, bias, *_sizes(x, w, y, stride, padding, dilation, groups), by, **tail)


def _sizes(x: Ints, w: Ints, y: Ints, stride: Ints, padding: Pairs, dilation: Ints, groups: int) -> Sizes:
    """The kernels' way to say a geometry; only the padding before an axis matters to them."""
    before = tuple(a for a, _ in padding)
    return x[0], x[1], w[0], groups, x[2:], w[2:], y[2:], stride, before, dilation


def _is_wide(a: Any) -> bool:
    return bool(a.dtype == np.float64)


# --- steps ---


def conv_step(x: Aval, w: Aval, b: Aval | None = None, *, out: tuple[Aval], **params: Any) -> Step | None:
    """`params` are the geometry, and what else the kernel takes: ``other``, ``act``, ``slope``, ``packed``."""
    return _planned("conv", _is_wide(x), b is not None, x.shape, w.shape, out[0].shape, params)


def conv_input_step(
    y_bar: Aval, w: Aval, b: Aval | None = None, *, out: tuple[Aval], spatial: Ints, **params: Any
) -> Step | None:
    return _planned("conv_input", _is_wide(w), b is not None, out[0].shape, w.shape, y_bar.shape, params)


def pack_step(name: str, source: Aval, w: Aval, out: Aval, spatial: Ints = (), **geometry: Any) -> Step | None:
    """A step (weight, packed weight) for a conv or conv_input; None where its algorithm takes the weight as it is."""
    x, y = (source, out) if name == "conv" else (out, source)
    by = _chosen()
    return None if by == "im2col" else kernels.pack(name, _is_wide(w), *_sizes(x.shape, w.shape, y.shape, **geometry), by)


def conv_weight_step(x: Aval, y_bar: Aval, *, out: tuple[Aval], kernel: Ints, **geometry: Any) -> Step | None:
    return _planned("conv_weight", _is_wide(x), False, x.shape, out[0].shape, y_bar.shape, geometry)


def both_step(
    y_bar: Aval, w: Aval, x: Aval, *, stride: Ints, padding: Pairs, dilation: Ints, groups: int, **more: Any
) -> Step | None:
    """A step (y_bar, w, x[, other][, gate][, head's four], x_bar, w_bar) of conv_input and conv_weight; None where there is none.

    `more` is what the kernel takes: ``other``, ``act``, ``slope`` of x_bar, ``head`` of x.
    """
    by = _chosen()
    sizes = _sizes(x.shape, w.shape, y_bar.shape, stride, padding, dilation, groups)
    return None if by == "im2col" else kernels.both(_is_wide(x), *sizes, by, **more)


def takes_head(x: Aval, w: Aval, y: Aval, **geometry: Any) -> bool:
    """Whether a conv can read relu(batch norm of x) where x lies."""
    by = _chosen()
    return by != "im2col" and kernels.headed(_is_wide(x), *_sizes(x.shape, w.shape, y.shape, **geometry), by)


def winners_step(name: str, x: Aval, w: Aval, g: Aval, cells: Ints, **geometry: Any) -> Step | None:
    """A step of conv_weight (x, g, idx, w_bar) or conv_input (g, idx, w, x_bar), g being at the winners idx of a pooling over
    outputs of shape `cells`, one in each window, in float32; None where spreading g pays, or an algorithm was asked for.
    """
    if _is_wide(x) or _chosen() != "auto":
        return None
    sizes = _sizes(x.shape, w.shape, (*g.shape[:2], *cells), **geometry)
    return kernels.winners(name, prod(g.shape[2:]), *sizes)


def _planned(name: str, wide: bool, bias: bool, x: Ints, w: Ints, y: Ints, geometry: dict[str, Any]) -> Step | None:
    by = _chosen()
    return None if by == "im2col" else _step(name, wide, bias, x, w, y, **geometry, by=by)


def _columns(name: str, wide: bool, x: Ints, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints) -> Step:
    """unfold or fold of images of shape `x`."""
    windows = conv_spatial(name, x[2:], kernel, stride, padding, dilation)
    n, c = x[:2]
    return _step(name, wide, False, x, (c, c, *kernel), (n, c, *windows), stride, padding, dilation, 1, "auto")


def unfold_step(x: Aval, *, out: tuple[Aval], kernel: Ints, **window: Any) -> Step:
    return _columns("unfold", _is_wide(x), x.shape, kernel, **window)


def fold_step(cols: Aval, *, out: tuple[Aval], spatial: Ints, kernel: Ints, **window: Any) -> Step:
    return _columns("fold", _is_wide(cols), out[0].shape, kernel, **window)


# --- im2col: columns and a matrix product, one sample at a time ---


def _grouped(array: Array, groups: int, columns: int) -> Array:
    """`array` as (groups, rows, columns)."""
    return array.reshape(groups, array.shape[0] // groups, columns)


def _product(a: Any, b: Any, out: Any, **turned: bool) -> None:
    matmul_step(a, b, out=(out,), **turned)(a, b, out)


def conv_by_columns(x: Array, w: Array, b: Array | None = None, *, out: Array, groups: int, **window: Any) -> None:
    taps, outs = prod(w.shape[2:]), prod(out.shape[2:])
    weight = _grouped(w, groups, w.shape[1] * taps)
    cols = np.empty((groups, w.shape[1] * taps, outs), x.dtype)
    unfold = _columns("unfold", _is_wide(x), (1, *x.shape[1:]), w.shape[2:], **window)
    for image, result in zip(x, out, strict=True):
        unfold(image, cols)
        _product(weight, cols, _grouped(result, groups, outs))
        if b is not None:
            result += b.reshape(-1, *(1,) * (out.ndim - 2))


def conv_input_by_columns(
    y_bar: Array, w: Array, b: Array | None = None, *, out: Array, spatial: Ints, groups: int, **window: Any
) -> None:
    taps, outs = prod(w.shape[2:]), prod(y_bar.shape[2:])
    weight = _grouped(w, groups, w.shape[1] * taps)
    cols = np.empty((groups, w.shape[1] * taps, outs), w.dtype)
    fold = _columns("fold", _is_wide(w), (1, *out.shape[1:]), w.shape[2:], **window)
    for cotangent, result in zip(y_bar, out, strict=True):
        _product(weight, _grouped(cotangent, groups, outs), cols, ta=True)
        fold(cols, result)
    if b is not None:
        out += b.reshape(-1, *(1,) * (out.ndim - 2))


def conv_weight_by_columns(x: Array, y_bar: Array, *, out: Array, kernel: Ints, groups: int, **window: Any) -> None:
    taps, outs = prod(kernel), prod(y_bar.shape[2:])
    cols = np.empty((groups, out.shape[1] * taps, outs), x.dtype)
    part = np.empty((groups, out.shape[0] // groups, out.shape[1] * taps), x.dtype)
    unfold = _columns("unfold", _is_wide(x), (1, *x.shape[1:]), kernel, **window)
    out[...] = 0
    for image, cotangent in zip(x, y_bar, strict=True):
        unfold(image, cols)
        _product(_grouped(cotangent, groups, outs), cols, part, tb=True)
        out += part.reshape(out.shape)
