"""Convolution beside PyTorch: the rows of its measured table, and further shapes that networks have.

A row is ``x; w; stride, padding`` as in ``1×64×56²; 64×64×3²; 1,1``. Forward runs without recording, as inference
does; forward and backward yields the gradients of x, w and b.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from benches.harness import Bench, Pair, forward_pair, gradient_pair, torch
from lean_nn import functional as F


@dataclass(frozen=True)
class Shape:
    """One convolution; `w` is (O, C/groups, *k), or (C, O/groups, *k) when transposed."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    transposed: bool = False
    f64: bool = True
    listed: bool = True  # in PyTorch's measured table

    @property
    def rank(self) -> int:
        return len(self.w) - 2

    @property
    def group(self) -> str:
        return f"conv_transpose{self.rank}d" if self.transposed else f"conv{self.rank}d"

    @property
    def name(self) -> str:
        extra = f" dil{self.dilation}" if self.dilation > 1 else ""
        extra += f" g{self.groups}" if self.groups > 1 else ""
        return f"{_sizes(self.x)}; {_sizes(self.w)}; {self.stride},{self.padding}{extra}"

    def flops(self) -> float:
        """Of one forward pass: a multiplication and an addition per term."""
        if self.transposed:
            return 2.0 * math.prod(self.x) * math.prod(self.w[1:])
        out = [(n + 2 * self.padding - self.dilation * (k - 1) - 1) // self.stride + 1
               for n, k in zip(self.x[2:], self.w[2:], strict=True)]  # fmt: skip
        return 2.0 * self.x[0] * math.prod(out) * math.prod(self.w)

    def tiny(self) -> Shape:
        """The same kind of call on the smallest data: what the tests run."""
        depthwise = self.groups > 1 and self.w[1] == 1
        groups = min(self.groups, 2)
        w = (groups * (1 if depthwise else 2), min(self.w[1], 2), *self.w[2:])
        channels = w[0] if self.transposed else w[1] * groups
        spatial = tuple(min(n, self.dilation * (k - 1) + 3) for n, k in zip(self.x[2:], self.w[2:], strict=True))
        return replace(self, x=(min(self.x[0], 2), channels, *spatial), w=w, groups=groups)


def _sizes(shape: tuple[int, ...]) -> str:
    """``(1, 64, 56, 56)`` as ``1×64×56²``."""
    spatial = shape[2:]
    if len(set(spatial)) == 1 and len(spatial) > 1:
        power = {2: "²", 3: "³", 4: "⁴"}[len(spatial)]
        return f"{shape[0]}×{shape[1]}×{spatial[0]}{power}"
    return "×".join(map(str, shape))


LISTED = [
    Shape((1, 64, 56, 56), (64, 64, 3, 3), 1, 1),
    Shape((1, 256, 14, 14), (256, 256, 3, 3), 1, 1),
    Shape((1, 512, 7, 7), (512, 512, 3, 3), 1, 1),
    Shape((1, 256, 56, 56), (64, 256, 1, 1), 1, 0),
    Shape((1, 3, 224, 224), (64, 3, 7, 7), 2, 3),
    Shape((32, 1, 28, 28), (32, 1, 5, 5), 1, 2),
    Shape((32, 32, 14, 14), (64, 32, 3, 3), 1, 1),
    Shape((1, 16, 32, 32, 32), (32, 16, 3, 3, 3), 1, 1),
    Shape((1, 64, 4096), (64, 64, 9), 1, 4),
    Shape((1, 64, 32, 32), (64, 32, 4, 4), 2, 1, transposed=True, f64=False),
    Shape((1, 16, 16, 16, 16), (16, 8, 4, 4, 4), 2, 1, transposed=True, f64=False),
    Shape((1, 64, 1024), (64, 32, 4), 2, 1, transposed=True, f64=False),
]


