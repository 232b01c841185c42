"""Winograd's convolution against float64, its error beside the classical kernel's, its bits on any number of threads."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import conv_calls as kernel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lean_nn.graph.passes import norms
from lean_nn.precision import get_precision, set_precision
from lean_nn.primitive import Aval
from lean_nn_c import conv as kernels
from lean_nn_c import threads

DTYPES = (np.float32, np.float64)
A_SUM, B_SUM, G_SUM, GT_SUM = 8.3, 5.3, 1.4, 2.8  # more than the row sums of |A| and |A^T|, |B^T|, |G| and |G^T|


@dataclass(frozen=True)
class Case:
    n: int
    c: int
    o: int
    groups: int
    spatial: tuple[int, int]
    pads: tuple[tuple[int, int], tuple[int, int]]

    @property
    def out(self):
        return tuple(s + a + b - 2 for s, (a, b) in zip(self.spatial, self.pads, strict=True))

    @property
    def args(self):
        before = tuple(a for a, _ in self.pads)
        return (self.n, self.c, self.o, self.groups, self.spatial, (3, 3), self.out, (1, 1), before, (1, 1))

    def data(self, dtype, seed=0):
        rng = np.random.default_rng(seed)
        shapes = (
            (self.n, self.c, *self.spatial),
            (self.o, self.c // self.groups, 3, 3),
            (self.n, self.o, *self.out),
            (self.o,),
        )
        return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def taps(case):
    """The kernel's cells and the groups: indices of w_bar without its channels, and of the padded image; of y."""
    cg, og = case.c // case.groups, case.o // case.groups
    for i, j, g in np.ndindex(3, 3, case.groups):
        cs, os = slice(g * cg, (g + 1) * cg), slice(g * og, (g + 1) * og)
        yield i, j, os, (slice(None), cs, slice(i, i + case.out[0]), slice(j, j + case.out[1]))


def reference(case, x, w, y, b):
    """conv(x, w) + b and conv_input(y, w) in float64, a tap and a group at a time."""
    x, w, y, b = (a.astype(np.float64) for a in (x, w, y, b))
    padded = np.pad(x, [(0, 0), (0, 0), *case.pads])
    padded_bar, out = np.zeros_like(padded), np.zeros_like(y) + b.reshape(-1, 1, 1)
    for i, j, os, window in taps(case):
        out[:, os] += np.einsum("ncyx,oc->noyx", padded[window], w[os, :, i, j])
        padded_bar[window] += np.einsum("noyx,oc->ncyx", y[:, os], w[os, :, i, j])
    (top, _), (left, _) = case.pads
    return out, padded_bar[:, :, top : top + case.spatial[0], left : left + case.spatial[1]]


