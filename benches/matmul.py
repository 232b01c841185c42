"""Matrix products beside PyTorch: squares, linear layers, batches, transposed factors, thin and tiny ones.

A row is ``m×k · k×n``; a prime marks a factor that lies transposed in memory, as the weight of a linear layer does. Forward
runs without recording; forward and backward yields the gradients of both factors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from benches.harness import Bench, forward_pair, gradient_pair, torch
from lean_nn.ops.linear import matmul


@dataclass(frozen=True)
class Shape:
    """One product of (m, k) by (k, n), `batch` times."""

    m: int
    k: int
    n: int
    ta: bool = False
    tb: bool = False
    batch: int = 0  # 0: no batch axis
    group: str = "matmul"

    @property
    def name(self) -> str:
        lead = f"{self.batch}: " if self.batch else ""
        return f"{lead}{self.m}×{self.k}{'′' * self.ta} · {self.k}×{self.n}{'′' * self.tb}"

    def flops(self) -> float:
        """Of one forward pass."""
        return 2.0 * self.m * self.k * self.n * max(self.batch, 1)

    def tiny(self) -> Shape:
        """The same kind of call on the smallest data: what the tests run."""
        return replace(self, m=min(self.m, 3), k=min(self.k, 5), n=min(self.n, 4), batch=min(self.batch, 2))


SHAPES = [
    *(Shape(n, n, n) for n in (64, 128, 256, 512, 1024)),
    Shape(512, 512, 512, ta=True),
    Shape(512, 512, 512, tb=True),
    *(
        Shape(batch, k, n, tb=True, group="matmul linear")
        for batch in (1, 32, 256)
        for k, n in ((3136, 128), (512, 512), (2048, 1000), (128, 10))
    ),
    Shape(64, 128, 10, group="matmul linear"),
    Shape(64, 64, 64, batch=64, group="matmul batched"),
    Shape(128, 64, 128, tb=True, batch=12, group="matmul batched"),
    Shape(128, 128, 64, batch=12, group="matmul batched"),
    Shape(17, 33, 29, batch=100, group="matmul batched"),
    Shape(4096, 64, 64, group="matmul thin"),
    Shape(64, 64, 4096, group="matmul thin"),
    Shape(64, 4096, 64, group="matmul thin"),
    Shape(1000, 1000, 1, group="matmul thin"),
    Shape(1, 1000, 1000, group="matmul thin"),
    Shape(333, 777, 555, group="matmul thin"),
]


def _data(shape: Shape, dtype: str) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    lead = (shape.batch,) if shape.batch else ()
    a = (shape.k, shape.m) if shape.ta else (shape.m, shape.k)
    b = (shape.n, shape.k) if shape.tb else (shape.k, shape.n)
    return [rng.standard_normal((*lead, *size)).astype(dtype) for size in (a, b)]


def _ours(shape: Shape, a: Any, b: Any) -> Any:
    return matmul(a, b, ta=shape.ta, tb=shape.tb)


def _theirs(shape: Shape, a: Any, b: Any) -> Any:
    return torch.matmul(a.mT if shape.ta else a, b.mT if shape.tb else b)


def benches(tiny: bool = False) -> Iterator[Bench]:
    """A bench per shape, pass and dtype."""
    for listed in SHAPES:
        shape = listed.tiny() if tiny else listed
        for dtype in ("float32", "float64"):
            for mode, make, passes in (("fwd", forward_pair, 1), ("fwd+bwd", gradient_pair, 3)):
                yield Bench(
                    listed.group, listed.name, mode, dtype,
                    lambda m=make, s=shape, d=dtype: m(partial(_ours, s), partial(_theirs, s), _data(s, d)),
                    shape.flops() * passes, "GFLOP/s",
                )  # fmt: skip
