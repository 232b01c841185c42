"""Object arrays: the specification's only container. NumPy holds the scalars; it computes nothing.

Inputs may be nested lists or NumPy arrays of anything; results are fresh object arrays (indices int64,
comparisons bool).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .geometry import bad, broadcast_shape, indices
from .scalar import Scalar

Array = NDArray[Any]
ArrayLike = Any


def as_array(x: ArrayLike) -> Array:
    """``x`` as an object array: lists are nested axes, NumPy floats become Python's (without rounding)."""
    if isinstance(x, np.ndarray):
        return x if x.dtype == object else x.astype(object)
    return np.array(x, dtype=object)


def as_indices(op: str, x: ArrayLike) -> Array:
    """``x`` as an int64 array; anything but integers is a TypeError."""
    idx = np.asarray(x)
    if idx.dtype == object:
        idx = np.array([int(v) for v in idx.reshape(-1)], dtype=np.int64).reshape(idx.shape)
    if idx.size and not np.issubdtype(idx.dtype, np.integer):
        raise TypeError(f"{op}: indices are int64; got {idx.dtype}; convert with .astype('int64')")
    return idx.astype(np.int64)


def full(shape: Sequence[int], value: Scalar) -> Array:
    """An array of ``value``."""
    out = np.empty(tuple(shape), dtype=object)
    out.fill(value)
    return out


def zeros(shape: Sequence[int]) -> Array:
    """An array of the integer 0, which is zero in every arithmetic."""
    return full(shape, 0)


def build(shape: Sequence[int], f: Callable[[tuple[int, ...]], Scalar]) -> Array:
    """``out[i] = f(i)`` for every index tuple, row-major."""
    out = np.empty(tuple(shape), dtype=object)
    for i in indices(shape):
        out[i] = f(i)
    return out


def elementwise(op: str, f: Callable[..., Scalar], *arrays: ArrayLike, dtype: Any = object) -> Array:
    """``out[i] = f(a[i], b[i], …)`` with the arguments broadcast."""
    parts = [as_array(a) for a in arrays]
    shape = broadcast_shape(op, *(a.shape for a in parts))
    views = [np.broadcast_to(a, shape).reshape(-1) for a in parts]
    out = np.empty(int(np.prod(shape)), dtype=dtype)
    for i, values in enumerate(zip(*views, strict=True)):
        out[i] = f(*values)
    return out.reshape(shape)


def normal_axis(op: str, axis: int, rank: int) -> int:
    """``axis`` counted from the front; a wrong one is a ValueError."""
    if not -rank <= axis < rank:
        raise bad(op, f"axis must be in [{-rank}, {rank})", axis, "use an axis of the array")
    return axis % rank


def normal_axes(op: str, axes: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """``axes`` counted from the front, sorted, none twice; None means all."""
    if axes is None:
        return tuple(range(rank))
    given = (axes,) if isinstance(axes, int) else tuple(axes)
    found = tuple(sorted(normal_axis(op, a, rank) for a in given))
    if len(set(found)) != len(found):
        raise bad(op, "axes must be different", given, "name each axis once")
    return found
