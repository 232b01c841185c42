"""The graph itself: typed values, numbered, and the applications of primitives between them.

A `Graph` is the tape's records without the data. Values are numbers; value v has a shape and a dtype (``avals[v]``).
It is an input, a constant, or an output of exactly one node, and nodes stand in an order in which they can run, so
every graph is in static single assignment form:

    %0 = input            float32[8, 3, 32, 32]
    %1 = constant         float32[16, 3, 3, 3]
    %2 = conv(%0, %1)     float32[8, 16, 32, 32]

A pass is a function from graph to graph. It never changes the one it is given: it copies nodes into a new graph with
`Rewrite`, which renumbers the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from lean_nn.primitive import Aval, Primitive

Array = np.ndarray[Any, np.dtype[Any]]


class Node(NamedTuple):
    """One application: ``outputs = prim(*inputs, **params)``, inputs and outputs by number."""

    prim: Primitive
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    params: dict[str, Any]


class Graph:
    """Values, nodes and what goes in and out; `names` are those of the inputs, for messages and listings.

    `updates` are pairs (input, value): after a run, the array that was given for the input holds the value. That is how
    a training step changes its parameters in place.
    """

    __slots__ = ("avals", "constants", "inputs", "names", "nodes", "outputs", "updates")

    def __init__(
        self, avals: list[Aval] | None = None, nodes: list[Node] | None = None, inputs: list[int] | None = None,
        outputs: list[int] | None = None, constants: dict[int, Array] | None = None, names: dict[int, str] | None = None,
        updates: list[tuple[int, int]] | None = None,
    ) -> None:  # fmt: skip
        self.avals, self.nodes = avals or [], nodes or []
        self.inputs, self.outputs = inputs or [], outputs or []
        self.constants, self.names, self.updates = constants or {}, names or {}, updates or []

    def add_input(self, aval: Aval, name: str = "") -> int:
        value = self._value(aval)
        self.inputs.append(value)
        if name:
            self.names[value] = name
        return value

    def add_constant(self, array: Array) -> int:
        value = self._value(Aval(array.shape, array.dtype))
        self.constants[value] = array
        return value

    def add_node(
        self, prim: Primitive, inputs: tuple[int, ...], params: dict[str, Any], avals: Sequence[Aval]
    ) -> tuple[int, ...]:
        first = len(self.avals)
        self.avals.extend(avals)
        outputs = tuple(range(first, len(self.avals)))
        self.nodes.append(Node(prim, inputs, outputs, params))
        return outputs

    def _value(self, aval: Aval) -> int:
        self.avals.append(aval)
        return len(self.avals) - 1

    def snapshot(self, outputs: list[int]) -> Graph:
        """The graph as it is now, with these outputs; what is added later is not part of it."""
        return Graph(list(self.avals), list(self.nodes), list(self.inputs), outputs, dict(self.constants), dict(self.names),
                     list(self.updates))  # fmt: skip

    def nbytes(self, value: int) -> int:
        return size_of(self.avals[value])

    def wanted(self) -> list[int]:
        """The values that must be there when a run has ended."""
        return [*self.outputs, *(new for _, new in self.updates)]

    def producers(self) -> dict[int, Node]:
        """The node that makes a value, for every value that a node makes."""
        return {value: node for node in self.nodes for value in node.outputs}

    def uses(self) -> list[int]:
        """How often each value is read, counting what the caller wants as a reading."""
        count = [0] * len(self.avals)
        for node in self.nodes:
            for value in node.inputs:
                count[value] += 1
        for value in self.wanted():
            count[value] += 1
        return count


def size_of(aval: Aval) -> int:
    """Bytes of an array."""
    return prod(aval.shape) * aval.dtype.itemsize


def as_avals(result: Any) -> tuple[Aval, ...]:
    """What ``abstract`` returned, as one Aval per output."""
    return (result,) if isinstance(result, Aval) else tuple(result)


class Rewrite:
    """A new graph made from an old one, value by value.

    Inputs and constants are taken over first. For each node of the old graph call `copy`, or `emit` something else
    and say with `let` what stands for its outputs from now on. `done` translates what the caller wants.
    """

    def __init__(self, old: Graph) -> None:
        self.old = old
        self.new = Graph()
        self.map: dict[int, int] = {}
        for value in old.inputs:
            self.map[value] = self.new.add_input(old.avals[value], old.names.get(value, ""))
        for value, array in old.constants.items():
            self.map[value] = self.new.add_constant(array)

    def copy(self, node: Node) -> tuple[int, ...]:
        """The node as it is, on the new values."""
        inputs = tuple([self.map[value] for value in node.inputs])
        outputs = self.new.add_node(node.prim, inputs, node.params, [self.old.avals[v] for v in node.outputs])
        self.map.update(zip(node.outputs, outputs, strict=True))
        return outputs

    def emit(self, prim: Primitive, inputs: tuple[int, ...], params: dict[str, Any]) -> tuple[int, ...]:
        """Another node, on values of the new graph; shapes follow from its own ``abstract``."""
        avals = as_avals(prim.abstract(*(self.new.avals[v] for v in inputs), **params))
        return self.new.add_node(prim, inputs, params, avals)

    def let(self, old: int, new: int) -> None:
        """From now on `new` stands for the old graph's value `old`."""
        self.map[old] = new

    def done(self) -> Graph:
        self.new.outputs = [self.map[value] for value in self.old.outputs]
        self.new.updates = [(self.map[place], self.map[value]) for place, value in self.old.updates]
        return self.new


