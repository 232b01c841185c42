"""Pooling on exact numbers: worked by hand, ties, NaN, empty windows, adjoints, duals, SciPy."""

from __future__ import annotations

import math
from fractions import Fraction as Q

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import ndimage, special
from spec_support import adaptive, dot, duals, formal, fractions, pooling, rngs, same, strided, tangents

from lean_nn import spec
from lean_nn.spec import Dual, Interval, layers
from lean_nn.spec.windows import Adaptive, Strided, as_strided

FEW = settings(max_examples=60, deadline=None)
NAN, INF = math.nan, math.inf


def window(*kernel, **options):
    return as_strided("pool", kernel, **options)


# --- max by hand ---


def test_max_by_hand():
    x = [[1, 5, 2], [7, 3, 8], [4, 9, 6]]
    y, idx = spec.max_pool(x, window=window(2, 2, stride=1))
    assert y.tolist() == [[7, 8], [9, 9]] and idx.tolist() == [[3, 5], [7, 7]]
    y, idx = spec.max_pool(x, window=window(2, 2, stride=2, padding=1))
    assert y.tolist() == [[1, 5], [7, 9]] and idx.tolist() == [[0, 1], [3, 7]]
    y, idx = spec.max_pool(x, window=window(2, 2, stride=1, dilation=2))
    assert y.tolist() == [[6]] and idx.tolist() == [[8]]
    y, idx = spec.max_pool(x, window=window(2, 2, ceil_mode=True))
    assert y.tolist() == [[7, 8], [9, 6]] and idx.tolist() == [[3, 5], [7, 8]]


def test_first_of_equal_maxima_wins_everywhere():
    x, w = [[2, 2], [2, 1]], window(2, 2)
    assert spec.max_pool(x, window=w)[1].tolist() == [[0]]
    assert spec.max_pool_jvp(x, [[1, 10], [100, 1000]], window=w).tolist() == [[1]]
    assert spec.max_pool_vjp(x, [[5]], window=w).tolist() == [[5, 0], [0, 0]]


def test_first_nan_wins():
    y, idx = spec.max_pool([INF, NAN, 3.0, NAN], window=window(4))
    assert math.isnan(y[0]) and idx.tolist() == [1]
    assert spec.max_pool_vjp([INF, NAN, 3.0, NAN], [1.0], window=window(4)).tolist() == [0, 1, 0, 0]


def test_all_minus_infinity_gives_the_first_real_cell():
    y, idx = spec.max_pool([-INF, -INF], window=window(3, stride=1, padding=1))
    assert y.tolist() == [-INF, -INF] and idx.tolist() == [0, 0]


def test_window_without_real_cell():
    x, w = [4.0], window(1, padding=1)
    y, idx = spec.max_pool(x, window=w)
    assert y.tolist() == [0, 4.0, 0] and idx.tolist() == [-1, 0, -1]
    assert spec.max_pool_jvp(x, [1.0], window=w).tolist() == [0, 1.0, 0]
    assert spec.max_pool_vjp(x, [10.0, 20.0, 30.0], window=w).tolist() == [20.0]
    assert spec.gather_at([[x]], [[idx]]).tolist() == [[y.tolist()]]
    assert spec.scatter_add_at([[[10.0, 20.0, 30.0]]], [[idx]], spatial=(1,)).tolist() == [[[20.0]]]


def test_padding_is_no_candidate_for_negative_input():
    assert spec.max_pool([-3, -2], window=window(2, stride=1, padding=1))[0].tolist() == [-3, -2, -2]


def test_overlapping_windows_add_up():
    assert spec.max_pool_vjp([1, 9, 2], [10, 100], window=window(2, stride=1)).tolist() == [0, 110, 0]


# --- average by hand ---


def test_average_by_hand():
    x = [Q(1), Q(2), Q(4)]
    assert spec.avg_pool(x, window=window(2, stride=1)).tolist() == [Q(3, 2), 3]
    padded = window(2, stride=2, padding=1)
    assert spec.avg_pool(x, window=padded).tolist() == [Q(1, 2), 3]
    assert spec.avg_pool(x, window=padded, count_include_pad=False).tolist() == [1, 3]
    assert spec.avg_pool(x, window=padded, divisor_override=3).tolist() == [Q(1, 3), 2]


def test_average_ceil_mode_counts_cells_inside_the_padded_input():
    x = [Q(n) for n in (1, 2, 4, 8, 16)]
    assert spec.avg_pool(x, window=window(3, stride=3, ceil_mode=True)).tolist() == [Q(7, 3), 12]
    padded = window(3, stride=3, padding=1, ceil_mode=True)
    assert spec.avg_pool(x, window=padded).tolist() == [1, Q(28, 3)]
    assert spec.avg_pool(x, window=window(2, stride=2, padding=1, ceil_mode=True)).tolist() == [Q(1, 2), 3, 12]


