"""Windows read where they lie, several strips at once, pairs of residues, dot tiles: against products of real cells only."""

from __future__ import annotations

import conv_calls as kernel
import numpy as np
import pytest

DTYPES = (np.float32, np.float64)
# n, c, o, groups, spatial, kernel, stride, pad
CALLS = [
    (2, 3, 24, 1, (32, 40), (4, 4), (4, 4), (0, 0)),
    (3, 5, 9, 1, (27, 31), (4, 4), (4, 4), (0, 0)),  # cells that no window has; strips that cross rows
    (9, 2, 8, 1, (8, 9), (4, 4), (4, 4), (0, 0)),  # and samples
    (2, 6, 14, 2, (21, 23), (3, 7), (3, 7), (0, 0)),  # groups, rows that are not whole blocks
    (2, 4, 8, 1, (18, 19), (3, 3), (3, 3), (0, 0)),  # rows of three: one cell more is read, never before the first
    (1, 1, 7, 1, (9, 9), (3, 3), (3, 3), (0, 0)),
    (2, 3, 10, 1, (20, 33), (2, 5), (3, 8), (0, 0)),  # gaps between windows
    (2, 2, 8, 1, (9, 40), (3, 4), (3, 4), (0, 0)),
    (1, 2, 7, 1, (64,), (16,), (16,), (0,)),
    (2, 8, 40, 1, (999,), (3,), (3,), (0,)),
    (2, 3, 8, 1, (13, 9, 17), (4, 4, 4), (4, 4, 4), (0, 0, 0)),
    (1, 2, 9, 1, (16, 16, 16), (8, 8, 8), (8, 8, 8), (0, 0, 0)),  # a window's terms in several blocks
    (2, 2, 7, 1, (5, 6, 4, 9), (2, 2, 2, 4), (2, 3, 2, 4), (0, 0, 0, 0)),
    (1, 64, 12, 1, (52, 60), (4, 4), (4, 4), (0, 0)),  # so large that windows are called in
    (4, 40, 5, 1, (61, 64), (4, 4), (4, 4), (0, 0)),  # strips that are called in
    (5, 6, 70, 1, (173,), (4,), (1,), (2,)),  # few terms: several strips at once, the last one short
    (2, 33, 20, 1, (11, 13), (1, 1), (1, 1), (0, 0)),
    (
        3,
        9,
        12,
        1,
        (15, 16),
        (4, 4),
        (2, 2),
        (1, 1),
    ),  # conv_input: pairs of residues that begin before the image, or end behind it
    (3, 9, 12, 1, (15, 15), (3, 3), (2, 2), (1, 1)),
    (2, 8, 9, 1, (3, 3), (3, 3), (2, 2), (1, 1)),
    (2, 8, 9, 1, (6, 5, 4), (3, 2, 4), (1, 2, 2), (1, 0, 1)),
    (32, 16, 16, 1, (12, 12), (1, 1), (2, 2), (0, 0)),  # every second cell
    (30, 40, 12, 1, (3, 4), (3, 3), (1, 1), (1, 1)),  # conv_weight: several strips of few terms at once, added up
    (1, 30, 13, 1, (5, 20), (5, 3), (2, 1), (2, 0)),
    (3, 3, 22, 1, (9, 11), (1, 1), (1, 1), (0, 0)),  # conv_weight: dot products along the image
    (2, 14, 8, 2, (131,), (1,), (1,), (0,)),
    (2, 1, 1, 1, (5, 5, 5), (1, 1, 1), (1, 1, 1), (0, 0, 0)),
]


def results(call, dtype, algorithm, count):
    n, c, o, groups, spatial, size, stride, pad = call
    out = tuple((s + 2 * p - k) // t + 1 for s, k, t, p in zip(spatial, size, stride, pad, strict=True))
    rng = np.random.default_rng(0)
    shapes = [(n, c, *spatial), (o, c // groups, *size), (n, o, *out)]
    x, w, y = (rng.integers(-3, 4, int(np.prod(shape))).astype(dtype) for shape in shapes)
    rest = (n, c, o, groups, spatial, size, out, stride, pad, (1,) * len(spatial), algorithm)
    bias = [rng.integers(-3, 4, m).astype(dtype) for m in (o, c)]
    return kernel.three(x, w, y, *bias, rest, count)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_sums_of_small_integers_are_exact(call, dtype):
    want = results(call, dtype, "direct", 1)
    for algorithm in ("taps", "points", "strips"):
        for count in (1, 2, 3):
            for one, other in zip(results(call, dtype, algorithm, count), want, strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_windows_keep_infinities_to_themselves(dtype, value):
    """Cells beside a window's row are read with it, and must not count."""
    x, w = np.ones((1, 2, 9, 18), dtype), np.ones((8, 2, 3, 3), dtype)
    x[0, 0, 3, 5] = value
    y = np.empty((1, 8, 3, 6), dtype)
    kernel.conv(
        x.reshape(-1),
        w.reshape(-1),
        None,
        y.reshape(-1),
        1,
        2,
        8,
        1,
        (9, 18),
        (3, 3),
        (3, 6),
        (3, 3),
        (0, 0),
        (1, 1),
        "taps",
    )
    hit = np.zeros((3, 6), bool)
    hit[1, 1] = True
    assert np.all(np.isfinite(y[0][:, ~hit])) and not np.any(np.isfinite(y[0][:, hit]))
