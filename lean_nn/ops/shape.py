"""Moving numbers without changing them. Every map here is linear, and its transpose is in the same file.

========================  ==========================================
map                       transpose
========================  ==========================================
reshape                   reshape back
transpose (permute axes)  the inverse permutation
slice                     unslice: the cells put back among zeros
concat                    a slice per part
pad (with zeros)          slice
flip                      flip
========================  ==========================================

A slice is ``start``, ``size`` and ``step`` per axis: the cells ``start + i·step``, i < size. `lean_nn.backend.cpu_move` says how
data is copied; reshape shares it.
"""

from __future__ import annotations

from math import prod
from typing import Any

from lean_nn.backend import cpu_move
from lean_nn.convert import zeros_like
from lean_nn.primitive import Aval, Exact, Joint, Primitive, check_same_float, meaning, primitive

Shape = tuple[int, ...]


# --- reshape ---


def _reshape_abstract(x: Aval, *, shape: Shape) -> Aval:
    if prod(shape) != prod(x.shape) or any(n < 0 for n in shape):
        raise ValueError(
            f"reshape: the number of elements stays; got {x.shape} to {shape}; choose a shape of {prod(x.shape)} elements"
        )
    return Aval(shape, x.dtype)


reshape: Primitive = primitive(
    "reshape",
    abstract=_reshape_abstract,
    view=lambda x, *, shape: x.reshape(shape),
    spec=meaning("reshape"),
    linear=(0,),
    vjp=(lambda g, y, x, *, shape: reshape(g, shape=x.shape),),
    accuracy=Exact(),
)

# --- transpose ---


def _transpose_abstract(x: Aval, *, axes: Shape) -> Aval:
    if sorted(axes) != list(range(len(x.shape))):
        raise ValueError(f"transpose: axes are a permutation of the array's; got {axes} for shape {x.shape}; name each axis once")
    return Aval(tuple(x.shape[a] for a in axes), x.dtype)


def _inverse(axes: Shape) -> Shape:
    return tuple(axes.index(a) for a in range(len(axes)))


transpose: Primitive = primitive(
    "transpose",
    abstract=_transpose_abstract,
    spec=meaning("transpose"),
    linear=(0,),
    vjp=(lambda g, y, x, *, axes: transpose(g, axes=_inverse(axes)),),
    accuracy=Exact(),
    step=cpu_move.transpose,
)

# --- slice and unslice ---


slice_type = slice  # the builtin; the primitive below takes its name


def _check_cells(op: str, shape: Shape, start: Shape, size: Shape, step: Shape) -> None:
    if not len(shape) == len(start) == len(size) == len(step):
        got = f"{start}, {size}, {step} for shape {shape}"
        raise ValueError(f"{op}: one start, size and step per axis; got {got}; give {len(shape)}")
    for axis, (n, first, count, by) in enumerate(zip(shape, start, size, step, strict=True)):
        last = first + (count - 1) * by
        if count < 0 or by == 0 or (count and not (0 <= first < n and 0 <= last < n)):
            raise ValueError(
                f"{op}: cells start + i*step lie inside the array; got start {first}, size {count}, step {by} "
                f"on axis {axis} of {n}; choose cells from 0 to {n - 1}"
            )


def _slice_abstract(x: Aval, *, start: Shape, size: Shape, step: Shape) -> Aval:
    _check_cells("slice", x.shape, start, size, step)
    return Aval(size, x.dtype)


def _unslice_abstract(g: Aval, *, start: Shape, step: Shape, shape: Shape) -> Aval:
    _check_cells("unslice", shape, start, g.shape, step)
    return Aval(shape, g.dtype)


slice: Primitive = primitive(
    "slice",
    abstract=_slice_abstract,
    spec=meaning("slice"),
    linear=(0,),
    vjp=(lambda g, y, x, *, start, size, step: unslice(g, start=start, step=step, shape=x.shape),),
    accuracy=Exact(),
    step=cpu_move.slice,
)

unslice: Primitive = primitive(
    "unslice",
    abstract=_unslice_abstract,
    spec=meaning("unslice"),
    linear=(0,),
    vjp=(lambda h, y, g, *, start, step, shape: slice(h, start=start, size=g.shape, step=step),),
    accuracy=Exact(),
    step=cpu_move.unslice,
)

# --- concat ---


