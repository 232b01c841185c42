"""Running a plan: one arena per call that is under way.

A *frame* is an arena and what is known of it (`lean_nn_c.executor`). Calls that overlap in time take a frame each; at most
`FRAMES` exist at a time, and a call that finds none waits. A forked child starts with none.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from lean_nn.graph.ir import Array, Graph, Node
from lean_nn.graph.plan import Plan
from lean_nn.primitive import Aval, missing_kernel
from lean_nn_c import executor, memory
from lean_nn_c.move import move_step
from lean_nn_c.step import Step

FRAMES = 8


class CpuStep:
    """A node that has no compiled step: its ``cpu`` kernel on the arrays of a frame."""

    __slots__ = ("inputs", "kernel", "outputs", "params")

    def __init__(self, node: Node) -> None:
        if node.prim.cpu is None:
            raise missing_kernel(node.prim, "cpu")
        self.kernel, self.inputs, self.params = node.prim.cpu, node.inputs, node.params
        self.outputs: Any = node.outputs if node.prim.outputs > 1 else node.outputs[0]

    def __call__(self, arrays: list[Any]) -> None:
        outputs = self.outputs
        out = arrays[outputs] if isinstance(outputs, int) else tuple([arrays[v] for v in outputs])
        self.kernel(*[arrays[v] for v in self.inputs], out=out, **self.params)


def compiled_step(graph: Graph, node: Node) -> Step | CpuStep:
    """The node's kernel with its geometry read: compiled where the record has such a step, else on arrays."""
    if node.prim.step is not None:
        avals = [graph.avals[v] for v in node.inputs]
        step = node.prim.step(*avals, out=tuple(graph.avals[v] for v in node.outputs), **node.params)
        if step is not None:
            return step  # type: ignore[no-any-return]
    return CpuStep(node)


def copy_step(aval: Aval) -> Step:
    """A step that copies an array."""
    cells, item = prod(aval.shape), aval.dtype.itemsize
    return move_step("copy", (cells,), item, cells, [(0, 0, 0, [(cells, item, item)])])


class Executor:
    """A graph and its plan, ready to run from any number of threads."""

    def __init__(self, graph: Graph, plan: Plan) -> None:
        self.graph, self.plan = graph, plan
        numbers = {value: i for i, value in enumerate(graph.constants)}
        targets = range(len(graph.avals), len(graph.avals) + len(plan.copies))  # more values: where copies go
        avals = [*graph.avals, *(graph.avals[value] for value, _ in plan.copies)]
        places = [*plan.places, *(place for _, place in plan.copies)]
        self._program = executor.Executor(
            [*(compiled_step(graph, node) for node in plan.steps), *(copy_step(graph.avals[v]) for v, _ in plan.copies)],
            [*((*n.inputs, *n.outputs) for n in plan.steps), *((v, t) for (v, _), t in zip(plan.copies, targets, strict=True))],
            [aval.shape for aval in avals],
            [aval.dtype for aval in avals],
            [(executor.KINDS[p.kind], numbers[p.index] if p.kind == "constant" else p.index, p.offset) for p in places],
            list(graph.constants.values()),
            plan.arena,
        )
        self._start()

    def _start(self) -> None:
        self._owner = os.getpid()
        self._idle: list[executor.Frame] = []
        self._permits = threading.BoundedSemaphore(FRAMES)

    @property
    def steps(self) -> list[Any]:
        """What runs, in order."""
        return self._program.steps

    def run(self, inputs: list[Array], outputs: list[Array], watch: Callable[[int], Any] | None = None) -> None:
        """Compute; `watch(i)` is called before step i, and once more after the last (the profiler's clock)."""
        if self._owner != os.getpid():
            self._start()
        with self._permits:
            try:
                frame = self._idle.pop()
            except IndexError:  # not asked beforehand: another thread may take the last one in between
                frame = self._program.frame(memory.empty((self.plan.arena,), np.uint8))
            try:
                self._program.run(frame, inputs, outputs, watch)
            finally:
                self._idle.append(frame)

    def release(self) -> None:
        """Give the memory of idle frames back."""
        self._idle.clear()
