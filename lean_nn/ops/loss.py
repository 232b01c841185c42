"""What losses over classes need beyond the other families: a look-up with one index that means "no class".

pick(x, idx) is `gather` that reads 0 where the index is `ignore`; unpick, its transpose, adds nothing there.
"""

from __future__ import annotations

from math import prod
from typing import Any

from lean_nn.ops.broadcast import check_axes
from lean_nn.primitive import NONDIFF, Aval, Exact, Gamma, Primitive, check_float, check_index, primitive
from lean_nn.spec import loss as spec
from lean_nn_c import index as kernels

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


def _spans(shape: Shape, axis: int) -> tuple[int, int]:
    return prod(shape[:axis]), prod(shape[axis + 1 :])


def _pick_cpu(x: Any, idx: Any, *, out: Any, axis: int, ignore: int) -> None:
    outer, inner = _spans(x.shape, axis)
    kernels.gather(x, idx, out, outer, x.shape[axis], idx.shape[axis], inner, ignore)


def _unpick_cpu(g: Any, idx: Any, *, out: Any, axis: int, size: int, ignore: int) -> None:
    outer, inner = _spans(g.shape, axis)
    kernels.scatter_add(g, idx, out, outer, size, g.shape[axis], inner, ignore)


pick: Primitive = primitive(
    "pick",
    abstract=_pick_abstract,
    spec=spec.pick,
    cpu=_pick_cpu,
    linear=(0,),
    jvp=(None, NONDIFF),
    vjp=(lambda g, y, x, idx, *, axis, ignore: unpick(g, idx, axis=axis, size=x.shape[axis], ignore=ignore), NONDIFF),
    accuracy=Exact(),
)

unpick: Primitive = primitive(
    "unpick",
    abstract=_unpick_abstract,
    spec=spec.unpick,
    cpu=_unpick_cpu,
    linear=(0,),
    jvp=(None, NONDIFF),
    vjp=(lambda h, y, g, idx, *, axis, size, ignore: pick(h, idx, axis=axis, ignore=ignore), NONDIFF),
    accuracy=Gamma(lambda g, idx, *, axis, size, ignore: idx.shape[axis], "indices along the axis"),
)
