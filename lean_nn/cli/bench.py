"""``lean-nn bench``: how quick a model is on this machine."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lean_nn.cli.common import add_json, add_threads, positive, shape_of
from lean_nn.cli.models import is_program, loaded, made
from lean_nn.cli.summary import SHAPES
from lean_nn.config import config

DESCRIPTION = """\
Compiles a model by name, from TOML or from its file, and runs it on random numbers for a while: the best and the middle
time of a call, samples per second, and the bytes that a call takes. The best is what the machine can do; the middle one
says what else it was doing. (The benches beside PyTorch are in the repository: `python -m benches`.)

  lean-nn bench lenet --batch 32
  lean-nn bench model.safetensors --threads 1 --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("model", metavar="MODEL", nargs="?", default="lenet", help="as in `summary` (default lenet)")
    parser.add_argument("--batch", default=1, type=positive, metavar="N", help="samples per call (default 1)")
    parser.add_argument("--shape", type=shape_of, metavar="C,H,W", help="of one sample (default: the model's usual one)")
    parser.add_argument("--seconds", default=1.0, type=float, metavar="S", help="how long to measure (default 1)")
    add_threads(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Print the times."""
    program = _program(options)
    aval = program.graph.avals[program.graph.inputs[0]]
    x = np.random.default_rng(0).standard_normal(aval.shape).astype(aval.dtype)
    best, middle = timed(lambda: program(x), options.seconds)
    isa, threads = config()["isa"]["chosen"], config()["threads"]["now"]
    report = {
        "model": options.model, "shape": list(aval.shape), "threads": threads, "isa": isa, "best_ms": 1e3 * best,
        "median_ms": 1e3 * middle, "samples_per_second": aval.shape[0] / best, "memory": {**program.memory._asdict()},
    }  # fmt: skip
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        size = " × ".join(map(str, aval.shape))
        print(f"{options.model} on {size}: best {1e3 * best:.3f} ms, median {1e3 * middle:.3f} ms, "
              f"{aval.shape[0] / best:,.0f} samples/s ({isa}, {threads} thread{'s' * (threads != 1)})")
        print(f"memory of a call: weights {program.memory.weights:,} B, arena {program.memory.arena:,} B, "
              f"scratch {program.memory.scratch:,} B, outputs {program.memory.outputs:,} B")
    return 0


def _program(options: argparse.Namespace) -> Any:
    if is_program(options.model):
        return loaded(options.model, options.batch)
    from lean_nn.graph import compile

    shape = options.shape or SHAPES.get(options.model, (1, 8, 8))
    return compile(made(options.model, shape, 10).eval(), (options.batch, *shape))


def timed(call: Callable[[], Any], seconds: float) -> tuple[float, float]:
    """Best and median seconds of a call, from calls made for about so long; at least five."""
    call()
    samples: list[float] = []
    end = time.perf_counter() + seconds
    while len(samples) < 5 or (time.perf_counter() < end and len(samples) < 100_000):
        began = time.perf_counter()
        call()
        samples.append(time.perf_counter() - began)
    return min(samples), statistics.median(samples)
