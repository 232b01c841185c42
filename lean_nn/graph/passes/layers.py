"""Convolutions and products with what follows them: one node, computed while the sums are still in the cache.

A layer is a conv, conv_input or matmul, then perhaps ``+ b`` (after a product: one number per column), ``+ r`` (an
array like the result: the residual of a ResNet), then perhaps an activation of `ACTS`, or behind a convolution the gate of a
relu's gradient. If each of these is the only reader of the one before, they become one node, which runs in the place of the
last. The kernels finish every sum first, then add, then apply the activation: the operations of the separate nodes in their
order, so the bits are the same. An activation behind a reshape (an image without a batch has one around its convolution) is
applied before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lean_nn.backend import cpu_conv, cpu_linear
from lean_nn.graph.ir import Graph, Node, Rewrite
from lean_nn.ops.elementwise import add
from lean_nn.primitive import FLOATS, Aval, Primitive, missing_kernel
from lean_nn_c.step import ACTS, Step

LAYERS: dict[str, Callable[..., Step | None]] = {
    "conv": cpu_conv.conv_step, "conv_input": cpu_conv.conv_input_step, "matmul": cpu_linear.matmul_step,
}  # fmt: skip
GATED = ("conv", "conv_input")  # after which a gate may come, that is, `relu_gate` with its second array


class Tail(NamedTuple):
    """What a layer consists of: its primitive on the first `own` arrays, arrays that are added, an activation or a gate, whose
    array comes next.

    `bias` : whether the first array added is one number per column; `other` : whether one like the result is added;
    `numbers` : the activation's parameter, if it has one; `packed` : whether the last array is a transformed weight;
    `factor` : the shape of a product's second factor, where the array holds its packed strips instead.
    """

    layer: Primitive
    own: int
    bias: bool = False
    other: bool = False
    act: Primitive | None = None
    numbers: tuple[float, ...] = ()
    packed: bool = False
    factor: tuple[int, ...] = ()

    @property
    def gated(self) -> bool:
        return self.act is not None and self.act.name == "relu_gate"

    def own_avals(self, avals: Sequence[Aval]) -> tuple[Aval, ...]:
        """Of the layer's own arrays, a packed factor as it was."""
        own = tuple(avals[: self.own])
        return own if not self.factor else (own[0], Aval(self.factor, own[1].dtype), *own[2:])

    def parts(self, arrays: Sequence[Any]) -> list[tuple[Primitive, tuple[Any, ...], dict[str, Any]]]:
        """(primitive, further arguments, parameters) of what is applied to the sums, in order."""
        stop = self.own + self.bias + self.other
        added, gate = arrays[self.own : stop], arrays[stop : stop + self.gated]
        parts: list[tuple[Primitive, tuple[Any, ...], dict[str, Any]]] = [(add, (array,), {}) for array in added]
        if self.act is not None:
            parts.append((self.act, tuple(gate), dict(zip(self.act.pointwise or (), self.numbers, strict=True))))
        return parts

    def options(self) -> dict[str, Any]:
        """What the kernels are told about it."""
        act = "" if self.act is None else self.act.name
        return {"other": self.other, "act": act, "slope": self.numbers[0] if self.numbers else 0.0}

    def __repr__(self) -> str:
        names = ["add"] * (self.bias + self.other) + ([self.act.name] if self.act else [])
        names += ["packed"] * (self.packed or bool(self.factor))
        return "+".join(names)


def _abstract(*avals: Aval, tail: Tail, **params: Any) -> Any:
    result = tail.layer.abstract(*tail.own_avals(avals), **params)
    for prim, more, numbers in tail.parts(avals):
        result = prim.abstract(result, *more, **numbers)
    return result


def _spec(*arrays: Any, tail: Tail, **params: Any) -> Any:
    _refuse_packed(tail, "spec")
    result = _slot(tail.layer, "spec")(*arrays[: tail.own], **params)
    for prim, more, numbers in tail.parts(arrays):
        result = _slot(prim, "spec")(result, *more, **numbers)
    return result


def _cpu(*arrays: Any, out: Any, tail: Tail, **params: Any) -> None:
    """The parts one after the other, for algorithms that have no step."""
    _refuse_packed(tail, "cpu")
    _slot(tail.layer, "cpu")(*arrays[: tail.own], out=out, **params)
    for prim, more, numbers in tail.parts(arrays):
        _slot(prim, "cpu")(out, *more, out=out, **numbers)


def _refuse_packed(tail: Tail, name: str) -> None:
    """A factor that was packed for the kernel is none that others read."""
    if tail.factor:
        raise missing_kernel(PRIMITIVES[tail.layer.name], name)


def _slot(prim: Primitive, name: str) -> Callable[..., Any]:
    slot: Callable[..., Any] | None = getattr(prim, name)
    if slot is None:
        raise missing_kernel(prim, name)
    return slot


def _step(*avals: Aval, out: tuple[Aval], tail: Tail, **params: Any) -> Step | None:
    options: dict[str, Any] = {"bias": True} if tail.bias else {}
    if tail.packed or tail.factor:
        options["packed"] = True
    return LAYERS[tail.layer.name](*tail.own_avals(avals), out=out, **params, **tail.options(), **options)


PRIMITIVES = {
    name: Primitive(f"{name}_layer", abstract=_abstract, spec=_spec, cpu=_cpu, step=_step) for name in LAYERS
}


class _Found(NamedTuple):
    """A layer as far as it is known: its own node, the values added, and the form of the whole."""

    node: Node
    added: tuple[int, ...]
    tail: Tail


def fuse_tails(graph: Graph) -> Graph:
    """Take sums and activations into the convolution or product before them."""
    graph = _activate_first(graph)
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
    if not inside:
        return graph
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


def _activate_first(graph: Graph) -> Graph:
    """Activations of a layer's result that was reshaped for them alone are applied before the reshape."""
    made, uses = graph.producers(), graph.uses()

    def reshaped(node: Node) -> Node | None:
        view = made.get(node.inputs[0]) if node.prim.name in ACTS and len(node.inputs) == 1 else None
        if view is None or view.prim.view is None or uses[view.outputs[0]] != 1:
            return None
        layer = made.get(view.inputs[0])
        return view if layer is not None and layer.prim.name in LAYERS and uses[view.inputs[0]] == 1 else None

    found = {node.outputs[0]: view for node in graph.nodes if (view := reshaped(node)) is not None}
    if not found:
        return graph
    rewrite = Rewrite(graph)
    late = {view.outputs[0] for view in found.values()}
    for node in graph.nodes:
        view = found.get(node.outputs[0])
        if view is not None:
            (active,) = rewrite.emit(node.prim, (rewrite.map[view.inputs[0]],), node.params)
            rewrite.let(node.outputs[0], rewrite.emit(view.prim, (active,), view.params)[0])
        elif node.outputs[0] not in late:
            rewrite.copy(node)
    return rewrite.done()


def _longer(graph: Graph, layer: _Found, value: int, node: Node) -> _Found | None:
    """The layer that makes `value`, with `node` behind it; None where the kernels cannot do that."""
    tail, out = layer.tail, graph.avals[value]
    if tail.act is not None or graph.avals[node.outputs[0]] != out:
        return None
    if node.prim.name == "relu_gate":
        gate = node.inputs[1]
        if tail.layer.name not in GATED or node.inputs[0] != value or gate == value or graph.avals[gate] != out:
            return None
        return layer._replace(added=(*layer.added, gate), tail=tail._replace(act=node.prim))
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
