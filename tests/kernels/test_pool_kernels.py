"""The pooling kernels alone, against loops over plain index lists."""

import itertools
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lean_nn.window import Bins, Window, strided
from lean_nn_c import index, pool, pool_average, pool_smooth, threads

DTYPES = [np.float32, np.float64]
PADDED, REAL, GIVEN = 0, 1, 2


def axis_cells(w, axis, n, p):
    """All cells of window p on one axis, those outside the input included, and the end of the padded axis."""
    if isinstance(w, Bins):
        out = n if w.output[axis] is None else w.output[axis]
        return range(p * n // out, -(-(p + 1) * n // out)), n
    first = p * w.stride[axis] - w.padding[axis][0]
    cells = range(first, first + w.kernel[axis] * w.dilation[axis], w.dilation[axis])
    return cells, n + w.padding[axis][1]


def windows(w, spatial):
    """(output index, flat indices of the real cells, cells inside the padded input) of every window."""
    pitch = [math.prod(spatial[a + 1 :]) for a in range(len(spatial))]
    for out in itertools.product(*(range(m) for m in w.out_spatial(spatial))):
        lists = [axis_cells(w, a, n, p) for a, (n, p) in enumerate(zip(spatial, out, strict=True))]
        real = [[q for q in cells if 0 <= q < n] for (cells, _), n in zip(lists, spatial, strict=True)]
        padded = math.prod(sum(q < end for q in cells) for cells, end in lists)
        flat = [sum(q * m for q, m in zip(cell, pitch, strict=True)) for cell in itertools.product(*real)]
        yield out, flat, padded


def first_winner(values):
    best = 0
    for i, v in enumerate(values):
        if math.isnan(values[best]):
            break
        if v > values[best] or math.isnan(v):
            best = i
    return best


class Reference:
    """The meaning of every kernel on an array of planes × cells, in double."""

    def __init__(self, w, spatial):
        self.spatial, self.out = spatial, w.out_spatial(spatial)
        self.windows = [(flat, padded) for _, flat, padded in windows(w, spatial)]

    def max_pool(self, x):
        y, idx = np.zeros((len(x), len(self.windows)), x.dtype), np.full((len(x), len(self.windows)), -1)
        for plane, values in enumerate(x):
            for p, (flat, _) in enumerate(self.windows):
                if flat:
                    idx[plane, p] = flat[first_winner(values[flat])]
                    y[plane, p] = values[idx[plane, p]]
        return y, idx

    def average_matrix(self, kind, given):
        matrix = np.zeros((len(self.windows), math.prod(self.spatial)))
        for p, (flat, padded) in enumerate(self.windows):
            divisor = {PADDED: padded, REAL: max(1, len(flat)), GIVEN: given}[kind]
            matrix[p, flat] = 1 / divisor
        return matrix

    def soft(self, values, beta):
        """y and the weights of the real cells, window by window."""
        for p, (flat, padded) in enumerate(self.windows):
            cells = np.concatenate([values[flat].astype(float), np.zeros(padded - len(flat))])
            extreme = cells.max() if beta > 0 else cells.min()
            terms = np.exp(beta * (cells - extreme))
            yield p, flat, extreme + math.log(terms.sum()) / beta, terms[: len(flat)] / terms.sum()


def run_max(x, w, spatial, indices=True):
    n = len(x), math.prod(w.out_spatial(spatial))
    y, idx = np.full(n, 7, x.dtype), np.full(n, 7, np.int64)
    step = pool.max_step(x.dtype == np.float64, "places" if indices else "", x.size, y.size, *w.packed(spatial))
    step(x, y, idx) if indices else step(x, y)
    return (y, idx) if indices else y


def run_average(x, w, spatial, kind=PADDED, given=1.0):
    y = np.full((len(x), math.prod(w.out_spatial(spatial))), 7, x.dtype)
    wide = x.dtype == np.float64
    pool_average.average_step(wide, False, x.size, y.size, *w.packed(spatial), kind, given)(x, y)
    return y


def run_spread(y_bar, w, spatial, kind=PADDED, given=1.0):
    x_bar = np.full((len(y_bar), math.prod(spatial)), 7, y_bar.dtype)
    wide = y_bar.dtype == np.float64
    pool_average.average_step(wide, True, x_bar.size, y_bar.size, *w.packed(spatial), kind, given)(y_bar, x_bar)
    return x_bar


def run_smooth(name, shape, dtype, w, spatial, beta, *arrays):
    out, windows = np.full(shape, 7, dtype), math.prod(w.out_spatial(spatial)) * shape[0]
    cells = math.prod(spatial) * shape[0]
    step = pool_smooth.smooth_step(name, dtype == np.float64, cells, windows, *w.packed(spatial), lambda *_: ValueError("beta"))
    step(*arrays, np.array(beta, dtype), out)
    return out


def run_at(name, data, idx, out):
    planes, cells = (out if name == "scatter_add_at" else data).shape
    index.index_step(name, name, data.dtype == np.float64, planes, cells, idx.shape[1], 1)(data, idx, out)
    return out


# --- geometry: small boxes of any rank, and long rows that fill registers ---

PADS = st.integers(0, 3)
strided_axis = st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(1, 4), PADS, PADS, st.integers(1, 3))


