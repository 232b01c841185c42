"""What a graph looks like: a listing with shapes, bytes and operations, and Graphviz's language."""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import prod
from typing import Any

from lean_nn.graph.ir import Graph, Node
from lean_nn.graph.plan import Plan
from lean_nn.graph.symbol import describe
from lean_nn.primitive import Aval


def flops(node: Node, avals: list[Aval]) -> int:
    """Float operations of a node: two per term of a contraction, otherwise one per element it reads or writes at most."""
    out = prod(avals[node.outputs[0]].shape)
    shapes = [avals[v].shape for v in node.inputs]
    name = node.prim.name.removesuffix("_layer").removesuffix("_headed")
    if name == "conv_both":
        return 4 * prod(shapes[0]) * prod(shapes[1][1:])
    if name == "conv":
        return 2 * out * prod(shapes[1][1:])
    if name == "conv_input":
        return 2 * prod(shapes[0]) * prod(shapes[1][1:])
    if name == "conv_input_at":
        return 2 * prod(shapes[0]) * prod(shapes[2][1:])
    if name in ("conv_weight", "conv_weight_at"):
        return 2 * prod(shapes[1]) * prod(avals[node.outputs[0]].shape[1:])
    if name == "matmul":
        return 2 * out * shapes[0][-2 if node.params.get("ta") else -1]
    if node.prim.view is not None:
        return 0
    return max([out, *(prod(shape) for shape in shapes)])


def line(node: Node, graph: Graph) -> str:
    """``%2 = conv(%0, %1) stride=(1, 1)``"""
    outs = ", ".join(f"%{v}" for v in node.outputs)
    params = "".join(f" {name}={value}" for name, value in node.params.items())
    return f"{outs} = {node.prim.name}({', '.join(f'%{v}' for v in node.inputs)}){params}"


def table(graph: Graph, plan: Plan | None = None) -> str:
    """One line per value or node: what it is, type, bytes, operations and (with a plan) where it lives."""
    rows: list[tuple[str, str, str, str, str]] = []

    def where(value: int) -> str:
        if plan is None:
            return ""
        place = plan.places[value]
        return f"{place.kind}[{place.index if place.kind in ('input', 'output') else place.offset}]"

    for value in graph.inputs:
        rows.append((f"%{value} = input {graph.names.get(value, '')}".rstrip(), describe(graph.avals[value]),
                     f"{graph.nbytes(value):,}", "", where(value)))  # fmt: skip
    for value in graph.constants:
        rows.append((f"%{value} = constant", describe(graph.avals[value]), f"{graph.nbytes(value):,}", "", where(value)))
    for node in graph.nodes:
        types = ", ".join(describe(graph.avals[v]) for v in node.outputs)
        size = sum(graph.nbytes(v) for v in node.outputs)
        rows.append((line(node, graph), types, f"{size:,}", f"{flops(node, graph.avals):,}", where(node.outputs[0])))
    for place, value in graph.updates:
        rows.append((f"update %{place} <- %{value}", "", "", "", ""))
    rows.append((f"return {', '.join(f'%{v}' for v in graph.outputs)}", "", "", "", ""))
    return aligned(("program", "type", "bytes", "flops", "place"), rows)


def aligned(heading: tuple[str, ...], rows: list[Any], right: tuple[int, ...] = (2, 3)) -> str:
    """Rows of text in columns; those numbered `right` are flush right."""
    lines = [heading, *rows]
    widths = [max(len(row[i]) for row in lines) for i in range(len(heading))]
    return "\n".join(
        "  ".join(c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))).rstrip()
        for row in lines
    )


def history(recorded: Graph, stages: Iterable[tuple[str, Graph]]) -> str:
    """The recorded graph, then for every pass what it did: the graph anew where it changed, one line where it did not."""

    def summary(graph: Graph) -> str:
        size = sum(array.nbytes for array in graph.constants.values())
        return f"{len(graph.nodes)} nodes, {len(graph.constants)} constants of {size:,} bytes"

    last = table(recorded)
    parts = [f"recorded: {summary(recorded)}\n{last}"]
    for name, graph in stages:
        text = table(graph)
        parts.append(f"{name}: nothing to do" if _renumbered(text) == _renumbered(last) else f"{name}: {summary(graph)}\n{text}")
        last = text
    return "\n\n".join(parts)


def _renumbered(listing: str) -> str:
    """The listing with its values numbered as they appear: passes copy graphs, and a copy counts anew."""
    seen: dict[str, str] = {}
    return re.sub(r"%\d+", lambda found: seen.setdefault(found[0], f"%{len(seen)}"), listing)


def dot(graph: Graph) -> str:
    """A digraph: boxes are nodes, edges are values with their types."""
    made = {value: f"n{i}" for i, node in enumerate(graph.nodes) for value in node.outputs}
    lines = ["digraph program {", '  node [shape=box, fontname="monospace"];']
    for value in graph.inputs:
        made[value] = f"v{value}"
        lines.append(f'  v{value} [shape=ellipse, label="{graph.names.get(value) or "input"}\\n{describe(graph.avals[value])}"];')
    for value in graph.constants:
        made[value] = f"v{value}"
        lines.append(f'  v{value} [shape=note, label="{describe(graph.avals[value])}"];')
    for i, node in enumerate(graph.nodes):
        lines.append(f'  n{i} [label="{node.prim.name}"];')
        lines += [f'  {made[v]} -> n{i} [label="{describe(graph.avals[v])}"];' for v in node.inputs]
    for i, value in enumerate(graph.outputs):
        lines += [f'  out{i} [shape=ellipse, label="output {i}"];', f"  {made[value]} -> out{i};"]
    return "\n".join([*lines, "}"])
