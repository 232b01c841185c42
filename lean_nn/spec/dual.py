"""Dual numbers: ``(x + ẋ ε)`` with ``ε² = 0``; evaluating a function on them gives its value and its JVP.

Independent of every derivative rule in the project, hence the oracle for all of them. Components may be any
scalar: floats, Fractions (exact derivatives), or duals of a lower ``level`` (second derivatives). Comparisons
look at the primal, so a branch is taken as the plain number would take it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from . import scalar
from .scalar import Scalar


class Dual:
    """``primal + tangent·ε_level``.

    Parameters
    ----------
    primal, tangent : scalar
    level : int
        Duals of different levels have independent ε: the lower one is a constant for the higher one.

    Examples
    --------
    >>> x = Dual(3, 1)
    >>> (x * x + 1).tangent
    6
    """

    __array_priority__ = 1000
    __slots__ = ("level", "primal", "tangent")

    def __init__(self, primal: Scalar, tangent: Scalar = 0, level: int = 0) -> None:
        self.primal, self.tangent, self.level = primal, tangent, level

    def __repr__(self) -> str:
        tag = f", level={self.level}" if self.level else ""
        return f"Dual({self.primal!r}, {self.tangent!r}{tag})"

    def _with(self, primal: Scalar, tangent: Scalar) -> Dual:
        return Dual(primal, tangent, self.level)

    # --- arithmetic ---

    def __neg__(self) -> Dual:
        return self._with(-self.primal, -self.tangent)

    def __pos__(self) -> Dual:
        return self

    def __abs__(self) -> Dual:
        return self._with(abs(self.primal), scalar.sign(self.primal) * self.tangent)

    def __add__(self, other: Scalar) -> Dual:
        a, b, level = _align(self, other)
        return Dual(a.primal + b.primal, a.tangent + b.tangent, level)

    __radd__ = __add__

    def __sub__(self, other: Scalar) -> Dual:
        a, b, level = _align(self, other)
        return Dual(a.primal - b.primal, a.tangent - b.tangent, level)

    def __rsub__(self, other: Scalar) -> Dual:
        return (-self).__add__(other)

    def __mul__(self, other: Scalar) -> Dual:
        a, b, level = _align(self, other)
        return Dual(a.primal * b.primal, a.tangent * b.primal + a.primal * b.tangent, level)

    __rmul__ = __mul__

    def __truediv__(self, other: Scalar) -> Dual:
        a, b, level = _align(self, other)
        y = scalar.div(a.primal, b.primal)
        return Dual(y, scalar.div(a.tangent - y * b.tangent, b.primal), level)

    def __rtruediv__(self, other: Scalar) -> Dual:
        return self._with(other, 0) / self

    def __pow__(self, other: Scalar) -> Dual:
        return self.pow(other)

    def __rpow__(self, other: Scalar) -> Dual:
        return self.rpow(other)

    def pow(self, other: Scalar) -> Dual:
        """``a^b``: ``b·a^(b−1)·ȧ + a^b·log(a)·ḃ``; an exponent 0 and a base 0 have no slope."""
        a, b, level = _align(self, other)
        y = scalar.pow(a.primal, b.primal)
        t = 0 if b.primal == 0 else b.primal * scalar.pow(a.primal, b.primal - 1) * a.tangent
        if not _is_zero(b.tangent) and not (a.primal == 0 and b.primal >= 0):
            t = t + y * scalar.log(a.primal) * b.tangent
        return Dual(y, t, level)

    def rpow(self, other: Scalar) -> Dual:
        """``other ** self``."""
        return self._with(other, 0).pow(self)

    # --- comparisons: the primal decides ---

    def __eq__(self, other: object) -> bool:
        a, b, _ = _align(self, other)
        return bool(a.primal == b.primal)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.primal)

    def __lt__(self, other: Scalar) -> bool:
        a, b, _ = _align(self, other)
        return bool(a.primal < b.primal)

    def __le__(self, other: Scalar) -> bool:
        a, b, _ = _align(self, other)
        return bool(a.primal <= b.primal)

    def __gt__(self, other: Scalar) -> bool:
        a, b, _ = _align(self, other)
        return bool(a.primal > b.primal)

    def __ge__(self, other: Scalar) -> bool:
        a, b, _ = _align(self, other)
        return bool(a.primal >= b.primal)

    def is_nan(self) -> bool:
        """Whether the primal is NaN."""
        return scalar.is_nan(self.primal)

    def point(self) -> Scalar:
        """The innermost primal: a plain number."""
        return scalar.point(self.primal)

    def maximum(self, other: Scalar) -> Dual:
        """The larger one; at a tie half of each tangent."""
        return _extreme(self, other, scalar.maximum)

    def minimum(self, other: Scalar) -> Dual:
        """The smaller one; at a tie half of each tangent."""
        return _extreme(self, other, scalar.minimum)

    # --- functions: value, slope times tangent ---

    def _chain(self, y: Scalar, slope: Scalar) -> Dual:
        return self._with(y, slope * self.tangent)

    def sign(self) -> Dual:
        """Constant almost everywhere."""
        return self._with(scalar.sign(self.primal), 0)

    def exp(self) -> Dual:
        """Slope ``exp(x)``."""
        y = scalar.exp(self.primal)
        return self._chain(y, y)

    def expm1(self) -> Dual:
        """Slope ``exp(x)``."""
        return self._chain(scalar.expm1(self.primal), scalar.exp(self.primal))

    def log(self) -> Dual:
        """Slope ``1/x``."""
        return self._chain(scalar.log(self.primal), scalar.div(1, self.primal))

    def log1p(self) -> Dual:
        """Slope ``1/(1+x)``."""
        return self._chain(scalar.log1p(self.primal), scalar.div(1, 1 + self.primal))

    def sqrt(self) -> Dual:
        """Slope ``1/(2√x)``."""
        y = scalar.sqrt(self.primal)
        return self._chain(y, scalar.div(1, 2 * y))

    def tanh(self) -> Dual:
        """Slope ``1 − tanh²``."""
        y = scalar.tanh(self.primal)
        return self._chain(y, 1 - y * y)

    def sigmoid(self) -> Dual:
        """Slope ``σ(x)·σ(−x)``."""
        y = scalar.sigmoid(self.primal)
        return self._chain(y, y * scalar.sigmoid(-self.primal))

    def erf(self) -> Dual:
        """Slope ``2/√π·exp(−x²)``."""
        x = self.primal
        return self._chain(scalar.erf(x), scalar.exp(-x * x) * (2 / math.sqrt(math.pi)))

    def normal_cdf(self) -> Dual:
        """Slope ``φ(x)``."""
        return self._chain(scalar.normal_cdf(self.primal), scalar.normal_pdf(self.primal))

    def normal_pdf(self) -> Dual:
        """Slope ``−x·φ(x)``."""
        y = scalar.normal_pdf(self.primal)
        return self._chain(y, -self.primal * y)


def _align(a: Scalar, b: Scalar) -> tuple[Dual, Dual, int]:
    """Both as duals of the higher level; what has a lower level is a constant there."""
    level = max(x.level for x in (a, b) if isinstance(x, Dual))
    a, b = (x if isinstance(x, Dual) and x.level == level else Dual(x, 0, level) for x in (a, b))
    return a, b, level


def _is_zero(x: Scalar) -> bool:
    return isinstance(x, int) and x == 0


def _extreme(x: Scalar, other: Scalar, choose: Callable[[Scalar, Scalar], Scalar]) -> Dual:
    a, b, level = _align(x, other)
    if a.primal == b.primal:
        return Dual(choose(a.primal, b.primal), scalar.div(a.tangent + b.tangent, 2), level)
    winner = choose(a.primal, b.primal)
    from_a = winner is a.primal or winner == a.primal or (scalar.is_nan(winner) and a.is_nan())
    return Dual(winner, a.tangent if from_a else b.tangent, level)


def primal(x: Scalar) -> Scalar:
    """The value part of a dual; a constant is its own value."""
    return x.primal if isinstance(x, Dual) else x


def tangent(x: Scalar) -> Scalar:
    """The derivative part of a dual; a constant has 0."""
    return x.tangent if isinstance(x, Dual) else 0
