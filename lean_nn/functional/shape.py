"""Shapes: reshape, transpose, join, cut, pad, and look up by index. PyTorch's names, NumPy's manners."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from lean_nn.convert import as_tensor
from lean_nn.ops import broadcast, identity, indexing
from lean_nn.ops import shape as ops

__all__ = [
    "alias", "broadcast_to", "cast", "concat", "embedding", "flatten", "flip", "gather", "pad", "reshape", "scatter_add",
    "split", "stack", "take", "transpose",
]  # fmt: skip

alias = identity.alias


def axis_of(op: str, axis: int, rank: int) -> int:
    """`axis` counted from the front."""
    if not isinstance(axis, (int, np.integer)) or isinstance(axis, bool):
        raise TypeError(f"{op}: an axis is an int; got {type(axis).__name__}; pass an int")
    if not -rank <= axis < rank:
        raise ValueError(f"{op}: axis from {-rank} to {rank - 1}; got {axis}; use an axis of the Tensor")
    return int(axis) % rank


def axes_of(op: str, axes: Any, rank: int) -> tuple[int, ...]:
    """Axes counted from the front; None means all of them."""
    if axes is None:
        return tuple(range(rank))
    given = tuple(axes) if isinstance(axes, (tuple, list)) else (axes,)
    return tuple(axis_of(op, axis, rank) for axis in given)


def sizes_of(op: str, sizes: Any) -> tuple[int, ...]:
    """Sizes as a tuple of ints; a lone int is a tuple of one."""
    given = tuple(sizes) if isinstance(sizes, (tuple, list)) else (sizes,)
    for n in given:
        if not isinstance(n, (int, np.integer)) or isinstance(n, bool):
            raise TypeError(f"{op}: sizes are ints; got {type(n).__name__}; pass a tuple of ints")
    return tuple(int(n) for n in given)


def _tensors_of(op: str, tensors: Any) -> list[Any]:
    if not isinstance(tensors, (tuple, list)):
        raise TypeError(f"{op}: a sequence of Tensors is needed; got {type(tensors).__name__}; pass a list")
    if not tensors:
        raise ValueError(f"{op}: at least one array is needed; got none; pass a sequence of Tensors")
    return [as_tensor(t, op=op) for t in tensors]


def cast(x: Any, dtype: Any) -> Any:
    """The same numbers in another dtype; float32 ↔ float64 is differentiable.

    >>> import lean_nn as ln
    >>> ln.functional.cast(ln.tensor([1.5]), "float64")
    tensor([1.5], dtype=float64)
    """
    x = as_tensor(x)
    try:
        new = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"cast: the name of a dtype is needed; got {dtype!r}; pass 'float32' or 'float64'") from None
    if x.data.dtype == new:
        return x
    if "float" in x.data.dtype.name and "float" in new.name:
        return identity.cast(x, dtype=new.name)
    return as_tensor(x.data.astype(new))


def reshape(x: Any, shape: Sequence[int]) -> Any:
    """x with the same elements in another shape; one size may be −1."""
    x = as_tensor(x)
    sizes = sizes_of("reshape", shape)
    if sizes.count(-1) == 1:
        known = prod(n for n in sizes if n != -1)
        if known and x.data.size % known == 0:
            sizes = tuple(x.data.size // known if n == -1 else n for n in sizes)
    return ops.reshape(x, shape=sizes)


def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """x with the axes from `start_dim` to `end_dim` made one."""
    x = as_tensor(x)
    if x.ndim == 0:
        return ops.reshape(x, shape=(1,))
    first, last = axis_of("flatten", start_dim, x.ndim), axis_of("flatten", end_dim, x.ndim)
    if first > last:
        raise ValueError(f"flatten: start_dim comes first; got {start_dim} and {end_dim}; exchange them")
    return ops.reshape(x, shape=(*x.shape[:first], prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))


def transpose(x: Any, axes: Sequence[int] | None = None) -> Any:
    """x with its axes permuted: result axis i is axis axes[i] (default: reversed)."""
    x = as_tensor(x)
    order = tuple(range(x.ndim))[::-1] if axes is None else axes_of("transpose", tuple(axes), x.ndim)
    return ops.transpose(x, axes=order)


def broadcast_to(x: Any, shape: Sequence[int]) -> Any:
    """x repeated along axes of size 1, and along new leading axes, to `shape`."""
    return broadcast.broadcast_to(as_tensor(x), shape=sizes_of("broadcast_to", shape))


def concat(tensors: Sequence[Any], dim: int = 0) -> Any:
    """The Tensors one after another along an axis.

    >>> import lean_nn as ln
    >>> ln.functional.concat([ln.tensor([1.0]), ln.tensor([2.0, 3.0])])
    tensor([1., 2., 3.])
    """
    parts = _tensors_of("concat", tensors)
    return ops.concat(*parts, axis=axis_of("concat", dim, parts[0].ndim))


cat = concat


def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """The Tensors, all of one shape, along a new axis."""
    parts = _tensors_of("stack", tensors)
    if len({part.shape for part in parts}) > 1:
        raise ValueError(f"stack: Tensors of one shape; got {sorted({p.shape for p in parts})}; reshape or pad them")
    shape = parts[0].shape
    axis = axis_of("stack", dim, len(shape) + 1)
    if axis == len(shape):
        return ops.concat(*[ops.reshape(p, shape=(*shape, 1)) for p in parts], axis=axis)
    return ops.reshape(ops.concat(*parts, axis=axis), shape=(*shape[:axis], len(parts), *shape[axis:]))


def _cut(x: Any, axis: int, start: int, size: int) -> Any:
    starts = tuple(start if a == axis else 0 for a in range(x.ndim))
    sizes = tuple(size if a == axis else n for a, n in enumerate(x.shape))
    return ops.slice(x, start=starts, size=sizes, step=(1,) * x.ndim)


def split(x: Any, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """x cut along an axis: pieces of one size (the last may be smaller), or of the sizes given."""
    x = as_tensor(x)
    axis = axis_of("split", dim, x.ndim)
    n = x.shape[axis]
    if isinstance(split_size_or_sections, int):
        size = split_size_or_sections
        if size < 1:
            raise ValueError(f"split: pieces of at least one cell; got {size}; pass a positive size")
        sizes = [min(size, n - start) for start in range(0, n, size)] or [0]
    else:
        sizes = list(sizes_of("split", split_size_or_sections))
        if sum(sizes) != n or min(sizes, default=0) < 0:
            raise ValueError(f"split: sizes add up to the axis; got {sizes} for {n}; make the sum {n}")
    return tuple(_cut(x, axis, sum(sizes[:i]), size) for i, size in enumerate(sizes))


def pad(x: Any, pad: Sequence[int], mode: str = "constant", value: float = 0.0) -> Any:
    """x with cells of `value` around it; `pad` goes by pairs from the last axis, as in PyTorch.

    >>> import lean_nn as ln
    >>> ln.functional.pad(ln.tensor([1.0]), (1, 2))
    tensor([0., 1., 0., 0.])
    """
    x = as_tensor(x)
    if mode != "constant":
        raise ValueError(f"pad: mode 'constant' is supported; got {mode!r}; build others with concat and flip")
    amounts = sizes_of("pad", pad)
    if len(amounts) % 2 or len(amounts) // 2 > x.ndim:
        raise ValueError(f"pad: pairs (before, after) from the last axis; got {amounts} for shape {x.shape}; "
                         f"give at most {x.ndim} pairs")
    pairs = [amounts[i : i + 2] for i in range(0, len(amounts), 2)][::-1]
    return ops.pad(x, padding=((0, 0),) * (x.ndim - len(pairs)) + tuple(pairs), value=value)


def flip(x: Any, dims: int | Sequence[int]) -> Any:
    """x with the order of cells reversed along axes."""
    x = as_tensor(x)
    return ops.flip(x, axes=axes_of("flip", dims, x.ndim))


def gather(x: Any, dim: int, index: Any) -> Any:
    """y[…, j, …] = x[…, index[…, j, …], …] along `dim`."""
    x = as_tensor(x)
    return indexing.gather(x, as_tensor(index), axis=axis_of("gather", dim, x.ndim))


def scatter_add(x: Any, dim: int, index: Any, src: Any) -> Any:
    """x with src[…, j, …] added at x[…, index[…, j, …], …] along `dim`."""
    x = as_tensor(x)
    axis = axis_of("scatter_add", dim, x.ndim)
    added = indexing.scatter_add(as_tensor(src), as_tensor(index), axis=axis, size=x.shape[axis])
    return x + added


def take(x: Any, index: Any, dim: int = 0) -> Any:
    """The slices of x along `dim` that `index` names: ``x[index]`` for dim 0."""
    x = as_tensor(x)
    return indexing.take(x, as_tensor(index), axis=axis_of("take", dim, x.ndim))


def embedding(index: Any, weight: Any) -> Any:
    """weight[index]: a row of the table for every index."""
    return take(weight, index, 0)
