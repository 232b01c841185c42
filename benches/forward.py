"""What forward mode costs: ``python -m benches.forward``.

A pass that carries tangents computes every value, and for each argument that has a tangent what becomes of it. That may
cost one plain forward pass more per such argument, plus a tenth: ``jvp ≤ 1.1·(1 + arguments)·forward``. Both are timed
in turn, as two libraries are; "cost" is in these units, and 1.1 is the bar.

A plain pass that is repeated finds its arrays in the cache; a pass with tangents has twice as many, and where these no longer
fit, twice the work takes more than twice the time in any program. The last column leaves that out: it divides by the time of
the plain passes themselves on the values and, one argument at a time, on its tangent in the value's place. With ``--images
128`` no array of the elementwise rows fits, and the two columns agree.
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
from lean_nn.nn import interpolate

BAR = 1.1
Call = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """A function of arrays of these shapes, all of which have tangents; values from `low` on."""

    name: str
    call: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    low: float | None = None

    def calls(self) -> tuple[Call, Call, Call]:
        """With tangents; without; and as many times without as the first may cost."""
        rng = np.random.default_rng(0)
        x, v = ([ln.tensor(self._values(rng.standard_normal(s))) for s in self.shapes] for _ in range(2))

        def plain() -> None:
            with ln.no_grad():
                self.call(*x)

        def each() -> None:
            with ln.no_grad():
                values = [self.call(*x), *(self.call(*x[:i], v[i], *x[i + 1 :]) for i in range(len(x)))]
            del values

        return lambda: ln.jvp(self.call, x, v), plain, each

    def _values(self, normal: Any) -> Any:
        return (normal if self.low is None else np.abs(normal) + self.low).astype("float32")


@dataclass(frozen=True)
class Cost:
    """Seconds of both, and the cost in plain passes per pass that it may cost; then in such passes on arrays of their own."""

    name: str
    threads: int
    jvp: float
    forward: float
    units: float
    beside: float


def _with(call: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return lambda *arrays: call(*arrays, **options)


def _rows(n: int, c: int, size: int) -> Iterator[Row]:
    """Calls on `n` images of `c` channels."""
    yield from _layers(n, c, size)
    yield from _elementwise((n, c, size, size))
    yield from _reductions(n, c, size)
    yield from _moves((n, c, size, size))


def _layers(n: int, c: int, size: int) -> Iterator[Row]:
    x = (n, c, size, size)
    fixed = _constant(c, c, 3, 3)
    yield Row("conv2d 3², x", lambda t: F.conv2d(t, fixed, None, 1, 1), (x,))
    yield Row("conv2d 3², x w b", _with(F.conv2d, padding=1), (x, (c, c, 3, 3), (c,)))
    yield Row("conv2d 1², x w", F.conv2d, (x, (c, c, 1, 1)))
    yield Row("conv_transpose2d 4² s2, x w", _with(F.conv_transpose2d, stride=2, padding=1), (x, (c, c, 4, 4)))
    yield Row("conv2d 3² of each channel, x w", _with(F.conv2d, padding=1, groups=c), (x, (c, 1, 3, 3)))
    yield Row("conv2d 3² s2 of 2 groups, x w", _with(F.conv2d, stride=2, padding=1, groups=2), (x, (c, c // 2, 3, 3)))
    volume = (n, c, 4, size, max(size // 4, 4))
    yield Row("conv1d 3, x w", _with(F.conv1d, padding=1), ((n, c, 8 * size), (c, c, 3)))
    yield Row("conv3d 3³, x w", _with(F.conv3d, padding=1), ((max(n // 16, 1), *volume[1:]), (c, c, 3, 3, 3)))
    yield Row("max_pool2d 2", lambda t: F.max_pool2d(t, 2), (x,))
    yield Row("max_pool2d 3 s2 p1", lambda t: F.max_pool2d(t, 3, 2, 1), (x,))
    yield Row("max_pool2d 2 and winners", lambda t: F.max_pool2d(t, 2, return_indices=True)[0], (x,))
    yield Row("max_pool3d 2", lambda t: F.max_pool3d(t, 2), (volume,))
    yield Row("adaptive_max_pool2d 1", lambda t: F.adaptive_max_pool2d(t, 1), (x,))
    yield Row("avg_pool2d 3 s2 p1", lambda t: F.avg_pool2d(t, 3, 2, 1), (x,))
    yield Row("avg_pool2d 2", lambda t: F.avg_pool2d(t, 2), (x,))
    yield Row("adaptive_avg_pool2d 3", lambda t: F.adaptive_avg_pool2d(t, 3), (x,))
    yield Row("adaptive_avg_pool2d 1", lambda t: F.adaptive_avg_pool2d(t, 1), (x,))
    yield Row("smooth_max_pool2d 2", lambda t: F.smooth_max_pool2d(t, 2, 4.0), (x,))
    yield Row("linear, x", lambda t: F.linear(t, _constant(4 * c, c)), ((n * size, c),))
    yield Row("linear, x w b", F.linear, ((n * size, c), (4 * c, c), (4 * c,)))
    yield Row("matmul, two", F.matmul, ((n * size, c), (c, 4 * c)))
    yield Row("matmul of batches, two", F.matmul, ((n, size, c), (n, c, size)))
    w = (c,)
    yield Row("batch_norm, x w b", lambda t, w, b: F.batch_norm(t, None, None, w, b, True), (x, w, w))
    yield Row("batch_norm, x", lambda t: F.batch_norm(t, None, None, training=True), (x,))
    mean, var = _constant(c), _constant(c) * _constant(c) + 1.0
    yield Row("batch_norm running, x w b", lambda t, w, b: F.batch_norm(t, mean, var, w, b), (x, w, w))
    yield Row("batch_norm running, x", lambda t: F.batch_norm(t, mean, var), (x,))
    yield Row("layer_norm, x", lambda t: F.layer_norm(t, size), (x,))
    yield Row("layer_norm, x w b", lambda t, w, b: F.layer_norm(t, size, w, b), (x, (size,), (size,)))
    yield Row("group_norm, x w b", lambda t, w, b: F.group_norm(t, 2, w, b), (x, w, w))


def _elementwise(x: tuple[int, ...]) -> Iterator[Row]:
    for name in ("relu", "leaky_relu", "elu", "sigmoid", "tanh", "gelu", "silu", "softplus", "hardsigmoid", "hardswish", "exp",
                 "expm1", "erf", "neg", "abs"):  # fmt: skip
        yield Row(name, getattr(F, name), (x,))
    for name in ("log", "log1p", "sqrt"):
        yield Row(name, getattr(F, name), (x,), low=0.25)
    yield Row("gelu tanh", _with(F.gelu, approximate="tanh"), (x,))
    yield Row("clamp", lambda t: F.clamp(t, -1.0, 1.0), (x,))
    yield Row("square", lambda t: t**2, (x,))
    yield Row("cube", lambda t: t**3, (x,))
    yield Row("reciprocal", lambda t: 1.0 / t, (x,), low=0.25)
    yield Row("root as a power", lambda t: t**0.5, (x,), low=0.25)
    yield Row("reciprocal root", lambda t: t**-0.5, (x,), low=0.25)
    yield Row("times a number", lambda t: t * 3.0, (x,))
    yield Row("a number less x", lambda t: 1.0 - t, (x,))
    yield Row("at least a number", lambda t: F.maximum(t, 0.5), (x,))
    yield Row("softsign", lambda t: t / (1.0 + F.abs(t)), (x,))
    yield Row("mish", lambda t: t * F.tanh(F.softplus(t)), (x,))
    for name in ("add", "sub", "mul", "div", "maximum", "minimum"):
        yield Row(f"{name}, two", getattr(F, name), (x, x))
    yield Row("pow, two", F.pow, (x, x), low=0.25)
    chosen = _constant(*x) > 0
    yield Row("where, two", lambda a, b: F.where(chosen, a, b), (x, x))
    for name in ("add", "mul", "div"):
        yield Row(f"{name}, x and channels", getattr(F, name), (x, (x[1], 1, 1)), low=0.25)
    fixed = _constant(*x)
    yield Row("div, x by an array", lambda t: t / fixed, (x,))
    yield Row("div, an array by x", lambda t: fixed / t, (x,), low=0.25)


def _reductions(n: int, c: int, size: int) -> Iterator[Row]:
    x, lines = (n, c, size, size), (n * size, c)
    for name in ("softmax", "log_softmax", "logsumexp"):
        yield Row(name, _with(getattr(F, name), dim=1), (lines,))
    classes = ln.tensor(np.arange(n * size) % c)
    yield Row("softmax of cells", lambda t: F.softmax(t, 1), (x,))
    yield Row("cross_entropy", lambda t: F.cross_entropy(t, classes), (lines,))
    yield Row("cross_entropy, smoothed", lambda t: F.cross_entropy(t, classes, label_smoothing=0.1), (lines,))
    weights = _constant(c) ** 2
    yield Row("cross_entropy, weighted", lambda t: F.cross_entropy(t, classes, weights), (lines,))
    yield Row("nll_loss", lambda t: F.nll_loss(t, classes), (lines,))
    pixels = ln.tensor(np.arange(n * size * size).reshape(n, size, size) % c)
    yield Row("cross_entropy of cells", lambda t: F.cross_entropy(t, pixels), (x,))
    target = _constant(*x)
    yield Row("mse_loss, x", lambda t: F.mse_loss(t, target), (x,))
    yield Row("squares, x", lambda t: F.mse_loss(t, target, "none"), (x,))
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits"):
        yield Row(f"{name}, two", getattr(F, name), (x, x))
    for name in ("sum", "mean", "var", "max", "min"):
        yield Row(name, _with(getattr(F, name), dim=1), (x,))
        yield Row(f"{name} of rows", _with(getattr(F, name), dim=3), (x,))
    for name in ("sum", "var", "max"):
        yield Row(f"{name} of all", getattr(F, name), (x,))
    yield Row("norm", lambda t: F.sqrt(F.sum(t**2, dim=1)), (x,), low=0.25)


def _moves(x: tuple[int, ...]) -> Iterator[Row]:
    yield Row("concat, two", lambda a, b: F.concat((a, b), 1), (x, x))
    yield Row("stack, two", lambda a, b: F.stack((a, b), 1), (x, x))
    yield Row("pad", lambda t: F.pad(t, (1, 1, 1, 1)), (x,))
    yield Row("flip", lambda t: F.flip(t, (3,)), (x,))
    yield Row("transpose", lambda t: t.transpose(0, 2, 3, 1), (x,))
    yield Row("cut", lambda t: t[:, :, 1:-1, 1:-1], (x,))
    places = ln.tensor(np.arange(np.prod(x)).reshape(x) % x[3])
    yield Row("gather", lambda t: F.gather(t, 3, places), (x,))
    yield Row("take", lambda t: F.take(t, np.arange(x[1])[::-1].copy(), 1), (x,))
    words = ln.tensor(np.arange(8 * x[0] * x[3]) * 7 % (16 * x[1]))
    yield Row("embedding", lambda w: F.embedding(words, w), ((16 * x[1], x[1]),))
    yield Row("unfold", lambda t: F.unfold(t, 3, padding=1), ((max(x[0] // 4, 1), *x[1:]),))
    yield Row("fold", lambda t: F.fold(t, x[2:], 3, padding=1), ((max(x[0] // 4, 1), 9 * x[1], x[2] * x[3]),))
    yield Row("split", lambda t: F.split(t, x[1] // 2, 1)[1] * 2.0, (x,))
    yield Row("scatter_add, two", lambda t, s: F.scatter_add(t, 3, places, s), (x, x))
    yield Row("interpolate", lambda t: interpolate(t, scale_factor=2), ((max(x[0] // 4, 1), *x[1:]),))
    yield Row("dropout", lambda t: F.dropout(t, 0.5, seed=1), (x,))


def _constant(*shape: int) -> Any:
    return ln.tensor(np.random.default_rng(2).standard_normal(shape).astype("float32"))


def costs(tiny: bool = False, threads: int = 1, seconds: float = 0.3, words: str = "", images: int = 32) -> Iterator[Cost]:
    """Every row whose name holds one of the `words`, timed."""
    set_threads(threads)
    for row in _rows(1, 2, 4) if tiny else _rows(images, 64, 32):
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
    parser.add_argument("--images", type=int, default=32, help="of 64 channels of 32 by 32 cells, 256 kB each (32)")
    parser.add_argument("--filter", default="", help="only rows whose names hold one of these, separated by commas")
    options = parser.parse_args()
    print(report.machine())
    print(f"{'function, arguments with tangents':<32} threads  forward    jvp        cost  beside")
    for cost in costs(False, options.threads, options.seconds, options.filter, options.images):
        print(line(cost), flush=True)


if __name__ == "__main__":
    main()
