"""From a plan to the executor: each node's kernel with its geometry read, each value's place by number."""

from __future__ import annotations

from math import prod

from lean_nn.backend import cpu_move
from lean_nn.graph.ir import Graph, Node
from lean_nn.graph.plan import Plan
from lean_nn.primitive import missing_kernel
from lean_nn_c.executor import KINDS, Executor
from lean_nn_c.step import Step


def compiled_step(graph: Graph, node: Node) -> Step:
    """The node's kernel with its geometry read."""
    if node.prim.step is None:
        raise missing_kernel(node.prim, "step")
    avals = [graph.avals[v] for v in node.inputs]
    step: Step | None = node.prim.step(*avals, out=tuple(graph.avals[v] for v in node.outputs), **node.params)
    if step is None:
        raise ValueError(f"compile: {node.prim.name} by an algorithm that programs can run; got 'im2col', which is eager only; "
                         f"choose another")
    return step


def executor(graph: Graph, plan: Plan) -> Executor:
    """A graph and its plan, ready to run from any number of threads."""
    numbers = {value: i for i, value in enumerate(graph.constants)}
    targets = range(len(graph.avals), len(graph.avals) + len(plan.copies))  # more values: where copies go
    avals = [*graph.avals, *(graph.avals[value] for value, _ in plan.copies)]
    places = [*plan.places, *(place for _, place in plan.copies)]
    copies = [cpu_move.copy(prod(aval.shape), aval.dtype.itemsize) for aval in avals[len(graph.avals) :]]
    return Executor(
        [*(compiled_step(graph, node) for node in plan.steps), *copies],
        [*((*n.inputs, *n.outputs) for n in plan.steps), *((v, t) for (v, _), t in zip(plan.copies, targets, strict=True))],
        [aval.shape for aval in avals],
        [aval.dtype for aval in avals],
        [(KINDS[p.kind], numbers[p.index] if p.kind == "constant" else p.index, p.offset) for p in places],
        list(graph.constants.values()),
        plan.arena,
    )
