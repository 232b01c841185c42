"""Batch norm with its neighbours, in the passes over memory that it makes anyway.

Forward, a residual and a relu behind `normalize` are applied as its results are written. Backward, the cotangent that
`normalize_transpose` reads is often ``relu_gate(t, y)``, and t a sum of two (the residual's and the layer's own): both are
computed as it is read, unless a convolution makes one of the two, which then does that as it writes (pass ``tails``). If y is
the very relu(w·z + b) of this batch norm, z says where it is positive, and y is not read. A gated cotangent that others read as
well becomes a fourth result. The operations are the separate nodes', in their order, and so are the bits.

What is written forward and read again on the way back has left the cache in between, and a batch norm's input is kept for its
own gradient. So relu(w·z + b + other) need not be, if `other` is kept as well or there is none: pass `recompute` makes it again,
from x and its statistics, for readers that come after more than `AWAY` bytes of other results. That is one more pass over
memory that is near, for two that are far, and a training step holds less at its peak. The bits are the same.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

from lean_nn.backend.cpu_reduce import rows_with_one_factor, standard
from lean_nn.graph.ir import Graph, Node, Rewrite
from lean_nn.graph.passes.layers import GATED
from lean_nn.ops.normalize import normalize, normalize_transpose
from lean_nn.primitive import FLOATS, Aval, Primitive
from lean_nn_c.step import Step

Shape = tuple[int, ...]
AWAY = 2**23  # bytes: of this order is what a core keeps near it
GIVEN = len(("g", "g_mean", "g_rstd", "x", "w", "mean", "rstd"))  # arguments of normalize_transpose


# --- forward: x, w, b, perhaps what is added ---


def _layer_abstract(x: Aval, w: Aval, b: Aval, *other: Aval, axes: Shape, eps: float, active: bool) -> Any:
    return normalize.abstract(x, w, b, axes=axes, eps=eps)


def _layer_step(x: Aval, w: Aval, b: Aval, *other: Aval, out: Any, axes: Shape, eps: float, active: bool) -> Step:
    reads = "x w b other" if other else "x w b"
    return standard("normalize_layer", reads, "y first second", relu=active)(x, w, b, *other, out=out, axes=axes, eps=eps)


layer = Primitive("normalize_layer", abstract=_layer_abstract, step=_layer_step, differentiable_out=(True,) * 3)


def _again_step(*avals: Aval, out: Any, axes: Shape) -> Step:
    reads = "x w b mean rstd other" if len(avals) > 5 else "x w b mean rstd"
    return standard("normalize_again", reads, "y", relu=True)(*avals, out=out, axes=axes)


again = Primitive("normalize_again", abstract=lambda x, *others, axes: x, step=_again_step)


# --- backward: the arguments of normalize_transpose, then those that `reads` names ---


def _transpose_abstract(*avals: Aval, axes: Shape, reads: tuple[str, ...], kept: bool) -> Any:
    return (*normalize_transpose.abstract(*avals[:GIVEN], axes=axes), *avals[: 1 if kept else 0])


def _transpose_step(*avals: Aval, out: Any, axes: Shape, reads: tuple[str, ...], kept: bool) -> Step:
    roles = " ".join(("t g_mean g_rstd x w mean rstd", *reads))
    made = standard("normalize_transpose_layer", roles, "y second first kept" if kept else "y second first", relu=True)
    return made(*avals, out=out, axes=axes)


def _transpose(name: str, outputs: int) -> Primitive:
    return Primitive(name, abstract=_transpose_abstract, step=_transpose_step,
                     differentiable_out=(True,) * outputs)  # fmt: skip


transpose = _transpose("normalize_transpose_layer", 3)
transpose_kept = _transpose("normalize_transpose_kept", 4)


# --- what is found in a graph ---


class _Layer(NamedTuple):
    """A batch norm, the value added to its result (or None), whether a relu follows, and the value that is the whole's result."""

    node: Node
    other: int | None
    active: bool
    result: int


class _Gated(NamedTuple):
    """The cotangent of a normalize_transpose before its gate, and the values by role that it is gated with."""

    t: int
    reads: dict[str, int]


