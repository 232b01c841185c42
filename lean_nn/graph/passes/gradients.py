"""A convolution's two gradients by one kernel, and convolutions that read relu(batch norm) without its being written.

**Both.** ``x_bar = conv_input(y_bar, w)`` and ``w_bar = conv_weight(x, y_bar)`` read the same cotangent, and by Winograd's
algorithm one transform of it serves both (``lean_nn_c/_winograd_both.pxd``). Where the kernel can, pass ``gradients`` makes one
node of the two in the place of the later, with whatever follows x_bar inside its kernel already (pass ``tails``). w_bar is
summed in another order; the bound is conv_weight's.

**Heads.** In training ``y = relu(w·z + b)`` behind a batch norm is mostly read by the next convolution alone, and by the
gradients of that convolution. Pass ``heads`` then keeps the statistics only, and the kernels make y of what the batch norm
read, cell by cell, as they read it: an array less to write, to keep, and to make again (pass ``recompute``). The bits are the
same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lean_nn.backend import cpu_conv
from lean_nn.backend.cpu_reduce import standard
from lean_nn.graph.ir import Graph, Node, Rewrite
from lean_nn.graph.passes.layers import Tail
from lean_nn.graph.passes.norms import layer
from lean_nn.ops.conv import conv, conv_input, conv_weight
from lean_nn.primitive import FLOATS, Aval, Primitive
from lean_nn_c.step import Step

Shape = tuple[int, ...]
HEAD = 4  # arrays: mean, rstd, w and b of the batch norm
GEOMETRY = ("stride", "padding", "dilation", "groups")  # what the two gradients of one layer have in common


# --- both gradients: y_bar, w, x, what x_bar's tail reads, the head of x ---


def _both_abstract(y_bar: Aval, w: Aval, x: Aval, *more: Aval, tail: Tail, head: bool, **geometry: Any) -> tuple[Aval, Aval]:
    x_bar = conv_input.abstract(y_bar, w, spatial=x.shape[2:], **geometry)
    return x_bar, conv_weight.abstract(x, y_bar, kernel=w.shape[2:], **geometry)


def _both_step(y_bar: Aval, w: Aval, x: Aval, *more: Aval, out: Any, tail: Tail, head: bool, **geometry: Any) -> Step | None:
    return cpu_conv.both_step(y_bar, w, x, **geometry, **tail.options(), head=head)


conv_both = Primitive("conv_both", abstract=_both_abstract, step=_both_step, differentiable_out=(True, True))


class _Gradients(NamedTuple):
    """conv_input, perhaps with a tail, and conv_weight of one layer."""

    input: Node
    weight: Node

    @property
    def tail(self) -> Tail:
        return self.input.params.get("tail") or Tail(self.input.prim, 2)

    def emit(self, rewrite: Rewrite) -> None:
        y_bar, w, *tail = (rewrite.map[v] for v in self.input.inputs)
        inputs = (y_bar, w, rewrite.map[self.weight.inputs[0]], *tail)
        made = rewrite.emit(conv_both, inputs, {"tail": self.tail, "head": False, **_geometry(self.weight)})
        for old, new in zip((self.input.outputs[0], self.weight.outputs[0]), made, strict=True):
            rewrite.let(old, new)


def join_gradients(graph: Graph) -> Graph:
    """Compute conv_input and conv_weight of one layer together."""
    inputs = {(n.inputs[0], *_geometry(n).values()): n for n in graph.nodes if n.prim.name in ("conv_input", "conv_input_layer")}
    if not inputs:
        return graph
    place = {node.outputs[0]: i for i, node in enumerate(graph.nodes)}
    first_reader: dict[int, int] = {}
    for i, node in enumerate(graph.nodes):
        for value in node.inputs:
            first_reader.setdefault(value, i)
    found: dict[int, _Gradients] = {}  # by the place of the later one
    for node in graph.nodes:
        other = inputs.get((node.inputs[1], *_geometry(node).values())) if node.prim.name == "conv_weight" else None
        pair = None if other is None else _Gradients(other, node)
        if pair is None or not _joins(graph, pair):
            continue
        early, late = sorted((place[pair.input.outputs[0]], place[node.outputs[0]]))
        if first_reader.get(graph.nodes[early].outputs[0], len(place)) > late and late not in found:
            found[late] = pair
    if not found:
        return graph
    gone = {node.outputs[0] for pair in found.values() for node in pair}
    rewrite = Rewrite(graph)
    for i, node in enumerate(graph.nodes):
        if i in found:
            found[i].emit(rewrite)
        elif node.outputs[0] not in gone:
            rewrite.copy(node)
    return rewrite.done()


def _geometry(node: Node) -> dict[str, Any]:
    return {name: node.params[name] for name in GEOMETRY}


def _joins(graph: Graph, pair: _Gradients) -> bool:
    """Whether the two are of one layer, and the kernel computes both."""
    y_bar, w, x = (graph.avals[v] for v in (*pair.input.inputs[:2], pair.weight.inputs[0]))
    tail, x_bar, w_bar = pair.tail, graph.avals[pair.input.outputs[0]], graph.avals[pair.weight.outputs[0]]
    if tail.own != 2 or tail.bias or tail.packed or (x, w) != (x_bar, w_bar) or x.dtype not in FLOATS:
        return False
    return cpu_conv.both_step(y_bar, w, x, **_geometry(pair.weight), **tail.options()) is not None


# --- heads ---


def _statistics_step(x: Aval, *, out: Any, axes: Shape, eps: float) -> Step:
    return standard("normalize_statistics", "x", "first second")(x, out=out, axes=axes, eps=eps)


def _statistics_abstract(x: Aval, *, axes: Shape, eps: float) -> tuple[Aval, Aval]:
    one = Aval(tuple(1 if a in axes else n for a, n in enumerate(x.shape)), x.dtype)
    return one, one


def _headed_step(*avals: Aval, out: tuple[Aval], **geometry: Any) -> Step | None:
    return cpu_conv.conv_step(*avals[:-HEAD], out=out, **geometry, head=True)


statistics = Primitive("normalize_statistics", abstract=_statistics_abstract, step=_statistics_step,
                       differentiable_out=(True, True))  # fmt: skip
conv_headed = Primitive("conv_headed", abstract=lambda *avals, **geometry: conv.abstract(*avals[:-HEAD], **geometry),
                        step=_headed_step)  # fmt: skip


def read_through(graph: Graph) -> Graph:
    """Let convolutions read relu(batch norm) where its argument lies, if nobody else needs it."""
    layers = {node.outputs[0]: node for node in graph.nodes if node.prim is layer}
    readers: dict[int, list[Node]] = {}
    for node in graph.nodes if layers else ():
        for value in layers.keys() & set(node.inputs):
            readers.setdefault(value, []).append(node)
    wanted = set(graph.wanted())
    heads = {value: node for value, node in layers.items()
             if value in readers and value not in wanted and _has_head(graph, node, readers[value])}  # fmt: skip
    if not heads:
        return graph
    rewrite = Rewrite(graph)
    for node in graph.nodes:
        own = heads.get(node.outputs[0])
        read = heads.get(node.inputs[_image(node)]) if node.prim in (conv, conv_both) else None
        if own is node:
            made = rewrite.emit(statistics, (rewrite.map[node.inputs[0]],), {name: node.params[name] for name in ("axes", "eps")})
            for old, new in zip(node.outputs[1:], made, strict=True):
                rewrite.let(old, new)
        elif read is not None:
            _emit_headed(rewrite, node, read)
        else:
            rewrite.copy(node)
    return rewrite.done()


def _image(node: Node) -> int:
    """Which argument is the image."""
    return 2 if node.prim is conv_both else 0


def _emit_headed(rewrite: Rewrite, node: Node, norm: Node) -> None:
    x, w, b = norm.inputs
    inputs = [*(rewrite.map.get(v, -1) for v in node.inputs), *(rewrite.map[v] for v in (*norm.outputs[1:], w, b))]
    inputs[_image(node)] = rewrite.map[x]
    head = {"head": True} if node.prim is conv_both else {}
    made = rewrite.emit(conv_both if head else conv_headed, tuple(inputs), {**node.params, **head})
    for old, new in zip(node.outputs, made, strict=True):
        rewrite.let(old, new)


def _has_head(graph: Graph, norm: Node, readers: list[Node]) -> bool:
    """Whether a batch norm's result is only ever the image of convolutions whose kernels make it themselves."""
    if not norm.params["active"] or len(norm.inputs) != 3:
        return False
    return all(_takes_head(graph, node, norm.outputs[0]) for node in readers)


def _takes_head(graph: Graph, node: Node, value: int) -> bool:
    if node.prim not in (conv, conv_both) or node.inputs.count(value) != 1 or node.inputs[_image(node)] != value:
        return False
    x = graph.avals[value]
    if node.prim is conv:
        return cpu_conv.takes_head(x, graph.avals[node.inputs[1]], graph.avals[node.outputs[0]], **node.params)
    y_bar, w = (graph.avals[v] for v in node.inputs[:2])
    return cpu_conv.both_step(y_bar, w, x, **_geometry(node), **node.params["tail"].options(), head=True) is not None
