"""Layers that nobody chose, beside PyTorch: ``python -m benches.layers --seed 3 --layers 300 --threads 1``.

Convolutions are drawn (``benches.drawn``): plain, strided, dilated, grouped, depthwise, of one to three axes, of channels and
sizes that networks have, and of others. Of each the three contractions are timed: the convolution, and the gradients of its image
and of its weight alone.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import lean_nn as ln
from benches.conv import Shape
from benches.drawn import main
from benches.harness import Pair, torch
from lean_nn.ops.conv import conv, conv_input, conv_weight

CONTRACTIONS = ("conv", "dx", "dw")
CHANNELS = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 768, 1024)
SIDES = {1: (16, 64, 100, 256, 500, 1000, 4096), 2: (5, 7, 10, 14, 17, 28, 32, 45, 56, 64, 112), 3: (5, 7, 10, 16, 20, 32)}
KERNELS = {1: (1, 2, 3, 3, 4, 5, 7, 9, 15), 2: (1, 1, 2, 3, 3, 3, 3, 4, 5, 5, 7, 9), 3: (1, 2, 3, 3, 3, 4, 5)}
WORK = (5e5, 1e9)  # operations of a layer
MEMORY = 2e7  # elements of an array


def draw(chance: random.Random) -> tuple[str, Shape]:
    """A layer within `WORK`, and its kind. (Transposed layers are the `dx` of strided ones.)"""
    while True:
        rank = chance.choice((1, 2, 2, 2, 2, 3))
        kind = chance.choice(("plain", "plain", "plain", "strided", "strided", "dilated", "grouped", "depthwise"))
        groups, c, o = 1, chance.choice(CHANNELS), chance.choice(CHANNELS)
        if kind == "depthwise":
            groups, o = c, c * chance.choice((1, 1, 1, 2))
        elif kind == "grouped":
            groups = chance.choice((2, 4, 8, 16, 32))
            c, o = groups * math.ceil(c / groups), groups * math.ceil(o / groups)
        kernel = (chance.choice(KERNELS[rank]),) * rank
        stride = chance.choice((2, 2, 2, 3)) if kind == "strided" or (kind == "depthwise" and chance.random() < 0.3) else 1
        dilation = chance.choice((2, 2, 3)) if kind == "dilated" else 1
        side = [chance.choice(SIDES[rank]) for _ in range(rank)]
        side = side if chance.random() < 0.3 else side[:1] * rank
        span = dilation * (kernel[0] - 1) + 1
        padding = chance.choice((0, span // 2, span // 2, span // 2))
        n = chance.choice((1, 1, 1, 2, 4, 8, 16, 32, 64))
        shape = Shape((n, c, *side), (o, c // groups, *kernel), stride, padding, dilation, groups)
        if min(side) + 2 * padding < span or (kind == "dilated" and span == 1):
            continue
        if WORK[0] <= shape.flops() <= WORK[1] and max(math.prod(shape.x), math.prod(_output(shape))) <= MEMORY:
            return kind, shape


def _output(s: Shape) -> tuple[int, ...]:
    cells = [(n + 2 * s.padding - s.dilation * (k - 1) - 1) // s.stride + 1 for n, k in zip(s.x[2:], s.w[2:], strict=True)]
    return s.x[0], s.w[0], *cells


def pairs(s: Shape) -> Iterator[tuple[str, Pair]]:
    """Each contraction and how both libraries compute it."""
    rng = np.random.default_rng(0)
    x, w, g = (rng.standard_normal(shape).astype("float32") for shape in (s.x, s.w, _output(s)))
    each = (s.rank * (s.stride,), s.rank * (s.padding,), s.rank * (s.dilation,))
    ours: dict[str, Any] = {"stride": each[0], "padding": tuple((p, p) for p in each[1]), "dilation": each[2], "groups": s.groups}
    mx, mw, mg = ln.tensor(x), ln.tensor(w), ln.tensor(g)
    mine: list[Callable[[], Any]] = [
        lambda: conv(mx, mw, **ours),
        lambda: conv_input(mg, mw, spatial=s.x[2:], **ours),
        lambda: conv_weight(mx, mg, kernel=s.w[2:], **ours),
    ]
    yours: list[Callable[[], Any] | None] = [None, None, None]
    if torch is not None:
        tx, tw, tg = map(torch.from_numpy, (x, w, g))
        rest = (*each, False, s.rank * (0,), s.groups)
        backward = torch.ops.aten.convolution_backward
        yours = [
            lambda: torch.ops.aten.convolution(tx, tw, None, *rest),
            lambda: backward(tg, tx, tw, None, *rest, (True, False, False)),
            lambda: backward(tg, tx, tw, None, *rest, (False, True, False)),
        ]
    for name, my_call, your_call in zip(CONTRACTIONS, mine, yours, strict=True):
        yield name, Pair(my_call, your_call)


if __name__ == "__main__":
    main("layers", __doc__, draw, pairs)
