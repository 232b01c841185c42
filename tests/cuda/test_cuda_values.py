"""Values that random cases do not have: ties, infinities, NaN, extreme beta, denormals, awkward geometries."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from conftest import LANE
from device_runs import FUSED, compare

import lean_nn as ln
from lean_nn.ops import load_all
from lean_nn.window import Bins, Window, strided

registry = load_all()
SPECIAL = np.array([0.0, -0.0, 1.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 3e38, -3e38])
WINDOWS: list[Window | Bins] = [
    strided("pool", 2, 2), strided("pool", 2, 3, 1, 1), strided("pool", 2, (2, 3), 2, ((0, 3), (2, 0)), (2, 1)),
    strided("pool", 2, 3, 2, 1, 1, True), strided("pool", 2, 2, 3, 2), strided("pool", 2, (4, 1), (3, 1), (4, 0), 1),
    Bins((3, 5)), Bins((1, 1)), Bins((9, 11)),
]  # fmt: skip


def both(name: str, arrays: list[np.ndarray], **params: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    results = []
    for device in ("cpu", "cuda"):
        y = registry[name](*[ln.from_numpy(a, device) for a in arrays], **params)
        results.append([t.cpu().numpy() for t in (y if isinstance(y, tuple) else (y,))])
    return results[0], results[1]


def special(dtype: str, seed: int = 0, shape: tuple[int, ...] = (2, 3, 7, 8)) -> np.ndarray:
    return np.random.default_rng(seed).choice(SPECIAL, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("name", ["max_pool", "max_pool_value"])
def test_winners_are_the_cpu_s_bit_for_bit(name: str, window: Window | Bins, dtype: str) -> None:
    for seed in range(3):
        wanted, got = both(name, [special(dtype, seed)], window=window)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(got, wanted, strict=True))


def test_bins_of_long_axes() -> None:
    """The product of an axis and its number of bins does not fit into 32 bits."""
    x = np.random.default_rng(2).standard_normal((1, 1, 65536)).astype(np.float32)
    wanted, got = both("max_pool", [x], window=Bins((40000,)))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(got, wanted, strict=True))
    wanted, got = both("scatter_add_at", [x[..., :40000], wanted[1]], spatial=(65536,), window=Bins((40000,)))
    assert got[0].tobytes() == wanted[0].tobytes()


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_few_values_many_ties(window: Window | Bins) -> None:
    x = np.random.default_rng(3).integers(0, 2, (1, 2, 7, 8)).astype(np.float32)
    wanted, got = both("max_pool", [x], window=window)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(got, wanted, strict=True))
    g = np.random.default_rng(4).standard_normal(wanted[0].shape).astype(np.float32)
    wanted, got = both("scatter_add_at", [g, wanted[1]], spatial=(7, 8), window=window)
    assert got[0].tobytes() == wanted[0].tobytes()


DIVISORS: list[dict[str, Any]] = [{}, {"count_include_pad": False}, {"divisor_override": 7}, {"divisor_override": -3}]


def averages_agree(x: np.ndarray, window: Window | Bins, **by: Any) -> None:
    """Both directions, bit by bit."""
    wanted, got = both("avg_pool", [x], window=window, **by)
    compare("average", got, wanted, True)
    g = np.random.default_rng(11).standard_normal(wanted[0].shape).astype(x.dtype)
    wanted, got = both("avg_pool_transpose", [g], spatial=x.shape[2:], window=window, **by)
    compare("transpose", got, wanted, True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("by", DIVISORS, ids=str)
def test_every_divisor(window: Window | Bins, by: dict[str, Any], dtype: str) -> None:
    averages_agree(np.random.default_rng(5).standard_normal((2, 2, 7, 8)).astype(dtype), window, **by)


SUMS: list[tuple[tuple[int, ...], Window | Bins]] = [
    ((2100,), strided("p", 1, 3, 1, 1)),  # more cells than the CPU takes at a time
    ((2100,), strided("p", 1, 1200, 7, 5)),  # wider than its tiles
    ((900,), strided("p", 1, 80, 70)), ((900,), strided("p", 1, 9, 160, 3)),  # further apart than its phases
    ((5,), strided("p", 1, 3, 1, 1)),  # shorter than a register
    ((13, 37), strided("p", 2, 2)), ((13, 37), strided("p", 2, 3, 2, 1)), ((13, 37), strided("p", 2, (5, 4), (1, 3), 2, (2, 1))),
    ((270, 7), strided("p", 2, (255, 2), 1)), ((270, 7), strided("p", 2, (257, 2), 1)),  # a box of too many rows
    ((900, 3), strided("p", 2, (200, 2), 1, 0, (2, 1))),  # more rows above a cell than hold it
    ((13, 11), Bins((1, 1))), ((3, 5, 7), Bins((1, 1, 1))), ((13, 37), strided("p", 2, (13, 37), 1)),  # one window
    ((8, 36), Bins((4, 18))), ((9, 37), Bins((5, 18))), ((9, 4), Bins((2, 9))),  # bins alike, and not
    ((6, 5, 19), strided("p", 3, 3, 2, 1)), ((6, 5, 19), strided("p", 3, (4, 3, 2), 1, 1, (1, 2, 3))),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("spatial", "window"), SUMS, ids=str)
def test_sums_in_the_cpu_s_order(spatial: tuple[int, ...], window: Window | Bins, dtype: str) -> None:
    x = np.random.default_rng(12).standard_normal((2, 1, *spatial)).astype(dtype)
    for by in DIVISORS[:2]:
        averages_agree(x, window, **by)
    smooth_agree(x[:1], window, 1.5, dtype)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_zeros_have_the_cpu_s_signs(window: Window | Bins) -> None:
    x = np.random.default_rng(13).choice([0.0, -0.0], (1, 2, 7, 8))
    for by in DIVISORS:
        averages_agree(x, window, **by)


def test_a_divisor_beyond_every_float() -> None:
    wanted, got = both("avg_pool", [np.ones((1, 1, 4), np.float32)], window=strided("p", 1, 2), divisor_override=10**400)
    assert np.array_equal(got[0], wanted[0])


def smooth_agree(x: np.ndarray, window: Window | Bins, beta: float, dtype: str) -> None:
    """The smooth maximum and both sums with its weights, bit by bit where the CPU fuses as the device does."""
    rng = np.random.default_rng(7)
    t, g = (rng.standard_normal(s).astype(dtype) for s in (x.shape, (*x.shape[:2], *window.out_spatial(x.shape[2:]))))
    for name, arrays in (("smooth_max_pool", [x]), ("smooth_gather", [t, x]), ("smooth_scatter", [g, x])):
        with np.errstate(all="ignore"):
            wanted, got = both(name, [*arrays, np.array(beta, dtype)], window=window)
        compare(name, got, wanted, FUSED)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("beta", [1.0, -1.0, 1e20, -1e20, 1e-3])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_smooth_maxima(window: Window | Bins, beta: float, dtype: str) -> None:
    x = np.random.default_rng(6).choice([0.0, 2.0, -1.0, 1e20, -1e20], (1, 2, 7, 8)).astype(dtype)
    smooth_agree(x, window, beta, dtype)
    smooth_agree(np.random.default_rng(6).standard_normal((1, 2, 7, 8)).astype(dtype), window, beta, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_smooth_maxima_of_infinities_and_nan(dtype: str) -> None:
    for beta in (2.0, -2.0):
        smooth_agree(special(dtype, 9), strided("p", 2, 2, 1, 1), beta, dtype)


def test_the_cpu_s_constants() -> None:
    """What the device's text repeats of the CPU's, and that exp and log are the CPU's own text."""
    from lean_nn.backend.cuda.launch import source

    kernels = files("lean_nn_c")
    rows = re.search(r"#define LNN_ROWS (\d+)", kernels.joinpath("pool_rows.h").read_text(encoding="utf-8"))
    assert rows and f"ROWS = {rows[1]} }};" in source()
    assert "enum { PARTS = 32 / sizeof(real) };" in kernels.joinpath("pool_sum.h").read_text(encoding="utf-8")
    assert "enum { PARTS = 32 / sizeof(T)," in source()
    assert source().count(kernels.joinpath("vmath_real.h").read_text(encoding="utf-8")) == 2  # floats and doubles


