"""Lane C: the true CuPy's names, sanitizers, mutants, and more elements than 32 bits count. Minutes, so ``-m slow``.

CuPy's wheel imports without a GPU: ``pip install cupy-cuda12x`` is enough for the first of these.
"""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lean_nn as ln

pytestmark = [pytest.mark.slow, pytest.mark.double]
HERE = Path(__file__).resolve().parent

PARITY = """
import json, sys
names = json.load(sys.stdin)
import cupy, cupyx.scipy.special as special
found = {"cupy": cupy, "cupy.ndarray": cupy.ndarray, "cupy.cuda": cupy.cuda, "cupy.cuda.runtime": cupy.cuda.runtime,
         "cupyx.scipy.special": special}
print(json.dumps([f"{place}.{name}" for place, own in names.items() for name in own if not hasattr(found[place], name)]))
"""


def public(thing: Any) -> list[str]:
    dunder = {"__dlpack__", "__dlpack_device__", "__getitem__", "__setitem__", "__neg__", "__invert__", "__and__", "__rshift__"}
    return [name for name in vars(thing) if name in dunder or not name.startswith("_")]


def test_every_name_of_the_double_exists_in_cupy() -> None:
    import cupy
    import cupyx.scipy.special as special

    names = {"cupy": public(cupy), "cupy.ndarray": public(cupy.ndarray), "cupy.cuda": public(cupy.cuda),
             "cupy.cuda.runtime": public(cupy.cuda.runtime), "cupyx.scipy.special": public(special)}  # fmt: skip
    python = os.environ.get("LEAN_NN_CUPY_PYTHON", sys.executable)
    command = [python, "-W", "ignore", "-c", PARITY]
    done = subprocess.run(command, input=json.dumps(names), capture_output=True, text=True, check=False)
    if "No module named 'cupy'" in done.stderr:
        pytest.skip("CuPy's wheel is not installed")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


@pytest.mark.parametrize("kind", ["address", "undefined"])
def test_sanitizers_find_nothing(kind: str) -> None:
    """The kernels under g++'s sanitizers, on special values and small grids."""
    name = f"-print-file-name=lib{'asan' if kind == 'address' else 'ubsan'}.so"
    library = subprocess.run(["g++", name], capture_output=True, text=True, check=True)
    flags = f"-O1 -g -fsanitize={kind} -fno-sanitize-recover=all"
    environment = {**os.environ, "LD_PRELOAD": library.stdout.strip(), "LEAN_NN_CUDA_CXXFLAGS": flags,
                   "ASAN_OPTIONS": "detect_leaks=0"}  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", str(HERE / "test_cuda_values.py")]
    done = subprocess.run(command, cwd=HERE.parents[1], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_mutants_are_killed() -> None:
    done = subprocess.run([sys.executable, str(HERE / "mutants.py")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_more_elements_than_32_bits_count() -> None:
    """Sparse memory: 2³¹ + some bytes of address space, of which few pages are touched. A look-up at the far end."""
    ln.tensor([0.0]).cuda()
    from lean_nn.backend.cuda import launch

    size = 2**31 + 512
    with mmap.mmap(-1, size * 4) as memory:
        cells = np.frombuffer(memory, np.float32).reshape(1, 1, size)
        cells[0, 0, size - 1], cells[0, 0, 5] = 7.0, 3.0
        compiled = launch._kernel("gather_at", np.dtype(np.float32), 1, True).compiled
        idx, y = np.array([size - 1, 5, -1]), np.empty(3, np.float32)
        compiled.run([np.int64(3), np.int64(3), np.int64(size), cells, idx, y], 1, 256, 0)
        assert y.tolist() == [7.0, 3.0, 0.0]
        assert size > launch.NARROW
        del cells
