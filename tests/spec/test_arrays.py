"""Elementwise, reduction, shape, indexing and matrix primitives of the spec: by hand, NumPy, duals, adjoints."""

from __future__ import annotations

import math
from fractions import Fraction as Q

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, mutually_broadcastable_shapes
from scipy import special
from spec_support import dot, duals, fractions, rngs, same, tangents

from lean_nn import spec
from lean_nn.spec import Dual, Interval
from lean_nn.spec.shape import dropout_uniform

NAN, INF = math.nan, math.inf
FEW = settings(max_examples=50, deadline=None)
shapes = array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3)


def close(a, b, tolerance=1e-12):
    np.testing.assert_allclose(np.asarray(a, float), np.asarray(b, float), rtol=tolerance, atol=tolerance)


# --- elementwise ---

BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
COMPARE = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


@pytest.mark.parametrize("name", [*BINARY, *COMPARE])
@settings(max_examples=20, deadline=None)
@given(mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=0, max_side=3), rngs)
def test_binary_broadcasts_like_numpy(name, broadcast, rng):
    a, b = (fractions(rng, s, few=True) for s in broadcast.input_shapes)
    y = getattr(spec, name)(a, b)
    want = {**BINARY, **COMPARE}[name](a.astype(float), b.astype(float))
    assert y.shape == want.shape and y.dtype == (bool if name in COMPARE else object)
    assert np.array_equal(y.astype(want.dtype), want)


def test_division_and_power_are_exact():
    assert spec.div([Q(1), Q(2)], [Q(3)]).tolist() == [Q(1, 3), Q(2, 3)]
    assert spec.pow([Q(2), Q(1, 4)], [Q(-2), Q(1, 2)]).tolist() == [Q(1, 4), Q(1, 2)]


def test_shapes_that_do_not_broadcast():
    with pytest.raises(ValueError, match=r"^add: shapes must broadcast; got \(2,\) and \(3,\); reshape one of them$"):
        spec.add([1, 2], [1, 2, 3])


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0), "silu": lambda x: x * special.expit(x), "gelu": lambda x: x * special.ndtr(x),
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6, "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "sign": np.sign, "square": np.square, "neg": np.negative, "abs": np.abs, "normal_cdf": special.ndtr,
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    x = np.linspace(-8, 8, 65)
    close(getattr(spec, name)(x), ACTIVATIONS[name](x))
    assert name == "sign" or math.isnan(getattr(spec, name)([NAN])[0])


def test_activations_with_parameters():
    x = np.linspace(-8, 30, 77)
    close(spec.leaky_relu(x, slope=0.2), np.where(x > 0, x, 0.2 * x))
    close(spec.elu(x, alpha=1.5), np.where(x > 0, x, 1.5 * np.expm1(x)))
    close(spec.softplus(x, beta=2.0, threshold=20.0), np.where(2 * x > 20, x, np.logaddexp(0, 2 * x) / 2))
    close(spec.clip(x, low=-1.0, high=2.0), np.clip(x, -1, 2))
    close(spec.clip(x, low=0.0), np.maximum(x, 0))
    close(spec.clip(x, high=0.0), np.minimum(x, 0))
    assert math.isnan(spec.clip([NAN], low=0.0, high=1.0)[0])
    assert spec.softplus([-800.0, 800.0], beta=1.0, threshold=20.0).tolist() == [0.0, 800.0]


def test_constants_stay_exact_on_fractions():
    assert spec.leaky_relu([Q(-4), Q(4)], slope=0.25).tolist() == [Q(-1), Q(4)]
    assert spec.hardsigmoid([Q(1), Q(-5), Q(5)]).tolist() == [Q(2, 3), 0, 1]
    assert spec.clip([Q(-4), Q(1, 3)], low=-0.5, high=0.5).tolist() == [Q(-1, 2), Q(1, 3)]
    assert spec.hardswish([Q(1)]).tolist() == [Q(2, 3)]


GATES = {
    "relu_gate": ("relu", {}), "leaky_gate": ("leaky_relu", {"slope": 0.25}), "elu_gate": ("elu", {"alpha": 1.5}),
    "clip_gate": ("clip", {"low": -1.0, "high": 1.0}), "gelu_gate": ("gelu", {}), "silu_gate": ("silu", {}),
    "hardswish_gate": ("hardswish", {}), "sign_gate": ("abs", {}), "gelu_tanh_gate": ("gelu_tanh", {}),
    "square_gate": ("square", {}),
}  # fmt: skip


