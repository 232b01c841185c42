"""Constant weights in the form that their kernels read, made once, when the program is.

**Winograd.** Where his algorithm computes a layer, its weight is transformed first, which for one small image takes as
long as the rest. The transformed weight is one more constant of the program, counted in ``program.memory.weights``. The weight
itself stays: values that are not finite are computed from it (``lean_nn_c/conv.pyx``). With the transform done, Winograd's
algorithm pays for more layers than it does eagerly; these round differently, within the algorithm's bound
(``set_precision("exact")`` turns it off). The others have the same bits.

**Products.** ``x @ w`` with more than a few rows reads w as strips of columns that are packed one after the other
(``lean_nn_c/gemm.pyx``). A constant w is packed here, and what it was made from is dropped if nobody else reads it. The strips
are the same, so are the bits. Not packed is what would gain nothing: few rows, for which w is read once, where it lies, and
many, of which each strip meets so many that its packing does not count. A constant on the left is packed by each thread for its
own part of the rows, which depends on the number of threads.

**One tap.** A 1 × 1 convolution of one small image is a product with its weight on the left (``lean_nn_c/_pointwise.pxd``): there
the threads' parts are whole panels, and these are packed here, beside the weight. The bits are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lean_nn.backend import cpu_conv, cpu_linear
from lean_nn.graph.ir import Array, Graph, Node, Rewrite
from lean_nn.graph.passes.layers import LAYERS, PRIMITIVES, Tail
from lean_nn.graph.passes.simplify import drop_dead
from lean_nn.primitive import FLOATS
from lean_nn_c.step import Step

PACKED_MOST = 1 << 24  # bytes of a transformed weight beyond which reading it takes longer than making it


def prepack(graph: Graph) -> Graph:
    """Transform the constant weights of convolutions by Winograd's algorithm, pack the constant factors of products."""
    found = {node.outputs[0]: step for node in graph.nodes if (step := _pack_step(graph, node)) is not None}
    if not found:
        return graph
    rewrite = Rewrite(graph)
    known: dict[Any, int] = {}
    for node in graph.nodes:
        step = found.get(node.outputs[0])
        if step is None:
            rewrite.copy(node)
            continue
        tail, params = _taken_apart(node)
        inputs = [rewrite.map[v] for v in node.inputs]
        weight = graph.constants[node.inputs[1]]
        if tail.layer.name == "matmul":
            tail = tail._replace(factor=weight.shape)
            key = (node.inputs[1], params.get("tb", False), step.sizes)
            if key not in known:
                known[key] = rewrite.new.add_constant(_packed(step, weight))
            inputs[1] = known[key]
        else:
            tail = tail._replace(packed=True)
            inputs.append(rewrite.new.add_constant(_packed(step, weight)))
        prim = PRIMITIVES[tail.layer.name]
        rewrite.let(node.outputs[0], rewrite.emit(prim, tuple(inputs), {"tail": tail, **params})[0])
    return drop_dead(rewrite.done()) if known else rewrite.done()


def _packed(step: Step, weight: Array) -> Array:
    packed = np.zeros(step.sizes[1] // weight.itemsize, weight.dtype)
    step(weight, packed)
    return packed


def _taken_apart(node: Node) -> tuple[Tail, dict[str, Any]]:
    """What the node consists of, and the parameters of its layer."""
    tail = node.params.get("tail") or Tail(node.prim, len(node.inputs))
    return tail, {name: value for name, value in node.params.items() if name != "tail"}


def _pack_step(graph: Graph, node: Node) -> Step | None:
    """What makes the form that the node's kernel reads of its weight; None where the weight is read as it is."""
    if node.prim.name.removesuffix("_layer") not in LAYERS or node.inputs[1] not in graph.constants:
        return None
    out = graph.avals[node.outputs[0]]
    if out.dtype not in FLOATS or node.inputs[0] in graph.constants:
        return None
    tail, params = _taken_apart(node)
    source, weight = (graph.avals[v] for v in node.inputs[:2])
    if tail.layer.name == "matmul":
        return cpu_linear.pack_step(weight, out, **params)
    step = cpu_conv.pack_step(tail.layer.name, source, weight, out, **params)
    return step if step is not None and step.sizes[1] <= PACKED_MOST else None
