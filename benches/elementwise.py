"""What moves memory more than it computes, beside PyTorch: activations, sums, normalisations, losses, updates.

The rate counts what must at least be read and written once. Small rows fit into a cache and may pass the memory's peak.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

import lean_nn as ln
from benches.harness import Bench, Pair, forward_pair, gradient_pair, torch
from lean_nn import functional as F
from lean_nn import optim

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """`call(F, *tensors)` in either library; `passes` are the reads and writes of an array like the first."""

    name: str
    shapes: tuple[Shape, ...]
    call: Callable[..., Any]
    passes: int
    back: int = 0  # passes of the reverse sweep; 0: forward only
    classes: int = 0  # the last argument is a vector of classes


def _sizes(shape: Shape) -> str:
    return "×".join(map(str, shape))


def _turned(G: Any, x: Any) -> Any:
    return G.transpose(x, (0, 2, 3, 1)) if G is F else x.permute(0, 2, 3, 1).contiguous()


def _rows(images: Shape, table: Shape) -> Iterator[Row]:
    _n, c = images[:2]
    yield Row(f"relu {_sizes(images)}", (images,), lambda G, x: G.relu(x), 2, 3)
    yield Row(f"gelu {_sizes(images)}", (images,), lambda G, x: G.gelu(x), 2, 3)
    yield Row(f"sigmoid {_sizes(images)}", (images,), lambda G, x: G.sigmoid(x), 2, 3)
    yield Row(f"add {_sizes(images)}", (images, images), lambda G, x, y: x + y, 3)
    yield Row(f"add channel {_sizes(images)}", (images, (1, c, 1, 1)), lambda G, x, y: x + y, 2)
    yield Row(f"mul row {_sizes(table)}", (table, table[1:]), lambda G, x, y: x * y, 2)
    yield Row(f"mul column {_sizes(table)}", (table, (table[0], 1)), lambda G, x, y: x * y, 2)
    yield Row(f"mul number {_sizes(table)}", (table,), lambda G, x: x * 2.0, 2)
    yield Row(f"permute NHWC {_sizes(images)}", (images,), _turned, 2)
    yield Row(f"pad {_sizes(images)}", (images,), lambda G, x: G.pad(x, (1, 1, 1, 1)), 2)
    yield Row(f"sum all {_sizes(images)}", (images,), lambda G, x: x.sum(), 1)
    yield Row(f"sum but channels {_sizes(images)}", (images,), lambda G, x: x.sum((0, 2, 3)), 1)
    yield Row(f"sum rows {_sizes(table)}", (table,), lambda G, x: x.sum(1), 1)
    yield Row(f"sum columns {_sizes(table)}", (table,), lambda G, x: x.sum(0), 1)
    yield Row(f"max rows {_sizes(table)}", (table,), lambda G, x: x.max(1), 1)
    yield Row(f"mse_loss {_sizes(table)}", (table, table), lambda G, x, y: G.mse_loss(x, y), 2, 4)
    yield Row(f"smooth_l1_loss {_sizes(table)}", (table, table), lambda G, x, y: G.smooth_l1_loss(x, y), 2, 4)
    yield Row(f"batch_norm {_sizes(images)}", (images, (c,), (c,)),
              lambda G, x, w, b: G.batch_norm(x, None, None, w, b, True), 2, 3)  # fmt: skip
    yield Row(f"batch_norm {_sizes(table)}", (table, table[1:], table[1:]),
              lambda G, x, w, b: G.batch_norm(x, None, None, w, b, True), 2, 3)  # fmt: skip
    yield Row(f"layer_norm {_sizes(table)}", (table, table[1:], table[1:]),
              lambda G, x, w, b: G.layer_norm(x, table[1:], w, b), 2, 3)  # fmt: skip
    yield Row(f"softmax {_sizes(table)}", (table,), lambda G, x: G.softmax(x, 1), 2, 3)
    yield Row(f"cross_entropy {_sizes(table)}", (table,), lambda G, x, t: G.cross_entropy(x, t), 1, 2, table[1])


LARGE = list(_rows((32, 64, 56, 56), (4096, 1000)))
SMALL = list(_rows((8, 16, 32, 32), (64, 10)))
SHORT = list(_rows((64, 128, 4, 4), (4096, 37)))  # rows that a call per row would cost more than their arithmetic
TINY = list(_rows((2, 2, 3, 3), (3, 4)))
UPDATES = {
    "sgd": (lambda lib, p: lib.SGD(p, 1e-4), 3),
    "momentum": (lambda lib, p: lib.SGD(p, 1e-4, momentum=0.9), 5),
    "adam": (lambda lib, p: lib.Adam(p, 1e-4), 7),
}


def _arrays(row: Row) -> list[Any]:
    rng = np.random.default_rng(0)
    arrays: list[Any] = [rng.standard_normal(shape).astype("float32") for shape in row.shapes]
    return [*arrays, rng.integers(0, row.classes, row.shapes[0][0])] if row.classes else arrays


def _pair(make: Callable[..., Pair], row: Row) -> Pair:
    peer = None if torch is None else partial(row.call, torch.nn.functional)
    return make(partial(row.call, F), peer, _arrays(row))


def _update(make: Callable[[Any, list[Any]], Any], size: int, count: int) -> Pair:
    """A step of `count` parameters of one size."""
    rng = np.random.default_rng(0)
    p, g = (rng.standard_normal(size).astype("float32") for _ in range(2))
    mine = [ln.tensor(p, requires_grad=True) for _ in range(count)]
    for one in mine:
        one.grad = ln.tensor(g)
    ours = make(optim, mine)
    if torch is None:
        return Pair(ours.step, None)
    yours = [torch.from_numpy(p.copy()).requires_grad_() for _ in range(count)]
    for other in yours:
        other.grad = torch.from_numpy(g.copy())
    theirs = make(torch.optim, yours)
    return Pair(ours.step, theirs.step)


def benches(tiny: bool = False) -> Iterator[Bench]:
    """A bench per row and pass, large, small, then of short lines; then updates of one parameter, and of many small ones."""
    several = (("memory", LARGE), ("memory small", SMALL), ("memory short", SHORT))
    for group, rows in (("memory", TINY),) if tiny else several:
        for row in rows:
            moved = 4 * prod(row.shapes[0])
            yield Bench(group, row.name, "fwd", "float32", lambda r=row: _pair(forward_pair, r), moved * row.passes, "GB/s")
            if row.back:
                work = moved * (row.passes + row.back)
                yield Bench(group, row.name, "fwd+bwd", "float32", lambda r=row: _pair(gradient_pair, r), work, "GB/s")
    for name, (make, passes) in UPDATES.items():
        for size, count in ((100, 1),) if tiny else ((4_000_000, 1), (10_000, 1), (64, 60)):
            label = f"{name} {size:,}" if count == 1 else f"{name} {count} × {size:,}"
            yield Bench("update", label, "step", "float32", lambda m=make, s=size, k=count: _update(m, s, k),
                        4 * size * count * passes, "GB/s")  # fmt: skip
