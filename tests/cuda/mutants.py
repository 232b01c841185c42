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
SUMS, DIVISORS, ZEROS, SMOOTH, TIES, CONVS, LONG = (
    f"{VALUES}::test_{name}" for name in (
        "sums_in_the_cpu_s_order", "every_divisor", "zeros_have_the_cpu_s_signs", "smooth_maxima", "few_values_many_ties",
        "convolutions", "long_sums_have_the_cpu_s_bits")
)  # fmt: skip


class Mutant(NamedTuple):
    """Replace `old` by `new` in a file; `first` is the test, or the file of tests, that should notice."""

    what: str
    file: str
    old: str
    new: str
    first: str = VALUES


K, W = f"{CUDA}/kernels.cu", f"{CUDA}/windows.h"
MUTANTS = [
    Mutant("NaN does not win", K, "if (!(best >= v) && best == best)", "if (v > best && best == best)"),
    Mutant("the last NaN wins", K, "if (!(best >= v) && best == best)", "if (!(best >= v))"),
    Mutant("the last maximum wins", K, "if (!(best >= v) && best == best)", "if (!(best > v) && best == best)"),
    Mutant("a window without cells has an index", K,
           "        I at = -1;\n        if (cells.real", "        I at = 0;\n        if (cells.real"),
    Mutant("threads do not stride", W, "i += (I)gridDim.x * (I)blockDim.x)", "i += (count))", LAUNCH),
    Mutant("the block's number is forgotten", W,
           "I i = (I)blockIdx.x * (I)blockDim.x + (I)threadIdx.x;", "I i = (I)threadIdx.x;", LAUNCH),
    Mutant("padding before is read", W, "const I hidden = below(g, a, begin, 0);", "const I hidden = 0;", DIVISORS),
    Mutant("padding after is read", W,
           "count = below(g, a, begin, g.in[a]) - hidden;", "count = below(g, a, begin, g.padded[a]) - hidden;"),
    Mutant("the divisor counts beyond the padding", W, "inside = below(g, a, begin, g.padded[a]);",
           "inside = g.kernel[a];", DIVISORS),
    Mutant("taps are counted rounding down", W, "return (a + b - 1) / b; }", "return a / b; }", DIVISORS),
    Mutant("a cell misses its last window", W, "high = smaller(from / g.stride[a] + 1, g.out[a]);",
           "high = smaller(from / g.stride[a], g.out[a]);", TIES),
    Mutant("a cell visits windows that do not exist", W, "high = smaller(from / g.stride[a] + 1, g.out[a]);",
           "high = from / g.stride[a] + 1;", TIES),
    Mutant("a cell visits windows that ended before it", W,
           "low = reach > 0 ? up(reach, g.stride[a]) : 0;", "low = 0;", MATRIX),
    Mutant("dilated windows hold every cell", W,
           "return (j + g.before[a] - p * g.stride[a]) % g.dilation[a] == 0;", "return true;", DIVISORS),
    Mutant("bins end rounding down", W, "(I)((((long long)i + 1) * n + m - 1) / m)",
           "(I)((((long long)i + 1) * n) / m)", DIVISORS),
    Mutant("bins overflow 32 bits", W, "return (I)((long long)i * n / m);", "return i * n / m;"),
    Mutant("-1 is read as a cell", K, "at < 0 ? (T)0", "at < -1 ? (T)0", MATRIX),
    Mutant("winners are looked for in the first plane", K, "if (idx[at] == i % size)", "if (idx[at] == i)", TIES),
    Mutant("terms are added backwards", K, "for (long long s = bounds[r]; s < bounds[r + 1]; s++)",
           "for (long long s = bounds[r + 1] - 1; s >= bounds[r]; s--)", LONG),
    Mutant("outer slices have the result's length", K,
           "terms[(outer * k + (I)order[s])", "terms[(outer * n + (I)order[s])", MATRIX),
    Mutant("divisors change places", K, "by == PADDED ? inside", "by == REAL ? inside", DIVISORS),
    Mutant("a window without cells divides by nothing", K, "(T)larger(outer, 1), (T)larger(inner, 1)",
           "(T)outer, (T)inner", DIVISORS),
    Mutant("columns are summed cell by cell", K, "sum = alike && cells.rows() <= ROWS ?", "sum = false ?", SUMS),
    Mutant("bins are summed by columns", K, "sum = alike && cells.rows()", "sum = cells.rows()", SUMS),
    Mutant("one row too many is summed by columns", K, "cells.rows() <= ROWS ?", "cells.rows() <= ROWS + 1 ?", SUMS),
    Mutant("a plane is summed in one part", K, "for (I l = 0; l < PARTS; l++) {\n        T part = 0;\n        "
           "for (I i = l; i < even; i += PARTS)", "for (I l = 0; l < 1; l++) {\n        T part = 0;\n        "
           "for (I i = l; i < even; i++)", SUMS),
    Mutant("a whole plane is summed as a window", K, "product(g.out) == 1 && cells.real", "false && cells.real", SUMS),
    Mutant("averages are multiplied by a reciprocal", K, "y[i] = sum / divisor<Window>(g, p, by, given).all();",
           "y[i] = sum * ((T)1 / divisor<Window>(g, p, by, given).all());", DIVISORS),
    Mutant("shares are divided one by one", K, "even ? together / first.all() : apart", "apart", SUMS),
    Mutant("shares are divided by the first divisor", K, "even ? together / first.all() : apart", "together / first.all()",
           SUMS),
    Mutant("cells gather row by row", K, "if (cover.some && alike && cover.rows(g, j) <= ROWS)", "if (false)", SUMS),
    Mutant("windows that do not hold a cell are counted", W, "some += Window::holds(g, a, j[a], q);", "some += 1;", SUMS),
    Mutant("a sum of columns begins with -0", K, "    T sum = 0;\n    do {\n        T column = 0;",
           "    T sum = -(T)0;\n    do {\n        T column = -(T)0;", ZEROS),
    Mutant("exp and log round twice", K, "#define LNN_FUSED\n", "", SMOOTH),
    Mutant("products and sums are fused", f"{CUDA}/launch.py", '"-fmad=false",', ""),
    Mutant("alike windows are not", f"{CUDA}/pool.py", "last.stride >= 1 and", "last.stride > 1 and", SUMS),
    Mutant("equal infinities have no term", K, "return v == top ? (T)1 : expo(", "return expo(", SMOOTH),
    Mutant("padding adds no term", K, "total = lost > 0 ? (T)lost * soft_term((T)0, top, beta) : (T)0;", "total = (T)0;", SMOOTH),
    Mutant("smooth minimum shifted by the maximum", K, "return beta < 0 ? -v : v; }", "return v; }", SMOOTH),
    Mutant("shares are not divided by their total", K, "(y_bar[at] / total[at])", "y_bar[at]", SMOOTH),
    Mutant("columns read before the image", K, "real = real && j >= 0 && j < g.in[a];", "real = real && j < g.in[a];", CONVS),
    Mutant("columns read after the image", K, "real = real && j >= 0 && j < g.in[a];", "real = real && j >= 0;", CONVS),
    Mutant("columns are not dilated", K,
           "+ k[a] * g.dilation[a] - g.before[a];\n            real", "+ k[a] - g.before[a];\n            real", CONVS),
    Mutant("copies are looked for at another tap", K,
           "cover.p[a] * g.stride[a]) / g.dilation[a];", "cover.p[a] * g.stride[a]);", CONVS),
    Mutant("samples and rows change places", K, "row * g.batch + sample) * windows", "sample * rows + row) * windows", CONVS),
    Mutant("results are added to what was there", K, "        x[i] = sum;", "        x[i] += sum;", CONVS),
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
    Mutant("one product for all groups", f"{CUDA}/conv.py", "if a.shape[0] == 1:", "if True:", CONVS),
    Mutant("indices are not looked at", f"{CUDA}/indexing.py", "if idx.size and bool(outside.any()):", "if False:", TENSOR),
    Mutant("planes share their cells", f"{CUDA}/pool.py", "planes * np.int64(size) + flat", "planes + flat", MATRIX),
    Mutant("ignored classes are added", f"{CUDA}/indexing.py", "cp.where(rows == n, np.int64(out.size), cells)", "cells", LONG),
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
