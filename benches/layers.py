"""Layers that nobody chose, beside PyTorch: ``python -m benches.layers --seed 3 --layers 300 --threads 1``.

A table that is looked at every day is fitted in the end. So this draws layers: plain, strided, dilated, grouped, depthwise, of
one to three axes, of channels and sizes that networks have, and of others. Of each the three contractions are timed in turn with
PyTorch's: the convolution, and the gradients of its image and of its weight alone. At the end the mean ratio and the part of
the layers where PyTorch is ahead, kind by kind, and the contractions that are furthest behind. Another seed draws other layers:
what was tuned on one is tested on the next.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import lean_nn as ln
from benches import report
from benches.conv import Shape
from benches.harness import Pair, cores, set_threads, time_pair, torch
from lean_nn.ops.conv import conv, conv_input, conv_weight

CONTRACTIONS = ("conv", "dx", "dw")
CHANNELS = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 768, 1024)
SIDES = {1: (16, 64, 100, 256, 500, 1000, 4096), 2: (5, 7, 10, 14, 17, 28, 32, 45, 56, 64, 112), 3: (5, 7, 10, 16, 20, 32)}
KERNELS = {1: (1, 2, 3, 3, 4, 5, 7, 9, 15), 2: (1, 1, 2, 3, 3, 3, 3, 4, 5, 5, 7, 9), 3: (1, 2, 3, 3, 3, 4, 5)}
WORK = (5e5, 1e9)  # operations of a layer
MEMORY = 2e7  # elements of an array


@dataclass(frozen=True)
class Found:
    """One contraction of one layer: its times in seconds."""

    kind: str
    shape: Shape
    contraction: str
    ours: float
    theirs: float | None

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours if self.theirs else math.nan


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


def _pairs(s: Shape) -> Iterator[tuple[str, Pair]]:
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


def timings(layers: int, seed: int, threads: int, seconds: float) -> Iterator[Found]:
    """The contractions of `layers` drawn layers, timed."""
    chance = random.Random(seed)
    set_threads(threads)
    for _ in range(layers):
        kind, shape = draw(chance)
        for contraction, pair in _pairs(shape):
            (ours, _), theirs = time_pair(pair, seconds, 3 if seconds else 1)
            yield Found(kind, shape, contraction, ours, theirs and theirs[0])


def line(found: Found) -> str:
    """One contraction on one line."""
    return (f"{found.contraction:<6}{found.kind:<11}{found.shape.name:<44}{report.duration(found.ours):<11}"
            f"{report.duration(found.theirs):<11}{found.ratio:.2f}")  # fmt: skip


def summary(found: list[Found]) -> list[str]:
    """Mean ratio, and where PyTorch is ahead, of all layers and kind by kind."""
    lines = []
    for contraction in CONTRACTIONS:
        for kind in ("all", *dict.fromkeys(f.kind for f in found)):
            ratios = [f.ratio for f in found if f.contraction == contraction and kind in ("all", f.kind)]
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            behind = 100 * sum(ratio < 1 for ratio in ratios) / len(ratios)
            lines.append(f"{contraction}, {kind}: geometric mean {mean:.2f}, "
                         f"behind {behind:.1f} % of {len(ratios)}, least {min(ratios):.2f}")  # fmt: skip
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.layers", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--layers", type=int, default=200, help="layers to draw (200)")
    parser.add_argument("--seed", type=int, default=0, help="which layers (0)")
    parser.add_argument("--threads", type=int, default=cores(), help="number of threads")
    parser.add_argument("--seconds", type=float, default=0.02, help="time for each contraction (0.02)")
    parser.add_argument("--worst", type=int, default=30, help="print so many of the contractions that are furthest behind (30)")
    options = parser.parse_args()
    if torch is None:
        parser.error("PyTorch is not installed (pip install -e '.[compare]')")
    print(f"{report.machine()}; {report.threads(options.threads)}, seed {options.seed}")
    found = list(timings(options.layers, options.seed, options.threads, options.seconds))
    print("\n".join(summary(found)) + "\n")
    print("\n".join(line(f) for f in sorted(found, key=lambda f: f.ratio)[: options.worst]))


if __name__ == "__main__":
    main()
