"""Reading at places given by integers, and adding at them: each pair is a map and its transpose.

* gather(x, idx)[…, j, …] = x[…, idx[…, j, …], …] along one axis (torch.gather) ↔ scatter_add
* take(x, idx) = x[…, idx, …]: whole slices, as in an embedding table ↔ take_transpose

Both are linear in the data and constant in the indices. Contributions to one cell are added in the row-major
order of `idx`, so that the sum has the same bits on every run. An index out of range is an IndexError.
"""

from __future__ import annotations

from math import prod

from lean_nn.backend import cpu_index
from lean_nn.primitive import NONDIFF, Aval, Exact, Gamma, Primitive, check_float, check_index, meaning, primitive


def _check_axis(op: str, shape: tuple[int, ...], axis: int) -> None:
    if not 0 <= axis < len(shape):
        raise ValueError(f"{op}: the axis is one of the array's; got {axis} for shape {shape}; choose 0 to {len(shape) - 1}")


# --- gather and scatter_add ---


def _check_aligned(op: str, x: tuple[int, ...], idx: tuple[int, ...], axis: int) -> None:
    _check_axis(op, x, axis)
    if len(x) != len(idx) or any(n != m for a, (n, m) in enumerate(zip(x, idx, strict=True)) if a != axis):
        raise ValueError(f"{op}: data and indices agree off axis {axis}; got {x} and {idx}; broadcast the indices first")


def _gather_abstract(x: Aval, idx: Aval, *, axis: int) -> Aval:
    check_float("gather", x)
    check_index("gather", idx)
    _check_aligned("gather", x.shape, idx.shape, axis)
    return Aval(idx.shape, x.dtype)


def _scatter_abstract(g: Aval, idx: Aval, *, axis: int, size: int) -> Aval:
    check_float("scatter_add", g)
    check_index("scatter_add", idx)
    _check_axis("scatter_add", g.shape, axis)
    if g.shape != idx.shape:
        raise ValueError(f"scatter_add: one index per element; got {g.shape} and {idx.shape}; broadcast the indices first")
    return Aval((*g.shape[:axis], size, *g.shape[axis + 1 :]), g.dtype)


_gather_step = cpu_index.gather("gather")
_scatter_step = cpu_index.scatter_add("scatter_add")

gather: Primitive = primitive(
    "gather",
    abstract=_gather_abstract,
    spec=meaning("gather"),
    step=_gather_step,
    checks_values=True,
    linear=(0,),
    jvp=(None, NONDIFF),
    vjp=(lambda g, y, x, idx, *, axis: scatter_add(g, idx, axis=axis, size=x.shape[axis]), NONDIFF),
    accuracy=Exact(),
)

scatter_add: Primitive = primitive(
    "scatter_add",
    abstract=_scatter_abstract,
    spec=meaning("scatter_add"),
    step=_scatter_step,
    checks_values=True,
    linear=(0,),
    jvp=(None, NONDIFF),
    vjp=(lambda h, y, g, idx, *, axis, size: gather(h, idx, axis=axis), NONDIFF),
    accuracy=Gamma(lambda g, idx, *, axis, size: idx.shape[axis], "indices along the axis"),
)

# --- take and take_transpose ---


def _take_abstract(x: Aval, idx: Aval, *, axis: int) -> Aval:
    check_float("take", x)
    check_index("take", idx)
    _check_axis("take", x.shape, axis)
    return Aval((*x.shape[:axis], *idx.shape, *x.shape[axis + 1 :]), x.dtype)


def _take_transpose_abstract(g: Aval, idx: Aval, *, axis: int, size: int) -> Aval:
    check_float("take_transpose", g)
    check_index("take_transpose", idx)
    end = axis + len(idx.shape)
    if not 0 <= axis <= end <= len(g.shape) or g.shape[axis:end] != idx.shape:
        raise ValueError(f"take_transpose: the indices' axes stand at axis {axis}; got {g.shape} and {idx.shape}; "
                         f"pass what take returned")
    return Aval((*g.shape[:axis], size, *g.shape[end:]), g.dtype)


_take_step = cpu_index.take()
_take_transpose_step = cpu_index.take_transpose()

take: Primitive = primitive(
    "take",
    abstract=_take_abstract,
    spec=meaning("take"),
    step=_take_step,
    checks_values=True,
    linear=(0,),
    jvp=(None, NONDIFF),
    vjp=(lambda g, y, x, idx, *, axis: take_transpose(g, idx, axis=axis, size=x.shape[axis]), NONDIFF),
    accuracy=Exact(),
)

take_transpose: Primitive = primitive(
    "take_transpose",
    abstract=_take_transpose_abstract,
    spec=meaning("take_transpose"),
    step=_take_transpose_step,
    checks_values=True,
    linear=(0,),
    jvp=(None, NONDIFF),
    vjp=(lambda h, y, g, idx, *, axis, size: take(h, idx, axis=axis), NONDIFF),
    accuracy=Gamma(lambda g, idx, *, axis, size: prod(idx.shape), "indices"),
)