@pytest.mark.skipif(LANE == "source", reason="only the compiler's output flushes")
def test_denormals_are_equal_to_zero_in_float32() -> None:
    """CuPy compiles with -ftz=true: the first of several denormals wins, and comes out as it is."""
    x = np.array([[[0.0, 1e-44, 3e-44, -1e-44]]], np.float32)
    y, idx = registry["max_pool"](ln.from_numpy(x, "cuda"), window=strided("p", 1, 4))
    assert (y.item(), idx.item()) == (0.0, 0)
    y, idx = registry["max_pool"](ln.from_numpy(x.astype(np.float64), "cuda"), window=strided("p", 1, 4))
    assert idx.item() == 2


def test_long_sums_have_the_cpu_s_bits() -> None:
    """Contributions to one cell are added in the order of the indices, however many there are."""
    rng = np.random.default_rng(10)
    g, idx = rng.standard_normal((1, 1, 3000)).astype(np.float32), rng.integers(-1, 4, (1, 1, 3000))
    for name, arrays, params in (
        ("scatter_add_at", [g, idx], {"spatial": (4,)}),
        ("scatter_add", [g, idx % 4], {"axis": 2, "size": 4}),
        ("take_transpose", [g[0, 0], idx[0, 0] % 4], {"axis": 0, "size": 4}),
        ("unpick", [g, idx], {"axis": 2, "size": 4, "ignore": -1}),
    ):
        wanted, got = both(name, arrays, **params)
        assert got[0].tobytes() == wanted[0].tobytes(), name


