"""The double and its shim are as strict as they say: each rule is broken once, and noticed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lean_nn as ln

pytestmark = pytest.mark.double

TEXT = """
struct Pair { int a, b; };
extern "C" __global__ void copy(int n, const float *x, float *y) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i];
}
extern "C" __global__ void last(int n, const float *x, float *y) { y[0] = (float)(blockIdx.x * blockDim.x + threadIdx.x); }
extern "C" __global__ void partly(int n, const float *x, float *y) { if (threadIdx.x > 0) y[threadIdx.x] = 1; }
extern "C" __global__ void beyond(int n, const float *x, float *y) { for (int i = 0; i <= n; i++) y[i] = 0; }
extern "C" __global__ void inputs(int n, const float *x, float *y) { ((float *)x)[0] += 1; for (int i = 0; i < n; i++) y[i] = 0; }
extern "C" __global__ void largest(int n, const float *x, float *y) { for (int i = 0; i < n; i++) y[i] = max(x[i], -1.0f); }
"""


@pytest.fixture(scope="module")
def cp() -> Any:
    import cupy

    return cupy


@pytest.fixture(scope="module")
def kernels() -> Any:
    import source_lane
    from cupy_double import RawKernel

    options = ("-DLNN_T=float", "-DLNN_D=1", "-DLNN_I=int", "-fmad=false")
    compiled = source_lane.compile_module(TEXT, options)
    return {name: RawKernel(name, options, kernel) for name, kernel in compiled.items()}


def arguments(cp: Any, n: int = 8) -> tuple[Any, ...]:
    return np.int32(n), cp.asarray(np.arange(n, dtype=np.float32)), cp.empty((n,), np.float32)


def test_a_kernel_runs(cp: Any, kernels: Any) -> None:
    args = arguments(cp)
    kernels["copy"]((1,), (4,), args)
    assert args[2].get().tolist() == list(range(8))


def test_cuda_s_max_drops_nan(cp: Any, kernels: Any) -> None:
    y = cp.empty((2,), np.float32)
    kernels["largest"]((1,), (1,), (np.int32(2), cp.asarray(np.array([np.nan, 3], np.float32)), y))
    assert y.get().tolist() == [-1.0, 3.0]


@pytest.mark.parametrize("name", ["last", "partly", "beyond", "inputs"])
def test_wrong_kernels_are_noticed(name: str, cp: Any, kernels: Any) -> None:
    words = {"last": "order of threads", "partly": "not written", "beyond": "beyond an array", "inputs": "an input was written"}
    with pytest.raises(AssertionError, match=words[name]):
        kernels[name]((1,), (8,), arguments(cp))


@pytest.mark.parametrize(
    "change",
    [
        lambda n, x, y: (n, x), lambda n, x, y: (8, x, y), lambda n, x, y: (np.int64(8), x, y),
        lambda n, x, y: (np.float32(8), x, y),
        lambda n, x, y: (n, x.astype(np.float64), y), lambda n, x, y: (n, x.get(), y), lambda n, x, y: (n, x[::-1], y),
        lambda n, x, y: (n, y, y), lambda n, x, y: (n, x, x[2:]),
    ],
)  # fmt: skip
def test_wrong_arguments_are_noticed(change: Any, cp: Any, kernels: Any) -> None:
    with pytest.raises(AssertionError):
        kernels["copy"]((1,), (8,), change(*arguments(cp)))


@pytest.mark.parametrize(
    ("grid", "block"), [(1, (8,)), ((1,), 8), ([1], (8,)), ((1,), (2048,)), ((1, 70000), (8,)), ((np.int32(1),), (8,))]
)
def test_wrong_launches_are_noticed(grid: Any, block: Any, cp: Any, kernels: Any) -> None:
    with pytest.raises(AssertionError):
        kernels["copy"](grid, block, arguments(cp))


def test_arguments_are_a_tuple(cp: Any, kernels: Any) -> None:
    with pytest.raises(AssertionError, match="tuple"):
        kernels["copy"]((1,), (8,), list(arguments(cp)))


def test_structs_are_checked(cp: Any) -> None:
    ln.tensor([0.0]).cuda()
    from lean_nn.backend.cuda import launch
    from lean_nn.window import strided

    g = launch.geometry((1, 1, 4), strided("p", 1, 2))
    x, y = cp.asarray(np.ones((1, 1, 4), np.float32)), cp.empty((1, 1, 2), np.float32)
    kernel = launch._kernel("max_pool_value_strided", np.dtype(np.float32), 1, False)
    kernel((1,), (256,), (g.struct(False), np.int32(2), x, y))
    for wrong in (g.struct(True), np.zeros(36, np.uint8), np.int32(1)):
        with pytest.raises(AssertionError, match="Geometry"):
            kernel((1,), (256,), (wrong, np.int32(2), x, y))


@pytest.mark.parametrize(
    "mix",
    [
        lambda a, cp: a + np.ones(3, np.float32), lambda a, cp: np.ones(3, np.float32) + a, lambda a, cp: a[np.array([1])],
        lambda a, cp: cp.exp(np.ones(3)), lambda a, cp: np.asarray(a), lambda a, cp: np.exp(a),
        lambda a, cp: a.__setitem__(..., np.ones(3, np.float32)),
    ],
)  # fmt: skip
def test_numpy_arrays_are_a_type_error(mix: Any, cp: Any) -> None:
    with pytest.raises((TypeError, StopIteration)):
        mix(cp.asarray(np.ones(3, np.float32)), cp)


@pytest.mark.parametrize(
    "mix",
    [
        lambda a, cp: a + a.astype(np.float64), lambda a, cp: a * np.float64(2),
        lambda a, cp: cp.where(a > 0, a, a.astype(np.float64)),
        lambda a, cp: a.__setitem__(..., a.astype(np.float64)), lambda a, cp: cp.where(a, a, a),
        lambda a, cp: cp.add(a, a, out=cp.empty((3,), np.float64)),
    ],
)  # fmt: skip
def test_casts_are_noticed(mix: Any, cp: Any) -> None:
    with pytest.raises(AssertionError):
        mix(cp.asarray(np.ones(3, np.float32)), cp)


def test_indices_out_of_range_are_noticed(cp: Any) -> None:
    with pytest.raises(IndexError):
        cp.take(cp.asarray(np.ones(3, np.float32)), cp.asarray(np.array([5])), 0)


def test_empty_is_poisoned(cp: Any) -> None:
    assert cp.empty((4,), np.float32).get().tobytes() == b"\xfb" * 16