def weight_reference(case, x, y, dtype=np.float64):
    """conv_weight(x, y) in the same way."""
    padded, y = np.pad(x.astype(dtype), [(0, 0), (0, 0), *case.pads]), y.astype(dtype)
    w_bar = np.zeros((case.o, case.c // case.groups, 3, 3), dtype)
    for i, j, os, window in taps(case):
        w_bar[os, :, i, j] = np.tensordot(y[:, os], padded[window], ((0, 2, 3), (0, 2, 3)))
    return w_bar


def run(case, x, w, y, b, algorithm="winograd"):
    """The same from the kernels; results start as NaN, so that an unwritten cell shows."""
    out, x_bar, w_bar = (np.full_like(a, np.nan) for a in (y, x, w))
    kernel.conv(x.reshape(-1), w.reshape(-1), b, out.reshape(-1), *case.args, algorithm)
    kernel.conv_input(y.reshape(-1), w.reshape(-1), x_bar.reshape(-1), *case.args, algorithm)
    kernel.conv_weight(x.reshape(-1), y.reshape(-1), w_bar.reshape(-1), *case.args, algorithm)
    return out, x_bar, w_bar


def rms(a):
    return float(np.sqrt(np.mean(np.square(a)))) if a.size else 0.0


def check(case, dtype, seed=0, run=run, cells=None):
    """Every output within the stated bound, taken over the largest |x| and |w| there are; `cells` are those of w_bar's tiles."""
    x, w, y, b = case.data(dtype, seed)
    u = np.finfo(dtype).eps / 2
    got, want = run(case, x, w, y, b), (*reference(case, x, w, y, b), weight_reference(case, x, y))
    largest = [float(abs(a).max(initial=0)) for a in (x, y, w)]
    for i, terms in enumerate((case.c // case.groups, case.o // case.groups)):
        sizes = largest[i] * largest[2]
        gamma = u * (min(terms, 64) + terms / 64 + 32)
        bound = gamma / (1 - gamma) * terms * (A_SUM * B_SUM * G_SUM) ** 2 * sizes + 4 * u * abs(b).max(initial=0)
        assert np.all(abs(got[i] - want[i]) <= bound)
        assert rms(got[i] - want[i]) <= 40 * u * max(terms, 1) ** 0.5 * 3 * max(sizes, 1)
    tiles = case.n * prod(-(-n // 2) for n in cells or case.out)  # or fewer, if they are of 4 x 4 cells
    gamma = u * (32 + tiles / 32 + 32)
    assert np.all(
        abs(got[2] - want[2]) <= gamma / (1 - gamma) * tiles * (A_SUM * B_SUM * GT_SUM) ** 2 * prod(largest[:2])
    )
    assert rms(got[2] - want[2]) <= 40 * u * max(4 * tiles, 1) ** 0.5 * max(prod(largest[:2]), 1)


@st.composite
def cases(draw):
    groups = draw(st.integers(1, 3))
    c, o = (groups * draw(st.sampled_from((0, 1, 2, 3, 5, 6, 7, 8, 13, 25))) for _ in range(2))
    pads = tuple((draw(st.integers(0, 5)), draw(st.integers(0, 5))) for _ in range(2))
    spatial = tuple(draw(st.integers(max(1, 3 - a - b), 30)) for a, b in pads)
    return Case(draw(st.integers(0, 5)), c, o, groups, spatial, pads)


@given(cases(), st.sampled_from(DTYPES), st.integers(1, 3))
@settings(max_examples=300, deadline=None)
def test_any_geometry(case, dtype, count):
    before = threads.get_num_threads()
    threads.set_num_threads(count)
    try:
        check(case, dtype)
    finally:
        threads.set_num_threads(before)


SAME = ((1, 1), (1, 1))
LARGE = [
    Case(40, 30, 18, 1, (10, 10), SAME),  # several blocks of tiles for the weight
    Case(1, 64, 64, 1, (56, 56), SAME),
    Case(1, 130, 70, 1, (28, 28), SAME),  # three blocks of channels, 49 tiles
    Case(1, 96, 96, 1, (7, 7), SAME),  # 2 x 2 tiles
    Case(32, 16, 20, 1, (14, 14), SAME),
    Case(16, 24, 9, 1, (7, 7), SAME),
    Case(2, 33, 31, 1, (40, 61), ((0, 2), (1, 0))),
    Case(4, 24, 48, 3, (30, 30), SAME),
    Case(1, 8, 8, 1, (3, 300), SAME),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", LARGE, ids=str)
def test_large(case, dtype):
    check(case, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", LARGE, ids=str)
def test_error_within_five_times_the_classical(case, dtype):
    """What makes "fast" the default; the ratio is about 2 for 4 x 4 tiles and below 1 for 2 x 2."""
    arrays = case.data(dtype)
    wants = reference(case, *arrays)
    for fast, classical, want in zip(run(case, *arrays)[:2], run(case, *arrays, "taps")[:2], wants, strict=True):
        assert rms(fast - want) < 5 * rms(classical - want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", LARGE, ids=str)
def test_error_of_the_weight_within_five_times_the_classical(case, dtype):
    """Against more digits than the kernel has; the ratio is 1.5 to 4, most where the classical sums are short."""
    arrays = case.data(dtype)
    want = weight_reference(case, arrays[0], arrays[2], np.longdouble if dtype == np.float64 else np.float64)
    assert rms(run(case, *arrays)[2] - want) < 5 * rms(run(case, *arrays, "taps")[2] - want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", LARGE, ids=str)
def test_same_bits_for_any_number_of_threads(case, dtype):
    arrays = case.data(dtype)
    before = threads.get_num_threads()
    results = []
    try:
        for count in (1, 2, 3, 7):
            threads.set_num_threads(count)
            results.append([a.tobytes() for a in run(case, *arrays)])
    finally:
        threads.set_num_threads(before)
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e38])
def test_what_is_not_finite_is_computed_again(value):
    case = Case(1, 8, 8, 1, (12, 12), SAME)
    for place in (0, 1, 2):
        arrays = case.data(np.float32)
        arrays[place][(0,) * 4] = value
        with np.errstate(all="ignore"):
            for got, want in zip(run(case, *arrays), run(case, *arrays, "direct"), strict=True):
                assert (np.isfinite(got) == np.isfinite(want)).all()
                assert (np.isnan(got) == np.isnan(want)).all()


# --- both gradients at once, images that are made as they are read ---


def both(case, x, w, y, *more, algorithm="winograd", **options):
    """x_bar and w_bar by one call, in scratch that was counted beforehand; None where there is no such call."""
    step = kernels.both(x.dtype == np.float64, *case.args, algorithm, **options)
    if step is None:
        return None
    x_bar, w_bar = np.full_like(x, np.nan), np.full_like(w, np.nan)
    assert step.measure(y, w, x, *more, x_bar, w_bar)[1] == 0, "scratch beyond what was said"
    return x_bar, w_bar


def run_both(case, x, w, y, b):
    apart = run(case, x, w, y, b)
    found = both(case, x, w, y)
    if found is None:
        many = max(case.c, case.o) >= 25 or case.n * prod(case.spatial) < 4000
        assert case.groups > 1 or 0 in (case.n, case.c, case.o) or many or min(case.spatial) < 3
        return apart
    assert found[0].tobytes() == apart[1].tobytes()
    return (apart[0], *found)


@given(cases(), st.sampled_from(DTYPES), st.integers(1, 3))
@settings(max_examples=300, deadline=None)
def test_both_gradients_of_any_geometry(case, dtype, count):
    before = threads.get_num_threads()
    threads.set_num_threads(count)
    try:
        check(case, dtype, run=run_both, cells=case.spatial)
    finally:
        threads.set_num_threads(before)


BOTH = [
    Case(32, 16, 16, 1, (32, 32), SAME),
    Case(8, 33, 20, 1, (15, 17), SAME),
    Case(32, 40, 48, 1, (8, 8), SAME),
    Case(3, 8, 12, 1, (21, 30), ((0, 2), (1, 0))),
]


def head_of(case, x, dtype):
    """Four numbers for each channel, and the image that they make of x."""
    rng = np.random.default_rng(5)
    mean, rstd, w, b = (rng.standard_normal((1, case.c, 1, 1)).astype(dtype) for _ in range(4))
    aval = [Aval(a.shape, a.dtype) for a in (x, w, b, mean, rstd)]
    image = np.empty_like(x)
    norms.again.step(*aval, out=aval[:1], axes=(0, 2, 3))(x, w, b, mean, rstd, image)
    return (mean, rstd, w, b), image


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", BOTH, ids=str)
def test_a_head_and_a_tail_give_the_bits_of_separate_operations(case, dtype):
    x, w, y, b = case.data(dtype)
    head, image = head_of(case, x, dtype)
    assert (image == 0).any() and (image > 0).any()
    other, gate = np.roll(x, 3), np.roll(x, 7)
    x_bar, w_bar = both(case, image, w, y)
    assert x_bar.tobytes() == both(case, x, w, y)[0].tobytes()
    want = np.where(gate <= 0, np.zeros_like(x_bar), x_bar + other)
    conv, wide = np.full_like(y, np.nan), dtype == np.float64
    kernel.conv(image.reshape(-1), w.reshape(-1), b, conv.reshape(-1), *case.args, "winograd")
    before = threads.get_num_threads()
    try:
        for count in (1, 2, 3, 7):
            threads.set_num_threads(count)
            got = both(case, x, w, y, other, gate, *head, other=True, act="relu_gate", head=True)
            assert [a.tobytes() for a in got] == [want.tobytes(), w_bar.tobytes()]
            read = np.full_like(y, np.nan)
            kernels.step("conv", wide, True, *case.args, "winograd", head=True)(x, w, b, *head, read)
            assert read.tobytes() == conv.tobytes()
    finally:
        threads.set_num_threads(before)


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e38])
def test_heads_and_both_gradients_of_what_is_not_finite(value):
    """Each is computed again by the ways that the separate kernels have."""
    case = Case(4, 8, 8, 1, (24, 24), SAME)
    for place in (0, 1, 2):
        x, w, y, b = arrays = case.data(np.float32)
        arrays[place][(0,) * 4] = value
        with np.errstate(all="ignore"):
            head, image = head_of(case, x, np.float32)
            wants = run(case, image, w, y, b, "direct")
            conv = np.full_like(y, np.nan)
            kernels.step("conv", False, True, *case.args, "winograd", head=True)(x, w, b, *head, conv)
            step = kernels.both(False, *case.args, "winograd", head=True)
            x_bar, w_bar = np.full_like(x, np.nan), np.full_like(w, np.nan)
            step(y, w, x, *head, x_bar, w_bar)
            for got, want in zip((conv, x_bar, w_bar), wants, strict=True):
                assert (np.isfinite(got) == np.isfinite(want)).all() and (np.isnan(got) == np.isnan(want)).all()


def test_where_there_are_no_heads_and_no_pairs():
    case = BOTH[0]
    assert kernels.headed(False, *case.args) and kernels.both(False, *case.args) is not None
    strided = (*case.args[:6], (16, 16), (2, 2), *case.args[8:])
    grouped = (*case.args[:3], 2, *case.args[4:])
    for args in (strided, grouped):
        assert not kernels.headed(False, *args) and kernels.both(False, *args) is None
        with pytest.raises(ValueError, match="no head for this geometry"):
            kernels.step("conv", False, False, *args, head=True)
    try:
        set_precision("exact")
        assert not kernels.headed(False, *case.args) and kernels.both(False, *case.args) is None
    finally:
        set_precision("fast")


def test_precision_turns_it_off():
    case = LARGE[0]
    arrays = case.data(np.float32)
    fast, *classical = ([a.tobytes() for a in run(case, *arrays, name)] for name in ("winograd", "taps", "points"))
    assert all(a not in b for a, b in zip(fast, zip(*classical, strict=True), strict=True))
    assert get_precision() == "fast"
    assert [a.tobytes() for a in run(case, *arrays, "auto")] == fast
    try:
        set_precision("exact")
        assert get_precision() == "exact"
        for got, wants in zip(run(case, *arrays, "auto"), zip(*classical, strict=True), strict=True):
            assert got.tobytes() in wants
    finally:
        set_precision("fast")
    with pytest.raises(ValueError, match='set_precision: "exact" or "fast"; got \'quick\'; choose one'):
        set_precision("quick")


def test_it_says_where_it_does_not_apply():
    x, w, y = np.zeros(64), np.zeros(4), np.zeros(9)
    with pytest.raises(
        ValueError, match=r"winograd needs at most three axes, .*; got kernel \(2, 2\), stride \(2, 2\)"
    ):
        kernel.conv(x, w, None, y, 1, 1, 1, 1, (8, 8), (2, 2), (3, 3), (2, 2), (0, 0), (2, 2), "winograd")
    with pytest.raises(ValueError, match="winograd needs"):
        kernel.conv_input(
            x[:8], x[:8], x[:8], 1, 8, 8, 8, (1,) * 4, (1,) * 4, (1,) * 4, (1,) * 4, (0,) * 4, (1,) * 4, "winograd"
        )
