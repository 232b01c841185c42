"""CuPy, or the reason why it cannot be used here.

Importing this module is asking for CUDA: every other module of the package takes ``cp`` from it.
"""

from __future__ import annotations

from typing import Any


def load() -> Any:
    """The module ``cupy`` on a machine that has a device; else an error that says what is missing."""
    try:
        import cupy
    except ImportError as problem:
        raise ImportError(f"cuda: CuPy is needed; got an import error ({problem}); "
                          f"install it with pip install 'lean_nn[cuda]', which is cupy-cuda12x") from problem
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as problem:
        raise RuntimeError(f"cuda: a CUDA device is needed; got none ({problem}); install NVIDIA's driver, or stay on the "
                           f"CPU") from problem
    if count < 1:
        raise RuntimeError("cuda: a CUDA device is needed; got none; install NVIDIA's driver, or stay on the CPU")
    return cupy


cp: Any = load()