def test_average_without_real_cell_is_zero():
    for include in (True, False):
        y = spec.avg_pool([Q(3)], window=window(1, padding=1), count_include_pad=include)
        assert y.tolist() == [0, 3, 0]


def test_average_transpose_by_hand():
    g = [Q(6), Q(10)]
    assert spec.avg_pool_transpose(g, spatial=(3,), window=window(2, stride=1)).tolist() == [3, 8, 5]
    padded = window(2, stride=2, padding=1)
    assert spec.avg_pool_transpose(g, spatial=(3,), window=padded).tolist() == [3, 5, 5]


# --- adaptive by hand ---


def test_adaptive_by_hand():
    x = [Q(n) for n in (1, 2, 3, 4, 5)]
    assert spec.avg_pool(x, window=Adaptive((2,))).tolist() == [2, 4]
    assert spec.max_pool(x, window=Adaptive((3,)))[1].tolist() == [1, 3, 4]
    assert layers.adaptive_avg_pool([Q(1), Q(2)], (3,)).tolist() == [1, Q(3, 2), 2]
    assert layers.adaptive_avg_pool([x, x], (1, None)).tolist() == [x]
    assert layers.adaptive_avg_pool_vjp([Q(3), Q(6)], (2,), (5,)).tolist() == [1, 1, 3, 2, 2]
    assert layers.adaptive_max_pool_vjp(x, [1, 1, 1], (3,)).tolist() == [0, 1, 0, 1, 1]
    assert layers.adaptive_max_pool_jvp(x, [10, 20, 30, 40, 50], (3,)).tolist() == [20, 40, 50]


# --- smooth max by hand ---


def test_smooth_max_of_a_constant_window():
    for beta in (0.5, 3.0, -2.0):
        y = spec.smooth_max_pool([7.0] * 4, beta, window=window(4))
        assert y[0] == pytest.approx(7 + math.log(4) / beta, rel=1e-15)


def test_smooth_max_counts_padding_as_zero():
    y = spec.smooth_max_pool([1.0], 2.0, window=window(3, padding=1))
    assert y[0] == pytest.approx(math.log(math.exp(2) + 2) / 2, rel=1e-15)
    w = math.exp(2) / (math.exp(2) + 2)
    assert spec.smooth_max_pool_jvp([1.0], 2.0, [3.0], window=window(3, padding=1))[0] == pytest.approx(3 * w)
    assert spec.smooth_max_pool_vjp([1.0], 2.0, [3.0], window=window(3, padding=1))[0] == pytest.approx(3 * w)


@pytest.mark.parametrize("beta", [1e20, -1e20])
def test_smooth_max_does_not_overflow(beta):
    x, w = [1e20, -1e20, 0.0], window(3)
    extreme = 1e20 if beta > 0 else -1e20
    assert spec.smooth_max_pool(x, beta, window=w).tolist() == [extreme]
    at = [1.0, 0.0, 0.0] if beta > 0 else [0.0, 1.0, 0.0]
    assert spec.smooth_max_pool_vjp(x, beta, [1.0], window=w).tolist() == at
    assert spec.smooth_max_pool_dbeta(x, beta, window=w).tolist() == [0.0]


def test_smooth_max_of_infinities_and_nan():
    values = {(INF, 1.0): INF, (-INF, 1.0): 1.0, (-INF, -INF): -INF, (INF, -INF): INF}
    for x, y in values.items():
        assert spec.smooth_max_pool(list(x), 2.0, window=window(2)).tolist() == [y]
    assert spec.smooth_max_pool([INF, 1.0], -2.0, window=window(2)).tolist() == [1.0]
    assert math.isnan(spec.smooth_max_pool([NAN, INF], 2.0, window=window(2))[0])


def test_smooth_max_beta_may_be_an_array_of_rank_zero():
    w = window(2)
    plain = spec.smooth_max_pool([1.0, 2.0], 3.0, window=w)
    assert same(spec.smooth_max_pool([1.0, 2.0], np.array(3.0), window=w), plain)
    with pytest.raises(ValueError, match=r"^smooth_max_pool: beta must be a scalar; got shape \(1,\); use one number$"):
        spec.smooth_max_pool([1.0, 2.0], np.array([3.0]), window=w)


# --- exact identities over random geometry ---


