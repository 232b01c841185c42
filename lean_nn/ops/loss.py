"""Losses over classes given by index, and a look-up with one index that means "no class".

pick(x, idx) is `gather` that reads 0 where the index is `ignore`; unpick, its transpose, adds nothing there.

cross_entropy(x, idx) is −Σ q·log p per line, p = softmax(x), q nearly 1 at the class. Its slope p − q makes a family of two that
is closed by those of softmax: with h the weight of a line (0 where it is ignored, 1/count of it for the mean)::

    cross_entropy            x ↦ h·(−Σ q·log p)        moves with ẋ by  h·(Σ p·ẋ − Σ q·ẋ)
    cross_entropy_transpose  (g, x) ↦ h·g·(p − q)      moves with ẋ by  h·g·(diag(p) − p pᵀ)·ẋ

nll_loss takes logarithms as they are: x ↦ h·(−x at the class), a linear map, whose transpose puts −h·g there.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from lean_nn.backend import cpu_index, cpu_reduce
from lean_nn.convert import filled
from lean_nn.ops.broadcast import check_axes, without
from lean_nn.ops.broadcast import sum as total
from lean_nn.ops.elementwise import add, div, mul, sub
from lean_nn.ops.reduce import TINY, expect, softmax, softmax_slope
from lean_nn.ops.reduce import roundings as line_roundings
from lean_nn.ops.shape import reshape
from lean_nn.primitive import (
    NONDIFF,
    Aval,
    Exact,
    Gamma,
    Primitive,
    Within,
    check_float,
    check_index,
    check_same_float,
    primitive,
)
from lean_nn.spec import loss as spec
from lean_nn_c.reduce import roundings as sum_roundings

Shape = tuple[int, ...]


def _aligned(op: str, shape: Shape, idx: Shape, axis: int) -> None:
    check_axes(op, shape, (axis,))
    if len(shape) != len(idx) or any(n != m for a, (n, m) in enumerate(zip(shape, idx, strict=True)) if a != axis):
        raise ValueError(f"{op}: data and indices agree off axis {axis}; got {shape} and {idx}; reshape the indices")


def _pick_abstract(x: Aval, idx: Aval, *, axis: int, ignore: int) -> Aval:
    check_float("pick", x)
    check_index("pick", idx)
    _aligned("pick", x.shape, idx.shape, axis)
    return Aval(idx.shape, x.dtype)


def _unpick_abstract(g: Aval, idx: Aval, *, axis: int, size: int, ignore: int) -> Aval:
    check_float("unpick", g)
    check_index("unpick", idx)
    check_axes("unpick", g.shape, (axis,))
    if g.shape != idx.shape:
        raise ValueError(f"unpick: one index per element; got {g.shape} and {idx.shape}; reshape the indices")
    return Aval((*g.shape[:axis], size, *g.shape[axis + 1 :]), g.dtype)


_pick_step = cpu_index.gather("pick")
_unpick_step = cpu_index.scatter_add("unpick")

pick: Primitive = primitive(
    "pick",
    abstract=_pick_abstract,
    spec=spec.pick,
    step=_pick_step,
    checks_values=True,
    linear=(0,),
    jvp=(None, NONDIFF),
    vjp=(lambda g, y, x, idx, *, axis, ignore: unpick(g, idx, axis=axis, size=x.shape[axis], ignore=ignore), NONDIFF),
    accuracy=Exact(),
)

unpick: Primitive = primitive(
    "unpick",
    abstract=_unpick_abstract,
    spec=spec.unpick,
    step=_unpick_step,
    checks_values=True,
    linear=(0,),
    jvp=(None, NONDIFF),
    vjp=(lambda h, y, g, idx, *, axis, size, ignore: pick(h, idx, axis=axis, ignore=ignore), NONDIFF),
    accuracy=Gamma(lambda g, idx, *, axis, size, ignore: idx.shape[axis], "indices along the axis"),
)

# --- cross entropy ---


def _by_line(op: str, x: Aval, idx: Aval, axis: int, reduction: str) -> Aval:
    """The losses of the lines of x, a class for each."""
    check_float(op, x)
    check_index(op, idx)
    check_axes(op, x.shape, (axis,))
    lines = without(x.shape, (axis,), False)
    if idx.shape != lines:
        raise ValueError(f"{op}: target has shape {lines}; got {idx.shape} for input {x.shape}; give one class each")
    return Aval(lines if reduction == "none" else (), x.dtype)


def _cross_abstract(x: Aval, idx: Aval, *, axis: int, ignore: int, smoothing: float, reduction: str) -> Aval:
    return _by_line("cross_entropy", x, idx, axis, reduction)


def _cross_transpose_abstract(g: Aval, x: Aval, idx: Aval, **params: Any) -> Aval:
    op = "cross_entropy_transpose"
    loss = _cross_abstract(x, idx, **params)
    check_same_float(op, g, x)
    if g.shape != loss.shape:
        raise ValueError(f"{op}: g has the loss's shape {loss.shape}; got {g.shape}; pass one number per loss")
    return x


def counted(idx: Any, like: Any, *, axis: int, ignore: int) -> Any:
    """1 where an index of the lines of `like` counts, 0 where it is ignored."""
    ones = filled((like.shape[axis],), 1.0, like)
    return reshape(pick(ones, reshape(idx, shape=(idx.size,)), axis=0, ignore=ignore), shape=idx.shape)


def _all(x: Any) -> Any:
    return total(x, axes=tuple(range(len(x.shape))), keepdims=False)


def _cross_tangent(
    t: Any, y: Any, x: Any, idx: Any, *, axis: int, ignore: int, smoothing: float, reduction: str
) -> Any:
    """Σ (p − q)·t of each line, reduced as the loss is."""
    places = reshape(idx, shape=without(x.shape, (axis,), True))
    own = reshape(pick(t, places, axis=axis, ignore=ignore), shape=idx.shape)
    if smoothing:
        even = total(t, axes=(axis,), keepdims=False)
        own = add(mul(own, 1.0 - smoothing), mul(even, smoothing / x.shape[axis]))
    weights = counted(idx, x, axis=axis, ignore=ignore)
    lines = mul(sub(expect(t, x, axis=axis), own), weights)
    if reduction == "none":
        return lines
    return div(_all(lines), _all(weights)) if reduction == "mean" else _all(lines)


def _cross_curve(
    s: Any, y: Any, g: Any, x: Any, idx: Any, *, axis: int, ignore: int, smoothing: float, reduction: str
) -> Any:
    """How g·(p − q) moves when x moves by s; and, as the slope of p is symmetric, what x gets when it is weighted by s."""
    weights = counted(idx, x, axis=axis, ignore=ignore)
    share = div(g, _all(weights)) if reduction == "mean" else g
    moved = softmax_slope(s, softmax(x, axis=axis), axis=axis)
    return mul(reshape(mul(weights, share), shape=without(x.shape, (axis,), True)), moved)


def _depths(x: Any, idx: Any, axis: int, ignore: int, smoothing: float) -> tuple[Any, Any, Any]:
    """max x − x; how far q lies below it on average; whether a line counts."""
    depth = x.max(axis, keepdims=True, initial=-np.inf) - x
    counts = idx != ignore
    places = np.expand_dims(np.where(counts, idx, 0), axis)
    own = np.take_along_axis(depth, places, axis).reshape(idx.shape)
    return depth, (1 - smoothing) * own + smoothing * depth.mean(axis), counts


def _cross_bound(u: float, x: Any, idx: Any, *, axis: int, ignore: int, smoothing: float, reduction: str) -> Any:
    """u·(4·y + K) per line, K = 40 + n/32 + 2·log n for n classes; reduced their sum and 40·u·Σ y, by the count for a mean."""
    depth, below, counts = _depths(x, idx, axis, ignore, smoothing)
    values = np.where(counts, below + np.log(np.exp(-depth).sum(axis)), 0)
    lines = np.where(counts, u * (4 * values + line_roundings(x.shape[axis])), 0)
    if reduction == "none":
        return lines
    whole = np.asarray(lines.sum() + 40 * u * values.sum())
    return whole / counts.sum() if reduction == "mean" else whole


def _cross_transpose_bound(
    u: float, g: Any, x: Any, idx: Any, *, axis: int, ignore: int, smoothing: float, reduction: str
) -> Any:
    """u·|g|·(p·(max x − x + K) + 4), K = 40 + n/32 + 2·log n for n classes; by the count for the mean."""
    depth, _, counts = _depths(x, idx, axis, ignore, smoothing)
    e = np.exp(-depth)
    slope = u * (e / e.sum(axis, keepdims=True) * (depth + line_roundings(x.shape[axis])) + 4) + TINY
    share = np.abs(g) / counts.sum() if reduction == "mean" else np.abs(g)
    return slope * np.expand_dims(np.where(counts, share, 0), axis)


_cross_step = cpu_reduce.cross("cross_entropy")
_cross_transpose_step = cpu_reduce.cross("cross_entropy_transpose")

cross_entropy: Primitive = primitive(
    "cross_entropy",
    abstract=_cross_abstract,
    spec=spec.cross_entropy,
    step=_cross_step,
    dual=cpu_reduce.cross_dual,
    checks_values=True,
    jvp=(_cross_tangent, NONDIFF),
    vjp=(lambda g, y, x, idx, **params: cross_entropy_transpose(g, x, idx, **params), NONDIFF),
    accuracy=Within(_cross_bound),
)

cross_entropy_transpose: Primitive = primitive(
    "cross_entropy_transpose",
    abstract=_cross_transpose_abstract,
    spec=spec.cross_entropy_transpose,
    step=_cross_transpose_step,
    checks_values=True,
    linear=(0,),
    jvp=(None, _cross_curve, NONDIFF),
    vjp=(lambda h, y, g, x, idx, **params: _cross_tangent(h, y, x, idx, **params), _cross_curve, NONDIFF),
    accuracy=Within(_cross_transpose_bound),
)

# --- negative log-likelihood ---


def _nll_abstract(x: Aval, idx: Aval, *, axis: int, ignore: int, reduction: str) -> Aval:
    return _by_line("nll_loss", x, idx, axis, reduction)


def _nll_transpose_abstract(g: Aval, idx: Aval, *, axis: int, size: int, ignore: int, reduction: str) -> Aval:
    op = "nll_loss_transpose"
    check_float(op, g)
    check_index(op, idx)
    loss = idx.shape if reduction == "none" else ()
    if g.shape != loss or not 0 <= axis <= len(idx.shape) or size < 0:
        got = f"{g.shape}, axis {axis} of {size}"
        raise ValueError(f"{op}: g has the loss's shape {loss}, and the axis is a new one; got {got}; pass one number per loss")
    return Aval((*idx.shape[:axis], size, *idx.shape[axis:]), g.dtype)


def _nll_transpose_step(g: Aval, idx: Aval, *, out: tuple[Aval], size: int, **params: Any) -> Any:
    return cpu_reduce.cross("nll_loss_transpose")(*out, idx, out=out, smoothing=0.0, **params)


def _nll_step(x: Aval, idx: Aval, *, out: tuple[Aval], **params: Any) -> Any:
    return cpu_reduce.cross("nll_loss")(x, idx, out=out, smoothing=0.0, **params)


def _nll_to_x(g: Any, y: Any, x: Any, idx: Any, *, axis: int, **params: Any) -> Any:
    return nll_loss_transpose(g, idx, axis=axis, size=x.shape[axis], **params)


nll_loss: Primitive = primitive(
    "nll_loss",
    abstract=_nll_abstract,
    spec=spec.nll_loss,
    step=_nll_step,
    checks_values=True,
    linear=(0,),
    jvp=(None, NONDIFF),
    vjp=(_nll_to_x, NONDIFF),
    accuracy=Gamma(lambda x, idx, **params: sum_roundings(prod(idx.shape)) + 1, "roundings of a sum, and one"),
)

nll_loss_transpose: Primitive = primitive(
    "nll_loss_transpose",
    abstract=_nll_transpose_abstract,
    spec=spec.nll_loss_transpose,
    step=_nll_transpose_step,
    checks_values=True,
    linear=(0,),
    jvp=(None, NONDIFF),
    vjp=(lambda h, y, g, idx, *, size, **params: nll_loss(h, idx, **params), NONDIFF),
    accuracy=Gamma(lambda g, idx, **params: 1, "1"),
)
