"""The elementwise kernels against NumPy and SciPy: values, broadcasting, NaN and infinities, threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes
from scipy import special

import lean_nn as ln
from lean_nn import functional as F
from lean_nn_c import elementwise, threads

ROOT_8_OVER_PI = 2 * np.sqrt(2 / np.longdouble(np.pi))
DTYPES = [np.float32, np.float64]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 1e-30, -1e-30, 90.0, -90.0, np.inf, -np.inf, np.nan]


def sigmoid(x):
    return np.where(x < 0, np.exp(-np.abs(x)), 1) / (1 + np.exp(-np.abs(x)))


def gelu_tanh_gate(g, x):
    x = np.clip(x, -30, 30)
    u, slope = ROOT_8_OVER_PI * (x + 0.044715 * x**3), ROOT_8_OVER_PI * (1 + 3 * 0.044715 * x**2)
    return g * (sigmoid(u) + x * slope * sigmoid(u) * sigmoid(-u)).astype(x.dtype)


# name: (definition in longdouble, parameters, ulps)
UNARY = {
    "neg": (np.negative, (), 0),
    "abs": (np.abs, (), 0),
    "sign": (np.sign, (), 0),
    "sqrt": (np.sqrt, (), 0.5),
    "square": (lambda x: x * x, (), 0.5),
    "exp": (np.exp, (), 1),
    "log": (np.log, (), 1),
    "expm1": (np.expm1, (), 2),
    "log1p": (np.log1p, (), 1.5),
    "tanh": (np.tanh, (), 3),
    "sigmoid": (sigmoid, (), 2.5),
    "erf": (lambda x: special.erf(x.astype(float)), (), 2),
    "normal_cdf": (lambda x: special.ndtr(x.astype(float)), (), None),
    "normal_pdf": (lambda x: np.exp(-x * x / 2) / np.sqrt(2 * np.longdouble(np.pi)), (), None),
    "relu": (lambda x: np.where(x <= 0, 0, x), (), 0),
    "leaky_relu": (lambda x: np.where(x > 0, x, x * 0.25), (0.25,), 0.5),
    "elu": (lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0)) * 1.5), (1.5,), 3.5),
    "gelu": (lambda x: x * special.ndtr(x.astype(float)), (), None),
    "gelu_tanh": (lambda x: x * sigmoid(ROOT_8_OVER_PI * (x + x**3 * 0.044715)), (), None),
    "silu": (lambda x: x * sigmoid(x), (), 3.5),
    "softplus": (lambda x: np.where(x * 2 > 20, x, np.logaddexp(0, 2 * x) / 2), (2.0, 20.0), 3),
    "hardsigmoid": (lambda x: np.clip(x + 3, 0, 6) / 6, (), None),
    "hardswish": (lambda x: x * np.clip(x + 3, 0, 6) / 6, (), None),
    "clip": (lambda x: np.clip(x, -0.5, 1.5), (-0.5, 1.5), 0),
    "huber": (lambda x: np.where(np.abs(x) > 0.75, 0.75 * (np.abs(x) - 0.375), x * x / 2), (0.75,), 3),
}
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "maximum": np.maximum, "minimum": np.minimum, "pow": np.power,
    "relu_gate": lambda g, x: np.where(x <= 0, 0, g),
    "sign_gate": lambda g, x: g * np.sign(x),
    "leaky_gate": lambda g, x: np.where(x > 0, g, g * g.dtype.type(0.25)),
    "elu_gate": lambda g, x: np.where(x > 0, g, g * (g.dtype.type(0.25) * np.exp(x))),
    "clip_gate": lambda g, x: np.where((x >= 0.25) & (x <= 1), g, 0),
    "open_gate": lambda g, x: np.where(np.abs(x) < 0.25, g / 1, 0),
    "square_gate": lambda g, x: 2 * (g * x),
    "sqrt_gate": lambda g, y: g / (y + y),
    "tanh_gate": lambda g, y: g * ((1 - y) * (1 + y)),
    "sigmoid_gate": lambda g, y: g * (y * (1 - y)),
    "hardswish_gate": lambda g, x: np.where(x >= 3, g, np.where(x <= -3, 0, g * (x / 3 + 0.5))),
    "gelu_gate": lambda g, x: g * (special.ndtr(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)),
    "gelu_tanh_gate": gelu_tanh_gate,
    "silu_gate": lambda g, x: g * (sigmoid(x) + x * sigmoid(x) * sigmoid(-x)),
}
# libm, or products the compiler may fuse
ROUNDED = {"pow", "elu_gate", "tanh_gate", "sigmoid_gate", "hardswish_gate", "gelu_gate", "gelu_tanh_gate", "silu_gate"}
COMPARE = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}


def values(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = np.asarray(rng.standard_normal(shape) * 3)
    return np.ascontiguousarray(np.round(x, 1) if seed % 2 else x).astype(dtype).reshape(shape)


def assert_within(got, want, ulps):
    """|got − want| ≤ ulps·ulp(want), NaN and infinities alike; underflowed factors may lose more."""
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(got[~finite], rounded[~finite])
    if ulps == 0:
        np.testing.assert_array_equal(got, rounded)
        return
    spacing = np.spacing(np.abs(rounded[finite])).astype(np.longdouble)
    error = np.abs(got[finite].astype(np.longdouble) - want[finite])
    underflow = np.longdouble(np.finfo(got.dtype).smallest_subnormal) * 128 * (want[finite] != 0)
    assert (error <= ulps * spacing + underflow).all()


def test_every_kernel_is_tested():
    assert set(elementwise.unary) == set(UNARY)
    assert set(elementwise.binary) == set(BINARY)
    assert set(elementwise.compare) == set(COMPARE)
    assert set(elementwise.triple) == {"where", "larger_gate", "muladd", "div_gate", "pow_gate"}


def stepped(name, arrays, out, *params):
    """The kernel on operands that broadcast in any way."""
    items = tuple(array.itemsize for array in (*arrays, out))
    p0, p1 = (*params, 0.0, 0.0)[:2]
    shapes = tuple(array.shape for array in arrays)
    elementwise.broadcast_step(name, shapes, out.shape, items, p0, p1, arrays[-1].dtype == np.float64)(*arrays, out)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_unary_values(name, dtype):
    define, params, ulps = UNARY[name]
    x = np.concatenate([SPECIAL, np.linspace(-12, 12, 1001), 10.0 ** np.arange(-20, 20, 3)]).astype(dtype)
    out = np.empty_like(x)
    elementwise.unary[name](x, out, *params)
    with np.errstate(all="ignore"):
        want = define(x.astype(np.longdouble)).astype(np.longdouble)
    if ulps is None:  # conditioned like x itself: absolute near the kink, relative to |x| elsewhere
        both = np.isfinite(want)
        assert np.array_equal(np.isnan(out), np.isnan(want.astype(dtype)))
        bound = 200 * np.finfo(dtype).eps * np.maximum(np.abs(want[both]), np.finfo(dtype).tiny)
        if name.startswith("hard"):
            bound = 4 * np.finfo(dtype).eps * (1 + np.abs(x[both]).astype(np.longdouble))
        assert (np.abs(out[both] - want[both]) <= bound).all()
        return
    assert_within(out, want, ulps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_binary_special_values(name, dtype):
    a, b = (np.ascontiguousarray(m) for m in np.meshgrid(np.array(SPECIAL, dtype), np.array(SPECIAL, dtype)))
    out = np.empty_like(a)
    params = (0.25, 1.0) if name.endswith("gate") else ()
    elementwise.binary[name](a, b, out, *params)
    with np.errstate(all="ignore"):
        want = BINARY[name](a, b)
    if name in ROUNDED:
        np.testing.assert_allclose(out, want, rtol=8 * np.finfo(dtype).eps, atol=np.finfo(dtype).tiny)
    else:
        np.testing.assert_array_equal(out, want)


@settings(max_examples=150, deadline=None)
@given(
    mutually_broadcastable_shapes(num_shapes=2, max_dims=5, min_side=0, max_side=4),
    st.sampled_from(DTYPES),
    st.sampled_from(sorted(set(BINARY) - ROUNDED)),
)
def test_binary_broadcasts(shapes, dtype, name):
    (first, second), result = shapes
    a, b = values(first, dtype, 1), values(second, dtype, 3)
    out = np.empty(result, dtype)
    params = (0.25, 1.0) if name.endswith("gate") else ()
    stepped(name, (a, b), out, *params)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, BINARY[name](*np.broadcast_arrays(a, b)))


@settings(max_examples=100, deadline=None)
@given(
    mutually_broadcastable_shapes(num_shapes=3, max_dims=4, min_side=0, max_side=4), st.sampled_from(DTYPES)
)
def test_where_and_compare_broadcast(shapes, dtype):
    (zeroth, first, second), result = shapes
    condition, a, b = values(zeroth, dtype, 1) > 0, values(first, dtype, 3), values(second, dtype, 5)
    condition = np.asarray(condition)
    out = np.empty(result, dtype)
    stepped("where", (condition, a, b), out)
    np.testing.assert_array_equal(out, np.where(condition, a, b))
    t = values(zeroth, dtype, 2)
    stepped("larger_gate", (t, a, b), out)
    np.testing.assert_array_equal(out, np.where(a < b, 0, np.where(a == b, t / 2, t)))
    stepped("muladd", (t, a, b), out)
    np.testing.assert_array_equal(out, t * a + b)
    stepped("div_gate", (t, a, b), out)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, -(t * a) / b)
    pair = np.broadcast_shapes(first, second)
    flags = np.empty(pair, bool)
    for name, define in COMPARE.items():
        stepped(name, (a, b), flags)
        np.testing.assert_array_equal(flags, define(a, b))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("exponent", [-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0])
def test_pow_by_one_exponent(exponent, dtype):
    x = np.array([*SPECIAL, 1.7, -2.3, *np.random.default_rng(0).uniform(0, 9, 1000)], dtype)
    out = np.empty_like(x)
    elementwise.binary["pow"](x, np.array(exponent, dtype), out)
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.longdouble), exponent)
    assert_within(out, want, 1.5)
    zeros = out == 0
    np.testing.assert_array_equal(np.signbit(out[zeros]), np.signbit(want[zeros]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("exponent", [-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0])
def test_the_slope_of_a_power_by_one_exponent(exponent, dtype):
    """The same whether the exponent is one number or an array of it; 0 where it is 0."""
    x = np.array([*SPECIAL, 1.7, -2.3, *np.random.default_rng(0).uniform(0, 9, 1000)], dtype)
    t = values(x.shape, dtype, 3)
    t[t == 0] = 1
    with np.errstate(all="ignore"):
        want = t * (exponent * np.power(x.astype(np.longdouble), exponent - 1)) if exponent else np.zeros_like(x)
    for b in (np.array(exponent, dtype), np.full_like(x, exponent)):
        out = np.empty_like(x)
        stepped("pow_gate", (t, x, b), out)
        assert_within(out, want, 3)


@pytest.mark.parametrize("shape, other", [
    ((70001,), (70001,)), ((70001,), ()), ((), (70001,)), ((300, 301), (301,)), ((300, 301), (300, 1)),
    ((16, 8, 30, 30), (8, 1, 1)), ((300, 1), (1, 301)), ((40000, 3), (3,)),
])
def test_large_arrays_and_threads(shape, other):
    a, b = values(shape, np.float32), values(other, np.float32, 2)
    size = np.broadcast_shapes(shape, other)
    before = threads.get_num_threads()
    results = []
    try:
        for count in (1, 2, 3, 8):
            threads.set_num_threads(count)
            product, wave, choice = (np.empty(s, np.float32) for s in (size, shape, size))
            stepped("mul", (a, b), product)
            elementwise.unary["tanh"](a, wave)
            stepped("where", (np.asarray(a > 0), a, b), choice)
            results.append((product, wave, choice))
            if shape == other or () in (shape, other):
                elementwise.binary["mul"](a, b, wave if shape else product)
                np.testing.assert_array_equal(wave if shape else product, a * b)
                elementwise.unary["tanh"](a, wave)
    finally:
        threads.set_num_threads(before)
    np.testing.assert_array_equal(results[0][0], a * b)
    np.testing.assert_array_equal(results[0][2], np.where(a > 0, a, b))
    for others in results[1:]:
        for x, y in zip(results[0], others, strict=True):
            assert x.tobytes() == y.tobytes()


def test_in_place_and_read_only():
    x = values((5000,), np.float64)
    want = x + x
    elementwise.binary["add"](x, x, x)
    np.testing.assert_array_equal(x, want)
    x.flags.writeable = False
    out = np.empty_like(x)
    elementwise.unary["neg"](x, out)
    np.testing.assert_array_equal(out, -x)
    with pytest.raises(ValueError, match="out writeable"):
        elementwise.unary["neg"](out, x)


def test_refusals():
    x, half = np.zeros((2, 3)), np.zeros((2, 3), np.float16)
    with pytest.raises(TypeError, match="float32 and float64 are supported; got float16"):
        elementwise.unary["exp"](half, half.copy())
    with pytest.raises(TypeError, match="one dtype"):
        elementwise.binary["add"](x, x.astype(np.float32), x.copy())
    with pytest.raises(TypeError, match="does not go with out of float32"):
        elementwise.unary["exp"](x, np.zeros((2, 3), np.float32))
    with pytest.raises(ValueError, match="6 elements do not fill out of 5"):
        elementwise.unary["exp"](x, np.zeros(5))
    with pytest.raises(ValueError, match="C-contiguous"):
        elementwise.unary["exp"](x.T, np.zeros((3, 2)))
    with pytest.raises(ValueError, match="an operand has 3 on axis 1, out has 4"):
        stepped("add", (x, x), np.zeros((2, 4)))
    with pytest.raises(ValueError, match="fewer axes"):
        stepped("add", (x, x), np.zeros(6))
    with pytest.raises(ValueError, match="have out's shape or none"):
        elementwise.binary["add"](x, x[0], x.copy())
    with pytest.raises(TypeError):
        elementwise.unary["exp"](None, x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "first", "second"),
    [
        ((700, 3), (3,), (700, 1)),
        ((400, 37), (400, 1), (37,)),
        ((90, 127), (127,), (127,)),
        ((9, 40, 2, 5), (40, 1, 1), (9, 40, 1, 1)),
        ((3000, 7), (), (3000, 1)),
        ((5, 130, 129), (129,), (130, 1)),
    ],
)
def test_operands_that_repeat_at_short_distances_are_spelt_out(
    dtype: str, shape: tuple[int, ...], first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    x, a, b = (rng.standard_normal(own).astype(dtype) for own in (shape, first, second))
    for count in (1, 2):
        with ln.num_threads(count):
            np.testing.assert_array_equal((ln.tensor(x) + ln.tensor(a)).numpy(), x + a)
            np.testing.assert_array_equal((ln.tensor(b) - ln.tensor(x)).numpy(), b - x)
            np.testing.assert_array_equal((ln.tensor(x) > ln.tensor(b)).numpy(), x > b)
            chosen = F.where(ln.tensor(b) > 0, ln.tensor(a), ln.tensor(x)).numpy()
            np.testing.assert_array_equal(chosen, np.where(b > 0, a, x))
            both = F.where(ln.tensor(x > 0), ln.tensor(a), ln.tensor(b)).numpy()
            np.testing.assert_array_equal(both, np.where(x > 0, a, b))
