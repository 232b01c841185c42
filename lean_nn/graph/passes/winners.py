"""Gradients behind max pooling, summed over the winners alone.

Going back through ``max_pool(conv(x, w, b))`` the cotangent g of the pooled values is spread over an array of the convolution's
size, zero but at the winners, which is then multiplied and summed whole for w and b:

    s = scatter_add_at(g, idx);   w_bar = conv_weight(x, s);   b_bar = sum(s)

Where every window has a winner, b_bar is the sum of g. Where x has few channels, as in a network's first layer, w_bar is quicker
computed winner by winner (``lean_nn_c/_winners.pxd``): with windows of 2 × 2 three quarters of s are zeros. If nobody else
reads s, which is so in the first layer, it is never made. The sums are the same, their order is not: the bounds are those of
conv_weight and sum. Zeros meet no infinity; where x or the result is not finite, the kernel spreads g after all.
"""

from __future__ import annotations

from typing import Any

from lean_nn import spec
from lean_nn.backend import cpu_conv
from lean_nn.graph.ir import Graph, Node, Rewrite
from lean_nn.graph.passes.simplify import drop_dead
from lean_nn.primitive import FLOATS, Aval, Primitive, get
from lean_nn_c.step import Step

Shape = tuple[int, ...]


def _abstract(x: Aval, g: Aval, idx: Aval, *, spatial: Shape, **geometry: Any) -> Any:
    return get("conv_weight").abstract(x, Aval((*g.shape[:2], *spatial), g.dtype), **geometry)


def _spec(x: Any, g: Any, idx: Any, *, spatial: Shape, **geometry: Any) -> Any:
    return spec.conv_weight(x, spec.scatter_add_at(g, idx, spatial=spatial), **geometry)


def _step(x: Aval, g: Aval, idx: Aval, *, out: tuple[Aval], **params: Any) -> Step | None:
    return cpu_conv.winners_step(x, g, out=out, **params)


conv_weight_at = Primitive("conv_weight_at", abstract=_abstract, spec=_spec, step=_step)


def sum_over_winners(graph: Graph) -> Graph:
    """Sums over a cotangent that max pooling's gradient spread out, taken before it is."""
    made = graph.producers()
    rewrite, changed = Rewrite(graph), False
    for node in graph.nodes:
        scatter = _spread(graph, made, node)
        inputs = () if scatter is None else tuple(rewrite.map[v] for v in scatter.inputs)
        if scatter is None:
            rewrite.copy(node)
        elif node.prim.name == "sum":
            changed = True
            rewrite.let(node.outputs[0], rewrite.emit(node.prim, inputs[:1], node.params)[0])
        else:
            changed = True
            params = {"spatial": scatter.params["spatial"], **node.params}
            rewrite.let(node.outputs[0], rewrite.emit(conv_weight_at, (rewrite.map[node.inputs[0]], *inputs), params)[0])
    return drop_dead(rewrite.done()) if changed else graph


def _spread(graph: Graph, made: dict[int, Node], node: Node) -> Node | None:
    """The scatter of winners that `node` sums up, if it can do without; else None."""
    if node.prim.name not in ("sum", "conv_weight"):
        return None
    scatter = made.get(node.inputs[-1])
    if scatter is None or scatter.prim.name != "scatter_add_at" or graph.avals[scatter.outputs[0]].dtype not in FLOATS:
        return None
    pool, spatial = made.get(scatter.inputs[1]), scatter.params["spatial"]
    if pool is None or pool.prim.name != "max_pool" or graph.avals[pool.inputs[0]].shape[2:] != spatial:
        return None
    if not all((table.count > 0).all() for table in pool.params["window"].tables(spatial)):
        return None  # an empty window has no winner, and its cotangent goes nowhere
    if node.prim.name == "sum":
        return scatter if set(range(2, 2 + len(spatial))) <= set(node.params["axes"]) else None
    x, g = graph.avals[node.inputs[0]], graph.avals[scatter.inputs[0]]
    step = cpu_conv.winners_step(x, g, out=(graph.avals[node.outputs[0]],), spatial=spatial, **node.params)
    return scatter if step is not None else None
