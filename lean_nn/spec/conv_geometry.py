"""Shapes of the convolution family: what is legal, in which words, and what comes out.

``conv``, ``conv_input`` and ``conv_weight`` are the three contractions of one form
``Σ y_bar[n,o,p] · x[n,c,p·s + k·r − before] · w[o,c,k]``; each function checks two arrays and returns the
shape of the third.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from .geometry import Ints, Pairs, bad, check_at_least, check_elements, check_length, check_pads, out_spatial


def _check_rank(op: str, name: str, layout: str, shape: Sequence[int], rank: int) -> None:
    if len(shape) != rank:
        rule = f"{name} must be {layout} with {rank} axes"
        raise bad(op, rule, f"shape {tuple(shape)}", "reshape it or change the weight")


def _check_weight_rank(op: str, layout: str, w_shape: Sequence[int]) -> None:
    if len(w_shape) < 2:
        raise bad(op, f"weight must be {layout}", f"shape {tuple(w_shape)}", "reshape it")


def _check_group_count(op: str, groups: int) -> None:
    if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
        raise bad(op, "groups must be an integer of at least 1", repr(groups), "use 1 for no groups")


def _check_groups(op: str, groups: int, channels: int, per_group: int, out: int) -> None:
    _check_group_count(op, groups)
    if channels != per_group * groups:
        got = f"{channels} channels, groups {groups}, weight channels {per_group}"
        raise bad(op, "input channels must equal groups x weight channels", got, "change the weight or groups")
    if out % groups:
        got = f"{out} output channels, groups {groups}"
        raise bad(op, "output channels must be a multiple of groups", got, "change the weight or groups")


def _check_bias(op: str, b_shape: Sequence[int] | None, out: int) -> None:
    if b_shape is not None and tuple(b_shape) != (out,):
        rule = f"bias must have shape ({out},), one entry per output channel"
        raise bad(op, rule, tuple(b_shape), "reshape it or leave it out")


def _check_batch(op: str, x_batch: int, y_batch: int) -> None:
    if x_batch != y_batch:
        got = f"{x_batch} and {y_batch}"
        raise bad(op, "input and cotangent must have the same batch size", got, "use this input's cotangent")


def _check_cotangent(op: str, got: Ints, expected: Ints) -> None:
    if got != expected:
        rule = f"cotangent must have spatial shape {expected} for this geometry"
        raise bad(op, rule, got, "use the shape of the convolution's output")


def conv_shape(
    op: str,
    x_shape: Ints,
    w_shape: Ints,
    b_shape: Ints | None,
    stride: Ints,
    pads: Pairs,
    dilation: Ints,
    groups: int,
) -> Ints:
    """``(N, O, *P)``: shape of ``conv(x[N,C,*S], w[O,C/g,*K], b[O])``.

    Examples
    --------
    >>> conv_shape("conv", (2, 4, 9), (6, 2, 3), (6,), (2,), ((1, 1),), (1,), 2)
    (2, 6, 5)
    """
    _check_weight_rank(op, "(out_channels, in_channels / groups, *kernel)", w_shape)
    _check_rank(op, "input", "(batch, channels, *spatial)", x_shape, len(w_shape))
    _check_groups(op, groups, x_shape[1], w_shape[1], w_shape[0])
    _check_bias(op, b_shape, w_shape[0])
    shape = (x_shape[0], w_shape[0], *out_spatial(op, x_shape[2:], w_shape[2:], stride, pads, dilation))
    check_elements(op, shape)
    return shape


def conv_input_shape(
    op: str,
    y_shape: Ints,
    w_shape: Ints,
    b_shape: Ints | None,
    spatial: Ints,
    stride: Ints,
    pads: Pairs,
    dilation: Ints,
    groups: int,
) -> Ints:
    """``(N, C, *S)``: shape of ``conv_input(y_bar[N,O,*P], w[O,C/g,*K], b[C]; spatial=S)``.

    Examples
    --------
    >>> conv_input_shape("conv_input", (2, 6, 5), (6, 2, 3), (4,), (9,), (2,), ((1, 1),), (1,), 2)
    (2, 4, 9)
    """
    _check_weight_rank(op, "(out_channels, in_channels / groups, *kernel)", w_shape)
    _check_rank(op, "cotangent", "(batch, out_channels, *spatial)", y_shape, len(w_shape))
    check_length(op, "spatial", spatial, len(w_shape) - 2)
    check_at_least(op, "spatial", spatial, 0)
    _check_groups(op, groups, w_shape[1] * groups, w_shape[1], w_shape[0])
    if y_shape[1] != w_shape[0]:
        got = f"{y_shape[1]} and {w_shape[0]}"
        rule = "cotangent channels must equal the weight's output channels"
        raise bad(op, rule, got, "use the cotangent of this convolution")
    _check_cotangent(op, y_shape[2:], out_spatial(op, spatial, w_shape[2:], stride, pads, dilation))
    _check_bias(op, b_shape, w_shape[1] * groups)
    shape = (y_shape[0], w_shape[1] * groups, *spatial)
    check_elements(op, shape)
    return shape


def conv_weight_shape(
    op: str,
    x_shape: Ints,
    y_shape: Ints,
    kernel: Ints,
    stride: Ints,
    pads: Pairs,
    dilation: Ints,
    groups: int,
) -> Ints:
    """``(O, C/g, *K)``: shape of ``conv_weight(x[N,C,*S], y_bar[N,O,*P]; kernel=K)``.

    Examples
    --------
    >>> conv_weight_shape("conv_weight", (2, 4, 9), (2, 6, 5), (3,), (2,), ((1, 1),), (1,), 2)
    (6, 2, 3)
    """
    rank = len(kernel) + 2
    _check_rank(op, "input", "(batch, channels, *spatial)", x_shape, rank)
    _check_rank(op, "cotangent", "(batch, out_channels, *spatial)", y_shape, rank)
    _check_batch(op, x_shape[0], y_shape[0])
    _check_group_count(op, groups)
    _check_groups(op, groups, x_shape[1], x_shape[1] // groups, y_shape[1])
    _check_cotangent(op, y_shape[2:], out_spatial(op, x_shape[2:], kernel, stride, pads, dilation))
    shape = (y_shape[1], x_shape[1] // groups, *kernel)
    check_elements(op, shape)
    return shape


def conv_transpose_shape(
    op: str,
    x_shape: Ints,
    w_shape: Ints,
    b_shape: Ints | None,
    stride: Ints,
    pads: Pairs,
    output_padding: Ints,
    dilation: Ints,
    groups: int,
) -> Ints:
    """``(N, O, *((in−1)·s − pads + dilation·(k−1) + output_padding + 1))`` for ``w[I,O/g,*K]``.

    Examples
    --------
    >>> conv_transpose_shape("conv_transpose", (2, 6, 5), (6, 2, 3), None, (2,), ((1, 1),), (0,), (1,), 2)
    (2, 4, 9)
    """
    _check_weight_rank(op, "(in_channels, out_channels / groups, *kernel)", w_shape)
    d = len(w_shape) - 2
    _check_rank(op, "input", "(batch, channels, *spatial)", x_shape, len(w_shape))
    for name, values in (("stride", stride), ("padding", pads), ("dilation", dilation)):
        check_length(op, name, values, d)
    check_length(op, "output_padding", output_padding, d)
    for name, ints in (("kernel", w_shape[2:]), ("stride", stride), ("dilation", dilation)):
        check_at_least(op, name, ints, 1)
    check_at_least(op, "output_padding", output_padding, 0)
    check_pads(op, pads)
    _check_transposed_channels(op, x_shape[1], w_shape, b_shape, groups)
    check_output_padding(op, output_padding, stride, dilation)
    axes = zip(x_shape[2:], w_shape[2:], stride, pads, output_padding, dilation, strict=True)
    spatial = tuple((n - 1) * s - sum(p) + r * (k - 1) + e + 1 for n, k, s, p, e, r in axes)
    check_transposed_spatial(op, x_shape[2:], spatial)
    shape = (x_shape[0], w_shape[1] * groups, *spatial)
    check_elements(op, shape)
    return shape


def _check_transposed_channels(op: str, channels: int, w_shape: Ints, b_shape: Ints | None, groups: int) -> None:
    _check_group_count(op, groups)
    if channels != w_shape[0]:
        got = f"{channels} and {w_shape[0]}"
        raise bad(op, "input channels must equal the weight's input channels", got, "change the weight")
    if channels % groups:
        got = f"{channels} channels, groups {groups}"
        raise bad(op, "input channels must be a multiple of groups", got, "change the weight or groups")
    _check_bias(op, b_shape, w_shape[1] * groups)


def check_output_padding(op: str, output_padding: Ints, stride: Ints, dilation: Ints) -> None:
    """``output_padding < max(stride, dilation)`` on every axis."""
    # Beyond this the extra cells are not produced by any convolution with this geometry.
    if any(e >= max(s, r) for e, s, r in zip(output_padding, stride, dilation, strict=True)):
        got = f"{output_padding} for stride {stride} and dilation {dilation}"
        raise bad(op, "output_padding must be smaller than stride or dilation", got, "use a smaller one")


def check_transposed_spatial(op: str, in_spatial: Ints, spatial: Ints) -> None:
    """The transposed convolution's output has at least one cell per axis."""
    if any(n < 1 for n in spatial):
        got = f"spatial shape {spatial} from input {in_spatial}"
        remedy = "reduce padding or enlarge input or kernel"
        raise bad(op, "output must have at least one cell per axis", got, remedy)


