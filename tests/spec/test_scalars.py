"""Scalars of every kind: IEEE floats, exact Fractions, duals, intervals."""

from __future__ import annotations

import math
from fractions import Fraction as Q

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import special

from lean_nn import spec
from lean_nn.spec import Dual, Interval, scalar
from lean_nn.spec.dual import primal, tangent

NAN, INF = math.nan, math.inf
UNARY = ["exp", "expm1", "log", "log1p", "sqrt", "tanh", "erf", "sigmoid", "normal_cdf", "normal_pdf"]
REFERENCE = {
    **{name: getattr(np, name) for name in UNARY[:6]},
    "erf": special.erf, "sigmoid": special.expit, "normal_cdf": special.ndtr,
    "normal_pdf": lambda x: np.exp(-x * x / 2) / np.sqrt(2 * np.pi),
}  # fmt: skip


def identical(a, b):
    return (math.isnan(a) and math.isnan(b)) or a == b


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("x", [0.0, -0.0, 1.0, -1.0, 0.3, 2.5, -7.0, 800.0, -800.0, INF, -INF, NAN])
def test_floats_are_ieee(name, x):
    with np.errstate(all="ignore"):
        want = float(REFERENCE[name](np.float64(x)))
    got = getattr(scalar, name)(x)
    assert identical(got, want) or got == pytest.approx(want, rel=4e-16 if abs(x) < 10 else 1e-12, abs=5e-324)


@pytest.mark.parametrize("a", [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 1e200, INF, -INF, NAN])
@pytest.mark.parametrize("b", [0.0, 1.0, -1.0, 2.0, -3.0, 0.5, 1e200, INF, -INF, NAN])
def test_division_and_power_are_ieee(a, b):
    with np.errstate(all="ignore"):
        assert identical(scalar.div(a, b), float(np.float64(a) / np.float64(b)))
        assert identical(scalar.pow(a, b), float(np.float64(a) ** np.float64(b)))


def test_division_by_negative_zero():
    assert scalar.div(1.0, -0.0) == -INF and scalar.div(-1.0, -0.0) == INF and math.isnan(scalar.div(0.0, 0.0))


def test_numpy_scalars_keep_their_type():
    assert type(scalar.exp(np.float32(1))) is np.float32


def test_fractions_are_exact_or_refused():
    assert scalar.exp(Q(0)) == 1 and scalar.log(Q(1)) == 0 and scalar.sigmoid(Q(0)) == Q(1, 2)
    assert scalar.sqrt(Q(9, 4)) == Q(3, 2) and scalar.pow(Q(8, 27), Q(2, 3)) == Q(4, 9)
    assert scalar.pow(Q(2), -3) == Q(1, 8) and isinstance(scalar.pow(2, -3), Q)
    for name in UNARY:
        with pytest.raises(TypeError, match=f"{name}: no exact value for Fraction; convert to float or Interval"):
            getattr(scalar, name)(Q(2, 3))
    with pytest.raises(TypeError, match=r"^pow: no exact value for Fraction; convert to float or Interval$"):
        scalar.pow(Q(2), Q(1, 2))
    with pytest.raises(TypeError, match=r"^sqrt: no exact value for Fraction; convert to float or Interval$"):
        scalar.sqrt(Q(-4))


def test_unknown_scalars_are_asked_for_a_method():
    text = "^exp: no value for str; got 'a'; give str a method exp, or use float$"
    with pytest.raises(TypeError, match=text):
        scalar.exp("a")


def test_extremes_and_signs():
    assert scalar.maximum(1, 2) == 2 and scalar.minimum(1, 2) == 1
    assert math.isnan(scalar.maximum(NAN, 1)) and math.isnan(scalar.minimum(1, NAN))
    assert [scalar.sign(v) for v in (-3, 0, 2.5, Q(-1, 2))] == [-1, 0, 1, -1] and math.isnan(scalar.sign(NAN))


