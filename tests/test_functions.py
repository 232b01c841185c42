"""Elementwise functions, reductions, normalisations and losses: values, special values, dtypes, threads, exactness."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import lean_nn as ln
import lean_nn.functional as F

Array = np.ndarray[Any, Any]
floats = st.floats(-1e3, 1e3, allow_nan=False)


# --- values ---


def test_kinks() -> None:
    x = ln.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    y = F.relu(x) + F.abs(x) + F.clamp(x, 0.0, 2.0)
    y.sum().backward()
    assert y.tolist() == [1.0, 0.0, 6.0]
    assert x.grad.tolist() == [-1.0, 1.0, 3.0]  # clamp passes at its bounds, relu and abs have slope 0 at 0


def test_ties_are_halved() -> None:
    a, b = ln.tensor([1.0, 2.0], requires_grad=True), ln.tensor([1.0, 1.0], requires_grad=True)
    F.maximum(a, b).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([0.5, 1.0], [0.5, 0.0])


def test_the_first_extreme_wins() -> None:
    x = ln.tensor([[3.0, 1.0, 3.0], [0.0, 0.0, -1.0]], requires_grad=True)
    top = F.max(x, 1)
    assert top.values.tolist() == [3.0, 0.0] and top.indices.tolist() == [0, 0]
    top.values.sum().backward()
    assert x.grad.tolist() == [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    assert F.min(x, 1, keepdim=True).indices.tolist() == [[1], [2]]
    assert F.argmax(x).item() == 0 and F.argmin(x).item() == 5
    assert F.argmax(x, 0).tolist() == [0, 0, 0]


def test_nan_wins_and_stays() -> None:
    x = np.array([[1.0, np.nan, np.inf], [-np.inf, 2.0, 3.0]])
    assert F.max(x, 1).indices.tolist() == [1, 2]
    assert F.min(x, 1).indices.tolist() == [1, 0]
    for f in (F.relu, F.abs, F.sign, F.hardswish, F.hardsigmoid, F.gelu, F.silu, F.elu, F.softplus, F.leaky_relu):
        assert np.isnan(f(np.array([np.nan])).item()), f
    assert np.isnan(F.clamp(np.array([np.nan]), 0.0, 1.0).item())
    assert np.isnan(F.maximum(np.array([np.nan, 1.0]), np.array([1.0, np.nan])).numpy()).all()
    assert np.isnan(F.sum(x).item())


@pytest.mark.parametrize(
    ("f", "at_minus", "at_plus"),
    [
        (F.exp, 0.0, math.inf), (F.sigmoid, 0.0, 1.0), (F.tanh, -1.0, 1.0), (F.erf, -1.0, 1.0), (F.relu, 0.0, math.inf),
        (F.elu, -1.0, math.inf), (F.softplus, 0.0, math.inf), (F.hardsigmoid, 0.0, 1.0), (F.sign, -1.0, 1.0),
        (F.log1p, math.nan, math.inf), (F.sqrt, math.nan, math.inf), (F.expm1, -1.0, math.inf),
    ],
)  # fmt: skip
def test_infinities(f: Callable[..., Any], at_minus: float, at_plus: float) -> None:
    for dtype in (np.float32, np.float64):
        got = f(np.array([-np.inf, np.inf], dtype)).numpy()
        np.testing.assert_array_equal(got, np.array([at_minus, at_plus], dtype))


def test_sigmoid_and_softplus_keep_small_values() -> None:
    x = np.array([-700.0, -40.0])
    np.testing.assert_allclose(F.sigmoid(x).numpy(), np.exp(x), rtol=1e-14)
    np.testing.assert_allclose(F.softplus(x).numpy(), np.exp(x), rtol=1e-14)
    np.testing.assert_allclose(F.gelu(np.array([-30.0])).item(), -30 * 4.906713927148187e-198, rtol=1e-14)


@settings(max_examples=50, deadline=None)
@given(arrays(np.float64, array_shapes(max_dims=4, min_side=0, max_side=4), elements=floats), st.data())
def test_reductions_agree_with_numpy(x: Array, data: st.DataObject) -> None:
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, x.ndim - 1), min_size=1))))
    keep = data.draw(st.booleans())
    bound = 1e-12 * (1 + np.abs(x).sum())
    np.testing.assert_allclose(F.sum(x, axes, keep).numpy(), x.sum(axes, keepdims=keep), rtol=0, atol=bound)
    if all(x.shape[a] for a in axes):
        np.testing.assert_allclose(F.mean(x, axes, keep).numpy(), x.mean(axes, keepdims=keep), rtol=0, atol=bound)
        want = x.var(axes, keepdims=keep)
        np.testing.assert_allclose(F.var(x, axes, correction=0, keepdim=keep).numpy(), want, atol=1e3 * bound)


@settings(max_examples=50, deadline=None)
@given(arrays(np.float64, array_shapes(max_dims=3, max_side=5), elements=floats), st.data())
def test_softmax_is_a_distribution(x: Array, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    p = F.softmax(x, axis).numpy()
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis), 1, rtol=1e-13)
    np.testing.assert_allclose(np.exp(F.log_softmax(x, axis).numpy()), p, rtol=1e-12, atol=1e-300)
    shifted = F.logsumexp(x + 7.0, axis).numpy() - 7.0
    np.testing.assert_allclose(F.logsumexp(x, axis).numpy(), shifted, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(arrays(np.float64, st.tuples(st.integers(2, 5), st.integers(1, 3), st.integers(1, 4)), elements=st.floats(-9, 9)))
def test_normalised_data_has_mean_0_and_variance_1(x: Array) -> None:
    z = F.batch_norm(x, None, None, training=True, eps=0.01).numpy()
    variance = x.var((0, 2))
    np.testing.assert_allclose(z.mean((0, 2)), 0, atol=1e-12)
    np.testing.assert_allclose(z.var((0, 2)), variance / (variance + 0.01), atol=1e-12)


def test_variance_of_too_few() -> None:
    assert F.var(np.array([1.0, 2.0]), correction=2).item() == math.inf  # as PyTorch: 0.5 / 0
    assert math.isnan(F.var(np.array([1.0])).item())
    assert math.isnan(F.mean(np.zeros((0,))).item())


# --- dtypes ---


def test_float32_stays_float32_and_python_numbers_are_weak() -> None:
    x = ln.tensor([1.0, 2.0])
    results = [F.clamp(x, 0, 1), F.maximum(x, 1.5), F.where(x > 1, x, 0), F.softmax(x, 0), F.mse_loss(x, x), F.mean(x)]
    results += [F.leaky_relu(x), F.dropout(x), F.layer_norm(x, 2), F.logsumexp(x, 0), x**2, F.gelu(x, "tanh")]
    assert {y.dtype for y in results} == {np.dtype(np.float32)}
    assert (x > 1).dtype == np.bool_


@pytest.mark.parametrize("f", [F.relu, F.exp, F.sum, F.mean, lambda x: F.softmax(x, 0), lambda x: F.max(x, 0), F.dropout])
def test_other_dtypes_say_what_to_convert_to(f: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="float32, float64 or object data is needed; got int64; convert with"):
        f(np.array([1, 2]))
    with pytest.raises(TypeError, match="got float16; convert to float32 or float64"):
        f(np.array([1, 2], np.float16))


def test_mixed_dtypes_are_refused() -> None:
    with pytest.raises(TypeError, match="add: arguments of one dtype are needed; got float32, float64"):
        F.add(np.zeros(2, np.float32), np.zeros(2))


# --- exact numbers run on the specification ---


def test_fractions_stay_exact() -> None:
    x = ln.tensor([Fraction(1, 3), Fraction(-1, 2), Fraction(2)], requires_grad=True)
    y = F.mean(F.relu(x) * x + F.leaky_relu(x, 0.25) + F.clamp(x, -1, 1))
    y.backward()
    assert y.item() == Fraction(1, 3) * (
        Fraction(1, 9) + 4 + Fraction(1, 3) - Fraction(1, 8) + 2 + Fraction(1, 3) - Fraction(1, 2) + 1
    )
    third = Fraction(1, 3)
    assert x.grad.tolist() == [third * (2 * third + 2), third * Fraction(5, 4), third * 5]
    assert F.huber_loss(x, ln.tensor([Fraction(0)] * 3), "none").tolist() == [Fraction(1, 18), Fraction(1, 8), Fraction(3, 2)]


# --- threads ---


@pytest.mark.parametrize(
    "f",
    [
        lambda x: F.sum(x), lambda x: F.sum(x, (0, 2)), lambda x: F.softmax(x, 1), lambda x: F.gelu(x) * F.exp(x),
        lambda x: F.batch_norm(x, None, None, training=True), lambda x: F.layer_norm(x, x.shape[1:]),
        lambda x: F.max(x, 1).values, lambda x: F.dropout(x, seed=3), lambda x: x + F.mean(x, 0),
        lambda x: F.cross_entropy(x, np.arange(40 * 30).reshape(40, 30) % 50),
    ],
)  # fmt: skip
def test_bits_do_not_depend_on_threads(f: Callable[..., Any]) -> None:
    data = np.random.default_rng(0).standard_normal((40, 50, 30)).astype(np.float32)
    found = set()
    for threads in (1, 2, 5):
        with ln.num_threads(threads):
            x = ln.tensor(data, requires_grad=True)
            y = f(x)
            y.backward(ln.tensor(np.ones(y.shape, np.float32)))
            found.add((y.numpy().tobytes(), x.grad.numpy().tobytes()))
    assert len(found) == 1


# --- dropout ---


def test_dropout_drops_the_same_in_every_derivative() -> None:
    x = ln.tensor(np.ones(1000), requires_grad=True)
    y = F.dropout(x, 0.3, seed=5)
    y.sum().backward()
    _, y_dot = ln.jvp(lambda v: F.dropout(v, 0.3, seed=5), (x,), (ln.tensor(np.ones(1000)),))
    assert np.array_equal(y.numpy(), x.grad.numpy()) and np.array_equal(y.numpy(), y_dot.numpy())
    assert set(np.unique(y.numpy())) == {0.0, 1 / (1 - 0.3)}
    assert abs((y.numpy() == 0).mean() - 0.3) < 0.06


def test_dropout_seeds() -> None:
    x = np.ones(64)
    F.manual_seed(1)
    first, second = F.dropout(x).numpy(), F.dropout(x).numpy()
    F.manual_seed(1)
    assert np.array_equal(F.dropout(x).numpy(), first) and not np.array_equal(first, second)
    assert F.dropout(x, training=False).numpy() is x
    assert not F.dropout(np.array([np.inf, 1.0]), 1.0).numpy().any()
    assert np.array_equal(F.dropout(x, seed=np.array(9)).numpy(), F.dropout(x, seed=9).numpy())


# --- running statistics ---


def test_batch_norm_updates_buffers_in_place_and_only_when_training() -> None:
    x = np.array([[0.0], [2.0]])
    mean, var = ln.tensor(np.array([1.0])), np.array([1.0])
    F.batch_norm(x, mean, var, training=True, momentum=0.5)
    assert mean.tolist() == [1.0] and np.allclose(var, [1.5])
    F.batch_norm(x, mean, var)
    assert np.allclose(var, [1.5])
    assert F.batch_norm(np.zeros((0, 3)), None, None, training=True).shape == (0, 3)
