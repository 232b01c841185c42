"""Scalar functions with pieces, and the gates that are their slopes: ``f(x)`` of any scalar.

A gate takes a tangent (or cotangent) ``t`` and the place ``x`` and gives ``f'(x)·t``, with PyTorch's choice at the
kinks. The pieces are cut so that a dual number has the same slope there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from . import scalar
from .scalar import Scalar, is_nan, piecewise

SQRT_8_OVER_PI = 1.5957691216057307117
CUBIC = 0.044715


def like(c: float, x: Scalar) -> Scalar:
    """The number ``c`` beside ``x``: among exact numbers it is the fraction it stands for."""
    return Fraction(c) if isinstance(scalar.point(x), Fraction) and math.isfinite(c) else c


def _keep(x: Scalar) -> Scalar:
    return x


def _zero(_: Scalar) -> Scalar:
    return 0


def _unless_nan(value: Scalar) -> Callable[[Scalar], Scalar]:
    return lambda x: x if is_nan(x) else value


def relu(x: Scalar) -> Scalar:
    """``max(x, 0)``; slope 0 at 0."""
    return piecewise(x, 0, _zero, _keep)


def leaky_relu(x: Scalar, negative_slope: float = 0.01) -> Scalar:
    """``x`` above 0, ``negative_slope·x`` elsewhere."""
    return piecewise(x, 0, lambda v: like(negative_slope, v) * v, _keep)


def elu(x: Scalar, alpha: float = 1.0) -> Scalar:
    """``x`` above 0, ``alpha·(exp(x) − 1)`` elsewhere."""
    return piecewise(x, 0, lambda v: like(alpha, v) * scalar.expm1(v), _keep)


def gelu(x: Scalar, approximate: str = "none") -> Scalar:
    """``x·Φ(x)``; ``"tanh"``: ``x·σ(√(8/π)·(x + 0.044715 x³))``."""
    if approximate == "none":
        return x * scalar.normal_cdf(x)
    return x * scalar.sigmoid((x + x * x * x * like(CUBIC, x)) * like(SQRT_8_OVER_PI, x))


def silu(x: Scalar) -> Scalar:
    """``x·σ(x)``."""
    return x * scalar.sigmoid(x)


def _log1p_exp(v: Scalar) -> Scalar:
    return piecewise(v, 0, lambda u: scalar.log1p(scalar.exp(u)), lambda u: u + scalar.log1p(scalar.exp(-u)))


def softplus(x: Scalar, beta: float = 1.0, threshold: float = 20.0) -> Scalar:
    """``log(1 + exp(beta·x))/beta``; ``x`` itself where ``beta·x > threshold``."""
    b = like(beta, x)
    return piecewise(b * x, like(threshold, x), lambda v: scalar.div(_log1p_exp(v), b), lambda v: scalar.div(v, b))


def hardsigmoid(x: Scalar) -> Scalar:
    """``min(max(x + 3, 0), 6)/6``; slope 0 at ±3."""
    middle: Callable[[Scalar], Scalar] = lambda v: scalar.div(v + 3, 6)  # noqa: E731
    return piecewise(x, -3, _zero, lambda u: piecewise(u, 3, middle, _unless_nan(1), cut_is_left=False))


def hardswish(x: Scalar) -> Scalar:
    """``x·hardsigmoid(x)``; slope 0 at −3 and 1 at 3."""
    middle: Callable[[Scalar], Scalar] = lambda v: scalar.div(v * (v + 3), 6)  # noqa: E731
    return piecewise(x, -3, _zero, lambda u: piecewise(u, 3, middle, _keep, cut_is_left=False))


def clip(x: Scalar, lo: float, hi: float) -> Scalar:
    """``min(max(x, lo), hi)``; slope 1 at the bounds themselves."""
    low = piecewise(x, like(lo, x), lambda v: like(lo, v), _keep, cut_is_left=False)
    return piecewise(low, like(hi, x), _keep, _unless_nan(like(hi, x)))


# --- gates --------------------------------------------------------------------------------------------------


def relu_gate(t: Scalar, x: Scalar) -> Scalar:
    """``t`` above 0 (and for NaN), 0 elsewhere."""
    return piecewise(x, 0, _zero, lambda _: t)


def leaky_gate(t: Scalar, x: Scalar, negative_slope: float = 0.01) -> Scalar:
    """``t`` above 0, ``negative_slope·t`` elsewhere."""
    below = like(negative_slope, t) * t
    return piecewise(x, 0, lambda _: below, lambda v: below if is_nan(v) else t)


def elu_gate(t: Scalar, x: Scalar, alpha: float = 1.0) -> Scalar:
    """``t`` above 0, ``t·alpha·exp(x)`` elsewhere."""
    below: Callable[[Scalar], Scalar] = lambda v: t * (like(alpha, v) * scalar.exp(v))  # noqa: E731
    return piecewise(x, 0, below, lambda v: below(v) if is_nan(v) else t)


def clip_gate(t: Scalar, x: Scalar, lo: float, hi: float) -> Scalar:
    """``t`` on ``[lo, hi]``, 0 elsewhere."""
    upper: Callable[[Scalar], Scalar] = lambda v: piecewise(v, like(hi, v), lambda _: t, _zero)  # noqa: E731
    return piecewise(x, like(lo, x), _zero, upper, cut_is_left=False)


def open_gate(t: Scalar, x: Scalar, lo: float, hi: float) -> Scalar:
    """``t`` strictly between ``lo`` and ``hi``, 0 elsewhere."""
    upper: Callable[[Scalar], Scalar] = lambda v: piecewise(  # noqa: E731
        v, like(hi, v), lambda _: t, _zero, cut_is_left=False
    )
    return piecewise(x, like(lo, x), _zero, upper)


def tanh_gate(t: Scalar, y: Scalar) -> Scalar:
    """``t·(1 − y²)``: the slope of tanh where it is ``y``."""
    return t * ((1 - y) * (1 + y))


def sigmoid_gate(t: Scalar, y: Scalar) -> Scalar:
    """``t·y·(1 − y)``: the slope of the sigmoid where it is ``y``."""
    return t * (y * (1 - y))
