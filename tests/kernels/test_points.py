"""Convolution by points: the image read as it lies, results side by side; against products of real cells only."""

from __future__ import annotations

import conv_calls as kernel
import numpy as np
import pytest

from lean_nn_c import conv as kernels

DTYPES = (np.float32, np.float64)
# n, c, o, groups, spatial, kernel, out, stride, pad, dilation: as the kernels take them
CALLS = [
    (3, 20, 40, 1, (9, 11), (3, 3), (5, 6), (2, 2), (1, 1), (1, 1)),
    (2, 70, 19, 1, (7, 6), (5, 5), (7, 6), (1, 1), (2, 2), (1, 1)),  # several blocks of channels, 25 classes
    (40, 6, 33, 1, (3, 4), (3, 3), (2, 2), (2, 2), (1, 1), (1, 1)),  # tiles that cross samples
    (1, 9, 150, 1, (70, 61), (3, 3), (35, 31), (2, 2), (1, 1), (1, 1)),  # several chunks of lines, parts of the results
    (2, 24, 36, 2, (12, 10), (4, 3), (6, 9), (2, 1), (1, 0), (1, 1)),  # groups, axes that differ
    (2, 12, 30, 1, (12, 9), (3, 3), (12, 9), (1, 1), (2, 2), (2, 2)),  # dilation
    (2, 12, 30, 1, (13, 8), (3, 3), (7, 3), (2, 3), (2, 2), (2, 2)),  # and strides
    (2, 11, 17, 1, (5, 4, 6), (3, 3, 3), (3, 2, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1)),
    (1, 5, 21, 1, (1500,), (7,), (1500,), (1,), (3,), (1,)),  # a long line: several chunks, several pieces
    (2, 7, 16, 1, (5, 6, 4, 5), (2, 1, 3, 2), (4, 6, 4, 2), (1, 1, 1, 2), (0, 0, 1, 0), (1, 1, 1, 1)),
    (3, 8, 9, 1, (4, 4), (2, 2), (7, 7), (1, 1), (2, 2), (1, 1)),  # windows that are all padding: no points
    (2, 3, 18, 1, (20, 20), (8, 8), (13, 13), (1, 1), (0, 0), (1, 1)),  # as many taps as conv_weight lists
    (2, 3, 18, 1, (20, 20), (9, 8), (12, 13), (1, 1), (0, 0), (1, 1)),  # one more
    (3, 300, 10, 1, (4, 4), (3, 3), (4, 4), (1, 1), (1, 1), (1, 1)),  # conv_weight: some channels after the others
    (2, 1, 1, 1, (4, 4), (1, 1), (2, 2), (2, 2), (0, 0), (1, 1)),
    (1, 33, 9, 1, (260, 250), (2, 2), (130, 125), (2, 2), (0, 0), (1, 1)),  # an image that no cache keeps
    (1, 24, 70, 1, (4, 7, 5), (3, 3, 3), (4, 7, 5), (1, 1, 1), (1, 1, 1), (1, 1, 1)),  # few lines, strips and taps to share
]


def results(call, dtype, algorithm, count, whole=True):
    """conv, conv_input and conv_weight of one layer: of small integers (`whole`), or normal numbers."""
    n, c, o, groups, spatial, size, out = call[:7]
    rng = np.random.default_rng(0)
    shapes = [(n, c, *spatial), (o, c // groups, *size), (n, o, *out), (o,), (c,)]
    x, w, y, b, b_bar = (
        (rng.integers(-3, 4, np.prod(shape)) if whole else rng.standard_normal(np.prod(shape))).astype(dtype)
        for shape in shapes
    )
    return kernel.three(x, w, y, b, b_bar, (*call, algorithm), count)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_sums_of_small_integers_are_exact(call, dtype):
    want = results(call, dtype, "direct", 1)
    for count in (1, 2, 3):
        for one, other in zip(results(call, dtype, "points", count), want, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_the_same_bits_for_any_number_of_threads(call, dtype):
    want = results(call, dtype, "points", 1, whole=False)
    for count in (2, 3, 5):
        for one, other in zip(results(call, dtype, "points", count, whole=False), want, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", ["conv", "conv_input", "conv_weight"])
def test_a_thread_takes_less_than_a_megabyte(name, wide):
    longest = (1, 40, 700, 1, (3, 2048), (3, 3), (3, 2048), (1, 1), (1, 1), (1, 1))  # a line, many strips of results
    residues = (1, 90, 90, 1, (40, 40, 40), (4, 4, 4), (20, 20, 20), (2, 2, 2), (1, 1, 1), (1, 1, 1))
    for call in (longest, residues, *CALLS):
        assert kernels.step(name, wide, False, *call, "points").scratch(3) <= 3 * 2**20


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_padding_is_never_multiplied(dtype, value):
    """One weight, or cotangent, that is not finite reaches the cells that it is multiplied with, by points themselves."""
    call = (2, 6, 20, 1, (6, 5), (3, 3), (3, 3), (2, 2), (1, 1), (1, 1))
    x, w = np.ones((2, 6, 6, 5), dtype), np.ones((20, 6, 3, 3), dtype)
    w[4, 2, 0, 0] = value
    y = np.zeros((2, 20, 3, 3), dtype)
    kernel.conv(x.reshape(-1), w.reshape(-1), None, y.reshape(-1), *call, "points")
    finite = np.ones((3, 3), bool)
    finite[1:, 1:] = False  # the first tap of the first row and column is padding
    np.testing.assert_array_equal(np.isfinite(y[1, 4]), finite)
    assert np.isfinite(np.delete(y, 4, axis=1)).all()
    y_bar, w_bar = np.ones((2, 20, 3, 3), dtype), np.zeros_like(w)
    y_bar[1, 7, 0, 1] = value
    kernel.conv_weight(x.reshape(-1), y_bar.reshape(-1), w_bar.reshape(-1), *call, "points")
    assert np.isfinite(w_bar[7, :, 0]).all() and not np.isfinite(w_bar[7, :, 1:]).any()
    assert np.isfinite(np.delete(w_bar, 7, axis=0)).all()


@pytest.mark.parametrize("name", ["conv", "conv_input", "conv_weight"])
def test_auto_takes_points_where_they_pay(name):
    """A strided layer of small planes: the memory that points take, and their bits."""
    call = (32, 64, 48, 1, (5, 5), (3, 3), (2, 2), (2, 2), (0, 0), (1, 1))
    rng = np.random.default_rng(0)
    x, w, y = (rng.standard_normal(s).astype(np.float32) for s in (32 * 64 * 25, 48 * 64 * 9, 32 * 48 * 4))
    left, right, size = {"conv": (x, w, y.size), "conv_input": (y, w, x.size), "conv_weight": (x, y, w.size)}[name]
    steps = {by: kernels.step(name, False, False, *call, by) for by in ("auto", "points", "taps")}
    got = {by: np.empty(size, np.float32) for by in steps}
    for by, step in steps.items():
        step(left, right, got[by])
    np.testing.assert_array_equal(got["auto"], got["points"])
    assert steps["auto"].scratch(1) == steps["points"].scratch(1) != steps["taps"].scratch(1)
