"""Value and tangent of products: y = B(a, b) + c moves by ẏ = B(ȧ, b) + B(a, ḃ) + ċ.

The kernels of B add an array like their result as they store it, so the second product takes the first along, and the sum of
the two is not a pass over memory of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lean_nn.backend.cpu_chain import OUT as PLACE
from lean_nn.backend.cpu_chain import chain
from lean_nn.primitive import Aval
from lean_nn_c.step import Step

Make = Callable[..., Step | None]


def _per_channel(out: Aval, c: Aval) -> Step:
    """(y, c) ↦ y + c, a number per channel, which may be written over y."""
    spread = Aval((*c.shape, *(1,) * (len(out.shape) - 2)), c.dtype)
    return chain("add", (out, spread), out, [("add", (0, 1), PLACE, ())], {})


def dual(make: Make) -> Callable[..., Any]:
    """The ``dual`` slot of a product whose ``step`` slot is `make`; c, if there is one, is a number per channel."""

    def kernel_for(a: Aval, b: Aval, *c: Aval, moves: tuple[bool, ...], out: tuple[Aval], **params: Any) -> Any:
        value, alone = make(a, b, *c, out=out, **params), make(a, b, out=out, **params)
        adding = make(a, b, out=out, other=True, **params)
        if value is None or alone is None or adding is None or not (moves[0] or moves[1]) or not all(out[0].shape):
            return None
        shift = _per_channel(out[0], c[0]) if moves[2:] == (True,) else None
        return _Kernel(value, alone, adding, shift, moves)

    return kernel_for


class _Kernel:
    """On a, b and perhaps c, the tangents of those that move, y and ẏ."""

    __slots__ = ("adding", "alone", "moves", "shift", "value")

    def __init__(self, value: Step, alone: Step, adding: Step, shift: Step | None, moves: tuple[bool, ...]) -> None:
        self.value, self.alone, self.adding, self.shift, self.moves = value, alone, adding, shift, moves

    def __call__(self, *arrays: Any) -> None:
        n = len(self.moves)
        a, b, y, dot = arrays[0], arrays[1], arrays[-2], arrays[-1]
        moved = iter(arrays[n:-2])
        if self.moves[:2] == (True, True):
            self.alone(next(moved), b, y)  # the value's place is free until it is computed
            self.adding(a, next(moved), y, dot)
        elif self.moves[0]:
            self.alone(next(moved), b, dot)
        else:
            self.alone(a, next(moved), dot)
        if self.shift is not None:
            self.shift(dot, next(moved), dot)
        self.value(*arrays[:n], y)