@st.composite
def geometries(draw, max_rank=3):
    if draw(st.integers(0, 3)) == 0:
        axes = draw(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 7)), min_size=1, max_size=max_rank))
        spatial, output = zip(*axes, strict=True)
        return spatial, Bins(output)
    axes = draw(st.lists(strided_axis, min_size=1, max_size=max_rank))
    if draw(st.booleans()):
        axes[-1] = (draw(st.integers(17, 45)), *axes[-1][1:])
    n, k, s, before, after, r = zip(*axes, strict=True)
    padding = tuple(zip(before, after, strict=True))
    # grow the axes until a window fits: every draw is a legal geometry
    spans = [r_ * (k_ - 1) + 1 - a - b for k_, r_, (a, b) in zip(k, r, padding, strict=True)]
    n = tuple(max(n_, span) for n_, span in zip(n, spans, strict=True))
    return n, Window(k, s, padding, r, draw(st.booleans()))


def values(spatial, planes, dtype, seed, coarse=True):
    rng = np.random.default_rng(seed)
    shape = planes, math.prod(spatial)
    # few distinct values, so that ties are common
    return (rng.integers(-3, 4, shape) if coarse else rng.standard_normal(shape)).astype(dtype)


def check_all(spatial, w, dtype, seed):
    ref = Reference(w, spatial)
    x = values(spatial, 2, dtype, seed)
    rng = np.random.default_rng(seed)
    special = rng.choice([np.nan, np.inf, -np.inf, -0.0], x.shape).astype(dtype)
    x = np.where(rng.random(x.shape) < 0.15, special, x)
    y, idx = ref.max_pool(x)
    got_y, got_idx = run_max(x, w, spatial)
    np.testing.assert_array_equal(got_idx, idx)
    assert got_y.tobytes() == y.tobytes()
    assert run_max(x, w, spatial, indices=False).tobytes() == y.tobytes()
    check_averages(ref, w, spatial, dtype, seed)


def check_averages(ref, w, spatial, dtype, seed):
    x = values(spatial, 2, dtype, seed, coarse=False)
    g = np.random.default_rng(seed).standard_normal((2, len(ref.windows))).astype(dtype)
    u = np.finfo(dtype).eps
    for kind, number in [(PADDED, 1.0), (REAL, 1.0), (GIVEN, -3.0)]:
        matrix = ref.average_matrix(kind, number)
        for got, exact, size, m in [
            (run_average(x, w, spatial, kind, number), x @ matrix.T, np.abs(x) @ np.abs(matrix.T), matrix),
            (run_spread(g, w, spatial, kind, number), g @ matrix, np.abs(g) @ np.abs(matrix), matrix.T),
        ]:
            terms = 3 + np.max(np.count_nonzero(m, axis=1), initial=0)
            assert got.dtype == dtype and np.all(np.abs(got - exact) <= terms * u * size)


