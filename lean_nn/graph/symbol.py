"""Tracing: an array that has a shape and a dtype but no numbers, and the backend that computes with it.

The type of the data chooses the backend, and `Symbol` is one more type of data. Applying a primitive to Symbols checks the
shapes as ever, then adds a node to their graph instead of running a kernel. Nothing else in the house differs: the
tape, forward mode, every transform and all of `functional` run on Tensors of Symbols as they do on numbers, which is
why a gradient, a Hessian-vector product or a training step can be compiled without a line written for it.

Operations on plain arrays alone are computed while tracing; where an array meets a Symbol it becomes a constant.
"""

from __future__ import annotations

from math import prod
from typing import Any, NoReturn

import numpy as np

from lean_nn.device import to_host
from lean_nn.graph.ir import Array, Graph
from lean_nn.primitive import OBJECT, Aval, GraphError, Primitive


class Recorder:
    """A graph that is being recorded, and the constants that it has met already, by identity."""

    __slots__ = ("_alive", "_known", "graph")

    def __init__(self) -> None:
        self.graph = Graph()
        self._known: dict[int, Symbol] = {}
        self._alive: list[Any] = []

    def input(self, aval: Aval, name: str = "") -> Symbol:
        return Symbol(self, self.graph.add_input(aval, name), aval)

    def symbol(self, array: Any, op: str) -> Symbol:
        """`array` in this graph: itself, or a constant."""
        if isinstance(array, Symbol):
            if array.recorder is not self:
                raise GraphError(f"{op}: arguments of one graph; got %{array.value}, which belongs to another; "
                                 f"pass its array as an input")
            return array
        if array.dtype == OBJECT:
            raise TypeError(f"{op}: a graph holds float32, float64, int64 and bool; got exact objects; compute them eagerly")
        known = self._known.get(id(array))
        if known is None:  # both arrays are kept alive, so their identity stays their own; constants lie in host memory
            number = self.graph.add_constant(to_host(array))
            known = self._known[id(array)] = Symbol(self, number, Aval(array.shape, array.dtype))
            self._alive.append(array)
        return known

    def mark(self) -> tuple[int, int]:
        """A point to come back to: how many nodes and values there are."""
        return len(self.graph.nodes), len(self.graph.avals)

    def undo(self, mark: tuple[int, int]) -> None:
        """Forget everything added since `mark`."""
        nodes, values = mark
        del self.graph.nodes[nodes:], self.graph.avals[values:]
        for value in [v for v in self.graph.constants if v >= values]:
            del self.graph.constants[value]
        self._known = {key: known for key, known in self._known.items() if known.value < values}


class Symbol:
    """The data of a Tensor whose numbers are not known yet: a value of a graph."""

    __slots__ = ("dtype", "recorder", "shape", "value")

    def __init__(self, recorder: Recorder, value: int, aval: Aval) -> None:
        self.recorder, self.value = recorder, value
        self.shape, self.dtype = aval

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    def __repr__(self) -> str:
        return f"%{self.value}: {describe(Aval(self.shape, self.dtype))}"

    def _unknown(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise GraphError(f"compile: numbers are not known while a function is traced; got a question about the values of "
                         f"%{self.value} ({describe(Aval(self.shape, self.dtype))}); use where, or compute it outside")

    __array__ = __bool__ = __float__ = __getitem__ = __int__ = __iter__ = __len__ = __setitem__ = _unknown
    argmax = argmin = astype = copy = item = tobytes = tolist = _unknown


class Tracing:
    """The backend of Symbols."""

    name = "graph"

    def claims(self, arrays: tuple[Any, ...]) -> bool:
        for a in arrays:  # noqa: SIM110  # see Cpu.claims
            if type(a) is Symbol:
                return True
        return False

    def run(self, prim: Primitive, arrays: tuple[Any, ...], avals: tuple[Aval, ...], params: dict[str, Any]) -> Any:
        recorder = next(a for a in arrays if type(a) is Symbol).recorder
        name = f"node %{len(recorder.graph.avals)} = {prim.name}"
        inputs = tuple(recorder.symbol(a, name).value for a in arrays)
        values = recorder.graph.add_node(prim, inputs, params, avals)
        outs = tuple(Symbol(recorder, value, aval) for value, aval in zip(values, avals, strict=True))
        return outs if prim.outputs > 1 else outs[0]


def describe(aval: Aval) -> str:
    """``float32[8, 3, 32, 32]``"""
    return f"{np.dtype(aval.dtype)}{list(aval.shape)}"


__all__ = ["Array", "Recorder", "Symbol", "Tracing", "describe"]
