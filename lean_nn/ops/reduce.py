"""Along one axis: extremes with their places, log-sum-exp, softmax. (sum is in `lean_nn.ops.broadcast`.)

* max and min give (y, idx); the derivative is a look-up at idx, so forward it is `gather`, in reverse `scatter_add`.
* softmax has the symmetric slope diag(y) − y yᵀ: `softmax_slope` serves both modes, in one pass over memory.
* `expect`, the mean of t with the weights of a softmax, is the slope of logsumexp, and all that log_softmax takes from its
  tangent; in reverse log_softmax has `log_softmax_transpose`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lean_nn.backend import cpu_index, cpu_reduce
from lean_nn.ops.broadcast import check_axes, without
from lean_nn.ops.broadcast import sum as total
from lean_nn.ops.elementwise import exp, mul, neg, sub
from lean_nn.ops.indexing import gather, scatter_add
from lean_nn.ops.shape import reshape
from lean_nn.primitive import Aval, Exact, Primitive, Within, check_float, check_same_float, meaning, primitive
from lean_nn.spec.geometry import bad

Shape = tuple[int, ...]


def _check_line(op: str, x: Aval, axis: int) -> None:
    check_float(op, x)
    check_axes(op, x.shape, (axis,))


def _check_filled(op: str, x: Aval, axis: int) -> None:
    _check_line(op, x, axis)
    if x.shape[axis] == 0:
        raise bad(op, "the reduced axis must not be empty", f"shape {x.shape}, axis {axis}", "give it one element")


# --- max and min ---


def _kept(x: Any, like: Any, axis: int) -> Any:
    """`x`, which lacks the axis, with the axis as 1."""
    return reshape(x, shape=without(like.shape, (axis,), True))


def _extreme(name: str, least: bool) -> Primitive:
    def abstract(x: Aval, *, axis: int) -> tuple[Aval, Aval]:
        _check_filled(name, x, axis)
        shape = without(x.shape, (axis,), False)
        return Aval(shape, x.dtype), Aval(shape, np.dtype(np.int64))

    def tangent(t: Any, y: Any, x: Any, *, axis: int) -> tuple[Any, None]:
        return reshape(gather(t, _kept(y[1], x, axis), axis=axis), shape=y[1].shape), None

    def cotangent(g: Any, y: Any, x: Any, *, axis: int) -> Any:
        return scatter_add(_kept(g[0], x, axis), _kept(y[1], x, axis), axis=axis, size=x.shape[axis])

    step = cpu_reduce.extreme(name, least)
    return primitive(
        name, abstract=abstract, spec=meaning(name), step=step, dual=cpu_index.found(step, cpu_index.at_extremes()),
        jvp=(tangent,), vjp=(cotangent,), differentiable_out=(True, False), saves_output=True, accuracy=Exact(),
    )  # fmt: skip


max: Primitive = _extreme("max", False)
min: Primitive = _extreme("min", True)

# --- logsumexp, softmax, log_softmax ---


def _sum_along(x: Any, axis: int) -> Any:
    return total(x, axes=(axis,), keepdims=True)


def roundings(n: int) -> float:
    """Of a sum of n exponentials (see ``lines.h``), with its terms' own: Σ p·|x − m| ≤ log n."""
    return 40 + n / 32 + 2 * float(np.log(n)) if n else 0


def _depth(x: Any, axis: int) -> Any:
    """m − x: how far below the line's maximum; a rounding of it is a relative error of exp(x − m)."""
    return x.max(axis, keepdims=True, initial=-np.inf) - x


def _logsumexp_bound(u: float, x: Any, *, axis: int) -> Any:
    """u·(2·|y| + 2·|max x| + K), K = 40 + n/32 + 2·log n for n terms."""
    high = x.max(axis)
    value = np.where(np.isfinite(high), high + np.log(np.exp(-_depth(x, axis)).sum(axis)), 0)
    return u * (2 * np.abs(value) + 2 * np.abs(high) + roundings(x.shape[axis]))