@FEW
@given(pooling(), rngs)
def test_max_adjoint_dual_and_gather(case, rng):
    w, shape = case
    x, x_dot = fractions(rng, shape, few=True), fractions(rng, shape)
    y, idx = spec.max_pool(x, window=w)
    y_dot = spec.max_pool_jvp(x, x_dot, window=w)
    assert same(tangents(spec.max_pool(duals(x, x_dot), window=w)[0]), y_dot)
    y_bar = fractions(rng, y.shape)
    x_bar = spec.max_pool_vjp(x, y_bar, window=w)
    assert dot(y_dot, y_bar) == dot(x_dot, x_bar)
    d = len(getattr(w, "output", getattr(w, "kernel", ())))
    lead = shape[: len(shape) - d]
    planes = (int(np.prod(lead)), 1)
    at = idx.reshape(planes + y.shape[len(lead) :])
    gathered = spec.gather_at(x_dot.reshape(planes + shape[len(lead) :]), at)
    assert same(gathered.reshape(y.shape), y_dot)
    spread = spec.scatter_add_at(y_bar.reshape(at.shape), at, spatial=shape[len(lead) :])
    assert same(spread.reshape(shape), x_bar)


@FEW
@given(pooling(), rngs)
def test_average_adjoint_and_dual(case, rng):
    w, shape = case
    include, override = bool(rng.integers(2)), [None, 5][rng.integers(2)]
    params = {"window": w, "count_include_pad": include, "divisor_override": override}
    x, x_dot = fractions(rng, shape), fractions(rng, shape)
    y_dot = spec.avg_pool_jvp(x_dot, **params)
    assert same(tangents(spec.avg_pool(duals(x, x_dot), **params)), y_dot)
    d = len(getattr(w, "output", getattr(w, "kernel", ())))
    y_bar = fractions(rng, y_dot.shape)
    x_bar = spec.avg_pool_transpose(y_bar, spatial=shape[len(shape) - d :], **params)
    assert dot(y_dot, y_bar) == dot(x_dot, x_bar)


@FEW
@given(pooling(), rngs)
def test_smooth_adjoint_is_exact_for_any_exponential(case, rng):
    w, shape = case
    beta = formal([abs(fractions(rng, ()).item()) + 1])[0]  # not 0
    x, x_dot = formal(fractions(rng, shape)), formal(fractions(rng, shape))
    y_dot = spec.smooth_max_pool_jvp(x, beta, x_dot, window=w)
    y_bar = formal(fractions(rng, y_dot.shape))
    assert dot(y_dot, y_bar) == dot(x_dot, spec.smooth_max_pool_vjp(x, beta, y_bar, window=w))
    left = dot(spec.smooth_gather(x_dot, x, beta, window=w), y_bar)
    assert left == dot(x_dot, spec.smooth_scatter(y_bar, x, beta, window=w))


@FEW
@given(pooling(), rngs)
def test_smooth_derivatives_against_duals_and_the_closed_pair(case, rng):
    w, shape = case
    beta = float(rng.choice([-3.0, 0.7, 2.0]))
    x, x_dot = rng.standard_normal(shape), rng.standard_normal(shape)
    y = spec.smooth_max_pool(x, beta, window=w)
    y_dot = spec.smooth_max_pool_jvp(x, beta, x_dot, window=w)

    def close(a, b):
        np.testing.assert_allclose(np.asarray(a, float), np.asarray(b, float), rtol=1e-11, atol=1e-11)

    close(tangents(spec.smooth_max_pool(duals(x, x_dot), beta, window=w)), y_dot)
    close(spec.smooth_gather(x_dot, x, beta, window=w), y_dot)
    close(tangents(spec.smooth_max_pool(x, Dual(beta, 1.0), window=w)), spec.smooth_max_pool_dbeta(x, beta, window=w))
    y_bar = rng.standard_normal(y.shape)
    close(spec.smooth_scatter(y_bar, x, beta, window=w), spec.smooth_max_pool_vjp(x, beta, y_bar, window=w))


@FEW
@given(pooling(), rngs)
def test_leading_axes_are_independent_planes(case, rng):
    w, shape = case
    d = len(getattr(w, "output", getattr(w, "kernel", ())))
    lead = shape[: len(shape) - d]
    x = fractions(rng, shape)
    y, idx = spec.max_pool(x, window=w)
    mean = spec.avg_pool(x, window=w)
    for n in np.ndindex(*lead):
        plane, at = spec.max_pool(x[n], window=w)
        assert same(y[n], plane) and same(idx[n], at) and same(mean[n], spec.avg_pool(x[n], window=w))


# --- other libraries ---


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_scipy_filters(d):
    rng = np.random.default_rng(d)
    x = rng.standard_normal((4,) * d)
    w = Strided((3,) * d, (1,) * d, ((1, 1),) * d, (1,) * d)
    y = spec.max_pool(x, window=w)[0].astype(float)
    np.testing.assert_array_equal(y, ndimage.maximum_filter(x, 3, mode="constant", cval=-np.inf))
    mean = spec.avg_pool(x, window=w).astype(float)
    np.testing.assert_allclose(mean, ndimage.uniform_filter(x, 3, mode="constant"), rtol=0, atol=1e-12)
    whole = spec.smooth_max_pool(x, 2.0, window=window(*x.shape)).astype(float)
    np.testing.assert_allclose(whole.item(), special.logsumexp(2.0 * x) / 2, rtol=1e-14)


