"""Poolings that nobody chose, beside PyTorch: ``python -m benches.windows --seed 3 --windows 300 --threads 1``.

Windows are drawn (``benches.drawn``): maximum and average, adaptive ones too, of one to three axes, of sizes that networks have,
and of others, in both types. Of each the plain pass is timed, and one forward and back.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from benches.drawn import main
from benches.harness import Pair, forward_pair, gradient_pair
from benches.pool import Shape, both

KINDS = ("max", "max", "avg", "avg", "adaptive_max", "adaptive_avg")
CHANNELS = (1, 3, 8, 16, 32, 64, 128, 256, 512)
SIDES = {1: (16, 50, 100, 500, 1000, 4096), 2: (7, 8, 13, 14, 28, 32, 33, 56, 112, 224), 3: (4, 5, 7, 8, 16, 31, 32)}
CELLS = (5e3, 4e6)  # of an array


def draw(chance: random.Random) -> tuple[str, Shape]:
    """A pooling within `CELLS`, and its kind."""
    while True:
        rank, kind = chance.choice((1, 2, 2, 2, 3)), chance.choice(KINDS)
        side = [chance.choice(SIDES[rank]) for _ in range(rank)]
        x = (chance.choice((1, 1, 4, 16, 32)), chance.choice(CHANNELS), *(side if chance.random() < 0.3 else side[:1] * rank))
        kernel = chance.choice((2, 2, 3, 3, 4, 5, 7))
        stride, padding = chance.choice((1, 2, 2, 3, kernel)), chance.choice((0, 0, kernel // 2))
        dtype = chance.choice(("float32", "float32", "float32", "float64"))
        if not CELLS[0] <= math.prod(x) <= CELLS[1] or min(x[2:]) < kernel:
            continue
        adapts = kind.startswith("adaptive")
        shape = Shape(kind, x, kernel, None if adapts else stride, 0 if adapts else padding, dtype)
        return f"{kind} {dtype[-2:]}", shape


def pairs(shape: Shape) -> Iterator[tuple[str, Pair]]:
    """Each pass and how both libraries compute it."""
    yield "fwd", both(forward_pair, shape)
    yield "fwd+bwd", both(gradient_pair, shape)


if __name__ == "__main__":
    main("windows", __doc__, draw, pairs)
