"""A relu's gradient behind max pooling, taken on the pooled side.

    y = relu(x);  p, idx = max_pool(y)         going back:  relu_gate(scatter_add_at(g, idx), y)

Where g lands, y is the winner, whose value is p: the gate asks ``y > 0`` there, which is ``p > 0``, and everywhere else there is
nothing to let pass. So ``scatter_add_at(relu_gate(g, p), idx)`` is the same, with the same bits: a winner of several windows
adds up the same numbers in the same order, or zeros. It reads p and g, a quarter of y or less, and y, often a network's largest
value, need not be kept for the way back.
"""

from __future__ import annotations

from lean_nn.graph.ir import Graph, Node, Rewrite
from lean_nn.graph.passes.simplify import drop_dead


def gate_before_scatter(graph: Graph) -> Graph:
    """Let relu's gate stand before the scatter of max pooling's gradient."""
    made, uses = graph.producers(), graph.uses()
    rewrite, moved = Rewrite(graph), False
    for node in graph.nodes:
        found = _scatter_and_pool(node, made, uses)
        if found is None:
            rewrite.copy(node)
            continue
        (scatter, pool), moved = found, True
        gated = rewrite.emit(node.prim, (rewrite.map[scatter.inputs[0]], rewrite.map[pool.outputs[0]]), node.params)
        rewrite.let(node.outputs[0], rewrite.emit(scatter.prim, (gated[0], rewrite.map[scatter.inputs[1]]), scatter.params)[0])
    return drop_dead(rewrite.done()) if moved else graph


def _scatter_and_pool(node: Node, made: dict[int, Node], uses: list[int]) -> tuple[Node, Node] | None:
    """The scatter whose only reader is `node`, a gate by the very value that was pooled, and the pooling."""
    if node.prim.name != "relu_gate":
        return None
    scatter = made.get(node.inputs[0])
    if scatter is None or scatter.prim.name != "scatter_add_at" or uses[node.inputs[0]] != 1:
        return None
    pool = made.get(scatter.inputs[1])
    if pool is None or pool.prim.name != "max_pool" or pool.inputs != (node.inputs[1],):
        return None
    return scatter, pool
