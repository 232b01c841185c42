"""How long a whole process takes from start to answer: `lean-nn predict` on a saved LeNet beside ``import numpy``.

    python -m benches.predict              the line for the README
    python -m benches.predict --runs 41    more of them

Both commands start in turn, so that a machine that slows down slows both down; the figures are medians. The memory is the
peak of the resident set, which the system reports of a small process's children (a large parent's would count as theirs).
Bytecode is cached, as after an installation.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import lean_nn as ln
from benches import report

MEMORY = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def measured(commands: list[list[str]], runs: int) -> list[tuple[float, float, float]]:
    """(median seconds, least seconds, megabytes) of each command, started in turn; the first round is not counted."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    times: list[list[float]] = [[] for _ in commands]
    for _ in range(runs + 1):
        for i, command in enumerate(commands):
            began = time.perf_counter()
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
            times[i].append(time.perf_counter() - began)
    sizes = [int(subprocess.run([sys.executable, "-S", "-c", MEMORY, *command], env=environment, check=True,
                                capture_output=True, text=True).stdout) / 1024 for command in commands]  # fmt: skip
    return [(statistics.median(t[1:]), min(t[1:]), size) for t, size in zip(times, sizes, strict=True)]


def commands(folder: Path) -> list[list[str]]:
    """``import numpy``; then the installed command on a LeNet of 28 × 28 pixels that was saved in `folder`."""
    model, x = folder / "lenet.safetensors", folder / "x.npy"
    ln.compile(ln.nn.models.lenet().eval(), (None, 1, 28, 28)).save(model)
    np.save(x, np.random.default_rng(0).random((1, 1, 28, 28), np.float32))
    beside = Path(sys.executable).with_name("lean-nn")
    installed = str(beside) if beside.exists() else shutil.which("lean-nn")
    entry = [installed] if installed else [sys.executable, "-m", "lean_nn.cli"]
    return [[sys.executable, "-c", "import numpy"], [*entry, "predict", str(model), str(x)]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.predict", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--runs", type=int, default=21, help="starts of each command (21)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        numpy, ours = measured(commands(Path(folder)), options.runs)
    print(report.machine())
    print(f"- `lean-nn predict` on a saved LeNet, start to answer: {1e3 * ours[0]:.0f} ms, {ours[0] / numpy[0]:.2f} times "
          f"`python -c \"import numpy\"` ({1e3 * numpy[0]:.0f} ms; least of {options.runs}: {ours[1] / numpy[1]:.2f}); "
          f"{ours[2]:.1f} MB, NumPy's {numpy[2]:.1f} MB and {ours[2] - numpy[2]:.1f}.")


if __name__ == "__main__":
    main()
