"""Compiled programs: beside PyTorch as rows of ``python -m benches``, and beside ourselves here.

    python -m benches.graph             compiled beside eager, compile times, memory said and measured

A compiled step is one program: loss, gradients and the optimiser's update, parameters, slots and the number of the step in
place, running statistics as arguments. An inference program has the weights as constants and writes into ``out=``.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import lean_nn as ln
from benches import report
from benches.harness import Bench, Pair, cores, set_threads, time_pair, torch
from benches.networks import Network, is_buffer, lenet_network, resnet_network, unet_network
from benches.training import ROWS, STEPS, TOLERANCE, Row, our_step, their_step
from lean_nn import functional as F
from lean_nn import optim
from lean_nn.graph.passes import EXACT, PASSES
from lean_nn_c import memory as memory_c

CHAIN = 16_000
MEMORY = """
import json, sys
from benches import graph
print(json.dumps(graph.peak(graph.MEASURED[sys.argv[1]], int(sys.argv[2]))))
"""
MEASURED = {"LeNet": lenet_network, "ResNet-20": resnet_network, "U-Net": unet_network}


# --- programs ---


def inference(network: Network, arrays: dict[str, Any]) -> Any:
    """The program of a network in evaluation, its weights constants."""
    return ln.compile(lambda x: network.forward(arrays, x, False), network.x)


def training_step(network: Network, arrays: dict[str, Any], x: Any, t: Any, row: Row) -> Callable[[], Any]:
    """A function that makes one compiled step and gives its loss; `arrays` are copied."""
    params = {name: a.copy() for name, a in arrays.items() if not is_buffer(name)}
    buffers = {name: a.copy() for name, a in arrays.items() if is_buffer(name)}
    optimizer = row.optimizer(optim, [ln.tensor(a) for a in params.values()])
    group = optimizer.param_groups[0]
    rule, rate = optimizer._rule(group), np.array(group["lr"])
    slots = [{name: np.full_like(a, start) for name, a in params.items()} for start in rule.slots.values()]

    def step(params: Any, slots: Any, count: Any, buffers: Any, x: Any, t: Any) -> Any:
        loss, grads = ln.value_and_grad(lambda p: F.cross_entropy(network.forward({**p, **buffers}, x, True), t))(params)
        count = count + 1.0
        new = {}
        for name, p in params.items():
            made = rule.primitive(p, grads[name], *(slot[name] for slot in slots), rate, count, **rule.numbers)
            new[name] = made if isinstance(made, tuple) else (made,)
        after = [{name: parts[i] for name, parts in new.items()} for i in range(len(slots) + 1)]
        return after[0], after[1:], count, loss

    program = ln.compile(step, params, slots, np.array(0.0), buffers, x, t, inplace=(0, 1, 2))
    return lambda: program(buffers, x, t)


def _agree(name: str, ours: Callable[[], Any], theirs: Callable[[], Any]) -> None:
    for number in range(STEPS):
        mine, yours = float(ours()), theirs().item()
        if not abs(mine - yours) <= TOLERANCE * abs(yours):
            raise RuntimeError(f"{name}: losses agree before they are timed; got {mine} and {yours} at step {number}")


def _training(network: Network, row: Row, peer: Callable[..., Any] | None) -> Pair:
    rng = np.random.default_rng(0)
    arrays, (x, t) = network.make(rng), network.batch(rng)
    ours = training_step(network, arrays, x, t, row)
    if peer is None:
        return Pair(ours, None)
    theirs = peer(network, arrays, x, t, row)
    _agree(network.name, ours, theirs)
    return Pair(ours, theirs)


def _inference(network: Network, library: str) -> Pair:
    """`library` is "torch", "eager" or "" for nobody to compare with."""
    rng = np.random.default_rng(0)
    arrays, (x, _) = network.make(rng), network.batch(rng)
    program = inference(network, arrays)
    out = np.empty_like(program(x))

    def ours() -> Any:
        return program(x, out=out)

    if library == "torch":
        yours, picture = {name: torch.from_numpy(a) for name, a in arrays.items()}, torch.from_numpy(x)
        return Pair(ours, lambda: _without_grad(torch, lambda: network.forward(yours, picture, False, torch.nn.functional)))
    if library == "eager":
        params, image = {name: ln.tensor(a) for name, a in arrays.items()}, ln.tensor(x)
        return Pair(ours, lambda: _without_grad(ln, lambda: network.forward(params, image, False)))
    return Pair(ours, None)


def _without_grad(library: Any, call: Callable[[], Any]) -> Any:
    with library.no_grad():
        return call()


# --- rows beside PyTorch ---


def benches(tiny: bool = False) -> Iterator[Bench]:
    """Compiled training steps, then one image through compiled networks."""
    for row in ROWS:
        sizes = row.tiny if tiny else {}
        yield Bench("compiled", f"{row.network().name}, {row.label}", "step", "float32",
                    lambda r=row, s=sizes: _training(r.network(**s), r, None if torch is None else their_step))  # fmt: skip
    for row in ROWS:
        if row.inference:
            sizes = {**(row.tiny if tiny else {}), "batch": 1}
            yield Bench("compiled", f"{row.network().name}, one image", "fwd", "float32",
                        lambda r=row, s=sizes: _inference(r.network(**s), "" if torch is None else "torch"))  # fmt: skip


# --- beside ourselves ---


def beside_eager(tiny: bool = False, seconds: float = 1.0, threads: list[int] | None = None) -> Iterator[str]:
    """A line per program: seconds compiled, seconds eager, the ratio."""
    for row in ROWS:
        pairs = [(f"{row.label}, step", _training(row.network(**(row.tiny if tiny else {})), row, our_step))]
        if row.inference:
            sizes = {**(row.tiny if tiny else {}), "batch": 1}
            pairs.append(("one image", _inference(row.network(**sizes), "eager")))
        for label, pair in pairs:
            for n in threads or sorted({1, cores()}):
                set_threads(n)
                ours, eager = time_pair(pair, 0.0 if tiny else seconds, 1 if tiny else 5)
                if eager is not None:
                    yield (f"{row.network().name}, {label}, {report.threads(n)}: compiled {1e3 * ours[0]:.3f} ms, "
                           f"eager {1e3 * eager[0]:.3f} ms, ratio {eager[0] / ours[0]:.2f}")  # fmt: skip


def beside_unpacked(tiny: bool = False, seconds: float = 0.3, threads: list[int] | None = None) -> Iterator[str]:
    """A line per linear layer and number of rows: with its weight packed when the program was made, and packed by each call."""
    rng = np.random.default_rng(0)
    for k, n in ((16, 9),) if tiny else ((3136, 128), (512, 512), (2048, 1000)):
        w, b = rng.standard_normal((n, k)).astype(np.float32), np.zeros(n, np.float32)
        for count in threads or sorted({1, cores()}):
            set_threads(count)
            ratios = []
            for rows in (8,) if tiny else (1, 8, 16, 32, 64, 128, 256):
                x = rng.standard_normal((rows, k)).astype(np.float32)
                packed, plain = (ln.compile(lambda x, w=w, b=b: F.relu(F.linear(x, w, b)), x, passes=passes)
                                 for passes in (PASSES, EXACT))  # fmt: skip
                out = np.empty((rows, n), np.float32)
                pair = Pair(lambda p=packed, x=x, o=out: p(x, out=o), lambda p=plain, x=x, o=out: p(x, out=o))
                ours, theirs = time_pair(pair, 0.0 if tiny else seconds / 7, 1 if tiny else 5)
                if theirs is not None:
                    ratios.append(f"{rows} rows {theirs[0] / ours[0]:.2f}")
            yield f"linear {k} → {n}, {report.threads(count)}, packed by each call ÷ once: {', '.join(ratios)}"


def chain(length: int) -> Any:
    """The program of a chain of relu nodes."""

    def f(x: Any) -> Any:
        for _ in range(length):
            x = F.relu(x)
        return x

    return ln.compile(f, (4,))


def compile_times(tiny: bool = False) -> str:
    """Seconds to compile chains of 16,000 and 32,000 nodes, and their ratio."""
    best = []
    for length in (CHAIN, 2 * CHAIN):
        n = length // 1000 if tiny else length
        times = []
        for _ in range(1 if tiny else 3):
            began = time.perf_counter()
            chain(n)
            times.append(time.perf_counter() - began)
        best.append(min(times))
    return f"compile {CHAIN:,} relu nodes: {best[0]:.2f} s; {2 * CHAIN:,}: {best[1]:.2f} s; ratio {best[1] / best[0]:.2f}"


def peak(make: Callable[..., Network], batch: int) -> dict[str, float]:
    """Bytes of an inference program at its peak: said beforehand, and measured in this process at the first call."""

    def high() -> int:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))

    inference_of = make(batch=1)
    rng = np.random.default_rng(0)
    inference(inference_of, inference_of.make(rng))(inference_of.batch(rng)[0])  # code and tables, whatever the size
    network = make(batch=batch)
    arrays, (x, _) = network.make(rng), network.batch(rng)
    program = inference(network, arrays)
    gc.collect()
    memory_c.release()  # nothing that is left over from before is used again
    if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the high-water mark starts again from here
    before = high()
    y = program(x)
    return {"said": program.memory.peak, "measured": program.memory.weights + high() - before, "outputs": y.nbytes}


def memory(name: str, batch: int) -> str:
    """`peak` in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-c", MEMORY, name, str(batch)]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return (f"{name}, batch {batch}: peak said {found['said'] / 1e6:.2f} MB, measured {found['measured'] / 1e6:.2f} MB, "
            f"ratio {found['measured'] / found['said']:.3f}")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.graph", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each pair and number of threads (1)")
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], metavar="1,2", help="how many")
    parser.add_argument("--tiny", action="store_true", help="smallest shapes, single samples: proves that it runs")
    options = parser.parse_args()
    print(report.machine())
    for line in beside_eager(options.tiny, options.seconds, options.threads):
        print(line, flush=True)
    for line in beside_unpacked(options.tiny, options.seconds, options.threads):
        print(line, flush=True)
    print(compile_times(options.tiny))
    for name, batch in (("LeNet", 64), ("ResNet-20", 32), ("U-Net", 8)):
        print(memory(name, 2 if options.tiny else batch))
    return 0


if __name__ == "__main__":
    sys.exit(main())