# --- duals ---


@pytest.mark.parametrize("name", [n for n in spec.__dict__ if n in {
    "exp", "expm1", "log", "log1p", "sqrt", "tanh", "erf", "sigmoid", "normal_cdf", "normal_pdf", "square",
    "reciprocal",
    "gelu", "gelu_tanh", "silu", "hardsigmoid", "hardswish", "relu", "abs", "neg",
}])  # fmt: skip
@pytest.mark.parametrize("x", [0.3, 1.7, 4.0])
def test_dual_slopes_against_differences(name, x):
    f, h = getattr(spec, name), 1e-5
    slope = tangent(f([Dual(x, 1.0)])[0])
    numeric = (f([x + h])[0] - f([x - h])[0]) / (2 * h)
    assert slope == pytest.approx(numeric, rel=1e-8, abs=1e-8)


small = st.fractions(-5, 5, max_denominator=9)


@settings(deadline=None)
@given(small, small, small, small)
def test_dual_arithmetic_is_the_product_rule(a, da, b, db):
    x, y = Dual(a, da), Dual(b, db)
    assert (x + y).tangent == da + db and (x - y).tangent == da - db and (2 - x).tangent == -da
    assert (x * y).tangent == da * b + a * db
    assert (x**3).tangent == 3 * a**2 * da
    assume(b != 0)
    assert (x / y).tangent == (da * b - a * db) / b**2 and (1 / y).tangent == -db / b**2


@given(small, small)
def test_nested_duals_give_second_derivatives(a, b):
    x = Dual(Dual(a, 1, 0), 1, 1)
    y = x * x * x * b
    assert y.primal.primal == a**3 * b and y.tangent.tangent == 6 * a * b


def test_levels_do_not_mix():
    """d/dx (x · d/dy (x + y)) = 1: the inner derivative must not see the outer tangent."""
    x = Dual(Q(1), Q(1), level=0)
    inner = (x + Dual(Q(1), Q(1), level=1)).tangent
    assert (x * inner).tangent == 1


def test_dual_kinks():
    assert tangent(spec.abs([Dual(0, 1)])[0]) == 0 and tangent(spec.relu([Dual(0, 1)])[0]) == 0
    tie = spec.maximum([Dual(2, 1)], [Dual(2, 3)])[0]
    assert tie.primal == 2 and tie.tangent == 2
    assert tangent(spec.minimum([Dual(2, 1)], [Dual(1, 3)])[0]) == 3
    for x in (-1, 1):
        assert tangent(spec.clip([Dual(x, 5)], low=-1, high=1)[0]) == 5
    for x in (-2, 2):
        assert tangent(spec.clip([Dual(x, 5)], low=-1, high=1)[0]) == 0
    for x in (-3, 3):
        assert tangent(spec.hardsigmoid([Dual(x, 6)])[0]) == 0
    assert tangent(spec.pow([Dual(0.0, 1.0)], [0])[0]) == 0


def test_dual_comparisons_look_at_the_primal():
    assert Dual(1, 9) < Dual(2, 0) and Dual(1, 9) == 1 and Dual(1, 9) <= 1 and not Dual(1, 0) > 1 and Dual(3, 0) >= 2
    assert Dual(1, 2) != 2 and primal(Dual(4, 1)) == 4 and primal(4) == 4
    assert repr(Dual(1, 2)) == "Dual(1, 2)" and repr(Dual(1, 2, 1)) == "Dual(1, 2, level=1)"


# --- intervals ---

points = st.fractions(-20, 20, max_denominator=1000)


