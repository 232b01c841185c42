"""``lean-nn demo``: train a network on the digits that come along, check it, compile it, look at it."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import Any

import numpy as np

from lean_nn import _version
from lean_nn.cli.bench import timed
from lean_nn.cli.common import add_json, positive, tell
from lean_nn.cli.train import compiled, trained
from lean_nn.config import config
from lean_nn.training.progress import Progress, summary_line

DESCRIPTION = """\
Trains a small convolutional network on 1,438 of the 1,797 handwritten digits in the package and tests it on the others;
checks its gradient in forward against reverse mode; compiles it and says how quick and how large it is; shows a few digits
with its answers; where matplotlib is installed, draws the training into lean_nn_demo.png. The network is saved as
lean_nn_demo.safetensors. Seconds, not minutes; the same bits every time.
"""
SHADES = " .:-=+*#%@"
ENOUGH = 0.985  # of the digits it has not seen
AGREE = 1e-10  # relative, in float64


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--epochs", default=10, type=positive, metavar="N", help="passes over the digits (default 10)")
    parser.add_argument("--seed", default=0, type=int, help="of everything that is random (default 0)")
    parser.add_argument("--folder", default=".", metavar="DIR", help="where the two files go (default: here)")
    parser.add_argument("--no-picture", action="store_true", help="draw nothing although matplotlib is there")
    parser.add_argument("--threads", default=1, type=int, metavar="N",
                        help="threads (default 1: pictures of 8 × 8 are too small to share)")  # fmt: skip
    add_json(parser)


class Bar(Progress):
    """A bar on a terminal, written over and over; a line per epoch elsewhere."""

    WIDTH = 24

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self.done = self.batches = self.epoch = self.epochs = 0

    def begin(self, epoch: int, epochs: int, batches: int, done: int) -> None:
        self.epoch, self.epochs, self.batches, self.done = epoch, epochs, batches, done

    def step(self, loss: float) -> None:
        self.done += 1
        if self.live:
            share = (self.epoch - 1 + self.done / self.batches) / self.epochs
            full = round(share * self.WIDTH)
            bar = "█" * full + "░" * (self.WIDTH - full)
            print(f"\r\x1b[K   {bar} {share:4.0%}  epoch {self.epoch}/{self.epochs}  loss {loss:.4f}", end="",
                  file=sys.stderr, flush=True)  # fmt: skip

    def end(self, epoch: int, epochs: int, row: dict[str, Any]) -> None:
        if not self.live:
            print(f"   {summary_line(epoch, epochs, row)}", file=sys.stderr, flush=True)
        elif epoch == epochs:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def run(options: argparse.Namespace) -> int:
    """Do all of it; 1 if the network is worse, or the two modes further apart, than they should be."""
    from lean_nn import data

    say = _silent if options.json else _say
    began = time.perf_counter()
    os.makedirs(options.folder, exist_ok=True)
    here = config()
    say(f"lean_nn {_version.__version__} ({here['isa']['chosen']}, {options.threads} of {here['threads']['cores']} cores)\n")
    say("1  Train: a CNN on 1,438 handwritten digits of 8 × 8 pixels")
    found = trained(*data.load_digits(), "digits_cnn", epochs=options.epochs, lr=0.01, batch=64, seed=options.seed,
                    progress=Bar())  # fmt: skip
    model, (x, y) = found["model"], found["test"]
    seconds = time.perf_counter() - began
    say(f"   {100 * found['accuracy']:.2f} % right on {len(y)} digits it has not seen, after {seconds:.1f} s\n")

    weights = sum(p.size for p in model.parameters())
    say(f"2  Check: one directional derivative of the loss by {weights:,} weights, in both modes")
    forward, reverse = slopes(model, x[:32], y[:32], options.seed)
    apart = abs(forward - reverse) / max(abs(reverse), 1e-300)
    say(f"   forward {forward:+.15f}\n   reverse {reverse:+.15f}   relative difference {apart:.0e}\n")

    say("3  Compile: batch norm folded into the convolutions, all memory planned")
    program = compiled(model, x.shape[1:])
    path = os.path.join(options.folder, "lean_nn_demo.safetensors")
    program.save(path)
    best, _ = timed(lambda: program(x[:1]), 0.2)
    memory, size = program.at({None: 1}).memory, os.path.getsize(path)
    say(f"   {1e3 * best:.3f} ms per digit, {1 / best:,.0f} digits per second\n"
        f"   a call takes {memory.peak / 1e3:.0f} kB: weights {memory.weights / 1e3:.0f}, "
        f"working memory {(memory.arena + memory.scratch) / 1e3:.0f}\n   {path}: {size / 1e3:.0f} kB, weights and graph\n")

    answers = program(x).argmax(1)
    say("4  Look")
    say("\n".join(f"   {line}" for line in gallery(x, y, answers)) + "\n")
    picture = None if options.no_picture else _picture(options.folder, found, y, answers)
    if picture:
        say(f"   {picture}: losses, accuracy, confusion matrix, the first layer's kernels\n")
    elif not options.no_picture:
        say("   (pip install matplotlib, and the demo draws a picture of its training)\n")
    say(f"{time.perf_counter() - began:.1f} s in all. Next:\n"
        f"   lean-nn predict {path} DIGIT.npy       an 8 × 8 array of your own\n"
        f"   lean-nn train --help                   your arrays, your pictures, your layers\n"
        f"   lean-nn bench lenet --batch 32         how quick larger ones are here\n"
        f"   docs/training.md, docs/derivatives.md  the same in Python")
    if options.json:
        print(json.dumps({
            "test_accuracy": found["accuracy"], "train_seconds": seconds, "forward": forward, "reverse": reverse,
            "latency_ms": 1e3 * best, "memory": {**memory._asdict(), "peak": memory.peak}, "file": path, "bytes": size,
            "picture": picture, "seconds": time.perf_counter() - began,
        }, indent=2))  # fmt: skip
    if found["accuracy"] < ENOUGH:
        tell("demo", f"{found['accuracy']:.4f} is below {ENOUGH}; more --epochs help")
    if not apart < AGREE:
        tell("demo", f"forward and reverse differ by {apart:.1e}: please report this")
    return 0 if found["accuracy"] >= ENOUGH and apart < AGREE else 1


def _say(text: str) -> None:
    print(text, flush=True)


def _silent(text: str) -> None:
    """What --json prints instead of words is one object at the end."""


def slopes(model: Any, x: Any, y: Any, seed: int) -> tuple[float, float]:
    """The derivative of the loss along one random direction of all weights, by a tangent and by the gradient, in float64."""
    from lean_nn import functional as F
    from lean_nn import nn
    from lean_nn.tensor import tensor
    from lean_nn.transforms import grad, jvp

    call, params, buffers = nn.pure(model.eval())
    wide = {name: tensor(p.numpy().astype(np.float64)) for name, p in params.items()}
    fixed = {name: tensor(b.numpy().astype(np.float64) if b.numpy().dtype.kind == "f" else b.numpy())
             for name, b in buffers.items()}  # fmt: skip
    rng = np.random.default_rng(seed)
    along = {name: tensor(rng.standard_normal(p.shape)) for name, p in wide.items()}
    x64 = tensor(x.astype(np.float64))

    def loss(weights: Any) -> Any:
        return F.cross_entropy(call(weights, fixed, x64)[0], tensor(y))

    _, forward = jvp(loss, (wide,), (along,))
    gradient = grad(loss)(wide)
    return forward.item(), sum((gradient[name] * along[name]).sum().item() for name in wide)


def gallery(x: Any, y: Any, answers: Any, count: int = 6) -> list[str]:
    """Digits side by side as text, with what the network took them for; a mistake goes last, if there is one."""
    wrong = [i for i in range(len(y)) if answers[i] != y[i]][:1]
    shown = [i for i in range(len(y)) if i not in wrong][: count - len(wrong)] + wrong
    levels = np.clip((x[shown, 0] * len(SHADES)).astype(int), 0, len(SHADES) - 1)
    rows = ["  ".join("".join(2 * SHADES[n] for n in digit[row]) for digit in levels) for row in range(x.shape[2])]
    width = 2 * x.shape[3]
    words = [f"{answers[i]}" if answers[i] == y[i] else f"{answers[i]}, but it is {y[i]}" for i in shown]
    return [*rows, "  ".join(word.center(width) for word in words)]


def _picture(folder: str, found: dict[str, Any], y: Any, answers: Any) -> str | None:
    from lean_nn import viz

    path = os.path.join(folder, "lean_nn_demo.png")
    weight = next(p for p in found["model"].parameters() if len(p.shape) == 4).numpy()
    try:
        viz.plot_training(found["history"], viz.confusion_matrix(y, answers, 10), weight, path)
    except ImportError:
        return None
    return path
