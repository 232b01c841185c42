"""Window geometry by definition: coordinates, counted windows, and the words of every geometry error.

This is the one home of the error texts about windows, padding, channels and sizes: ``op: rule; got values;
remedy``. Every layer calls these checks, so the spec, the eager operators, the tape and the graph say the
same words. Sizes are *counted* here (how many window starts are there?); ``lean_nn/window.py`` has the closed
formulas, and a test shows that both agree. The convolution family's shapes are in ``conv_geometry.py``.

Conventions
-----------
spatial, kernel, stride, dilation
    tuples of ints, one entry per spatial axis
pads
    tuple of ``(before, after)`` pairs, one per spatial axis
span
    cells from the first to the last cell of a dilated window: ``dilation * (kernel - 1) + 1``
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from operator import index as as_index

import numpy as np

Ints = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]

# Arrays of 8-byte elements must be addressable: one less than 2**63 bytes.
MAX_ELEMENTS = (2**63 - 1) // 8


def bad(op: str, rule: str, got: object, remedy: str) -> ValueError:
    """The one wording of a geometry error: ``op: rule; got values; remedy``."""
    return ValueError(f"{op}: {rule}; got {got}; {remedy}")


def broadcast_shape(op: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's rule: axes are matched from the right, 1 stretches."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        got = " and ".join(str(s) for s in shapes)
        raise bad(op, "shapes must broadcast", got, "reshape one of them") from None


# --- arguments: from what people write to tuples ----------------------------------------------------------


def _int(op: str, name: str, value: object) -> int:
    try:
        if not isinstance(value, bool):
            return as_index(value)  # type: ignore[arg-type]
    except TypeError:
        pass
    raise TypeError(f"{op}: {name} must be an integer; got {value!r}; use an int or a tuple of ints")


def per_axis(op: str, name: str, value: int | Sequence[int], d: int) -> Ints:
    """``v -> (v, …, v)`` or one entry per axis: the tuple of ``d`` ints that ``value`` means.

    Examples
    --------
    >>> per_axis("max_pool", "stride", 2, 3)
    (2, 2, 2)
    >>> per_axis("max_pool", "stride", [1, 2], 2)
    (1, 2)
    """
    if not isinstance(value, (tuple, list)):
        return (_int(op, name, value),) * d
    entries = tuple(_int(op, name, v) for v in value)
    check_length(op, name, entries, d)
    return entries


def pad_pairs(op: str, value: int | Sequence[int] | Sequence[Sequence[int]], d: int) -> Pairs:
    """``p -> ((p, p), …)``: padding from an int, one int per axis, or one ``(before, after)`` pair per axis.

    Examples
    --------
    >>> pad_pairs("conv", 1, 2)
    ((1, 1), (1, 1))
    >>> pad_pairs("conv", [(0, 1), 2], 2)
    ((0, 1), (2, 2))
    """
    if not isinstance(value, (tuple, list)):
        return ((_int(op, "padding", value),) * 2,) * d
    check_length(op, "padding", tuple(value), d)
    pairs = []
    for entry in value:
        if not isinstance(entry, (tuple, list)):
            pairs.append((_int(op, "padding", entry),) * 2)
        elif len(entry) == 2:
            pairs.append((_int(op, "padding", entry[0]), _int(op, "padding", entry[1])))
        else:
            raise bad(op, "padding of an axis is an int or (before, after)", tuple(entry), "give two entries")
    return tuple(pairs)


def named_padding(op: str, name: str, kernel: Ints, stride: Ints, dilation: Ints) -> Pairs:
    """``total = dilation·(k−1)``, the smaller half before: the pads that "valid" or "same" stand for.

    Examples
    --------
    >>> named_padding("conv", "same", (4,), (1,), (1,))
    ((1, 2),)
    """
    if name == "valid":
        return ((0, 0),) * len(kernel)
    if name != "same":
        raise bad(op, 'padding names are "same" and "valid"', repr(name), "use one of them or ints")
    if any(s != 1 for s in stride):
        raise bad(op, 'padding "same" needs stride 1', f"stride {stride}", "give the padding as ints")
    totals = [r * (k - 1) for k, r in zip(kernel, dilation, strict=True)]
    return tuple((t // 2, t - t // 2) for t in totals)


# --- checks: nothing is allocated before they pass --------------------------------------------------------


def check_length(op: str, name: str, entries: Sequence[object], d: int) -> None:
    """One entry per spatial axis."""
    if len(entries) != d:
        got = f"{tuple(entries)} for {d} spatial axes"
        raise bad(op, f"{name} needs one entry per spatial axis", got, f"give {d} entries or one int")


def check_at_least(op: str, name: str, values: Ints, least: int) -> None:
    """Every entry is at least ``least``, and small enough to count with."""
    if any(v < least for v in values):
        rule = f"{name} must be at least {least}" if least else f"{name} must not be negative"
        raise bad(op, rule, values, f"use integers >= {least}")
    if any(v > MAX_ELEMENTS for v in values):
        raise bad(op, f"{name} must not exceed {MAX_ELEMENTS}", values, "use smaller sizes")


def check_pads(op: str, pads: Pairs) -> None:
    """Padding is a pair of non-negative ints per axis."""
    if any(v < 0 for pair in pads for v in pair):
        raise bad(op, "padding must not be negative", pads, "use integers >= 0, or slice the input")
    if any(v > MAX_ELEMENTS for pair in pads for v in pair):
        raise bad(op, f"padding must not exceed {MAX_ELEMENTS}", pads, "use smaller sizes")


def check_elements(op: str, shape: Sequence[int], what: str = "output") -> None:
    """The array is addressable: at most ``MAX_ELEMENTS`` elements."""
    if math.prod(shape) > MAX_ELEMENTS:
        rule = f"{what} must not exceed {MAX_ELEMENTS} elements"
        raise bad(op, rule, f"shape {tuple(shape)}", "use smaller sizes")


def check_window(
    op: str,
    in_spatial: Ints,
    kernel: Ints,
    stride: Ints,
    pads: Pairs,
    dilation: Ints,
    ceil_mode: bool = False,
) -> None:
    """``dilation·(k−1) + 1 <= in + before + after`` on every axis: entries are legal and a window fits.

    With ``ceil_mode`` the window may stick out at the end by less than one stride, as in PyTorch.
    """
    d = len(in_spatial)
    for name, entries in (("kernel", kernel), ("stride", stride), ("padding", pads), ("dilation", dilation)):
        check_length(op, name, entries, d)
    for name, values in (("kernel", kernel), ("stride", stride), ("dilation", dilation)):
        check_at_least(op, name, values, 1)
    check_pads(op, pads)
    spans, padded = window_spans(kernel, dilation), padded_spatial(in_spatial, pads)
    for axis in range(d):
        if spans[axis] > padded[axis] + (stride[axis] - 1 if ceil_mode else 0):
            raise ValueError(
                f"{op}: kernel {kernel} with dilation {dilation} spans {spans}, larger than padded input "
                f"{padded} on spatial axis {axis}; reduce kernel or dilation, or add padding"
            )
    check_elements(op, padded, "padded input")


def check_pool_rank(op: str, shape: Sequence[int], d: int) -> None:
    """Pooling over ``d`` axes takes ``(*S)``, ``(C, *S)`` or ``(N, C, *S)``."""
    if not d <= len(shape) <= d + 2:
        layouts = "(*spatial), (channels, *spatial) or (batch, channels, *spatial)"
        rule = f"input must be {layouts} with {d} spatial axes"
        raise bad(op, rule, f"shape {tuple(shape)}", "reshape it or change the kernel")


def check_adaptive(op: str, in_spatial: Ints, output: Ints) -> None:
    """Every bin has a cell: input axes are not empty, output sizes at least 1."""
    check_length(op, "output_size", output, len(in_spatial))
    check_at_least(op, "output_size", output, 1)
    if any(n < 1 for n in in_spatial):
        got = f"spatial shape {in_spatial}"
        raise bad(op, "spatial axes must not be empty", got, "give at least one cell per axis")


def check_beta(op: str, beta: object) -> None:
    """β is a finite number other than 0 (for scalars that can be compared and subtracted)."""
    zero = beta - beta  # type: ignore[operator]
    if zero != zero or beta == zero:  # inf − inf and NaN − NaN are NaN
        raise refused_beta(op, beta)


def refused_beta(op: str, beta: object) -> ValueError:
    """The error for a β that is none."""
    remedy = "use beta > 0 for a smooth maximum, beta < 0 for a smooth minimum"
    return bad(op, "beta must be finite and not 0", beta, remedy)


def check_divisor(op: str, divisor: object) -> None:
    """``divisor_override`` is None or a non-zero integer."""
    if divisor is not None and _int(op, "divisor_override", divisor) == 0:
        raise bad(op, "divisor_override must not be 0", 0, "use a non-zero int or None")


def check_same_shape(op: str, name: str, got: Sequence[int], expected: Sequence[int]) -> None:
    """An array that must match another: a tangent its primal, a cotangent its output."""
    if tuple(got) != tuple(expected):
        raise bad(op, f"{name} must have shape {tuple(expected)}", tuple(got), "reshape or recompute it")


# --- sizes, by counting -----------------------------------------------------------------------------------


def window_spans(kernel: Ints, dilation: Ints) -> Ints:
    """``dilation·(k−1) + 1``: cells from the first to the last cell of a window, per axis."""
    return tuple(r * (k - 1) + 1 for k, r in zip(kernel, dilation, strict=True))


def padded_spatial(in_spatial: Ints, pads: Pairs) -> Ints:
    """``in + before + after`` per axis."""
    return tuple(n + a + b for n, (a, b) in zip(in_spatial, pads, strict=True))


def window_starts(n: int, k: int, s: int, pad: tuple[int, int], r: int, ceil_mode: bool = False) -> range:
    """``0, s, 2s, …``: where windows start on one axis, in padded coordinates.

    A window counts when it ends inside the padded axis; with ``ceil_mode`` also when it sticks out by less
    than a stride, but then the last window is dropped if it starts in the trailing padding.

    Examples
    --------
    >>> list(window_starts(5, 2, 2, (0, 0), 1)), list(window_starts(5, 2, 2, (0, 0), 1, ceil_mode=True))
    ([0, 2], [0, 2, 4])
    """
    room = n + pad[0] + pad[1] - (r * (k - 1) + 1)
    starts = range(0, room + (s if ceil_mode else 1), s)
    if ceil_mode and starts and starts[-1] >= n + pad[0]:
        starts = starts[:-1]
    return starts


def out_spatial(
    op: str,
    in_spatial: Ints,
    kernel: Ints,
    stride: Ints,
    pads: Pairs,
    dilation: Ints,
    ceil_mode: bool = False,
) -> Ints:
    """Number of windows per axis, counted; raises what ``check_window`` raises.

    Examples
    --------
    >>> out_spatial("conv", (5, 5), (3, 3), (2, 1), ((1, 1), (0, 0)), (1, 1))
    (3, 3)
    """
    check_window(op, in_spatial, kernel, stride, pads, dilation, ceil_mode)
    axes = zip(in_spatial, kernel, stride, pads, dilation, strict=True)
    return tuple(len(window_starts(n, k, s, p, r, ceil_mode)) for n, k, s, p, r in axes)


def adaptive_start(in_size: int, out_size: int, i: int) -> int:
    """``floor(i · in / out)``: first cell of adaptive bin ``i``."""
    return i * in_size // out_size


def adaptive_end(in_size: int, out_size: int, i: int) -> int:
    """``ceil((i + 1) · in / out)``: one past the last cell of adaptive bin ``i``."""
    return -(-(i + 1) * in_size // out_size)


# --- coordinates ------------------------------------------------------------------------------------------


def indices(dims: Sequence[int]) -> Iterator[Ints]:
    """All index tuples of an array of shape ``dims``, row-major."""
    return product(*(range(n) for n in dims))


def padded_coords(out_idx: Ints, win_idx: Ints, stride: Ints, dilation: Ints | None = None) -> Ints:
    """``p·s + k·dilation``: the padded coordinate of cell ``win_idx`` of window ``out_idx``."""
    steps = dilation if dilation is not None else (1,) * len(stride)
    return tuple(p * s + k * r for p, k, s, r in zip(out_idx, win_idx, stride, steps, strict=True))


def unpad_coords(padded: Ints, padding: Sequence[int], in_spatial: Ints | None = None) -> Ints | None:
    """``padded − before``, or None for a padding cell (beyond the end only where ``in_spatial`` is given)."""
    coords = tuple(q - a for q, a in zip(padded, padding, strict=True))
    if any(q < 0 for q in coords):
        return None
    if in_spatial is not None and any(q >= n for q, n in zip(coords, in_spatial, strict=True)):
        return None
    return coords


def flat_index(coords: Ints, dims: Sequence[int]) -> int:
    """Row-major position of ``coords`` in an array of shape ``dims``."""
    position = 0
    for q, n in zip(coords, dims, strict=True):
        position = position * n + q
    return position
