"""`summary`: what a model is made of, what it costs, without running it.

The model is traced on an input without numbers. Each call of a Module adds the nodes between its begin and its end to the
graph, so shapes and operations of every layer are those of the program, and memory is the planner's.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import prod
from typing import Any

import numpy as np

from lean_nn.graph import compile
from lean_nn.graph.listing import aligned, flops
from lean_nn.graph.symbol import Symbol
from lean_nn.graph.trace import ArraySpec, trace
from lean_nn.nn.module import Module, observer
from lean_nn.nn.stateless import functional_call
from lean_nn_c import engine

__all__ = ["Summary", "summary"]


@dataclass(frozen=True)
class Row:
    """One Module: path, class, shape of its (first) output, parameters of its own and with its parts, operations."""

    name: str
    layer: str
    depth: int
    output: tuple[int, ...]
    parameters: int
    flops: int
    bytes: int


@dataclass(frozen=True)
class Summary:
    """A table of layers; `print` shows it, `to_dict` gives plain numbers.

    rows : one per call of a Module
    parameters, trainable : counted once each
    flops : float operations of one call
    parameter_bytes : of parameters and buffers; arena_bytes : intermediate values of one compiled call; peak_bytes : all
    """

    input: tuple[int, ...]
    rows: tuple[Row, ...]
    parameters: int
    trainable: int
    flops: int
    parameter_bytes: int
    arena_bytes: int
    peak_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain numbers, lists and dicts."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [(("  " * row.depth + (f"{row.name.rpartition('.')[2]}: " if row.name else "") + row.layer),
                  " × ".join(map(str, row.output)), f"{row.parameters:,}", f"{row.flops:,}", f"{row.bytes:,}")
                 for row in self.rows]  # fmt: skip
        table = aligned(("layer", "output", "parameters", "flops", "output bytes"), lines, right=(2, 3, 4))
        rule = "-" * max(map(len, table.splitlines()))
        return "\n".join([
            table, rule,
            f"{self.parameters:,} parameters ({self.trainable:,} trained), {self.flops:,} flops for input "
            f"{' × '.join(map(str, self.input))}",
            f"{self.parameter_bytes:,} bytes of weights + {self.arena_bytes:,} of working memory: peak {self.peak_bytes:,}",
        ])  # fmt: skip

    __repr__ = __str__


class _Watcher:
    """Notes every call of a Module while the model is traced."""

    def __init__(self, model: Module) -> None:
        self.paths = {id(module): name for name, module in model.named_modules()}
        self.found: list[Any] = []
        self.depth = 0

    def __call__(self, module: Module, args: tuple[Any, ...], call: Any) -> Any:
        place, self.depth = len(self.found), self.depth + 1
        self.found.append(None)
        recorder = next((a.data.recorder for a in args if isinstance(getattr(a, "data", None), Symbol)), None)
        first = len(recorder.graph.nodes) if recorder else 0
        result = call()
        self.depth -= 1
        nodes = recorder.graph.nodes[first:] if recorder else []
        work = sum(flops(node, recorder.graph.avals) for node in nodes) if recorder else 0
        self.found[place] = (module, self.depth, result[0] if isinstance(result, tuple) else result, work)
        return result


def summary(model: Module, shape: tuple[int, ...], dtype: Any = "float32") -> Summary:
    """The layers of a model with the shapes, parameters, operations and memory of one call on an input of `shape`.

    Parameters
    ----------
    model : Module
    shape : of the input, batch included; None counts as one
    dtype : of the input

    Examples
    --------
    >>> from lean_nn import nn
    >>> report = nn.summary(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), (None, 4))
    >>> report.parameters, report.to_dict()["rows"][1]["output"]
    (58, (1, 8))
    >>> print(report)
    layer        output  parameters  flops  output bytes
    Sequential   1 × 2           58    114             8
      0: Linear  1 × 8           40     72            32
      1: ReLU    1 × 8            0      8            32
      2: Linear  1 × 2           18     34             8
    ----------------------------------------------------
    58 parameters (58 trained), 114 flops for input 1 × 4
    232 bytes of weights + ... of working memory: peak ...
    """
    sizes = tuple(1 if n is None else int(n) for n in shape)
    modes = [(module, module.training) for module in model.modules()]
    watcher, before = _Watcher(model), observer.call
    arrays = {name: engine.wrap(t.data) for name, t in (*model.named_parameters(), *model.named_buffers())}

    def forward(x: Any) -> Any:
        return functional_call(model, arrays, x)

    model.eval()
    try:
        observer.call = watcher
        trace(forward, (ArraySpec(sizes, np.dtype(dtype)),))
        observer.call = before
        memory = compile(forward, ArraySpec(sizes, np.dtype(dtype))).memory
    finally:
        observer.call = before
        for module, training in modes:
            module.__dict__["training"] = training
    return _report(model, sizes, watcher, memory)


def _report(model: Module, sizes: tuple[int, ...], watcher: _Watcher, memory: Any) -> Summary:
    rows = tuple(
        Row(watcher.paths.get(id(module), "?"), type(module).__name__, depth, tuple(result.shape),
            sum(p.size for p in module.parameters()), work, prod(result.shape) * result.dtype.itemsize)
        for module, depth, result, work in watcher.found
    )  # fmt: skip
    params, kept = list(model.parameters()), [*model.parameters(), *model.buffers()]
    weights = sum(t.size * t.dtype.itemsize for t in kept)
    return Summary(sizes, rows, sum(p.size for p in params), sum(p.size for p in params if p.requires_grad), rows[0].flops,
                   weights, memory.arena, memory.peak)  # fmt: skip
