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


def _rows(images: Shape, table: Shape) -> Iterator[Row]:
    _n, c = images[:2]
    yield Row(f"relu {_sizes(images)}", (images,), lambda G, x: G.relu(x), 2, 3)
    yield Row(f"gelu {_sizes(images)}", (images,), lambda G, x: G.gelu(x), 2, 3)
    yield Row(f"sigmoid {_sizes(images)}", (images,), lambda G, x: G.sigmoid(x), 2, 3)
    yield Row(f"add {_sizes(images)}", (images, images), lambda G, x, y: x + y, 3)
    yield Row(f"add channel {_sizes(images)}", (images, (1, c, 1, 1)), lambda G, x, y: x + y, 2)
    yield Row(f"mul row {_sizes(table)}", (table, table[1:]), lambda G, x, y: x * y, 2)
    yield Row(f"sum all {_sizes(images)}", (images,), lambda G, x: x.sum(), 1)
    yield Row(f"sum but channels {_sizes(images)}", (images,), lambda G, x: x.sum((0, 2, 3)), 1)
    yield Row(f"sum rows {_sizes(table)}", (table,), lambda G, x: x.sum(1), 1)
    yield Row(f"sum columns {_sizes(table)}", (table,), lambda G, x: x.sum(0), 1)
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


def _update(make: Callable[[Any, list[Any]], Any], size: int) -> Pair:
    rng = np.random.default_rng(0)
    p, g = (rng.standard_normal(size).astype("float32") for _ in range(2))
    mine = ln.tensor(p, requires_grad=True)
    mine.grad = ln.tensor(g)
    ours = make(optim, [mine])
    if torch is None:
        return Pair(ours.step, None)
    yours = torch.from_numpy(p.copy()).requires_grad_()
    yours.grad = torch.from_numpy(g)
    theirs = make(torch.optim, [yours])
    return Pair(ours.step, theirs.step)


def benches(tiny: bool = False) -> Iterator[Bench]:
    """A bench per row and pass, large, then small; then one parameter's update."""
    for group, rows in (("memory", TINY if tiny else LARGE), ("memory small", [] if tiny else SMALL)):
        for row in rows:
            moved = 4 * prod(row.shapes[0])
            yield Bench(group, row.name, "fwd", "float32", lambda r=row: _pair(forward_pair, r), moved * row.passes, "GB/s")
            if row.back:
                work = moved * (row.passes + row.back)
                yield Bench(group, row.name, "fwd+bwd", "float32", lambda r=row: _pair(gradient_pair, r), work, "GB/s")
    for name, (make, passes) in UPDATES.items():
        for size in (100,) if tiny else (4_000_000, 10_000):
            yield Bench("update", f"{name} {size:,}", "step", "float32", lambda m=make, s=size: _update(m, s),
                        4 * size * passes, "GB/s")  # fmt: skip
