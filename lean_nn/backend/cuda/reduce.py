"""Sums, extremes, softmax and standardisation by CuPy's reductions; statistics are taken in double."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from lean_nn.backend.cuda.library import cp

Shape = tuple[int, ...]
Triple = tuple[Any, Any, Any]


def total(x: Any, *, out: Any, axes: Shape, keepdims: bool) -> None:
    out[...] = x.sum(axis=axes, keepdims=keepdims) if axes else x


# --- along one axis ---


def largest(x: Any, *, out: tuple[Any, Any], axis: int) -> None:
    _extreme(x, out, axis, cp.argmax)


def smallest(x: Any, *, out: tuple[Any, Any], axis: int) -> None:
    _extreme(x, out, axis, cp.argmin)


def _extreme(x: Any, out: tuple[Any, Any], axis: int, winner: Any) -> None:
    y, idx = out
    if y.size:
        idx[...] = winner(x, axis=axis).astype(np.int64)
        y[...] = cp.take_along_axis(x, cp.expand_dims(idx, axis), axis).reshape(y.shape)


def logsumexp(x: Any, *, out: Any, axis: int) -> None:
    if not out.size:
        return
    high = x.max(axis=axis, keepdims=True)
    shift = cp.where(cp.isfinite(high), high, x.dtype.type(0))  # an infinite line is its extreme, whatever the shift
    sums = cp.exp(x - shift).sum(axis=axis, keepdims=True)
    out[...] = (cp.log(sums) + shift).reshape(out.shape)


def softmax(x: Any, *, out: Any, axis: int) -> None:
    if x.size:
        e = cp.exp(x - x.max(axis=axis, keepdims=True))
        out[...] = e / e.sum(axis=axis, keepdims=True)


def log_softmax(x: Any, *, out: Any, axis: int) -> None:
    if x.size:
        below = x - x.max(axis=axis, keepdims=True)
        out[...] = below - cp.log(cp.exp(below).sum(axis=axis, keepdims=True))


def softmax_slope(t: Any, y: Any, *, out: Any, axis: int) -> None:
    if t.size:
        out[...] = y * (t - (y * t).sum(axis=axis, keepdims=True))


def log_softmax_transpose(g: Any, y: Any, *, out: Any, axis: int) -> None:
    if g.size:
        out[...] = g - cp.exp(y) * g.sum(axis=axis, keepdims=True)


def expect(t: Any, x: Any, *, out: Any, axis: int) -> None:
    if out.size:
        e = cp.exp(x - x.max(axis=axis, keepdims=True))
        out[...] = (e * t).sum(axis=axis) / e.sum(axis=axis)


# --- standardisation; the formulas stand in lean_nn/ops/norm.py and normalize.py ---


def _mean(x: Any, axes: Shape) -> Any:
    return _sum(x, axes) / np.float64(prod(x.shape[a] for a in axes))


def _sum(x: Any, axes: Shape) -> Any:
    return x.sum(axis=axes, keepdims=True) if axes else x


def _put(out: Any, value: Any) -> None:
    out[...] = value.astype(out.dtype)


def _wide(*arrays: Any) -> list[Any]:
    return [a.astype(np.float64) for a in arrays]


def _statistics(x: Any, axes: Shape, eps: float) -> tuple[Any, Any, Any]:
    """z, mean and 1/√(variance + eps)."""
    mean = _mean(x, axes)
    centred = x - mean
    r = cp.reciprocal(cp.sqrt(_mean(centred * centred, axes) + np.float64(eps)))
    return centred * r, mean, r


def standardize(x: Any, *, out: Triple, axes: Shape, eps: float) -> None:
    if x.size:
        for place, value in zip(out, _statistics(x.astype(np.float64), axes, eps), strict=True):
            _put(place, value)


def _centred(x: Any, axes: Shape) -> Any:
    x = x.astype(np.float64)
    return x - _mean(x, axes)


def _left(x: Any, axes: Shape, correction: int) -> Any:
    return np.float64(max(prod(x.shape[a] for a in axes) - correction, 0))


def variance(x: Any, *, out: Any, axes: Shape, correction: int) -> None:
    if out.size:
        apart = _centred(x, axes)
        _put(out, _sum(apart * apart, axes) / _left(x, axes, correction))


def variance_tangent(t: Any, x: Any, *, out: Any, axes: Shape, correction: int) -> None:
    if out.size:
        _put(out, _sum(_centred(x, axes) * _centred(t, axes), axes) * np.float64(2) / _left(x, axes, correction))


def normalize(x: Any, w: Any, b: Any, *, out: Triple, axes: Shape, eps: float) -> None:
    if not x.size:
        return
    x, w, b = _wide(x, w, b)
    z, mean, r = _statistics(x, axes, eps)
    for place, value in zip(out, (w * z + b, mean, r), strict=True):
        _put(place, value)


def _tangent(t: Any, z: Any, r: Any, axes: Shape) -> Triple:
    """T."""
    t_mean, zt_mean = _mean(t, axes), _mean(z * t, axes)
    return r * (t - t_mean - z * zt_mean), t_mean, -r * r * zt_mean


def _transpose(g: Any, g_mean: Any, g_rstd: Any, z: Any, r: Any, axes: Shape) -> Any:
    """Tᵀ."""
    n = np.float64(prod(g.shape[a] for a in axes))
    return _tangent(g, z, r, axes)[0] + (g_mean - g_rstd * r * r * z) / n


def standardize_tangent(t: Any, z: Any, r: Any, *, out: Triple, axes: Shape) -> None:
    if t.size:
        t, z, r = _wide(t, z, r)
        for place, value in zip(out, _tangent(t, z, r, axes), strict=True):
            _put(place, value)


def standardize_transpose(g: Any, g_mean: Any, g_rstd: Any, z: Any, r: Any, *, out: Any, axes: Shape) -> None:
    if g.size:
        g, g_mean, g_rstd, z, r = _wide(g, g_mean, g_rstd, z, r)
        _put(out, _transpose(g, g_mean, g_rstd, z, r, axes))


def normalize_tangent(t: Any, x: Any, w: Any, mean: Any, r: Any, *, out: Triple, axes: Shape) -> None:
    if not t.size:
        return
    t, x, w, mean, r = _wide(t, x, w, mean, r)
    first, second, third = _tangent(t, (x - mean) * r, r, axes)
    for place, value in zip(out, (w * first, second, third), strict=True):
        _put(place, value)


def normalize_transpose(
    g: Any, g_mean: Any, g_rstd: Any, x: Any, w: Any, mean: Any, r: Any, *, out: Triple, axes: Shape
) -> None:
    if not g.size:
        for place in out:
            place.fill(0)
        return
    g, g_mean, g_rstd, x, w, mean, r = _wide(g, g_mean, g_rstd, x, w, mean, r)
    z = (x - mean) * r
    over = tuple(a for a, n in enumerate(w.shape) if n == 1)
    results = _transpose(w * g, g_mean, g_rstd, z, r, axes), _sum(g * z, over), _sum(g, over)
    for place, value in zip(out, results, strict=True):
        _put(place, value)


SLOTS = {
    "sum": total, "max": largest, "min": smallest, "logsumexp": logsumexp, "softmax": softmax, "log_softmax": log_softmax,
    "softmax_slope": softmax_slope, "log_softmax_transpose": log_softmax_transpose, "expect": expect,
    "variance": variance, "variance_tangent": variance_tangent,
    "standardize": standardize, "standardize_tangent": standardize_tangent, "standardize_transpose": standardize_transpose,
    "normalize": normalize, "normalize_tangent": normalize_tangent, "normalize_transpose": normalize_transpose,
}  # fmt: skip