def _concat_abstract(*parts: Aval, axis: int) -> Aval:
    if not parts:
        raise ValueError("concat: at least one array is needed; got none; pass a sequence of Tensors")
    first = parts[0]
    if not 0 <= axis < len(first.shape):
        last = len(first.shape) - 1
        raise ValueError(f"concat: the axis is one of the arrays'; got {axis} for shape {first.shape}; choose 0 to {last}")
    for part in parts[1:]:
        if part.dtype != first.dtype:
            check_same_float("concat", first, part)
        if len(part.shape) != len(first.shape) or any(
            n != m for a, (n, m) in enumerate(zip(part.shape, first.shape, strict=True)) if a != axis
        ):
            raise ValueError(f"concat: shapes agree off axis {axis}; got {first.shape} and {part.shape}; reshape or pad one")
    total = sum(part.shape[axis] for part in parts)
    return Aval((*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype)


def _place(i: int, parts: tuple[Any, ...], axis: int) -> dict[str, Shape]:
    """Where part `i` of a concat begins, in the words of slice and unslice."""
    rank = len(parts[i].shape)
    before = sum(part.shape[axis] for part in parts[:i])
    return {"start": tuple(before if a == axis else 0 for a in range(rank)), "step": (1,) * rank}


def _concat_push(tangents: tuple[Any, ...], y: Any, *parts: Any, axis: int) -> Any:
    """The tangents one after another, zeros where a part is at rest; of one that moves alone, zeros around it."""
    moving = [i for i, t in enumerate(tangents) if t is not None]
    if len(moving) > 1:
        return concat(*[zeros_like(part) if t is None else t for part, t in zip(parts, tangents, strict=True)], axis=axis)
    t, total = tangents[moving[0]], sum(part.shape[axis] for part in parts)
    shape = tuple(total if a == axis else n for a, n in enumerate(t.shape))
    return unslice(t, **_place(moving[0], parts, axis), shape=shape)


def _concat_dual(*parts: Aval, moves: tuple[bool, ...], out: tuple[Aval], axis: int) -> Any:
    """Where all parts move: the same twice."""
    if not all(moves):
        return None
    step, n = cpu_move.concat(*parts, out=out, axis=axis), len(parts)

    def kernel(*arrays: Any) -> None:
        step(*arrays[:n], arrays[-2])
        step(*arrays[n:-2], arrays[-1])

    return kernel


concat: Primitive = primitive(
    "concat",
    abstract=_concat_abstract,
    spec=meaning("concat"),
    jvp=Joint(_concat_push),
    dual=_concat_dual,
    vjp=lambda i, g, y, *parts, axis: slice(g, size=parts[i].shape, **_place(i, parts, axis)),
    accuracy=Exact(),
    step=cpu_move.concat,
)

# --- pad and flip ---


def _pad_abstract(x: Aval, *, padding: tuple[tuple[int, int], ...], value: float) -> Aval:
    if len(padding) != len(x.shape) or any(before < 0 or after < 0 for before, after in padding):
        got = f"{padding} for shape {x.shape}"
        raise ValueError(f"pad: one pair of sizes, none negative, per axis; got {got}; use a slice to cut")
    return Aval(tuple(n + before + after for n, (before, after) in zip(x.shape, padding, strict=True)), x.dtype)


def _unpad(g: Any, shape: Shape, padding: tuple[tuple[int, int], ...]) -> Any:
    return slice(g, start=tuple(before for before, _ in padding), size=shape, step=(1,) * len(shape))


pad: Primitive = primitive(
    "pad",
    abstract=_pad_abstract,
    spec=meaning("pad"),
    jvp=(lambda t, y, x, *, padding, value: pad(t, padding=padding, value=0),),
    vjp=(lambda g, y, x, *, padding, value: _unpad(g, x.shape, padding),),
    accuracy=Exact(),
    step=cpu_move.pad,
)


def _flip_abstract(x: Aval, *, axes: Shape) -> Aval:
    if len(set(axes)) != len(axes) or any(not 0 <= a < len(x.shape) for a in axes):
        raise ValueError(f"flip: different axes of the array; got {axes} for shape {x.shape}; name each axis once")
    return x


flip: Primitive = primitive(
    "flip",
    abstract=_flip_abstract,
    spec=meaning("flip"),
    linear=(0,),
    vjp=(lambda g, y, x, *, axes: flip(g, axes=axes),),
    accuracy=Exact(),
    step=cpu_move.flip,
)
