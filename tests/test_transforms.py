"""Transforms: values against calculus, every nesting, and no confusion of perturbations."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import lean_nn as ln
import lean_nn.functional as F


def d_forward(f: Callable[..., Any]) -> Callable[..., Any]:
    """The derivative of a scalar function of a scalar, by forward mode."""
    return lambda x: ln.jvp(f, (x,), (F.alias(ln.tensor(np.array(1.0))),))[1]


def d_linearize(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: ln.linearize(f, x)[1](ln.tensor(np.array(1.0)))


def d_vjp(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: ln.vjp(f, x)[1](ln.tensor(np.array(1.0)))[0]


MODES = {"fwd": d_forward, "rev": ln.grad, "lin": d_linearize, "vjp": d_vjp}


@pytest.mark.parametrize("modes", list(product(MODES, repeat=3)), ids="-".join)
def test_every_nesting_of_three_modes(modes: tuple[str, ...]) -> None:
    """f = eˣ·x⁴: f''' = eˣ(x⁴ + 12x³ + 36x² + 24x)."""
    f: Callable[..., Any] = lambda x: x.exp() * x * x * x * x  # noqa: E731
    for mode in modes:
        f = MODES[mode](f)
    x = 0.7
    expected = np.exp(x) * (x**4 + 12 * x**3 + 36 * x**2 + 24 * x)
    assert f(ln.tensor(np.array(x))).item() == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("x", [0.0, 2.0, -2.0])
@pytest.mark.parametrize("power", [0.0, 1.0, 2.0, 3.0, 4.0])
def test_powers_have_slopes_of_every_order_at_zero_too(power: float, x: float, mode: str) -> None:
    f: Callable[..., Any] = lambda x: F.pow(x, power)  # noqa: E731
    factor = 1.0
    for order in range(6):
        assert f(ln.tensor(np.array(x))).item() == (factor * x ** (power - order) if factor else 0.0)
        f, factor = MODES[mode](f), factor * (power - order)


@pytest.mark.parametrize("inner", MODES)
@pytest.mark.parametrize("outer", MODES)
def test_perturbations_are_not_confused(outer: str, inner: str) -> None:
    """d/dx [x · d/dy (x·y)] = d/dx x² = 2x; a confused tangent gives another number."""
    y = ln.tensor(np.array(5.0))
    f = MODES[outer](lambda x: x * MODES[inner](lambda y: x * y)(y))
    assert f(ln.tensor(np.array(3.0))).item() == 6.0


def test_leaked_values_do_not_confuse_a_later_trace() -> None:
    leaked: list[Any] = []
    x = ln.tensor(np.array(3.0))
    ln.jvp(lambda x: leaked.append(x * x) or x, (x,), (ln.tensor(np.array(1.0)),))
    assert ln.jvp(lambda x: x + leaked[0], (x,), (ln.tensor(np.array(1.0)),))[1].item() == 1.0
    ln.grad(lambda x: leaked.append(x * x) or x)(x)
    assert ln.grad(lambda x: x + leaked[1])(x).item() == 1.0


def test_ambient_leaves_see_through_transforms() -> None:
    w = ln.tensor(np.array(3.0), requires_grad=True)
    g = ln.grad(lambda x: x * x * w)(ln.tensor(np.array(2.0)))
    assert g.item() == 12.0
    g.backward()
    assert w.grad.item() == 4.0
    y, y_dot = ln.jvp(lambda x: x * w, (ln.tensor(np.array(2.0)),), (ln.tensor(np.array(1.0)),))
    w.grad = None
    (y + y_dot).backward()
    assert w.grad.item() == 3.0


def test_a_pull_called_later_is_seen_by_a_newer_level() -> None:
    _, pull = ln.vjp(lambda x: x * x, ln.tensor(np.array(3.0)))
    assert ln.grad(lambda u: pull(u * u)[0])(ln.tensor(np.array(2.0))).item() == 24.0
    assert ln.jvp(lambda u: pull(u * u)[0], (ln.tensor(np.array(2.0)),), (ln.tensor(np.array(1.0)),))[1].item() == 24.0


def test_trees_argnums_and_aux() -> None:
    def f(p: dict[str, Any], s: Any) -> Any:
        return (p["a"] * s).sum() + p["b"][0] * 2

    p = {"a": ln.tensor([1.0, 2.0]), "b": [ln.tensor(4.0), None]}
    s = ln.tensor(3.0)
    value, grads = ln.value_and_grad(f)(p, s)
    assert value.item() == 17.0
    assert grads["a"].tolist() == [3.0, 3.0] and grads["b"][0].item() == 2.0 and grads["b"][1] is None
    both = ln.grad(f, argnums=(0, -1))(p, s)
    assert both[1].item() == 3.0
    (value, aux), g = ln.value_and_grad(lambda x: (x * x, "kept"), has_aux=True)(s)
    assert (value.item(), aux, g.item()) == (9.0, "kept", 6.0)
    assert ln.grad(lambda x: (x * x, "kept"), has_aux=True)(s)[1] == "kept"


def test_hvp_jacobians_and_hessian() -> None:
    a = np.array([[2.0, 1.0], [1.0, 3.0]])
    x, v = np.array([1.0, -2.0]), np.array([0.5, 1.0])
    f = lambda x: (x * (ln.tensor(a) @ x)).sum() / 2 + (x * x * x).sum()  # noqa: E731
    hessian = a + np.diag(6 * x)
    assert np.allclose(ln.hessian(f)(ln.tensor(x)).data, hessian, rtol=1e-15)
    assert np.allclose(ln.hvp(f, (ln.tensor(x),), (ln.tensor(v),)).data, hessian @ v, rtol=1e-15)
    g = lambda x: ln.tensor(a) @ (x * x)  # noqa: E731
    jacobian = a * (2 * x)
    for jac in (ln.jacfwd, ln.jacrev):
        assert np.allclose(jac(g)(ln.tensor(x)).data, jacobian, rtol=1e-15)
        assert jac(lambda x: x.reshape(2, 1, 1) * ln.tensor(np.ones((1, 3, 0))))(ln.tensor(x)).shape == (2, 3, 0, 2)
    two = ln.hvp(lambda x, y: (x * y).sum(), (ln.tensor(x), ln.tensor(x)), (ln.tensor(v), ln.tensor(v)))
    assert [t.tolist() for t in two] == [v.tolist(), v.tolist()]


def test_exact_over_fractions() -> None:
    third = Fraction(1, 3)
    x = ln.tensor([third])
    assert ln.grad(lambda x: (x * x * x).sum())(x).tolist() == [third]
    assert ln.hvp(lambda x: (x * x * x).sum(), (x,), (ln.tensor([Fraction(1)]),)).tolist() == [2]


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda x: ln.grad(lambda x: x)(x), ValueError,
         "grad: the function must return one scalar Tensor; got (2,); sum it, or use vjp or jacrev"),
        (lambda x: ln.grad(lambda x: 3.0)(x), TypeError,
         "grad: the function must return Tensors; got float; return what was computed"),
        (lambda x: ln.grad(lambda x: x.sum(), argnums=1)(x), ValueError,
         "grad: argnums name positional arguments; got 1 for 1; pass it positionally"),
        (lambda x: ln.jvp(lambda x: x, (x,), ([1.0],)), ValueError,
         "jvp: tangents have the form of their primals ('*',); got (['*'],); pass one per Tensor"),
        (lambda x: ln.jvp(lambda x: x, (x,), (np.ones(3, np.float32),)), ValueError,
         "jvp: a tangent or cotangent has its Tensor's shape (2,); got (3,); reshape it"),
        (lambda x: ln.vjp(lambda x: x, x)[1]((x, x)), ValueError,
         "vjp: cotangents have the form of their primals *; got ('*', '*'); pass one per Tensor"),
        (lambda x: ln.grad(lambda x: x.sum())(ln.tensor([1])), TypeError,
         "grad: derivatives are of float data; got int64; convert with .astype('float32')"),
    ],
)
def test_errors(call: Callable[..., Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as error:
        call(ln.tensor([1.0, 2.0]))
    assert str(error.value) == words


def test_a_failing_function_closes_its_level() -> None:
    def fails(x: Any) -> Any:
        raise KeyError("mine")

    for transform in (ln.grad(fails), lambda x: ln.jvp(fails, (x,), (x,)), lambda x: ln.linearize(fails, x)):
        with pytest.raises(KeyError):
            transform(ln.tensor(1.0))
    assert ln.grad(lambda x: x * x)(ln.tensor(3.0)).item() == 6.0


def test_jvp_of_values_that_somebody_watches_has_the_bits_of_those_that_nobody_does() -> None:
    """Plain Tensors set out by a shorter way: arrays, trees, watched values and open tapes take the long one."""
    rng = np.random.default_rng(5)
    x, w, x_dot, w_dot = (rng.standard_normal((3, 4)).astype("float32") for _ in range(4))

    def f(a: Any, b: Any) -> Any:
        return F.tanh(a) * b, a

    def bits(call: Callable[[], Any]) -> list[bytes]:
        (y, same), (y_dot, same_dot) = call()
        return [np.asarray(part.detach().data).tobytes() for part in (y, same, y_dot, same_dot)]

    def tensors(*arrays: Any) -> list[Any]:
        return [ln.tensor(a) for a in arrays]

    expected = bits(lambda: ln.jvp(f, tensors(x, w), tensors(x_dot, w_dot)))
    assert bits(lambda: ln.jvp(f, (x, w), (x_dot, w_dot))) == expected
    assert bits(lambda: ln.jvp(lambda pair: f(*pair), (tensors(x, w),), (tensors(x_dot, w_dot),))) == expected
    watched = [ln.tensor(a, requires_grad=True) for a in (x, w)]
    assert bits(lambda: ln.jvp(f, watched, tensors(x_dot, w_dot))) == expected
    with ln.Tape() as tape:
        plain = tensors(x, w)
        assert bits(lambda: ln.jvp(f, plain, tensors(x_dot, w_dot))) == expected
    assert tape.knows(plain[0])
    (y, _), _ = ln.jvp(f, watched, tensors(x_dot, w_dot))
    F.sum(y).backward()
    assert watched[1].grad is not None and np.array_equal(watched[1].grad.data, F.tanh(ln.tensor(x)).data)


def test_jvp_of_nothing_and_of_what_does_not_move() -> None:
    constant = ln.tensor(np.ones(2, "float32"))
    y, dot = ln.jvp(lambda: constant, (), ())
    assert y is constant and not dot.data.any()
    _, dot = ln.jvp(lambda x: {"a": [x, constant], "b": None}, (constant,), (constant,))
    assert dot["b"] is None and dot["a"][0].data.all() and not dot["a"][1].data.any()
