"""What this machine can do at most, measured when a run starts: the figures that rates are compared with.

Float operations: the best matrix product, of NumPy's BLAS or our own (a BLAS may be older than the machine). Bytes: the best
copy between arrays far larger than the caches (read plus written), one process per thread. Each count of threads in processes of
its own, because BLAS reads it once, when it is loaded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

PROGRAM = """
import json, time
import numpy as np
import lean_nn as ln

def best(f, seconds):
    f()
    least, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        f()
        least = min(least, time.perf_counter() - began)
    return least

found = {}
for name in ("float32", "float64"):
    a, b = (np.random.default_rng(i).standard_normal((768, 768)).astype(name) for i in (0, 1))
    out = np.empty_like(a)
    x, y = ln.tensor(a), ln.tensor(b)
    least = min(best(lambda: np.matmul(a, b, out=out), SECONDS), best(lambda: x @ y, SECONDS))
    found[f"GFLOP/s {name}"] = 2 * 768**3 / least / 1e9
source, target = np.zeros(2**24), np.empty(2**24)
found["GB/s"] = 2 * source.nbytes / best(lambda: np.copyto(target, source), SECONDS) / 1e9
print(json.dumps(found))
"""


def _start(threads: int, seconds: float) -> subprocess.Popen[str]:
    count = str(threads)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": count, "OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count}
    command = [sys.executable, "-c", PROGRAM.replace("SECONDS", str(seconds))]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def measure(threads: int, seconds: float = 0.3) -> dict[str, float]:
    """GFLOP/s by dtype and GB/s of this machine with `threads` threads."""
    output, _ = _start(threads, seconds).communicate()
    found: dict[str, float] = json.loads(output)
    if threads > 1:  # one copy uses one core: run as many at once as there are threads
        copies = [_start(1, seconds) for _ in range(threads)]
        found["GB/s"] = sum(json.loads(copy.communicate()[0])["GB/s"] for copy in copies)
    return found