@pytest.mark.parametrize("gate", GATES)
def test_gates_are_the_duals_of_their_functions(gate):
    f, params = GATES[gate]
    x, g = np.array([-3.0, -1.0, -0.5, 0.0, 0.7, 1.0, 4.0]), np.arange(1.0, 8.0)
    close(getattr(spec, gate)(g, x, **params), tangents(getattr(spec, f)(duals(x, g), **params)))


def test_gates_by_value():
    assert spec.relu_gate([5, 5, 5], [NAN, 0.0, 1.0]).tolist() == [5, 0, 5]
    assert spec.open_gate([5, 5, 5], [-1, 0, 1], bound=1, over=2).tolist() == [0, 2.5, 0]
    assert spec.clip_gate([5, 5, 5], [-1, 2, NAN], low=-1, high=1).tolist() == [5, 0, 0]
    assert spec.sqrt_gate([5, 5], [2.0, -0.5]).tolist() == [1.25, -5]
    assert spec.sign_gate([5, 5, 5], [-2, 0, 3]).tolist() == [-5, 0, 5]
    assert spec.larger_gate([4, 4, 4, 4], [1, 2, 3, NAN], [2, 2, 2, 2]).tolist() == [0, 2, 4, 4]
    assert spec.div_gate([4, 4], [3, Q(1, 2)], [2, -1]).tolist() == [-6, 2]
    assert spec.pow_gate([5, 5, 5, 5], [2, 2, 0, Q(1, 2)], [3, 1, 0, -1]).tolist() == [60, 5, 0, -20]
    assert spec.tanh_gate([2], [Q(1, 2)]).tolist() == [Q(3, 2)]
    assert spec.sigmoid_gate([2], [Q(1, 4)]).tolist() == [Q(3, 8)]


def test_where_chooses():
    assert spec.where([[True], [False]], [1, 2], [3, 4]).tolist() == [[1, 2], [3, 4]]


def test_intervals_over_a_kink():
    assert spec.relu([Interval(-1, 2)])[0] == Interval(0, 2)
    assert spec.clip([Interval(-5, 5)], low=-1, high=1)[0] == Interval(-1, 1)
    assert spec.hardsigmoid([Interval(-9, 9)])[0].contains(Interval(0, 1))


# --- reductions ---


@FEW
@given(shapes, rngs, st.booleans())
def test_sum_and_mean_over_any_axes(shape, rng, keepdims):
    x = fractions(rng, shape)
    axes = tuple(a for a in range(len(shape)) if rng.integers(2))
    y = spec.sum(x, axes=axes, keepdims=keepdims)
    want = np.sum(x.astype(float), axis=axes, keepdims=keepdims)
    assert y.shape == want.shape
    close(y, want)
    assert same(tangents(spec.sum(duals(x, x), axes=axes)), spec.sum(x, axes=axes)) or 0 in shape
    if 0 not in shape:
        close(spec.mean(x, axes=axes, keepdims=keepdims), np.mean(x.astype(float), axis=axes, keepdims=keepdims))


def test_sum_refuses_wrong_axes():
    with pytest.raises(ValueError, match=r"^sum: axis must be in \[-1, 1\); got 1; use an axis of the array$"):
        spec.sum([1, 2], axes=(1,))
    with pytest.raises(ValueError, match=r"^sum: axes must be different; got \(0, -1\); name each axis once$"):
        spec.sum([1, 2], axes=(0, -1))


def test_extremes_have_places():
    y, idx = spec.max([[1.0, 3.0, 3.0], [NAN, 5.0, NAN]], axis=1)
    assert y[0] == 3 and math.isnan(y[1]) and idx.tolist() == [1, 0] and idx.dtype == np.int64
    y, idx = spec.min([[4.0, 1.0], [4.0, 1.0], [2.0, NAN]], axis=0)
    assert y[0] == 2 and math.isnan(y[1]) and idx.tolist() == [2, 2]
    with pytest.raises(ValueError, match=r"^max: the reduced axis must not be empty; got shape \(0,\), axis 0; "):
        spec.max([], axis=0)


def test_extreme_tangent_is_the_winners():
    y, _ = spec.max([Dual(2, 10), Dual(2, 20), Dual(1, 30)], axis=0)
    assert tangents(y).tolist() == 10


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_family(axis):
    x = np.random.default_rng(0).standard_normal((3, 4)) * 50
    close(spec.logsumexp(x, axis=axis), special.logsumexp(x, axis=axis))
    close(spec.softmax(x, axis=axis), special.softmax(x, axis=axis))
    close(spec.log_softmax(x, axis=axis), special.log_softmax(x, axis=axis))


