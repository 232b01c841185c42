"""Smooth max pooling ``y = (1/β)·log Σ exp(β·x̃)``, its derivatives in x and β, and the pair that closes them.

Padding cells count with the value 0. The sum is shifted by the window's extreme (the maximum for β > 0, the
minimum for β < 0), so every exponent is at most 0. Infinite cells are as the limit says: an infinite extreme
is the value; NaN anywhere gives NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import scalar
from .container import Array, ArrayLike, as_array, zeros
from .geometry import Ints, bad, check_beta
from .pool import _like_input, _outputs
from .scalar import Scalar
from .windows import Cells, split_shape

OP = "smooth_max_pool"


def beta_scalar(op: str, beta: ArrayLike) -> Scalar:
    """β as one scalar: a number or a 0-d array, finite and not 0."""
    value = beta
    if isinstance(beta, np.ndarray):
        if beta.ndim:
            raise bad(op, "beta must be a scalar", f"shape {beta.shape}", "use one number")
        value = beta.item()
    check_beta(op, value)
    return value


def window_values(x: Array, n: Ints, cells: Cells, p: Ints) -> list[Scalar]:
    return [0 if q is None else x[n + q] for q in cells.of(p)]


def extreme(values: list[Scalar], beta: Scalar) -> Scalar:
    """The maximum for β > 0, the minimum for β < 0, as a plain number; NaN wins."""
    points = [scalar.point(v) for v in values]
    choose = scalar.maximum if scalar.point(beta) > 0 else scalar.minimum
    best = points[0]
    for v in points[1:]:
        best = choose(best, v)
    return best


def _exponentials(values: list[Scalar], beta: Scalar) -> tuple[Scalar, list[Scalar], Scalar]:
    """``(m, exp(β(v − m)) for each v, their sum)``; beside an infinite extreme all smaller cells vanish."""
    m = extreme(values, beta)
    if scalar.is_finite(m) or m != m:
        terms = [scalar.exp(beta * (v - m)) for v in values]
    else:
        terms = [1 if scalar.point(v) == m else 0 for v in values]
    return m, terms, sum(terms)


def smooth_value(values: list[Scalar], beta: Scalar) -> Scalar:
    """``m + log(Σ exp(β(v − m)))/β`` of one window's values."""
    m = extreme(values, beta)
    if not scalar.is_finite(m):
        return m
    m, _, total = _exponentials(values, beta)
    return m + scalar.log(total) / beta


def smooth_max_pool(x: ArrayLike, beta: ArrayLike, *, window: Any) -> Array:
    """``y[p] = (1/β)·log Σ_{cells of p} exp(β·x̃)``, padding counting as 0.

    Examples
    --------
    >>> from lean_nn.spec.windows import as_strided
    >>> smooth_max_pool([1e20, -1e20], 1e20, window=as_strided("smooth_max_pool", (2,))).tolist()
    [1e+20]
    """
    x, b = as_array(x), beta_scalar(OP, beta)
    lead, cells = split_shape(OP, window, x.shape)
    y = zeros(lead + cells.out)
    for n, p in _outputs(lead, cells):
        y[n + p] = smooth_value(window_values(x, n, cells, p), b)
    return y


def window_weights(x: Array, n: Ints, cells: Cells, p: Ints, b: Scalar) -> list[tuple[Ints, Scalar]]:
    """``(q, softmax(β·x̃)_q)`` for the real cells of a window."""
    _, terms, total = _exponentials(window_values(x, n, cells, p), b)
    pairs = zip(cells.of(p), terms, strict=True)
    return [(q, scalar.div(e, total)) for q, e in pairs if q is not None]


def smooth_max_pool_jvp(x: ArrayLike, beta: ArrayLike, x_dot: ArrayLike, *, window: Any) -> Array:
    """``ẏ[p] = Σ softmax(β·x̃)_q · ẋ[q]`` over the real cells of p."""
    x, b = as_array(x), beta_scalar(OP, beta)
    t = _like_input(OP, "tangent", x_dot, x.shape)
    lead, cells = split_shape(OP, window, x.shape)
    y_dot = zeros(lead + cells.out)
    for n, p in _outputs(lead, cells):
        y_dot[n + p] = sum(w * t[n + q] for q, w in window_weights(x, n, cells, p, b))
    return y_dot


def smooth_max_pool_vjp(x: ArrayLike, beta: ArrayLike, y_bar: ArrayLike, *, window: Any) -> Array:
    """``x̄[q] = Σ_p ȳ[p] · softmax(β·x̃)_q`` over the windows p that see q."""
    x, b = as_array(x), beta_scalar(OP, beta)
    lead, cells = split_shape(OP, window, x.shape)
    g = _like_input(OP, "cotangent", y_bar, lead + cells.out)
    x_bar = zeros(x.shape)
    for n, p in _outputs(lead, cells):
        for q, w in window_weights(x, n, cells, p, b):
            x_bar[n + q] = x_bar[n + q] + w * g[n + p]
    return x_bar


def smooth_max_pool_dbeta(x: ArrayLike, beta: ArrayLike, *, window: Any) -> Array:
    """``∂y[p]/∂β = (Σ softmax(β·x̃)·x̃ − y)/β``, from values shifted by the extreme."""
    x, b = as_array(x), beta_scalar(OP, beta)
    lead, cells = split_shape(OP, window, x.shape)
    slope = zeros(lead + cells.out)
    for n, p in _outputs(lead, cells):
        values = window_values(x, n, cells, p)
        m, terms, total = _exponentials(values, b)
        mean = sum(e * (v - m) for e, v in zip(terms, values, strict=True)) / total
        slope[n + p] = (mean - scalar.log(total) / b) / b
    return slope


# --- the pair that every derivative of smooth max pooling is made of ----------------------------------------


def smooth_gather(t: ArrayLike, x: ArrayLike, beta: ArrayLike, *, window: Any) -> Array:
    """``out[p] = Σ softmax(β·x̃)_q · t[q]`` over the real cells q of window p."""
    x, b = as_array(x), beta_scalar("smooth_gather", beta)
    t = _like_input("smooth_gather", "tangent", t, x.shape)
    lead, cells = split_shape("smooth_gather", window, x.shape)
    out = zeros(lead + cells.out)
    for n, p in _outputs(lead, cells):
        for q, w in window_weights(x, n, cells, p, b):
            out[n + p] = out[n + p] + w * t[n + q]
    return out


def smooth_scatter(g: ArrayLike, x: ArrayLike, beta: ArrayLike, *, window: Any) -> Array:
    """``out[q] = Σ softmax(β·x̃)_q · g[p]`` over the windows p that see q: smooth_gather's transpose."""
    x, b = as_array(x), beta_scalar("smooth_scatter", beta)
    lead, cells = split_shape("smooth_scatter", window, x.shape)
    g = _like_input("smooth_scatter", "cotangent", g, lead + cells.out)
    out = zeros(x.shape)
    for n, p in _outputs(lead, cells):
        for q, w in window_weights(x, n, cells, p, b):
            out[n + q] = out[n + q] + w * g[n + p]
    return out
