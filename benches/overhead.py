"""What everything but arithmetic costs: one operation, a long chain, the import, the wheel.

    python -m benches.overhead                 the table
    python -m benches.overhead --markdown      the README's section, with machine and date
    python -m benches.overhead --wheel         builds the wheel as well, and weighs it (minutes)
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import lean_nn as ln
from benches import report
from benches.harness import Bench, Pair, Result, run, torch
from lean_nn import functional as F

CHAIN = 16_000
IMPORT = """
import json, time
import numpy
def memory():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024
before, began = memory(), time.perf_counter()
import lean_nn
lean_nn.tensor, lean_nn.functional, lean_nn.grad  # what opens with the first Tensor
print(json.dumps({"ms": 1e3 * (time.perf_counter() - began), "MB": memory() - before}))
"""


def _add() -> Pair:
    a, b = (ln.tensor([value], requires_grad=True) for value in (1.0, 2.0))
    if torch is None:
        return Pair(lambda: a + b, None)
    c, d = (torch.tensor([value], requires_grad=True) for value in (1.0, 2.0))
    return Pair(lambda: a + b, lambda: c + d)


def _chain(function: Any, x: Any, length: int) -> Any:
    for _ in range(length):
        x = function(x)
    return x


def _forward(length: int) -> Pair:
    mine = ln.tensor(np.ones(4, np.float32), requires_grad=True)
    if torch is None:
        return Pair(lambda: _chain(F.relu, mine, length), None)
    yours = torch.ones(4, requires_grad=True)
    return Pair(lambda: _chain(F.relu, mine, length), lambda: _chain(torch.relu, yours, length))


def _pull(length: int) -> Pair:
    mine, g = ln.tensor(np.ones(4, np.float32), requires_grad=True), ln.tensor(np.ones(4, np.float32))
    ours = (lambda y: y.backward(g), lambda: _chain(F.relu, mine, length))
    if torch is None:
        return Pair(ours[0], None, (ours[1], None))
    yours, h = torch.ones(4, requires_grad=True), torch.ones(4)
    theirs = (lambda y: y.backward(h), lambda: _chain(torch.relu, yours, length))
    return Pair(ours[0], theirs[0], (ours[1], theirs[1]))


def benches(tiny: bool = False) -> Iterator[Bench]:
    """One addition; chains of relu nodes, once and twice as long."""
    yield Bench("overhead", "a + b, one element, recording", "fwd", "float32", _add)
    for nominal in (CHAIN, 2 * CHAIN):
        length = nominal // 1000 if tiny else nominal
        name = f"{nominal:,} relu nodes on 4 elements"
        yield Bench("overhead", name, "fwd", "float32", lambda n=length: _forward(n))
        yield Bench("overhead", name, "pull", "float32", lambda n=length: _pull(n))


def import_cost(repeats: int = 7) -> dict[str, float]:
    """Least milliseconds and megabytes that lean_nn with its Tensors adds to ``import numpy``, in fresh processes."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", IMPORT]
    found = []
    for _ in range(repeats + 1):  # the first one compiles the modules, as an installation does
        out = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
        found.append(json.loads(out))
    return {unit: min(one[unit] for one in found[1:]) for unit in ("ms", "MB")}


def wheel_bytes() -> int:
    """The size of the wheel built from this checkout."""
    root = Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, str(root)]
        subprocess.run(command, check=True)
        return next(Path(folder).glob("*.whl")).stat().st_size


def _linear(results: list[Result]) -> str:
    """How much longer twice the nodes take."""
    by = {(r.name, r.mode): r.ours for r in results}
    short, long = (f"{n:,} relu nodes on 4 elements" for n in (CHAIN, 2 * CHAIN))
    return ", ".join(f"{mode} ×{by[long, mode] / by[short, mode]:.2f}" for mode in ("fwd", "pull"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.overhead", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--markdown", action="store_true", help="print Markdown for the README")
    parser.add_argument("--wheel", action="store_true", help="build and weigh the wheel")
    options = parser.parse_args()
    results = list(run(benches(), [1], {}))
    cost = import_cost()
    facts = [f"Twice the nodes take: {_linear(results)}.",
             f"`import lean_nn` with its Tensors and operators adds {cost['ms']:.0f} ms and {cost['MB']:.1f} MB to "
             f"NumPy's own."]  # fmt: skip
    if options.wheel:
        facts.append(f"The wheel has {wheel_bytes() / 1e6:.2f} MB.")
    if options.markdown:
        print(report.machine(), end="\n\n")
        print(report.markdown(results), end="\n\n")
        print("\n".join(f"- {fact}" for fact in facts))
        return
    print(report.heading())
    for result in results:
        print(report.line(result))
    print("\n".join(facts))


if __name__ == "__main__":
    main()
