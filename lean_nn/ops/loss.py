"""What losses over classes need beyond the other families: a look-up with one index that means "no class".

pick(x, idx) is `gather` that reads 0 where the index is `ignore`; unpick, its transpose, adds nothing there.
"""

from __future__ import annotations

from lean_nn.backend import cpu_index
from lean_nn.ops.broadcast import check_axes
from lean_nn.primitive import NONDIFF, Aval, Exact, Gamma, Primitive, check_float, check_index, primitive
from lean_nn.spec import loss as spec

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


_pick_cpu, _pick_step = cpu_index.gather("pick")
_unpick_cpu, _unpick_step = cpu_index.scatter_add("unpick")

pick: Primitive = primitive(
    "pick",
    abstract=_pick_abstract,
    spec=spec.pick,
    cpu=_pick_cpu,
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
    cpu=_unpick_cpu,
    step=_unpick_step,
    checks_values=True,
    linear=(0,),
    jvp=(None, NONDIFF),
    vjp=(lambda h, y, g, idx, *, axis, size, ignore: pick(h, idx, axis=axis, ignore=ignore), NONDIFF),
    accuracy=Gamma(lambda g, idx, *, axis, size, ignore: idx.shape[axis], "indices along the axis"),
)
