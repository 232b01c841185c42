"""Losses of a prediction and a target of one shape, summed in the pass that computes them; and their slope, one pass as well.

With d = x − t, and σ the sigmoid::

    kind        value ℓ(x, t)                      slope k(x, t)
    square      d²                                 d, half of ∂ℓ/∂x: the rules put the 2 into g
    abs         |d|                                sign(d)
    huber       c·(d − c/2), c = d within ±delta   c
    logistic    (1 − t)·x + softplus(−x)           σ(x) − t

    pair_loss        (x, t) ↦ ℓ, or Σ ℓ, or Σ ℓ / n, as `reduction` says
    pair_loss_slope  (g, x, t) ↦ g·k(x, t), g one number or one per element

In t the slope is −k, and −x for the logistic loss. The slope is linear in g; where x or t moves, the rules are products. The dual
sums the tangents' terms in the order of the values', which is not that of `sum`: both are within the bound of a sum.
"""

from __future__ import annotations

from math import inf, prod
from typing import Any

import numpy as np

from lean_nn.backend import cpu_chain
from lean_nn.backend.cpu_chain import INPUTS, OUT, TANGENT, Op
from lean_nn.convert import zeros_like
from lean_nn.ops.broadcast import broadcast_to, sum_to
from lean_nn.ops.broadcast import sum as total
from lean_nn.ops.elementwise import add, clip_gate, div, mul, neg, sigmoid, sigmoid_gate, sub
from lean_nn.primitive import Aval, Joint, Primitive, Within, check_same_float, primitive
from lean_nn.spec import pair_loss as spec
from lean_nn_c.reduce import roundings
from lean_nn_c.step import Step

KINDS = ("square", "abs", "huber", "logistic")
A, B = INPUTS, INPUTS + 1  # temporaries of a chain


def _check(op: str, x: Aval, t: Aval, kind: str) -> None:
    check_same_float(op, x, t)
    if x.shape != t.shape:
        raise ValueError(f"{op}: input and target have one shape; got {x.shape} and {t.shape}; reshape one of them")
    if kind not in KINDS:
        raise ValueError(f"{op}: kind is one of {KINDS}; got {kind!r}; choose one of them")


# --- the values ---


def _abstract(x: Aval, t: Aval, *, kind: str, delta: float, reduction: str) -> Aval:
    _check("pair_loss", x, t, kind)
    return Aval(x.shape if reduction == "none" else (), x.dtype)


def _values(kind: str, delta: float) -> list[Op]:
    """The chain of x (0) and t (1)."""
    if kind == "logistic":
        return [("neg", (0,), A, ()), ("softplus", (A,), A, (1.0, inf)), ("mul", (1, 0), B, ()), ("sub", (0, B), B, ()),
                ("add", (B, A), OUT, ())]  # fmt: skip
    last: Op = {"square": ("square", (A,), OUT, ()), "abs": ("abs", (A,), OUT, ()), "huber": ("huber", (A,), OUT, (delta,))}[kind]
    return [("sub", (0, 1), A, ()), last]


def _step(*avals: Aval, out: tuple[Aval], kind: str, delta: float, reduction: str) -> Step:
    return _by_chain(avals, out[0], _values(kind, delta), reduction, 1.0)


def _by_chain(avals: tuple[Aval, ...], out: Aval, ops: list[Op], reduction: str, *times: float) -> Step:
    """What `ops` leave in each output, or its sum or mean, these `times` a power of two: they are divided by less."""
    if reduction == "none":
        return cpu_chain.chain("pair_loss", avals, out, ops, {}, len(times))
    n = prod(avals[0].shape) if reduction == "mean" else 1.0
    return cpu_chain.total("pair_loss", avals, ops, *(n / k for k in times))


def _slope(kind: str, delta: float, x: int, t: int) -> list[Op]:
    """The chain that leaves k in A."""
    if kind == "logistic":
        return [("sigmoid", (x,), A, ()), ("sub", (A, t), A, ())]
    last: dict[str, list[Op]] = {"abs": [("sign", (A,), A, ())], "huber": [("clip", (A,), A, (-delta, delta))]}
    return [("sub", (x, t), A, ()), *last.get(kind, [])]


