"""Lane B: what NVRTC makes of ``kernels.cu``, for every architecture; it needs the compiler (``cuda-test``), but no card.

Where ``LEAN_NN_CUDA_NVRTC`` is ``required``, as in CI, a missing compiler is a failure and not a skip.
"""

from __future__ import annotations

import os
import re

import numpy as np
import nvrtc
import ptx_lane
import pytest
import source_lane
from nvrtc import ARCHITECTURES

import lean_nn as ln

REQUIRED = os.environ.get("LEAN_NN_CUDA_NVRTC") == "required"
pytestmark = [
    pytest.mark.double,
    pytest.mark.skipif(not REQUIRED and nvrtc.library_path() is None, reason="NVRTC is not installed"),
]
REALS = {"float": np.dtype(np.float32), "double": np.dtype(np.float64)}


def text_and_options(real: str, rank: int, wide: bool) -> tuple[str, tuple[str, ...]]:
    ln.tensor([0.0]).cuda()
    from lean_nn.backend.cuda import launch

    return launch.source(), launch.options(REALS[real], rank, wide)


def check(ptx: str, real: str) -> None:
    """Nothing in local memory, no calls, no atomics, no double arithmetic on floats."""
    forbidden = [r"\.local\b", r"\bcall\b", r"\batom\b", r"\bred\b", r"\.shared\b", r"\bbar\b"]
    if real == "float":
        forbidden.append(r"\.f64\b")
    for pattern in forbidden:
        assert not re.search(pattern, ptx), pattern


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("real", REALS)
def test_compiles_for(architecture: int, real: str) -> None:
    code, options = text_and_options(real, 2, False)
    check(nvrtc.compile_ptx(code, options, f"compute_{architecture}"), real)


@pytest.mark.parametrize(("rank", "wide"), [(1, True), (3, False), (5, False), (6, True)])
@pytest.mark.parametrize("real", REALS)
def test_ptx_parameters_are_the_launcher_s(rank: int, wide: bool, real: str) -> None:
    code, options = text_and_options(real, rank, wide)
    ptx = nvrtc.compile_ptx(code, options)
    check(ptx, real)
    signed = source_lane.signatures(code, options)
    found = {entry.name: entry for entry in ptx_lane.entries(ptx)}
    assert set(found) == set(signed)
    for name, entry in found.items():
        ptx_lane.check_parameters(entry, signed[name])


@pytest.mark.parametrize("architecture", (70, 90, 120))
@pytest.mark.parametrize("real", REALS)
def test_machine_code_spills_nothing(architecture: int, real: str) -> None:
    code, options = text_and_options(real, 3, True)
    log = nvrtc.compile_cubin(code, options, architecture)
    stacks = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log)
    assert len(stacks) == len(source_lane.signatures(code, options))
    assert set(stacks) == {("0", "0", "0")}


def test_an_error_is_the_compiler_s() -> None:
    with pytest.raises(AssertionError, match="identifier \"nonsense\" is undefined"):
        nvrtc.compile_ptx("nonsense x;", ())


def test_names_without_headers() -> None:
    """NVRTC has no headers: the text must not lean on one, nor the compiler look for files."""
    code, _ = text_and_options("float", 1, False)
    assert '#include "' not in code and code.index("#ifdef __CUDACC_RTC__") < code.index("#else") < code.index("#include <")
    assert not re.search(r"\b(INFINITY|NAN|int64_t|size_t)\b", code)
    with pytest.raises(AssertionError):
        nvrtc.compile_ptx("__device__ float x = INFINITY;", ())


UNKNOWN = ["bar.sync 0;", "add.rz.f32 %f1, %f2, %f3;", "ld.shared.f32 %f1, [%rd1];", "mul.hi.s32 %r1, %r2, %r3;", "call foo;",
           "ld.global.v2.f32 {%f1, %f2}, [%rd1];", "ex2.f32 %f1, %f2;", "add.s32 %q1, %r2, 3;"]  # fmt: skip


@pytest.mark.parametrize("line", UNKNOWN)
def test_unknown_instructions_raise(line: str) -> None:
    with pytest.raises(ptx_lane.UnknownInstruction):
        ptx_lane.statement(line)
