"""Smooth max pooling: y[p] = (1/β)·log Σ exp(β·x̃[j]) over the cells j of window p, padding counting as 0.

Let w[p, j] = softmax(β·x̃) on window p. The weights alone make two linear maps, each the other's transpose:

    G(t)[p] = Σⱼ w[p, j]·t[j]    smooth_gather        S(g)[j] = Σₚ w[p, j]·g[p]    smooth_scatter

With ẇ = w·(β·(ẋ[j] − G(ẋ)[p]) + β̇·(x[j] − G(x)[p])), which is the derivative of a softmax, everything follows
and stays within the two maps:

    ẏ           = G(ẋ) + β̇·(G(x) − y)/β
    d G(t)      = G(ṫ) + β·(G(t·ẋ) − G(t)·G(ẋ)) + β̇·(G(t·x) − G(t)·G(x))
    d S(g)      = S(ġ) + β·(ẋ·S(g) − S(g·G(ẋ))) + β̇·(x·S(g) − S(g·G(x)))

and the reverse rules are their transposes with Gᵀ = S. The kernels take the weights from x itself, shifted by the
window's extreme, and not from exp(β(x − y)): at β = 1e20 the rounding of y alone would make those weights nonsense.
"""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np

from lean_nn import spec
from lean_nn.backend import cpu_pool
from lean_nn.ops.broadcast import sum
from lean_nn.ops.elementwise import div, mul, sub
from lean_nn.ops.pool import largest_cover, largest_window, pooled
from lean_nn.primitive import Aval, Primitive, Within, check_same_float, meaning, primitive
from lean_nn.spec.geometry import bad, check_same_shape
from lean_nn.window import Bins, Window

Shape = tuple[int, ...]


def _check(op: str, x: Aval, beta: Aval, window: Window | Bins, *others: Aval) -> Shape:
    """The pooled shape of x, or the error of whatever is wrong."""
    check_same_float(op, x, beta, *others)
    if beta.shape != ():
        raise bad(op, "beta must be a scalar", f"shape {beta.shape}", "use one number")
    return pooled(op, x.shape, window)


def _smooth_abstract(x: Aval, beta: Aval, *, window: Window | Bins) -> Aval:
    return Aval(_check("smooth_max_pool", x, beta, window), x.dtype)


def _gather_abstract(t: Aval, x: Aval, beta: Aval, *, window: Window | Bins) -> Aval:
    shape = _check("smooth_gather", x, beta, window, t)
    check_same_shape("smooth_gather", "tangent", t.shape, x.shape)
    return Aval(shape, x.dtype)


def _scatter_abstract(g: Aval, x: Aval, beta: Aval, *, window: Window | Bins) -> Aval:
    shape = _check("smooth_scatter", x, beta, window, g)
    check_same_shape("smooth_scatter", "cotangent", g.shape, shape)
    return x


def _total(x: Any) -> Any:
    return sum(x, axes=tuple(range(x.ndim)), keepdims=False)


# --- rules; G and S are the maps of this x, β and window ---


def _slope(y: Any, x: Any, beta: Any, window: Window | Bins) -> Any:
    """∂y/∂β = (G(x) − y)/β."""
    return div(sub(smooth_gather(x, x, beta, window=window), y), beta)


def _gather_by(direction: Any, y: Any, t: Any, x: Any, beta: Any, window: Window | Bins) -> Any:
    """G(t·d) − G(t)·G(d), y = G(t)."""
    moved = smooth_gather(direction, x, beta, window=window)
    return sub(smooth_gather(mul(t, direction), x, beta, window=window), mul(y, moved))


def _scatter_by(direction: Any, y: Any, g: Any, x: Any, beta: Any, window: Window | Bins) -> Any:
    """d·S(g) − S(g·G(d)), y = S(g)."""
    moved = smooth_gather(direction, x, beta, window=window)
    return sub(mul(direction, y), smooth_scatter(mul(g, moved), x, beta, window=window))


def _gather_to_x(g: Any, y: Any, t: Any, x: Any, beta: Any, *, window: Window | Bins) -> Any:
    """β·(t·S(g) − S(g·G(t))), y = G(t)."""
    here = mul(t, smooth_scatter(g, x, beta, window=window))
    return mul(sub(here, smooth_scatter(mul(g, y), x, beta, window=window)), beta)


