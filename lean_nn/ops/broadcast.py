"""Summing over axes and spreading along them: {sum, broadcast_to}, each the transpose of the other.

Binary operations broadcast like NumPy; the reverse rule of an argument that was stretched ends in `sum_to`.
"""

from __future__ import annotations

from typing import Any

from lean_nn.backend import cpu_move, cpu_reduce
from lean_nn.ops.shape import reshape
from lean_nn.primitive import Aval, Exact, Gamma, Primitive, check_float, meaning, primitive
from lean_nn_c import reduce as kernels

Shape = tuple[int, ...]


def check_axes(op: str, shape: Shape, axes: Shape) -> None:
    """Raise unless `axes` are different axes of `shape`, counted from the front."""
    if len(set(axes)) != len(axes) or any(not 0 <= a < len(shape) for a in axes):
        raise ValueError(f"{op}: different axes of the array; got {axes} for shape {shape}; name each axis once")


def without(shape: Shape, axes: Shape, keepdims: bool) -> Shape:
    """`shape` with `axes` reduced."""
    if keepdims:
        return tuple(1 if a in axes else n for a, n in enumerate(shape))
    return tuple(n for a, n in enumerate(shape) if a not in axes)


# --- sum ---


def _sum_abstract(x: Aval, *, axes: Shape, keepdims: bool) -> Aval:
    check_float("sum", x)
    check_axes("sum", x.shape, axes)
    return Aval(without(x.shape, axes, keepdims), x.dtype)


def spread(g: Any, shape: Shape, axes: Shape) -> Any:
    """`g`, which lacks `axes` (or has them as 1), repeated along them to `shape`."""
    return broadcast_to(reshape(g, shape=without(shape, axes, True)), shape=shape)


sum: Primitive = primitive(
    "sum",
    abstract=_sum_abstract,
    spec=meaning("sum"),
    step=cpu_reduce.sum_step,
    linear=(0,),
    vjp=(lambda g, y, x, *, axes, keepdims: spread(g, x.shape, axes),),
    accuracy=Gamma(lambda x, *, axes, keepdims: kernels.sum_roundings(x.shape, axes), "roundings of a blocked sum"),
)


def sum_to(x: Any, shape: Shape) -> Any:
    """`x` summed over the axes along which `shape` was broadcast to x.shape; x itself when there are none."""
    if x.shape == shape:
        return x
    lead = len(x.shape) - len(shape)
    axes = tuple(a for a, n in enumerate(x.shape) if a < lead or shape[a - lead] != n)
    return reshape(sum(x, axes=axes, keepdims=False), shape=shape)


# --- broadcast_to ---


def _broadcast_abstract(x: Aval, *, shape: Shape) -> Aval:
    lead = len(shape) - len(x.shape)
    if lead < 0 or any(n not in (1, m) for n, m in zip(x.shape, shape[max(lead, 0) :], strict=True)):
        raise ValueError(f"broadcast_to: axes of size 1 stretch and others match; got {x.shape} to {shape}; reshape it first")
    return Aval(shape, x.dtype)


broadcast_to: Primitive = primitive(
    "broadcast_to",
    abstract=_broadcast_abstract,
    spec=meaning("broadcast_to"),
    linear=(0,),
    vjp=(lambda g, y, x, *, shape: sum_to(g, x.shape),),
    accuracy=Exact(),
    step=cpu_move.broadcast_to,
)

