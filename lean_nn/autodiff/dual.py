"""Value and tangents in one pass over memory: where the engine may use a dual kernel, here is which.

A record's ``dual`` slot gives one. An elementwise primitive needs none: its rules are made of elementwise ones, so value and
tangent are one chain of loops (``lean_nn_c/_chain.pxd``) with two outputs. The chain is found by running the rule
once, on *cells*: data that has a shape and a dtype, and writes down what is computed with it. As every loop of a chain is the
one that runs alone, the bits are those of value and rule. Of a linear primitive value and tangent are two runs of its kernel.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lean_nn.autodiff.forward import output_tangents
from lean_nn.backend.cpu_chain import INPUTS, NAMES, OPS, Written, dual_chain, repetition
from lean_nn.primitive import Aval, Primitive, register_backend, registry
from lean_nn_c import engine

COMMUTE = {"add", "mul"}


class _NoChain(Exception):
    """The rule does something that a chain cannot."""


class _Recorder:
    """What is computed with cells: the arrays that are read, constants last, and the operations."""

    def __init__(self, out: Aval) -> None:
        self.out = out
        self.inputs: list[Aval] = []
        self.constants: list[np.ndarray[Any, Any]] = []
        self.ops: list[Written] = []

    def input(self, aval: Aval) -> Cell:
        self.inputs.append(aval)
        return Cell(self, len(self.inputs) - 1, aval)

    def constant(self, array: np.ndarray[Any, Any]) -> Cell:
        self.constants.append(array)
        return self.input(Aval(array.shape, array.dtype))

    def apply(self, prim: Primitive, cells: list[Cell], aval: Aval, params: dict[str, Any]) -> Cell:
        if prim.name == "broadcast_to":  # an input repeats by itself, and everything computed has the chain's shape
            return Cell(self, cells[0].place, aval)
        if not in_chains(prim) or all(self._repeats(cell) for cell in cells):  # of short arrays a chain would make long ones
            raise _NoChain
        numbers = tuple(float(params[name]) for name in prim.pointwise or ())
        if prim.name in COMMUTE:  # in one order, a number after an array: loops are made for that
            cells = sorted(cells, key=lambda cell: (self._repeats(cell), cell.place))
        op = Written(prim.name, tuple(cell.place for cell in cells), numbers)
        if op not in self.ops:  # the rule may ask for the value again, and of x·x it is the same product twice
            self.ops.append(op)
        return Cell(self, -1 - self.ops.index(op), aval)

    def _repeats(self, cell: Cell) -> bool:
        return cell.place >= 0 and self.inputs[cell.place].shape != self.out.shape


class Cell:
    """The data of a Tensor under a rule that is being read: input `place` of a chain, or operation −1 − place of it."""

    __slots__ = ("dtype", "place", "recorder", "shape")

    def __init__(self, recorder: _Recorder, place: int, aval: Aval) -> None:
        self.recorder, self.place = recorder, place
        self.shape, self.dtype = aval


class _Reading:
    """The backend of cells."""

    name = "cells"

    def claims(self, arrays: tuple[Any, ...]) -> bool:
        for a in arrays:  # noqa: SIM110  # see Cpu.claims
            if type(a) is Cell:
                return True
        return False

    def run(self, prim: Primitive, arrays: tuple[Any, ...], avals: tuple[Aval, ...], params: dict[str, Any]) -> Any:
        recorder = next(a for a in arrays if type(a) is Cell).recorder
        cells = [a if type(a) is Cell else recorder.constant(a) for a in arrays]
        return recorder.apply(prim, cells, avals[0], params)


register_backend(_Reading())


class Dual(NamedTuple):
    """Avals of the outputs and of their tangents; a kernel on arguments, tangents of those that move, outputs, their tangents."""

    outs: tuple[Aval, ...]
    dots: tuple[Aval | None, ...]
    kernel: Any


def in_chains(prim: Primitive) -> bool:
    return prim.pointwise is not None and prim.name in NAMES and registry.get(prim.name) is prim


def dual_of(
    prim: Primitive, avals: list[Aval], moves: list[bool], outs: tuple[Aval, ...], params: dict[str, Any], twins: bool
) -> Dual | None:
    """A kernel for the value of `prim` and its tangents where the arguments that move have some; None if there is none."""
    if prim.dual is not None:
        kernel = prim.dual(*avals, moves=tuple(moves), out=outs, **params)
    elif in_chains(prim) and all(prim.differentiable_out):
        kernel = _chained(prim, avals, moves, outs[0], params, twins)
    else:
        kernel = _twice(prim, avals, moves, outs, params)
    if kernel is None:
        return None
    dots = tuple(aval if moving else None for aval, moving in zip(outs, prim.differentiable_out, strict=True))
    return Dual(outs, dots, kernel)


def _twice(prim: Primitive, avals: list[Aval], moves: list[bool], outs: tuple[Aval, ...], params: dict[str, Any]) -> Any:
    """The primitive's own kernel, run twice, where it is linear in the one argument that moves: no rule need be looked up."""
    at, n = moves.index(True), len(avals)
    if sum(moves) > 1 or at not in prim.linear or prim.step is None or not all(prim.differentiable_out):
        return None
    step = prim.step(*avals, out=outs, **params)

    def alone(x: Any, t: Any, y: Any, dot: Any) -> None:
        step(x, y)
        step(t, dot)

    def kernel(*arrays: Any) -> None:
        step(*arrays[:n], *arrays[n + 1 : n + 1 + len(outs)])
        step(*arrays[:at], arrays[n], *arrays[at + 1 : n], *arrays[n + 1 + len(outs) :])

    return step and (alone if n == len(outs) == 1 else kernel)


