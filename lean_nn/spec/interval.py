"""Intervals ``[lo, hi]`` of floats that are sure to contain the exact result: arithmetic rounded outwards.

Every end is moved one float outwards after the operation rounded to nearest (two after a function of the C
library, whose error is below one unit in the last place). Evaluating the specification on intervals thus
*proves* bounds on what exact arithmetic would give.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction

from . import scalar
from .scalar import Scalar, Unary


def _down(x: float, ulps: int = 1) -> float:
    for _ in range(ulps):
        x = math.nextafter(x, -math.inf)
    return x


def _up(x: float, ulps: int = 1) -> float:
    for _ in range(ulps):
        x = math.nextafter(x, math.inf)
    return x


def _below(x: Scalar) -> float:
    """The largest float not above ``x``."""
    try:
        f = float(x)
    except OverflowError:
        return sys.float_info.max if x > 0 else -math.inf
    return f if math.isinf(f) or Fraction(f) <= Fraction(x) else _down(f)


def _above(x: Scalar) -> float:
    return -_below(-x)


class Interval:
    """All numbers from ``lo`` to ``hi``.

    Parameters
    ----------
    lo, hi : int, float or Fraction
        Rounded outwards to floats; ``hi`` is ``lo`` when left out.

    Examples
    --------
    >>> third = Interval(1) / 3
    >>> third.contains(Fraction(1, 3)), third.width < 1e-15
    (True, True)
    """

    __array_priority__ = 1000
    __slots__ = ("hi", "lo")

    def __init__(self, lo: Scalar, hi: Scalar | None = None) -> None:
        self.lo, self.hi = _below(lo), _above(lo if hi is None else hi)
        if not self.lo <= self.hi:
            raise ValueError(f"Interval: lo must not exceed hi; got [{lo}, {hi}]; swap them, and use no NaN")

    def __repr__(self) -> str:
        return f"Interval({self.lo!r}, {self.hi!r})"

    @property
    def width(self) -> float:
        """``hi − lo``, rounded up."""
        return _up(self.hi - self.lo)

    def contains(self, x: Scalar) -> bool:
        """Whether the number ``x`` (or all of the interval ``x``) lies inside."""
        if isinstance(x, Interval):
            return self.lo <= x.lo and x.hi <= self.hi
        return bool(self.lo <= x <= self.hi)

    def point(self) -> float:
        """A float inside."""
        middle = self.lo / 2 + self.hi / 2
        return middle if self.lo <= middle <= self.hi else self.lo

    # --- arithmetic ---

    def __neg__(self) -> Interval:
        return Interval(-self.hi, -self.lo)

    def __pos__(self) -> Interval:
        return self

    def __abs__(self) -> Interval:
        if self.lo < 0 < self.hi:
            return Interval(0, max(-self.lo, self.hi))
        return self if self.lo >= 0 else -self

    def __add__(self, other: Scalar) -> Interval:
        b = _interval(other)
        return NotImplemented if b is None else _span(self.lo + b.lo, self.hi + b.hi)

    __radd__ = __add__

    def __sub__(self, other: Scalar) -> Interval:
        b = _interval(other)
        return NotImplemented if b is None else _span(self.lo - b.hi, self.hi - b.lo)

    def __rsub__(self, other: Scalar) -> Interval:
        return (-self).__add__(other)

    def __mul__(self, other: Scalar) -> Interval:
        b = _interval(other)
        if b is None:
            return NotImplemented
        return _span(*_ends([_times(p, q) for p in (self.lo, self.hi) for q in (b.lo, b.hi)]))

    __rmul__ = __mul__

    def __truediv__(self, other: Scalar) -> Interval:
        b = _interval(other)
        if b is None:
            return NotImplemented
        if b.lo <= 0 <= b.hi:
            raise ValueError(f"Interval: division needs a divisor without 0; got {b}; narrow the interval")
        return _span(*_ends([p / q for p in (self.lo, self.hi) for q in (b.lo, b.hi)]))

    def __rtruediv__(self, other: Scalar) -> Interval:
        b = _interval(other)
        return NotImplemented if b is None else b / self

    def __pow__(self, other: Scalar) -> Interval:
        return self.pow(other)

    def __rpow__(self, other: Scalar) -> Interval:
        return self.rpow(other)

    def pow(self, other: Scalar) -> Interval:
        """Whole exponents by repeated products of the ends, others as ``exp(b·log(a))``."""
        if scalar.is_real(other) and float(other).is_integer():
            return self._power(int(other))
        result: Interval = scalar.exp(_certain(other) * self.log())
        return result

    def rpow(self, other: Scalar) -> Interval:
        """``other ** self``."""
        return _certain(other).pow(self)

    def _power(self, n: int) -> Interval:
        if n < 0:
            return Interval(1) / self._power(-n)
        if n % 2 == 0 and n:
            base = abs(self)
            return Interval(_below(Fraction(base.lo) ** n), _above(Fraction(base.hi) ** n))
        return Interval(_below(Fraction(self.lo) ** n), _above(Fraction(self.hi) ** n))

    # --- comparisons: only where every pair of members agrees ---

    def _decide(self, sign: str, other: Interval, yes: bool, no: bool) -> bool:
        if not yes and not no:
            raise ValueError(
                f"Interval: {self} {sign} {other} is undecided; got intervals that overlap; "
                "narrow them, or use maximum and minimum"
            )
        return yes

    def __lt__(self, other: Scalar) -> bool:
        b = _certain(other)
        return self._decide("<", b, self.hi < b.lo, self.lo >= b.hi)

    def __le__(self, other: Scalar) -> bool:
        b = _certain(other)
        return self._decide("<=", b, self.hi <= b.lo, self.lo > b.hi)

    def __gt__(self, other: Scalar) -> bool:
        b = _certain(other)
        return self._decide(">", b, self.lo > b.hi, self.hi <= b.lo)

    def __ge__(self, other: Scalar) -> bool:
        b = _certain(other)
        return self._decide(">=", b, self.lo >= b.hi, self.hi < b.lo)

    def __eq__(self, other: object) -> bool:
        b = _interval(other)
        return b is not None and self.lo == b.lo and self.hi == b.hi

    def __hash__(self) -> int:
        return hash((self.lo, self.hi))

    def maximum(self, other: Scalar) -> Interval:
        """The enclosure of the larger one."""
        b = _certain(other)
        return Interval(max(self.lo, b.lo), max(self.hi, b.hi))

    def minimum(self, other: Scalar) -> Interval:
        """The enclosure of the smaller one."""
        b = _certain(other)
        return Interval(min(self.lo, b.lo), min(self.hi, b.hi))

    def piecewise(self, cut: Scalar, left: Unary, right: Unary) -> Scalar:
        """Each piece on its side of the cut, and the hull of both."""
        c = _certain(cut)
        if self.hi < c.lo:
            return left(self)
        if self.lo > c.hi:
            return right(self)
        low = left(Interval(min(self.lo, c.hi), min(self.hi, c.hi)))
        high = right(Interval(max(self.lo, c.lo), max(self.hi, c.lo)))
        return hull(low, high)

    def sign(self) -> Interval:
        """``[sign(lo), sign(hi)]``."""
        return Interval(scalar.sign(self.lo), scalar.sign(self.hi))

    # --- functions that increase ---

    def _increasing(self, f: Unary, low: float = -math.inf, high: float = math.inf) -> Interval:
        return Interval(max(low, _down(f(self.lo), 2)), min(high, _up(f(self.hi), 2)))

    def exp(self) -> Interval:
        """Never below 0."""
        return self._increasing(scalar.exp, low=0.0)

    def expm1(self) -> Interval:
        """Never below −1."""
        return self._increasing(scalar.expm1, low=-1.0)

    def log(self) -> Interval:
        """For positive intervals; from 0 on it has no lower end."""
        self._require("log", 0)
        return self._increasing(scalar.log)

    def log1p(self) -> Interval:
        """For intervals above −1."""
        self._require("log1p", -1)
        return self._increasing(scalar.log1p)

    def sqrt(self) -> Interval:
        """For non-negative intervals."""
        self._require("sqrt", 0)
        return self._increasing(scalar.sqrt, low=0.0)

    def _require(self, name: str, least: int) -> None:
        if self.lo < least:
            raise ValueError(f"{name}: needs an interval from {least} on; got {self}; narrow the interval")

    def tanh(self) -> Interval:
        """Within ±1."""
        return self._increasing(scalar.tanh, -1.0, 1.0)

    def erf(self) -> Interval:
        """Within ±1."""
        return self._increasing(scalar.erf, -1.0, 1.0)

    def sigmoid(self) -> Interval:
        """``[σ(lo), σ(hi)]``, a little wider: the formula has three roundings."""
        return Interval(max(0.0, _down(scalar.sigmoid(self.lo), 4)), min(1.0, _up(scalar.sigmoid(self.hi), 4)))

    def normal_cdf(self) -> Interval:
        """``Φ``: from ``erf``, which is enclosed, so no tail accuracy but certainty."""
        half = (self / _ROOT_TWO).erf() * 0.5 + 0.5
        return Interval(max(0.0, half.lo), min(1.0, half.hi))

    def normal_pdf(self) -> Interval:
        """``φ = exp(−x²/2)/√(2π)``."""
        return (self._power(2) * -0.5).exp() / _ROOT_TWO_PI


def hull(a: Scalar, b: Scalar) -> Interval:
    """The smallest interval around both."""
    x, y = _certain(a), _certain(b)
    return Interval(min(x.lo, y.lo), max(x.hi, y.hi))


def _interval(x: Scalar) -> Interval | None:
    if isinstance(x, Interval):
        return x
    return Interval(x) if isinstance(x, (Fraction, *scalar.REAL)) else None


def _certain(x: Scalar) -> Interval:
    b = _interval(x)
    if b is None:
        raise TypeError(f"Interval: numbers and intervals only; got {type(x).__name__}; convert it")
    return b


def _span(lo: float, hi: float) -> Interval:
    # infinity − infinity: nothing is known on that side
    return Interval(-math.inf if lo != lo else _down(lo), math.inf if hi != hi else _up(hi))


def _times(p: float, q: float) -> float:
    return 0.0 if p == 0 or q == 0 else p * q


def _ends(values: list[float]) -> tuple[float, float]:
    if any(v != v for v in values):
        return -math.inf, math.inf
    return min(values), max(values)


_ROOT_TWO = Interval(_down(math.sqrt(2.0)), _up(math.sqrt(2.0)))
_ROOT_TWO_PI = Interval(_down(math.sqrt(2.0 * math.pi), 2), _up(math.sqrt(2.0 * math.pi), 2))