def test_softmax_family_at_the_edges():
    assert spec.logsumexp([-INF, -INF], axis=0).tolist() == -INF
    assert spec.logsumexp([INF, 1.0], axis=0).tolist() == INF
    assert spec.softmax([-INF, 1e308, 1e308], axis=0).tolist() == [0.0, 0.5, 0.5]
    assert spec.softmax(np.zeros((0, 3)), axis=1).shape == (0, 3)


@FEW
@given(rngs)
def test_softmax_tangents_against_the_formula(rng):
    x, t = rng.standard_normal(5), rng.standard_normal(5)
    y = np.asarray(spec.softmax(x, axis=0), float)
    close(tangents(spec.softmax(duals(x, t), axis=0)), y * (t - y @ t))
    close(tangents(spec.logsumexp(duals(x, t), axis=0)), y @ t)
    close(tangents(spec.log_softmax(duals(x, t), axis=0)), t - y @ t)


@pytest.mark.parametrize("axes", [(0,), (1, 2), (0, 2)])
def test_standardize_and_its_maps(axes):
    rng = np.random.default_rng(1)
    x, t = rng.standard_normal((3, 4, 2)), rng.standard_normal((3, 4, 2))
    z, mean, rstd = spec.standardize(x, axes=axes, eps=1e-3)
    close(mean, x.mean(axes, keepdims=True))
    close(rstd, 1 / np.sqrt(x.var(axes, keepdims=True) + 1e-3))
    close(z, (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-3))
    moved = spec.standardize(duals(x, t), axes=axes, eps=1e-3)
    tangent = spec.standardize_tangent(t, z, rstd, axes=axes)
    for a, b in zip(moved, tangent, strict=True):
        close(tangents(a), b)


@settings(max_examples=20, deadline=None)
@given(rngs)
def test_standardize_transpose_is_exact(rng):
    shape, axes = (2, 3, 2), (0, 2)
    t, z, g = (fractions(rng, shape) for _ in range(3))
    rstd, g_mean, g_rstd = (fractions(rng, (1, 3, 1)) for _ in range(3))
    z_dot, mean_dot, rstd_dot = spec.standardize_tangent(t, z, rstd, axes=axes)
    x_bar = spec.standardize_transpose(g, g_mean, g_rstd, z, rstd, axes=axes)
    assert dot(z_dot, g) + dot(mean_dot, g_mean) + dot(rstd_dot, g_rstd) == dot(t, x_bar)


def test_standardize_is_exact_where_the_root_is_rational():
    z, mean, rstd = spec.standardize([Q(1), Q(5)], axes=(0,), eps=0.0)
    assert z.tolist() == [-1, 1] and mean.tolist() == [3] and rstd.tolist() == [Q(1, 2)]


# --- shapes ---


@FEW
@given(array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=3), rngs)
def test_shape_primitives_against_numpy_and_their_transposes(shape, rng):
    x = fractions(rng, shape)
    axes = tuple(int(a) for a in rng.permutation(len(shape)))
    some = tuple(a for a in range(len(shape)) if rng.integers(2))
    pads = tuple((int(a), int(b)) for a, b in rng.integers(0, 3, (len(shape), 2)))
    assert same(spec.transpose(x, axes=axes), x.transpose(axes))
    assert same(spec.flip(x, axes=some), np.flip(x, some))
    assert same(spec.reshape(x, shape=shape[::-1]), x.reshape(shape[::-1]))
    padded = spec.pad(x, padding=pads, value=Q(7))
    assert same(padded, np.pad(x, pads, constant_values=Q(7)))
    assert same(spec.concat(x, x, x, axis=0), np.concatenate([x, x, x]))
    parts = spec.split(x, sizes=(shape[-1], 0), axis=len(shape) - 1)
    assert same(parts[0], x) and parts[1].shape == (*shape[:-1], 0)
    big = spec.broadcast_to(x[..., None], shape=(2, *shape, 3))
    assert same(big, np.broadcast_to(x[..., None], (2, *shape, 3)))


@FEW
@given(array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5), rngs)
def test_slice_and_unslice_are_transposes(shape, rng):
    x = fractions(rng, shape)
    bounds = rng.integers(0, shape), rng.integers(0, 6, len(shape)), rng.choice([-2, -1, 1, 2], len(shape))
    keys = [slice(int(a), int(b), int(s)) for a, b, s in zip(*bounds, strict=True)]
    want = x[tuple(keys)]
    starts = tuple(k.indices(n)[0] for k, n in zip(keys, shape, strict=True))
    steps = tuple(k.step for k in keys)
    y = spec.slice(x, start=starts, size=want.shape, step=steps)
    assert same(y, want)
    g = fractions(rng, y.shape)
    assert dot(y, g) == dot(x, spec.unslice(g, start=starts, step=steps, shape=shape))