def _chained(prim: Primitive, avals: list[Aval], moves: list[bool], out: Aval, params: dict[str, Any], twins: bool) -> Any:
    """Value and tangent of an elementwise primitive as one chain.

    Twins are read as one, so that x·x moves by twice the same product and not by two.
    """
    if any(repetition(aval.shape, out.shape) is None for aval in avals):
        return None
    recorder = _Recorder(out)
    args = [engine.wrap(recorder.input(aval)) for aval in avals]
    tangents = [engine.wrap(recorder.input(aval)) if moving else None for aval, moving in zip(avals, moves, strict=True)]
    if twins:
        args[1], tangents[1] = args[0], tangents[0]
    recording = engine.set_recording(False)
    try:
        y = prim(*args, **params)
        dot = output_tangents(prim, tuple(args), tangents, y if prim.saves_output else None, params)[0]
    except _NoChain:
        return None
    finally:
        engine.set_recording(recording)
    if dot is None or len(recorder.inputs) > INPUTS or len(recorder.ops) > OPS:
        return None
    apart = _apart(recorder, dot.data.place)
    if apart is not None:
        return apart
    step = dual_chain(prim.name, recorder.inputs, out, recorder.ops, dot.data.place)
    return step and _beside(step, recorder.constants)


def _apart(recorder: _Recorder, tangent: int) -> Any:
    """Two plain passes, where value and tangent are one operation each and read no array in common, as of −x and 1 − x: one loop
    has nothing to gain. Else None."""
    pair = recorder.ops[:-tangent] if tangent < -1 else []
    long = [{k for k in op.operands if k < 0 or recorder.inputs[k].shape} for op in pair]
    if len(pair) != 2 or recorder.constants or long[0] & long[1] or min(long[1], default=-1) < 0:
        return None
    value, dot = (_step_of(recorder, op) for op in pair)
    first, second = (op.operands for op in pair)

    def alone(x: Any, t: Any, y: Any, moved: Any) -> None:
        value(x, y)
        dot(t, moved)

    def kernel(*arrays: Any) -> None:
        value(*[arrays[k] for k in first], arrays[-2])
        dot(*[arrays[k] for k in second], arrays[-1])

    return value and dot and (alone if (first, second) == ((0,), (1,)) else kernel)


def _step_of(recorder: _Recorder, op: Written) -> Any:
    """An operation on inputs alone."""
    prim = registry[op.name]
    numbers = dict(zip(prim.pointwise or (), op.numbers, strict=True))
    return prim.step and prim.step(*(recorder.inputs[k] for k in op.operands), out=(recorder.out,), **numbers)


def _beside(step: Any, constants: list[np.ndarray[Any, Any]]) -> Any:
    """The step with its constants set in before the two outputs."""
    return step if not constants else lambda *arrays: step(*arrays[:-2], *constants, *arrays[-2:])