# --- stated accuracy: weights lie in [0, 1], so errors are measured against plain sums of |t| or |g| ---


def _gamma(u: float, n: int) -> float:
    return n * u / (1 - n * u)


def _smooth_bound(u: float, x: Any, beta: Any, *, window: Window | Bins) -> Any:
    """γₙ₊₈·(max|x| + (1 + log n)/|β|), n cells in a window."""
    n = max(1, largest_window(x.shape[2:], window))
    largest = spec.max_pool(np.abs(x), window=window)[0].astype(float)
    return _gamma(u, n + 8) * (largest + (1 + log(n)) / abs(float(beta)))


def _gather_bound(u: float, t: Any, x: Any, beta: Any, *, window: Window | Bins) -> Any:
    """γ₂ₙ₊₈·Σ|t| over a window of n cells."""
    sums = spec.avg_pool(np.abs(t), window=window, divisor_override=1).astype(float)
    return _gamma(u, 2 * largest_window(x.shape[2:], window) + 8) * sums


def _scatter_bound(u: float, g: Any, x: Any, beta: Any, *, window: Window | Bins) -> Any:
    """γₙ₊ₘ₊₈·Σ|g| over the m windows of n cells that share a cell."""
    n = largest_window(x.shape[2:], window) + largest_cover(x.shape[2:], window) + 8
    sums = spec.avg_pool_transpose(np.abs(g), spatial=x.shape[2:], window=window, divisor_override=1)
    return _gamma(u, n) * sums.astype(float)


_smooth_step = cpu_pool.smooth("smooth_max_pool", 0)
_gather_step = cpu_pool.smooth("smooth_gather", 1)
_scatter_step = cpu_pool.smooth("smooth_scatter", 1)

smooth_max_pool: Primitive = primitive(
    "smooth_max_pool",
    abstract=_smooth_abstract,
    spec=meaning("smooth_max_pool"),
    step=_smooth_step,
    checks_values=True,
    jvp=(
        lambda t, y, x, beta, *, window: smooth_gather(t, x, beta, window=window),
        lambda t, y, x, beta, *, window: mul(t, _slope(y, x, beta, window)),
    ),
    vjp=(
        lambda g, y, x, beta, *, window: smooth_scatter(g, x, beta, window=window),
        lambda g, y, x, beta, *, window: _total(mul(g, _slope(y, x, beta, window))),
    ),
    saves_output=True,
    accuracy=Within(_smooth_bound),
)

smooth_gather: Primitive = primitive(
    "smooth_gather",
    abstract=_gather_abstract,
    spec=meaning("smooth_gather"),
    step=_gather_step,
    checks_values=True,
    linear=(0,),
    jvp=(
        None,
        lambda x_dot, y, t, x, beta, *, window: mul(_gather_by(x_dot, y, t, x, beta, window), beta),
        lambda beta_dot, y, t, x, beta, *, window: mul(_gather_by(x, y, t, x, beta, window), beta_dot),
    ),
    vjp=(
        lambda g, y, t, x, beta, *, window: smooth_scatter(g, x, beta, window=window),
        _gather_to_x,
        lambda g, y, t, x, beta, *, window: _total(mul(g, _gather_by(x, y, t, x, beta, window))),
    ),
    saves_output=True,
    accuracy=Within(_gather_bound),
)

smooth_scatter: Primitive = primitive(
    "smooth_scatter",
    abstract=_scatter_abstract,
    spec=meaning("smooth_scatter"),
    step=_scatter_step,
    checks_values=True,
    linear=(0,),
    jvp=(
        None,
        lambda x_dot, y, g, x, beta, *, window: mul(_scatter_by(x_dot, y, g, x, beta, window), beta),
        lambda beta_dot, y, g, x, beta, *, window: mul(_scatter_by(x, y, g, x, beta, window), beta_dot),
    ),
    vjp=(
        lambda h, y, g, x, beta, *, window: smooth_gather(h, x, beta, window=window),
        lambda h, y, g, x, beta, *, window: mul(_scatter_by(h, y, g, x, beta, window), beta),
        lambda h, y, g, x, beta, *, window: _total(mul(h, _scatter_by(x, y, g, x, beta, window))),
    ),
    saves_output=True,
    accuracy=Within(_scatter_bound),
)
