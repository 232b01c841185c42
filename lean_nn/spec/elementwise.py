"""Elementwise primitives by definition; binary ones broadcast like NumPy.

Kinks have the slopes that dual numbers give to these texts: 0 for ``abs`` and ``relu`` at 0, half to each side of a
``maximum`` tie, the inner slope for ``clip`` at its bounds, the outer one for ``hardsigmoid``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from . import scalar
from .container import Array, ArrayLike, as_array, elementwise
from .scalar import Scalar

_pow, _abs = scalar.pow, scalar.abs


def _unary(name: str, f: Callable[[Scalar], Scalar], formula: str) -> Callable[[ArrayLike], Array]:
    def apply(x: ArrayLike) -> Array:
        return elementwise(name, f, x)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"``{formula}``."
    return apply


def _binary(
    name: str, f: Callable[[Scalar, Scalar], Scalar], formula: str, dtype: type = object
) -> Callable[[ArrayLike, ArrayLike], Array]:
    def apply(a: ArrayLike, b: ArrayLike) -> Array:
        return elementwise(name, f, a, b, dtype=dtype)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"``{formula}``."
    return apply


# --- arithmetic and functions -------------------------------------------------------------------------------

add = _binary("add", operator.add, "a + b")
sub = _binary("sub", operator.sub, "a − b")
mul = _binary("mul", operator.mul, "a · b")
div = _binary("div", scalar.div, "a / b")
pow = _binary("pow", _pow, "a ** b")
maximum = _binary("maximum", scalar.maximum, "the larger one; NaN wins")
minimum = _binary("minimum", scalar.minimum, "the smaller one; NaN wins")

neg = _unary("neg", operator.neg, "−x")
abs = _unary("abs", _abs, "|x|")
sign = _unary("sign", scalar.sign, "−1, 0 or 1")
square = _unary("square", lambda x: x * x, "x²")
reciprocal = _unary("reciprocal", lambda x: scalar.div(1, x), "1 / x")
exp = _unary("exp", scalar.exp, "exp(x)")
expm1 = _unary("expm1", scalar.expm1, "exp(x) − 1")
log = _unary("log", scalar.log, "log(x)")
log1p = _unary("log1p", scalar.log1p, "log(1 + x)")
sqrt = _unary("sqrt", scalar.sqrt, "√x")
tanh = _unary("tanh", scalar.tanh, "tanh(x)")
erf = _unary("erf", scalar.erf, "2/√π · ∫₀ˣ exp(−t²) dt")
sigmoid = _unary("sigmoid", scalar.sigmoid, "1 / (1 + exp(−x))")
normal_cdf = _unary("normal_cdf", scalar.normal_cdf, "Φ(x) = (1 + erf(x/√2)) / 2")
normal_pdf = _unary("normal_pdf", scalar.normal_pdf, "φ(x) = exp(−x²/2) / √(2π)")

eq = _binary("eq", operator.eq, "a == b", bool)
ne = _binary("ne", operator.ne, "a != b", bool)
lt = _binary("lt", operator.lt, "a < b", bool)
le = _binary("le", operator.le, "a <= b", bool)
gt = _binary("gt", operator.gt, "a > b", bool)
ge = _binary("ge", operator.ge, "a >= b", bool)


def where(condition: ArrayLike, a: ArrayLike, b: ArrayLike) -> Array:
    """``a`` where the condition holds, else ``b``; the three broadcast."""
    return elementwise("where", lambda c, p, q: p if c else q, condition, a, b)


def affine(x: ArrayLike, scale: ArrayLike, shift: ArrayLike) -> Array:
    """``x · scale + shift`` with a number of each per channel, the second axis of x."""
    x, by, plus = as_array(x), as_array(scale), as_array(shift)
    channel = (1, -1, *(1,) * (x.ndim - 2))
    return elementwise("affine", lambda v, s, t: v * s + t, x, by.reshape(channel), plus.reshape(channel))


# --- activations --------------------------------------------------------------------------------------------


def _zero(_: Scalar) -> Scalar:
    return 0


def _same(x: Scalar) -> Scalar:
    return x


def _relu(x: Scalar) -> Scalar:
    return scalar.piecewise(x, 0, _zero, _same)


def _silu(x: Scalar) -> Scalar:
    return x * scalar.sigmoid(x)


def _gelu_tanh(x: Scalar) -> Scalar:
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)  # √(2/π)
    return x * scalar.sigmoid(2 * inner)  # (1 + tanh(u)) / 2 = σ(2u), without cancellation


def _hardsigmoid(x: Scalar) -> Scalar:
    def below_three(v: Scalar) -> Scalar:
        return scalar.piecewise(v, 3, lambda u: (u + 3) / 6, lambda u: u if scalar.is_nan(u) else 1, cut_is_left=False)

    return scalar.piecewise(x, -3, _zero, below_three)


relu = _unary("relu", _relu, "x where x > 0 else 0; NaN stays")
gelu = _unary("gelu", lambda x: x * scalar.normal_cdf(x), "x · Φ(x)")
gelu_tanh = _unary("gelu_tanh", _gelu_tanh, "x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³)))")
silu = _unary("silu", _silu, "x · σ(x)")
hardsigmoid = _unary("hardsigmoid", _hardsigmoid, "clip(x + 3, 0, 6) / 6")
hardswish = _unary("hardswish", lambda x: x * _hardsigmoid(x), "x · clip(x + 3, 0, 6) / 6")


def leaky_relu(x: ArrayLike, *, slope: float) -> Array:
    """``x`` where ``x > 0``, else ``slope · x``."""

    def f(v: Scalar) -> Scalar:
        return scalar.piecewise(v, 0, lambda u: u * scalar.like(u, slope), _same)

    return elementwise("leaky_relu", f, x)


def elu(x: ArrayLike, *, alpha: float) -> Array:
    """``x`` where ``x > 0``, else ``alpha · (exp(x) − 1)``."""

    def f(v: Scalar) -> Scalar:
        return scalar.piecewise(v, 0, lambda u: scalar.like(u, alpha) * scalar.expm1(u), _same)

    return elementwise("elu", f, x)


def softplus(x: ArrayLike, *, beta: float, threshold: float) -> Array:
    """``log(1 + exp(beta·x)) / beta``, and ``x`` itself where ``beta·x > threshold``."""

    def f(v: Scalar) -> Scalar:
        z = v * scalar.like(v, beta)
        # max(z, 0) + log1p(exp(−|z|)), by cases so that no exponential overflows
        positive = scalar.piecewise(z, 0, lambda u: scalar.log1p(scalar.exp(u)), lambda u: u + _tail(u))
        return scalar.piecewise(z, threshold, lambda _: positive / scalar.like(v, beta), lambda _: v)

    return elementwise("softplus", f, x)


def _tail(u: Scalar) -> Scalar:
    return scalar.log1p(scalar.exp(-u))


def clip(x: ArrayLike, *, low: float | None = None, high: float | None = None) -> Array:
    """``min(max(x, low), high)``; NaN stays; a bound that is None is no bound."""

    def f(v: Scalar) -> Scalar:
        above = v if low is None else scalar.piecewise(v, low, lambda u: scalar.like(u, low), _same, cut_is_left=False)
        if high is None:
            return above
        return scalar.piecewise(above, high, _same, lambda u: u if scalar.is_nan(u) else scalar.like(u, high))

    return elementwise("clip", f, x)


# --- gates: a derivative as one primitive -------------------------------------------------------------------


def relu_gate(g: ArrayLike, x: ArrayLike) -> Array:
    """``g`` where ``x > 0`` or NaN, else 0."""
    return elementwise("relu_gate", lambda h, v: scalar.piecewise(v, 0, _zero, lambda _: h), g, x)


def sign_gate(g: ArrayLike, x: ArrayLike) -> Array:
    """``g · sign(x)``."""
    return elementwise("sign_gate", lambda h, v: h * scalar.sign(v), g, x)


def larger_gate(g: ArrayLike, a: ArrayLike, b: ArrayLike) -> Array:
    """``g`` where ``a > b`` or one is NaN, ``g/2`` where they are equal, else 0; the three broadcast."""

    def f(h: Scalar, v: Scalar, w: Scalar) -> Scalar:
        return 0 if v < w else h * scalar.like(h, 0.5) if v == w else h

    return elementwise("larger_gate", f, g, a, b)


def div_gate(g: ArrayLike, y: ArrayLike, b: ArrayLike) -> Array:
    """``−g · y / b``; the three broadcast."""
    return elementwise("div_gate", lambda h, v, w: scalar.div(-(h * v), w), g, y, b)


def pow_gate(g: ArrayLike, a: ArrayLike, b: ArrayLike) -> Array:
    """``g · b · a ** (b − 1)``, 0 where b is 0; the three broadcast."""
    return elementwise("pow_gate", lambda h, v, w: 0 if w == 0 else h * (w * _pow(v, w - 1)), g, a, b)


def leaky_gate(g: ArrayLike, x: ArrayLike, *, slope: float) -> Array:
    """``g`` where ``x > 0``, else ``slope · g``."""
    return elementwise("leaky_gate", lambda h, v: h if v > 0 else h * scalar.like(h, slope), g, x)


def elu_gate(g: ArrayLike, x: ArrayLike, *, alpha: float) -> Array:
    """``g`` where ``x > 0``, else ``alpha · exp(x) · g``."""
    return elementwise("elu_gate", lambda h, v: h if v > 0 else h * (scalar.like(h, alpha) * scalar.exp(v)), g, x)


def clip_gate(g: ArrayLike, x: ArrayLike, *, low: float, high: float) -> Array:
    """``g`` where ``low <= x <= high``, else 0."""
    return elementwise("clip_gate", lambda h, v: h if low <= v and v <= high else 0, g, x)


def open_gate(g: ArrayLike, x: ArrayLike, *, bound: float, over: float) -> Array:
    """``g / over`` where ``−bound < x < bound``, else 0."""
    return elementwise("open_gate", lambda h, v: scalar.div(h, scalar.like(h, over)) if -bound < v and v < bound else 0, g, x)


def square_gate(g: ArrayLike, x: ArrayLike) -> Array:
    """``2 · g · x``."""
    return elementwise("square_gate", lambda h, v: 2 * (h * v), g, x)


def sqrt_gate(g: ArrayLike, y: ArrayLike) -> Array:
    """``g / (2 · y)``."""
    return elementwise("sqrt_gate", lambda h, v: scalar.div(h, v + v), g, y)


def tanh_gate(g: ArrayLike, y: ArrayLike) -> Array:
    """``g · (1 − y²)``."""
    return elementwise("tanh_gate", lambda h, v: h * (1 - v * v), g, y)


def sigmoid_gate(g: ArrayLike, y: ArrayLike) -> Array:
    """``g · y · (1 − y)``."""
    return elementwise("sigmoid_gate", lambda h, v: h * (v * (1 - v)), g, y)


def hardswish_gate(g: ArrayLike, x: ArrayLike) -> Array:
    """``g`` where ``x ≥ 3``, 0 where ``x ≤ −3``, ``g · (x/3 + 1/2)`` between."""

    def f(h: Scalar, v: Scalar) -> Scalar:
        return h if v >= 3 else 0 if v <= -3 else h * (v / 3 + scalar.like(v, 0.5))

    return elementwise("hardswish_gate", f, g, x)


def gelu_gate(g: ArrayLike, x: ArrayLike) -> Array:
    """``g · (Φ(x) + x·φ(x))``."""
    return elementwise("gelu_gate", lambda h, v: h * (scalar.normal_cdf(v) + v * scalar.normal_pdf(v)), g, x)


def gelu_tanh_gate(g: ArrayLike, x: ArrayLike) -> Array:
    """``g · (σ(u) + x·u'·σ(u)·σ(−u))``, ``u = √(8/π)·(x + 0.044715·x³)``."""

    def f(h: Scalar, v: Scalar) -> Scalar:
        root, cubic = scalar.like(v, 1.5957691216057308), scalar.like(v, 0.044715)
        u, slope = root * (v + cubic * v * v * v), root * (1 + 3 * cubic * v * v)
        return h * (scalar.sigmoid(u) + v * slope * (scalar.sigmoid(u) * scalar.sigmoid(-u)))

    return elementwise("gelu_tanh_gate", f, g, x)


def silu_gate(g: ArrayLike, x: ArrayLike) -> Array:
    """``g · (σ(x) + x·σ(x)·σ(−x))``."""
    return elementwise("silu_gate", lambda h, v: h * (scalar.sigmoid(v) + v * (scalar.sigmoid(v) * scalar.sigmoid(-v))), g, x)
