"""What a bench is and how it is timed: both libraries in one process, in turn, best of many.

A `Bench` makes its data when it is run and gives one function per library. Samples alternate (ours, theirs,
ours, …), so that a machine that slows down slows both down. A sample repeats a short call until it lasts two
milliseconds; one untimed call before it wakes the library's own threads. The best sample is the figure, as
everything else a machine does can only make it longer; the spread says how much longer the middle one was.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import lean_nn as ln

try:
    import torch
except ImportError:  # everything runs without the peer, only the ratio is missing
    torch = None

Call = Callable[..., Any]
SAMPLE = 2e-3


@dataclass(frozen=True)
class Pair:
    """The two calls to compare; `fresh` makes the argument of a call that uses up its data."""

    ours: Callable[..., Any]
    theirs: Callable[..., Any] | None
    fresh: tuple[Call, Call | None] | None = None


@dataclass(frozen=True)
class Bench:
    """One row: `make` builds data and calls; `work` is in float operations or bytes, as `unit` says."""

    group: str
    name: str
    mode: str  # "fwd", "fwd+bwd", …
    dtype: str
    make: Callable[[], Pair]
    work: float = 0.0
    unit: str = ""  # "GFLOP/s", "GB/s" or "" where a rate says nothing

    def __str__(self) -> str:
        return f"{self.group} {self.name} {self.mode} {self.dtype}"


@dataclass(frozen=True)
class Result:
    """Times in seconds; `ratio` = theirs ÷ ours (above 1 is ours); `share` is the rate as a part of the peak."""

    group: str
    name: str
    mode: str
    dtype: str
    threads: int
    ours: float
    ours_spread: float
    theirs: float | None
    theirs_spread: float | None
    ratio: float | None
    rate: float | None
    unit: str
    share: float | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def forward_pair(ours: Call, theirs: Call | None, arrays: Sequence[Any]) -> Pair:
    """The functions on `arrays` without recording, as inference does; `theirs` is None where the peer has none."""
    mine = [ln.tensor(array) for array in arrays]

    def forward() -> None:
        with ln.no_grad():
            ours(*mine)

    if torch is None or theirs is None:
        return Pair(forward, None)
    yours = [torch.from_numpy(array) for array in arrays]

    def peer() -> None:
        with torch.no_grad():
            theirs(*yours)

    return Pair(forward, peer)


def gradient_pair(ours: Call, theirs: Call | None, arrays: Sequence[Any]) -> Pair:
    """The functions forward and back: gradients of all float arrays for one random cotangent."""
    moves = [array.dtype.kind == "f" for array in arrays]
    mine = [ln.tensor(array, requires_grad=moving) for array, moving in zip(arrays, moves, strict=True)]
    shape, dtype = ours(*mine).shape, arrays[0].dtype
    weight = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    my_g = ln.tensor(weight)

    def both() -> None:
        for leaf in mine:
            leaf.grad = None
        ours(*mine).backward(my_g)

    if torch is None or theirs is None:
        return Pair(both, None)
    yours = [torch.from_numpy(array).requires_grad_(moving) for array, moving in zip(arrays, moves, strict=True)]
    your_g = torch.from_numpy(weight)

    def peer() -> None:
        for leaf in yours:
            leaf.grad = None
        theirs(*yours).backward(your_g)

    return Pair(both, peer)


class _Side:
    """One library's samples of one bench."""

    def __init__(self, call: Callable[..., Any], fresh: Call | None) -> None:
        self.call, self.fresh, self.samples = call, fresh, list[float]()
        self.count = 1 if fresh else max(1, int(SAMPLE / max(self._once(), 1e-9)))

    def _once(self) -> float:
        arguments = (self.fresh(),) if self.fresh else ()
        began = time.perf_counter()
        self.call(*arguments)
        return time.perf_counter() - began

    def sample(self) -> None:
        self._once()
        if self.fresh:
            self.samples.append(self._once())
            return
        call, repeats = self.call, range(self.count)
        began = time.perf_counter()
        for _ in repeats:
            call()
        self.samples.append((time.perf_counter() - began) / self.count)

    def best(self) -> tuple[float, float]:
        least = min(self.samples)
        return least, statistics.median(self.samples) / least - 1


def set_threads(n: int) -> None:
    """The same number of threads for both libraries."""
    ln.set_num_threads(n)
    if torch is not None:
        torch.set_num_threads(n)


def time_pair(pair: Pair, seconds: float, least: int = 5) -> tuple[tuple[float, float], tuple[float, float] | None]:
    """(best, spread) of ours and of theirs, from samples taken in turn for about `seconds`."""
    fresh = pair.fresh or (None, None)
    pair.ours(*((fresh[0](),) if fresh[0] else ()))  # warm-up: pages, caches, lazily made threads
    sides = [_Side(pair.ours, fresh[0])]
    if pair.theirs is not None:
        pair.theirs(*((fresh[1](),) if fresh[1] else ()))
        sides.append(_Side(pair.theirs, fresh[1]))
    end = time.perf_counter() + seconds
    while len(sides[0].samples) < least or time.perf_counter() < end:
        for side in sides:
            side.sample()
    return sides[0].best(), sides[1].best() if len(sides) > 1 else None


def run(
    benches: Iterable[Bench], threads: Iterable[int], peaks: dict[int, dict[str, float]], seconds: float = 0.5
) -> Iterator[Result]:
    """Time every bench with every number of threads."""
    counts = list(threads)
    for bench in benches:
        pair = bench.make()
        for n in counts:
            set_threads(n)
            ours, theirs = time_pair(pair, seconds, 5 if seconds else 1)
            rate = bench.work / ours[0] / 1e9 if bench.unit else None
            peak = peaks.get(n, {}).get(f"{bench.unit} {bench.dtype}" if bench.unit == "GFLOP/s" else bench.unit)
            yield Result(
                bench.group, bench.name, bench.mode, bench.dtype, n, ours[0], ours[1],
                theirs[0] if theirs else None, theirs[1] if theirs else None,
                theirs[0] / ours[0] if theirs else None,
                rate, bench.unit, rate / peak if rate and peak else None,
            )  # fmt: skip


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
