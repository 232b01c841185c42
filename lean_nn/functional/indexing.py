"""``x[key]`` with NumPy's meaning: a slice, then a reshape, then, for index arrays, one `take`.

Basic keys (ints, slices, None, …) are a `slice` of every axis and a reshape that drops the axes of ints and
adds those of None. Index arrays (and boolean masks, which are the index arrays of their True cells) are
broadcast together and made one flat index into the axes they stand for, which are brought together first.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from lean_nn.convert import as_tensor, as_tensor_like
from lean_nn.device import to_host
from lean_nn.ops import indexing as lookups
from lean_nn.ops import shape as ops
from lean_nn_c.engine import Box

__all__ = ["index"]


def index(x: Any, key: Any) -> Any:
    """The part of x that `key` names, as NumPy would.

    >>> import lean_nn as ln
    >>> x = ln.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> x[:, ::2]
    tensor([[1., 3.],
            [4., 6.]])
    >>> x[[1, 0, 1], 2]
    tensor([6., 3., 6.])
    """
    x = as_tensor(x)
    keys = _expanded(x, key)
    if any(_is_array(k) for k in keys):
        return _advanced(x, keys)
    return _basic(x, keys)


def _is_array(key: Any) -> bool:
    return isinstance(key, np.ndarray)


def _normal(key: Any) -> Any:
    """A key as an int, a slice, None, Ellipsis or an array of int64 or bool."""
    if key is None or key is Ellipsis or isinstance(key, slice):
        return key
    if isinstance(key, Box):
        key = to_host(key.data)
    if isinstance(key, (bool, np.bool_)):
        raise TypeError("index: a lone bool is no index; got one; use a mask of the Tensor's shape")
    if isinstance(key, (int, np.integer)):
        return int(key)
    array = np.asarray(key)
    if array.size == 0 and not isinstance(key, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iub":
        raise TypeError(f"index: ints, slices, None, ..., integer or boolean arrays; got {array.dtype}; convert the index")
    return array if array.dtype.kind == "b" else array.astype(np.int64)


def _expanded(x: Any, key: Any) -> list[Any]:
    """One key per axis (None besides): the ellipsis filled in, masks made index arrays."""
    keys: list[Any] = []
    for k in key if isinstance(key, tuple) else (key,):
        k = _normal(k)
        if _is_array(k) and k.dtype.kind == "b":
            axis = sum(1 for done in keys if done is not None and done is not Ellipsis)
            after_ellipsis = Ellipsis in [d for d in keys if not _is_array(d)]
            if not after_ellipsis and x.shape[axis : axis + k.ndim] != k.shape:
                raise IndexError(f"index: a mask has the shape of the axes it stands for; got {k.shape} for {x.shape}; "
                                 f"compare along those axes")
            keys.extend(k.nonzero())
        else:
            keys.append(k)
    used = sum(1 for k in keys if k is not None and k is not Ellipsis)
    dots = [i for i, k in enumerate(keys) if k is Ellipsis]
    if used > x.ndim or len(dots) > 1:
        raise IndexError(f"index: at most one key per axis and one ellipsis; got {used} keys for shape {x.shape}; remove some")
    fill = [slice(None)] * (x.ndim - used)
    place = dots[0] if dots else len(keys)
    return keys[:place] + fill + keys[place + 1 :]


def _in_range(i: int, axis: int, n: int) -> int:
    if not -n <= i < n:
        raise IndexError(f"index: from {-n} to {n - 1} on axis {axis}; got {i}; use an index inside the Tensor")
    return i % n


def _basic(x: Any, keys: list[Any]) -> Any:
    start, size, step, shape = [], [], [], []
    axis = 0
    for k in keys:
        if k is None:
            shape.append(1)
            continue
        n = x.shape[axis]
        if isinstance(k, slice):
            cells = range(n)[k]
            start.append(cells.start if len(cells) else 0)
            step.append(cells.step)
            shape.append(len(cells))
            size.append(len(cells))
        else:
            start.append(_in_range(k, axis, n))
            step.append(1)
            size.append(1)
        axis += 1
    if tuple(size) != x.shape or any(s != 1 for s in step):
        x = ops.slice(x, start=tuple(start), size=tuple(size), step=tuple(step))
        if shape == size:
            return x
    return ops.reshape(x, shape=tuple(shape))


def _advanced(x: Any, keys: list[Any]) -> Any:
    """Ints count as index arrays here, as NumPy has it."""
    keys = [np.array(k) if isinstance(k, int) else k for k in keys]
    x = _basic(x, [slice(None) if _is_array(k) else k for k in keys])
    axes = [a for a, k in enumerate(keys) if _is_array(k)]
    arrays = [_wrapped(keys[a], a, x.shape[a]) for a in axes]
    try:
        arrays = list(np.broadcast_arrays(*arrays))
    except ValueError:
        shapes = [keys[a].shape for a in axes]
        raise IndexError(f"index: index arrays broadcast together; got shapes {shapes}; reshape one of them") from None
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    rest = [a for a in range(x.ndim) if a not in axes]
    place = axes[0] if together else 0
    if not together:
        x = ops.transpose(x, axes=tuple(axes + rest))
    sizes = x.shape[place : place + len(axes)]
    flat = np.zeros(arrays[0].shape, np.int64)
    for array, n in zip(arrays, sizes, strict=True):
        flat = flat * n + array
    x = ops.reshape(x, shape=(*x.shape[:place], prod(sizes), *x.shape[place + len(axes) :]))
    return lookups.take(x, as_tensor_like(np.ascontiguousarray(flat), x), axis=place)


def _wrapped(array: Any, axis: int, n: int) -> Any:
    """Negative indices counted from the end; one out of range is an error."""
    if array.size and (array.min() < -n or array.max() >= n):
        worst = int(array.min()) if array.min() < -n else int(array.max())
        _in_range(worst, axis, n)
    return np.where(array < 0, array + n, array)