@settings(max_examples=30, deadline=None)
@given(strided(max_rank=2), rngs)
def test_intervals_enclose_the_exact_average(case, rng):
    w, spatial = case
    x = fractions(rng, spatial)
    boxes = np.vectorize(Interval, otypes=[object])(x)
    for exact, box in zip(spec.avg_pool(x, window=w).flat, spec.avg_pool(boxes, window=w).flat, strict=True):
        assert exact == box == 0 or box.contains(exact)


def test_intervals_that_overlap_have_no_winner():
    with pytest.raises(ValueError, match="overlap"):
        spec.max_pool([Interval(0, 2), Interval(1, 3)], window=window(2))
    assert spec.max_pool([Interval(0, 2), Interval(3, 4)], window=window(2))[1].tolist() == [1]


@settings(max_examples=30, deadline=None)
@given(adaptive(max_rank=2), rngs)
def test_adaptive_layers_are_the_same_pooling(case, rng):
    w, spatial = case
    x, t = fractions(rng, spatial), fractions(rng, spatial)
    y, idx = layers.adaptive_max_pool(x, w.output)
    g = fractions(rng, y.shape)
    assert same(idx, spec.max_pool(x, window=w)[1])
    assert dot(layers.adaptive_max_pool_jvp(x, t, w.output), g) == dot(t, layers.adaptive_max_pool_vjp(x, g, w.output))
    back = layers.adaptive_avg_pool_vjp(g, w.output, spatial)
    assert dot(layers.adaptive_avg_pool_jvp(t, w.output), g) == dot(t, back)


# --- refusals ---


ERRORS = [
    (lambda: spec.max_pool([1, 2], window=window(3)), ValueError,
     r"max_pool: kernel \(3,\) with dilation \(1,\) spans \(3,\), larger than padded input \(2,\) on spatial axis 0; "
     r"reduce kernel or dilation, or add padding"),
    (lambda: spec.max_pool_jvp([1, 2], [1], window=window(2)), ValueError,
     r"max_pool: tangent must have shape \(2,\); got \(1,\); reshape or recompute it"),
    (lambda: spec.max_pool_vjp([1, 2], [1, 2], window=window(2)), ValueError,
     r"max_pool: cotangent must have shape \(1,\); got \(2,\); reshape or recompute it"),
    (lambda: spec.avg_pool_transpose([1, 2], spatial=(2,), window=window(2)), ValueError,
     r"avg_pool_transpose: cotangent must have shape \(1,\); got \(2,\); reshape or recompute it"),
    (lambda: spec.avg_pool([1, 2], window=window(2), divisor_override=0), ValueError,
     r"avg_pool: divisor_override must not be 0; got 0; use a non-zero int or None"),
    (lambda: spec.gather_at([[[1, 2]]], [[[2]]]), IndexError,
     r"gather_at: indices must be in \[-1, 2\); got \[2, 2\]; use this input's"),
    (lambda: spec.scatter_add_at([[[1]]], [[[-2]]], spatial=(2,)), IndexError,
     r"scatter_add_at: indices must be in \[-1, 2\); got \[-2, -2\]; use this input's"),
    (lambda: spec.gather_at([[[1, 2]]], [[[0.5]]]), TypeError,
     r"gather_at: indices are int64; got float64; convert with .astype\('int64'\)"),
    (lambda: spec.gather_at([[[1, 2]], [[1, 2]]], [[[0]]]), ValueError,
     r"gather_at: array and index must share \(batch, channels\); got \(2, 1, 2\) and \(1, 1, 1\); "
     r"use the index of this input"),
    (lambda: spec.MaxPoolSpec((2,), (0,), (0,)), ValueError,
     r"MaxPoolSpec: stride must be at least 1; got \(0,\); use integers >= 1"),
    (lambda: spec.AvgPool2DSpec(0, 2, 1), ValueError,
     r"AvgPool2DSpec: kernel must be at least 1; got \(0, 2\); use integers >= 1"),
    (lambda: layers.max_pool(spec.MaxPoolSpec((2,), (1,), (0,)), [1, 2]), ValueError,
     r"max_pool: input must be \(channels, \*spatial\) with 1 spatial axes; got shape \(2,\); "
     r"reshape it or change the layer"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), ERRORS)
def test_errors(call, error, text):
    with pytest.raises(error, match=f"^{text}$"):
        call()
