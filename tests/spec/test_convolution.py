"""Convolution on exact numbers: worked by hand, adjoints, duals, SciPy."""

from __future__ import annotations

from fractions import Fraction as Q

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal
from spec_support import convolution, dot, duals, fractions, rngs, same, tangents

from lean_nn import spec

FEW = settings(max_examples=40, deadline=None)


def test_one_axis_by_hand():
    x, w = [[[1, 2, 3, 4]]], [[[1, 10, 100]]]
    assert spec.conv(x, w).tolist() == [[[321, 432]]]
    assert spec.conv(x, w, padding=1).tolist() == [[[210, 321, 432, 43]]]
    assert spec.conv(x, w, padding=((0, 2),)).tolist() == [[[321, 432, 43, 4]]]
    assert spec.conv(x, w, padding="same").tolist() == [[[210, 321, 432, 43]]]
    assert spec.conv(x, w, padding=1, stride=2).tolist() == [[[210, 432]]]
    assert spec.conv(x, [[[1, 10]]], dilation=2).tolist() == [[[31, 42]]]


def test_two_axes_by_hand():
    x = [[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]
    w = [[[[1, 0], [0, -1]]], [[[0, 2], [0, 0]]]]
    assert spec.conv(x, w, [10, 0]).tolist() == [[[6, 6], [6, 6]], [[4, 6], [10, 12]]]


def test_groups_by_hand():
    x, w = [[1, 2], [3, 4]], [[[1]], [[10]], [[100]], [[1000]]]
    assert spec.conv(x, w, groups=2).tolist() == [[1, 2], [10, 20], [300, 400], [3000, 4000]]


def test_rank_zero_is_a_linear_layer():
    x, w, b = [[1, 2], [3, 4]], [[1, 10], [0, 1], [5, 0]], [1, 1, 1]
    assert spec.conv(x, w, b).tolist() == [[22, 3, 6], [44, 5, 16]]
    assert same(spec.conv(x, w, b), spec.linear(x, w, b))


def test_transposed_by_hand():
    x, w = [[[1, 2]]], [[[1, 10, 100]]]
    assert spec.conv_transpose(x, w).tolist() == [[[1, 12, 120, 200]]]
    assert spec.conv_transpose(x, w, stride=2).tolist() == [[[1, 10, 102, 20, 200]]]
    assert spec.conv_transpose(x, w, stride=2, padding=1).tolist() == [[[10, 102, 20]]]
    assert spec.conv_transpose(x, w, stride=2, padding=1, output_padding=1).tolist() == [[[10, 102, 20, 200]]]
    assert spec.conv_transpose(x, w, [7], dilation=2).tolist() == [[[8, 9, 17, 27, 107, 207]]]


def test_transposed_output_padding_beyond_the_stride():
    """PyTorch allows output_padding up to the dilation: the extra cells are real ones that the padding had cut."""
    y = spec.conv_transpose([[[1, 2]]], [[[1, 10]]], dilation=3, padding=1, output_padding=2)
    assert y.tolist() == [[[2, 0, 10, 20, 0]]]


@pytest.mark.parametrize("shapes", [((0, 2, 4), (3, 2, 2)), ((2, 2, 4), (0, 2, 2)), ((2, 0, 4), (3, 0, 2))])
def test_empty_batch_and_channels(shapes):
    x, w = (np.zeros(s, dtype=object) for s in shapes)
    y = spec.conv(x, w)
    assert y.shape == (x.shape[0], w.shape[0], 3)
    x_bar, w_bar, b_bar = spec.conv_vjp(y, x, w)
    assert x_bar.shape == x.shape and w_bar.shape == w.shape and b_bar.shape == (w.shape[0],)
    assert all(v == 0 for a in (x_bar, w_bar, b_bar) for v in a.reshape(-1))


@FEW
@given(convolution(), rngs)
def test_adjoint_identity_is_exact(case, rng):
    x_shape, w_shape, params = case
    x, w, b = fractions(rng, x_shape), fractions(rng, w_shape), fractions(rng, w_shape[:1])
    x_dot, w_dot, b_dot = fractions(rng, x_shape), fractions(rng, w_shape), fractions(rng, w_shape[:1])
    y_dot = spec.conv_jvp(x, w, b, x_dot, w_dot, b_dot, **params)
    y_bar = fractions(rng, y_dot.shape)
    x_bar, w_bar, b_bar = spec.conv_vjp(y_bar, x, w, **params)
    assert dot(y_dot, y_bar) == dot(x_dot, x_bar) + dot(w_dot, w_bar) + dot(b_dot, b_bar)
    assert same(spec.conv_input(y_bar, w, spatial=x_shape[2:], **params), x_bar)
    assert same(spec.conv_weight(x, y_bar, kernel=w_shape[2:], **params), w_bar)


@FEW
@given(convolution(), rngs)
def test_jvp_is_dual_evaluation(case, rng):
    x_shape, w_shape, params = case
    x, w, b = fractions(rng, x_shape), fractions(rng, w_shape), fractions(rng, w_shape[:1])
    x_dot, w_dot, b_dot = fractions(rng, x_shape), fractions(rng, w_shape), fractions(rng, w_shape[:1])
    y = spec.conv(duals(x, x_dot), duals(w, w_dot), duals(b, b_dot), **params)
    assert same(tangents(y), spec.conv_jvp(x, w, b, x_dot, w_dot, b_dot, **params))
    partial = spec.conv(x, duals(w, w_dot), **params)
    assert same(tangents(partial), spec.conv_jvp(x, w, None, None, w_dot, **params))


@st.composite
def transposed(draw):
    d = draw(st.integers(0, 2))
    groups, per_in, per_out = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(d))
    stride = tuple(draw(st.integers(1, 3)) for _ in range(d))
    dilation = tuple(draw(st.integers(1, 2)) for _ in range(d))
    spatial = tuple(draw(st.integers(1, 4)) for _ in range(d))
    extra = tuple(draw(st.integers(0, max(s, r) - 1)) for s, r in zip(stride, dilation, strict=True))
    axes = zip(spatial, kernel, stride, dilation, extra, strict=True)
    full = [(n - 1) * s + r * (k - 1) + e + 1 for n, k, s, r, e in axes]
    pads = tuple((a := draw(st.integers(0, min(2, n - 1))), draw(st.integers(0, min(2, n - 1 - a)))) for n in full)
    params = {"stride": stride, "padding": pads, "output_padding": extra, "dilation": dilation, "groups": groups}
    return (draw(st.integers(0, 2)), groups * per_in, *spatial), (groups * per_in, per_out, *kernel), params


