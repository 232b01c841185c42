"""The launcher: small grids, wide indices, split batches; the numbers that decide, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from device_runs import KERNELS, Call, bitwise, compare

import lean_nn as ln
from lean_nn.cases import Case, all_cases
from lean_nn.window import Bins, strided

CASES = [case for case in all_cases() if case.primitive in KERNELS and "large" not in case.tags]
FEW = [case for case in CASES if any(word in case.name for word in ("1d", "2d", "adaptive", "group"))]


@pytest.fixture
def launch(monkeypatch: pytest.MonkeyPatch) -> Any:
    ln.tensor([0.0]).cuda()
    from lean_nn.backend.cuda import launch

    monkeypatch.setattr(launch, "limits", replace(launch.limits))
    monkeypatch.setattr("lean_nn.backend.cuda.conv.limits", launch.limits)
    return launch


def values(case: Case, dtype: str) -> None:
    call = Call(case, dtype)
    call.smooth = False
    wanted, got = call.on(ln.from_numpy), call.on(lambda a: ln.from_numpy(a, "cuda"))
    compare("value", got["value"], wanted["value"], bitwise(call.prim))


@pytest.mark.parametrize("case", FEW, ids=str)
def test_64_bit_indices(case: Case, launch: Any) -> None:
    launch.limits.wide = True
    values(case, "float32")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", [case for case in CASES if "conv" in case.primitive], ids=str)
def test_batches_are_split_to_stay_below_the_budget(case: Case, dtype: str, launch: Any) -> None:
    launch.limits.columns = 1
    values(case, dtype)


@pytest.mark.parametrize("primitive", KERNELS)
def test_threads_stride_over_a_small_grid(primitive: str, launch: Any) -> None:
    """More elements than threads: one block of 256 walks over all of them."""
    launch.limits.grid = 1
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 3, 13, 17)), rng.standard_normal((2, 3, 12, 16))
    window = strided("pool", 2, 2, 1)
    places = rng.integers(-1, 13 * 17, y.shape)
    w, beta = rng.standard_normal((4, 3, 2, 2)), np.array(1.5)
    conv = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1)}
    g = rng.standard_normal((2, 4, 12, 16))
    table = rng.integers(0, 5, (3, 400))
    calls = {
        "max_pool": ((x,), {"window": window}), "max_pool_value": ((x,), {"window": window}), "gather_at": ((x, places), {}),
        "scatter_add_at": ((y, places), {"spatial": (13, 17)}), "avg_pool": ((x,), {"window": window}),
        "avg_pool_transpose": ((y,), {"window": window, "spatial": (13, 17)}), "smooth_max_pool": ((x, beta), {"window": window}),
        "smooth_gather": ((x, x, beta), {"window": window}), "smooth_scatter": ((y, x, beta), {"window": window}),
        "conv": ((x, w), {**conv, "groups": 1}), "conv_input": ((g, w), {**conv, "groups": 1, "spatial": (13, 17)}),
        "conv_weight": ((x, g), {**conv, "groups": 1, "kernel": (2, 2)}), "unfold": ((x,), {**conv, "kernel": (2, 2)}),
        "fold": ((rng.standard_normal((2, 12, 192)),), {**conv, "spatial": (13, 17), "kernel": (2, 2)}),
        "scatter_add": ((rng.standard_normal((3, 400)), table), {"axis": 1, "size": 300}),
        "unpick": ((rng.standard_normal((3, 400)), table), {"axis": 1, "size": 300, "ignore": 4}),
        "take_transpose": ((rng.standard_normal((40, 30)), rng.integers(0, 20, 40)), {"axis": 0, "size": 20}),
    }  # fmt: skip
    arrays, params = calls[primitive]
    values(Case("strided", primitive, lambda rng, dtype: arrays, params), "float64")


def test_winners_of_windows_and_any_indices_agree(launch: Any) -> None:
    """With the window as a hint a cell asks its windows; without, indices are sorted: the same bits."""
    from lean_nn.primitive import registry

    x = np.random.default_rng(0).integers(0, 3, (2, 3, 9, 8)).astype(np.float32)
    for window in (strided("pool", 2, 3, 1, 1), strided("pool", 2, 2, 2, 0, 3), Bins((4, 5)), Bins((12, 3))):
        y, idx = registry["max_pool"](ln.from_numpy(x, "cuda"), window=window)
        g = y * 0.37 + 1.0
        either = [registry["scatter_add_at"](g, idx, spatial=(9, 8), window=hint).cpu().numpy() for hint in (None, window)]
        assert np.array_equal(*either)


def test_narrow_indices_leave_room_for_one_step_of_the_grid(launch: Any) -> None:
    assert launch.NARROW == 2**31 - 2**24 == 2**31 - launch.BLOCK * launch.limits.grid


@pytest.mark.parametrize(
    ("change", "wide"),
    [({}, False), ({"batch": 2**20, "cells": (64, 32)}, True), ({"windows": (2**14, 2**14), "kernel": (3, 3)}, True),
     ({"before": (2**31, 0)}, True), ({"padded": (2**31, 3)}, True), ({"stride": (2**31, 1)}, True),
     ({"kernel": (2**16, 1), "dilation": (2**16, 1)}, True), ({"batch": 2**10, "cells": (512, 512)}, False)],
)  # fmt: skip
def test_the_largest_number_decides_the_width(change: dict[str, Any], wide: bool, launch: Any) -> None:
    two = (1, 1)
    g = replace(launch.Geometry(2, 3, (4, 5), (4, 5), two, two, two, (0, 0), (4, 5)), **change)
    assert (g.largest() > launch.NARROW) is wide


@pytest.mark.double
@pytest.mark.parametrize("count", [2**31 - 2**24, 2**31 - 2**24 + 1])
def test_counts_near_the_limit_choose_the_width(count: int, launch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    kernel = lambda *key: lambda grid, block, args: seen.append((key, grid, block, args))  # noqa: E731
    monkeypatch.setattr(launch, "_kernel", kernel)
    launch.launch("gather_at", np.dtype("float32"), 1, 5, count, count, 3)
    (_, _, _, wide), grid, block, args = seen[0]
    assert wide == (count > 2**31 - 2**24) and (grid, block) == ((65536,), (256,))
    assert [type(a) for a in args] == [np.int64 if wide else np.int32] * 2
    assert int(args[0]) == count


@pytest.mark.double
def test_the_grid_covers_every_element_once(launch: Any) -> None:
    import cupy_double

    for n, blocks in ((1, 1), (256, 1), (257, 2), (512, 2), (513, 3)):
        cupy_double.launches.clear()
        ln.functional.max_pool1d(ln.from_numpy(np.ones((1, 1, n), np.float32), "cuda"), 1, return_indices=True)
        assert [entry[2] for entry in cupy_double.launches] == [blocks]


def test_strided_memory_is_refused(launch: Any) -> None:
    x = ln.from_numpy(np.ones((4, 6), np.float32), "cuda").data
    with pytest.raises(ValueError, match=r"^max_pool: contiguous arrays are needed; got strides \(4, 24\) for shape \(6, 4\)"):
        launch.checked("max_pool", x.T)


@pytest.mark.double
def test_modules_are_compiled_once_and_only_when_needed(launch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy_double

    compiled = []
    real = cupy_double.compile_module
    monkeypatch.setattr(cupy_double, "compile_module", lambda *key: compiled.append(key[1]) or real(*key))
    launch._module.cache_clear()
    launch._kernel.cache_clear()
    x = ln.from_numpy(np.ones((1, 1, 4), np.float32), "cuda")
    x + x
    assert compiled == []
    ln.functional.max_pool1d(x, 2)
    ln.functional.avg_pool1d(x, 2)
    ln.functional.max_pool1d(x, 3)
    assert compiled == [("-DLNN_T=float", "-DLNN_D=1", "-DLNN_I=int", "-fmad=false")]
    assert launch.options(np.dtype("float64"), 3, True) == ("-DLNN_T=double", "-DLNN_D=3", "-DLNN_I=wide", "-fmad=false")


def test_empty_batches_launch_nothing(launch: Any) -> None:
    x = ln.from_numpy(np.ones((0, 2, 4, 4), np.float32), "cuda")
    assert ln.functional.max_pool2d(x, 2).shape == (0, 2, 2, 2)