def test_reshape_refuses_another_size():
    text = r"^reshape: the number of elements stays; got \(3,\) to \(2, 2\); choose a shape of 3 elements$"
    with pytest.raises(ValueError, match=text):
        spec.reshape([1, 2, 3], shape=(2, 2))


# --- indices ---


@FEW
@given(array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4), rngs)
def test_gather_and_take_with_their_transposes(shape, rng):
    x, axis = fractions(rng, shape), int(rng.integers(len(shape)))
    idx = rng.integers(0, shape[axis], (*shape[:axis], 5, *shape[axis + 1 :]))
    y = spec.gather(x, idx, axis=axis)
    assert same(y, np.take_along_axis(x, idx, axis))
    g = fractions(rng, y.shape)
    assert dot(y, g) == dot(x, spec.scatter_add(g, idx, axis=axis, size=shape[axis]))
    places = rng.integers(0, shape[axis], (2, 3))
    y = spec.take(x, places, axis=axis)
    assert same(y, np.take(x, places, axis))
    g = fractions(rng, y.shape)
    assert dot(y, g) == dot(x, spec.take_transpose(g, places, axis=axis, size=shape[axis]))


@pytest.mark.parametrize("call", [
    lambda: spec.gather([1, 2], [2], axis=0), lambda: spec.take([1, 2], [-1], axis=0),
    lambda: spec.scatter_add([1], [5], axis=0, size=2), lambda: spec.take_transpose([1], [5], axis=0, size=2),
])  # fmt: skip
def test_indices_out_of_range(call):
    text = r"indices must be in \[0, 2\); got \[(2|-1|5), (2|-1|5)\]; use indices of this axis$"
    with pytest.raises(IndexError, match=text):
        call()


# --- matrix products ---


@FEW
@given(mutually_broadcastable_shapes(num_shapes=2, max_dims=2, min_side=0, max_side=2), rngs)
def test_matmul_broadcasts_and_transposes(batch, rng):
    ta, tb = (bool(v) for v in rng.integers(0, 2, 2))
    m, k, n = (int(v) for v in rng.integers(0, 4, 3))
    a = fractions(rng, (*batch.input_shapes[0], *((k, m) if ta else (m, k))))
    b = fractions(rng, (*batch.input_shapes[1], *((n, k) if tb else (k, n))))
    y = spec.matmul(a, b, ta=ta, tb=tb)
    left, right = (v.astype(float).swapaxes(-1, -2) if t else v.astype(float) for v, t in ((a, ta), (b, tb)))
    close(y, left @ right)
    assert y.shape == (left @ right).shape


def test_matrix_errors():
    text = r"^matmul: inner sizes must agree; got \(1, 2\) and \(1, 2\); transpose or reshape one of them$"
    with pytest.raises(ValueError, match=text):
        spec.matmul([[1, 2]], [[1, 2]])
    with pytest.raises(ValueError, match=r"^matmul: matrices have at least two axes; got \(2,\) and \(2,\); "):
        spec.matmul([1, 2], [1, 2])
    with pytest.raises(ValueError, match=r"^linear: bias must have shape \(1,\); got \(2,\); "):
        spec.linear([[1, 2]], [[1, 2]], [1, 2])
    text = r"^linear: input features must equal the weight's; got \(1, 3\) and \(1, 2\); change the weight$"
    with pytest.raises(ValueError, match=text):
        spec.linear([[1, 2, 3]], [[1, 2]])


# --- dropout ---


def test_dropout_is_the_published_sequence():
    """The counter hash is SplitMix64: its first outputs for seed 0 are known."""
    known = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [dropout_uniform(0, i) for i in range(3)] == [(v >> 11) * 2.0**-53 for v in known]


def test_dropout_keeps_and_scales():
    x = np.full((50, 40), Q(1), dtype=object)
    y = spec.dropout(x, np.int64(-7), p=0.25)
    assert set(y.reshape(-1)) == {0, Q(4, 3)}
    kept = sum(v != 0 for v in y.reshape(-1)) / y.size
    assert 0.7 < kept < 0.8
    assert same(spec.dropout(x, 3, p=0.0), x)
    assert same(tangents(spec.dropout(duals(x, x), -7, p=0.25)), y)
    text = r"^dropout: p must be in \[0, 1\); got 1.0; use the fraction of elements to drop$"
    with pytest.raises(ValueError, match=text):
        spec.dropout(x, 1, p=1.0)
