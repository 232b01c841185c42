"""Matrix products and the linear layer: NumPy's rules, PyTorch's names, exact adjoints."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import lean_nn as ln
import lean_nn.functional as F

SHAPES = [
    ((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (5, 4, 2)), ((3, 4), (2, 4, 5)), ((4,), (2, 4, 5)), ((2, 3, 4), (4,)), ((0, 4), (4, 5)),
    ((3, 0), (0, 5)), ((2, 0, 3, 4), (4, 1)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_matmul_is_numpys(shapes: Any, dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    got, want = F.matmul(a, b).numpy(), np.matmul(a, b)
    assert got.shape == want.shape and got.dtype == dtype
    np.testing.assert_allclose(got, want, rtol=0, atol=20 * np.finfo(dtype).eps)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_adjoints_are_exact_on_fractions(shapes: Any) -> None:
    rng = np.random.default_rng(1)

    def exact(shape: tuple[int, ...]) -> Any:
        return np.vectorize(lambda v: Fraction(int(v), 3), otypes=[object])(rng.integers(-5, 6, shape))

    def inner(x: Any, y: Any) -> Fraction:
        return sum((p * q for p, q in zip(x.reshape(-1), y.reshape(-1), strict=True)), Fraction(0))

    if any(0 in shape for shape in shapes):
        pytest.skip("NumPy cannot vectorize over nothing")
    a, b = exact(shapes[0]), exact(shapes[1])
    c, pull = ln.vjp(F.matmul, ln.tensor(a), ln.tensor(b))
    c_bar = exact(c.shape)
    a_bar, b_bar = pull(ln.tensor(c_bar))
    assert inner(c.numpy(), c_bar) == inner(a, a_bar.numpy()) == inner(b, b_bar.numpy())


def test_linear() -> None:
    rng = np.random.default_rng(2)
    w, b = rng.standard_normal((5, 4)), rng.standard_normal(5)
    for lead in ((), (3,), (2, 3), (0,)):
        x = rng.standard_normal((*lead, 4))
        np.testing.assert_allclose(F.linear(x, w, b).numpy(), x @ w.T + b, rtol=0, atol=1e-14)
        np.testing.assert_allclose(F.linear(x, w[0]).numpy(), x @ w[0], rtol=0, atol=1e-14)


def test_gradient_of_a_shared_matrix_is_one_product() -> None:
    rng = np.random.default_rng(3)
    x, w, g = (rng.standard_normal(s) for s in ((2, 3, 4), (5, 4), (2, 3, 5)))
    _, pull = ln.vjp(F.linear, ln.tensor(x), ln.tensor(w))
    x_bar, w_bar = pull(ln.tensor(g))
    np.testing.assert_allclose(x_bar.numpy(), g @ w, rtol=0, atol=1e-14)
    np.testing.assert_allclose(w_bar.numpy(), np.einsum("bti,bto->oi", x, g), rtol=0, atol=1e-14)


A = np.zeros((3, 4))
ERRORS = [
    (lambda: F.matmul(A, A),
     r"matmul: columns of the first factor must equal rows of the second; got 4 and 3 from shapes "
     r"\(3, 4\) and \(3, 4\); transpose or reshape one"),
    (lambda: F.matmul(np.zeros((2, 3, 4)), np.zeros((3, 4, 2))),
     r"matmul: batch axes must be equal or 1; got \(2,\) and "
     r"\(3,\); reshape one factor"),
    (lambda: F.matmul(np.array(2.0), A),
     r"matmul: factors have at least one axis; got shapes \(\) and \(3, 4\); "
     r"multiply by a number with \*"),
    (lambda: F.linear(A, np.zeros((5, 3))),
     r"linear: input features must equal the weight's; got 4 and 3"),
    (lambda: F.linear(A, np.zeros((5, 4)), np.zeros(4)),
     r"linear: bias must have shape \(5,\), one entry per output; "
     r"got \(4,\); reshape it or leave it out"),
    (lambda: F.linear(np.array(1.0), A),
     r"linear: input is \(..., in_features\) and weight \(out_features, in_features\)"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "text"), ERRORS, ids=range(len(ERRORS)))
def test_errors(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()


def test_dtype_errors() -> None:
    with pytest.raises(TypeError, match=r"matmul: arguments of one dtype are needed; got float32, float64"):
        F.matmul(A.astype("float32"), A.T)
