"""Moving numbers by definition: shapes, slices, indices, dropout; and matrix products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from . import scalar
from .container import Array, ArrayLike, as_array, as_indices, build, elementwise, full, zeros
from .geometry import Ints, bad, broadcast_shape, indices
from .scalar import Scalar

# --- shapes -------------------------------------------------------------------------------------------------


def reshape(x: ArrayLike, *, shape: Sequence[int]) -> Array:
    """The same elements in row-major order, in another shape."""
    x = as_array(x)
    if int(np.prod(shape, dtype=object)) != x.size or any(n < 0 for n in shape):
        got = f"{x.shape} to {tuple(shape)}"
        raise bad("reshape", "the number of elements stays", got, f"choose a shape of {x.size} elements")
    out: Array = x.reshape(tuple(shape)).copy()
    return out


def transpose(x: ArrayLike, *, axes: Sequence[int]) -> Array:
    """``y[i_axes[0], i_axes[1], …] = x[i_0, i_1, …]``: permuted axes."""
    x = as_array(x)
    order = tuple(axes)

    def source(i: Ints) -> Scalar:
        place = [0] * len(order)
        for position, axis in enumerate(order):
            place[axis] = i[position]
        return x[tuple(place)]

    return build([x.shape[a] for a in order], source)


def broadcast_to(x: ArrayLike, *, shape: Sequence[int]) -> Array:
    """Axes of size 1 repeated; new axes in front."""
    x = as_array(x)
    lead = len(shape) - x.ndim
    return build(shape, lambda i: x[tuple(0 if n == 1 else v for n, v in zip(x.shape, i[lead:], strict=True))])


def concat(*parts: ArrayLike, axis: int) -> Array:
    """The parts one after another along ``axis``."""
    arrays = [as_array(p) for p in parts]
    first = arrays[0].shape
    out = zeros((*first[:axis], sum(a.shape[axis] for a in arrays), *first[axis + 1 :]))
    offset = 0
    for a in arrays:
        for i in indices(a.shape):
            out[(*i[:axis], i[axis] + offset, *i[axis + 1 :])] = a[i]
        offset += a.shape[axis]
    return out


def split(x: ArrayLike, *, sizes: Sequence[int], axis: int) -> tuple[Array, ...]:
    """Pieces of the given sizes along ``axis``: concat's inverse."""
    x = as_array(x)
    parts, offset = [], 0
    for size in sizes:
        start = tuple(offset if a == axis else 0 for a in range(x.ndim))
        shape = tuple(size if a == axis else n for a, n in enumerate(x.shape))
        parts.append(slice(x, start=start, size=shape, step=(1,) * x.ndim))
        offset += size
    return tuple(parts)


def _cell(i: Ints, start: Sequence[int], step: Sequence[int]) -> Ints:
    return tuple(a + v * s for a, v, s in zip(start, i, step, strict=True))


def slice(x: ArrayLike, *, start: Sequence[int], size: Sequence[int], step: Sequence[int]) -> Array:
    """``y[i] = x[start + i·step]`` for i < size, per axis."""
    x = as_array(x)
    return build(size, lambda i: x[_cell(i, start, step)])


def unslice(g: ArrayLike, *, start: Sequence[int], step: Sequence[int], shape: Sequence[int]) -> Array:
    """``x[start + i·step] = g[i]``, 0 elsewhere: slice's transpose."""
    g, x = as_array(g), zeros(shape)
    for i in indices(g.shape):
        x[_cell(i, start, step)] = g[i]
    return x


def pad(x: ArrayLike, *, padding: Sequence[Sequence[int]], value: Scalar = 0) -> Array:
    """``x`` with ``(before, after)`` cells of ``value`` around it, per axis."""
    x = as_array(x)
    out = full([n + a + b for n, (a, b) in zip(x.shape, padding, strict=True)], value)
    for i in indices(x.shape):
        out[_cell(i, [a for a, _ in padding], (1,) * x.ndim)] = x[i]
    return out


def flip(x: ArrayLike, *, axes: Sequence[int]) -> Array:
    """``y[…, i, …] = x[…, n − 1 − i, …]`` on every axis of ``axes``."""
    x = as_array(x)
    return build(x.shape, lambda i: x[tuple(x.shape[a] - 1 - v if a in axes else v for a, v in enumerate(i))])


# --- indices ------------------------------------------------------------------------------------------------


def _checked(op: str, idx: ArrayLike, size: int) -> Array:
    found = as_indices(op, idx)
    if found.size and not (found.min() >= 0 and found.max() < size):
        got = f"[{found.min()}, {found.max()}]"
        raise IndexError(f"{op}: indices must be in [0, {size}); got {got}; use indices of this axis")
    return found


def gather(x: ArrayLike, idx: ArrayLike, *, axis: int) -> Array:
    """``y[…, j, …] = x[…, idx[…, j, …], …]`` along ``axis``."""
    x = as_array(x)
    at = _checked("gather", idx, x.shape[axis])
    return build(at.shape, lambda i: x[(*i[:axis], at[i], *i[axis + 1 :])])


