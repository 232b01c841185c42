"""A float together with a bound on what rounding can have done to it: running error analysis.

Evaluating a formula on `Rounded` numbers gives, beside its value, how far a computation of the same operations in a type
with unit roundoff u can be off, to first order. A plain number that meets one is a constant that is rounded to that type.
"""

from __future__ import annotations

import math

from .scalar import Scalar


class Rounded:
    """``value`` known within ``error``, in arithmetic with unit roundoff ``u``.

    Examples
    --------
    >>> third = Rounded(1.0, 0.0, 2.0**-24) / 3
    >>> third.error < 3 * 2.0**-24 / 3
    True
    """

    __slots__ = ("error", "u", "value")

    def __init__(self, value: float, error: float, u: float) -> None:
        self.value, self.error, self.u = value, error, u

    def point(self) -> float:
        return self.value

    def _other(self, x: Scalar) -> Rounded:
        return x if isinstance(x, Rounded) else Rounded(float(x), self.u * abs(float(x)), self.u)

    def _result(self, value: float, error: float) -> Rounded:
        return Rounded(value, error + self.u * abs(value), self.u)

    def __neg__(self) -> Rounded:
        return Rounded(-self.value, self.error, self.u)

    def __add__(self, other: Scalar) -> Rounded:
        b = self._other(other)
        return self._result(self.value + b.value, self.error + b.error)

    __radd__ = __add__

    def __sub__(self, other: Scalar) -> Rounded:
        return self + (-self._other(other))

    def __rsub__(self, other: Scalar) -> Rounded:
        return self._other(other) - self

    def __mul__(self, other: Scalar) -> Rounded:
        b = self._other(other)
        error = abs(self.value) * b.error + abs(b.value) * self.error + self.error * b.error
        return self._result(self.value * b.value, error)

    __rmul__ = __mul__

    def __truediv__(self, other: Scalar) -> Rounded:
        b = self._other(other)
        if abs(b.value) <= b.error:
            return Rounded(math.nan, math.inf, self.u)
        value = self.value / b.value
        return self._result(value, (self.error + abs(value) * b.error) / (abs(b.value) - b.error))

    def __rtruediv__(self, other: Scalar) -> Rounded:
        return self._other(other) / self

    def sqrt(self) -> Rounded:
        value = math.sqrt(max(self.value, 0.0))
        least = math.sqrt(max(self.value - self.error, 0.0))
        return self._result(value, self.error / (value + least) if value + least else math.sqrt(self.error))

    def maximum(self, other: Scalar) -> Rounded:
        b = self._other(other)
        return Rounded(max(self.value, b.value), max(self.error, b.error), self.u)
