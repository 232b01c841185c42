"""Importing lean_nn is quick, small and silent, and pulls in NumPy alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

HEAVY = ("torch", "scipy", "matplotlib", "pandas", "jax", "onnx", "onnxruntime", "cupy", "hypothesis", "pytest",
         "cython", "Cython", "setuptools", "argparse", "asyncio", "multiprocessing", "sympy", "mpmath")  # fmt: skip


def fresh(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", program]
    kept = {k: text for k, text in os.environ.items() if k not in ("PYTHONDONTWRITEBYTECODE", "OMP_NUM_THREADS")}
    return subprocess.run(command, env={**kept, **environment}, capture_output=True, text=True, check=False)


def value(program: str, **environment: str) -> object:
    done = fresh(program, **environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_nothing_heavy_is_imported() -> None:
    program = "import sys, json, numpy; before = set(sys.modules); import lean_nn; lean_nn.tensor, lean_nn.grad; "
    program += "print(json.dumps(sorted({m.split('.')[0] for m in set(sys.modules) - before})))"
    new = value(program)
    assert isinstance(new, list)
    assert not set(new) & set(HEAVY), new


def test_spec_and_testing_are_there_when_asked_for() -> None:
    names = value("import json, lean_nn as ln; print(json.dumps([ln.spec.__name__, ln.testing.__name__]))")
    assert names == ["lean_nn.spec", "lean_nn.testing"]


def test_every_public_name_exists() -> None:
    missing = value("import json, lean_nn as ln; print(json.dumps([n for n in ln.__all__ if not hasattr(ln, n)]))")
    assert missing == []


def test_unknown_name_is_an_attribute_error() -> None:
    assert value("import json, lean_nn as ln; print(json.dumps(hasattr(ln, 'no_such_name')))") is False


def test_import_costs_little_time_and_memory() -> None:
    """The promise is 50 ms and 8 MB over NumPy's own (``python -m benches.overhead``); a busy machine gets room."""
    program = (
        "import json, time, numpy\n"
        "def rss(): return [int(l.split()[1]) for l in open('/proc/self/status') if l.startswith('VmRSS')][0] / 1024\n"
        "m, t = rss(), time.process_time()\n"
        "import lean_nn\n"
        "lean_nn.tensor, lean_nn.functional, lean_nn.grad\n"
        "print(json.dumps([1e3 * (time.process_time() - t), rss() - m]))"
    )
    if not os.path.exists("/proc/self/status"):
        pytest.skip("memory is read from /proc")
    program = program.replace("open('/proc/self/status')", "__import__('pathlib').Path('/proc/self/status').open()")
    runs = [value("import warnings; warnings.simplefilter('ignore')\n" + program) for _ in range(5)]
    assert min(run[0] for run in runs) < 100  # type: ignore[index]
    assert min(run[1] for run in runs) < 8  # type: ignore[index]


@pytest.mark.parametrize("isa", ["x86_64_v9", "nonsense"])
def test_an_isa_that_cannot_run_is_refused(isa: str) -> None:
    done = fresh("import lean_nn", LEAN_NN_ISA=isa)
    assert done.returncode != 0
    assert f"LEAN_NN_ISA: {isa} cannot be used here" in done.stderr


def test_the_best_level_that_pays_is_chosen() -> None:
    program = "import json; from lean_nn.config import config; from lean_nn_c import build_info; isa = config()['isa']; "
    program += "print(json.dumps([isa['chosen'], isa['runnable'], [i for i in isa['runnable'] if build_info.pays(i)]]))"
    chosen, runnable, paying = value(program, LEAN_NN_ISA="")  # type: ignore[misc]
    assert chosen == paying[-1]
    assert set(runnable) - set(paying) <= {"x86_64_v4"}


def test_threads_default_follows_the_environment() -> None:
    program = "import lean_nn as ln; print(ln.get_num_threads())"
    assert value(program, OMP_NUM_THREADS="1") == 1
    free = value(program)
    assert isinstance(free, int) and 1 <= free <= len(os.sched_getaffinity(0))
    assert value(program, OMP_NUM_THREADS="1000") == free
    assert int(fresh(program, OMP_NUM_THREADS="nonsense").stdout) == free  # libgomp complains on standard error


def test_threads_default_follows_affinity() -> None:
    program = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
    assert value(program + "import lean_nn as ln; print(ln.get_num_threads())") == 1


def test_parts_can_be_imported_first() -> None:
    """Whatever is imported first, the engine finds its Tensors, and `lean_nn.tensor` is the function."""
    for first in ("from lean_nn import functional as F", "from lean_nn.functional import relu", "import lean_nn.graph",
                  "from lean_nn.tensor import Tensor", "from lean_nn.graph import compile", "import lean_nn.spec.interval",
                  "from lean_nn.ops.elementwise import add", "import lean_nn.cli"):  # fmt: skip
        program = f"import json; {first}; import numpy as np; import lean_nn; from lean_nn.ops.elementwise import mul; "
        program += "y = mul(np.float32([2]), np.float32([3])); print(json.dumps([y.tolist(), lean_nn.tensor(1.0).item()]))"
        assert value(program) == [[6.0], 1.0], first