def _depthwise(n: int, c: int, *spatial: int, k: int = 3, stride: int = 1, dilation: int = 1) -> Shape:
    """A depthwise layer that keeps its size, or its size ÷ stride."""
    window = (k,) * len(spatial)
    return Shape((n, c, *spatial), (c, 1, *window), stride, dilation * (k // 2), dilation, groups=c)


FURTHER = [replace(shape, f64=False, listed=False) for shape in (
    Shape((1, 32, 112, 112), (32, 1, 3, 3), 1, 1, groups=32),
    Shape((1, 192, 56, 56), (192, 1, 3, 3), 1, 1, groups=192),
    Shape((1, 144, 56, 56), (144, 1, 3, 3), 2, 1, groups=144),
    Shape((1, 64, 56, 56), (64, 64, 3, 3), 1, 2, dilation=2),
    Shape((1, 128, 28, 28), (128, 4, 3, 3), 1, 1, groups=32),
    Shape((1, 64, 28, 28), (64, 64, 7, 7), 1, 3),
    Shape((1, 3, 224, 224), (64, 3, 11, 11), 4, 2),
    Shape((1, 48, 37, 53), (80, 48, 3, 3), 1, 1),
    Shape((1, 24, 29, 31), (40, 24, 5, 5), 2, 2),
    Shape((64, 64, 14, 14), (64, 64, 3, 3), 1, 1),
    Shape((1, 2048, 7, 7), (512, 2048, 1, 1), 1, 0),
    Shape((1, 1, 128, 128), (1, 1, 3, 3), 1, 1),
    Shape((1, 1, 16000), (64, 1, 80), 4, 0),
    Shape((1, 128, 1000), (256, 128, 3), 1, 1),
    Shape((1, 1, 64, 64, 64), (8, 1, 3, 3, 3), 1, 1),
    Shape((1, 24, 20, 20, 20), (24, 24, 3, 3, 3), 1, 1),
    # MobileNet v2's other depthwise layers
    _depthwise(1, 96, 112, 112, stride=2),
    _depthwise(1, 144, 56, 56),
    _depthwise(1, 192, 28, 28),
    _depthwise(1, 192, 28, 28, stride=2),
    _depthwise(1, 384, 14, 14),
    _depthwise(1, 576, 14, 14, stride=2),
    _depthwise(1, 960, 7, 7),
    # larger windows, dilation, batches, one and three axes
    _depthwise(1, 240, 28, 28, k=5),
    _depthwise(1, 96, 56, 56, k=7),
    _depthwise(1, 192, 56, 56, dilation=2),
    _depthwise(32, 64, 28, 28),
    _depthwise(32, 192, 7, 7),
    _depthwise(1, 64, 16000, k=31),
    _depthwise(1, 128, 4000, k=9),
    _depthwise(1, 32, 16, 16, 16),
    # first layers: LeNet's, a ResNet's for small images, a volume's; and a last one
    Shape((64, 1, 28, 28), (32, 1, 5, 5), 1, 2),
    Shape((32, 3, 32, 32), (16, 3, 3, 3), 1, 1),
    Shape((4, 1, 32, 32, 32), (16, 1, 3, 3, 3), 1, 1),
    Shape((1, 64, 56, 56), (3, 64, 3, 3), 1, 1),
)]  # fmt: skip


def _data(shape: Shape, dtype: str) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    bias = shape.w[1] * shape.groups if shape.transposed else shape.w[0]
    return [rng.standard_normal(s).astype(dtype) for s in (shape.x, shape.w, (bias,))]


def _ours(shape: Shape, x: Any, w: Any, b: Any) -> Any:
    if shape.transposed:
        return F.conv_transpose(x, w, b, shape.stride, shape.padding, 0, shape.groups, shape.dilation)
    return F.conv(x, w, b, shape.stride, shape.padding, shape.dilation, shape.groups)


def _theirs(shape: Shape, x: Any, w: Any, b: Any) -> Any:
    function = getattr(torch.nn.functional, shape.group)
    if shape.transposed:
        return function(x, w, b, shape.stride, shape.padding, 0, shape.groups, shape.dilation)
    return function(x, w, b, shape.stride, shape.padding, shape.dilation, shape.groups)


def _pair(make: Callable[..., Pair], shape: Shape, dtype: str) -> Pair:
    peer = partial(_theirs, shape) if shape.rank <= 3 else None
    return make(partial(_ours, shape), peer, _data(shape, dtype))


def benches(tiny: bool = False) -> Iterator[Bench]:
    """A bench per shape, pass and dtype."""
    for listed in (*LISTED, *FURTHER):
        shape = listed.tiny() if tiny else listed
        group = listed.group if listed.listed else f"{listed.group} further"
        for dtype in ("float32", "float64") if listed.f64 else ("float32",):
            for mode, make, passes in (("fwd", forward_pair, 1), ("fwd+bwd", gradient_pair, 3)):
                yield Bench(
                    group, listed.name, mode, dtype, lambda m=make, s=shape, d=dtype: _pair(m, s, d),
                    shape.flops() * passes, "GFLOP/s",
                )  # fmt: skip
