"""conv_input of few channels from many outputs, by products that are spread; against products of real cells only."""

from __future__ import annotations

import numpy as np
import pytest

from lean_nn_c import conv as kernels
from lean_nn_c import threads

DTYPES = (np.float32, np.float64)
# n, c, o, groups, spatial, kernel, out, stride, pad, dilation: as the kernels take them
CALLS = [
    (1, 1, 512, 1, (26, 21), (3, 3), (13, 11), (2, 2), (1, 1), (1, 1)),
    (3, 2, 384, 1, (10, 9, 11), (3, 3, 3), (10, 9, 11), (1, 1, 1), (1, 1, 1), (1, 1, 1)),  # one sample after the other
    (40, 2, 384, 1, (17, 18), (4, 4), (10, 10), (2, 2), (4, 4), (2, 2)),  # some samples at once, the last ones fewer
    (1, 3, 512, 1, (16000,), (5,), (16000,), (1,), (2,), (1,)),  # some lines, all channels
    (2, 8, 512, 1, (60, 61), (2, 3), (30, 30), (2, 2), (0, 0), (1, 1)),  # cells that no tap reads
    (2, 3, 128, 1, (45, 43, 20), (3, 3, 3), (23, 22, 10), (2, 2, 2), (1, 1, 1), (1, 1, 1)),  # planes of some lines, that overlap
    (8, 4, 512, 4, (28, 28), (3, 3), (28, 28), (1, 1), (1, 1), (1, 1)),  # groups
]


def conv_input(call, dtype, algorithm, count, act=""):
    n, c, o, groups, spatial, size, out = call[:7]
    rng = np.random.default_rng(0)
    y, w, b = (rng.integers(-3, 4, k).astype(dtype) for k in (n * o * np.prod(out), o * c // groups * np.prod(size), c))
    x = np.full(n * c * np.prod(spatial), np.nan, dtype)
    step = kernels.step("conv_input", dtype == np.float64, True, *call, algorithm, act=act)
    before = threads.get_num_threads()
    threads.set_num_threads(count)
    try:
        step(y, w, b, x)
        taken, strays = step.measure(y, w, b, x.copy())
    finally:
        threads.set_num_threads(before)
    assert taken <= step.scratch(count) <= 2**20 * (count + 1) or algorithm != "auto"
    assert strays == 0
    return x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_sums_of_small_integers_are_exact(call, dtype):
    want = conv_input(call, dtype, "direct", 1)
    for algorithm in ("auto", "spread"):
        for count in (1, 2, 3):
            np.testing.assert_array_equal(conv_input(call, dtype, algorithm, count), want)
    np.testing.assert_array_equal(conv_input(call, dtype, "auto", 2, "relu"), np.maximum(want, 0))


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_auto_spreads_few_channels(call):
    """It takes the memory of spread products, and of neither planes, points nor strips."""
    names = ("auto", "spread", "taps", "points", "strips")
    auto, spread, *rest = (kernels.step("conv_input", False, True, *call, by).scratch(1) for by in names)
    assert auto == spread
    assert auto not in rest


def test_planes_are_taken_where_bands_leave_little():
    """Without padding many of conv_input's cells see one tap: by strips each of them would meet all."""
    call = (64, 2, 96, 2, (10, 10, 10), (3, 3, 3), (6, 6, 6), (1, 1, 1), (0, 0, 0), (2, 2, 2))
    auto, strips = (kernels.step("conv_input", False, True, *call, by).scratch(1) for by in ("auto", "strips"))
    assert auto != strips
    np.testing.assert_array_equal(conv_input(call, np.float32, "auto", 2), conv_input(call, np.float32, "direct", 1))
