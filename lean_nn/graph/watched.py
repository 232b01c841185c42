"""Open sizes that write down what they are compared with: the sizes near which a function may do something else.

A `Watched` number is ``times · n + plus`` of an open size n, and stays one under sums and products with fixed numbers. What else
a function of the user's makes of it (a quotient, a remainder, a power) is `Derived`: it remembers how it came about, and a
comparison finds the sizes at which its answer changes by trying them all. Quotients and remainders inside lean_nn are numbers
like any other: its own rules hold for all sizes.

A number that went through ``len``, ``range``, ``operator.index``, ``float`` or NumPy has forgotten where it came from; for those
`lean_nn.graph.general` traces at sizes far apart, up to `LARGEST`, where what grows with a size has grown beyond any bound that
is asked for.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

LARGEST = 1 << 16  # size that is tried; a place beyond is what memory can address, say, and no batch
KEPT = 3  # changes of an answer, from below and from above, next to which the function is traced

Seen = set[tuple[int, int]]
Op = Callable[[Any, Any], Any]


class Watched(int):
    """The open size number `index` times `times` plus `plus`."""

    index: int
    times: int
    plus: int
    seen: Seen

    @classmethod
    def of(cls, size: int, index: int, times: int, plus: int, seen: Seen) -> Watched:
        """A size, of which `times` · size + `plus` is looked at."""
        self = cls(size * times + plus)
        self.index, self.times, self.plus, self.seen = index, times, plus, seen
        return self

    def _moved(self, times: int, plus: int) -> Watched:
        size = (int(self) - self.plus) // self.times
        return Watched.of(size, self.index, self.times * times, self.plus * times + plus, self.seen)

    def __add__(self, other: Any) -> Any:
        return self._moved(1, other) if type(other) is int else int(self) + _plain(other)

    def __sub__(self, other: Any) -> Any:
        return self._moved(1, -other) if type(other) is int else int(self) - _plain(other)

    def __mul__(self, other: Any) -> Any:
        return self._moved(other, 0) if type(other) is int and other else int(self) * _plain(other)

    def __rsub__(self, other: Any) -> Any:
        return self._moved(-1, other) if type(other) is int else _plain(other) - int(self)

    __radd__, __rmul__ = __add__, __mul__

    def _note(self, other: Any) -> None:
        if type(other) in (int, float):  # times · n + plus ? other changes its answer near this n
            place = int((other - self.plus) // self.times)
            self.seen.update((self.index, n) for n in (place - 1, place, place + 1) if 0 <= n <= LARGEST)

    def __eq__(self, other: object) -> bool:
        self._note(other)
        return int(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        self._note(other)
        return bool(int(self) < other)

    def __le__(self, other: Any) -> bool:
        self._note(other)
        return bool(int(self) <= other)

    def __gt__(self, other: Any) -> bool:
        self._note(other)
        return bool(int(self) > other)

    def __ge__(self, other: Any) -> bool:
        self._note(other)
        return bool(int(self) >= other)

    def __bool__(self) -> bool:
        self._note(0)
        return int(self) != 0

    def __hash__(self) -> int:  # unlike its number's, so that what is cached by shape is not found by other traces
        return hash((int(self), id(self.seen)))


def _plain(number: Any) -> Any:
    """A number that remembers nothing; anything else as it is."""
    if isinstance(number, (Watched, DerivedInt)):
        return int(number)
    return float(number) if isinstance(number, DerivedFloat) else number


class Derived:
    """What a function made of an open size n, an int or a float as well; `rule` says what it is for any n."""

    index: int
    rule: Callable[[int], Any]
    seen: Seen

    def compared(self, op: Op, other: Any) -> bool:
        """The answer here; the sizes at which it is another than at the size before are noted."""
        if type(other) in (int, float):
            answers = [_answer(op, self.rule, n, other) for n in range(LARGEST + 1)]
            changes = [n for n in range(1, LARGEST + 1) if answers[n] is not answers[n - 1]]
            self.seen.update((self.index, m) for n in (*changes[:KEPT], *changes[-KEPT:]) for m in (n - 1, n))
        return bool(op(_plain(self), _plain(other)))


class DerivedInt(Derived, int):
    """A whole number."""


class DerivedFloat(Derived, float):
    """A fraction."""


def _answer(op: Op, rule: Callable[[int], Any], n: int, other: Any) -> bool | None:
    try:
        return bool(op(rule(n), other))
    except ArithmeticError:
        return None


def _made(number: Any, op: Op, other: Any) -> Any:
    """``op(number, other)`` of a watched or derived number; where the user's code asks and `other` is fixed, derived in turn."""
    result = op(_plain(number), _plain(other))
    ours = str(sys._getframe(2).f_globals.get("__name__")).startswith("lean_nn.")
    if ours or type(other) not in (int, float) or type(result) not in (int, float):
        return result
    times, plus, before = getattr(number, "times", 0), getattr(number, "plus", 0), getattr(number, "rule", None)
    made: Any = (DerivedInt if type(result) is int else DerivedFloat)(result)
    made.index, made.seen = number.index, number.seen
    made.rule = lambda n: op(times * n + plus if before is None else before(n), other)
    return made


def _install(cls: Any, names: tuple[str, ...]) -> None:
    """Arithmetic from a table: the methods differ in nothing but the operator and its order."""

    def method(op: Op) -> Callable[[Any, Any], Any]:
        return lambda self, other: _made(self, op, other)

    def turned(op: Op) -> Op:
        return lambda a, b: op(b, a)

    for name in names:
        setattr(cls, f"__{name}__", method(getattr(operator, name)))
        if name != "pow":  # a size as an exponent takes too long to try
            setattr(cls, f"__r{name}__", method(turned(getattr(operator, name))))


def _install_comparisons(cls: Any) -> None:
    def method(op: Op) -> Callable[[Any, Any], bool]:
        return lambda self, other: bool(self.compared(op, other))

    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(cls, f"__{name}__", method(getattr(operator, name)))
    cls.__bool__ = lambda self: self.compared(operator.ne, 0)


_install(Watched, ("floordiv", "mod", "truediv", "pow"))
for _cls in (DerivedInt, DerivedFloat):
    _install(_cls, ("add", "sub", "mul", "floordiv", "mod", "truediv", "pow"))
    _install_comparisons(_cls)
