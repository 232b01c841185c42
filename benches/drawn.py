"""Calls that nobody chose, beside PyTorch: what ``benches.layers`` and ``benches.windows`` have in common.

A table that is looked at every day is fitted in the end. So these draw their rows by a seed and time each beside PyTorch, in
turn. At the end the mean ratio and the part of the rows where PyTorch is ahead, kind by kind, and the calls that are furthest
behind. Another seed draws other rows: what was tuned on one is tested on the next.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benches import report
from benches.harness import Pair, cores, set_threads, time_pair, torch

Draw = Callable[[random.Random], tuple[str, Any]]  # a kind, and a shape that has a name
Pairs = Callable[[Any], Iterator[tuple[str, Pair]]]  # each call on such a shape, and how both libraries compute it


@dataclass(frozen=True)
class Found:
    """One call of one drawn shape: its times in seconds."""

    kind: str
    shape: Any
    call: str
    ours: float
    theirs: float | None

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours if self.theirs else math.nan


def timings(draw: Draw, pairs: Pairs, count: int, seed: int, threads: int, seconds: float) -> Iterator[Found]:
    """The calls of `count` drawn shapes, timed."""
    chance = random.Random(seed)
    set_threads(threads)
    for _ in range(count):
        kind, shape = draw(chance)
        for call, pair in pairs(shape):
            (ours, _), theirs = time_pair(pair, seconds, 3 if seconds else 1)
            yield Found(kind, shape, call, ours, theirs and theirs[0])


def line(found: Found) -> str:
    """One call on one line."""
    return (f"{found.call:<9}{found.kind:<16}{found.shape.name:<44}{report.duration(found.ours):<11}"
            f"{report.duration(found.theirs):<11}{found.ratio:.2f}")  # fmt: skip


def summary(found: list[Found]) -> list[str]:
    """Mean ratio, and where PyTorch is ahead, of all rows and kind by kind."""
    lines = []
    for call in dict.fromkeys(f.call for f in found):
        for kind in ("all", *dict.fromkeys(f.kind for f in found)):
            ratios = [f.ratio for f in found if f.call == call and kind in ("all", f.kind)]
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            behind = 100 * sum(ratio < 1 for ratio in ratios) / len(ratios)
            lines.append(f"{call}, {kind}: geometric mean {mean:.2f}, "
                         f"behind {behind:.1f} % of {len(ratios)}, least {min(ratios):.2f}")  # fmt: skip
    return lines


def main(name: str, about: str | None, draw: Draw, pairs: Pairs) -> None:
    """The command line of the bench `name`."""
    parser = argparse.ArgumentParser(prog=f"python -m benches.{name}", description=about,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument(f"--{name}", type=int, default=200, help="how many to draw (200)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (0)")
    parser.add_argument("--threads", type=int, default=cores(), help="number of threads")
    parser.add_argument("--seconds", type=float, default=0.02, help="time for each call (0.02)")
    parser.add_argument("--worst", type=int, default=30, help="print so many of the calls that are furthest behind (30)")
    options = parser.parse_args()
    if torch is None:
        parser.error("PyTorch is not installed (pip install -e '.[compare]')")
    print(f"{report.machine()}; {report.threads(options.threads)}, seed {options.seed}")
    found = list(timings(draw, pairs, getattr(options, name), options.seed, options.threads, options.seconds))
    print("\n".join(summary(found)) + "\n")
    print("\n".join(line(f) for f in sorted(found, key=lambda f: f.ratio)[: options.worst]))