def _softmax_bound(u: float, x: Any, *, axis: int) -> Any:
    """u·y·(max x − x + K), K = 40 + n/32 + 2·log n for n terms."""
    depth = _depth(x, axis)
    e = np.exp(-depth)
    return u * e / e.sum(axis, keepdims=True) * (depth + roundings(x.shape[axis])) + np.finfo(np.float32).tiny


def _log_softmax_bound(u: float, x: Any, *, axis: int) -> Any:
    """u·(3·|y| + K), K = 40 + n/32 + 2·log n for n terms."""
    depth = _depth(x, axis)
    return u * (3 * depth + 3 * np.log(np.exp(-depth).sum(axis, keepdims=True)) + roundings(x.shape[axis]))


def _logsumexp_abstract(x: Aval, *, axis: int) -> Aval:
    _check_filled("logsumexp", x, axis)
    return Aval(without(x.shape, (axis,), False), x.dtype)


def _line_abstract(name: str) -> Any:
    def abstract(x: Aval, *, axis: int) -> Aval:
        _check_line(name, x, axis)
        return x

    return abstract


_logsumexp_step = cpu_reduce.soft("logsumexp")
_softmax_step = cpu_reduce.soft("softmax")
_log_softmax_step = cpu_reduce.soft("log_softmax")

logsumexp: Primitive = primitive(
    "logsumexp",
    abstract=_logsumexp_abstract,
    spec=meaning("logsumexp"),
    step=_logsumexp_step,
    dual=cpu_reduce.soft_dual("logsumexp"),
    jvp=(lambda t, y, x, *, axis: expect(t, x, axis=axis),),
    vjp=(lambda g, y, x, *, axis: mul(_kept(g, x, axis), softmax(x, axis=axis)),),
    accuracy=Within(_logsumexp_bound),
)


softmax: Primitive = primitive(
    "softmax",
    abstract=_line_abstract("softmax"),
    spec=meaning("softmax"),
    step=_softmax_step,
    jvp=(lambda t, y, x, *, axis: softmax_slope(t, y, axis=axis),),
    vjp=(lambda g, y, x, *, axis: softmax_slope(g, y, axis=axis),),
    saves_output=True,
    accuracy=Within(_softmax_bound),
)

log_softmax: Primitive = primitive(
    "log_softmax",
    abstract=_line_abstract("log_softmax"),
    spec=meaning("log_softmax"),
    step=_log_softmax_step,
    dual=cpu_reduce.soft_dual("log_softmax"),
    jvp=(lambda t, y, x, *, axis: sub(t, _kept(expect(t, x, axis=axis), t, axis)),),
    vjp=(lambda g, y, x, *, axis: log_softmax_transpose(g, y, axis=axis),),
    saves_output=True,
    accuracy=Within(_log_softmax_bound),
)

# --- their slopes ---

TINY = float(np.finfo(np.float32).tiny)


def _like(op: str, t: Aval, x: Aval, axis: int) -> None:
    check_same_float(op, t, x)
    _check_line(op, x, axis)
    if t.shape != x.shape:
        raise bad(op, "both arguments have one shape", f"{t.shape} and {x.shape}", "broadcast one of them")


def _slope_abstract(name: str) -> Any:
    def abstract(t: Aval, x: Aval, *, axis: int) -> Aval:
        _like(name, t, x, axis)
        return x

    return abstract


def _expect_abstract(t: Aval, x: Aval, *, axis: int) -> Aval:
    _like("expect", t, x, axis)
    return Aval(without(x.shape, (axis,), False), x.dtype)


def _slope_bound(u: float, t: Any, y: Any, *, axis: int) -> Any:
    """K·u·|y|·(|t| + Σ |y·t|), K = 40 + n/32 + 2·log n for n terms."""
    size = np.abs(t) + np.abs(y * t).sum(axis, keepdims=True)
    return roundings(t.shape[axis]) * u * np.abs(y) * size + TINY


