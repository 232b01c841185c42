"""Elementwise operations as steps: one alone, or several as one loop (``lean_nn_c/_chain.pxd``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from lean_nn.primitive import FLOATS, Aval
from lean_nn_c import elementwise as kernels
from lean_nn_c.step import Step

INPUTS, TEMPS, OPS = kernels.CHAIN_LIMITS
OUT = INPUTS + TEMPS
NAMES = {*kernels.unary, *kernels.binary, *kernels.compare, *kernels.triple}

TANGENT = OUT + 1  # the second output of a dual chain

# (name, places read, place written, numbers); places: inputs from 0, temporaries from INPUTS, OUT
Op = tuple[str, tuple[int, ...], int, tuple[float, ...]]


def repetition(shape: tuple[int, ...], out: tuple[int, ...]) -> tuple[int, int] | None:
    """(inner, count): cell i of `out` reads cell i // inner % count of an array of `shape`; (0, 0) where shapes agree.

    None where the array is repeated in a way that one quotient does not describe.

    Examples
    --------
    >>> repetition((8, 1, 1), (2, 8, 5, 5)), repetition((5,), (2, 8, 5, 5)), repetition((2, 1, 5, 5), (2, 8, 5, 5))
    ((25, 8), (1, 5), None)
    """
    if shape == out:
        return 0, 0
    own = (1,) * (len(out) - len(shape)) + shape
    held = [axis for axis, n in enumerate(own) if n != 1]
    if not held:
        return 1, 1
    if prod(out) == 0:
        return (1, prod(own)) if prod(own) else (0, 0)
    first, last = held[0], held[-1]
    if own[first : last + 1] != out[first : last + 1]:
        return None
    return prod(out[last + 1 :]), prod(own)


def repetitions(shapes: Sequence[tuple[int, ...]], out: tuple[int, ...]) -> list[tuple[int, int]] | None:
    """How each input repeats; None where they cannot be cut into common segments."""
    found = [repetition(shape, out) for shape in shapes]
    if any(pair is None for pair in found):
        return None
    pairs = [pair for pair in found if pair is not None]
    runs = [count if inner == 1 else inner for inner, count in pairs if inner and count > 1]
    return pairs if all(run % min(runs) == 0 for run in runs) else None


def _float_of(name: str, avals: Sequence[Aval]) -> int:
    """Bytes of the one float type among the arrays."""
    floats = {aval.dtype for aval in avals if aval.dtype in FLOATS}
    if len(floats) != 1:
        raise TypeError(f"{name}: kernels take one float type; got {[str(aval.dtype) for aval in avals]}; convert one")
    return int(floats.pop().itemsize)


def chain(name: str, avals: Sequence[Aval], out: Aval, ops: Sequence[Op], items: dict[int, int], outputs: int = 1) -> Step:
    """`ops` on inputs of `avals` as one step; `items` are the bytes of temporaries that are not floats.

    Two outputs are alike; operations may read the first after it is written.
    """
    pairs = repetitions([aval.shape for aval in avals], out.shape)
    if pairs is None:
        raise ValueError(f"{name}: inputs of a chain repeat simply; got {[aval.shape for aval in avals]} for {out.shape}")
    size = _float_of(name, (*avals, out))
    bytes_of = [aval.dtype.itemsize for aval in avals] + [size] * (TANGENT + 1 - len(avals))
    bytes_of[OUT] = out.dtype.itemsize
    for place, n in items.items():
        bytes_of[place] = n
    return kernels.chain_step(name, prod(out.shape), pairs, [_written(op) for op in ops], bytes_of, size == 8, outputs)


def _written(op: Op) -> tuple[str, tuple[int, ...], int, float, float]:
    """As the kernels take it: two numbers, whether it has them or not."""
    p0, p1 = (*op[3], 0.0, 0.0)[:2]
    return *op[:3], p0, p1


def total(name: str, avals: Sequence[Aval], ops: Sequence[Op], *counts: float) -> Step:
    """The sums of what `ops` make of inputs of one shape, an output for each of `counts`, divided by these, as one step."""
    size = _float_of(name, avals)
    steps = [_written(op) for op in ops]
    return kernels.total_step(name, prod(avals[0].shape), len(avals), steps, [size] * (TANGENT + 1), size == 8, counts)


class Written(NamedTuple):
    """An operation in the order of computing; operands are inputs (≥ 0) or earlier operations (−1 − i)."""

    name: str
    operands: tuple[int, ...]
    numbers: tuple[float, ...]


def dual_chain(name: str, avals: Sequence[Aval], out: Aval, ops: Sequence[Written], tangent: int) -> Step | None:
    """`ops` as one step with two outputs: what the first operation makes, and what `tangent` stands for.

    None where the inputs repeat in too many ways, or the chain has too few temporaries.
    """
    if repetitions([aval.shape for aval in avals], out.shape) is None:
        return None
    if tangent >= -1:  # an input, or the value itself: a tangent of its own all the same
        return None
    wanted = ops[:-tangent]  # the tangent's operation is the last
    both = _both(name, avals, out, wanted)
    if both is not None:
        return both
    places = dual_places(wanted)
    if places is None:
        return None
    steps = [(op.name, tuple(k if k >= 0 else places[k] for k in op.operands), places[-1 - i], op.numbers)
             for i, op in enumerate(wanted)]  # fmt: skip
    return chain(name, avals, out, steps, {}, 2)


def _both(name: str, avals: Sequence[Aval], out: Aval, ops: Sequence[Written]) -> Step | None:
    """One loop for value and tangent; None where there is none for these operations on these shapes."""
    if [op[:2] for op in ops] != _TOGETHER.get(name):
        return None
    full = tuple(aval.shape == out.shape for aval in avals)
    if full != ((True, False, True) if name == "pow" else (True,) * len(avals)) or (name == "pow" and prod(avals[1].shape) != 1):
        return None
    return kernels.both_step(name, prod(out.shape), full, _float_of(name, avals) == 8)


# What functions with a loop for value and tangent write down: the operations, and what these read.
_TOGETHER: dict[str, list[Any]] = {
    **{name: [(name, (0,)), (f"{name}_gate", (1, 0))] for name in ("gelu", "gelu_tanh", "silu")},
    "pow": [("pow", (0, 1)), ("pow_gate", (2, 0, 1))],  # by one number
    "maximum": [("maximum", (0, 1)), ("larger_gate", (2, 0, 1)), ("larger_gate", (3, 1, 0)), ("add", (-3, -2))],
    "minimum": [("minimum", (0, 1)), ("larger_gate", (2, 1, 0)), ("larger_gate", (3, 0, 1)), ("add", (-3, -2))],
}


def dual_places(ops: Sequence[Written]) -> dict[int, int] | None:
    """Where each operation writes: the first the value, the last the tangent; None where that takes too many temporaries.

    The tangent's own cells are the first temporary, which keeps others out of the cache: the last operation may write over what
    it reads, if cells are of one size, which those of comparisons are not.
    """
    last = {operand: i for i, op in enumerate(ops) for operand in op.operands}
    free, places = [*range(INPUTS, OUT), TANGENT], {-1: OUT, -len(ops): TANGENT}
    for i, op in enumerate(ops):
        made, compares = -1 - i, op.name in kernels.compare
        if made not in places:
            if not free or (compares and free == [TANGENT]):
                return None
            places[made] = free.pop(0 if compares else -1)
        done = {k for k in (*op.operands, made) if k < 0 and last.get(k, i) <= i}
        free = sorted({*free, *(places[k] for k in done if places[k] != OUT)})
    return places


def broadcast(name: str, avals: Sequence[Aval], out: Aval, numbers: tuple[float, ...]) -> Step:
    """One operation on inputs that repeat in any way."""
    p0, p1 = (*numbers, 0.0, 0.0)[:2]
    items = tuple(aval.dtype.itemsize for aval in (*avals, out))
    shapes = tuple(aval.shape for aval in avals)
    return kernels.broadcast_step(name, shapes, out.shape, items, p0, p1, _float_of(name, (*avals, out)) == 8)


def step_of(name: str, numbers: tuple[str, ...] = ()) -> Callable[..., Step]:
    """The ``step`` slot of an elementwise primitive."""

    def step(*avals: Aval, out: tuple[Aval], **params: Any) -> Step:
        values = tuple(float(params[number]) for number in numbers)
        if repetitions([aval.shape for aval in avals], out[0].shape) is None:
            return broadcast(name, avals, out[0], values)
        return chain(name, avals, out[0], [(name, tuple(range(len(avals))), OUT, values)], {})

    return step