@FEW
@given(transposed(), rngs)
def test_transposed_adjoint_and_duals(case, rng):
    x_shape, w_shape, params = case
    b_shape = (w_shape[1] * params["groups"],)
    x, w, b = (fractions(rng, s) for s in (x_shape, w_shape, b_shape))
    x_dot, w_dot, b_dot = (fractions(rng, s) for s in (x_shape, w_shape, b_shape))
    y_dot = spec.conv_transpose_jvp(x, w, b, x_dot, w_dot, b_dot, **params)
    y = spec.conv_transpose(duals(x, x_dot), duals(w, w_dot), duals(b, b_dot), **params)
    assert same(tangents(y), y_dot)
    y_bar = fractions(rng, y_dot.shape)
    x_bar, w_bar, b_bar = spec.conv_transpose_vjp(y_bar, x, w, **params)
    assert dot(y_dot, y_bar) == dot(x_dot, x_bar) + dot(w_dot, w_bar) + dot(b_dot, b_bar)


@FEW
@given(transposed(), rngs)
def test_transposed_is_the_adjoint_of_convolution(case, rng):
    x_shape, w_shape, params = case
    if any(e >= s for e, s in zip(params["output_padding"], params["stride"], strict=True)):
        return
    x, w = fractions(rng, x_shape), fractions(rng, w_shape)
    y = spec.conv_transpose(x, w, **params)
    geometry = {k: v for k, v in params.items() if k != "output_padding"}
    assert same(y, spec.conv_input(x, w, spatial=y.shape[2:], **geometry))
    z = fractions(rng, y.shape)
    assert dot(y, z) == dot(x, spec.conv(z, w, **geometry))


@FEW
@given(convolution(), rngs)
def test_unfold_is_convolution_without_the_weight(case, rng):
    x_shape, w_shape, params = case
    if params["groups"] > 1:
        return
    geometry = {k: v for k, v in params.items() if k != "groups"}
    x, w = fractions(rng, x_shape), fractions(rng, w_shape)
    cols = spec.unfold(x, kernel=w_shape[2:], **geometry)
    y = spec.conv(x, w, **params)
    product = spec.matmul(w.reshape(w_shape[0], cols.shape[1]), cols)
    assert same(product.reshape(y.shape), y)
    g = fractions(rng, cols.shape)
    back = spec.fold(g, spatial=x_shape[2:], kernel=w_shape[2:], **geometry)
    assert dot(cols, g) == dot(x, back)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
def test_scipy_correlate(d):
    rng = np.random.default_rng(d)
    x, w = rng.standard_normal((3,) * d), rng.standard_normal((2,) * d)
    y = spec.conv(x[None], w[None, None])[0].astype(float)
    np.testing.assert_allclose(y, signal.correlate(x, w, "valid"), rtol=0, atol=1e-12)
    full = spec.conv(x[None], w[None, None], padding=1)[0].astype(float)
    np.testing.assert_allclose(full, signal.correlate(x, w, "full"), rtol=0, atol=1e-12)
    spread = spec.conv_transpose(x[None], w[None, None])[0].astype(float)
    np.testing.assert_allclose(spread, signal.convolve(x, w, "full"), rtol=0, atol=1e-12)


def test_unbatched_is_one_sample():
    rng = np.random.default_rng(0)
    x, w, b = fractions(rng, (2, 4, 3)), fractions(rng, (3, 2, 2, 2)), fractions(rng, (3,))
    assert same(spec.conv(x, w, b), spec.conv(x[None], w, b)[0])
    assert same(spec.conv_transpose(x, fractions(rng, (2, 3, 2, 2))).shape, (3, 5, 4))
    y_bar = fractions(rng, (3, 3, 2))
    single, batched = spec.conv_vjp(y_bar, x, w), spec.conv_vjp(y_bar[None], x[None], w)
    assert same(single[0], batched[0][0]) and same(single[1], batched[1]) and same(single[2], batched[2])


def test_inputs_are_left_alone():
    x, w = fractions(np.random.default_rng(1), (1, 1, 3)), np.array([[[Q(1), Q(2)]]], dtype=object)
    before = x.copy(), w.copy()
    spec.conv(x, w, [Q(1)])
    spec.conv_vjp(spec.conv(x, w), x, w)
    assert same(x, before[0]) and same(w, before[1])
