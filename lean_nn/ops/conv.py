"""Convolution: one trilinear form, three contractions, every derivative of any order among them.

For an image x[N,C,*S], a weight w[O,C/g,*K] and an array y[N,O,*P] of output cells let

    T(x, w, y) = Σ x̃[n, c, p·s + k·d − pad] · w[o, c, k] · y[n, o, p],      x̃ = 0 outside the image.

T is linear in each of the three. Leaving one of them out gives an array of its shape:

=================  ==============  ===================================================
``conv``           without y       the convolution
``conv_input``     without x       its transpose in x; transposed convolution is this call
``conv_weight``    without w       its transpose in w
=================  ==============  ===================================================

The derivative of a contraction with respect to one of its two arguments, weighted with a cotangent of its result's
shape, is T again with the cotangent in the place of the result: the contraction that leaves out the argument. So
the family is closed. The bias, one number per channel of what ``conv`` or ``conv_input`` gives, adds ``T(1, …)``'s
simplest relative, a broadcast, whose transpose is a sum.

``unfold`` (im2col) writes the cells each output reads as columns; ``fold`` (col2im) is its transpose.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

from lean_nn.backend import cpu_bilinear, cpu_conv
from lean_nn.ops.broadcast import broadcast_to
from lean_nn.ops.broadcast import sum as sum_over
from lean_nn.ops.shape import reshape
from lean_nn.primitive import Aval, Exact, Gamma, Primitive, check_float, check_same_float, meaning, primitive
from lean_nn.spec.conv_geometry import conv_input_shape, conv_shape, conv_weight_shape, fold_shape, unfold_shape

Ints = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]

# The checks are pure functions of shapes and parameters: a step of training asks the same few questions over and over.
_conv_shape = lru_cache(1024)(conv_shape)
_conv_input_shape = lru_cache(1024)(conv_input_shape)
_conv_weight_shape = lru_cache(1024)(conv_weight_shape)
_unfold_shape = lru_cache(1024)(unfold_shape)
_fold_shape = lru_cache(1024)(fold_shape)


# --- conv ---


def _conv_abstract(
    x: Aval, w: Aval, b: Aval | None = None, *, stride: Ints, padding: Pairs, dilation: Ints, groups: int
) -> Aval:
    dtype = check_same_float("conv", x, w) if b is None else check_same_float("conv", x, w, b)
    bias = None if b is None else b.shape
    return Aval(_conv_shape("conv", x.shape, w.shape, bias, stride, padding, dilation, groups), dtype)


def _bias_tangent(t: Any, y: Any, x: Any, w: Any, b: Any, **geometry: Any) -> Any:
    return _per_channel(t, _conv_shape("conv", x.shape, w.shape, b.shape, **_named(geometry)))


def _per_channel(b: Any, shape: Ints) -> Any:
    """One number per channel, repeated to `shape`."""
    return broadcast_to(reshape(b, shape=(1, shape[1], *(1,) * (len(shape) - 2))), shape=shape)


def _named(geometry: dict[str, Any]) -> dict[str, Any]:
    """The parameters under the names the shape functions have for them."""
    return {"pads" if name == "padding" else name: value for name, value in geometry.items()}


def _bias_cotangent(g: Any, y: Any, x: Any, w: Any, b: Any, **geometry: Any) -> Any:
    return sum_over(g, axes=(0, *range(2, len(g.shape))), keepdims=False)


conv: Primitive = primitive(
    "conv",
    abstract=_conv_abstract,
    spec=meaning("conv"),
    cpu=cpu_conv.conv_by_columns,
    step=cpu_conv.conv_step,
    dual=cpu_bilinear.dual(cpu_conv.conv_step),
    jvp=(
        lambda t, y, x, w, b=None, **geometry: conv(t, w, **geometry),
        lambda t, y, x, w, b=None, **geometry: conv(x, t, **geometry),
        _bias_tangent,
    ),
    vjp=(
        lambda g, y, x, w, b=None, **geometry: conv_input(g, w, spatial=x.shape[2:], **geometry),
        lambda g, y, x, w, b=None, **geometry: conv_weight(x, g, kernel=w.shape[2:], **geometry),
        _bias_cotangent,
    ),
    accuracy=Gamma(lambda x, w, b=None, **_: prod(w.shape[1:]) + 1, "C/groups · cells of the kernel + 1"),
)

# --- conv_input ---


def _conv_input_abstract(
    y_bar: Aval, w: Aval, b: Aval | None = None, *, spatial: Ints, stride: Ints, padding: Pairs, dilation: Ints, groups: int
) -> Aval:
    dtype = check_same_float("conv_input", y_bar, w) if b is None else check_same_float("conv_input", y_bar, w, b)
    bias = None if b is None else b.shape
    return Aval(_conv_input_shape("conv_input", y_bar.shape, w.shape, bias, spatial, stride, padding, dilation, groups), dtype)


def _input_bias_tangent(t: Any, y: Any, y_bar: Any, w: Any, b: Any, *, spatial: Ints, **_: Any) -> Any:
    return _per_channel(t, (y_bar.shape[0], b.shape[0], *spatial))


conv_input: Primitive = primitive(
    "conv_input",
    abstract=_conv_input_abstract,
    spec=meaning("conv_input"),
    cpu=cpu_conv.conv_input_by_columns,
    step=cpu_conv.conv_input_step,
    dual=cpu_bilinear.dual(cpu_conv.conv_input_step),
    jvp=(
        lambda t, y, y_bar, w, b=None, **geometry: conv_input(t, w, **geometry),
        lambda t, y, y_bar, w, b=None, **geometry: conv_input(y_bar, t, **geometry),
        _input_bias_tangent,
    ),
    vjp=(
        lambda g, y, y_bar, w, b=None, *, spatial, **geometry: conv(g, w, **geometry),
        lambda g, y, y_bar, w, b=None, *, spatial, **geometry: conv_weight(g, y_bar, kernel=w.shape[2:], **geometry),
        _bias_cotangent,
    ),
    accuracy=Gamma(lambda y_bar, w, b=None, *, groups, **_: w.shape[0] // groups * prod(w.shape[2:]) + 1,
                   "O/groups · cells of the kernel + 1"),
)

# --- conv_weight ---


def _conv_weight_abstract(
    x: Aval, y_bar: Aval, *, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints, groups: int
) -> Aval:
    dtype = check_same_float("conv_weight", x, y_bar)
    shape = _conv_weight_shape("conv_weight", x.shape, y_bar.shape, kernel, stride, padding, dilation, groups)
    return Aval(shape, dtype)


conv_weight: Primitive = primitive(
    "conv_weight",
    abstract=_conv_weight_abstract,
    spec=meaning("conv_weight"),
    cpu=cpu_conv.conv_weight_by_columns,
    step=cpu_conv.conv_weight_step,
    linear=(0, 1),
    vjp=(
        lambda g, y, x, y_bar, *, kernel, **geometry: conv_input(y_bar, g, spatial=x.shape[2:], **geometry),
        lambda g, y, x, y_bar, *, kernel, **geometry: conv(x, g, **geometry),
    ),
    accuracy=Gamma(lambda x, y_bar, **_: x.shape[0] * prod(y_bar.shape[2:]), "N · positions of the output"),
)

# --- unfold and fold ---


def _unfold_abstract(x: Aval, *, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints) -> Aval:
    check_float("unfold", x)
    return Aval(_unfold_shape("unfold", x.shape, kernel, stride, padding, dilation), x.dtype)


def _fold_abstract(
    cols: Aval, *, spatial: Ints, kernel: Ints, stride: Ints, padding: Pairs, dilation: Ints
) -> Aval:
    check_float("fold", cols)
    return Aval(_fold_shape("fold", cols.shape, spatial, kernel, stride, padding, dilation), cols.dtype)


unfold: Primitive = primitive(
    "unfold",
    abstract=_unfold_abstract,
    spec=meaning("unfold"),
    step=cpu_conv.unfold_step,
    linear=(0,),
    vjp=(lambda g, y, x, **window: fold(g, spatial=x.shape[2:], **window),),
    accuracy=Exact(),
)

fold: Primitive = primitive(
    "fold",
    abstract=_fold_abstract,
    spec=meaning("fold"),
    step=cpu_conv.fold_step,
    linear=(0,),
    vjp=(lambda g, y, cols, *, spatial, **window: unfold(g, **window),),
    accuracy=Gamma(lambda cols, *, kernel, **_: prod(kernel), "cells of the kernel"),
)