class _Finder:
    """Where every value of a graph is made, and who reads it."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.made, self.uses = graph, graph.producers(), graph.uses()
        self.place = {value: i for i, node in enumerate(graph.nodes) for value in node.outputs}
        self.readers: dict[int, list[Node]] = {}
        for node in graph.nodes:
            for value in dict.fromkeys(node.inputs):
                self.readers.setdefault(value, []).append(node)

    def only_reader(self, value: int) -> Node | None:
        """The node that alone reads a value, once, and in its shape."""
        reader = self.readers[value][0] if self.uses[value] == 1 and value in self.readers else None
        return reader if reader is not None and self.graph.avals[reader.outputs[0]] == self.graph.avals[value] else None

    def same(self, *values: int) -> bool:
        return len({self.graph.avals[value] for value in values}) == 1

    def batch_norm(self, node: Node, name: str, x: int, w: int) -> bool:
        """Whether this is one of the primitives `name`, on arguments for which its kernel does more."""
        if node.prim.name != name or self.graph.avals[node.inputs[x]].dtype not in FLOATS:
            return False
        return rows_with_one_factor(self.graph.avals[node.inputs[x]], self.graph.avals[node.inputs[w]], node.params["axes"])

    def layer(self, node: Node) -> _Layer | None:
        """What a normalize becomes; None where nothing follows that can be part of it."""
        if not self.batch_norm(node, "normalize", 0, 1):
            return None
        found = _Layer(node, None, False, node.outputs[0])
        after = self.only_reader(found.result)
        if after is not None and after.prim.name == "add":
            other = after.inputs[0] if after.inputs[1] == found.result else after.inputs[1]
            if self.same(other, found.result) and self.place.get(other, -1) < self.place[node.outputs[0]]:
                found = found._replace(other=other, result=after.outputs[0])
                after = self.only_reader(found.result)
        if after is not None and after.prim.name == "relu":
            found = found._replace(active=True, result=after.outputs[0])
        return found if found.result != node.outputs[0] else None

    def ends_in_a_gate(self, value: int) -> bool:
        """Whether the convolution that makes a cotangent may add to it and gate it itself."""
        node = self.made.get(value)
        return node is not None and node.prim.name in GATED and self.uses[value] == 1

    def gated(self, node: Node, layers: dict[int, _Layer]) -> _Gated | None:
        """What a normalize_transpose reads in place of a gated cotangent; `layers` are by their results."""
        gate = self.made.get(node.inputs[0])
        if gate is None or gate.prim.name != "relu_gate" or not self.batch_norm(node, "normalize_transpose", 3, 4):
            return None
        if self.readers[gate.outputs[0]][0] is not node or node.inputs.count(gate.outputs[0]) > 1 or not self.same(*gate.inputs):
            return None
        t, y = gate.inputs
        total = self.made.get(t)
        if total is not None and total.prim.name == "add" and self.uses[t] == 1 and self.same(*total.inputs, t):
            if any(self.ends_in_a_gate(v) for v in total.inputs):
                return None
            return _Gated(total.inputs[0], {"other": total.inputs[1], "gate": y})
        own = layers.get(y)
        if own is None and self.ends_in_a_gate(t):
            return None
        known = () if own is None or own.other is not None else (*own.node.inputs[:2], *own.node.outputs[1:])
        return _Gated(t, {"b": own.node.inputs[2]} if own is not None and known == node.inputs[3:] else {"gate": y})


def join_norms(graph: Graph) -> Graph:
    """Take residuals, relus and gates into the batch norms beside them."""
    if not any(node.prim.name in ("normalize", "normalize_transpose") for node in graph.nodes):
        return graph
    find = _Finder(graph)
    layers = {found.node.outputs[0]: found for node in graph.nodes if (found := find.layer(node)) is not None}
    by_result = {found.result: found for found in layers.values() if found.active}
    gates = {node.outputs[0]: gated for node in graph.nodes if (gated := find.gated(node, by_result)) is not None}
    if not layers and not gates:
        return graph
    inside = {value for found in layers.values() for value in _between(find, found)} | _behind(find, gates)
    rewrite = Rewrite(graph)
    for node in graph.nodes:
        if node.outputs[0] in layers:
            _emit_layer(rewrite, layers[node.outputs[0]])
        elif node.outputs[0] in gates:
            _emit_transpose(rewrite, node, gates[node.outputs[0]], find.uses[node.inputs[0]] > 1)
        elif node.outputs[0] not in inside:
            rewrite.copy(node)
    return rewrite.done()


def _between(find: _Finder, found: _Layer) -> list[int]:
    """The results of the nodes that a layer takes in."""
    values = [find.readers[found.node.outputs[0]][0].outputs[0]]
    return values if values[0] == found.result else [*values, found.result]


def _behind(find: _Finder, gates: dict[int, _Gated]) -> set[int]:
    """The cotangents that only exist inside: gated, and as sums before that."""
    found = set()
    for value, gated in gates.items():
        gate = find.made[find.made[value].inputs[0]]
        found |= {gate.outputs[0], gate.inputs[0]} if "other" in gated.reads else {gate.outputs[0]}
    return found


def _emit_layer(rewrite: Rewrite, found: _Layer) -> None:
    inputs = tuple(rewrite.map[v] for v in (*found.node.inputs, *(() if found.other is None else (found.other,))))
    y, mean, rstd = rewrite.emit(layer, inputs, {**found.node.params, "active": found.active})
    for old, new in zip((found.result, *found.node.outputs[1:]), (y, mean, rstd), strict=True):
        rewrite.let(old, new)


def _emit_transpose(rewrite: Rewrite, node: Node, found: _Gated, kept: bool) -> None:
    inputs = tuple(rewrite.map[v] for v in (found.t, *node.inputs[1:], *found.reads.values()))
    params = {**node.params, "reads": tuple(found.reads), "kept": kept}
    made = rewrite.emit(transpose_kept if kept else transpose, inputs, params)
    for old, new in zip((*node.outputs, node.inputs[0]), made, strict=False):
        rewrite.let(old, new)


# --- relu(w·z + b) twice instead of kept ---


def recompute(graph: Graph) -> Graph:
    """Make a batch norm's activated result again for those who read it much later."""
    if not any(node.prim is layer for node in graph.nodes):
        return graph
    written = [0]  # bytes, before each node
    for node in graph.nodes:
        written.append(written[-1] + (0 if node.prim.view is not None else sum(map(graph.nbytes, node.outputs))))
    readers: dict[int, list[int]] = {}
    for i, node in enumerate(graph.nodes):
        for value in node.inputs:
            readers.setdefault(value, []).append(i)
    late: dict[int, list[Node]] = {}  # by the node before which they are made again
    twice: set[int] = set()  # their results
    for node in graph.nodes:
        first = _late(graph, node, readers, written) if twice.isdisjoint(node.inputs) else None
        if first is not None:
            late.setdefault(first, []).append(node)
            twice.add(node.outputs[0])
    if not late:
        return graph
    rewrite = Rewrite(graph)
    for i, node in enumerate(graph.nodes):
        for made in late.get(i, []):
            inputs = tuple(rewrite.map[v] for v in (*made.inputs[:3], *made.outputs[1:], *made.inputs[3:]))
            rewrite.let(made.outputs[0], rewrite.emit(again, inputs, {"axes": made.params["axes"]})[0])
        rewrite.copy(node)
    return rewrite.done()


def _late(graph: Graph, node: Node, readers: dict[int, list[int]], written: list[int]) -> int | None:
    """The first node that reads the result after a long time, if what it is made of is there for others anyway."""
    if node.prim is not layer or not node.params["active"] or node.outputs[0] in graph.wanted():
        return None
    places = readers.get(node.outputs[0], [])
    kept = min(readers[value][-1] for value in (node.inputs[0], *node.inputs[3:]))
    for before, after in pairwise(places):
        if written[after] - written[before + 1] > AWAY and kept >= after:
            return after
    return None
