"""Updates happen all at once: each new value is that of before any of them.

A run ends by copying new values to where they belong. Where a new value *is* an argument that is updated too (two buffers
that change places, say), that copy would find it overwritten, so it is set aside by a node of its own before.
"""

from __future__ import annotations

from lean_nn.graph.ir import Graph, Rewrite
from lean_nn.primitive import get


def set_aside(graph: Graph) -> Graph:
    """The graph, with a copy of every new value that only looks at an updated input; the same one if there is none."""
    updated = {place for place, _ in graph.updates}
    origin = {value: value for value in updated}
    for node in graph.nodes:
        looks = node.prim.view is not None or node.prim.name == "slice"
        if looks and node.inputs[0] in origin:
            origin[node.outputs[0]] = origin[node.inputs[0]]
    if not any(value in origin and value != place for place, value in graph.updates):
        return graph
    rewrite = Rewrite(graph)
    for node in graph.nodes:
        rewrite.copy(node)
    new = rewrite.done()
    for i, (place, value) in enumerate(graph.updates):
        if value in origin and value != place:
            axes = tuple(range(len(graph.avals[value].shape)))
            (copied,) = rewrite.emit(get("transpose"), (rewrite.map[value],), {"axes": axes})
            new.updates[i] = (rewrite.map[place], copied)
    return new
