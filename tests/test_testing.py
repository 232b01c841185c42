"""The checks themselves: they pass what is right, and each finds the fault it is for."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import lean_nn as ln
from lean_nn import functional as F
from lean_nn.cases import Case, normal
from lean_nn.primitive import Aval, Exact, GraphError, Primitive, Ulps, get
from lean_nn.testing import CHECKS, check_grads, check_primitive

mul, exp = get("mul"), get("exp")


def cube(name: str = "cube", **changes) -> Primitive:
    """x³ with everything right, except for ``changes``."""
    fields = {
        "abstract": lambda x: x,
        "spec": lambda x: x * x * x,
        "cpu": lambda x, *, out: np.copyto(out, x * x * x),
        "jvp": (lambda t, y, x: mul(t, mul(mul(x, x), 3.0)),),
        "vjp": (lambda g, y, x: mul(g, mul(mul(x, x), 3.0)),),
        "accuracy": Ulps(2),
    }
    return Primitive(name, **{**fields, **changes})


CASE = Case("mine", "cube", lambda rng, dtype: (normal(rng, dtype, 3, 4),))


def test_a_right_primitive_passes():
    check_primitive(cube(), CASE)


def scribble(x, *, out):
    np.copyto(out, x * x * x)
    x[...] = 0


def counting():
    calls = []

    def cpu(x, *, out):
        calls.append(1)
        np.copyto(out, x * x * x + len(calls) * 1e-3)

    return cpu


FAULTS = [
    ({"abstract": lambda x: Aval((1, *x.shape), x.dtype)}, "abstract and spec disagree"),
    ({"cpu": lambda x, *, out: np.copyto(out, x * x * x * (1 + 1e-5))}, "kernel is off the spec"),
    ({"accuracy": Exact(), "cpu": lambda x, *, out: np.copyto(out, np.nextafter(x * x * x, x.dtype.type(9)))},
     "kernel is off the spec"),
    ({"jvp": (lambda t, y, x: mul(t, mul(x, x)),)}, "JVP and dual numbers disagree"),
    ({"vjp": (lambda g, y, x: mul(g, mul(mul(x, x), 3.001)),)}, "adjoint identity"),
    ({"cpu": scribble}, "arguments are left alone"),
    ({"cpu": counting(), "spec": None}, "result differs|bits depend|disagree|adjoint"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "text"), FAULTS)
def test_each_fault_is_found(changes, text):
    with pytest.raises(AssertionError, match=text):
        check_primitive(cube(**changes), CASE, (np.float64,))


def test_a_float_constant_in_a_rule_is_found():
    third = Primitive(
        "third", abstract=lambda x: x, spec=lambda x: x / 3, cpu=lambda x, *, out: np.copyto(out, x / 3),
        jvp=(lambda t, y, x: ln.tensor(t.data * 0.5),), vjp=(lambda g, y, x: g,), accuracy=Ulps(1),
    )  # fmt: skip
    with pytest.raises(AssertionError):
        check_primitive(third, CASE, (np.float64,))


def test_a_missing_rule_is_loud():
    with pytest.raises(GraphError, match="no forward rule for argument 0"):
        check_primitive(cube(jvp=None), CASE, (np.float64,))
    with pytest.raises(GraphError):
        check_primitive(cube(vjp=None), CASE, (np.float64,))


def test_a_rule_that_leaves_the_primitives_is_found_at_the_second_order():
    """The value of the derivative is right, but it cannot be differentiated: the law of the house."""

    def frozen(t, y, x):
        return mul(t, ln.tensor(3 * x.data * x.data))

    with pytest.raises(AssertionError, match="second order"):
        check_primitive(cube(jvp=(frozen,), vjp=(frozen,)), CASE, (np.float64,))


def test_check_primitive_takes_a_name():
    check_primitive("tanh", Case("here", "tanh", lambda rng, dtype: (normal(rng, dtype, 2),)))


def test_large_cases_skip_what_takes_the_spec_minutes():
    seen = []

    def spec(x):
        seen.append(1)
        return x * x * x

    check_primitive(cube(spec=spec), Case("big", "cube", CASE.make, tags=frozenset({"large"})))
    assert not seen and set(CHECKS) >= {"shapes", "threads"}


# --- check_grads ---


def test_check_grads_of_a_network():
    rng = np.random.default_rng(0)
    x, w, b = rng.standard_normal((2, 3, 5)), rng.standard_normal((4, 3, 2)), rng.standard_normal(4)
    check_grads(lambda x, w, b: F.tanh(F.conv1d(x, w, b)), [x, w, b], order=2)


def test_check_grads_of_a_tree_and_in_float32():
    x = np.linspace(0.5, 1.5, 4)
    check_grads(lambda x: {"a": F.exp(x), "b": (x * x,)}, [x], order=3)
    check_grads(lambda x: F.exp(x), [x.astype(np.float32)], order=1)


@pytest.mark.parametrize("modes", [("fwd",), ("rev",)])
def test_check_grads_finds_a_wrong_rule_in_the_mode_that_has_it(modes):
    wrong = (lambda t, y, x: mul(t, x),)
    right = cube().jvp
    broken = cube(jvp=wrong, vjp=right) if modes == ("fwd",) else cube(jvp=right, vjp=wrong)
    x = [np.linspace(1.0, 2.0, 3)]
    with pytest.raises(AssertionError, match=f"derivative {modes[0]} disagrees with the difference quotient"):
        check_grads(broken, x, order=1, modes=modes)
    other = ("rev",) if modes == ("fwd",) else ("fwd",)
    check_grads(broken, x, order=1, modes=other)


def test_check_grads_refuses():
    with pytest.raises(ValueError, match=r'^check_grads: modes are "fwd" and "rev"; got \(\'back\',\); use one or both$'):
        check_grads(lambda x: x, [np.ones(1)], modes=("back",))
    with pytest.raises(TypeError, match=r"^check_grads: float32 or float64 data is needed; got int64; convert it$"):
        check_grads(lambda x: x, [np.ones(1, np.int64)])
    with pytest.raises(TypeError, match="float32 or float64 data is needed; got object"):
        check_grads(lambda x: x, [np.array([Fraction(1)], object)])
