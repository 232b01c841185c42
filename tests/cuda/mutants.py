"""Plants faults in kernels and launcher, one at a time, and shows that the suite of this folder finds each.

    python tests/cuda/mutants.py              all of them; a table, and 1 if one survives
    python tests/cuda/mutants.py NaN window   those whose description matches a word

The sources are copied, so the checkout stays as it is. A mutant counts as killed when pytest reports a failed test.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
CUDA = "lean_nn/backend/cuda"
VALUES, LAUNCH, TENSOR, PROGRAMS, MATRIX = (
    f"tests/cuda/test_cuda_{name}.py" for name in ("values", "launch", "tensor", "programs", "matrix")
)


class Mutant(NamedTuple):
    """Replace `old` by `new` in a file; `first` is the test file that should notice."""

    what: str
    file: str
    old: str
    new: str
    first: str = VALUES


K = f"{CUDA}/kernels.cu"
MUTANTS = [
    Mutant("NaN does not win", K, "if (!(best >= v) && best == best)", "if (v > best && best == best)"),
    Mutant("the last NaN wins", K, "if (!(best >= v) && best == best)", "if (!(best >= v))"),
    Mutant("the last maximum wins", K, "if (!(best >= v) && best == best)", "if (!(best > v) && best == best)"),
    Mutant("a window without cells has an index", K,
           "        I at = -1;\n        if (cells.real", "        I at = 0;\n        if (cells.real"),
    Mutant("threads do not stride", K, "i += (I)gridDim.x * (I)blockDim.x)", "i += (count))", LAUNCH),
    Mutant("the block's number is forgotten", K,
           "I i = (I)blockIdx.x * (I)blockDim.x + (I)threadIdx.x;", "I i = (I)threadIdx.x;", LAUNCH),
    Mutant("padding before is read", K, "const I hidden = below(g, a, begin, 0);", "const I hidden = 0;"),
    Mutant("padding after is read", K,
           "count = below(g, a, begin, g.in[a]) - hidden;", "count = below(g, a, begin, g.padded[a]) - hidden;"),
    Mutant("the divisor counts beyond the padding", K, "inside = below(g, a, begin, g.padded[a]);", "inside = g.kernel[a];"),
    Mutant("taps are counted rounding down", K, "return (a + b - 1) / b; }", "return a / b; }"),
    Mutant("a cell misses its last window", K, "high = smaller(from / g.stride[a] + 1, g.out[a]);",
           "high = smaller(from / g.stride[a], g.out[a]);"),
    Mutant("a cell visits windows that do not exist", K, "high = smaller(from / g.stride[a] + 1, g.out[a]);",
           "high = from / g.stride[a] + 1;"),
    Mutant("a cell visits windows that ended before it", K,
           "low = reach > 0 ? up(reach, g.stride[a]) : 0;", "low = 0;", MATRIX),
    Mutant("dilated windows hold every cell", K,
           "return (j + g.before[a] - p * g.stride[a]) % g.dilation[a] == 0;", "return true;"),
    Mutant("bins end rounding down", K, "(I)((((long long)i + 1) * n + m - 1) / m)", "(I)((((long long)i + 1) * n) / m)"),
    Mutant("bins overflow 32 bits", K, "return (I)((long long)i * n / m);", "return i * n / m;"),
    Mutant("-1 is read as a cell", K, "at < 0 ? (T)0", "at < -1 ? (T)0", MATRIX),
    Mutant("winners are looked for in the first plane", K, "if (idx[at] == i % size)", "if (idx[at] == i)"),
    Mutant("terms are added backwards", K, "for (long long s = bounds[r]; s < bounds[r + 1]; s++)",
           "for (long long s = bounds[r + 1] - 1; s >= bounds[r]; s--)"),
    Mutant("outer slices have the result's length", K,
           "terms[(outer * k + (I)order[s])", "terms[(outer * n + (I)order[s])", MATRIX),
    Mutant("divisors change places", K, "by == PADDED ? (T)cells.all : by == REAL", "by == REAL ? (T)cells.all : by == PADDED"),
    Mutant("equal infinities have no term", K, "return v == top ? (T)1 : exp(", "return exp("),
    Mutant("padding adds no term", K, "total = lost > 0 ? (T)lost * soft_term((T)0, top, beta) : (T)0;", "total = (T)0;"),
    Mutant("smooth minimum shifted by the maximum", K, "return beta < 0 ? -v : v; }", "return v; }"),
    Mutant("shares are not divided by their total", K, "(y_bar[at] / total[at])", "y_bar[at]"),
    Mutant("columns read before the image", K, "real = real && j >= 0 && j < g.in[a];", "real = real && j < g.in[a];"),
    Mutant("columns read after the image", K, "real = real && j >= 0 && j < g.in[a];", "real = real && j >= 0;"),
    Mutant("columns are not dilated", K,
           "+ k[a] * g.dilation[a] - g.before[a];\n            real", "+ k[a] - g.before[a];\n            real"),
    Mutant("copies are looked for at another tap", K,
           "cover.p[a] * g.stride[a]) / g.dilation[a];", "cover.p[a] * g.stride[a]);"),
    Mutant("samples and rows change places", K, "row * g.batch + sample) * windows", "sample * rows + row) * windows"),
    Mutant("results are added to what was there", K, "        x[i] = sum;", "        x[i] += sum;"),
    Mutant("no room for a step of the grid", f"{CUDA}/launch.py",
           "NARROW = 2**31 - BLOCK * limits.grid", "NARROW = 2**31 - 1", LAUNCH),
    Mutant("padding is no reason for wide indices", f"{CUDA}/launch.py",
           "prod(self.kernel), *reach)", "prod(self.kernel))", LAUNCH),
    Mutant("a block too few", f"{CUDA}/launch.py",
           "min(-(-count // BLOCK), limits.grid)", "min(count // BLOCK, limits.grid)", LAUNCH),
    Mutant("structs stay narrow", f"{CUDA}/launch.py", "a.struct(wide) if", "a.struct(False) if", LAUNCH),
    Mutant("strided memory is passed on", f"{CUDA}/launch.py", "and not argument.flags.c_contiguous", "and False", LAUNCH),
    Mutant("the last piece of a batch is left out", f"{CUDA}/conv.py",
           "range(0, samples, step)", "range(0, samples - 1, step)", LAUNCH),
    Mutant("weights get the last piece's gradient", f"{CUDA}/conv.py", "cp.add(out, part.reshape(out.shape), out=out)",
           "out[...] = part.reshape(out.shape)", LAUNCH),
    Mutant("one product for all groups", f"{CUDA}/conv.py", "if a.shape[0] == 1:", "if True:"),
    Mutant("indices are not looked at", f"{CUDA}/indexing.py", "if idx.size and bool(outside.any()):", "if False:", TENSOR),
    Mutant("planes share their cells", f"{CUDA}/pool.py", "planes * np.int64(size) + flat", "planes + flat", MATRIX),
    Mutant("ignored classes are added", f"{CUDA}/indexing.py", "cp.where(rows == n, np.int64(out.size), cells)", "cells"),
    Mutant("devices are mixed", "lean_nn/device.py", "if len(found) > 1:", "if False:", TENSOR),
    Mutant("updates one after the other", "lean_nn/graph/program.py",
           "box.data.copy() if graph.updates else box.data", "box.data", PROGRAMS),
]  # fmt: skip


def planted(text: str, mutant: Mutant) -> str:
    """The text with the fault; the place must be there exactly once."""
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.what}: {mutant.old!r} stands {text.count(mutant.old)} times in {mutant.file}")
    return text.replace(mutant.old, mutant.new)


def copy_of_the_sources(folder: Path) -> None:
    for name in ("lean_nn", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "lean_nn_c").symlink_to(ROOT / "lean_nn_c")


def run(folder: Path, mutant: Mutant) -> str:
    """The name of the first test that fails, or "" where the mutant survives."""
    path = folder / mutant.file
    text = path.read_text()
    path.write_text(planted(text, mutant))
    files = [mutant.first, *(f for f in (VALUES, LAUNCH, TENSOR, PROGRAMS, MATRIX) if f != mutant.first)]
    environment = {**os.environ, "PYTHONPATH": str(folder), "LEAN_NN_CUDA_FOLDER": str(folder / "libraries")}
    try:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *files]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        failed = re.search(r"^(?:FAILED|ERROR) (?:tests/cuda/)?(\S+)", done.stdout, re.MULTILINE)
        if done.returncode != 0 and not failed:
            raise RuntimeError(done.stdout + done.stderr)
        return failed[1] if failed else ""
    finally:
        path.write_text(text)


def main(words: list[str]) -> int:
    chosen = [m for m in MUTANTS if not words or any(word in m.what for word in words)]
    survivors = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_of_the_sources(folder)
        (folder / "libraries").mkdir()
        for mutant in chosen:
            began = time.monotonic()
            test = run(folder, mutant)
            if not test:
                survivors.append(mutant.what)
            print(f"{'killed  ' if test else 'SURVIVED'} {mutant.what:45} {time.monotonic() - began:4.0f} s  {test}", flush=True)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants killed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
