"""The vector functions of vmath.h, and erf, within the ulps they state: a sweep over both types; all floats with -m slow."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from lean_nn_c import elementwise


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


FUNCTIONS = {  # name: (definition in a wider type, ulps)
    "exp": (np.exp, 1), "expm1": (np.expm1, 2), "log": (np.log, 1), "log1p": (np.log1p, 1.5), "tanh": (np.tanh, 3),
    "sigmoid": (sigmoid, 2.5),
}  # fmt: skip
OF_FLOATS = {**FUNCTIONS, "erf": (special.erf, 1.5)}  # scipy's is of doubles at most


def worst_error(name, x, wide):
    """The largest error in ulps; what is not finite must be the same."""
    out = np.empty_like(x)
    elementwise.unary[name](x, out)
    with np.errstate(all="ignore"):
        want = OF_FLOATS[name][0](x.astype(wide))
        rounded = want.astype(x.dtype)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(out[~finite], rounded[~finite])
    spacing = np.spacing(np.abs(rounded[finite])).astype(wide)
    return float((np.abs(out[finite].astype(wide) - want[finite]) / spacing).max(initial=0))


def floats(first, last, step):
    return np.arange(first, last, step, dtype=np.uint64).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("name", OF_FLOATS)
def test_every_4099th_float(name):
    assert worst_error(name, floats(0, 1 << 32, 4099), np.float64) <= OF_FLOATS[name][1]


@pytest.mark.parametrize("scale", [1e-300, 1e-8, 0.4, 2.0, 40.0, 760.0, None])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_doubles(name, scale):
    rng = np.random.default_rng(0)
    if scale is None:
        x = rng.integers(0, 1 << 64, 100_000, dtype=np.uint64).view(np.float64)
    else:
        x = rng.uniform(-scale, scale, 100_000)
    assert worst_error(name, x, np.longdouble) <= FUNCTIONS[name][1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_values(dtype):
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, np.finfo(dtype).smallest_subnormal], dtype)
    for name, (define, _) in FUNCTIONS.items():
        out = np.empty_like(x)
        elementwise.unary[name](x, out)
        with np.errstate(all="ignore"):
            want = define(x.astype(np.longdouble)).astype(dtype)
        np.testing.assert_allclose(out, want, rtol=4 * np.finfo(dtype).eps)
        assert np.array_equal(np.signbit(out[:2]), np.signbit(want[:2])), name


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_FLOATS)
def test_all_floats(name):
    block = 1 << 24
    worst = max(worst_error(name, floats(i, i + block, 1), np.float64) for i in range(0, 1 << 32, block))
    assert worst <= OF_FLOATS[name][1]


@pytest.mark.parametrize(("dtype", "wide"), [(np.float32, np.float64), (np.float64, np.longdouble)])
def test_exp_of_what_is_not_positive(dtype, wide):
    """vexp_down, by the slope of elu: 1.1 ulp."""
    rng = np.random.default_rng(0)
    lowest = np.log(np.finfo(dtype).tiny)
    x = np.concatenate([rng.uniform(lowest, 0, 200_000), -(10.0 ** rng.uniform(-8, 1, 200_000))]).astype(dtype)
    out = np.empty_like(x)
    elementwise.binary["elu_gate"](np.ones_like(x), x, out, 1.0)
    want = np.exp(x.astype(wide))
    assert float((np.abs(out.astype(wide) - want) / np.spacing(want.astype(dtype)).astype(wide)).max()) <= 1.1
