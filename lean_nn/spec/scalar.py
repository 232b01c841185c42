"""Functions of one scalar of any kind: the only place where the specification asks what a number is.

==================  ==========================================================================================
float, NumPy float  IEEE: infinities and NaN instead of exceptions, stable formulas
int                 as float
Fraction            exact where the value is rational, else a TypeError: an oracle must not round silently
anything else       its own method of that name (`Dual` and `Interval` have them all; so may your type)
==================  ==========================================================================================

``+ − ×`` and comparisons are the scalar's own operators; only `div` is here, because Python's ``1.0 / 0.0``
raises where IEEE has an infinity.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

Scalar = Any
Unary = Callable[[Scalar], Scalar]

REAL = (int, float, np.floating, np.integer)


def is_real(x: Scalar) -> bool:
    """Whether ``x`` is a machine number (int, float, NumPy scalar)."""
    return isinstance(x, REAL)


# --- unary functions ----------------------------------------------------------------------------------------


def _unary(name: str, real: Callable[[float], float], exact: Callable[[Fraction], Fraction | None]) -> Unary:
    def apply(x: Scalar) -> Scalar:
        if isinstance(x, Fraction):
            value = exact(x)
            if value is None:
                raise TypeError(f"{name}: no exact value for Fraction; convert to float or Interval")
            return value
        if is_real(x):
            result = real(float(x))
            return type(x)(result) if isinstance(x, np.floating) else result
        return _method(name, x)()

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"``{name}(x)`` of any scalar."
    return apply


def _method(name: str, x: Scalar) -> Callable[..., Scalar]:
    method = getattr(x, name, None)
    if method is None:
        kind = type(x).__name__
        raise TypeError(f"{name}: no value for {kind}; got {x!r}; give {kind} a method {name}, or use float")
    found: Callable[..., Scalar] = method
    return found


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _expm1(x: float) -> float:
    try:
        return math.expm1(x)
    except OverflowError:
        return math.inf


def _log(x: float) -> float:
    if x > 0:
        return math.log(x)
    return -math.inf if x == 0 else math.nan


def _log1p(x: float) -> float:
    if x > -1:
        return math.log1p(x)
    return -math.inf if x == -1 else math.nan


def _sqrt(x: float) -> float:
    return math.nan if x < 0 else math.sqrt(x)


def _sigmoid(x: float) -> float:
    # the exponential of a negative number never overflows
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-x))
    e = math.exp(x)
    return e / (1.0 + e)


def _normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def _normal_pdf(x: float) -> float:
    return math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


def _only(point: int, value: Fraction) -> Callable[[Fraction], Fraction | None]:
    """Rational at one point only (Lindemann–Weierstrass for exp and log; none other is known for erf)."""
    return lambda x: value if x == point else None


def _never(_: Fraction) -> None:
    return None


def root(x: Fraction, n: int) -> Fraction | None:
    """The exact ``n``-th root of ``x >= 0``, or None."""
    parts = [_int_root(v, n) for v in (x.numerator, x.denominator)]
    if x < 0 or any(r**n != v for r, v in zip(parts, (x.numerator, x.denominator), strict=True)):
        return None
    return Fraction(*parts)


def _int_root(v: int, n: int) -> int:
    low, high = 0, 1 << (builtins.max(v, 1).bit_length() // n + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**n <= v else (low, middle)
    return low


exp = _unary("exp", _exp, _only(0, Fraction(1)))
expm1 = _unary("expm1", _expm1, _only(0, Fraction(0)))
log = _unary("log", _log, _only(1, Fraction(0)))
log1p = _unary("log1p", _log1p, _only(0, Fraction(0)))
sqrt = _unary("sqrt", _sqrt, lambda x: root(x, 2))
tanh = _unary("tanh", math.tanh, _only(0, Fraction(0)))
erf = _unary("erf", math.erf, _only(0, Fraction(0)))
sigmoid = _unary("sigmoid", _sigmoid, _only(0, Fraction(1, 2)))
normal_cdf = _unary("normal_cdf", _normal_cdf, _only(0, Fraction(1, 2)))
normal_pdf = _unary("normal_pdf", _normal_pdf, _never)


def abs(x: Scalar) -> Scalar:
    """``|x|``."""
    return builtins.abs(x)


def sign(x: Scalar) -> Scalar:
    """``−1, 0 or 1`` (NaN stays NaN)."""
    if is_real(x):
        return math.copysign(1.0, x) if x > 0 or x < 0 else x
    if isinstance(x, Fraction):
        return Fraction((x > 0) - (x < 0))
    return _method("sign", x)()


def is_nan(x: Scalar) -> bool:
    """Whether ``x`` is not a number; only floats (and what is made of them) can be."""
    if is_real(x):
        return bool(x != x)
    return bool(x.is_nan()) if hasattr(x, "is_nan") else False


def point(x: Scalar) -> Scalar:
    """A plain number inside ``x``: the primal of a dual, the middle of an interval, else ``x`` itself.

    For shifts that cancel exactly (log-sum-exp), where any number will do and a plain one is best.
    """
    return x.point() if hasattr(x, "point") else x


def is_finite(x: Scalar) -> bool:
    """Whether ``x`` is a finite number."""
    p = point(x)
    return math.isfinite(p) if is_real(p) else not is_nan(p)


def like(x: Scalar, c: float) -> Scalar:
    """The constant ``c`` in the arithmetic of ``x``: a Fraction stays exact, others take the number as it is."""
    p = point(x)
    return Fraction(c) if isinstance(p, Fraction) else c


# --- two scalars --------------------------------------------------------------------------------------------


def div(a: Scalar, b: Scalar) -> Scalar:
    """``a / b``, with IEEE's infinities and NaN for machine numbers."""
    if is_real(a) and is_real(b) and b == 0:
        if a == 0 or a != a:
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def _float_pow(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf
    except ValueError:
        if a == 0:  # b < 0
            return math.copysign(math.inf, a) if b % 2 == 1 else math.inf
        return math.nan


def _exact_pow(a: Fraction, b: Fraction) -> Fraction:
    if b.denominator == 1:
        return a**b.numerator
    base = root(a, b.denominator)
    if base is None:
        raise TypeError("pow: no exact value for Fraction; convert to float or Interval")
    return base**b.numerator


def pow(a: Scalar, b: Scalar) -> Scalar:
    """``a ** b``: IEEE for floats, exact for Fractions."""
    if hasattr(a, "pow"):
        return a.pow(b)
    if hasattr(b, "rpow"):
        return b.rpow(a)
    if isinstance(a, (int, Fraction)) and isinstance(b, (int, Fraction)):
        return _exact_pow(Fraction(a), Fraction(b))
    if isinstance(a, (Fraction, *REAL)) and isinstance(b, (Fraction, *REAL)):
        return _float_pow(float(a), float(b))
    return a**b


def maximum(a: Scalar, b: Scalar) -> Scalar:
    """The larger one; NaN wins. Duals at a tie take half of each tangent; intervals give the enclosure."""
    if hasattr(a, "maximum") or hasattr(b, "maximum"):
        return a.maximum(b) if hasattr(a, "maximum") else b.maximum(a)
    if is_nan(a) or is_nan(b):
        return a if is_nan(a) else b
    return a if a >= b else b


def minimum(a: Scalar, b: Scalar) -> Scalar:
    """The smaller one; NaN wins. Duals at a tie take half of each tangent; intervals give the enclosure."""
    if hasattr(a, "minimum") or hasattr(b, "minimum"):
        return a.minimum(b) if hasattr(a, "minimum") else b.minimum(a)
    if is_nan(a) or is_nan(b):
        return a if is_nan(a) else b
    return a if a <= b else b


def piecewise(x: Scalar, cut: Scalar, left: Unary, right: Unary, *, cut_is_left: bool = True) -> Scalar:
    """``left(x)`` below the cut, ``right(x)`` above it and for NaN; an interval over the cut gets both."""
    if hasattr(x, "piecewise"):
        return x.piecewise(cut, left, right)
    below = x <= cut if cut_is_left else x < cut
    return left(x) if below else right(x)


def wins(a: Scalar, b: Scalar) -> bool:
    """Whether candidate ``a`` takes the place of ``b``: strictly larger, or the first NaN."""
    if is_nan(b):
        return False
    return is_nan(a) or bool(a > b)
