"""A scale or shift per channel after a convolution moves into its weight and bias.

Batch norm at inference is ``y·scale + shift``: elementwise nodes with one constant number per channel each, however the
formula is written. With y = conv(x, w, b), w constant, each of them is again a convolution:

    y + c = conv(x, w, b + c)      y − c = conv(x, w, b − c)
    y · c = conv(x, w·c, b·c)      y / c = conv(x, w/c, b/c)

and so for y = conv_input (transposed convolution), whose output channels are the second axis of w. Nodes are taken one by
one, in order, so that any chain of them folds, whatever it was called. The result rounds differently: each moved
operation is one rounding of the weight instead of one of the output, so with m of them the bound's n grows to n + 2m.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lean_nn.graph.ir import Array, Graph, Node, Rewrite
from lean_nn.graph.passes.simplify import drop_dead

CONVOLUTIONS = ("conv", "conv_input")
SCALES = {"mul": np.multiply, "div": np.divide}
SHIFTS = {"add": np.add, "sub": np.subtract}


def fold_affine(graph: Graph) -> Graph:
    """Fold every constant scale and shift per channel into the convolution that it follows and alone reads."""
    if not any(node.prim.name in CONVOLUTIONS for node in graph.nodes):
        return graph
    uses = graph.uses()
    rewrite = Rewrite(graph)
    made: dict[int, Node] = {}  # convolutions of the new graph, by the value they make
    for node in graph.nodes:
        layer = made.get(rewrite.map[node.inputs[0]]) if node.inputs else None
        number = _per_channel(graph, node)
        if layer is not None and number is not None and uses[node.inputs[0]] == 1:
            arguments = _folded(rewrite.new, layer, node.prim.name, number)
            if arguments is not None:
                inputs = (layer.inputs[0], *(rewrite.new.add_constant(a) for a in arguments))
                rewrite.let(node.outputs[0], rewrite.emit(layer.prim, inputs, layer.params)[0])
                made[rewrite.map[node.outputs[0]]] = rewrite.new.nodes[-1]
                continue
        outputs = rewrite.copy(node)
        if node.prim.name in CONVOLUTIONS:
            made[outputs[0]] = rewrite.new.nodes[-1]
    return drop_dead(rewrite.done())


def _per_channel(graph: Graph, node: Node) -> Array | None:
    """The constant of a scale or shift as one number per channel, or as a single one; None if it is something else.

    The convolution is the first argument: ``c + y`` and ``c · y`` are written with it second, and stay.
    """
    if node.prim.name not in SCALES and node.prim.name not in SHIFTS:
        return None
    y, c = node.inputs
    array = graph.constants.get(c)
    shape = graph.avals[y].shape
    if array is None or graph.avals[node.outputs[0]].shape != shape or array.ndim > len(shape):
        return None
    full = (1,) * (len(shape) - array.ndim) + array.shape
    if any(n != 1 for axis, n in enumerate(full) if axis != 1):
        return None
    return array.reshape(-1)


def _folded(graph: Graph, layer: Node, op: str, number: Array) -> list[Array] | None:
    """Weight and bias of the layer after `op` by `number`; None where the layer cannot take it."""
    known = [graph.constants.get(value) for value in layer.inputs[1:]]
    if any(array is None for array in known):
        return None
    weight, bias = known[0], known[1] if len(known) > 1 else None
    channels = graph.avals[layer.outputs[0]].shape[1]
    if op in SHIFTS:
        start = np.zeros(channels, weight.dtype) if bias is None else bias  # type: ignore[union-attr]
        return [weight, np.ascontiguousarray(np.broadcast_to(SHIFTS[op](start, number), channels))]  # type: ignore[list-item]
    scaled = _scaled(weight, layer, SCALES[op], number)
    return [scaled] if bias is None else [scaled, SCALES[op](bias, number)]


def _scaled(weight: Any, layer: Node, scale: Any, number: Array) -> Array:
    """The weight with every output channel scaled: axis 0 of conv's; of conv_input's axis 1, group by group."""
    if number.size == 1 or layer.prim.name == "conv":
        return np.asarray(scale(weight, number.reshape(-1, *(1,) * (weight.ndim - 1))))
    groups = layer.params["groups"]
    split = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    by = number.reshape(groups, 1, weight.shape[1], *(1,) * (weight.ndim - 2))
    return np.ascontiguousarray(scale(split, by).reshape(weight.shape))


