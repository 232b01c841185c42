"""What forward mode costs: ``python -m benches.forward``.

A pass that carries tangents computes every value, and for each argument that has a tangent what becomes of it. That may
cost one plain forward pass more per such argument, plus a tenth: ``jvp ≤ 1.1·(1 + arguments)·forward``. Both are timed
in turn, as two libraries are; "cost" is in these units, and 1.1 is the bar.

A plain pass that is repeated finds its arrays in the cache; a pass with tangents has twice as many, and where these no longer
fit, twice the work takes more than twice the time in any program. The last column leaves that out: it divides by the time of
the plain passes themselves on the values and, one argument at a time, on its tangent in the value's place.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import lean_nn as ln
from benches import report
from benches.harness import Pair, cores, set_threads, time_pair
from lean_nn import functional as F

BAR = 1.1
Call = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """A function of arrays of these shapes, all of which have tangents."""

    name: str
    call: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]

    def calls(self) -> tuple[Call, Call, Call]:
        """With tangents; without; and as many times without as the first may cost."""
        rng = np.random.default_rng(0)
        x, v = ([ln.tensor(rng.standard_normal(s).astype("float32")) for s in self.shapes] for _ in range(2))

        def plain() -> None:
            with ln.no_grad():
                self.call(*x)

        def each() -> None:
            with ln.no_grad():
                values = [self.call(*x), *(self.call(*x[:i], v[i], *x[i + 1 :]) for i in range(len(x)))]
            del values

        return lambda: ln.jvp(self.call, x, v), plain, each


@dataclass(frozen=True)
class Cost:
    """Seconds of both, and the cost in plain passes per pass that it may cost; then in such passes on arrays of their own."""

    name: str
    threads: int
    jvp: float
    forward: float
    units: float
    beside: float


def _pad(call: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return lambda *arrays: call(*arrays, **options)


def _rows(n: int, c: int, size: int) -> Iterator[Row]:
    """Calls on `n` images of `c` channels."""
    x = (n, c, size, size)
    fixed = _constant(c, c, 3, 3)
    yield Row("conv2d 3², x", lambda t: F.conv2d(t, fixed, None, 1, 1), (x,))
    yield Row("conv2d 3², x w b", _pad(F.conv2d, padding=1), (x, (c, c, 3, 3), (c,)))
    yield Row("conv2d 1², x w", F.conv2d, (x, (c, c, 1, 1)))
    yield Row("conv_transpose2d 4² s2, x w", _pad(F.conv_transpose2d, stride=2, padding=1), (x, (c, c, 4, 4)))
    volume = (n, c, 4, size, max(size // 4, 4))
    yield Row("max_pool2d 2", lambda t: F.max_pool2d(t, 2), (x,))
    yield Row("max_pool2d 3 s2 p1", lambda t: F.max_pool2d(t, 3, 2, 1), (x,))
    yield Row("max_pool3d 2", lambda t: F.max_pool3d(t, 2), (volume,))
    yield Row("adaptive_max_pool2d 1", lambda t: F.adaptive_max_pool2d(t, 1), (x,))
    yield Row("avg_pool2d 3 s2 p1", lambda t: F.avg_pool2d(t, 3, 2, 1), (x,))
    yield Row("adaptive_avg_pool2d 1", lambda t: F.adaptive_avg_pool2d(t, 1), (x,))
    yield Row("smooth_max_pool2d 2", lambda t: F.smooth_max_pool2d(t, 2, 4.0), (x,))
    for name in ("relu", "leaky_relu", "elu", "sigmoid", "tanh", "gelu", "silu", "softplus", "hardswish", "exp", "abs"):
        yield Row(name, getattr(F, name), (x,))
    yield Row("softmax", lambda t: F.softmax(t, 1), ((n * size, c),))
    yield Row("log_softmax", lambda t: F.log_softmax(t, 1), ((n * size, c),))
    classes = ln.tensor(np.arange(n * size) % c)
    yield Row("cross_entropy", lambda t: F.cross_entropy(t, classes), ((n * size, c),))
    yield Row("mse_loss, two", F.mse_loss, (x, x))
    yield Row("batch_norm, x w b", lambda t, w, b: F.batch_norm(t, None, None, w, b, True), (x, (c,), (c,)))
    yield Row("batch_norm, x", lambda t: F.batch_norm(t, None, None, training=True), (x,))
    yield Row("layer_norm, x", lambda t: F.layer_norm(t, size), (x,))
    yield Row("group_norm, x w b", lambda t, w, b: F.group_norm(t, 2, w, b), (x, (c,), (c,)))
    yield Row("linear, x w b", F.linear, ((n * size, c), (4 * c, c), (4 * c,)))
    yield Row("matmul, two", F.matmul, ((n * size, c), (c, 4 * c)))
    for name in ("add", "sub", "mul", "div", "maximum"):
        yield Row(f"{name}, two", getattr(F, name), (x, x))
    yield Row("mean", lambda t: F.mean(t, 1), (x,))
    yield Row("var", lambda t: F.var(t, 1), (x,))


def _constant(*shape: int) -> Any:
    return ln.tensor(np.random.default_rng(2).standard_normal(shape).astype("float32"))


def costs(tiny: bool = False, threads: int = 1, seconds: float = 0.3, words: str = "") -> Iterator[Cost]:
    """Every row whose name holds one of the `words`, timed."""
    set_threads(threads)
    for row in _rows(1, 2, 4) if tiny else _rows(32, 64, 32):
        if words and not any(word in row.name for word in words.split(",")):
            continue
        jvp, plain, each = row.calls()
        least = (0.0, 1) if tiny else (seconds, 5)
        (moving, _), forward = time_pair(Pair(jvp, plain), *least)
        (again, _), passes = time_pair(Pair(jvp, each), *least)
        assert forward is not None and passes is not None
        yield Cost(row.name, threads, moving, forward[0], moving / forward[0] / (1 + len(row.shapes)), again / passes[0])


def line(cost: Cost) -> str:
    """One row as text."""
    verdict = "" if cost.units <= BAR else "over"
    return (f"{cost.name:<32}{cost.threads:<9}{report.duration(cost.forward):<11}{report.duration(cost.jvp):<11}"
            f"{cost.units:<6.2f}{cost.beside:<6.2f}{verdict}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.forward", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--threads", type=int, default=cores(), help="number of threads")
    parser.add_argument("--seconds", type=float, default=0.3, help="time for each row")
    parser.add_argument("--filter", default="", help="only rows whose names hold one of these, separated by commas")
    options = parser.parse_args()
    print(report.machine())
    print(f"{'function, arguments with tangents':<32} threads  forward    jvp        cost  beside")
    for cost in costs(False, options.threads, options.seconds, options.filter):
        print(line(cost), flush=True)


if __name__ == "__main__":
    main()