def _tangents(kind: str, delta: float, both: bool, times: float) -> list[Op]:
    """The chain of x (0), t (1), ẋ (2) and, where both move, ṫ (3) that leaves k·(ẋ − ṫ), `times` 2 or as it is.

    It comes after that of the values, which has left x − t in A unless they are logistic.
    """
    moved = B if both or times == 2 else 2
    ops: list[Op] = [("sub", (2, 3), B, ())] if both else []
    if times == 2:
        ops += [("add", (B, B) if both else (2, 2), B, ())]
    if kind == "abs":
        return [*ops, ("sign_gate", (moved, A), TANGENT, ())]
    slope = _slope(kind, delta, 0, 1)
    return [*(slope if kind == "logistic" else slope[1:]), *ops, ("mul", (A, moved), TANGENT, ())]


def _dual(*avals: Aval, moves: tuple[bool, bool], out: tuple[Aval], kind: str, delta: float, reduction: str) -> Step | None:
    """Where x moves, or both: the tangent is k·(ẋ − ṫ), reduced as the values are; of squares twice that, a sum's all at once."""
    if not moves[0] or (kind == "logistic" and moves[1]):
        return None
    times = 2.0 if kind == "square" else 1.0
    ops = [*_values(kind, delta), *_tangents(kind, delta, moves[1], times if reduction == "none" else 1.0)]
    return _by_chain((*avals, *avals)[: 2 + sum(moves)], out[0], ops, reduction, 1.0, times)


def _reduced(values: Any, reduction: str, n: int) -> Any:
    if reduction == "none":
        return values
    whole = total(values, axes=tuple(range(len(values.shape))), keepdims=False)
    return div(whole, float(n)) if reduction == "mean" else whole


def _share(g: Any, kind: str, reduction: str, n: int) -> Any:
    """What an element's slope is weighted by."""
    g = div(g, float(n)) if reduction == "mean" and n else g
    return mul(g, 2.0) if kind == "square" else g


def _in_x(s: Any, y: Any, x: Any, t: Any, *, kind: str, delta: float, reduction: str) -> Any:
    moved = pair_loss_slope(mul(s, 2.0) if kind == "square" else s, x, t, kind=kind, delta=delta)
    return _reduced(moved, reduction, x.size)


def _in_t(s: Any, y: Any, x: Any, t: Any, *, kind: str, delta: float, reduction: str) -> Any:
    if kind == "logistic":
        return neg(_reduced(mul(s, x), reduction, x.size))
    return neg(_in_x(s, y, x, t, kind=kind, delta=delta, reduction=reduction))


def _push(tangents: tuple[Any, Any], y: Any, x: Any, t: Any, *, kind: str, delta: float, reduction: str) -> Any:
    """All kinds but the logistic one are functions of x − t."""
    x_dot, t_dot = tangents
    params: Any = {"kind": kind, "delta": delta, "reduction": reduction}
    if x_dot is None or t_dot is None:
        return _in_t(t_dot, y, x, t, **params) if x_dot is None else _in_x(x_dot, y, x, t, **params)
    if kind == "logistic":
        return add(_in_x(x_dot, y, x, t, **params), _in_t(t_dot, y, x, t, **params))
    return _in_x(sub(x_dot, t_dot), y, x, t, **params)


def _to_x(g: Any, y: Any, x: Any, t: Any, *, kind: str, delta: float, reduction: str) -> Any:
    return pair_loss_slope(_share(g, kind, reduction, x.size), x, t, kind=kind, delta=delta)


def _to_t(g: Any, y: Any, x: Any, t: Any, *, kind: str, delta: float, reduction: str) -> Any:
    if kind == "logistic":
        return neg(mul(_share(g, kind, reduction, x.size), x))
    return neg(_to_x(g, y, x, t, kind=kind, delta=delta, reduction=reduction))


