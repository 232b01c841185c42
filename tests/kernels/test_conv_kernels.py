"""The convolution kernels against a few lines of NumPy, on geometry of any rank, with the stated bounds."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import conv_calls as kernel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lean_nn_c import conv as kernels
from lean_nn_c import threads

ALGORITHMS = ("taps", "points", "strips", "depthwise", "spread", "direct")
DTYPES = (np.float32, np.float64)


@dataclass(frozen=True)
class Geometry:
    n: int
    c: int
    o: int
    groups: int
    spatial: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]

    @property
    def out(self):
        axes = zip(self.spatial, self.kernel, self.stride, self.pads, self.dilation, strict=True)
        return tuple((s + a + b - d * (k - 1) - 1) // t + 1 for s, k, t, (a, b), d in axes)

    @property
    def shapes(self):
        x = (self.n, self.c, *self.spatial)
        w = (self.o, self.c // self.groups, *self.kernel)
        return x, w, (self.n, self.o, *self.out)

    @property
    def args(self):
        before = tuple(a for a, _ in self.pads)
        return (self.spatial, self.kernel, self.out, self.stride, before, self.dilation)


def reference(g: Geometry, x, w, y):
    """The three contractions, tap by tap, in float64: (y, x_bar, w_bar) for (x, w), (y, w), (x, y)."""
    x, w, y = (a.astype(np.float64) for a in (x, w, y))
    padded = np.pad(x, [(0, 0), (0, 0), *g.pads])
    padded_bar, out, w_bar = np.zeros_like(padded), np.zeros_like(y), np.zeros_like(w)
    cg, og = g.c // g.groups, g.o // g.groups
    for tap in itertools.product(*map(range, g.kernel)):
        axes = zip(tap, g.dilation, g.stride, g.out, strict=True)
        window = tuple(slice(k * d, k * d + (p - 1) * s + 1, s) for k, d, s, p in axes)
        for i in range(g.groups):
            cs, os = slice(i * cg, (i + 1) * cg), slice(i * og, (i + 1) * og)
            at = (slice(None), slice(None), *tap)
            cells, wk = padded[(slice(None), cs, *window)], w[os][at]
            out[:, os] += np.einsum("nc...,oc->no...", cells, wk)
            padded_bar[(slice(None), cs, *window)] += np.einsum("no...,oc->nc...", y[:, os], wk)
            size = math.prod(g.out)
            w_bar[os][at] += np.einsum(
                "ncz,noz->oc", cells.reshape(g.n, cg, size), y[:, os].reshape(g.n, og, size)
            )
    inside = tuple(slice(a, a + s) for (a, _), s in zip(g.pads, g.spatial, strict=True))
    return out, padded_bar[(slice(None), slice(None), *inside)], w_bar


def run(g: Geometry, x, w, y, algorithm="auto"):
    """The same three from the kernels; outputs start as NaN, so that an unwritten cell shows."""
    flat = [a.reshape(-1) for a in (x, w, y)]
    out, x_bar, w_bar = (np.full(a.shape, np.nan, a.dtype) for a in (y, x, w))
    head = (g.n, g.c, g.o, g.groups, *g.args)
    kernel.conv(flat[0], flat[1], None, out.reshape(-1), *head, algorithm)
    kernel.conv_input(flat[2], flat[1], x_bar.reshape(-1), *head, algorithm)
    kernel.conv_weight(flat[0], flat[2], w_bar.reshape(-1), *head, algorithm)
    return out, x_bar, w_bar


def data(g: Geometry, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(dtype) for shape in g.shapes]


def bounds(g: Geometry, x, w, y):
    """gamma_n times the contraction of absolute values."""
    u = np.finfo(x.dtype).eps / 2
    terms = (
        math.prod(g.kernel) * g.c // g.groups,
        math.prod(g.kernel) * g.o // g.groups,
        g.n * math.prod(g.out),
    )
    sums = reference(g, abs(x), abs(w), abs(y))
    return [(n + 1) * u / (1 - (n + 1) * u) * s for n, s in zip(terms, sums, strict=True)]


def check(g: Geometry, dtype, algorithm, seed=0):
    arrays = data(g, dtype, seed)
    tiny = np.finfo(dtype).tiny
    for got, want, bound in zip(
        run(g, *arrays, algorithm), reference(g, *arrays), bounds(g, *arrays), strict=True
    ):
        assert got.shape == want.shape
        assert np.all(abs(got - want) <= bound * 1.0001 + tiny)


@st.composite
def geometries(draw, ranks=(1, 2, 3, 4, 5)):
    rank = draw(st.sampled_from(ranks))
    top = {1: 40, 2: 12, 3: 6, 4: 4, 5: 3}[rank]
    groups = draw(st.integers(1, 3))
    c, o = (groups * draw(st.integers(0 if rank < 3 else 1, 9 if rank < 3 else 3)) for _ in range(2))
    axes = []
    for _ in range(rank):
        k, d = draw(st.integers(1, 4 if rank < 4 else 2)), draw(st.integers(1, 3))
        pads = (draw(st.integers(0, 4 if rank < 3 else 2)), draw(st.integers(0, 4 if rank < 3 else 2)))
        least = max(1, d * (k - 1) + 1 - sum(pads))
        axes.append((draw(st.integers(least, max(least, top))), k, draw(st.integers(1, 4)), pads, d))
    spatial, kernel_size, stride, pads, dilation = zip(*axes, strict=True)
    return Geometry(draw(st.integers(0, 3)), c, o, groups, spatial, kernel_size, stride, pads, dilation)


@given(geometries(), st.sampled_from(DTYPES), st.sampled_from(ALGORITHMS))
@settings(max_examples=400, deadline=None)
def test_any_geometry(g, dtype, algorithm):
    check(g, dtype, algorithm)


LARGE = [
    Geometry(1, 64, 64, 1, (20, 20), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    Geometry(2, 70, 13, 1, (9, 11), (3, 3), (1, 1), ((1, 0), (0, 2)), (1, 1)),  # several blocks of terms
    Geometry(1, 40, 30, 1, (17, 19), (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1)),  # the image is its own plane
    Geometry(1, 3, 20, 1, (45, 41), (7, 7), (2, 2), ((3, 3), (3, 3)), (1, 1)),
    Geometry(3, 12, 12, 12, (14, 15), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),  # depthwise
    Geometry(2, 8, 16, 2, (12, 12), (4, 4), (2, 2), ((1, 1), (1, 1)), (1, 1)),
    Geometry(1, 2, 3, 1, (700,), (601,), (1,), ((5, 5),), (1,)),  # more taps than a block holds
    Geometry(1, 4, 8, 1, (9, 10, 11), (3, 3, 3), (1, 2, 1), ((1, 1),) * 3, (1, 1, 2)),
    Geometry(5, 1, 32, 1, (28, 28), (5, 5), (1, 1), ((2, 2), (2, 2)), (1, 1)),
    Geometry(1, 6, 7, 1, (33, 31), (5, 5), (7, 6), ((0, 0), (0, 0)), (1, 1)),  # stride above kernel
    Geometry(1, 1, 1, 1, (5,), (2,), (3,), ((7, 9),), (4,)),  # windows wholly in the padding
    Geometry(1, 800, 7, 1, (3, 3), (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    Geometry(2, 16, 24, 1, (17, 18), (4, 4), (2, 2), ((1, 1), (1, 1)), (1, 1)),  # residues of the stride as rows
    Geometry(1, 3, 8, 1, (21, 20), (7, 7), (2, 2), ((3, 3), (3, 2)), (1, 1)),  # the same, with zeros among the weights
    Geometry(3, 2, 9, 1, (19,), (6,), (3,), ((2, 0),), (1,)),
    Geometry(2, 4, 10, 2, (5, 6, 7), (4, 4, 3), (2, 2, 1), ((1, 1), (0, 1), (1, 1)), (1, 1, 2)),
    Geometry(1, 9, 300, 1, (8, 9), (4, 2), (2, 2), ((0, 0), (1, 1)), (1, 1)),  # both at once
    Geometry(7, 20, 24, 1, (5, 5), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)),  # strips run on from sample to sample
    Geometry(6, 30, 14, 2, (3, 4), (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1)),  # the same on the image itself
    Geometry(3, 9, 200, 1, (6, 5), (3, 3), (1, 1), ((1, 1), (0, 0)), (1, 1)),  # more rows than one block of panels
    Geometry(24, 9, 11, 1, (6, 5), (9, 7), (1, 1), ((4, 4), (3, 5)), (1, 1)),  # bands of rows, taps in the padding only
    Geometry(64, 8, 14, 2, (7, 8), (5, 3), (3, 2), ((2, 3), (1, 4)), (1, 2)),  # bands, strided and dilated
    Geometry(40, 7, 8, 1, (4, 5, 6), (5, 3, 3), (1, 1, 2), ((2, 2), (1, 1), (1, 0)), (1, 1, 1)),  # bands on several axes
    Geometry(30, 5, 3, 1, (5, 5), (9, 9), (1, 1), ((6, 7), (4, 4)), (1, 1)),  # bands of few rows of weights, one without taps
    Geometry(2, 5, 4, 1, (), (), (), (), ()),  # rank 0: a linear layer
]

# What strips are for: few channels on either side of a group (and each of their special cases).
NARROW = [
    Geometry(2, 5, 5, 5, (115, 113), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),  # several strips
    Geometry(2, 12, 6, 6, (13, 18), (1, 1), (2, 2), ((0, 0), (0, 0)), (1, 1)),  # one tap: most cells get nothing
    Geometry(3, 4, 16, 4, (9, 8, 7), (1, 1, 1), (2, 1, 3), ((0, 0), (0, 0), (0, 0)), (1, 1, 1)),
    Geometry(2, 3, 3, 3, (61, 57), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)),  # classes of rows, cells spread out
    Geometry(3, 9, 9, 9, (7, 7), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),  # rows shorter than a vector
    Geometry(3, 4, 4, 4, (14, 14), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)),
    Geometry(12, 5, 5, 5, (5, 6), (3, 3), (2, 2), ((0, 0), (1, 1)), (1, 1)),  # several samples in a strip
    Geometry(10, 4, 6, 2, (4, 3, 5), (2, 3, 3), (1, 1, 1), ((1, 0), (1, 1), (1, 1)), (1, 1, 1)),
    Geometry(1, 2, 2, 2, (33, 30), (3, 3), (1, 1), ((4, 4), (4, 4)), (4, 4)),  # rows of a tall tile far apart
    Geometry(1, 2, 4, 2, (40, 19), (9, 2), (1, 1), ((4, 4), (1, 0)), (1, 1)),  # a run longer than its most taps
    Geometry(1, 2, 2, 2, (29, 23), (5, 5), (2, 3), ((2, 2), (0, 5)), (3, 2)),
    Geometry(2, 1, 70, 1, (28, 28), (5, 5), (1, 1), ((2, 2), (2, 2)), (1, 1)),  # sums kept between chunks of channels
    Geometry(1, 70, 3, 1, (30, 20), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    Geometry(1, 40, 2, 1, (12, 6), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    Geometry(2, 3, 11, 1, (40, 40), (7, 7), (2, 2), ((3, 3), (3, 3)), (1, 1)),
    Geometry(2, 6, 6, 6, (9000,), (31,), (1,), ((15, 15),), (1,)),  # one axis, cut along itself
    Geometry(2, 4, 8, 4, (5001,), (8,), (2,), ((3, 3),), (1,)),
    Geometry(1, 3, 3, 3, (9, 17, 18), (3, 3, 3), (1, 2, 1), ((1, 1), (1, 1), (1, 1)), (1, 1, 1)),
    Geometry(2, 1, 8, 1, (10, 12, 11), (3, 3, 3), (1, 1, 1), ((1, 1), (1, 1), (1, 1)), (1, 1, 1)),
    Geometry(1, 8, 8, 8, (1, 50), (1, 3), (1, 1), ((0, 0), (1, 1)), (1, 1)),  # nothing below each other
    Geometry(1, 2, 2, 2, (20, 20), (3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    Geometry(1, 1, 1, 1, (12, 5), (2, 1), (1, 1), ((0, 0), (2, 2)), (2, 2)),  # a lone row of a tall tile, wider than a vector
    Geometry(2, 6, 6, 6, (31, 28), (5, 5), (3, 3), ((2, 2), (2, 2)), (1, 1)),  # y_bar spread out threefold, fivefold
    Geometry(1, 4, 8, 2, (26, 43), (3, 6), (4, 5), ((1, 1), (0, 3)), (1, 1)),
    Geometry(2, 9, 7, 1, (18, 17), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),  # long rows of several outputs
    Geometry(2, 9, 8, 1, (34, 33), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)),
    Geometry(3, 8, 16, 4, (9, 30), (1, 2), (1, 2), ((0, 0), (0, 1)), (1, 1)),  # conv_weight: 3 + 1 outputs by 2 taps,
    Geometry(2, 6, 22, 2, (21, 17), (1, 5), (1, 1), ((0, 0), (2, 2)), (1, 1)),  # several channels of a group, 3 + 2 taps
    Geometry(3, 32, 32, 32, (5, 5), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)),  # a channel in each lane
    Geometry(2, 16, 16, 16, (3, 4, 5), (2, 3, 2), (1, 2, 1), ((1, 0), (1, 1), (0, 2)), (1, 1, 2)),
    Geometry(5, 48, 48, 48, (13,), (4,), (3,), ((0, 2),), (2,)),
    Geometry(2, 22, 22, 22, (112, 110), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),  # so large that planes are called in ahead
    Geometry(1, 26, 26, 26, (181, 180), (3, 3), (2, 2), ((1, 1), (0, 1)), (1, 1)),
    Geometry(2, 3, 3, 3, (33, 31), (5, 5), (1, 1), ((2, 2), (2, 2)), (1, 1)),  # long runs: vectors of the level's own width,
    Geometry(1, 70, 2, 1, (26, 37), (5, 7), (1, 1), ((2, 2), (3, 0)), (1, 1)),  # channels in chunks
    Geometry(1, 90, 9, 1, (18, 35), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),  # and tiles of several outputs
    Geometry(2, 2, 6, 2, (17, 14), (8, 3), (2, 1), ((3, 4), (1, 1)), (1, 2)),
]


# conv_weight whose sum is cut into shares: pieces that are bands of a sample, or samples.
SHARED = [
    Geometry(1, 3, 16, 1, (63, 60), (7, 7), (2, 2), ((3, 3), (3, 3)), (1, 1)),  # the last band is lower
    Geometry(3, 8, 14, 2, (41, 37), (3, 3), (1, 2), ((1, 0), (0, 2)), (2, 1)),
    Geometry(2, 3, 9, 1, (1500,), (7,), (1,), ((0, 0),), (1,)),  # bands of the image itself
    Geometry(1, 2, 64, 1, (4001,), (80,), (4,), ((0, 0),), (1,)),
    Geometry(17, 12, 20, 1, (11, 10), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)),  # several samples together
    Geometry(1, 4, 9, 1, (20, 14, 13), (4, 4, 4), (2, 2, 2), ((1, 1),) * 3, (1, 1, 1)),
    Geometry(2, 32, 33, 1, (33, 16), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),  # two shares
    Geometry(5, 20, 6, 1, (7, 6), (5, 5), (1, 1), ((2, 2), (2, 2)), (1, 1)),  # one panel, five rows or six
    Geometry(2, 12, 10, 2, (9, 9), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)),
    Geometry(1, 4, 20, 4, (23, 22), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),  # the same with few columns: dot products
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("g", SHARED, ids=str)
def test_shares(g, dtype):
    """Against the reference, and the same bits on fewer and on more threads than there are shares."""
    check(g, dtype, "taps")
    x, w, y = data(g, dtype)
    before = threads.get_num_threads()
    results = set()
    try:
        for count in (1, 2, 5, 20):
            threads.set_num_threads(count)
            w_bar = np.full(w.size, np.nan, dtype)
            kernel.conv_weight(x.reshape(-1), y.reshape(-1), w_bar, g.n, g.c, g.o, g.groups, *g.args, "taps")
            results.add(w_bar.tobytes())
    finally:
        threads.set_num_threads(before)
    assert len(results) == 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("g", LARGE, ids=str)
def test_large(g, dtype, algorithm):
    if g.spatial == ():
        x, w, y = data(g, dtype)
        want = [x @ w.T, y @ w, y.T @ x]
        for got, expected in zip(run(g, x, w, y, algorithm), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
        return
    check(g, dtype, algorithm)


THREADED = [
    Geometry(2, 40, 16, 1, (6, 10), (7, 7), (1, 1), ((3, 3), (3, 3)), (1, 1)),  # few tiles, few rows: cut down to panels
    Geometry(1, 90, 13, 1, (9, 9, 9), (5, 5, 5), (2, 2, 2), ((2, 2),) * 3, (1, 1, 1)),
    *(LARGE[i] for i in (0, 1, 3, 5, 8, 12, 16, 17, 19)), *NARROW[:4], NARROW[7], *NARROW[-10:],
    Geometry(2, 32, 100, 1, (12, 11), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),  # one thread packs y_bar, two read it in place
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("g", THREADED, ids=str)
def test_same_bits_for_any_number_of_threads(g, dtype, algorithm):
    arrays = data(g, dtype)
    before = threads.get_num_threads()
    try:
        results = []
        for count in (1, 2, 3, 7):
            threads.set_num_threads(count)
            results.append(run(g, *arrays, algorithm))
    finally:
        threads.set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("g", NARROW, ids=str)
def test_narrow(g, dtype):
    check(g, dtype, "strips")
    check(g, dtype, "auto")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("g", [NARROW[1], NARROW[2], NARROW[7], NARROW[8]], ids=str)
def test_strips_take_another_way_where_padding_meets_infinities(g, dtype):
    x, w, y = data(g, dtype)
    w[0, 0, 0, 0] = np.inf
    y[0, 0, 0, 0] = np.nan
    x[0, 0, 3, 0] = -np.inf
    for got, want in zip(run(g, x, w, y, "strips"), run(g, x, w, y, "direct"), strict=True):
        np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "g",
    [
        Geometry(2, 40, 9, 1, (14, 13), (3, 3), (3, 3), ((1, 1), (0, 2)), (1, 1)),
        Geometry(3, 32, 70, 2, (7, 7), (5, 4), (2, 3), ((2, 2), (3, 1)), (1, 2)),
        Geometry(1, 64, 70, 1, (6, 5, 7), (3, 2, 3), (1, 2, 1), ((1, 1), (0, 1), (1, 1)), (1, 1, 1)),
        Geometry(2, 70, 64, 1, (20,), (3,), (1,), ((1, 1),), (1,)),
        Geometry(16, 8, 4, 4, (9, 9), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    ],
    ids=str,
)
def test_short_rows_of_many_channels(g, dtype):
    """Planes filled by a list of cells."""
    check(g, dtype, "taps")


# conv_input of few outputs: windows, folded.
FOLDED = [
    Geometry(5, 7, 40, 1, (6, 6), (5, 5), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    Geometry(70, 3, 50, 1, (5, 4), (3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1)),  # more samples than come together
    Geometry(2, 90, 300, 1, (9, 9), (7, 7), (1, 1), ((0, 0), (0, 0)), (1, 1)),  # several parts of the channels
    Geometry(1, 6, 60, 2, (12, 11), (6, 7), (2, 1), ((1, 0), (0, 1)), (1, 1)),  # a part of the covered plane is the image
    Geometry(3, 4, 80, 1, (13,), (4,), (2,), ((0, 0),), (3,)),  # cells that no window covers
    Geometry(2, 5, 60, 1, (5, 5, 6), (4, 3, 5), (1, 1, 2), ((0, 0),) * 3, (1, 2, 1)),
    Geometry(1, 2, 90, 1, (4, 4, 4, 4), (3, 3, 3, 3), (1, 1, 1, 1), ((0, 0),) * 4, (1, 1, 1, 1)),
]


def conv_input_by_taps(g, dtype):
    """x_bar with a bias (the same bits on any number of threads, the scratch as foretold), x_bar without, the bias."""
    x, w, y = data(g, dtype)
    b = np.arange(1, g.c + 1, dtype=dtype)
    before = threads.get_num_threads()
    results = set()
    try:
        for count in (1, 2, 3, 9):
            threads.set_num_threads(count)
            step = kernels.step("conv_input", dtype == np.float64, True, g.n, g.c, g.o, g.groups, *g.args, "taps")
            x_bar = np.full(x.size, np.nan, dtype)
            assert step.measure(y.reshape(-1), w.reshape(-1), b, x_bar)[1] == 0
            results.add(x_bar.tobytes())
    finally:
        threads.set_num_threads(before)
    assert len(results) == 1
    return x_bar.reshape(x.shape), run(g, x, w, y, "taps")[1], b.reshape(-1, *[1] * len(g.spatial))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("g", FOLDED, ids=str)
def test_folded_windows(g, dtype):
    """Against the reference; the bias is added last."""
    check(g, dtype, "taps")
    x_bar, plain, b = conv_input_by_taps(g, dtype)
    np.testing.assert_array_equal(x_bar, plain + b)


# conv_input with strides: strips for all residues.
PHASED = [
    Geometry(5, 32, 24, 2, (5, 1), (9, 7), (4, 4), ((2, 2), (8, 8)), (1, 1)),  # so few strips that threads share the channels
    Geometry(2, 32, 8, 1, (20, 14), (9, 3), (4, 3), ((10, 10), (4, 4)), (1, 1)),
    Geometry(5, 9, 64, 1, (1, 3), (11, 7), (3, 3), ((10, 10), (3, 3)), (1, 1)),
    Geometry(5, 9, 5, 1, (4, 2, 3, 1), (3,) * 4, (3, 1, 2, 2), ((1, 1), (1, 1), (0, 0), (4, 4)), (1,) * 4),
    Geometry(8, 16, 32, 1, (16, 15), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)),  # small planes, one after the other
    Geometry(3, 70, 96, 1, (9, 8), (3, 2), (2, 2), ((1, 0), (0, 1)), (1, 1)),  # several blocks of terms
    Geometry(2, 8, 10, 2, (41,), (9,), (4,), ((3, 4),), (1,)),  # fewer channels than a panel has rows
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("g", PHASED, ids=str)
def test_strips_for_all_residues(g, dtype):
    """Against the reference; a few roundings more where the bias begins the sums."""
    check(g, dtype, "taps")
    x_bar, plain, b = conv_input_by_taps(g, dtype)
    np.testing.assert_allclose(x_bar, plain + b, rtol=0, atol=16 * np.finfo(dtype).eps * np.abs(plain).max(initial=1))


# Rows that are split into the stride's phases: by twos, and with more of them all at once.
SPLIT = [
    Geometry(2, 3, 8, 1, (6, 61), (3, 4), (2, 4), ((1, 1), (2, 3)), (1, 1)),  # cells that only some phases have, at both ends
    Geometry(1, 3, 5, 1, (18, 64), (16, 16), (16, 16), ((0, 0), (0, 0)), (1, 1)),
    Geometry(2, 7, 9, 1, (175,), (3,), (3,), ((1, 1),), (1,)),  # three phases, which are read with the next one's first
    Geometry(1, 2, 8, 1, (3, 58), (3, 7), (1, 5), ((1, 1), (4, 0)), (1, 1)),
    Geometry(1, 2, 3, 1, (4, 120), (1, 4), (1, 7), ((0, 0), (0, 0)), (1, 1)),  # fewer phases than the stride has
    Geometry(33, 2, 7, 1, (4, 41), (2, 3), (2, 2), ((0, 0), (1, 0)), (1, 1)),  # runs of different lengths
    Geometry(70, 1, 6, 1, (5, 6), (3, 3), (1, 2), ((1, 1), (4, 5)), (1, 1)),  # more padding than cells
]


@pytest.mark.parametrize("algorithm", ["taps", "strips"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("g", SPLIT, ids=str)
def test_rows_are_split_into_phases(g, dtype, algorithm):
    check(g, dtype, algorithm)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bias(dtype):
    for g in (LARGE[1], LARGE[3], NARROW[0], NARROW[2], NARROW[8], Geometry(1, 0, 4, 1, (5,), (2,), (1,), ((0, 0),), (1,))):
        x, w, y = data(g, dtype)
        b = np.arange(1, g.o + 1, dtype=dtype)
        out = np.empty_like(y)
        kernel.conv(x.reshape(-1), w.reshape(-1), b, out.reshape(-1), g.n, g.c, g.o, g.groups, *g.args)
        plain = run(g, x, w, y)[0]
        expected = plain + b.reshape(1, -1, *[1] * len(g.spatial))
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_padding_never_meets_infinities(dtype, value):
    """A padding cell contributes nothing: 0 * inf must not appear."""
    g = Geometry(1, 2, 3, 1, (5, 6), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))
    x, w, y = (np.round(8 * a) for a in data(g, dtype))  # small integers: every order of their sums is exact
    w[1, 0, 0, 0] = value  # reads padding at the first row and column
    y[0, 2, 0, 0] = value
    for a, b in zip(got := run(g, x, w, y), run(g, x, w, y, "direct"), strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.isfinite(got[0][0, 1, 0]).all() and not np.isfinite(got[0][0, 1, 1, 1:]).any()
    assert np.isfinite(got[2][2, :, 0, 0]).all() and not np.isfinite(got[2][2, :, 1:, 1:]).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_cells_between_rows_never_meet_infinities(dtype):
    """Depthwise weight gradients run along whole planes: what lies between rows must not count either."""
    g = Geometry(2, 3, 3, 3, (5, 6), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))
    x, w, y = data(g, dtype)
    x[0, 1, 2, 0] = np.inf
    for a, b in zip(run(g, x, w, y), run(g, x, w, y, "direct"), strict=True):
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    assert np.isfinite(run(g, x, w, y)[2][1, 0, :, 2]).all()  # the last column of taps never reads column 0


def test_planes_too_large_take_another_way():
    """A billion cells of padding around ten: the answer is two products, not 4 GB of planes."""
    far = 10**9
    x, w, y = np.arange(10.0), np.array([2.0, 3.0]), np.empty(1)
    geometry = ((10,), (2,), (1,), (1,), (far - 4,), (far,))
    kernel.conv(x, w, None, y, 1, 1, 1, 1, *geometry)
    assert y[0] == 3.0 * x[4]
    with pytest.raises(MemoryError, match="algorithm='auto'"):
        kernel.conv(x, w, None, y, 1, 1, 1, 1, *geometry, "taps")


@given(geometries(), st.sampled_from(DTYPES))
@settings(max_examples=150, deadline=None)
def test_unfold_and_fold(g, dtype):
    x, _, _ = data(g, dtype)
    shape = (g.n, g.c, *g.kernel, *g.out)
    cols = np.full(shape, np.nan, dtype)
    kernel.unfold(x.reshape(-1), cols.reshape(-1), g.n, g.c, *g.args)
    padded = np.pad(x, [(0, 0), (0, 0), *g.pads])
    for tap in itertools.product(*map(range, g.kernel)):
        axes = zip(tap, g.dilation, g.stride, g.out, strict=True)
        window = tuple(slice(k * d, k * d + (p - 1) * s + 1, s) for k, d, s, p in axes)
        np.testing.assert_array_equal(
            cols[(slice(None), slice(None), *tap)], padded[(slice(None), slice(None), *window)]
        )
    v = np.random.default_rng(1).integers(-4, 5, shape).astype(dtype)
    back = np.full(x.shape, np.nan, dtype)
    kernel.fold(v.reshape(-1), back.reshape(-1), g.n, g.c, *g.args)
    whole = np.round(x * 4)
    kernel.unfold(whole.reshape(-1), cols.reshape(-1), g.n, g.c, *g.args)
    assert np.sum(cols.astype(float) * v) == np.sum(whole.astype(float) * back)  # small integers: exact


def test_kernels_refuse_what_does_not_fit():
    x, w, y = np.zeros(10), np.zeros(2), np.zeros(9)
    good = ((10,), (2,), (9,), (1,), (0,), (1,))
    kernel.conv(x, w, None, y, 1, 1, 1, 1, *good)
    for bad in (
        ((11,), *good[1:]),
        (*good[:2], (10,), *good[3:]),
        ((10, 1), *good[1:]),
        (*good[:3], (0,), *good[4:]),
        (*good[:4], (-1,), good[5]),
        (*good[:5], (2**62,)),
    ):
        with pytest.raises(ValueError, match="lean_nn_c"):
            kernel.conv(x, w, None, y, 1, 1, 1, 1, *bad)
    with pytest.raises(ValueError, match="lean_nn_c"):
        kernel.conv(x, w, np.zeros(2), y, 1, 1, 1, 1, *good)
    with pytest.raises(ValueError, match="lean_nn_c"):
        kernel.conv(x, w, None, y, 1, 1, 1, 2, *good)
    with pytest.raises(ValueError, match="unknown algorithm"):
        kernel.conv(x, w, None, y, 1, 1, 1, 1, *good, "magic")


def test_read_only_input():
    x, w, y = np.ones(10), np.ones(2), np.zeros(9)
    x.flags.writeable = w.flags.writeable = False
    kernel.conv(x, w, None, y, 1, 1, 1, 1, (10,), (2,), (9,), (1,), (0,), (1,))
    assert (y == 2).all()
