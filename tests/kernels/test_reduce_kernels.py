"""The reduction kernels against NumPy and SciPy, within the bounds they state; thread counts bit-equal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

import lean_nn as ln
from lean_nn import functional as F
from lean_nn_c import reduce, threads

DTYPES = [np.float32, np.float64]
lengths = st.one_of(st.integers(0, 70), st.sampled_from([511, 512, 513, 1000, 8191, 8192, 8193, 20000]))
few = st.integers(0, 5)
many = st.one_of(st.integers(1, 5), st.sampled_from([63, 64, 65, 130]))


def total(x, out, axes):
    reduce.sum_step(x.dtype == np.float64, x.shape, axes)(x, out)


def values(shape, dtype, seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) * 3).astype(dtype)


def gamma(n, dtype):
    u = np.finfo(dtype).eps / 2
    return n * u / (1 - n * u)


def on_threads(run):
    """The results of `run()` on 1, 2, 3 and 8 threads, which must have the same bits; returns one."""
    before = threads.get_num_threads()
    results = []
    try:
        for count in (1, 2, 3, 8):
            threads.set_num_threads(count)
            results.append(run())
    finally:
        threads.set_num_threads(before)
    for other in results[1:]:
        for x, y in zip(results[0], other, strict=True):
            assert x.tobytes() == y.tobytes()
    return results[0]


# --------------------------------------------------------------------------------------------------- sum


@settings(max_examples=200, deadline=None)
@given(few, lengths, many, st.sampled_from(DTYPES))
def test_sum_of_the_middle_axis(outer, n, inner, dtype):
    x = values((outer, n if inner < 10 else min(n, 1000), inner), dtype)
    out = np.full((outer, inner), np.nan, dtype)
    total(x, out, (1,))
    wide = x.astype(np.longdouble)
    bound = gamma(reduce.roundings(x.shape[1]), dtype) * np.abs(wide).sum(1)
    assert (np.abs(out - wide.sum(1)) <= bound).all()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.data())
def test_sum_over_any_axes(shape, data):
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1)))))
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float64)
    want = x.sum(axis=axes)
    out = np.full(want.shape, np.nan)
    total(x, out, axes)
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize(
    "shape, axes",
    [
        ((300_001,), (0,)),
        ((70, 1000), (0,)),
        ((70, 1000), (1,)),
        ((9, 16, 30, 30), (0, 2, 3)),
        ((30_000, 3), (0,)),
        ((2, 20_000, 70), (1,)),
        ((5, 7, 9, 11, 13), (0, 2, 4)),
    ],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_sum_has_the_same_bits_on_any_threads(shape, axes, dtype):
    x = values(shape, dtype)

    def run():
        out = np.empty([n for i, n in enumerate(shape) if i not in axes], dtype)
        total(x, out, axes)
        return (out,)

    (got,) = on_threads(run)
    np.testing.assert_allclose(
        got,
        x.astype(np.longdouble).sum(axis=axes).astype(dtype),
        rtol=0,
        atol=np.finfo(dtype).eps * 40 * np.abs(x).sum(axis=axes).max(),
    )


def test_roundings_grow_with_the_logarithm():
    assert [reduce.roundings(n) for n in (0, 1, 2, 32, 33, 64)] == [0, 0, 1, 31, 32, 32]
    assert reduce.roundings(8192) == 39
    assert reduce.roundings(10**9) < 120
    assert reduce.sum_roundings((40, 3, 40), (0, 2)) == 2 * reduce.roundings(40)
    assert reduce.sum_roundings((40, 3, 40), (0, 1, 2)) == reduce.roundings(4800)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 7, 8, 9, 31, 33, 64, 100])
def test_columns_are_summed_alike_however_many_there_are(rows, dtype):
    """From 128 on they are read eight rows at a time; the order of the sums is one, and of −0 it is 0."""
    x = values((2, rows, 300), dtype)
    x[:, :, 5] = -0.0
    whole, part = np.empty((2, 300), dtype), np.empty((2, 20), dtype)
    total(x, whole, (1,))
    for first in range(0, 300, 20):
        total(np.ascontiguousarray(x[:, :, first : first + 20]), part, (1,))
        assert whole[:, first : first + 20].tobytes() == part.tobytes()


def test_sum_keeps_nan_and_infinity():
    x = np.ones((3, 1000), np.float32)
    x[0, 700], x[1, 3], x[2, 5], x[2, 6] = np.nan, np.inf, np.inf, -np.inf
    out = np.empty(3, np.float32)
    total(x, out, (1,))
    np.testing.assert_array_equal(out, [np.nan, np.inf, np.nan])


# ---------------------------------------------------------------------------------------------- extremes


def extreme(x, least):
    outer, n, inner = x.shape
    y, idx = np.empty((outer, inner), x.dtype), np.empty((outer, inner), np.int64)
    reduce.extreme_step("extreme", x.dtype == np.float64, outer, n, inner, least)(x, y, idx)
    return y, idx


@settings(max_examples=150, deadline=None)
@given(few, st.integers(1, 70), many, st.sampled_from(DTYPES), st.booleans(), st.booleans())
def test_extreme_is_the_first_winner(outer, n, inner, dtype, least, hurt):
    rng = np.random.default_rng(n)
    x = rng.integers(-4, 4, (outer, n, inner)).astype(dtype)
    if hurt:
        x[rng.random(x.shape) < 0.05] = np.nan
        x[rng.random(x.shape) < 0.05] = np.inf
        x[rng.random(x.shape) < 0.2] = -np.inf
    y, idx = extreme(x, least)
    pick = np.argmin if least else np.argmax  # NumPy's: first winner, NaN wins
    np.testing.assert_array_equal(idx, pick(x, axis=1))
    np.testing.assert_array_equal(y, x.min(1) if least else x.max(1))


def test_extreme_threads_and_refusal():
    x = values((40, 50, 70), np.float32)
    on_threads(lambda: extreme(x, False))
    with pytest.raises(ValueError, match="extreme of nothing"):
        extreme(np.empty((2, 0, 3)), True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [32768, 40001, 100000])
@pytest.mark.parametrize("least", [False, True])
def test_threads_look_for_one_extreme_together(n, dtype, least):
    """The first of equals, in whatever part it is, and the first NaN."""
    x = values((1, n, 1), dtype)
    top = -9 if least else 9
    for places in ([], [n - 1], [n // 3, n // 2], [0, n - 1], [n // 64, n // 64 + 1]):
        x[0, places, 0] = top
        y, idx = on_threads(lambda: extreme(x, least))
        pick = np.argmin if least else np.argmax
        assert (y[0, 0], idx[0, 0]) == (x.min() if least else x.max(), pick(x))
    x[0, [n // 2, n - 2], 0] = np.nan
    y, idx = on_threads(lambda: extreme(x, least))
    assert np.isnan(y[0, 0]) and idx[0, 0] == n // 2


# ----------------------------------------------------------------------------------------------- softmax


def soft(name, x):
    outer, n, inner = x.shape
    out = np.empty((outer, inner) if name == "logsumexp" else x.shape, x.dtype)
    reduce.soft_step(name, x.dtype == np.float64, outer, n, inner)(x, out)
    return out


@settings(max_examples=150, deadline=None)
@given(
    few,
    st.one_of(st.integers(1, 70), st.sampled_from([600, 1500])),
    many,
    st.sampled_from(DTYPES),
    st.sampled_from([1.0, 30.0]),
)
def test_softmax_family(outer, n, inner, dtype, scale):
    x = values((outer, n, inner), dtype) * dtype(scale)
    wide, eps = x.astype(np.float64), np.finfo(dtype).eps
    terms = 8 + 32 + n / 32
    np.testing.assert_allclose(
        soft("softmax", x),
        special.softmax(wide, axis=1),
        rtol=terms * eps + 1e-14,
        atol=float(np.finfo(dtype).tiny),
    )
    for name in ("logsumexp", "log_softmax"):
        want = getattr(special, name)(wide, axis=1)
        np.testing.assert_allclose(
            soft(name, x), want, rtol=4 * eps, atol=(terms + 4 * np.abs(x).max(initial=0)) * eps
        )


@pytest.mark.parametrize("inner", [1, 3])
@pytest.mark.parametrize("n", [3, 40])
def test_softmax_of_infinities(n, inner):
    rows = {
        "low": [-np.inf, 0.0, 1.0],
        "all low": [-np.inf] * 3,
        "high": [np.inf, 0.0, 1.0],
        "nan": [np.nan, 0.0, 1.0],
    }
    for label, row in rows.items():
        line = np.concatenate([row, np.full(n - 3, row[1])])
        x = np.repeat(line[None, :, None], inner, 2).copy()
        p, total, logp = soft("softmax", x), soft("logsumexp", x), soft("log_softmax", x)
        if label == "low":
            assert (p[:, 0] == 0).all() and (logp[:, 0] == -np.inf).all() and np.isfinite(total).all()
            np.testing.assert_allclose(p.sum(1), 1)
        else:
            assert np.isnan(p[:, 0]).all() and np.isnan(logp[:, 0]).all()  # as PyTorch: ∞ − ∞
            np.testing.assert_array_equal(
                total[0, 0], {"all low": -np.inf, "high": np.inf, "nan": np.nan}[label]
            )


def test_softmax_edges():
    big = np.array([[[1e300], [1e300], [-1e300]]])
    np.testing.assert_array_equal(soft("softmax", big)[0, :, 0], [0.5, 0.5, 0])
    np.testing.assert_array_equal(soft("logsumexp", np.empty((2, 0, 3))), np.full((2, 3), -np.inf))
    assert soft("softmax", np.empty((2, 0, 3))).shape == (2, 0, 3)
    x = values((30, 700, 5), np.float32)
    for name in ("softmax", "logsumexp", "log_softmax"):
        on_threads(lambda name=name: (soft(name, x), soft(name, x.reshape(150, 700, 1))))


# ------------------------------------------------------------------------------------------- standardise


def standard(roles, outputs, sizes, *arrays, **options):
    """A step of the family on arrays in the order of their roles."""
    reduce.standard_step("standard", arrays[0].dtype == np.float64, tuple(roles.split()), outputs, *sizes, **options)(*arrays)


def standardize(x, eps=1e-5):
    G = x.shape[1]
    z, mean, rstd = np.empty_like(x), np.empty(G, x.dtype), np.empty(G, x.dtype)
    standard("x y first second", 3, x.shape, x, z, mean, rstd, eps=eps)
    return z, mean, rstd


def tangent(t, z, rstd):
    out = np.empty_like(t), np.empty(t.shape[1], t.dtype), np.empty(t.shape[1], t.dtype)
    standard("t x rstd y first second", 3, t.shape, t, z, rstd, *out, tangents=True)
    return out


def transpose(g_z, g_mean, g_rstd, z, rstd):
    out = np.empty_like(g_z)
    standard("t g_mean g_rstd x rstd y", 1, g_z.shape, g_z, g_mean, g_rstd, z, rstd, out)
    return out


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 6),
    few,
    st.one_of(st.integers(1, 70), st.sampled_from([512, 1100])),
    st.sampled_from(DTYPES),
)
def test_standardize(A, G, B, dtype):
    x = values((A, G, B), dtype) + dtype(2)
    z, mean, rstd = standardize(x)
    wide = x.astype(np.longdouble)
    m, v = wide.mean((0, 2)), wide.var((0, 2))
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(
        mean, m.astype(dtype), rtol=0, atol=40 * eps * float(np.abs(wide).max(initial=1))
    )
    np.testing.assert_allclose(
        rstd, (1 / np.sqrt(v + 1e-5)).astype(dtype), rtol=2e-3 if A * B == 1 else 100 * eps
    )
    if A * B > 1 and v.min(initial=1) > 1e-3:
        want = (wide - m[:, None]) / np.sqrt(v[:, None] + 1e-5)
        np.testing.assert_allclose(
            z, want.astype(dtype), rtol=0, atol=300 * eps / min(1, float(v.min(initial=1)))
        )


@pytest.mark.parametrize("shape", [(4, 3, 50), (1, 6, 700), (8, 5, 1), (2, 0, 3)])
def test_tangent_by_differences_and_transpose_by_adjoint(shape):
    x, t, g_z = (values(shape, np.float64, seed) for seed in (1, 2, 3))
    g_mean, g_rstd = values(shape[1], np.float64, 4), values(shape[1], np.float64, 5)
    z, _, rstd = standardize(x)
    dots = tangent(t, z, rstd)
    h = 1e-6
    for dot, plus, minus in zip(dots, standardize(x + h * t), standardize(x - h * t), strict=True):
        np.testing.assert_allclose(dot, (plus - minus) / (2 * h), rtol=1e-6, atol=1e-7)
    x_bar = transpose(g_z, g_mean, g_rstd, z, rstd)
    left = (dots[0] * g_z).sum() + (dots[1] * g_mean).sum() + (dots[2] * g_rstd).sum()
    np.testing.assert_allclose(left, (t * x_bar).sum(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(4, 3, 50), (7, 130, 1), (3, 2, 1100), (40, 5, 3), (2, 70, 64)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_factor_and_term_are_applied_in_the_same_pass(shape, dtype):
    """w·z + b, and the slope with x and mean in the place of z, against the plain ones."""
    G = shape[1]
    x, t = values(shape, dtype, 1) + dtype(3), values(shape, dtype, 2)
    w, b, g_mean, g_rstd = (values(G, dtype, seed) for seed in (3, 4, 5, 6))
    z, mean, rstd = standardize(x)
    y, mean2, rstd2 = np.empty_like(x), np.empty_like(mean), np.empty_like(rstd)
    standard("x w b y first second", 3, shape, x, w, b, y, mean2, rstd2, eps=1e-5)
    assert (mean2 == mean).all() and (rstd2 == rstd).all()
    scale = 1e3 * np.finfo(dtype).eps
    np.testing.assert_allclose(y, z * w[:, None] + b[:, None], rtol=scale, atol=scale)
    wide, out, sums = t.astype(np.float64), np.empty_like(x), (np.empty_like(w), np.empty_like(w))
    given = (t, g_mean, g_rstd, x, w, mean, rstd)
    standard("t g_mean g_rstd x w mean rstd y first second", 3, shape, *given, out, *sums)
    np.testing.assert_allclose(sums[0], wide.sum((0, 2)), rtol=scale, atol=scale * 10)
    np.testing.assert_allclose(sums[1], (wide * z).sum((0, 2)), rtol=scale, atol=scale * 10)
    want = transpose(t * w[:, None], g_mean, g_rstd, z, rstd)
    np.testing.assert_allclose(out, want, rtol=scale, atol=scale)


def test_spread_survives_a_first_value_far_away():
    """One pass must not lose the variance to an outlier in front, or to a large mean."""
    x = values((3, 2, 700), np.float32) + np.float32(1000)
    x[0, :, 0] = -1e4
    _, mean, rstd = standardize(x, 0.0)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean((0, 2)), rtol=1e-6)
    np.testing.assert_allclose(rstd, 1 / wide.std((0, 2)), rtol=1e-6)


def test_standardize_threads():
    x, t = values((5, 64, 150), np.float32), values((5, 64, 150), np.float32, 1)
    z, _, rstd = standardize(x)
    zero = np.zeros(64, np.float32)
    on_threads(lambda: standardize(x))
    on_threads(lambda: standardize(x.reshape(75, 640, 1)))
    on_threads(lambda: tangent(t, z, rstd))
    on_threads(lambda: (transpose(t, zero, zero, z, rstd),))


# ---------------------------------------------------------------------------------------------- refusals


def test_groups_without_elements():
    """Their statistics are not a number; nothing flows back."""
    x, one = np.empty((2, 3, 0), np.float32), np.ones(3, np.float32)
    assert np.isnan(standardize(x)[1:]).all()
    assert np.isnan(tangent(x, x, one)[1:]).all()
    sums = np.full(3, 7, np.float32), np.full(3, 7, np.float32)
    standard("t x rstd y first second", 3, x.shape, x, x, one, x.copy(), *sums)
    assert not np.any(sums)


def test_scratch_of_a_sum_is_known():
    """A long sum is cut into parts of 8192, whose sums are summed; what is left between the passes is scratch."""
    assert reduce.sum_step(False, (8192,), (0,)).scratch(1) == 0
    assert reduce.sum_step(False, (8193,), (0,)).scratch(7) == 64 + 64  # two sums in a line, and the line before it
    assert reduce.sum_step(True, (3, 70, 5), (0, 2)).scratch(1) == 64 + -(-3 * 70 * 8 // 64) * 64
    assert reduce.soft_step("softmax", False, 1, 2, 3).scratch(4) == 0


def test_refusals():
    x = np.zeros((2, 3))
    with pytest.raises(ValueError, match="array 1 of sum has 16 bytes; got 24"):
        total(x, np.zeros(3), (1,))
    with pytest.raises(ValueError, match="C-contiguous"):
        total(x.T, np.zeros(3), (1,))
    with pytest.raises(ValueError, match="array 1 of softmax has 48 bytes; got 24"):
        reduce.soft_step("softmax", True, 2, 3, 1)(x, np.zeros((2, 3), np.float32))
    for sizes in ((-2, -3, 1), (2**40, 2**40, 1)):
        with pytest.raises(ValueError, match="are not negative and fit"):
            reduce.soft_step("softmax", True, *sizes)
    with pytest.raises(ValueError, match="different roles"):
        reduce.standard_step("standard", True, ("x", "x", "y"), 1, 1, 1, 1)
    with pytest.raises(ValueError, match="a slope has rstd"):
        reduce.standard_step("standard", True, ("x", "y"), 1, 1, 1, 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 37, 100, 511, 512, 513, 517, 1024, 1300])
def test_the_first_extreme_of_rows_of_every_length(dtype: str, n: int) -> None:
    rng = np.random.default_rng(n)
    x = rng.integers(-3, 4, (40, n)).astype(dtype)  # many ties
    x[1] = -np.inf
    x[2] = np.inf
    for row in range(3, 20):  # one NaN, and two
        x[row, rng.integers(n)] = np.nan
        x[row, rng.integers(n)] = np.nan if row > 10 else x[row, 0]
    x[20] = np.where(np.arange(n) % 2, 0.0, -0.0)
    for count in (1, 2):
        with ln.num_threads(count):
            for found, place in ((F.max(ln.tensor(x), 1), x.argmax(1)), (F.min(ln.tensor(x), 1), x.argmin(1))):
                np.testing.assert_array_equal(found.indices.numpy(), place)
                expected = x[np.arange(40), place]
                np.testing.assert_array_equal(found.values.numpy(), expected)
                np.testing.assert_array_equal(np.signbit(found.values.numpy()), np.signbit(expected))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 3, 8, 9, 10, 24, 25, 31, 32, 33, 37, 63, 64, 65, 80, 130, 513])
def test_lines_of_every_length(dtype: str, n: int) -> None:
    """Whole numbers have exact sums; the others are compared with double precision."""
    rng = np.random.default_rng(n)
    x = rng.integers(-50, 50, (37, n)).astype(dtype)
    box, u = ln.tensor(x), 2.0**-23 if dtype == "float32" else 2.0**-52
    np.testing.assert_array_equal(box.sum(1).numpy(), x.sum(1))
    np.testing.assert_array_equal(ln.tensor(x.T.copy()).sum(0).numpy(), x.sum(1))
    y = (x / 16).astype(dtype)
    wide = y.astype(np.longdouble)
    e = np.exp(wide - wide.max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    np.testing.assert_allclose(F.softmax(ln.tensor(y), 1).numpy(), p.astype(dtype), rtol=60 * u, atol=0)
    np.testing.assert_allclose(F.log_softmax(ln.tensor(y), 1).numpy(), np.log(p).astype(dtype), rtol=8 * u, atol=8 * u)
    w, b = (rng.standard_normal(n).astype(dtype) for _ in range(2))
    z = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + np.longdouble(1e-5))
    got = F.layer_norm(ln.tensor(y), n, ln.tensor(w), ln.tensor(b)).numpy()
    np.testing.assert_allclose(got, (z * w + b).astype(dtype), rtol=0, atol=64 * u * (1 + np.abs(z * w).max() + np.abs(b).max()))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("outer", "rows", "columns"), [(9, 64, 700), (40, 30, 1024), (3, 2000, 64)])
def test_variances_of_columns_have_one_value_for_any_number_of_threads(outer, rows, columns, dtype):
    """Threads take samples, or share each: the bits of one sample alone, and of its tangent."""
    x, t = values((outer, rows, columns), dtype), values((outer, rows, columns), dtype, 1)

    def run(x, t):
        y, dot = (np.full((len(x), columns), np.nan, dtype) for _ in range(2))
        reduce.variance_step("var", dtype == np.float64, "xtyd", len(x), rows, columns, 1, rows - 1)(x, t, y, dot)
        return y, dot

    alone = [run(x[i : i + 1], t[i : i + 1]) for i in range(outer)]
    np.testing.assert_allclose(np.concatenate([y for y, _ in alone]), x.astype(np.float64).var(1, ddof=1), rtol=1e-5)
    for together, parts in zip(on_threads(lambda: run(x, t)), zip(*alone, strict=True), strict=True):
        assert together.tobytes() == np.concatenate(parts).tobytes()