def unfold_shape(op: str, x_shape: Ints, kernel: Ints, stride: Ints, pads: Pairs, dilation: Ints) -> Ints:
    """``(N, C·ΠK, L)``: shape of ``unfold(x[N,C,*S]; kernel=K)``, or its error."""
    if len(x_shape) != len(kernel) + 2:
        rule = f"input must be (batch, channels, *spatial) with {len(kernel) + 2} axes"
        raise bad(op, rule, f"shape {x_shape}", "reshape it or change the kernel")
    out = out_spatial(op, x_shape[2:], kernel, stride, pads, dilation)
    shape = (x_shape[0], x_shape[1] * prod(kernel), prod(out))
    check_elements(op, shape)
    return shape


def fold_shape(
    op: str, cols_shape: Ints, spatial: Ints, kernel: Ints, stride: Ints, pads: Pairs, dilation: Ints
) -> Ints:
    """``(N, C, *S)``: shape of ``fold(cols[N,C·ΠK,L]; spatial=S, kernel=K)``, or its error."""
    check_at_least(op, "spatial", spatial, 0)
    cells = prod(kernel)
    if len(cols_shape) != 3 or (cells > 0 and cols_shape[1] % cells):
        rule = f"columns must be (batch, channels x {cells}, windows)"
        raise bad(op, rule, f"shape {cols_shape}", "use unfold's layout")
    shape = (cols_shape[0], cols_shape[1] // max(cells, 1), *spatial)
    expected = unfold_shape(op, shape, kernel, stride, pads, dilation)
    if cols_shape != expected:
        raise bad(op, f"columns must have shape {expected}", cols_shape, "use unfold's layout")
    check_elements(op, shape)
    return shape
