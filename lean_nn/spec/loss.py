"""Looking values up by class index, with one index that stands for "no class"."""

from __future__ import annotations

from .container import Array, ArrayLike, as_array, as_indices, normal_axis, zeros
from .geometry import Ints, bad, indices


def _place(i: Ints, axis: int, j: int) -> Ints:
    return (*i[:axis], j, *i[axis + 1 :])


def _check(op: str, j: int, n: int) -> None:
    if not 0 <= j < n:
        raise IndexError(str(bad(op, f"indices are 0 … {n - 1} on an axis of {n}", j, "correct the index")))


def pick(x: ArrayLike, idx: ArrayLike, *, axis: int, ignore: int) -> Array:
    """``y[…, j, …] = x[…, idx[…, j, …], …]`` along the axis; 0 where the index is ``ignore``."""
    x, at = as_array(x), as_indices("pick", idx)
    a = normal_axis("pick", axis, x.ndim)
    y = zeros(at.shape)
    for i in indices(at.shape):
        if at[i] != ignore:
            _check("pick", int(at[i]), x.shape[a])
            y[i] = x[_place(i, a, int(at[i]))]
    return y


def unpick(g: ArrayLike, idx: ArrayLike, *, axis: int, size: int, ignore: int) -> Array:
    """The transpose of `pick`: ``x[…, idx[…, j, …], …] += g[…, j, …]``, in row-major order."""
    g, at = as_array(g), as_indices("unpick", idx)
    a = normal_axis("unpick", axis, g.ndim)
    x = zeros(_place(g.shape, a, size))
    for i in indices(at.shape):
        if at[i] != ignore:
            _check("unpick", int(at[i]), size)
            k = _place(i, a, int(at[i]))
            x[k] = x[k] + g[i]
    return x
