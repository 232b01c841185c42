"""Winograd's algorithm beyond 3 x 3: large kernels, strides, dilation, one axis and three, by virtual channels and rows."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import conv_calls as kernel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lean_nn.precision import set_precision
from lean_nn_c import conv as kernels
from lean_nn_c import threads

DTYPES = (np.float32, np.float64)


@dataclass(frozen=True)
class Case:
    n: int
    c: int
    o: int
    spatial: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int = 1

    @property
    def out(self):
        axes = zip(self.spatial, self.kernel, self.stride, self.pads, self.dilation, strict=True)
        return tuple((i + a + b - d * (k - 1) - 1) // s + 1 for i, k, s, (a, b), d in axes)

    def data(self, dtype):
        rng = np.random.default_rng(0)
        sizes = (
            self.n * self.c * prod(self.spatial),
            self.o * self.c // self.groups * prod(self.kernel),
            self.n * self.o * prod(self.out),
            self.o,
        )
        return [rng.standard_normal(size).astype(dtype) for size in sizes]

    def run(self, x, w, y, b, algorithm):
        """conv, conv_input and conv_weight; results start as NaN, so that an unwritten cell shows."""
        before = tuple(a for a, _ in self.pads)
        args = (
            self.n,
            self.c,
            self.o,
            self.groups,
            self.spatial,
            self.kernel,
            self.out,
            self.stride,
            before,
            self.dilation,
        )
        out, x_bar, w_bar = (np.full_like(a, np.nan) for a in (y, x, w))
        kernel.conv(x, w, b, out, *args, algorithm)
        kernel.conv_input(y, w, x_bar, *args, algorithm)
        kernel.conv_weight(x, y, w_bar, *args, algorithm)
        return out, x_bar, w_bar


def case(n, c, o, size, ker, stride=1, pad=0, dilation=1, rank=2):
    return Case(n, c, o, (size,) * rank, (ker,) * rank, (stride,) * rank, ((pad, pad),) * rank, (dilation,) * rank)


LARGE = [
    case(1, 32, 64, 64, 4, 2, 1),  # transposed convolution: 2 x 2 phases of outputs
    case(1, 16, 24, 20, 5, 1, 2),
    case(6, 32, 40, 14, 5, 1, 2),  # tiles at the edges are zones
    case(2, 20, 13, 15, 4, 1, 1),
    case(1, 12, 20, 26, 10, 1, 4),  # two blocks of five taps
    case(2, 17, 9, 15, 7, 1, 3),
    case(1, 16, 16, 19, 5, 2, 2),
    case(1, 24, 16, 25, 3, 1, 2, 2),
    case(1, 16, 20, 9, 3, 1, 1, rank=3),
    case(1, 8, 16, 10, 4, 2, 1, rank=3),
    case(2, 24, 20, 300, 9, 1, 4, rank=1),
    case(1, 16, 16, 200, 15, 1, 7, rank=1),
    case(1, 16, 16, 200, 9, 1, 8, 2, rank=1),
    case(24, 18, 20, 14, 5, 1, 2),  # four zones, two outputs of a tile at the edges
    case(40, 16, 12, 9, 4, 1, 2),  # 10 of conv, 9 of conv_input
    case(48, 20, 16, 7, 3, 1, 1),  # three outputs at the edges
    case(24, 16, 16, 13, 3, 1, 2, 2),  # residues of seven and of six outputs
    case(32, 16, 24, 13, 5, 2, 2),
    case(8, 16, 17, 6, 3, 1, 1, rank=3),
    case(2, 24, 20, 300, 3, 1, 1, rank=1),  # flat tiles, most of them read where they lie
    case(1, 70, 40, 203, 5, 1, 2, rank=1),
    case(8, 64, 24, 40, 3, 1, 1, rank=1),  # so few that threads share w_bar by rectangles
    case(1, 16, 24, 200, 4, 2, 1, rank=1),
    case(1, 16, 16, 200, 3, 1, 2, 2, rank=1),
    Case(3, 16, 20, (6, 30), (1, 5), (1, 1), ((0, 0), (2, 2)), (1, 1)),
    Case(2, 12, 20, (1, 41), (1, 3), (1, 1), ((0, 0), (0, 3)), (1, 1), 2),
    Case(1, 8, 12, (17, 30), (1, 7), (1, 1), ((0, 0), (3, 3)), (1, 1), 2),
]


@st.composite
def cases(draw):
    """One to three axes, stride or dilation 1 on each."""
    rank = draw(st.integers(1, 3))
    longest = {1: 20, 2: 11, 3: 5}[rank]
    groups = draw(st.integers(1, 2))
    c, o = (groups * draw(st.sampled_from((0, 1, 3, 8, 17))) for _ in range(2))
    axes = []
    for axis in range(rank):
        ker, (s, d) = draw(st.integers(1, longest)), draw(st.sampled_from(((1, 1), (2, 1), (3, 1), (1, 2), (1, 3))))
        before, after = draw(st.integers(0, 4)), draw(st.integers(0, 4))
        least = max(1, d * (ker - 1) + 1 - before - after)
        size = draw(st.integers(least, least + (60 if rank == 1 else 25 if axis else 5)))
        axes.append((size, ker, s, (before, after), d))
    few = prod(size for size, *_ in axes) < 200
    samples = draw(st.sampled_from((0, 1, 2, 3, 40) if few else (0, 1, 2, 3)))  # many: tiles at the edges are zones
    return Case(samples, c, o, *zip(*axes, strict=True), groups)


@given(cases(), st.sampled_from(DTYPES), st.integers(1, 3))
@settings(max_examples=300, deadline=None)
def test_any_geometry(case, dtype, count):
    """Close to the definition: 2,000 roundings of the size of a result, where the bound allows more."""
    before = threads.get_num_threads()
    threads.set_num_threads(count)
    arrays = case.data(dtype)
    try:
        got = case.run(*arrays, "winograd")
    finally:
        threads.set_num_threads(before)
    wants = case.run(*(a.astype(np.float64) for a in arrays), "direct")
    for a, want in zip(got, wants, strict=True):
        assert np.all(abs(a - want) <= 1000 * np.finfo(dtype).eps * (1 + abs(want).max(initial=0)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", LARGE, ids=str)
def test_same_bits_for_any_number_of_threads(case, dtype):
    arrays, before, results = case.data(dtype), threads.get_num_threads(), []
    try:
        for count in (1, 2, 3, 7):
            threads.set_num_threads(count)
            results.append([a.tobytes() for a in case.run(*arrays, "winograd")])
    finally:
        threads.set_num_threads(before)
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("case", LARGE[:-1], ids=str)
def test_error_within_five_times_the_classical(case):
    """Not so for the last: a single row of taps is mostly zeros as a 3 x 3 filter; there it does not pay either."""
    arrays = case.data(np.float32)
    wants = case.run(*(a.astype(np.float64) for a in arrays), "direct")
    fast, classical = case.run(*arrays, "winograd"), case.run(*arrays, "taps")
    for a, b, want in zip(fast, classical, wants, strict=True):
        assert np.sqrt(np.mean((a - want) ** 2)) < 5 * np.sqrt(np.mean((b - want) ** 2))


@pytest.mark.parametrize("taps", [4, 5, 10])
def test_points_off_the_real_line_halve_the_error(taps):
    """Blocks of five taps by nine products: 1.1 to 1.8 times the classical error, where blocks of three have 2.2 to 3."""
    shape = case(4, 32, 32, 26, taps, 1, taps // 2)
    arrays = shape.data(np.float32)
    wants = shape.run(*(a.astype(np.float64) for a in arrays), "direct")
    fast, classical = shape.run(*arrays, "winograd"), shape.run(*arrays, "taps")
    for a, b, want in zip(fast, classical, wants, strict=True):
        assert np.sqrt(np.mean((a - want) ** 2)) < 2 * np.sqrt(np.mean((b - want) ** 2))


@pytest.mark.parametrize("dtype", DTYPES)
def test_lines_of_strided_and_dilated_rows(dtype):
    """Another axis with both leaves flat tiles, whose virtual channels are the rows of taps; conv_input has no such way."""
    x, w, y, _ = (np.round(4 * a) for a in Case(2, 12, 20, (14, 30), (3, 5), (2, 1), ((1, 1), (2, 2)), (2, 1)).data(dtype))
    args = (2, 12, 20, 1, (14, 30), (3, 5), (6, 30), (2, 1), (1, 2), (2, 1))
    (out, want), (w_bar, w_want) = ([np.full_like(a, np.nan) for _ in range(2)] for a in (y, w))
    for name, to, bar in (("winograd", out, w_bar), ("direct", want, w_want)):
        kernel.conv(x, w, None, to, *args, name)
        kernel.conv_weight(x, y, bar, *args, name)
    for got, exact in ((out, want), (w_bar, w_want)):  # sums of integers are exact by definition, and nearly so by tiles
        assert np.abs(got - exact).max() <= 100 * np.finfo(dtype).eps * np.abs(exact).max()
    with pytest.raises(ValueError, match="winograd needs at most three axes"):
        kernel.conv_input(y, w, np.empty_like(x), *args, "winograd")


@pytest.mark.parametrize("rank, size, taps", [(2, 14, 5), (1, 50, 5), (1, 50, 3)])
def test_both_gradients_of_one_call(rank, size, taps):
    """It has conv_input's bits, and conv_weight's value."""
    shape = case(32, 16, 24, size, taps, 1, taps // 2, rank=rank)
    x, w, y, b = shape.data(np.float32)
    args = (32, 16, 24, 1, shape.spatial, shape.kernel, shape.out, shape.stride, (taps // 2,) * rank, shape.dilation)
    _, x_bar, w_bar = shape.run(x, w, y, b, "winograd")
    _, _, want = shape.run(*(a.astype(np.float64) for a in (x, w, y, b)), "direct")
    got = np.full_like(x, np.nan), np.full_like(w, np.nan)
    kernels.both(False, *args, "winograd")(y, w, x, *got)
    assert got[0].tobytes() == x_bar.tobytes()
    assert np.sqrt(np.mean((got[1] - want) ** 2)) < 2 * np.sqrt(np.mean((w_bar - want) ** 2))


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e38])
@pytest.mark.parametrize("case", LARGE, ids=str)
def test_what_is_not_finite_is_computed_again(case, value):
    for place in (0, 1, 2):
        arrays = case.data(np.float32)
        arrays[place][0] = value
        with np.errstate(all="ignore"):
            for got, want in zip(case.run(*arrays, "winograd"), case.run(*arrays, "direct"), strict=True):
                assert (np.isfinite(got) == np.isfinite(want)).all()
                assert (np.isnan(got) == np.isnan(want)).all()


@pytest.mark.parametrize("shape", [case(1, 64, 64, 28, 5, 1, 2), case(1, 96, 96, 300, 5, 1, 2, rank=1)], ids=str)
def test_auto_takes_it_where_it_pays_and_fast_is_allowed(shape):
    arrays = shape.data(np.float32)
    fast, *classical = ([a.tobytes() for a in shape.run(*arrays, name)] for name in ("winograd", "taps", "points"))
    assert [a.tobytes() for a in shape.run(*arrays, "auto")] == fast
    try:
        set_precision("exact")
        for got, wants in zip(shape.run(*arrays, "auto"), zip(*classical, strict=True), strict=True):
            assert got.tobytes() in wants
    finally:
        set_precision("fast")
    pointwise = case(1, 64, 64, 28, 1)
    arrays = pointwise.data(np.float32)
    assert [a.tobytes() for a in pointwise.run(*arrays, "auto")] == [
        a.tobytes() for a in pointwise.run(*arrays, "taps")
    ]
