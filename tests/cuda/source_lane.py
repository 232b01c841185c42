"""Lane A: the text of ``kernels.cu`` compiled by g++ behind a shim, and launched by a loop over the grid."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FOLDER: Path | None = None  # where libraries are kept, for one session of tests
FLAGS = os.environ.get("LEAN_NN_CUDA_CXXFLAGS", "-O1 -ftls-model=initial-exec").split()

# What CUDA has built in. max and min drop NaN, as CUDA's do.
SHIM = r"""
#include <math.h>
#define __global__
#define __device__
struct lnn_dim3 { unsigned x, y, z; };
static thread_local lnn_dim3 threadIdx, blockIdx, blockDim, gridDim;
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
static inline float min(float a, float b) { return fminf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
"""

# One launch: every thread of the grid, forwards, backwards, or in steps that are coprime to their number.
LOOP = r"""
static unsigned long long lnn_gcd(unsigned long long a, unsigned long long b) { return b ? lnn_gcd(b, a % b) : a; }
template <class Thread> static void lnn_launch(unsigned grid, unsigned block, int order, Thread thread) {
    const unsigned long long all = (unsigned long long)grid * block;
    unsigned long long by = 7919 % all, t = order == 2 ? 13 % all : 0;
    while (lnn_gcd(by, all) != 1) by++;
    by = order == 0 ? 1 : order == 1 ? all - 1 : by % all;
    if (order == 1) t = all - 1;
    gridDim = {grid, 1, 1};
    blockDim = {block, 1, 1};
    for (unsigned long long i = 0; i < all; i++) {
        const unsigned number = (unsigned)(t / block);
        blockIdx = {number, 0, 0};
        threadIdx = {(unsigned)t - number * block, 0, 0};
        t += by;
        if (t >= all) t -= all;
        thread();
    }
}
"""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel."""

    kind: str  # pointer, struct, scalar
    text: str
    dtype: np.dtype | None = None
    const: bool = False
    size: int = 0
    alignment: int = 1

    def __str__(self) -> str:
        return self.text


class Compiled:
    """A kernel in a shared library."""

    def __init__(self, library: ctypes.CDLL, name: str, parameters: list[Parameter]) -> None:
        self.parameters, self._run = parameters, getattr(library, f"lnn_run_{name}")
        self._run.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint, ctypes.c_int]
        self._run.restype = None

    def run(self, arguments: list[Any], grid: int, block: int, order: int) -> None:
        """Arrays by their address, structs and scalars by value."""
        kept, pointers = [], (ctypes.c_void_p * len(arguments))()
        for i, (parameter, argument) in enumerate(zip(self.parameters, arguments, strict=True)):
            value = np.array(argument.ctypes.data, np.uint64) if parameter.kind == "pointer" else np.array(argument)
            kept.append(value)
            pointers[i] = value.ctypes.data
        self._run(pointers, grid, block, order)


def build(text: str, flags: list[str]) -> ctypes.CDLL:
    """`text` as a shared library; one compilation per text and session."""
    assert FOLDER is not None
    key = hashlib.sha256((text + " ".join(flags)).encode()).hexdigest()[:24]
    library, source = FOLDER / f"{key}.so", FOLDER / f"{key}.cpp"
    if not library.exists():
        source.write_text(text)
        partial = FOLDER / f"{key}.{os.getpid()}.part"
        command = ["g++", "-std=c++17", "-pedantic-errors", "-shared", "-fPIC", *flags, str(source), "-o", str(partial)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:4000]
        partial.rename(library)
    return ctypes.CDLL(str(library))


def definitions(options: tuple[str, ...]) -> dict[str, str]:
    """What ``-D`` defines; of the others g++ knows ``-fmad=false`` by another name."""
    assert [option for option in options if not option.startswith("-D")] == ["-fmad=false"]
    return dict(option[2:].split("=") for option in options if option.startswith("-D"))


def scalar_types(defined: dict[str, str]) -> dict[str, np.dtype]:
    """The dtypes behind the names of ``kernels.cu``, for these definitions."""
    return {
        "T": np.dtype(np.float64 if defined["LNN_T"] == "double" else np.float32),
        "I": np.dtype(np.int64 if defined["LNN_I"] == "wide" else np.int32),
        "int": np.dtype(np.int32), "long long": np.dtype(np.int64), "float": np.dtype(np.float32),
    }  # fmt: skip


SIGNATURE = re.compile(r'extern "C" __global__ void (\w+)\s*\(([^)]*)\)')


def signatures(code: str, options: tuple[str, ...]) -> dict[str, list[Parameter]]:
    """The parameters of every kernel, read from the preprocessed text."""
    defined = definitions(options)
    command = ["g++", "-E", "-P", "-x", "c++", "-D__global__=__global__", *(f"-D{n}={v}" for n, v in defined.items()), "-"]
    text = subprocess.run(command, input=code, capture_output=True, text=True, check=True).stdout
    types, rank = scalar_types(defined), int(defined["LNN_D"])
    found = {}
    for name, inside in SIGNATURE.findall(text):
        parameters = []
        for part in (p.strip() for p in inside.split(",")):
            kind = re.sub(r"\b(const|\w+$)", "", part).replace("*", "").strip()
            if "*" in part:
                parameters.append(Parameter("pointer", part, types[kind], "const" in part))
            elif kind == "Geometry":
                item = types["I"].itemsize
                parameters.append(Parameter("struct", part, None, True, (2 + 7 * rank) * item, item))
            else:
                parameters.append(Parameter("scalar", part, types[kind]))
        found[name] = parameters
    return found


def _declared(part: str) -> str:
    return re.sub(r"\w+$", "", part).strip()


def compile_module(code: str, options: tuple[str, ...]) -> dict[str, Compiled]:
    """Every kernel of the text."""
    found = signatures(code, options)
    runners = []
    for name, parameters in found.items():
        arguments = ", ".join(f"*({_declared(p.text)} *)a[{i}]" for i, p in enumerate(parameters))
        runners.append(
            f'extern "C" void lnn_run_{name}(void **a, unsigned grid, unsigned block, int order) '
            f"{{ lnn_launch(grid, block, order, [&] {{ {name}({arguments}); }}); }}"
        )
    flags = [*FLAGS, "-ffp-contract=off", *(f"-D{name}={value}" for name, value in definitions(options).items())]
    library = build("\n".join([SHIM, code, LOOP, *runners]), flags)
    return {name: Compiled(library, name, parameters) for name, parameters in found.items()}
