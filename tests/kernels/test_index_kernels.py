"""gather, scatter_add, take, take_transpose and dropout against NumPy; hostile indices; threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lean_nn_c import index, threads

DTYPES = [np.float32, np.float64]
side = st.one_of(st.integers(0, 5), st.sampled_from([64, 70]))
MASK = (1 << 64) - 1


def run(name, data, idx, out, *sizes):
    """`name` on (outer, n, k, inner[, ignore])."""
    index.index_step(name, name, data.dtype == np.float64, *sizes)(data, idx, out)


def dropout(x, seed, out, p):
    index.dropout_step(x.dtype == np.float64, x.size, p)(x, seed, out)


def whole(shape, dtype, seed=0):
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(dtype)


def indices(shape, n, seed=1):
    return np.random.default_rng(seed).integers(0, max(n, 1), shape)


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 4), st.integers(1, 6), st.integers(0, 6), side, st.sampled_from(DTYPES))
def test_gather_and_its_transpose(outer, n, k, inner, dtype):
    x, g, idx = (
        whole((outer, n, inner), dtype),
        whole((outer, k, inner), dtype, 2),
        indices((outer, k, inner), n),
    )
    y, x_bar = np.empty_like(g), np.full_like(x, np.nan)
    run("gather", x, idx, y, outer, n, k, inner)
    np.testing.assert_array_equal(y, np.take_along_axis(x, idx, 1))
    run("scatter_add", g, idx, x_bar, outer, n, k, inner)
    want = np.zeros_like(x)
    o, _, i = np.indices(idx.shape)
    np.add.at(want, (o, idx, i), g)
    np.testing.assert_array_equal(x_bar, want)


@pytest.mark.parametrize("ignore", [-100, 1, 99])
def test_an_ignored_index_reads_zero_and_adds_nothing(ignore):
    x, g, idx = whole((2, 3, 5), np.float32), whole((2, 4, 5), np.float32, 2), indices((2, 4, 5), 3)
    idx[0, 1] = idx[1, 3, 2:] = ignore
    skipped = idx == ignore
    y, x_bar = np.empty_like(g), np.empty_like(x)
    run("gather", x, idx, y, 2, 3, 4, 5, ignore)
    np.testing.assert_array_equal(y, np.where(skipped, 0, np.take_along_axis(x, np.where(skipped, 0, idx), 1)))
    run("scatter_add", g, idx, x_bar, 2, 3, 4, 5, ignore)
    want = np.empty_like(x)
    run("scatter_add", np.where(skipped, 0, g), np.where(skipped, 0, idx), want, 2, 3, 4, 5)
    np.testing.assert_array_equal(x_bar, want)
    with pytest.raises(IndexError, match="got -7"):
        run("gather", x, np.full_like(idx, -7), y, 2, 3, 4, 5, ignore)


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 4), st.integers(1, 6), st.integers(0, 6), side, st.sampled_from(DTYPES))
def test_take_and_its_transpose(outer, n, k, inner, dtype):
    x, g, idx = whole((outer, n, inner), dtype), whole((outer, k, inner), dtype, 2), indices(k, n)
    y, x_bar = np.empty_like(g), np.full_like(x, np.nan)
    run("take", x, idx, y, outer, n, k, inner)
    np.testing.assert_array_equal(y, np.take(x, idx, 1))
    run("take_transpose", g, idx, x_bar, outer, n, k, inner)
    want = np.zeros_like(x)
    np.add.at(want.swapaxes(0, 1), idx, g.swapaxes(0, 1))
    np.testing.assert_array_equal(x_bar, want)


@pytest.mark.parametrize("bad", [-1, 3, 2**62, -(2**63)])
@pytest.mark.parametrize("op", ["gather", "scatter_add", "take", "take_transpose"])
def test_hostile_indices(op, bad):
    idx = np.array([0, 2, bad, 1])
    big, small = np.zeros((1, 3, 1)), np.zeros((1, 4, 1))
    arrays = (small, idx, big) if op in ("scatter_add", "take_transpose") else (big, idx, small)
    with pytest.raises(
        IndexError, match=f"{op}: indices are 0 … 2 on an axis of 3; got {bad} at flat position 2"
    ):
        run(op, *arrays, 1, 3, 4, 1)


def uniform(seed, i):
    z = (seed + (i + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return ((z ^ (z >> 31)) >> 11) * 2.0**-53


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", [0, 1, -1, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 0.999])
def test_dropout_is_the_stated_hash(dtype, seed, p):
    x = whole(200, dtype) + dtype(0.5)
    out = np.empty_like(x)
    dropout(x, np.array(seed, np.int64), out, p)
    keep = np.array([uniform(seed & MASK, i) >= p for i in range(200)])
    np.testing.assert_array_equal(out, np.where(keep, x / dtype(1 - p), 0))


def test_dropout_of_everything_and_its_rate():
    x = np.ones(100_000, np.float32)
    out = np.empty_like(x)
    dropout(x, np.array(7), out, 1.0)
    assert not out.any()
    dropout(x, np.array(7), out, 0.25)
    assert abs((out == 0).mean() - 0.25) < 0.006  # 4 standard deviations


def test_threads_have_the_same_bits():
    x, idx = np.random.default_rng(0).standard_normal((3, 50, 300)), indices((3, 90, 300), 50)
    g = np.random.default_rng(1).standard_normal((3, 90, 300))
    before, results = threads.get_num_threads(), []
    try:
        for count in (1, 2, 5):
            threads.set_num_threads(count)
            outs = [np.empty_like(g), np.empty_like(x), np.empty_like(x), np.empty_like(g)]
            run("gather", x, idx, outs[0], 3, 50, 90, 300)
            run("scatter_add", g, idx, outs[1], 3, 50, 90, 300)
            run("take_transpose", g, idx[0, :, 0].copy(), outs[2], 3, 50, 90, 300)
            dropout(g, np.array(3), outs[3], 0.5)
            results.append([out.tobytes() for out in outs])
    finally:
        threads.set_num_threads(before)
    assert results[0] == results[1] == results[2]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 40_000))
def test_cast_rounds_as_numpy(n):
    x = np.random.default_rng(n).standard_normal(n) * 10.0 ** np.random.default_rng(n).integers(-50, 45, n)
    narrow, wide = np.empty(n, np.float32), np.empty(n)
    index.cast_step(True, n)(x, narrow)
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_array_equal(narrow, x.astype(np.float32))
    index.cast_step(False, n)(narrow, wide)
    np.testing.assert_array_equal(wide, narrow.astype(np.float64))


def test_refusals():
    x, idx = np.zeros((1, 3, 1)), np.zeros(4, np.int64)
    with pytest.raises(ValueError, match="array 0 of take has 12 bytes; got 6"):
        run("take", x.astype(np.float16), idx, np.zeros((1, 4, 1), np.float32), 1, 3, 4, 1)
    with pytest.raises(ValueError, match="array 1 of take has 32 bytes; got 16"):
        run("take", x, idx.astype(np.int32), np.zeros((1, 4, 1)), 1, 3, 4, 1)
    with pytest.raises(ValueError, match="array 2 of take has 32 bytes; got 24"):
        run("take", x, idx, x.copy(), 1, 3, 4, 1)
    with pytest.raises(ValueError, match="C-contiguous"):
        run("take", x, np.zeros(8, np.int64)[::2], np.zeros((1, 4, 1)), 1, 3, 4, 1)
    for sizes in ((-1, 3, 4, -1), (2**40, 2**40, 1, 1)):
        with pytest.raises(ValueError, match="sizes are not negative and fit"):
            index.index_step("take", "take", True, *sizes)
    with pytest.raises(ValueError, match="got 'mix'"):
        index.index_step("mix", "mix", True, 1, 1, 1, 1)
    for make in (lambda: index.cast_step(True, -1), lambda: index.dropout_step(True, -1, 0.5)):
        with pytest.raises(ValueError, match="sizes are not negative"):
            make()
