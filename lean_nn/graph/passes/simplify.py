"""Constants, common subexpressions, dead values: the passes that hold for any operator."""

from __future__ import annotations

from typing import Any

from lean_nn.graph.ir import Graph, Node, Rewrite
from lean_nn.primitive import evaluate, get


def fold_constants(graph: Graph) -> Graph:
    """Nodes whose arguments are all constant are computed now.

    An output that is much larger than its arguments (a broadcast zero) stays a node: it would only take up space. All
    results together are at most eight times the graph's own constants and a megabyte, however they multiply.
    """
    known = dict(graph.constants)
    room = 8 * sum(array.nbytes for array in known.values()) + 2**20
    folded: set[int] = set()
    for i, node in enumerate(graph.nodes):
        if not all(value in known for value in node.inputs):
            continue
        before = sum(graph.nbytes(value) for value in node.inputs)
        size = sum(graph.nbytes(value) for value in node.outputs)
        if size > min(4 * before + 4096, room):
            continue
        room -= size
        result = evaluate(node.prim, tuple(known[value] for value in node.inputs), node.params)
        known.update(zip(node.outputs, result if node.prim.outputs > 1 else (result,), strict=True))
        folded.add(i)
    if not folded:
        return graph
    rewrite = Rewrite(graph)
    for i, node in enumerate(graph.nodes):
        if i not in folded:
            rewrite.copy(node)
            continue
        for value in node.outputs:
            rewrite.let(value, rewrite.new.add_constant(known[value]))
    return drop_dead(rewrite.done())


def common_subexpressions(graph: Graph) -> Graph:
    """One node for equal primitives on equal arguments with equal parameters; small equal constants are one."""
    rewrite = Rewrite(graph)
    seen: dict[Any, tuple[int, ...]] = {}
    for value, array in graph.constants.items():
        if array.nbytes <= 64:
            same = seen.setdefault((array.shape, array.dtype, array.tobytes()), (rewrite.map[value],))
            rewrite.let(value, same[0])
    for node in graph.nodes:
        key = (node.prim.name, tuple(rewrite.map[v] for v in node.inputs), _frozen(node.params))
        if key in seen:
            for value, equal in zip(node.outputs, seen[key], strict=True):
                rewrite.let(value, equal)
        else:
            seen[key] = rewrite.copy(node)
    return rewrite.done()


def _frozen(params: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    # 1 and 1.0, 0.0 and -0.0 are equal but mean different things: the text tells them apart
    return tuple(sorted((name, repr(value)) for name, value in params.items()))


def drop_dead(graph: Graph) -> Graph:
    """Nodes and constants that nothing wanted depends on go; max pooling loses indices that nobody reads."""
    needed = set(graph.wanted())
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if needed.isdisjoint(node.outputs):
            continue
        needed.update(node.inputs)
        kept.append(node)
    rewrite = Rewrite(_only(graph, needed))
    for node in reversed(kept):
        if node.prim.name == "max_pool" and node.outputs[1] not in needed:
            value = tuple(rewrite.map[v] for v in node.inputs)
            rewrite.let(node.outputs[0], rewrite.emit(get("max_pool_value"), value, node.params)[0])
        else:
            rewrite.copy(node)
    return rewrite.done()


def _only(graph: Graph, needed: set[int]) -> Graph:
    """The graph without the constants that nobody needs; inputs stay, they are the signature."""
    constants = {value: array for value, array in graph.constants.items() if value in needed}
    return Graph(graph.avals, graph.nodes, graph.inputs, graph.outputs, constants, graph.names, graph.updates)
