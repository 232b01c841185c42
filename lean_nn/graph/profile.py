"""Where the time goes: every node of a program, timed on its own, as a table and as a picture.

The program runs as ever, with a clock read before each step; a node's time is its best over the repeats. A node that does at
least one float operation per byte that it reads or writes is bound by arithmetic, so its speed is in GFLOP/s; any other
is bound by memory, in GB/s. Arrays that the program changes are put back as they were.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING

from lean_nn.graph.ir import Array, Graph, Node
from lean_nn.graph.listing import aligned, flops
from lean_nn.graph.symbol import describe
from lean_nn.threads import get_num_threads

if TYPE_CHECKING:
    from lean_nn.graph.program import Program

SHOWN = 60  # rows of a table; the quickest of longer programs are summed up
BARS = 30
COLOURS = ("#3b6ea5", "#d98032", "#4f9d69", "#b5485d", "#7b6ba8", "#8c7a55", "#c77fb0", "#5aa6a6", "#9aa13c", "#808080")


@dataclass(frozen=True, slots=True)
class Row:
    """One node: what it is, its operator, its results' types, seconds, its share of the sum, operations, bytes moved."""

    node: str
    op: str
    shapes: str
    seconds: float
    share: float
    flops: int
    nbytes: int

    @property
    def rate(self) -> str:
        """``41.2 GFLOP/s`` or ``9.8 GB/s``, whichever binds."""
        if not self.seconds or not self.nbytes:
            return ""
        if self.flops >= self.nbytes:
            return f"{self.flops / self.seconds / 1e9:.3g} GFLOP/s"
        return f"{self.nbytes / self.seconds / 1e9:.3g} GB/s"


