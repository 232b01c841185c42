"""Reductions by definition: sums, extremes with their places, log-sum-exp, softmax, standardisation."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence

import numpy as np

from . import scalar
from .container import Array, ArrayLike, as_array, elementwise, normal_axes, normal_axis, zeros
from .geometry import Ints, bad, indices
from .scalar import Scalar

Axes = int | Sequence[int] | None


def _kept(shape: Ints, axes: Ints) -> Ints:
    return tuple(1 if a in axes else n for a, n in enumerate(shape))


def _squeeze(y: Array, axes: Ints, keepdims: bool) -> Array:
    return y if keepdims else y.reshape(tuple(n for a, n in enumerate(y.shape) if a not in axes))


def _groups(shape: Ints, axes: Ints) -> Callable[[Ints], Ints]:
    """From an element's index to its group's: reduced axes become 0."""
    return lambda i: tuple(0 if a in axes else v for a, v in enumerate(i))


def sum(x: ArrayLike, *, axes: Axes = None, keepdims: bool = False) -> Array:
    """``Σ x`` over ``axes`` (all when None), in row-major order.

    Examples
    --------
    >>> sum([[1, 2], [3, 4]], axes=(0,)).tolist()
    [4, 6]
    """
    x = as_array(x)
    over = normal_axes("sum", axes, x.ndim)
    group, y = _groups(x.shape, over), zeros(_kept(x.shape, over))
    for i in indices(x.shape):
        y[group(i)] = y[group(i)] + x[i]
    return _squeeze(y, over, keepdims)


def mean(x: ArrayLike, *, axes: Axes = None, keepdims: bool = False) -> Array:
    """``Σ x / n`` over ``axes``."""
    x = as_array(x)
    n = _count(x.shape, normal_axes("mean", axes, x.ndim))
    y = sum(x, axes=axes, keepdims=True)
    for i in indices(y.shape):
        y[i] = scalar.div(y[i], n)
    return _squeeze(y, normal_axes("mean", axes, x.ndim), keepdims)


def _count(shape: Ints, axes: Ints) -> int:
    n = 1
    for a in axes:
        n *= shape[a]
    return n


# --- along one axis -----------------------------------------------------------------------------------------


def _lines(op: str, x: Array, axis: int) -> tuple[int, Ints]:
    """The axis from the front and the shape without it; an empty axis has no extreme."""
    a = normal_axis(op, axis, x.ndim)
    if x.shape[a] == 0:
        raise bad(op, "the reduced axis must not be empty", f"shape {x.shape}, axis {a}", "give it one element")
    return a, x.shape[:a] + x.shape[a + 1 :]


def _line(x: Array, axis: int, rest: Ints) -> list[Scalar]:
    return [x[(*rest[:axis], j, *rest[axis:])] for j in range(x.shape[axis])]


def _extreme(op: str, x: ArrayLike, axis: int, wins: Callable[[Scalar, Scalar], bool]) -> tuple[Array, Array]:
    x = as_array(x)
    a, shape = _lines(op, x, axis)
    y, idx = zeros(shape), np.zeros(shape, dtype=np.int64)
    for i in indices(shape):
        line, best = _line(x, a, i), 0
        for j in range(1, len(line)):
            if wins(line[j], line[best]):
                best = j
        y[i], idx[i] = line[best], best
    return y, idx


def max(x: ArrayLike, *, axis: int) -> tuple[Array, Array]:
    """``(max_j x[…, j, …], the first j that has it)``; the first NaN wins.

    Examples
    --------
    >>> [a.tolist() for a in max([1, 3, 3], axis=0)]
    [3, 1]
    """
    return _extreme("max", x, axis, scalar.wins)


def min(x: ArrayLike, *, axis: int) -> tuple[Array, Array]:
    """``(min_j x[…, j, …], the first j that has it)``; the first NaN wins."""
    return _extreme("min", x, axis, lambda a, b: scalar.wins(-a, -b))


def _shifted(line: list[Scalar]) -> tuple[Scalar, list[Scalar]]:
    """``(m, exp(v − m))`` with m the maximum as a plain number; NaN wins."""
    m = scalar.point(line[0])
    for v in line[1:]:
        m = scalar.maximum(m, scalar.point(v))
    return m, [scalar.exp(v - m) for v in line]


def logsumexp(x: ArrayLike, *, axis: int) -> Array:
    """``m + log Σ_j exp(x_j − m)``, m the maximum; an infinite maximum is the value."""
    x = as_array(x)
    a, shape = _lines("logsumexp", x, axis)
    y = zeros(shape)
    for i in indices(shape):
        m, terms = _shifted(_line(x, a, i))
        y[i] = m + scalar.log(builtins.sum(terms)) if scalar.is_finite(m) else m
    return y


def softmax(x: ArrayLike, *, axis: int) -> Array:
    """``exp(x_j − m) / Σ exp(x − m)``."""
    return _along("softmax", x, axis, _softmax_line)


def _softmax_line(line: list[Scalar]) -> list[Scalar]:
    _, terms = _shifted(line)
    total = builtins.sum(terms)
    return [e / total for e in terms]


def log_softmax(x: ArrayLike, *, axis: int) -> Array:
    """``(x_j − m) − log Σ exp(x − m)``."""
    return _along("log_softmax", x, axis, _log_softmax_line)


def _log_softmax_line(line: list[Scalar]) -> list[Scalar]:
    m, terms = _shifted(line)
    total = scalar.log(builtins.sum(terms))
    return [(v - m) - total for v in line]


def _along(op: str, x: ArrayLike, axis: int, f: Callable[[list[Scalar]], list[Scalar]]) -> Array:
    x = as_array(x)
    y = zeros(x.shape)
    if x.size == 0:
        normal_axis(op, axis, x.ndim)
        return y
    a, shape = _lines(op, x, axis)
    for i in indices(shape):
        for j, v in enumerate(f(_line(x, a, i))):
            y[(*i[:a], j, *i[a:])] = v
    return y


def softmax_slope(t: ArrayLike, y: ArrayLike, *, axis: int) -> Array:
    """``y·(t − Σ y·t)``: how a softmax y moves when its argument moves by t.

    Examples
    --------
    >>> softmax_slope([8, 0], [0.25, 0.75], axis=0).tolist()
    [1.5, -1.5]
    """
    t, y = as_array(t), as_array(y)
    moved: Array = y * (t - sum(y * t, axes=(axis,), keepdims=True))
    return moved


def log_softmax_transpose(g: ArrayLike, y: ArrayLike, *, axis: int) -> Array:
    """``g − exp(y)·Σ g``: what the argument of a log-softmax y gets when y is weighted by g."""
    g, total = as_array(g), sum(g, axes=(axis,), keepdims=True)
    p = zeros(g.shape)
    for i in indices(g.shape):
        p[i] = scalar.exp(as_array(y)[i])
    left: Array = g - p * total
    return left


def expect(t: ArrayLike, x: ArrayLike, *, axis: int) -> Array:
    """``Σ softmax(x)·t``: the mean of t with the weights of a softmax."""
    return sum(softmax(x, axis=axis) * as_array(t), axes=(axis,))


# --- standardisation ----------------------------------------------------------------------------------------


def variance(x: ArrayLike, *, axes: Sequence[int], correction: int) -> Array:
    """``Σ (x − mean)² / (n − correction)`` over ``axes``, which are kept as 1; 0 in the place of a divisor below it."""
    x = as_array(x)
    over = normal_axes("variance", axes, x.ndim)
    apart = x - mean(x, axes=over, keepdims=True)
    left = builtins.max(_count(x.shape, over) - correction, 0)
    return elementwise("variance", lambda v: scalar.div(v, left), sum(apart * apart, axes=over, keepdims=True))


def variance_tangent(t: ArrayLike, x: ArrayLike, *, axes: Sequence[int], correction: int) -> Array:
    """``2·Σ (x − mean(x))·(t − mean(t)) / (n − correction)``: how `variance` moves with x."""
    t, x = as_array(t), as_array(x)
    over = normal_axes("variance_tangent", axes, x.ndim)
    apart, moved = x - mean(x, axes=over, keepdims=True), t - mean(t, axes=over, keepdims=True)
    left = builtins.max(_count(x.shape, over) - correction, 0)
    return elementwise("variance_tangent", lambda v: scalar.div(2 * v, left), sum(apart * moved, axes=over, keepdims=True))


def standardize(x: ArrayLike, *, axes: Sequence[int], eps: float) -> tuple[Array, Array, Array]:
    """``z = (x − mean)·rstd``, ``rstd = 1/√(variance + eps)``: (z, mean, rstd), ``axes`` of the last two kept as 1."""
    x = as_array(x)
    over = normal_axes("standardize", axes, x.ndim)
    centre = mean(x, axes=over, keepdims=True)
    group, z = _groups(x.shape, over), zeros(x.shape)
    for i in indices(x.shape):
        z[i] = x[i] - centre[group(i)]
    rstd = mean(z * z, axes=over, keepdims=True)
    for i in indices(rstd.shape):
        rstd[i] = scalar.div(1, scalar.sqrt(rstd[i] + scalar.like(rstd[i], eps)))
    for i in indices(x.shape):
        z[i] = z[i] * rstd[group(i)]
    return z, centre, rstd


def standardize_tangent(
    t: ArrayLike, z: ArrayLike, rstd: ArrayLike, *, axes: Sequence[int]
) -> tuple[Array, Array, Array]:
    """``(rstd·(t − mean(t) − z·mean(z·t)), mean(t), −rstd²·mean(z·t))``: how z, mean and rstd move with x."""
    t, z = as_array(t), as_array(z)
    over = normal_axes("standardize_tangent", axes, t.ndim)
    r = as_array(rstd).reshape(_kept(t.shape, over))
    t_mean, zt_mean = mean(t, axes=over, keepdims=True), mean(z * t, axes=over, keepdims=True)
    return _project(t, z, r, t_mean, zt_mean, over), t_mean, -(r * r * zt_mean)


def standardize_transpose(
    g_z: ArrayLike, g_mean: ArrayLike, g_rstd: ArrayLike, z: ArrayLike, rstd: ArrayLike, *, axes: Sequence[int]
) -> Array:
    """``rstd·(g − mean(g) − z·mean(z·g)) + (g_mean − g_rstd·rstd²·z)/n``: the transpose of the tangent map."""
    g, z = as_array(g_z), as_array(z)
    over = normal_axes("standardize_transpose", axes, g.ndim)
    kept, n = _kept(g.shape, over), _count(g.shape, over)
    r, gm, gr = (as_array(a).reshape(kept) for a in (rstd, g_mean, g_rstd))
    group = _groups(g.shape, over)
    means = mean(g, axes=over, keepdims=True), mean(z * g, axes=over, keepdims=True)
    x_bar = _project(g, z, r, *means, over)
    for i in indices(g.shape):
        k = group(i)
        x_bar[i] = x_bar[i] + (gm[k] - gr[k] * r[k] * r[k] * z[i]) / n
    return x_bar


def normalize(
    x: ArrayLike, w: ArrayLike, b: ArrayLike, *, axes: Sequence[int], eps: float
) -> tuple[Array, Array, Array]:
    """``(w·z + b, mean, rstd)`` with ``(z, mean, rstd) = standardize(x)``; w and b are broadcast to x."""
    z, centre, rstd = standardize(x, axes=axes, eps=eps)
    return as_array(w) * z + as_array(b), centre, rstd


def normalize_tangent(
    t: ArrayLike, x: ArrayLike, w: ArrayLike, mean: ArrayLike, rstd: ArrayLike, *, axes: Sequence[int]
) -> tuple[Array, Array, Array]:
    """`standardize_tangent` at ``z = (x − mean)·rstd``, its first result times w."""
    z = (as_array(x) - as_array(mean)) * as_array(rstd)
    z_dot, mean_dot, rstd_dot = standardize_tangent(t, z, rstd, axes=axes)
    return as_array(w) * z_dot, mean_dot, rstd_dot


def normalize_transpose(
    g: ArrayLike, g_mean: ArrayLike, g_rstd: ArrayLike, x: ArrayLike, w: ArrayLike, mean: ArrayLike, rstd: ArrayLike,
    *, axes: Sequence[int],
) -> tuple[Array, Array, Array]:  # fmt: skip
    """``(standardize_transpose(w·g, …), Σ g·z, Σ g)`` at ``z = (x − mean)·rstd``: what x, w and b get; sums where w has 1."""
    g = as_array(g)
    z = (as_array(x) - as_array(mean)) * as_array(rstd)
    x_bar = standardize_transpose(as_array(w) * g, g_mean, g_rstd, z, rstd, axes=axes)
    over = tuple(a for a, n in enumerate(np.shape(w)) if n == 1)
    return x_bar, sum(g * z, axes=over, keepdims=True), sum(g, axes=over, keepdims=True)


def _project(t: Array, z: Array, rstd: Array, t_mean: Array, zt_mean: Array, axes: Ints) -> Array:
    group, out = _groups(t.shape, axes), zeros(t.shape)
    for i in indices(t.shape):
        k = group(i)
        out[i] = rstd[k] * (t[i] - t_mean[k] - z[i] * zt_mean[k])
    return out
