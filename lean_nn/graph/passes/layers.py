"""Convolutions and products with what follows them: one node, computed while the sums are still in the cache.

``tails``. A layer is a conv, conv_input or matmul, then perhaps ``+ b`` (after a product: one number per column), ``+ r`` (an
array like the result: the residual of a ResNet), then perhaps an activation of `ACTS`. If each of these is the only reader of
the one before, they become one node, which runs in the place of the last. The kernels finish every sum first, then add, then
apply the activation: the operations of the separate nodes in their order, so the bits are the same.

``prepack``. Where Winograd's algorithm computes a layer, its weight is transformed first, which for one small image takes as
long as the rest. A constant weight is transformed here, once; the result is one more constant of the program, counted in
``program.memory.weights``. The weight itself stays: values that are not finite are computed from it (``lean_nn_c/conv.pyx``).
With the transform done, Winograd's algorithm pays for more layers than it does eagerly; these round differently, within
the algorithm's bound (``set_precision("exact")`` turns it off). The others have the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lean_nn.backend import cpu_conv, cpu_linear
from lean_nn.graph.ir import Graph, Node, Rewrite
from lean_nn.ops.elementwise import add
from lean_nn.primitive import FLOATS, Aval, Primitive, missing_kernel
from lean_nn_c.gemm import ACTS
from lean_nn_c.step import Step

LAYERS: dict[str, Callable[..., Step | None]] = {
    "conv": cpu_conv.conv_step, "conv_input": cpu_conv.conv_input_step, "matmul": cpu_linear.matmul_step,
}  # fmt: skip
PACKED_MOST = 1 << 24  # bytes of a transformed weight beyond which reading it takes longer than making it


class Tail(NamedTuple):
    """What a layer consists of: its primitive on the first `own` arrays, arrays that are added, an activation.

    `bias` : whether the first array added is one number per column; `other` : whether one like the result is added;
    `numbers` : the activation's parameter, if it has one; `packed` : whether the last array is a transformed weight.
    """

    layer: Primitive
    own: int
    bias: bool = False
    other: bool = False
    act: Primitive | None = None
    numbers: tuple[float, ...] = ()
    packed: bool = False

    def parts(self, arrays: Sequence[Any]) -> list[tuple[Primitive, tuple[Any, ...], dict[str, Any]]]:
        """(primitive, further arguments, parameters) of what is applied to the sums, in order."""
        added = arrays[self.own : self.own + self.bias + self.other]
        parts: list[tuple[Primitive, tuple[Any, ...], dict[str, Any]]] = [(add, (array,), {}) for array in added]
        if self.act is not None:
            parts.append((self.act, (), dict(zip(self.act.pointwise or (), self.numbers, strict=True))))
        return parts

    def __repr__(self) -> str:
        names = ["add"] * (self.bias + self.other) + ([self.act.name] if self.act else []) + ["packed"] * self.packed
        return "+".join(names)


def _abstract(*avals: Aval, tail: Tail, **params: Any) -> Any:
    result = tail.layer.abstract(*avals[: tail.own], **params)
    for prim, more, numbers in tail.parts(avals):
        result = prim.abstract(result, *more, **numbers)
    return result


def _spec(*arrays: Any, tail: Tail, **params: Any) -> Any:
    result = _slot(tail.layer, "spec")(*arrays[: tail.own], **params)
    for prim, more, numbers in tail.parts(arrays):
        result = _slot(prim, "spec")(result, *more, **numbers)
    return result


def _cpu(*arrays: Any, out: Any, tail: Tail, **params: Any) -> None:
    """The parts one after the other, for algorithms that have no step."""
    _slot(tail.layer, "cpu")(*arrays[: tail.own], out=out, **params)
    for prim, more, numbers in tail.parts(arrays):
        _slot(prim, "cpu")(out, *more, out=out, **numbers)


def _slot(prim: Primitive, name: str) -> Callable[..., Any]:
    slot: Callable[..., Any] | None = getattr(prim, name)
    if slot is None:
        raise missing_kernel(prim, name)
    return slot


def _step(*avals: Aval, out: tuple[Aval], tail: Tail, **params: Any) -> Step | None:
    options: dict[str, Any] = {"bias": True} if tail.bias else {}
    if tail.packed:
        options["packed"] = True
    act = "" if tail.act is None else tail.act.name
    slope = tail.numbers[0] if tail.numbers else 0.0
    return LAYERS[tail.layer.name](*avals[: tail.own], out=out, **params, other=tail.other, act=act, slope=slope, **options)


PRIMITIVES = {
    name: Primitive(f"{name}_layer", abstract=_abstract, spec=_spec, cpu=_cpu, step=_step) for name in LAYERS
}


# --- tails ---


class _Found(NamedTuple):
    """A layer as far as it is known: its own node, the values added, and the form of the whole."""

    node: Node
    added: tuple[int, ...]
    tail: Tail


def fuse_tails(graph: Graph) -> Graph:
    """Take sums and activations into the convolution or product before them."""
    uses = graph.uses()
    found: dict[int, _Found] = {}  # by the value that the layer makes
    inside: set[int] = set()  # values that exist only inside a layer
    for node in graph.nodes:
        value = node.outputs[0]
        if node.prim.name in LAYERS and graph.avals[value].dtype in FLOATS:
            found[value] = _Found(node, (), Tail(node.prim, len(node.inputs)))
            continue
        for before in dict.fromkeys(node.inputs):
            longer = _longer(graph, found[before], before, node) if before in found and uses[before] == 1 else None
            if longer is not None:
                found[value] = longer
                inside.add(before)
                break
    rewrite = Rewrite(graph)
    for node in graph.nodes:
        value = node.outputs[0]
        if value in inside:
            continue
        layer = found.get(value)
        if layer is None or layer.node is node:
            rewrite.copy(node)
            continue
        inputs = tuple(rewrite.map[v] for v in (*layer.node.inputs, *layer.added))
        prim = PRIMITIVES[layer.tail.layer.name]
        rewrite.let(value, rewrite.emit(prim, inputs, {"tail": layer.tail, **layer.node.params})[0])
    return rewrite.done()


def _longer(graph: Graph, layer: _Found, value: int, node: Node) -> _Found | None:
    """The layer that makes `value`, with `node` behind it; None where the kernels cannot do that."""
    tail, out = layer.tail, graph.avals[value]
    if tail.act is not None or graph.avals[node.outputs[0]] != out:
        return None
    if node.prim.name in ACTS:
        numbers = tuple(float(node.params[name]) for name in node.prim.pointwise or ())
        return layer._replace(tail=tail._replace(act=node.prim, numbers=numbers))
    if node.prim.name != "add" or tail.other:
        return None
    other = node.inputs[1] if node.inputs[0] == value else node.inputs[0]
    aval = graph.avals[other]
    if aval == out:
        return layer._replace(added=(*layer.added, other), tail=tail._replace(other=True))
    row = (1,) * (len(aval.shape) - 1) + out.shape[-1:]
    if tail.layer.name == "matmul" and not tail.bias and aval == Aval(row, out.dtype):
        return layer._replace(added=(other,), tail=tail._replace(bias=True))
    return None


# --- prepack ---


def prepack(graph: Graph) -> Graph:
    """Transform the constant weights of convolutions that Winograd's algorithm computes."""
    rewrite = Rewrite(graph)
    for node in graph.nodes:
        tail = node.params.get("tail") or Tail(node.prim, len(node.inputs))
        params = {name: value for name, value in node.params.items() if name != "tail"}
        step = _pack_step(graph, node, tail, params)
        if step is None:
            rewrite.copy(node)
            continue
        weight = graph.constants[node.inputs[1]]
        packed = np.empty(step.sizes[1] // weight.itemsize, weight.dtype)
        step(weight, packed)
        inputs = (*(rewrite.map[v] for v in node.inputs), rewrite.new.add_constant(packed))
        prim = PRIMITIVES[tail.layer.name]
        rewrite.let(node.outputs[0], rewrite.emit(prim, inputs, {"tail": tail._replace(packed=True), **params})[0])
    return rewrite.done()


def _pack_step(graph: Graph, node: Node, tail: Tail, params: dict[str, Any]) -> Step | None:
    if tail.layer.name not in ("conv", "conv_input") or node.inputs[1] not in graph.constants:
        return None
    out = graph.avals[node.outputs[0]]
    if out.dtype not in FLOATS:
        return None
    source, weight = (graph.avals[v] for v in node.inputs[:2])
    step = cpu_conv.pack_step(tail.layer.name, source, weight, out, **params)
    return step if step is not None and step.sizes[1] <= PACKED_MOST else None