@dataclass(frozen=True, slots=True)
class Profile:
    """Rows in the order in which the nodes run; `whole` is the best time of a call without clocks, in seconds."""

    rows: list[Row]
    whole: float
    threads: int
    repeats: int

    @property
    def total(self) -> float:
        """The sum of the nodes' times."""
        return sum(row.seconds for row in self.rows)

    def by_op(self) -> dict[str, tuple[int, float]]:
        """Number of nodes and seconds of each operator, the slowest first."""
        found: dict[str, tuple[int, float]] = {}
        for row in self.rows:
            count, seconds = found.get(row.op, (0, 0.0))
            found[row.op] = (count + 1, seconds + row.seconds)
        return dict(sorted(found.items(), key=lambda item: -item[1][1]))

    def __str__(self) -> str:
        slowest = _slowest(self.rows, SHOWN)
        lines = [(row.node, row.shapes, _time(row.seconds), f"{row.share:.1%}", row.rate) for row in slowest]
        if len(slowest) < len(self.rows):
            seconds = self.total - sum(row.seconds for row in slowest)
            lines.append((f"{len(self.rows) - len(slowest)} quicker nodes", "", _time(seconds), _share(seconds, self.total), ""))
        lines.append(("all nodes", "", _time(self.total), _share(self.total, self.total), self._speed(self.total)))
        lines.append(("a call", "", _time(self.whole), "", self._speed(self.whole)))
        return aligned(("node", "type", "time", "share", "speed"), lines, right=(2, 3, 4))

    def _speed(self, seconds: float) -> str:
        return f"{sum(row.flops for row in self.rows) / seconds / 1e9:.3g} GFLOP/s" if seconds else ""

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Write a bar chart: a bar per node in the order of execution, as long as its time, coloured by operator."""
        try:
            from matplotlib.figure import Figure
        except ImportError as missing:
            raise ImportError("profile: a picture needs matplotlib; got an environment without it; "
                              "install it with pip install 'lean_nn[bench]'") from missing
        rows = _slowest(self.rows, BARS)
        ops = list(self.by_op())
        colour = {op: COLOURS[min(i, len(COLOURS) - 1)] for i, op in enumerate(ops)}
        unit, name = _unit(max((row.seconds for row in rows), default=0.0))
        labels = [f"{row.op}  {_shorter(row.shapes)}" for row in rows]
        wide = 5.5 + 0.07 * max(map(len, labels), default=0)  # inches: bars with their words, then letters
        figure = Figure(figsize=(wide, 1.5 + 0.27 * max(len(rows), 2)), layout="constrained")
        axes = figure.add_subplot()
        places = range(len(rows))
        times = [row.seconds / unit for row in rows]
        axes.barh(places, times, height=0.72, color=[colour[row.op] for row in rows])
        axes.set_yticks(places, labels, fontsize=8, family="monospace")
        for place, row, time in zip(places, rows, times, strict=True):
            axes.annotate(f"{row.share:.1%}   {row.rate}".rstrip(), (time, place), (5, 0), textcoords="offset points",
                          va="center", fontsize=7.5, color="#333333")  # fmt: skip
        axes.set_xlim(0, max(times, default=0.0) * 1.4 or 1.0)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlabel(f"time, {name} (best of {self.repeats})")
        axes.grid(axis="x", color="#e4e4e4")
        axes.set_axisbelow(True)
        axes.tick_params(axis="y", length=0)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        more = f", the {len(rows)} slowest shown" if len(rows) < len(self.rows) else ""
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        title = f"{len(self.rows)} nodes{more}: {_time(self.whole)} a call on {threads}"
        figure.suptitle(title, x=0.01, ha="left", fontsize=10)  # from the left end of the picture: the bars may begin far right
        figure.savefig(path, dpi=130)


def measure(program: Program, inputs: Sequence[Array], outputs: Sequence[Array], repeats: int) -> Profile:
    """Run a program `repeats` times with a clock before each step, and as often without."""
    if repeats < 1:
        raise ValueError(f"profile: at least one repeat; got {repeats}; leave it out for the default")
    graph = program.graph
    changed = {graph.inputs.index(place) for place, _ in graph.updates}
    before = {i: inputs[i].copy() for i in changed}
    best, whole = [float("inf")] * len(program._executor.steps), float("inf")
    run: Callable[..., None] = program._executor.run
    try:
        run(inputs, outputs)  # the first call makes the arena
        for _ in range(repeats):
            marks: list[float] = []
            run(inputs, outputs, lambda *_, marks=marks: marks.append(perf_counter()))
            best = [min(b, after - mark) for b, (mark, after) in zip(best, pairwise(marks), strict=True)]
            start = perf_counter()
            run(inputs, outputs)
            whole = min(whole, perf_counter() - start)
    finally:
        for i, array in before.items():
            inputs[i][...] = array
    total = sum(best)
    timed = zip(program.plan.steps, best, strict=False)  # copies come last
    rows = [_row(graph, node, seconds, total) for node, seconds in timed]
    return Profile(rows, whole, get_num_threads(), repeats)


def _row(graph: Graph, node: Node, seconds: float, total: float) -> Row:
    outs = ", ".join(f"%{v}" for v in node.outputs)
    text = f"{outs} = {node.prim.name}({', '.join(f'%{v}' for v in node.inputs)})"
    types = ", ".join(describe(graph.avals[v]) for v in node.outputs)
    moved = sum(graph.nbytes(v) for v in (*node.inputs, *node.outputs))
    return Row(text, node.prim.name, types, seconds, seconds / total if total else 0.0, flops(node, graph.avals), moved)


def _shorter(shapes: str) -> str:
    """``3 × float32[64]`` where all results have one type."""
    parts = shapes.split("], ")
    return f"{len(parts)} × {parts[-1]}" if len(parts) > 1 and {part.rstrip("]") for part in parts} == {parts[0]} else shapes


def _slowest(rows: list[Row], count: int) -> list[Row]:
    """At most `count` rows, the slowest, in their order."""
    if len(rows) <= count:
        return rows
    chosen = sorted(sorted(range(len(rows)), key=lambda i: -rows[i].seconds)[:count])
    return [rows[i] for i in chosen]


def _unit(seconds: float) -> tuple[float, str]:
    return (1.0, "s") if seconds >= 1 else (1e-3, "ms") if seconds >= 1e-3 else (1e-6, "µs")


def _time(seconds: float) -> str:
    unit, name = _unit(seconds)
    return f"{seconds / unit:.3g} {name}" if seconds < 1000 else f"{seconds:.0f} s"


def _share(part: float, total: float) -> str:
    return f"{part / total:.1%}" if total else ""


__all__ = ["Profile", "Row", "measure"]