@settings(deadline=None)
@given(points, points, points, points)
def test_interval_arithmetic_encloses_the_exact_result(a, b, c, d):
    x, y = Interval(min(a, b), max(a, b)), Interval(min(c, d), max(c, d))
    for p in (a, b, (a + b) / 2):
        for q in (c, d):
            assert (x + y).contains(p + q) and (x - y).contains(p - q) and (x * y).contains(p * q)
            assert (2 - x).contains(2 - p) and (x**2).contains(p**2) and (x**3).contains(p**3)
            assert x.maximum(y).contains(max(p, q)) and x.minimum(y).contains(min(p, q)) and abs(x).contains(abs(p))
            if not y.lo <= 0 <= y.hi:
                assert (x / y).contains(p / q) and (y**-1).contains(1 / q)


FUNCTIONS = ["exp", "expm1", "tanh", "erf", "sigmoid", "normal_cdf", "normal_pdf", "relu", "gelu", "gelu_tanh", "silu",
             "hardsigmoid", "hardswish", "abs", "square", "sign"]  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(deadline=None, max_examples=30)
@given(st.floats(-20, 20), st.floats(-20, 20), st.floats(0, 1))
def test_interval_functions_enclose(name, a, b, u):
    low, high = min(a, b), max(a, b)
    x = min(high, max(low, low + u * (high - low)))
    f = getattr(spec, name)
    enclosure, value = f([Interval(low, high)])[0], f([x])[0]
    slack = 1e-14 * (1 + abs(value))  # the float value itself is rounded; gelu_tanh has a rounded constant
    hull = enclosure if isinstance(enclosure, Interval) else Interval(enclosure)
    assert hull.lo - slack <= value <= hull.hi + slack


@given(st.floats(0.001, 1e6), st.floats(0.001, 1e6))
def test_interval_log_sqrt_and_power(a, b):
    x = Interval(min(a, b), max(a, b))
    for p in (a, b):
        assert x.log().contains(math.log(p)) and x.sqrt().contains(math.sqrt(p)) and x.log1p().contains(math.log1p(p))
        assert (x**0.5).contains(math.sqrt(p)) and scalar.pow(2.0, Interval(1, 2)).contains(2.0**1.5)


def test_interval_points_and_constants_are_rounded_outwards():
    third = Interval(Q(1, 3))
    assert third.lo < Q(1, 3) < third.hi and third.contains(Q(1, 3)) and third.width < 1e-15
    assert Interval(0.5).lo == Interval(0.5).hi == 0.5 and Interval(10**400).hi == INF
    assert Interval(1, 3).contains(Interval(2, 3)) and Interval(1, 3).point() == 2.0


INTERVAL_ERRORS = [
    (lambda: Interval(0, 2) < Interval(1, 3),
     "Interval: Interval(0.0, 2.0) < Interval(1.0, 3.0) is undecided; got intervals that overlap; narrow them, "
     "or use maximum and minimum"),
    (lambda: Interval(0, 2) >= 1,
     "Interval: Interval(0.0, 2.0) >= Interval(1.0, 1.0) is undecided; got intervals that overlap; narrow them, "
     "or use maximum and minimum"),
    (lambda: Interval(2, 1), "Interval: lo must not exceed hi; got [2, 1]; swap them, and use no NaN"),
    (lambda: Interval(1, 2) / Interval(-1, 1),
     "Interval: division needs a divisor without 0; got Interval(-1.0, 1.0); narrow the interval"),
    (lambda: Interval(-1, 1).log(),
     "log: needs an interval from 0 on; got Interval(-1.0, 1.0); narrow the interval"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "text"), INTERVAL_ERRORS)
def test_interval_errors(call, text):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == text


def test_interval_comparisons_that_are_certain():
    assert Interval(0, 1) < Interval(2, 3) and Interval(0, 1) <= 1 and Interval(3, 4) > 2 and Interval(1) >= 1
    assert not Interval(2, 3) < Interval(0, 2) and not Interval(2, 3) <= Interval(0, 1) and not Interval(1) > 1
    assert Interval(1, 2) == Interval(1, 2) and Interval(1, 2) != 1 and hash(Interval(1, 2)) == hash(Interval(1, 2))