def scatter_add(g: ArrayLike, idx: ArrayLike, *, axis: int, size: int) -> Array:
    """``x[…, idx[…, j, …], …] += g[…, j, …]``, row-major: gather's transpose."""
    g, at = as_array(g), _checked("scatter_add", idx, size)
    x = zeros((*g.shape[:axis], size, *g.shape[axis + 1 :]))
    for i in indices(g.shape):
        place = (*i[:axis], at[i], *i[axis + 1 :])
        x[place] = x[place] + g[i]
    return x


def take(x: ArrayLike, idx: ArrayLike, *, axis: int) -> Array:
    """``y = x[…, idx, …]``: whole slices along ``axis``, the index's axes in its place."""
    x = as_array(x)
    at = _checked("take", idx, x.shape[axis])
    end = axis + at.ndim
    shape = (*x.shape[:axis], *at.shape, *x.shape[axis + 1 :])
    return build(shape, lambda i: x[(*i[:axis], at[i[axis:end]], *i[end:])])


def take_transpose(g: ArrayLike, idx: ArrayLike, *, axis: int, size: int) -> Array:
    """``x[…, idx[j], …] += g[…, j, …]``, row-major: take's transpose."""
    g, at = as_array(g), _checked("take_transpose", idx, size)
    end = axis + at.ndim
    x = zeros((*g.shape[:axis], size, *g.shape[end:]))
    for i in indices(g.shape):
        place = (*i[:axis], at[i[axis:end]], *i[end:])
        x[place] = x[place] + g[i]
    return x


# --- matrix products ----------------------------------------------------------------------------------------


def matmul(a: ArrayLike, b: ArrayLike, *, ta: bool = False, tb: bool = False) -> Array:
    """``y[…, i, j] = Σ_k A[…, i, k]·B[…, k, j]``, A and B transposed first where asked; batch axes broadcast."""
    a, b = as_array(a), as_array(b)
    if a.ndim < 2 or b.ndim < 2:
        raise bad(
            "matmul", "matrices have at least two axes", f"{a.shape} and {b.shape}", "reshape to (1, n) or (n, 1)"
        )
    a, b = a.swapaxes(-1, -2) if ta else a, b.swapaxes(-1, -2) if tb else b
    if a.shape[-1] != b.shape[-2]:
        raise bad("matmul", "inner sizes must agree", f"{a.shape} and {b.shape}", "transpose or reshape one of them")
    batch = broadcast_shape("matmul", a.shape[:-2], b.shape[:-2])
    left, right = (np.broadcast_to(m, batch + m.shape[-2:]) for m in (a, b))

    def entry(i: Ints) -> Scalar:
        n, row, column = i[:-2], i[-2], i[-1]
        return sum(left[(*n, row, k)] * right[(*n, k, column)] for k in range(a.shape[-1]))

    return build((*batch, a.shape[-2], b.shape[-1]), entry)


def linear(x: ArrayLike, w: ArrayLike, b: ArrayLike | None = None) -> Array:
    """``y[…, o] = Σ_i x[…, i]·w[o, i] + b[o]``."""
    x, w = as_array(x), as_array(w)
    if w.ndim != 2 or x.ndim < 1 or x.shape[-1] != w.shape[1]:
        raise bad("linear", "input features must equal the weight's", f"{x.shape} and {w.shape}", "change the weight")
    bias = zeros(w.shape[:1]) if b is None else as_array(b)
    if bias.shape != w.shape[:1]:
        raise bad("linear", f"bias must have shape {w.shape[:1]}", bias.shape, "reshape it or leave it out")
    features = range(w.shape[1])
    return build(
        (*x.shape[:-1], w.shape[0]),
        lambda i: sum(x[(*i[:-1], k)] * w[i[-1], k] for k in features) + bias[i[-1]],
    )


# --- dropout ------------------------------------------------------------------------------------------------

_MASK = 2**64 - 1


def dropout_uniform(seed: int, i: int) -> float:
    """The i-th number in [0, 1) of the sequence ``seed``: a counter, hashed; no state."""
    z = (seed + (i + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    z ^= z >> 31
    return float(z >> 11) * 2.0**-53


def dropout(x: ArrayLike, seed: ArrayLike, *, p: float) -> Array:
    """``x[i] / (1 − p)`` where the i-th uniform number of ``seed`` is at least p, else 0."""
    x = as_array(x)
    start = int(as_indices("dropout", seed).reshape(-1)[0])
    if not 0 <= p < 1:
        raise bad("dropout", "p must be in [0, 1)", p, "use the fraction of elements to drop")

    def keep(v: Scalar, i: int) -> Scalar:
        return v / (scalar.like(v, 1) - scalar.like(v, p)) if dropout_uniform(start, i) >= p else 0

    return elementwise("dropout", keep, x, np.arange(x.size, dtype=object).reshape(x.shape))
