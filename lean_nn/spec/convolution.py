"""Convolution by definition: one trilinear form, three contractions, and their derivatives.

``F(x, w, y) = Σ y[n,o,p] · x[n,c,p·s + k·r − before] · w[o,c,k]`` over all terms whose cell is inside.

* ``conv`` is F without y, ``conv_input`` without x, ``conv_weight`` without w.
* F is linear in each, so the three are one another's derivatives, and the adjoint identity is F = F.
* Transposed convolution is ``conv_input`` read forwards.

Any number of spatial axes, none included (then it is a linear layer). Arrays are ``(N, C, *S)``; `conv` and
`conv_transpose` and their derivatives also take one sample ``(C, *S)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .container import Array, ArrayLike, as_array, zeros
from .conv_geometry import conv_input_shape, conv_shape, conv_transpose_shape, conv_weight_shape
from .geometry import (
    Ints,
    Pairs,
    check_same_shape,
    indices,
    named_padding,
    pad_pairs,
    padded_coords,
    per_axis,
    unpad_coords,
)

IntLike = int | Sequence[int]
Padding = int | str | Sequence[int] | Sequence[Sequence[int]]


class Geometry(NamedTuple):
    """stride, pads, dilation as tuples."""

    stride: Ints
    pads: Pairs
    dilation: Ints


def _geometry(op: str, kernel: Ints, stride: IntLike, padding: Padding, dilation: IntLike) -> Geometry:
    d = len(kernel)
    strides, dilations = per_axis(op, "stride", stride, d), per_axis(op, "dilation", dilation, d)
    if isinstance(padding, str):
        return Geometry(strides, named_padding(op, padding, kernel, strides, dilations), dilations)
    return Geometry(strides, pad_pairs(op, padding, d), dilations)


def _taps(out: Ints, kernel: Ints, spatial: Ints, g: Geometry) -> Iterator[tuple[Ints, Ints, Ints]]:
    """All ``(p, k, q)``: window p meets real cell q through kernel cell k."""
    before = [a for a, _ in g.pads]
    for p in indices(out):
        for k in indices(kernel):
            q = unpad_coords(padded_coords(p, k, g.stride, g.dilation), before, spatial)
            if q is not None:
                yield p, k, q


def _contract(
    shapes: tuple[Ints, Ints, Ints],
    groups: int,
    g: Geometry,
    term: Callable[[tuple[int, ...], tuple[int, ...], tuple[int, ...]], None],
) -> None:
    """Call ``term(x index, w index, y index)`` for every term of the form; shapes are those of x, w, y."""
    x_shape, w_shape, y_shape = shapes
    per_group, out_per_group = w_shape[1], w_shape[0] // groups
    taps = list(_taps(y_shape[2:], w_shape[2:], x_shape[2:], g))
    for n in range(x_shape[0]):
        for o in range(w_shape[0]):
            for c in range(per_group):
                channel = (o // out_per_group) * per_group + c
                for p, k, q in taps:
                    term((n, channel, *q), (o, c, *k), (n, o, *p))


def _gather(x: Array, w: Array, y_shape: Ints, groups: int, g: Geometry) -> Array:
    y = zeros(y_shape)

    def term(i: Ints, j: Ints, o: Ints) -> None:
        y[o] = y[o] + x[i] * w[j]

    _contract((x.shape, w.shape, y_shape), groups, g, term)
    return y


def _scatter(y: Array, w: Array, x_shape: Ints, groups: int, g: Geometry) -> Array:
    x = zeros(x_shape)

    def term(i: Ints, j: Ints, o: Ints) -> None:
        x[i] = x[i] + y[o] * w[j]

    _contract((x_shape, w.shape, y.shape), groups, g, term)
    return x


def _correlate(x: Array, y: Array, w_shape: Ints, groups: int, g: Geometry) -> Array:
    w = zeros(w_shape)

    def term(i: Ints, j: Ints, o: Ints) -> None:
        w[j] = w[j] + x[i] * y[o]

    _contract((x.shape, w_shape, y.shape), groups, g, term)
    return w


def _batched(x: ArrayLike, rank: int) -> tuple[Array, bool]:
    a = as_array(x)
    return (a[None], True) if a.ndim == rank - 1 else (a, False)


def _add_bias(y: Array, b: Array | None) -> Array:
    if b is not None:
        for i in indices(y.shape):
            y[i] = y[i] + b[i[1]]
    return y


def _bias_bar(y_bar: Array) -> Array:
    b = zeros(y_bar.shape[1:2])
    for i in indices(y_bar.shape):
        b[i[1]] = b[i[1]] + y_bar[i]
    return b


# --- the three contractions ---------------------------------------------------------------------------------


def conv(
    x: ArrayLike,
    w: ArrayLike,
    b: ArrayLike | None = None,
    *,
    stride: IntLike = 1,
    padding: Padding = 0,
    dilation: IntLike = 1,
    groups: int = 1,
) -> Array:
    """``y[n,o,p] = Σ_c Σ_k x̃[n,c,p·s + k·r − before] · w[o,c,k] + b[o]``, with x̃ = 0 in the padding.

    Examples
    --------
    >>> conv([[1, 2, 3, 4]], [[[1, 10]]], stride=2).tolist()
    [[21, 43]]
    """
    w = as_array(w)
    bias = None if b is None else as_array(b)
    xs, single = _batched(x, w.ndim)
    g = _geometry("conv", w.shape[2:], stride, padding, dilation)
    shape = conv_shape("conv", xs.shape, w.shape, None if bias is None else bias.shape, *g, groups)
    y = _add_bias(_gather(xs, w, shape, groups, g), bias)
    return y[0] if single else y


def conv_input(
    y_bar: ArrayLike,
    w: ArrayLike,
    b: ArrayLike | None = None,
    *,
    spatial: Sequence[int],
    stride: IntLike = 1,
    padding: Padding = 0,
    dilation: IntLike = 1,
    groups: int = 1,
) -> Array:
    """``x[n,c,q] = Σ_o Σ_{p·s + k·r − before = q} y_bar[n,o,p] · w[o,c,k] + b[c]``: conv's transpose in x.

    Examples
    --------
    >>> conv_input([[[21, 43]]], [[[1, 10]]], spatial=(4,), stride=2).tolist()
    [[[21, 210, 43, 430]]]
    """
    y_bar, w, size = as_array(y_bar), as_array(w), tuple(spatial)
    bias = None if b is None else as_array(b)
    g = _geometry("conv_input", w.shape[2:], stride, padding, dilation)
    shape = conv_input_shape("conv_input", y_bar.shape, w.shape, None if bias is None else bias.shape, size, *g, groups)
    return _add_bias(_scatter(y_bar, w, shape, groups, g), bias)


def conv_weight(
    x: ArrayLike,
    y_bar: ArrayLike,
    *,
    kernel: Sequence[int],
    stride: IntLike = 1,
    padding: Padding = 0,
    dilation: IntLike = 1,
    groups: int = 1,
) -> Array:
    """``w[o,c,k] = Σ_n Σ_p x̃[n,c,p·s + k·r − before] · y_bar[n,o,p]``: conv's transpose in w.

    Examples
    --------
    >>> conv_weight([[[1, 2, 3, 4]]], [[[1, 1]]], kernel=(2,), stride=2).tolist()
    [[[4, 6]]]
    """
    x, y_bar, size = as_array(x), as_array(y_bar), tuple(kernel)
    g = _geometry("conv_weight", size, stride, padding, dilation)
    shape = conv_weight_shape("conv_weight", x.shape, y_bar.shape, size, *g, groups)
    return _correlate(x, y_bar, shape, groups, g)


# --- derivatives --------------------------------------------------------------------------------------------


def conv_jvp(
    x: ArrayLike,
    w: ArrayLike,
    b: ArrayLike | None,
    x_dot: ArrayLike | None,
    w_dot: ArrayLike | None,
    b_dot: ArrayLike | None = None,
    **geometry: Any,
) -> Array:
    """``conv(ẋ, w) + conv(x, ẇ) + ḃ``; a tangent that is None is zero."""
    return _bilinear_jvp(conv, x, w, b, x_dot, w_dot, b_dot, geometry)


def conv_vjp(
    y_bar: ArrayLike,
    x: ArrayLike,
    w: ArrayLike,
    *,
    stride: IntLike = 1,
    padding: Padding = 0,
    dilation: IntLike = 1,
    groups: int = 1,
) -> tuple[Array, Array, Array]:
    """``(conv_input(ȳ, w), conv_weight(x, ȳ), Σ_{n,p} ȳ)``: cotangents of x, w and b."""
    w = as_array(w)
    xs, single = _batched(x, w.ndim)
    ys, _ = _batched(y_bar, w.ndim)
    g = _geometry("conv", w.shape[2:], stride, padding, dilation)
    shape = conv_shape("conv", xs.shape, w.shape, None, *g, groups)
    check_same_shape("conv", "cotangent", ys.shape, shape)
    x_bar = _scatter(ys, w, xs.shape, groups, g)
    return x_bar[0] if single else x_bar, _correlate(xs, ys, w.shape, groups, g), _bias_bar(ys)


def _bilinear_jvp(
    f: Callable[..., Array],
    x: ArrayLike,
    w: ArrayLike,
    b: ArrayLike | None,
    x_dot: ArrayLike | None,
    w_dot: ArrayLike | None,
    b_dot: ArrayLike | None,
    geometry: dict[str, Any],
) -> Array:
    name = f.__name__
    for label, dot, of in (
        ("tangent of x", x_dot, x),
        ("tangent of w", w_dot, w),
        ("tangent of b", b_dot, b),
    ):
        if dot is not None and of is not None:
            check_same_shape(name, label, as_array(dot).shape, as_array(of).shape)
    by_x = f(zeros(as_array(x).shape) if x_dot is None else x_dot, w, b_dot, **geometry)
    return by_x if w_dot is None else by_x + f(x, w_dot, None, **geometry)


# --- transposed convolution ---------------------------------------------------------------------------------


def conv_transpose(
    x: ArrayLike,
    w: ArrayLike,
    b: ArrayLike | None = None,
    *,
    stride: IntLike = 1,
    padding: Padding = 0,
    output_padding: IntLike = 0,
    dilation: IntLike = 1,
    groups: int = 1,
) -> Array:
    """``y[n,o,q] = Σ_i Σ_{p·s + k·r − before = q} x[n,i,p] · w[i,o,k] + b[o]``.

    Output size ``(in−1)·s − pads + r·(k−1) + output_padding + 1``.

    Examples
    --------
    >>> conv_transpose([[1, 2]], [[[1, 10]]], stride=2).tolist()
    [[1, 10, 2, 20]]
    """
    w = as_array(w)
    bias = None if b is None else as_array(b)
    xs, single = _batched(x, w.ndim)
    shape, g = _transposed(xs.shape, w.shape, bias, stride, padding, output_padding, dilation, groups)
    y = _add_bias(_scatter(xs, w, shape, groups, g), bias)
    return y[0] if single else y


def conv_transpose_jvp(
    x: ArrayLike,
    w: ArrayLike,
    b: ArrayLike | None,
    x_dot: ArrayLike | None,
    w_dot: ArrayLike | None,
    b_dot: ArrayLike | None = None,
    **geometry: Any,
) -> Array:
    """``conv_transpose(ẋ, w) + conv_transpose(x, ẇ) + ḃ``; a tangent that is None is zero."""
    return _bilinear_jvp(conv_transpose, x, w, b, x_dot, w_dot, b_dot, geometry)


def conv_transpose_vjp(
    y_bar: ArrayLike,
    x: ArrayLike,
    w: ArrayLike,
    *,
    stride: IntLike = 1,
    padding: Padding = 0,
    output_padding: IntLike = 0,
    dilation: IntLike = 1,
    groups: int = 1,
) -> tuple[Array, Array, Array]:
    """``(conv(ȳ, w), conv_weight(ȳ, x), Σ_{n,q} ȳ)``: cotangents of x, w and b."""
    w = as_array(w)
    xs, single = _batched(x, w.ndim)
    ys, _ = _batched(y_bar, w.ndim)
    shape, g = _transposed(xs.shape, w.shape, None, stride, padding, output_padding, dilation, groups)
    check_same_shape("conv_transpose", "cotangent", ys.shape, shape)
    x_bar = _gather(ys, w, xs.shape, groups, g)
    return x_bar[0] if single else x_bar, _correlate(ys, xs, w.shape, groups, g), _bias_bar(ys)


def _transposed(
    x_shape: Ints,
    w_shape: Ints,
    bias: np.ndarray[Any, Any] | None,
    stride: IntLike,
    padding: Padding,
    output_padding: IntLike,
    dilation: IntLike,
    groups: int,
) -> tuple[Ints, Geometry]:
    op = "conv_transpose"
    g = _geometry(op, w_shape[2:], stride, padding, dilation)
    extra = per_axis(op, "output_padding", output_padding, len(w_shape) - 2)
    b_shape = None if bias is None else bias.shape
    shape = conv_transpose_shape(op, x_shape, w_shape, b_shape, g.stride, g.pads, extra, g.dilation, groups)
    return shape, g