CONVS = [
    ((2, 4, 9), (6, 2, 3), {"stride": (2,), "padding": ((2, 1),), "dilation": (2,), "groups": 2}),
    ((3, 3, 6, 7), (3, 1, 2, 3), {"stride": (1, 2), "padding": ((0, 1), (2, 0)), "dilation": (1, 1), "groups": 3}),
    ((1, 2, 5, 4, 6), (4, 2, 2, 1, 3),
     {"stride": (2, 1, 3), "padding": ((1, 1), (0, 0), (3, 2)), "dilation": (1, 2, 2), "groups": 1}),
    ((2, 1, 3, 4, 3, 4), (2, 1, 2, 2, 2, 2),
     {"stride": (1, 2, 1, 2), "padding": ((1, 0),) * 4, "dilation": (1, 2, 1, 1), "groups": 1}),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("x_shape", "w_shape", "geometry"), CONVS, ids=str)
def test_convolutions(x_shape: Any, w_shape: Any, geometry: dict[str, Any], dtype: str) -> None:
    rng = np.random.default_rng(11)
    x, w, b = (rng.standard_normal(shape).astype(dtype) for shape in (x_shape, w_shape, w_shape[:1]))
    wanted, got = both("conv", [x, w, b], **geometry)
    compare("conv", got, wanted, False)
    g = rng.standard_normal(wanted[0].shape).astype(dtype)
    wanted, got = both("conv_input", [g, w], spatial=x_shape[2:], **geometry)
    compare("conv_input", got, wanted, False)
    wanted, got = both("conv_weight", [x, g], kernel=w_shape[2:], **geometry)
    compare("conv_weight", got, wanted, False)


def test_dropout_drops_the_same_elements() -> None:
    x = np.ones((3, 50), np.float32)
    for seed in (0, 1, -5, 2**62):
        wanted, got = both("dropout", [x, np.array(seed)], p=0.3)
        assert np.array_equal(got[0], wanted[0])


@pytest.mark.parametrize("name", ["max", "min", "softmax", "log_softmax", "logsumexp"])
@pytest.mark.parametrize("axis", [0, 1])
def test_lines_of_infinities_and_nan(name: str, axis: int) -> None:
    x = np.array([[1.0, -np.inf, 5.0], [2.0, -np.inf, np.nan], [1.0, -np.inf, 5.0], [np.inf, -np.inf, 0.0]])
    with np.errstate(all="ignore"):
        wanted, got = both(name, [x], axis=axis)
    compare(name, got, wanted, name in ("max", "min"))
