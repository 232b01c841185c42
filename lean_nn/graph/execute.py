"""Running a plan: one arena per call that is under way, kernels on arrays that were made beforehand.

A `Frame` is an arena and, for each value in it, the array that looks at its place. The arrays of inputs and outputs are
set for each call; everything else stays. Calls that overlap in time (kernels release the GIL) take a frame each; at most
`FRAMES` exist at a time, and a call that finds none waits. A forked child starts with none.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lean_nn.graph.ir import Array, Graph, Node
from lean_nn.graph.plan import Place, Plan
from lean_nn.primitive import Aval, missing_kernel
from lean_nn_c import memory

FRAMES = 8


class Step:
    """One node on the arrays of a frame."""

    __slots__ = ("inputs", "kernel", "name", "outputs", "params")

    def __init__(self, node: Node) -> None:
        if node.prim.cpu is None:
            raise missing_kernel(node.prim, "cpu")
        self.name, self.kernel, self.inputs, self.params = node.prim.name, node.prim.cpu, node.inputs, node.params
        self.outputs: Any = node.outputs if node.prim.outputs > 1 else node.outputs[0]

    def __call__(self, arrays: list[Any]) -> None:
        outputs = self.outputs
        out = arrays[outputs] if isinstance(outputs, int) else tuple([arrays[v] for v in outputs])
        self.kernel(*[arrays[v] for v in self.inputs], out=out, **self.params)


class Frame:
    """The memory of one call."""

    __slots__ = ("arena", "arrays")

    def __init__(self, executor: Executor) -> None:
        self.arena = memory.empty((executor.plan.arena,), np.uint8)
        self.arrays: list[Any] = [None] * len(executor.plan.places)
        for value, place, aval in executor.of_kind("arena"):
            self.arrays[value] = np.ndarray(aval.shape, aval.dtype, self.arena, place.offset)
        for value, place, aval in executor.of_kind("constant"):
            self.arrays[value] = look(executor.graph.constants[place.index], place.offset, aval)


def look(base: Array, offset: int, aval: Aval) -> Array:
    """The array of `aval` that begins `offset` bytes into a contiguous one."""
    if offset == 0 and base.shape == aval.shape:
        return base
    return np.ndarray(aval.shape, aval.dtype, base, offset)


class Executor:
    """A graph and its plan, ready to run from any number of threads."""

    def __init__(self, graph: Graph, plan: Plan) -> None:
        self.graph, self.plan = graph, plan
        self.steps = [Step(node) for node in plan.steps]
        self._inputs, self._outputs = self.of_kind("input"), self.of_kind("output")
        self._copies = plan.copies
        self._start()

    def _start(self) -> None:
        self._owner = os.getpid()
        self._idle: list[Frame] = []
        self._permits = threading.BoundedSemaphore(FRAMES)

    def of_kind(self, kind: str) -> list[tuple[int, Place, Aval]]:
        """The values that live in places of one kind."""
        places = self.plan.places
        return [(v, p, self.graph.avals[v]) for v, p in enumerate(places) if p.kind == kind]

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array], watch: Callable[[Step], Any] | None = None) -> None:
        """Compute; `watch` is called before each step (the profiler's clock)."""
        if self._owner != os.getpid():
            self._start()
        with self._permits:
            frame = self._idle.pop() if self._idle else Frame(self)
            try:
                self._run(frame.arrays, inputs, outputs, watch)
            finally:
                self._idle.append(frame)

    def _run(
        self, arrays: list[Any], inputs: Sequence[Array], outputs: Sequence[Array], watch: Callable[[Step], Any] | None
    ) -> None:
        for value, place, aval in self._inputs:
            arrays[value] = look(inputs[place.index], place.offset, aval)
        for value, place, aval in self._outputs:
            arrays[value] = look(outputs[place.index], place.offset, aval)
        for step in self.steps:
            if watch is not None:
                watch(step)
            step(arrays)
        for value, place in self._copies:
            target = (inputs if place.kind == "input" else outputs)[place.index]
            np.copyto(target, arrays[value])
        for value, _, _ in (*self._inputs, *self._outputs):
            arrays[value] = None  # the caller's arrays are not ours to keep

    def release(self) -> None:
        """Give the memory of idle frames back."""
        self._idle.clear()