@pytest.mark.parametrize("dtype", DTYPES)
@given(geometry=geometries(), seed=st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_kernels_equal_the_loops(dtype, geometry, seed):
    check_all(*geometry, dtype, seed)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("stride", [1, 2, 3, 5])
@pytest.mark.parametrize("kernel", [1, 2, 3, 7])
@pytest.mark.parametrize("size", [7, 16, 33, 70])
def test_rows_of_every_length_and_stride(dtype, stride, kernel, size):
    for padding, dilation in [(0, 1), (kernel, 1), (2, 2)]:
        for ceil_mode in (False, True):
            w = strided("p", 2, kernel, stride, padding, dilation, ceil_mode)
            try:
                w.out_spatial((9, size))
            except ValueError:
                continue
            check_all((9, size), w, dtype, size)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank", [4, 5])
def test_high_ranks(dtype, rank):
    spatial = (3, 4, 5, 3, 4)[:rank]
    check_all(spatial, strided("p", rank, 2, 1, 1), dtype, 0)
    kernel, dilation = (2, 3, 2, 3, 2)[:rank], (1, 2, 1, 1, 2)[:rank]
    check_all(spatial, strided("p", rank, kernel, 2, 1, dilation, True), dtype, 1)
    check_all(spatial, Bins((2, 3, 7, None, 3)[:rank]), dtype, 2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_wide_and_long_windows_take_the_scalar_loops(dtype):
    rng = np.random.default_rng(0)
    for spatial, w in [
        ((3000,), strided("p", 1, 1100, 600)),
        ((3000,), strided("p", 1, 3, 700, 1)),
        ((9000,), strided("p", 1, 2)),
        ((20, 20, 4), strided("p", 3, (18, 17, 2), 1)),
    ]:
        ref, x = Reference(w, spatial), rng.standard_normal((2, math.prod(spatial))).astype(dtype)
        y, idx = ref.max_pool(x)
        got = run_max(x, w, spatial)
        np.testing.assert_array_equal(got[0], y)
        np.testing.assert_array_equal(got[1], idx)
        check_averages(ref, w, spatial, dtype, 1)


@pytest.mark.parametrize("dtype", DTYPES)
@given(geometry=geometries(), seed=st.integers(0, 2**32), beta=st.sampled_from([0.5, -0.5, 3.0, -20.0, 1e4]))
@settings(max_examples=80, deadline=None)
def test_smooth_kernels_equal_the_loops(dtype, geometry, seed, beta):
    spatial, w = geometry
    ref, x = Reference(w, spatial), values(spatial, 2, dtype, seed, coarse=False)
    t = values(spatial, 2, dtype, seed + 1, coarse=False)
    g = np.random.default_rng(seed).standard_normal((2, len(ref.windows))).astype(dtype)
    y, gathered, scattered = np.zeros(g.shape), np.zeros(g.shape), np.zeros(x.shape)
    for plane in range(2):
        for p, flat, value, weights in ref.soft(x[plane], beta):
            y[plane, p], gathered[plane, p] = value, weights @ t[plane, flat]
            scattered[plane, flat] += weights * g[plane, p]
    tolerance = {"rtol": 8 * np.finfo(dtype).eps, "atol": 60 * np.finfo(dtype).eps}
    got = run_smooth("smooth_max_pool", g.shape, dtype, w, spatial, beta, x)
    np.testing.assert_allclose(got, y, **tolerance)
    got = run_smooth("smooth_gather", g.shape, dtype, w, spatial, beta, t, x)
    np.testing.assert_allclose(got, gathered, **tolerance)
    got = run_smooth("smooth_scatter", x.shape, dtype, w, spatial, beta, g, x)
    np.testing.assert_allclose(got, scattered, **tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("beta", [1e20, -1e20])
def test_extreme_beta_and_values_stay_finite(dtype, beta):
    x = np.array([[1e20, -1e20, 1e20, 0, -1e20, -1e20, 3, 3]], dtype)
    w = strided("p", 1, 2)
    y = run_smooth("smooth_max_pool", (1, 4), dtype, w, (8,), beta, x)
    best = np.max if beta > 0 else np.min
    np.testing.assert_array_equal(y, best(x.reshape(1, 4, 2), axis=2))
    weights = run_smooth("smooth_scatter", (1, 8), dtype, w, (8,), beta, np.ones((1, 4), dtype), x)
    expected = [1, 0, 1, 0, 0.5, 0.5, 0.5, 0.5] if beta > 0 else [0, 1, 0, 1, 0.5, 0.5, 0.5, 0.5]
    np.testing.assert_array_equal(weights[0], expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_smooth_maximum_of_infinities_is_the_limit(dtype):
    x = np.array([[np.inf, 1, -np.inf, -np.inf, np.nan, 1, np.inf, np.inf]], dtype)
    y = run_smooth("smooth_max_pool", (1, 4), dtype, strided("p", 1, 2), (8,), 2.0, x)
    np.testing.assert_array_equal(y, [[np.inf, -np.inf, np.nan, np.inf]])


# --- many planes: bands run on from plane to plane, and idle lanes of short rows are overwritten in time ---


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("spatial", "w", "planes"),
    [
        ((14, 14), strided("p", 2, 2), 70),
        ((28, 28), strided("p", 2, 2), 23),
        ((14, 14), Bins((7, 7)), 41),
        ((15, 15), Bins((7, 7)), 40),
        ((6, 10), strided("p", 2, (3, 2)), 150),
        ((8, 6), strided("p", 2, (1, 2), (2, 2)), 150),
        ((13, 21), strided("p", 2, 3, 2, 1), 31),
        ((11,), strided("p", 1, 3, 2, 1), 300),
        ((4, 6, 10), strided("p", 3, 2), 40),
        ((5, 6, 7), strided("p", 3, 3, 2, 1), 40),
        ((9, 9), strided("p", 2, 3, 1, 1), 60),
        ((7, 9), strided("p", 2, 2, 2, 0, 1, True), 90),
        # a plane in each lane: planes small and large, rows and bins longer than a room, few cells
        ((40, 45), Bins((7, 5)), 19),
        ((70, 40), strided("p", 2, 5, 5, 2), 11),
        ((7, 8, 6), strided("p", 3, 2, 3, 1, 2, True), 21),
        ((2500,), Bins((2,)), 9),
        ((700,), Bins((2100,)), 3),
        ((3,), Bins((2,)), 21),
        # whole planes, four at a time
        ((6, 7), Bins((1, 1)), 7),
    ],
)
def test_planes_next_to_each_other(dtype, spatial, w, planes):
    """Every plane as if it were alone, NaN here and there; the whole batch as its samples."""
    rng = np.random.default_rng(planes)
    ref, x = Reference(w, spatial), values(spatial, planes, dtype, 1)
    x[rng.random(x.shape) < 0.002] = np.nan
    y, idx = ref.max_pool(x)
    got_y, got_idx = run_max(x, w, spatial)
    np.testing.assert_array_equal(got_idx, idx)
    assert got_y.tobytes() == y.tobytes() == run_max(x, w, spatial, indices=False).tobytes()
    x, g = np.nan_to_num(x), rng.integers(-8, 9, y.shape).astype(dtype)
    for kind, number in [(PADDED, 1.0), (REAL, 1.0), (GIVEN, 4.0)]:
        matrix = ref.average_matrix(kind, number)
        np.testing.assert_allclose(run_average(x, w, spatial, kind, number), x @ matrix.T, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(run_spread(g, w, spatial, kind, number), g @ matrix, rtol=1e-6, atol=2e-6)
    for one in (0, planes // 2, planes - 1):
        alone = run_max(x[one : one + 1], w, spatial)
        np.testing.assert_array_equal(alone[1][0], run_max(x, w, spatial)[1][one])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", [1, 2, 3, 5, 17, 20])
@pytest.mark.parametrize("stride", [1, 2, 3, 70])
def test_averages_and_their_transpose_are_adjoint(dtype, kernel, stride):
    rng = np.random.default_rng(kernel)
    for spatial, padding in [((150,), 0), ((5, 75), kernel // 2), ((2500,), 1)]:
        w = strided("p", len(spatial), (1,) * (len(spatial) - 1) + (kernel,), stride, padding)
        x = rng.integers(-4, 5, (3, math.prod(spatial))).astype(dtype)
        g = rng.integers(-4, 5, (3, math.prod(w.out_spatial(spatial)))).astype(dtype)
        # sums of small integers over 1 are exact
        y, x_bar = run_average(x, w, spatial, GIVEN, 1.0), run_spread(g, w, spatial, GIVEN, 1.0)
        assert np.vdot(y, g) == np.vdot(x, x_bar)


# --- gather and scatter ---


@pytest.mark.parametrize("dtype", DTYPES)
def test_gather_and_scatter_are_adjoint_and_skip_empty_windows(dtype):
    rng = np.random.default_rng(0)
    x, idx = rng.integers(-9, 9, (3, 11)).astype(dtype), rng.integers(-1, 11, (3, 7))
    y, back = np.empty((3, 7), dtype), np.empty((3, 11), dtype)
    run_at("gather_at", x, idx, y)
    np.testing.assert_array_equal(y, np.where(idx < 0, 0, np.take_along_axis(x, idx, 1)))
    run_at("scatter_add_at", y, idx, back)
    expected = np.zeros((3, 12))
    for plane in range(3):
        np.add.at(expected[plane], idx[plane], y[plane])
    np.testing.assert_array_equal(back, expected[:, :11])


@pytest.mark.parametrize("wrong", [11, -2, 2**62, -(2**63)])
def test_indices_outside_the_plane_are_refused(wrong):
    x, y, idx = np.zeros((1, 11)), np.zeros((1, 2)), np.array([[0, wrong]])
    for name, arrays in [("gather_at", (x, idx, y)), ("scatter_add_at", (y, idx, x))]:
        words = f"{name}: indices must be in [-1, 11); got [{idx.min()}, {idx.max()}]; use this input's"
        with pytest.raises(IndexError, match=re.escape(words)):
            run_at(name, *arrays)


def test_scatter_into_nothing():
    none, nobody = np.empty((1, 0)), np.full((1, 3), -1)
    run_at("scatter_add_at", np.ones((1, 3)), nobody, none)
    assert run_at("gather_at", none, nobody, np.ones((1, 3))).tolist() == [[0, 0, 0]]
    with pytest.raises(IndexError):
        run_at("scatter_add_at", np.ones((1, 3)), np.zeros((1, 3), np.int64), none)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("beta", [0.0, -0.0, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", pool_smooth.NAMES)
def test_a_beta_that_is_none_is_refused(dtype, beta, name):
    cells, windows = np.ones((1, 8), dtype), np.ones((1, 4), dtype)
    arrays = {"smooth_max_pool": (cells,), "smooth_gather": (cells, cells), "smooth_scatter": (windows, cells)}[name]
    with pytest.raises(ValueError, match="beta"):
        run_smooth(name, (1, 8) if name == "smooth_scatter" else (1, 4), dtype, strided("p", 1, 2), (8,), beta, *arrays)


# --- promises that hold for every kernel ---


def every_kernel(w, spatial, planes, dtype, seed=0):
    """All results on random data, as bytes."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((planes, math.prod(spatial))).astype(dtype)
    g = rng.standard_normal((planes, math.prod(w.out_spatial(spatial)))).astype(dtype)
    x.flags.writeable = g.flags.writeable = False
    before = x.tobytes(), g.tobytes()
    y, idx = run_max(x, w, spatial)
    gathered, scattered = np.empty_like(y), np.empty(x.shape, dtype)
    run_at("gather_at", x, idx, gathered)
    run_at("scatter_add_at", g, idx, scattered)
    np.testing.assert_array_equal(gathered, y)
    results = [
        y, idx, scattered,
        run_average(x, w, spatial), run_spread(g, w, spatial),
        run_smooth("smooth_max_pool", g.shape, dtype, w, spatial, 2.0, x),
        run_smooth("smooth_gather", g.shape, dtype, w, spatial, 2.0, x, x),
        run_smooth("smooth_scatter", x.shape, dtype, w, spatial, 2.0, g, x),
    ]
    assert before == (x.tobytes(), g.tobytes())
    return [r.tobytes() for r in results]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("spatial", "w", "planes"),
    [
        ((40, 41), strided("p", 2, 3, 2, 1), 20),
        ((30000,), strided("p", 1, 3, 2, 1), 1),
        ((20, 21, 22), strided("p", 3, 2), 7),
        ((45, 45), Bins((7, 7)), 30),
    ],
)
def test_bits_do_not_depend_on_the_number_of_threads(dtype, spatial, w, planes):
    before = threads.get_num_threads()
    try:
        results = []
        for n in (1, 2, 5):
            threads.set_num_threads(n)
            results.append(every_kernel(w, spatial, planes, dtype))
    finally:
        threads.set_num_threads(before)
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("dtype", DTYPES)
def test_empty_batches_and_empty_axes(dtype):
    every_kernel(strided("p", 2, 2), (4, 4), 0, dtype)
    x = np.empty((2, 0), dtype)
    w = strided("p", 2, 2, 1, 1)
    y, idx = run_max(x, w, (0, 3))
    assert y.tolist() == [[0] * 4] * 2 and idx.tolist() == [[-1] * 4] * 2
    assert run_average(x, w, (0, 3)).tolist() == [[0] * 4] * 2
    assert run_spread(y, w, (0, 3)).shape == (2, 0)
    smooth = run_smooth("smooth_max_pool", (2, 4), dtype, w, (0, 3), 1.0, x)
    np.testing.assert_allclose(smooth, math.log(4), rtol=1e-6)
    gathered = run_smooth("smooth_gather", (2, 4), dtype, w, (0, 3), 1.0, x, x)
    assert gathered.tolist() == [[0] * 4] * 2


def test_tables_that_do_not_fit_the_arrays_are_refused():
    w = strided("p", 1, 2)
    tables = w.packed((6,))
    for cells, windows in [(6, 4), (5, 3), (12, 3)]:
        with pytest.raises(ValueError, match="tables do not fit"):
            pool.max_step(True, "", cells, windows, *tables)
    with pytest.raises(ValueError, match="tables do not fit"):
        pool.max_step(True, "", 6, 3, tables.axes, tables.outputs[:-1], tables.inputs)
    flat = tables.outputs
    for strange in (flat.astype(np.float64), flat.astype(np.int32), flat.reshape(1, -1), b"12345678"):
        with pytest.raises(ValueError, match="tables are arrays of int64 with one axis"):
            pool.max_step(True, "", 6, 3, tables.axes, strange, tables.inputs)
    with pytest.raises(ValueError, match="not C-contiguous"):
        pool.max_step(True, "", 6, 3, tables.axes, tables.outputs[::2], tables.inputs)
    with pytest.raises(ValueError, match="array 2 of max_pool has 24 bytes; got 16"):
        pool.max_step(True, "places", 6, 3, *tables)(np.zeros(6), np.zeros(3), np.zeros(2, np.int64))
