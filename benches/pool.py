"""Pooling beside PyTorch, float32: the rows of its measured table, and further shapes.

Pooling reads and writes and computes next to nothing, so its rate is in bytes: what must at least be read and
written once. The backward pass reads the cotangent (and the winners of max pooling) and writes x's gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benches.harness import Bench, Pair, forward_pair, gradient_pair, torch
from lean_nn import functional as F


@dataclass(frozen=True)
class Shape:
    """One pooling; `kind` is max, avg, adaptive_avg, adaptive_max or smooth_max."""

    kind: str
    x: tuple[int, ...]
    kernel: int  # or the output size of adaptive pooling
    stride: int | None = None
    padding: int = 0
    dtype: str = "float32"
    listed: bool = True

    @property
    def rank(self) -> int:
        return len(self.x) - 2

    @property
    def name(self) -> str:
        power = {1: "", 2: "²", 3: "³"}.get(self.rank, f"^{self.rank}")
        size = f"→{self.kernel}{power}" if self.kind.startswith("adaptive") else f"{self.kernel}{power}"
        stride = f" s{self.stride}" if self.stride else ""
        padding = f" p{self.padding}" if self.padding else ""
        spatial = self.x[2:]
        where = f"{spatial[0]}{power}" if len(set(spatial)) == 1 else "×".join(map(str, spatial))
        return f"{self.kind} {size}{stride}{padding}, {self.x[0]}×{self.x[1]}×{where}"

    def outputs(self) -> int:
        """The number of results."""
        if self.kind.startswith("adaptive"):
            return math.prod(self.x[:2]) * self.kernel**self.rank
        stride = self.stride or self.kernel
        return math.prod(self.x[:2]) * math.prod((n + 2 * self.padding - self.kernel) // stride + 1 for n in self.x[2:])

    def tiny(self) -> Shape:
        """The same kind of call on the smallest data: what the tests run."""
        return replace(self, x=(min(self.x[0], 2), 2, *(min(n, self.kernel + 2) for n in self.x[2:])))


LISTED = [
    Shape("max", (1, 64, 112, 112), 3, 2, 1),
    Shape("max", (32, 32, 28, 28), 2),
    Shape("avg", (1, 64, 112, 112), 3, 2, 1),
    Shape("avg", (32, 32, 28, 28), 2),
    Shape("max", (1, 64, 4096), 3, 2, 1),
    Shape("max", (1, 16, 32, 32, 32), 2),
    Shape("avg", (1, 16, 32, 32, 32), 2),
    Shape("adaptive_avg", (1, 512, 14, 14), 7),
    Shape("adaptive_max", (1, 512, 15, 15), 7),
]
FURTHER = [replace(shape, listed=False) for shape in (
    Shape("max", (1, 64, 112, 112), 3, 2, 1, dtype="float64"),
    Shape("avg", (1, 64, 112, 112), 3, 2, 1, dtype="float64"),
    Shape("max", (1, 192, 28, 28), 3, 1, 1),
    Shape("avg", (1, 192, 28, 28), 3, 1, 1),
    Shape("max", (1, 96, 55, 55), 3, 2),
    Shape("max", (64, 128, 14, 14), 2),
    Shape("max", (64, 64, 32, 32), 3, 2, 1),
    Shape("avg", (64, 64, 32, 32), 2),
    Shape("avg", (2, 32, 33, 47), 3, 2),
    Shape("max", (8, 32, 1000), 2),
    Shape("max", (8, 32, 1000), 3, 3, 1),
    Shape("max", (1, 64, 16000), 4),
    Shape("avg", (1, 8, 24, 24, 24), 3, 2, 1),
    Shape("avg", (1, 96, 35, 35), 3, 1, 1, dtype="float64"),
    Shape("adaptive_avg", (1, 256, 13, 13), 6),
    Shape("max", (1, 1, 4, 4), 2),
    Shape("max", (1, 48, 37, 53), 5, 1, 2),
    Shape("avg", (1, 128, 16000), 4),
    Shape("adaptive_avg", (1, 2048, 7, 7), 1),
    Shape("smooth_max", (1, 64, 56, 56), 2),
    Shape("smooth_max", (1, 64, 112, 112), 3, 2, 1),
)]  # fmt: skip


def _ours(shape: Shape) -> Callable[[Any], Any]:
    function = getattr(F, f"{shape.kind}_pool{shape.rank}d")
    if shape.kind.startswith("adaptive"):
        return lambda x: function(x, shape.kernel)
    if shape.kind == "smooth_max":
        return lambda x: function(x, shape.kernel, 2.0, shape.stride, shape.padding)
    return lambda x: function(x, shape.kernel, shape.stride, shape.padding)


def _theirs(shape: Shape) -> Callable[[Any], Any] | None:
    if torch is None or shape.kind == "smooth_max" or shape.rank > 3:
        return None
    function = getattr(torch.nn.functional, f"{shape.kind}_pool{shape.rank}d")
    if shape.kind.startswith("adaptive"):
        return lambda x: function(x, shape.kernel)
    return lambda x: function(x, shape.kernel, shape.stride, shape.padding)


def both(make: Callable[..., Pair], shape: Shape) -> Pair:
    """What `make` makes of one pooling in both libraries."""
    array = np.random.default_rng(0).standard_normal(shape.x).astype(shape.dtype)
    return make(_ours(shape), _theirs(shape), [array])


def benches(tiny: bool = False) -> Iterator[Bench]:
    """A bench per shape and pass."""
    for listed in (*LISTED, *FURTHER):
        shape = listed.tiny() if tiny else listed
        group = "pool" if listed.listed else "pool further"
        size = np.dtype(shape.dtype).itemsize
        moved = size * (math.prod(shape.x) + shape.outputs())
        for mode, make, passes in (("fwd", forward_pair, 1), ("fwd+bwd", gradient_pair, 2)):
            yield Bench(
                group, listed.name, mode, shape.dtype, lambda m=make, s=shape: both(m, s), moved * passes, "GB/s"
            )
