"""Elementwise operations on one shape, each the only reader of the one before, become one node that runs as one loop.

A chain starts as a single node. A node joins the chains that its arguments come from, if it is their only reader and
works on their shape; it comes after all of them, so the chain runs in its place. Each value inside a chain is read by
one member only, hence one output. Intermediate values live in a few buffers in the cache (`lean_nn_c/_chain.pxd`).
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from lean_nn.backend.cpu_chain import INPUTS, NAMES, OPS, OUT, TEMPS, Op, chain, repetitions
from lean_nn.graph.ir import Graph, Node, Rewrite
from lean_nn.primitive import FLOATS, Aval, Primitive
from lean_nn_c.step import Step


class Member(NamedTuple):
    """One operation of a chain: its primitive and numbers; operands are inputs (≥ 0) or earlier members (−1 − i)."""

    prim: Primitive
    operands: tuple[int, ...]
    numbers: tuple[float, ...]
    dtype: Any

    def __repr__(self) -> str:
        return f"{self.prim.name}({', '.join(f'a{k}' if k >= 0 else f't{-1 - k}' for k in self.operands)})"


Members = tuple[Member, ...]


def _fused_abstract(*avals: Aval, members: Members) -> Aval:
    known: list[Aval] = []
    for member in members:
        params = dict(zip(member.prim.pointwise or (), member.numbers, strict=True))
        known.append(member.prim.abstract(*(avals[k] if k >= 0 else known[-1 - k] for k in member.operands), **params))
    return known[-1]


def _ops(members: Members) -> tuple[list[Op], dict[int, int]] | None:
    """The members with their places: a temporary is free again after its one reader; None if there are too few."""
    free, places, ops = list(range(INPUTS + TEMPS - 1, INPUTS - 1, -1)), list[int](), list[Op]()
    items: dict[int, int] = {}
    for i, member in enumerate(members):
        sources = tuple(k if k >= 0 else places[-1 - k] for k in member.operands)
        last = i == len(members) - 1
        if not last and not free:
            return None
        place = OUT if last else free.pop()  # not one that is read here: a bool and a float differ in size
        for source in set(sources):
            if source >= INPUTS:
                free.append(source)
        places.append(place)
        if member.dtype not in FLOATS and not last:
            items[place] = member.dtype.itemsize
            free = [p for p in free if p not in items]  # keeps its size: it is not used for floats again
        ops.append((member.prim.name, sources, place, member.numbers))
    return ops, items


def _fused_step(*avals: Aval, out: tuple[Aval], members: Members) -> Step:
    planned = _ops(members)
    if planned is None:
        raise ValueError(f"fused: at most {TEMPS} intermediate values at a time; got {members}; fuse fewer operations")
    return chain("fused", avals, out[0], *planned)


def _fused_cpu(*arrays: Any, out: Any, members: Members) -> None:
    avals = [Aval(a.shape, a.dtype) for a in arrays]
    _fused_step(*avals, out=(Aval(out.shape, out.dtype),), members=members)(*arrays, out)


fused = Primitive("fused", abstract=_fused_abstract, cpu=_fused_cpu, step=_fused_step, pointwise=())


class _Chain:
    """Nodes that may become one: the values they read from outside, and how many temporaries they fill at most.

    `width` counts the one for the result. It is known from the parts': those that run first hold one each while the next
    runs. `plain` says that all values are of one float type; otherwise places differ in size, and `_ops` has to find them.
    """

    __slots__ = ("inputs", "nodes", "plain", "width")

    def __init__(self, nodes: list[Node], inputs: dict[int, None], width: int, plain: bool) -> None:
        self.nodes, self.inputs, self.width, self.plain = nodes, inputs, width, plain


def _joined(graph: Graph, parts: list[_Chain], last: _Chain) -> _Chain | None:
    """`parts`, in the order in which they run, and then the one node of `last`; None beyond the limits of a chain."""
    nodes = [node for part in parts for node in part.nodes] + last.nodes
    made = {part.nodes[-1].outputs[0] for part in parts}
    inputs = {value: None for part in (*parts, last) for value in part.inputs if value not in made}
    if len(nodes) > OPS or len(inputs) > INPUTS:
        return None
    peak = max([len(parts), *(held + part.width for held, part in enumerate(parts))])
    chain_ = _Chain(nodes, inputs, max(peak, len(parts) + 1), last.plain and all(part.plain for part in parts))
    if not chain_.plain:
        return chain_ if _possible(graph, nodes) else None
    if peak > TEMPS:
        return None
    shapes = [graph.avals[value].shape for value in inputs]
    return chain_ if repetitions(shapes, graph.avals[nodes[-1].outputs[0]].shape) is not None else None


def fuse_chains(graph: Graph) -> Graph:
    """Fuse every maximal chain of two operations or more."""
    uses = graph.uses()
    chains: dict[int, _Chain] = {}  # by the value that the chain makes
    inside: set[int] = set()  # values that exist only inside a chain
    for node in graph.nodes:
        if not _fits(graph, node):
            continue
        out = graph.avals[node.outputs[0]]
        types = {graph.avals[value].dtype for value in (*node.inputs, *node.outputs)}
        own = last = _Chain([node], dict.fromkeys(node.inputs), 1, types == {out.dtype} and out.dtype in FLOATS)
        parts: list[_Chain] = []
        for value in dict.fromkeys(node.inputs):
            before = chains.get(value)
            if before is None or node.inputs.count(value) != uses[value] or graph.avals[value].shape != out.shape:
                continue
            joined = _joined(graph, [before, *parts], last)
            if joined is not None:
                own, parts = joined, [before, *parts]
                inside.add(value)
        chains[node.outputs[0]] = own
    rewrite = Rewrite(graph)
    for node in graph.nodes:
        value = node.outputs[0]
        if value in inside:
            continue
        found = chains.get(value)
        if found is None or len(found.nodes) < 2:
            rewrite.copy(node)
            continue
        inputs, members = _members(graph, found.nodes)
        made = rewrite.emit(fused, tuple(rewrite.map[v] for v in inputs), {"members": members})
        rewrite.let(value, made[0])
    return rewrite.done()


def _fits(graph: Graph, node: Node) -> bool:
    """Whether a node can be part of a chain: a loop of the tables, on one float type, with inputs that repeat simply."""
    if node.prim.name not in NAMES or node.prim.pointwise is None or prod(graph.avals[node.outputs[0]].shape) == 0:
        return False
    return _possible(graph, [node])


def _possible(graph: Graph, nodes: list[Node]) -> bool:
    """Whether these nodes, the last of which makes the output, are within the limits of one chain."""
    inputs, members = _members(graph, nodes)
    out = graph.avals[nodes[-1].outputs[0]]
    floats = {graph.avals[v].dtype for v in inputs} | {member.dtype for member in members}
    if len(inputs) > INPUTS or len(members) > OPS or len(floats.intersection(FLOATS)) != 1:
        return False
    return repetitions([graph.avals[v].shape for v in inputs], out.shape) is not None and _ops(members) is not None


def _members(graph: Graph, nodes: Any) -> tuple[list[int], Members]:
    """The values that a chain reads, and its operations."""
    made: dict[int, int] = {}
    inputs: dict[int, int] = {}
    members = []
    for i, node in enumerate(nodes):
        operands = tuple(made[v] if v in made else inputs.setdefault(v, len(inputs)) for v in node.inputs)
        numbers = tuple(float(node.params[name]) for name in node.prim.pointwise)
        members.append(Member(node.prim, operands, numbers, graph.avals[node.outputs[0]].dtype))
        made[node.outputs[0]] = -1 - i
    return list(inputs), tuple(members)