def _terms(x: Any, t: Any, kind: str, delta: float) -> tuple[Any, Any]:
    """(the values, what their errors are measured by), in double."""
    d = x - t
    if kind == "square":
        return d * d, d * d
    if kind == "abs":
        return np.abs(d), np.abs(d)
    if kind == "huber":
        c = np.clip(d, -delta, delta)
        return c * (d - c / 2), 2 * np.abs(c * d)
    soft = np.logaddexp(0, -x)
    return (1 - t) * x + soft, np.abs(x) + np.abs(t * x) + soft


def _bound(u: float, x: Any, t: Any, *, kind: str, delta: float, reduction: str) -> Any:
    """8·u·s, s = |ℓ|, huber 2·|c·d|, logistic |x| + |t·x| + softplus(−x); reduced Σ of that and K·u·Σ|ℓ|, K a sum's roundings"""
    values, sizes = _terms(x, t, kind, delta)
    own = 8 * u * sizes + np.finfo(np.float32).tiny
    if reduction == "none":
        return own
    whole = own.sum() + (roundings(x.size) + 2) * u * np.abs(values).sum()
    return np.asarray(whole / max(x.size, 1) if reduction == "mean" else whole)


pair_loss: Primitive = primitive(
    "pair_loss",
    abstract=_abstract,
    spec=spec.pair_loss,
    step=_step,
    dual=_dual,
    jvp=Joint(_push),
    vjp=(_to_x, _to_t),
    accuracy=Within(_bound),
)

# --- the slope ---


def _slope_abstract(g: Aval, x: Aval, t: Aval, *, kind: str, delta: float) -> Aval:
    op = "pair_loss_slope"
    _check(op, x, t, kind)
    check_same_float(op, g, x)
    if g.shape not in ((), x.shape):
        raise ValueError(f"{op}: g is one number or one per element of {x.shape}; got {g.shape}; reshape it")
    return x


def _slope_step(*avals: Aval, out: tuple[Aval], kind: str, delta: float) -> Step:
    return cpu_chain.chain("pair_loss_slope", avals, out[0], [*_slope(kind, delta, 1, 2), ("mul", (A, 0), OUT, ())], {})


def _bent(s: Any, x: Any, t: Any, kind: str, delta: float) -> Any:
    """s·∂k/∂x."""
    if kind == "square":
        return s
    if kind == "abs":
        return zeros_like(s)
    return clip_gate(s, sub(x, t), low=-delta, high=delta) if kind == "huber" else sigmoid_gate(s, sigmoid(x))


def _full(x: Any, like: Any) -> Any:
    return x if x.shape == like.shape else broadcast_to(x, shape=like.shape)


def _slope_in_x(s: Any, y: Any, g: Any, x: Any, t: Any, *, kind: str, delta: float) -> Any:
    return _full(_bent(mul(g, s), x, t, kind, delta), x)


def _slope_in_t(s: Any, y: Any, g: Any, x: Any, t: Any, *, kind: str, delta: float) -> Any:
    both = mul(g, s)
    return neg(_full(both if kind == "logistic" else _bent(both, x, t, kind, delta), x))


def _slope_to_g(h: Any, y: Any, g: Any, x: Any, t: Any, **params: Any) -> Any:
    return sum_to(pair_loss_slope(h, x, t, **params), g.shape)


def _slope_bound(u: float, g: Any, x: Any, t: Any, *, kind: str, delta: float) -> Any:
    """6·u·|g|·s, s = |d|, 1, |c|, σ(x) + |t|"""
    d = np.abs(x - t)
    steep = 1 / (1 + np.exp(-x)) + np.abs(t)
    size = {"square": d, "abs": np.ones_like(d), "huber": np.minimum(d, delta), "logistic": steep}[kind]
    return 6 * u * np.abs(g) * size + np.finfo(np.float32).tiny


pair_loss_slope: Primitive = primitive(
    "pair_loss_slope",
    abstract=_slope_abstract,
    spec=spec.pair_loss_slope,
    step=_slope_step,
    linear=(0,),
    jvp=(None, _slope_in_x, _slope_in_t),
    vjp=(_slope_to_g, _slope_in_x, _slope_in_t),
    accuracy=Within(_slope_bound),
)
