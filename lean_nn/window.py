"""Window geometry by closed formula: the only output-size formulas outside the spec, and the kernels' tables.

=====================  ==========================================================================
`Window`               kernel, stride, padding, dilation, ceil_mode: a strided window per axis
`Bins`                 output sizes: adaptive windows, which share the axis out among the outputs
`strided`              from what people write (ints, tuples, pairs) to a checked-for-type `Window`
`conv_window`          the same for convolution, with ``"same"`` and ``"valid"``
`conv_spatial`         output sizes of convolution
`transposed_spatial`   output sizes of transposed convolution
=====================  ==========================================================================

A window is a box of real cells: on each axis the cells ``first[p] + step·i`` for ``i < count[p]``. That is
all a pooling kernel knows, so strided and adaptive pooling are one kernel (`Window.tables`, `Bins.tables`).
The words of every error are in ``lean_nn/spec/geometry.py``, which counts windows instead of computing their
number; a test shows that the two agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from lean_nn.spec.conv_geometry import check_output_padding, check_transposed_spatial
from lean_nn.spec.geometry import (
    Ints,
    Pairs,
    check_adaptive,
    check_at_least,
    check_length,
    check_pads,
    check_window,
    named_padding,
    pad_pairs,
    per_axis,
)

__all__ = [
    "AxisTable", "Bins", "Ints", "PackedTables", "Pairs", "Window", "conv_spatial", "conv_window", "strided",
    "transposed_spatial",
]

Int64s = np.ndarray[Any, np.dtype[np.int64]]
Padding = int | Sequence[int] | Sequence[Sequence[int]]
# Tables of that many geometries are kept; each is a few numbers per row and column.
CACHED = 256


class AxisTable:
    """The windows of one axis: which cells each has, and which windows may have a given cell.

    `first`, `count`, `divisor` and `begin` have one entry per output: the first real cell, the number of real
    cells, the number of cells inside the padded axis, and the start as if the axis had no ends. `low` and
    `high` have one entry per input cell j: only windows ``low[j] <= p < high[j]`` can hold it, and they do
    when ``(j − begin[p]) % step == 0``. Where all windows are alike `stride` is their distance, else 0.
    """

    __slots__ = ("begin", "count", "divisor", "first", "high", "kernel", "low", "step", "stride")

    def __init__(
        self, first: Int64s, count: Int64s, divisor: Int64s, begin: Int64s, low: Int64s, high: Int64s,
        step: int, stride: int, kernel: int,
    ) -> None:  # fmt: skip
        self.first, self.count, self.divisor, self.begin = first, count, divisor, begin
        self.low, self.high, self.step, self.stride, self.kernel = low, high, step, stride, kernel


class PackedTables(NamedTuple):
    """All axes' tables as the three flat arrays that kernels read.

    axes
        per axis: input size, output size, step, stride (0: irregular), start of window 0, kernel
    outputs
        per axis: `first`, `count`, `divisor`, `begin`
    inputs
        per axis: `low`, `high`
    """

    axes: Int64s
    outputs: Int64s
    inputs: Int64s


class Window(NamedTuple):
    """``out = (in + before + after − dilation·(kernel − 1) − 1) // stride + 1``: a strided window per axis.

    Parameters
    ----------
    kernel, stride, dilation : tuple of int
        One entry per spatial axis.
    padding : tuple of (int, int)
        Cells before and after, per spatial axis.
    ceil_mode : bool
        Round the division up; a last window that would start in the trailing padding is dropped.

    Examples
    --------
    >>> Window((3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)).out_spatial((112, 112))
    (56, 56)
    """

    kernel: Ints
    stride: Ints
    padding: Pairs
    dilation: Ints
    ceil_mode: bool = False

    @property
    def rank(self) -> int:
        """Number of spatial axes."""
        return len(self.kernel)

    def out_spatial(self, in_spatial: Ints, op: str = "window") -> Ints:
        """Number of windows on each axis; raises `op`'s error where none fits."""
        sizes = _sizes(self, in_spatial)
        if sizes is None:
            self.check(in_spatial, op)
        return sizes or self.sizes(in_spatial)

    def check(self, in_spatial: Ints, op: str) -> None:
        """Raise `op`'s error unless at least one window fits on each axis."""
        check_window(op, in_spatial, self.kernel, self.stride, self.padding, self.dilation, self.ceil_mode)

    def sizes(self, in_spatial: Ints) -> Ints:
        """Number of windows on each axis of an input they fit."""
        axes = zip(in_spatial, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        return tuple(_windows(n, k, s, pad, r, self.ceil_mode) for n, k, s, pad, r in axes)

    def tables(self, in_spatial: Ints) -> tuple[AxisTable, ...]:
        """One `AxisTable` per axis."""
        return _tables(self, in_spatial)

    def packed(self, in_spatial: Ints) -> PackedTables:
        """The tables in the kernels' form."""
        return _packed(self, in_spatial)

    def axis_table(self, axis: int, n: int, out: int) -> AxisTable:
        """The table of one axis of `n` cells and `out` windows."""
        k, s, r = self.kernel[axis], self.stride[axis], self.dilation[axis]
        before, after = self.padding[axis]
        begin = np.arange(out, dtype=np.int64) * s - before
        hidden = np.minimum(_cells_below(begin, 0, r), k)
        count = np.minimum(_cells_below(begin, n, r), k) - hidden
        divisor = np.minimum(_cells_below(begin, n + after, r), k)
        first = np.where(count > 0, begin + hidden * r, 0)
        low, high = _covers(begin, begin + (k - 1) * r, n)
        return AxisTable(first, count, divisor, begin, low, high, r, s, k)


class Bins(NamedTuple):
    """Bin i covers ``[floor(i·in/out), ceil((i+1)·in/out))``: adaptive windows on each axis.

    Parameters
    ----------
    output : tuple of int or None
        Number of bins per spatial axis; None keeps the axis.

    Examples
    --------
    >>> Bins((7, None)).out_spatial((15, 4))
    (7, 4)
    """

    output: tuple[int | None, ...]

    @property
    def rank(self) -> int:
        """Number of spatial axes."""
        return len(self.output)

    def out_spatial(self, in_spatial: Ints, op: str = "window") -> Ints:
        """Number of bins on each axis; raises `op`'s error for an empty axis or a size below 1."""
        sizes = _sizes(self, in_spatial)
        if sizes is None:
            self.check(in_spatial, op)
        return sizes or self.sizes(in_spatial)

    def check(self, in_spatial: Ints, op: str) -> None:
        """Raise `op`'s error unless every bin has a cell."""
        check_length(op, "output_size", self.output, len(in_spatial))
        check_adaptive(op, in_spatial, self.sizes(in_spatial))

    def sizes(self, in_spatial: Ints) -> Ints:
        """Number of bins on each axis."""
        return tuple(n if out is None else out for n, out in zip(in_spatial, self.output, strict=True))

    def tables(self, in_spatial: Ints) -> tuple[AxisTable, ...]:
        """One `AxisTable` per axis."""
        return _tables(self, in_spatial)

    def packed(self, in_spatial: Ints) -> PackedTables:
        """The tables in the kernels' form."""
        return _packed(self, in_spatial)

    def axis_table(self, axis: int, n: int, out: int) -> AxisTable:
        """The table of one axis of `n` cells and `out` bins."""
        first = _scaled(np.arange(out, dtype=np.int64), n, out)
        end = -_scaled(-np.arange(1, out + 1, dtype=np.int64), n, out)
        count = end - first
        low, high = _covers(first, end - 1, n)
        steps = np.diff(first)
        alike = out > 1 and steps[0] > 0 and bool(np.all(steps == steps[0]) and np.all(count == count[0]))
        stride = int(steps[0]) if alike else 0
        return AxisTable(first, count, count, first, low, high, 1, stride, int(count.max()))


def strided(
    op: str,
    d: int,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: Padding = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> Window:
    """``(k, s, p, r) → Window``: pooling arguments as people write them; a missing stride is the kernel.

    Examples
    --------
    >>> strided("max_pool", 2, 3, 2, (1, (0, 1)))
    Window(kernel=(3, 3), stride=(2, 2), padding=((1, 1), (0, 1)), dilation=(1, 1), ceil_mode=False)
    """
    if type(kernel_size) is type(padding) is type(dilation) is int and (stride is None or type(stride) is int):
        return _uniform(d, kernel_size, kernel_size if stride is None else stride, padding, dilation, bool(ceil_mode))
    kernel = per_axis(op, "kernel", kernel_size, d)
    strides = kernel if stride is None else per_axis(op, "stride", stride, d)
    pads, dilations = pad_pairs(op, padding, d), per_axis(op, "dilation", dilation, d)
    return Window(kernel, strides, pads, dilations, bool(ceil_mode))


@lru_cache(CACHED)
def _uniform(d: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> Window:
    """The commonest windows, the same on every axis: made once, so that their tables are found by identity."""
    return Window((kernel,) * d, (stride,) * d, ((padding, padding),) * d, (dilation,) * d, ceil_mode)


def conv_window(
    op: str,
    kernel: Ints,
    stride: int | Sequence[int] = 1,
    padding: Padding | str = 0,
    dilation: int | Sequence[int] = 1,
) -> Window:
    """``(k, s, p, r) → Window``: convolution arguments as people write them, ``"same"`` and ``"valid"`` too.

    Examples
    --------
    >>> conv_window("conv", (3, 4), padding="same").padding
    ((1, 1), (1, 2))
    """
    if type(stride) is type(padding) is type(dilation) is int:
        return _plain_conv_window(op, kernel, stride, padding, dilation)
    return _conv_window(op, kernel, stride, padding, dilation)


def _conv_window(
    op: str, kernel: Ints, stride: int | Sequence[int], padding: Padding | str, dilation: int | Sequence[int]
) -> Window:
    d = len(kernel)
    strides, dilations = per_axis(op, "stride", stride, d), per_axis(op, "dilation", dilation, d)
    for name, values in (("kernel", kernel), ("stride", strides), ("dilation", dilations)):
        check_at_least(op, name, values, 1)
    if isinstance(padding, str):
        return Window(kernel, strides, named_padding(op, padding, kernel, strides, dilations), dilations)
    return Window(kernel, strides, pad_pairs(op, padding, d), dilations)


_plain_conv_window = lru_cache(CACHED)(_conv_window)  # the commonest, checked once


def conv_spatial(
    op: str, in_spatial: Ints, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> Ints:
    """``(in + before + after − dilation·(k−1) − 1) // stride + 1``: a convolution's output, or its error.

    Examples
    --------
    >>> conv_spatial("conv", (224, 224), (7, 7), (2, 2), ((3, 3), (3, 3)), (1, 1))
    (112, 112)
    """
    return Window(kernel, stride, padding, dilation).out_spatial(in_spatial, op)


def transposed_spatial(
    op: str,
    in_spatial: Ints,
    kernel: Ints,
    stride: Ints,
    padding: Pairs,
    dilation: Ints,
    output_padding: Ints,
) -> Ints:
    """``(in−1)·stride − before − after + dilation·(k−1) + output_padding + 1``: the transposed output size.

    Examples
    --------
    >>> transposed_spatial("conv_transpose", (32,), (4,), (2,), ((1, 1),), (1,), (0,))
    (64,)
    """
    lists = {"kernel": kernel, "stride": stride, "padding": padding, "output_padding": output_padding}
    for name, entries in {**lists, "dilation": dilation}.items():
        check_length(op, name, entries, len(in_spatial))
    for name, values in (("kernel", kernel), ("stride", stride), ("dilation", dilation)):
        check_at_least(op, name, values, 1)
    check_at_least(op, "output_padding", output_padding, 0)
    check_pads(op, padding)
    check_output_padding(op, output_padding, stride, dilation)
    axes = zip(in_spatial, kernel, stride, padding, dilation, output_padding, strict=True)
    spatial = tuple((n - 1) * s - a - b + r * (k - 1) + e + 1 for n, k, s, (a, b), r, e in axes)
    check_transposed_spatial(op, in_spatial, spatial)
    return spatial


def _windows(n: int, k: int, s: int, pad: tuple[int, int], r: int, ceil_mode: bool) -> int:
    room = n + pad[0] + pad[1] - r * (k - 1) - 1
    if not ceil_mode:
        return room // s + 1
    out = -(-room // s) + 1
    return out - 1 if (out - 1) * s >= n + pad[0] else out


def _cells_below(begin: Int64s, bound: int, step: int) -> Int64s:
    """How many of ``begin, begin + step, …`` lie below `bound`."""
    below: Int64s = np.maximum(0, -((begin - bound) // step))
    return below


def _scaled(i: Int64s, n: int, out: int) -> Int64s:
    """``floor(i·n / out)`` without overflow: i and out are axis sizes, n·i need not fit."""
    if n < 2**31 and out < 2**31:
        return i * n // out
    return np.array([int(v) * n // out for v in i], dtype=np.int64)


def _covers(begin: Int64s, last: Int64s, n: int) -> tuple[Int64s, Int64s]:
    cells = np.arange(n, dtype=np.int64)
    low, high = np.searchsorted(last, cells, "left"), np.searchsorted(begin, cells, "right")
    return low.astype(np.int64), high.astype(np.int64)


@lru_cache(CACHED)
def _sizes(window: Window | Bins, in_spatial: Ints) -> Ints | None:
    """The sizes of a geometry that was checked, None of one that is wrong: the words depend on who asks."""
    try:
        window.check(in_spatial, "window")
    except ValueError:
        return None
    return window.sizes(in_spatial)


@lru_cache(CACHED)
def _tables(window: Window | Bins, in_spatial: Ints) -> tuple[AxisTable, ...]:
    sizes = zip(in_spatial, window.out_spatial(in_spatial), strict=True)
    return tuple(window.axis_table(axis, n, out) for axis, (n, out) in enumerate(sizes))


@lru_cache(CACHED)
def _packed(window: Window | Bins, in_spatial: Ints) -> PackedTables:
    tables = window.tables(in_spatial)
    axes, outputs, inputs = [], [], []
    for n, t in zip(in_spatial, tables, strict=True):
        start = int(t.begin[0]) if len(t.begin) else 0
        axes.append([n, len(t.first), t.step, t.stride, start, t.kernel])
        outputs += [t.first, t.count, t.divisor, t.begin]
        inputs += [t.low, t.high]
    flat = np.array(axes, np.int64).reshape(-1)
    packed = PackedTables(flat, np.concatenate(outputs), np.concatenate(inputs))
    for array in packed:
        array.setflags(write=False)
    return packed
