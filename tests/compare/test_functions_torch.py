"""Elementwise functions, reductions, normalisations and losses beside PyTorch: values, gradients, JVPs, kinks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import lean_nn as ln  # noqa: E402
import lean_nn.functional as F  # noqa: E402

TF = torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # its own, inside torch.func.jvp
DTYPES = ("float32", "float64")
SCALE = {"float32": 1e-5, "float64": 1e-13}
Shapes = tuple[tuple[int, ...], ...]


def close(got: Any, want: Any, dtype: str) -> None:
    want = want.detach().numpy()
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=SCALE[dtype], atol=SCALE[dtype] * 4)


def compare(ours: Callable[..., Any], theirs: Callable[..., Any], arrays: list[Any], dtype: str) -> None:
    """Value, gradient of Σ w·y with random w, and JVP in a random direction, for all float arrays at once."""
    rng = np.random.default_rng(1)
    mine = [ln.tensor(a, requires_grad=True) for a in arrays]
    its = [torch.tensor(a, requires_grad=True) for a in arrays]
    y, z = ours(*mine), theirs(*its)
    close(y.numpy(), z, dtype)
    w = rng.standard_normal(z.shape).astype(dtype)
    y.backward(ln.tensor(w))
    z.backward(torch.tensor(w))
    for m, t in zip(mine, its, strict=True):
        close(m.grad.numpy(), t.grad, dtype)
    tangents = [rng.standard_normal(a.shape).astype(dtype) for a in arrays]
    _, y_dot = ln.jvp(ours, tuple(map(ln.tensor, arrays)), tuple(map(ln.tensor, tangents)))
    _, z_dot = torch.func.jvp(theirs, tuple(map(torch.tensor, arrays)), tuple(map(torch.tensor, tangents)))
    close(y_dot.numpy(), z_dot, dtype)


def normal(shape: tuple[int, ...], dtype: str, seed: int = 0, scale: float = 2.0) -> Any:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(dtype)


UNARY: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "neg": (F.neg, torch.neg),
    "exp": (F.exp, torch.exp),
    "expm1": (F.expm1, torch.expm1),
    "abs": (F.abs, torch.abs),
    "tanh": (F.tanh, torch.tanh),
    "sigmoid": (F.sigmoid, torch.sigmoid),
    "erf": (F.erf, torch.erf),
    "relu": (F.relu, torch.relu),
    "leaky_relu": (F.leaky_relu, TF.leaky_relu),
    "leaky_relu 0.3": (lambda x: F.leaky_relu(x, 0.3), lambda x: TF.leaky_relu(x, 0.3)),
    "elu": (F.elu, TF.elu),
    "elu 0.5": (lambda x: F.elu(x, 0.5), lambda x: TF.elu(x, 0.5)),
    "gelu": (F.gelu, TF.gelu),
    "gelu tanh": (lambda x: F.gelu(x, "tanh"), lambda x: TF.gelu(x, approximate="tanh")),
    "silu": (F.silu, TF.silu),
    "softplus": (F.softplus, TF.softplus),
    "softplus 2, 1": (lambda x: F.softplus(x, 2.0, 1.0), lambda x: TF.softplus(x, 2.0, 1.0)),
    "hardsigmoid": (F.hardsigmoid, TF.hardsigmoid),
    "hardswish": (F.hardswish, TF.hardswish),
    "clamp": (lambda x: F.clamp(x, -1.0, 1.0), lambda x: torch.clamp(x, -1.0, 1.0)),
    "clamp max": (lambda x: F.clamp(x, max=0.5), lambda x: torch.clamp(x, max=0.5)),
    "clamp crossed": (lambda x: F.clamp(x, 1.0, -1.0), lambda x: torch.clamp(x, 1.0, -1.0)),
    "square": (lambda x: x**2, lambda x: x**2),
    "cube": (lambda x: x**3, lambda x: x**3),
    "zeroth power": (lambda x: x**0, lambda x: x**0),
    "softmax": (lambda x: F.softmax(x, -1), lambda x: torch.softmax(x, -1)),
    "softmax 0": (lambda x: F.softmax(x, 0), lambda x: torch.softmax(x, 0)),
    "log_softmax": (lambda x: F.log_softmax(x, -1), lambda x: torch.log_softmax(x, -1)),
    "logsumexp": (lambda x: F.logsumexp(x, 0), lambda x: torch.logsumexp(x, 0)),
    "logsumexp 0, 1": (lambda x: F.logsumexp(x, (0, 1), True), lambda x: torch.logsumexp(x, (0, 1), True)),
    "sum": (lambda x: F.sum(x, 1), lambda x: torch.sum(x, 1)),
    "sum all": (F.sum, torch.sum),
    "mean": (lambda x: F.mean(x, 0, True), lambda x: torch.mean(x, 0, True)),
    "var": (lambda x: F.var(x, 1), lambda x: torch.var(x, 1)),
    "var 0": (lambda x: F.var(x, correction=0), lambda x: torch.var(x, correction=0)),
    "max": (lambda x: F.max(x, 1).values, lambda x: torch.max(x, 1).values),
    "min": (lambda x: F.min(x, 0, True).values, lambda x: torch.min(x, 0, True).values),
    "layer_norm": (lambda x: F.layer_norm(x, (7,)), lambda x: TF.layer_norm(x, (7,))),
    "batch_norm": (
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda x: TF.batch_norm(x, None, None, training=True),
    ),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_array(name: str, dtype: str) -> None:
    if name in ROUGH and dtype == "float64":
        pytest.skip("PyTorch's slope is 1/6 rounded to float32, in float64 too")
    compare(*UNARY[name], [normal((6, 7), dtype)], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["log", "log1p", "sqrt"])
def test_functions_of_positive_numbers(name: str, dtype: str) -> None:
    compare(getattr(F, name), getattr(torch, name), [np.abs(normal((6, 7), dtype)) + 0.1], dtype)


SLOPED = [
    "abs", "relu", "leaky_relu", "leaky_relu 0.3", "elu", "elu 0.5", "softplus", "softplus 2, 1", "hardsigmoid",
    "hardswish", "clamp", "clamp max", "clamp crossed", "square", "zeroth power", "gelu", "silu",
]  # fmt: skip


@pytest.mark.parametrize("name", SLOPED)
def test_slopes_at_kinks_and_far_away(name: str) -> None:
    x = np.array([-3.0, -1.0, -0.0, 0.0, 0.5, 1.0, 3.0, 20.0, 21.0, -100.0, 100.0, 1e30, np.nan, np.inf])
    ours, theirs = UNARY[name]
    mine, its = ln.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    ours(mine).sum().backward()
    theirs(its).sum().backward()
    judged = ~np.isnan(x) if name in OWN_AT_NAN else np.full(x.shape, True)
    rtol = ROUGH.get(name, 1e-13)
    np.testing.assert_allclose(mine.grad.numpy()[judged], its.grad.numpy()[judged], rtol=rtol, atol=1e-300)


OWN_AT_NAN = {"abs", "elu", "elu 0.5", "hardswish"}  # PyTorch invents a number there; abs and elu give NaN here
ROUGH = {"hardsigmoid": 1e-7}  # PyTorch's slope is 1/6 rounded to float32, in float64 too

BINARY: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    name: (getattr(F, name), getattr(torch, name)) for name in ("add", "sub", "mul", "div", "maximum", "minimum")
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", [((3, 4), (3, 4)), ((3, 4), (4,)), ((2, 1, 4), (3, 1)), ((), (3,)), ((0, 3), (3,))])
@pytest.mark.parametrize("name", [*BINARY, "pow"])
def test_functions_of_two_arrays(name: str, shapes: Shapes, dtype: str) -> None:
    a, b = (np.abs(normal(s, dtype, i)) + np.asarray(0.3, dtype) for i, s in enumerate(shapes))
    compare(*BINARY.get(name, (lambda x, y: x**y, torch.pow)), [np.asarray(a), np.asarray(b)], dtype)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_ties_share(name: str) -> None:
    a, b = np.array([1.0, 2.0, np.nan, 3.0, np.inf]), np.array([1.0, 3.0, 1.0, np.nan, np.inf])
    mine = [ln.tensor(v, requires_grad=True) for v in (a, b)]
    its = [torch.tensor(v, requires_grad=True) for v in (a, b)]
    BINARY[name][0](*mine).sum().backward()
    BINARY[name][1](*its).sum().backward()
    for m, t in zip(mine, its, strict=True):
        np.testing.assert_array_equal(m.grad.numpy(), t.grad.numpy())


def test_pow_at_zero() -> None:
    a, b = np.array([0.0, 0.0, 0.0, 2.0, 0.0]), np.array([0.0, 1.0, 2.0, 0.0, 0.5])
    mine = [ln.tensor(v, requires_grad=True) for v in (a, b)]
    its = [torch.tensor(v, requires_grad=True) for v in (a, b)]
    (mine[0] ** mine[1]).sum().backward()
    torch.pow(*its).sum().backward()
    for m, t in zip(mine, its, strict=True):
        np.testing.assert_array_equal(m.grad.numpy(), t.grad.numpy())


@pytest.mark.parametrize("row", [[-np.inf] * 3, [-np.inf, 0.0, 1.0], [np.inf, 0.0, 1.0], [np.nan, 0.0, 1.0]])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
def test_softmax_of_infinities(name: str, row: list[float]) -> None:
    x = np.array([row])
    got, want = getattr(F, name)(x, 1), getattr(torch, name)(torch.tensor(x), 1)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-14)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(8, 6), (4, 6, 5), (2, 6, 3, 4), (2, 6, 2, 3, 2)])
@pytest.mark.parametrize("name", ["batch", "running", "group", "layer"])
def test_normalisations(name: str, shape: tuple[int, ...], dtype: str) -> None:
    x, w, b = normal(shape, dtype), normal((6,), dtype, 1), normal((6,), dtype, 2)
    mean, var = normal((6,), dtype, 3), np.abs(normal((6,), dtype, 4)) + np.asarray(0.5, dtype)
    if name == "layer":
        w, b = normal(shape[1:], dtype, 1), normal(shape[1:], dtype, 2)
    pairs = {
        "batch": (
            lambda x, w, b: F.batch_norm(x, None, None, w, b, True, eps=1e-3),
            lambda x, w, b: TF.batch_norm(x, None, None, w, b, True, eps=1e-3),
        ),
        "running": (
            lambda x, w, b: F.batch_norm(x, mean, var, w, b),
            lambda x, w, b: TF.batch_norm(x, torch.tensor(mean), torch.tensor(var), w, b),
        ),
        "group": (lambda x, w, b: F.group_norm(x, 3, w, b), lambda x, w, b: TF.group_norm(x, 3, w, b)),
        "layer": (
            lambda x, w, b: F.layer_norm(x, shape[1:], w, b),
            lambda x, w, b: TF.layer_norm(x, shape[1:], w, b),
        ),
    }
    compare(*pairs[name], [x, w, b], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_running_statistics(dtype: str) -> None:
    x, mean, var = normal((5, 3, 4), dtype), normal((3,), dtype, 1), np.abs(normal((3,), dtype, 2))
    its_mean, its_var = torch.tensor(mean), torch.tensor(var)
    F.batch_norm(x, mean, var, training=True, momentum=0.3)
    TF.batch_norm(torch.tensor(x), its_mean, its_var, training=True, momentum=0.3)
    close(mean, its_mean, dtype)
    close(var, its_var, dtype)


REDUCTIONS = ("mean", "sum", "none")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss"])
def test_losses_of_differences(name: str, reduction: str, dtype: str) -> None:
    extra: list[dict[str, float]] = [{}]
    extra += [{"delta": 0.4}] if name == "huber_loss" else [{"beta": 0.4}, {"beta": 0.0}] if "smooth" in name else []
    for options in extra:
        compare(
            lambda x, t, o=options: getattr(F, name)(x, t, reduction=reduction, **o),
            lambda x, t, o=options: getattr(TF, name)(x, t, reduction=reduction, **o),
            [normal((4, 5), dtype), normal((4, 5), dtype, 1)],
            dtype,
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_binary_cross_entropy(weighted: bool, reduction: str, dtype: str) -> None:
    x, t = normal((4, 5), dtype, scale=20), np.random.default_rng(1).random((4, 5)).astype(dtype)
    w, p = (np.abs(normal((5,), dtype, 2)), np.abs(normal((5,), dtype, 3))) if weighted else (None, None)
    tw, tp = (torch.tensor(w), torch.tensor(p)) if weighted else (None, None)
    compare(
        lambda x: F.binary_cross_entropy_with_logits(x, t, w, reduction, p),
        lambda x: TF.binary_cross_entropy_with_logits(x, torch.tensor(t), tw, reduction=reduction, pos_weight=tp),
        [x],
        dtype,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(7, 5), (3, 5, 4), (2, 5, 3, 2), (5,)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy_of_classes(
    smoothing: float, weighted: bool, shape: tuple[int, ...], reduction: str, dtype: str
) -> None:
    rng = np.random.default_rng(3)
    rest = shape[:1] + shape[2:] if len(shape) > 1 else ()
    t = np.asarray(rng.integers(0, 5, rest))
    if t.ndim:
        t[rng.random(rest) < 0.2] = 1
    w = np.abs(normal((5,), dtype, 2)) if weighted else None
    tw = torch.tensor(w) if weighted else None
    compare(
        lambda x: F.cross_entropy(x, t, w, 1 if t.ndim else -100, reduction, smoothing),
        lambda x: TF.cross_entropy(
            x, torch.tensor(t), tw, ignore_index=1 if t.ndim else -100, reduction=reduction, label_smoothing=smoothing
        ),
        [normal(shape, dtype)],
        dtype,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(7, 5), (3, 5, 4), (5,)])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy_of_probabilities(smoothing: float, shape: tuple[int, ...], reduction: str, dtype: str) -> None:
    w = np.abs(normal((5,), dtype, 2))
    compare(
        lambda x, t: F.cross_entropy(x, t, w, reduction=reduction, label_smoothing=smoothing),
        lambda x, t: TF.cross_entropy(x, t, torch.tensor(w), reduction=reduction, label_smoothing=smoothing),
        [normal(shape, dtype), np.abs(normal(shape, dtype, 1))],
        dtype,
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_nll(reduction: str) -> None:
    x, w = normal((6, 4, 3), "float64"), np.abs(normal((4,), "float64", 2))
    t = np.random.default_rng(0).integers(0, 4, (6, 3))
    t[0] = -100
    compare(
        lambda x: F.nll_loss(x, t, w, reduction=reduction),
        lambda x: TF.nll_loss(x, torch.tensor(t), torch.tensor(w), reduction=reduction),
        [x],
        "float64",
    )