def _transpose_bound(u: float, g: Any, y: Any, *, axis: int) -> Any:
    """K·u·(|g| + exp(y)·Σ |g|), K = 40 + n/32 + 2·log n for n terms."""
    return roundings(g.shape[axis]) * u * (np.abs(g) + np.exp(y) * np.abs(g).sum(axis, keepdims=True)) + TINY


def _expect_bound(u: float, t: Any, x: Any, *, axis: int) -> Any:
    """u·Σ p·|t|·(max x − x + K), K = 40 + n/32 + 2·log n for n terms."""
    depth = _depth(x, axis)
    e = np.exp(-depth)
    terms = e / e.sum(axis, keepdims=True) * np.abs(t) * (depth + roundings(x.shape[axis]))
    return u * terms.sum(axis) + TINY * (1 + np.abs(t).sum(axis))


def _slope_in_y(s: Any, out: Any, t: Any, y: Any, *, axis: int) -> Any:
    """s·(t − Σ y·t) − y·Σ s·t."""
    own = mul(s, sub(t, _sum_along(mul(y, t), axis)))
    return sub(own, mul(y, _sum_along(mul(s, t), axis)))


def _slope_to_y(g: Any, out: Any, t: Any, y: Any, *, axis: int) -> Any:
    """g·(t − Σ y·t) − t·Σ g·y."""
    own = mul(g, sub(t, _sum_along(mul(y, t), axis)))
    return sub(own, mul(t, _sum_along(mul(g, y), axis)))


_slope_step = cpu_reduce.soft("softmax_slope")

softmax_slope: Primitive = primitive(
    "softmax_slope",
    abstract=_slope_abstract("softmax_slope"),
    spec=meaning("softmax_slope"),
    step=_slope_step,
    linear=(0,),
    jvp=(None, _slope_in_y),
    vjp=(lambda g, out, t, y, *, axis: softmax_slope(g, y, axis=axis), _slope_to_y),
    accuracy=Within(_slope_bound),
)


def _unlogged(s: Any, out: Any, g: Any, y: Any, *, axis: int) -> Any:
    """−s·exp(y)·Σ g: how g − exp(y)·Σ g moves with y, and what y gets of it."""
    return neg(mul(mul(s, exp(y)), _sum_along(g, axis)))


_transpose_step = cpu_reduce.soft("log_softmax_transpose")

log_softmax_transpose: Primitive = primitive(
    "log_softmax_transpose",
    abstract=_slope_abstract("log_softmax_transpose"),
    spec=meaning("log_softmax_transpose"),
    step=_transpose_step,
    linear=(0,),
    jvp=(None, _unlogged),
    vjp=(lambda h, out, g, y, *, axis: sub(h, _sum_along(mul(exp(y), h), axis)), _unlogged),
    accuracy=Within(_transpose_bound),
)


def _expect_in_x(s: Any, out: Any, t: Any, x: Any, *, axis: int) -> Any:
    """The covariance of s and t."""
    apart = mul(expect(s, x, axis=axis), expect(t, x, axis=axis))
    return sub(expect(mul(s, t), x, axis=axis), apart)


def _expect_to_x(g: Any, out: Any, t: Any, x: Any, *, axis: int) -> Any:
    return mul(_kept(g, x, axis), softmax_slope(t, softmax(x, axis=axis), axis=axis))


_expect_step = cpu_reduce.soft("expect")

expect: Primitive = primitive(
    "expect",
    abstract=_expect_abstract,
    spec=meaning("expect"),
    step=_expect_step,
    linear=(0,),
    jvp=(None, _expect_in_x),
    vjp=(lambda g, out, t, x, *, axis: mul(_kept(g, x, axis), softmax(x, axis=axis)), _expect_to_x),
    accuracy=Within(_expect_bound),
)
