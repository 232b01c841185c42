"""Gradients behind max pooling, summed over the winners alone.

Going back through ``max_pool(conv(x, w, b))`` the cotangent g of the pooled values is spread over an array of the convolution's
size, zero but at the winners, which is then multiplied and summed whole for x, w and b:

    s = scatter_add_at(g, idx);   x_bar = conv_input(s, w);   w_bar = conv_weight(x, s);   b_bar = sum(s)

Where every window has a winner, b_bar is the sum of g. And with windows of 2 × 2 three quarters of s are zeros: x_bar and w_bar
are mostly quicker computed winner by winner (``lean_nn_c/_winners.pxd``). If nobody else reads s, it is never made. The sums
are the same, their order is not: the bounds are those of conv_input, conv_weight and sum. Zeros meet no infinity; where a
factor or the result is not finite, the kernel spreads g after all.
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


def _weight_abstract(x: Aval, g: Aval, idx: Aval, *, cells: Shape, **geometry: Any) -> Any:
    return get("conv_weight").abstract(x, Aval((*g.shape[:2], *cells), g.dtype), **geometry)


def _weight_spec(x: Any, g: Any, idx: Any, *, cells: Shape, **geometry: Any) -> Any:
    return spec.conv_weight(x, spec.scatter_add_at(g, idx, spatial=cells), **geometry)


def _weight_step(x: Aval, g: Aval, idx: Aval, *, out: tuple[Aval], kernel: Shape, **params: Any) -> Step | None:
    return cpu_conv.winners_step("conv_weight", x, out[0], g, **params)


def _input_abstract(g: Aval, idx: Aval, w: Aval, *, cells: Shape, **geometry: Any) -> Any:
    return get("conv_input").abstract(Aval((*g.shape[:2], *cells), g.dtype), w, **geometry)


def _input_spec(g: Any, idx: Any, w: Any, *, cells: Shape, **geometry: Any) -> Any:
    return spec.conv_input(spec.scatter_add_at(g, idx, spatial=cells), w, **geometry)


def _input_step(g: Aval, idx: Aval, w: Aval, *, out: tuple[Aval], spatial: Shape, **params: Any) -> Step | None:
    return cpu_conv.winners_step("conv_input", out[0], w, g, **params)


conv_weight_at = Primitive("conv_weight_at", abstract=_weight_abstract, spec=_weight_spec, step=_weight_step)
conv_input_at = Primitive("conv_input_at", abstract=_input_abstract, spec=_input_spec, step=_input_step)
SPREAD = {"sum": 0, "conv_weight": 1, "conv_input": 0}  # which argument is the cotangent that was spread


def sum_over_winners(graph: Graph) -> Graph:
    """Sums over a cotangent that max pooling's gradient spread out, taken before it is."""
    made = graph.producers()
    rewrite, changed = Rewrite(graph), False
    for node in graph.nodes:
        scatter = _spread(graph, made, node)
        if scatter is None:
            rewrite.copy(node)
            continue
        changed = True
        g, idx = (rewrite.map[v] for v in scatter.inputs)
        others, cells = [rewrite.map[v] for v in node.inputs], {"cells": scatter.params["spatial"]}
        if node.prim.name == "sum":
            result = rewrite.emit(node.prim, (g,), node.params)
        elif node.prim.name == "conv_weight":
            result = rewrite.emit(conv_weight_at, (others[0], g, idx), cells | node.params)
        else:
            result = rewrite.emit(conv_input_at, (g, idx, others[1]), cells | node.params)
        rewrite.let(node.outputs[0], result[0])
    return drop_dead(rewrite.done()) if changed else graph


def _spread(graph: Graph, made: dict[int, Node], node: Node) -> Node | None:
    """The scatter of winners that `node` sums up, if it can do without; else None."""
    if node.prim.name not in SPREAD:
        return None
    scatter = made.get(node.inputs[SPREAD[node.prim.name]])
    if scatter is None or scatter.prim.name != "scatter_add_at" or graph.avals[scatter.outputs[0]].dtype not in FLOATS:
        return None
    pool, cells = made.get(scatter.inputs[1]), scatter.params["spatial"]
    if pool is None or pool.prim.name != "max_pool" or graph.avals[pool.inputs[0]].shape[2:] != cells:
        return None
    if not all((table.count > 0).all() for table in pool.params["window"].tables(cells)):
        return None  # an empty window has no winner, and its cotangent goes nowhere
    return scatter if _can(graph, node, graph.avals[scatter.inputs[0]], cells) else None


def _can(graph: Graph, node: Node, g: Aval, cells: Shape) -> bool:
    """Whether `node` can sum over winners, and is quicker so."""
    if node.prim.name == "sum":
        return set(range(2, 2 + len(cells))) <= set(node.params["axes"])
    if len(node.inputs) > 2:
        return False  # a transposed convolution with a bias
    result, (first, second) = (graph.avals[node.outputs[0]],), (graph.avals[v] for v in node.inputs)
    if node.prim.name == "conv_weight":
        return _weight_step(first, g, g, out=result, cells=cells, **node.params) is not None
    return _input_step(g, g, second, out=result, cells=cells, **node.params) is not None
