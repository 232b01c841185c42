"""Pooling by definition: max, average and smooth max, strided or adaptive, with JVP and VJP.

=====================  =============================  ====================================================
value                  JVP                            VJP
=====================  =============================  ====================================================
`max_pool` → (y, idx)  `gather_at` (t, idx)           `scatter_add_at` (y_bar, idx)
`avg_pool`             `avg_pool` (t)                 `avg_pool_transpose` (y_bar)
`smooth_max_pool`      `smooth_gather` (t, x, β)      `smooth_scatter` (y_bar, x, β)
=====================  =============================  ====================================================

Input is ``(*S)``, ``(C, *S)`` or ``(N, C, *S)``; ``window`` is described in ``windows.py``. The ``*_jvp`` and
``*_vjp`` functions are written from the definition (winner, divisor, softmax weights), not from this table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from . import scalar
from .container import Array, ArrayLike, as_array, as_indices, build, zeros
from .geometry import Ints, bad, check_divisor, check_same_shape, flat_index, indices
from .scalar import Scalar
from .windows import Cells, split_shape


def _outputs(lead: Ints, cells: Cells) -> Iterator[tuple[Ints, Ints]]:
    return ((n, p) for n in indices(lead) for p in indices(cells.out))


def _like_input(op: str, name: str, t: ArrayLike, shape: Ints) -> Array:
    a = as_array(t)
    check_same_shape(op, name, a.shape, shape)
    return a


# --- max ----------------------------------------------------------------------------------------------------


def winner(x: Array, lead: Ints, cells: Cells, p: Ints) -> Ints | None:
    """The first maximal real cell of a window in row-major order (the first NaN if there is one), or None."""
    best: Ints | None = None
    for q in cells.real(p):
        if best is None or scalar.wins(x[lead + q], x[lead + best]):
            best = q
    return best


def max_pool(x: ArrayLike, *, window: Any) -> tuple[Array, Array]:
    """``y[p] = max_{real cells q of p} x[q]`` and the winner's flat index (0 and −1 if none).

    Examples
    --------
    >>> from lean_nn.spec.windows import as_strided
    >>> y, idx = max_pool([1, 3, 3, 2], window=as_strided("max_pool", (2,)))
    >>> y.tolist(), idx.tolist()
    ([3, 3], [1, 2])
    """
    x = as_array(x)
    lead, cells = split_shape("max_pool", window, x.shape)
    y, idx = zeros(lead + cells.out), np.full(lead + cells.out, -1, dtype=np.int64)
    for n, p in _outputs(lead, cells):
        q = winner(x, n, cells, p)
        if q is not None:
            y[n + p], idx[n + p] = x[n + q], flat_index(q, cells.spatial)
    return y, idx


def max_pool_jvp(x: ArrayLike, x_dot: ArrayLike, *, window: Any) -> Array:
    """``ẏ[p] = ẋ[winner of p]``, 0 without real cell."""
    x = as_array(x)
    t = _like_input("max_pool", "tangent", x_dot, x.shape)
    lead, cells = split_shape("max_pool", window, x.shape)
    y_dot = zeros(lead + cells.out)
    for n, p in _outputs(lead, cells):
        q = winner(x, n, cells, p)
        if q is not None:
            y_dot[n + p] = t[n + q]
    return y_dot


def max_pool_vjp(x: ArrayLike, y_bar: ArrayLike, *, window: Any) -> Array:
    """``x̄[q] = Σ ȳ[p]`` over the windows p that q wins."""
    x = as_array(x)
    lead, cells = split_shape("max_pool", window, x.shape)
    g = _like_input("max_pool", "cotangent", y_bar, lead + cells.out)
    x_bar = zeros(x.shape)
    for n, p in _outputs(lead, cells):
        q = winner(x, n, cells, p)
        if q is not None:
            x_bar[n + q] = x_bar[n + q] + g[n + p]
    return x_bar


def gather_at(x: ArrayLike, idx: ArrayLike) -> Array:
    """``y[n,c,p] = x[n,c,·].flat[idx[n,c,p]]``, 0 at index −1; ``x[N,C,*S]``, ``idx[N,C,*P]``."""
    x, idx = as_array(x), as_indices("gather_at", idx)
    lead, spatial = _at_shapes("gather_at", x.shape, idx, idx.shape[:2])
    flat = x.reshape((*lead, -1)) if x.size else zeros((*lead, spatial))

    def value(i: Ints) -> Scalar:
        return 0 if idx[i] == -1 else flat[(*i[: len(lead)], idx[i])]

    return build(idx.shape, value)


def scatter_add_at(y_bar: ArrayLike, idx: ArrayLike, *, spatial: Ints) -> Array:
    """``x[n,c,·].flat[j] = Σ y_bar[n,c,p]`` over ``idx[n,c,p] = j``, row-major in p; −1 is skipped."""
    y_bar, idx = as_array(y_bar), as_indices("scatter_add_at", idx)
    check_same_shape("scatter_add_at", "index", idx.shape, y_bar.shape)
    shape = (*idx.shape[:2], *spatial)
    lead, size = _at_shapes("scatter_add_at", shape, idx, idx.shape[:2])
    sums: dict[Ints, Scalar] = {}  # begun by their first terms: NumPy 1's 0 + float32 is a float64
    for i in indices(idx.shape):
        if idx[i] != -1:
            at = (*i[: len(lead)], int(idx[i]))
            sums[at] = sums[at] + y_bar[i] if at in sums else y_bar[i]
    return build((*lead, size), lambda i: sums.get(tuple(i), 0)).reshape(shape)


def _at_shapes(op: str, shape: Ints, idx: Array, idx_lead: Ints) -> tuple[Ints, int]:
    if len(shape) < 2 or idx.ndim < 2 or tuple(shape[:2]) != tuple(idx_lead):
        got = f"{tuple(shape)} and {idx.shape}"
        raise bad(op, "array and index must share (batch, channels)", got, "use the index of this input")
    size = int(np.prod(shape[2:], dtype=object))
    if idx.size and not (idx.min() >= -1 and idx.max() < size):
        raise IndexError(f"{op}: indices must be in [-1, {size}); got [{idx.min()}, {idx.max()}]; use this input's")
    return tuple(shape[:2]), size


# --- average ------------------------------------------------------------------------------------------------


def divisor(cells: Cells, p: Ints, count_include_pad: bool = True, divisor_override: int | None = None) -> int:
    """What window ``p`` divides by: the override, all its cells, or its real cells."""
    if divisor_override is not None:
        return divisor_override
    return len(cells.of(p)) if count_include_pad else len(cells.real(p))


def avg_pool(
    x: ArrayLike, *, window: Any, count_include_pad: bool = True, divisor_override: int | None = None
) -> Array:
    """``y[p] = Σ_{real cells q of p} x[q] / divisor(p)``, 0 without real cell.

    Examples
    --------
    >>> from lean_nn.spec.windows import as_strided
    >>> avg_pool([1.0, 3.0, 5.0], window=as_strided("avg_pool", (2,), stride=1)).tolist()
    [2.0, 4.0]
    """
    check_divisor("avg_pool", divisor_override)
    x = as_array(x)
    lead, cells = split_shape("avg_pool", window, x.shape)
    y = zeros(lead + cells.out)
    for n, p in _outputs(lead, cells):
        real = cells.real(p)
        if real:
            total = sum(x[n + q] for q in real)
            y[n + p] = total / divisor(cells, p, count_include_pad, divisor_override)
    return y


def avg_pool_jvp(x_dot: ArrayLike, **params: Any) -> Array:
    """``avg_pool(ẋ)``: average pooling is linear."""
    return avg_pool(x_dot, **params)


def avg_pool_transpose(
    y_bar: ArrayLike,
    *,
    spatial: Ints,
    window: Any,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """``x[q] = Σ y_bar[p] / divisor(p)`` over the windows that see q; the share of padding is lost."""
    check_divisor("avg_pool_transpose", divisor_override)
    y_bar = as_array(y_bar)
    lead = y_bar.shape[: max(0, y_bar.ndim - len(spatial))]
    _, cells = split_shape("avg_pool_transpose", window, lead + tuple(spatial))
    check_same_shape("avg_pool_transpose", "cotangent", y_bar.shape, lead + cells.out)
    x = zeros(lead + tuple(spatial))
    for n, p in _outputs(lead, cells):
        real = cells.real(p)
        if not real:
            continue
        share = y_bar[n + p] / divisor(cells, p, count_include_pad, divisor_override)
        for q in real:
            x[n + q] = x[n + q] + share
    return x


avg_pool_vjp = avg_pool_transpose
