"""What more threads gain, row by row and primitive by primitive: ``python -m benches.threads --filter 'conv3d.*bwd'``.

A row of `python -m benches` is run once while its primitives are noted; then the row and each primitive are timed with one
thread and with more, in turn. A virtual machine does not always have the cores it shows: two may be halves of one for a
while, and nothing gains then. So a *control* goes before and after every sample with more threads, small products in the
caches, and the sample counts only if the control ran on whole cores. The last column says how often that was so.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import lean_nn as ln
from benches import conv, elementwise, matmul, pool, report, training
from benches.harness import Bench, cores
from lean_nn.ops.linear import matmul as product
from lean_nn.primitive import Primitive, evaluate, register_backend

MODULES = (conv, matmul, pool, elementwise, training)
SLACK = 1.2  # a control may take this much longer than its best time on one thread, divided by the threads
LEAST = 1e-4  # seconds: shorter primitives are not worth a line
SAMPLE = 5e-4


@dataclass(frozen=True)
class Gain:
    """Seconds with one thread and with more (the best of those that count), and the part of the samples that count."""

    name: str
    alone: float
    together: float
    quiet: float


class _Notes:
    """A backend that computes nothing: it notes what goes by while it is open."""

    name = "notes"

    def __init__(self) -> None:
        self.open, self.calls = False, list[tuple[Primitive, tuple[Any, ...], dict[str, Any]]]()

    def claims(self, arrays: tuple[Any, ...]) -> bool:
        return self.open

    def run(self, prim: Primitive, arrays: tuple[Any, ...], avals: Any, params: dict[str, Any]) -> Any:
        self.open = False
        self.calls.append((prim, arrays, params))
        try:
            return evaluate(prim, arrays, params)
        finally:
            self.open = True

    def of(self, call: Callable[[], Any]) -> list[tuple[Primitive, tuple[Any, ...], dict[str, Any]]]:
        """The primitives that `call` runs."""
        self.calls = []
        register_backend(self)  # which also makes every primitive plan anew
        self.open = True
        call()
        self.open = False
        register_backend(self)
        return self.calls


def _seconds(call: Callable[[], Any], repeats: int = 1) -> float:
    began = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - began) / repeats


class Clock:
    """Times calls with one thread and with `threads`."""

    def __init__(self, threads: int, seconds: float) -> None:
        self.threads, self.seconds = threads, seconds
        factors = np.random.default_rng(0).standard_normal((2, 2 * threads, 128, 128)).astype("float32")
        self._control = lambda: product(factors[0], factors[1])
        ln.set_num_threads(1)
        self._whole = min(_seconds(self._control) for _ in range(1000 if seconds else 1))

    def _is_quiet(self) -> bool:
        return min(_seconds(self._control) for _ in range(4)) <= SLACK * self._whole / self.threads

    def gain(self, name: str, call: Callable[[], Any]) -> Gain:
        """`call` with one thread and with all, in turn."""
        ln.set_num_threads(1)
        call()
        repeats = max(1, int(SAMPLE / max(_seconds(call), 1e-9))) if self.seconds else 1
        alone, together, samples = list[float](), list[float](), 0
        end = time.perf_counter() + self.seconds
        while not alone or (time.perf_counter() < end + (0 if together else 2 * self.seconds)):
            ln.set_num_threads(1)
            call()
            alone.append(_seconds(call, repeats))
            ln.set_num_threads(self.threads)
            quiet = self._is_quiet()
            call()
            sample, samples = _seconds(call, repeats), samples + 1
            if quiet and self._is_quiet():
                together.append(sample)
        return Gain(name, min(alone), min(together, default=float("nan")), len(together) / samples)


def gains(benches: list[Bench], clock: Clock, least: float = 0.0) -> Iterator[Gain]:
    """A line per row that takes `least` seconds on one thread, followed by one per primitive, indented."""
    notes = _Notes()
    for bench in benches:
        pair = bench.make()
        call = pair.ours if pair.fresh is None else lambda p=pair: p.ours(p.fresh[0]())
        row = clock.gain(str(bench), call)
        if row.alone < least:
            continue
        yield row
        for prim, arrays, params in notes.of(call):
            one = clock.gain(f"  {prim.name} " + " ".join("×".join(map(str, a.shape)) for a in arrays),
                             lambda p=prim, a=arrays, k=params: p(*a, **k))  # fmt: skip
            if one.alone >= min(LEAST, least):
                yield one


def line(gain: Gain) -> str:
    """One line of text."""
    return (f"{gain.name[:78]:<80}{report.duration(gain.alone):<11}{report.duration(gain.together):<11}"
            f"{gain.alone / gain.together:<7.2f}{100 * gain.quiet:.0f}%")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.threads", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--filter", default="", metavar="RE", help="only rows whose text matches")
    parser.add_argument("--threads", type=int, default=cores(), help="number of threads")
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each line")
    parser.add_argument("--least", type=float, default=2.0, help="milliseconds that a row takes at least (2)")
    options = parser.parse_args()
    wanted = re.compile(options.filter)
    rows = [bench for module in MODULES for bench in module.benches() if wanted.search(str(bench))]
    print(report.machine())
    print(f"{'row and its primitives':<80}1 thread   {report.threads(options.threads):<11}gain   quiet")
    for gain in gains(rows, Clock(options.threads, options.seconds), options.least / 1e3):
        print(line(gain), flush=True)


if __name__ == "__main__":
    main()
