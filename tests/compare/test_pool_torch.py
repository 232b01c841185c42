"""Pooling beside PyTorch: values, indices, gradients, tangents."""

import numpy as np
import pytest

import lean_nn as ln
from lean_nn import functional as F

torch = pytest.importorskip("torch")
T = torch.nn.functional

DTYPES = [np.float32, np.float64]
SPATIAL = {1: (23,), 2: (13, 18), 3: (7, 8, 9)}


def tolerance(dtype):
    return {"rtol": 2e-6, "atol": 2e-6} if dtype == np.float32 else {"rtol": 1e-13, "atol": 1e-13}


def check(ours, theirs, x, dtype, exact=False):
    """Value, gradient and tangent of one function on one input."""
    rng = np.random.default_rng(1)

    def compare(a, b):
        np.testing.assert_allclose(a, b, **({"rtol": 0, "atol": 0} if exact else tolerance(dtype)))

    leaf = torch.tensor(x, requires_grad=True)
    expected = theirs(leaf)
    y, pull = ln.vjp(ours, x)
    compare(y.numpy(), expected.detach().numpy())
    g, t = rng.standard_normal(y.shape).astype(dtype), rng.standard_normal(x.shape).astype(dtype)
    (x_bar,) = torch.autograd.grad(expected, leaf, torch.tensor(g))
    np.testing.assert_allclose(pull(ln.tensor(g))[0].numpy(), x_bar.numpy(), **tolerance(dtype))
    _, y_dot = torch.autograd.functional.jvp(theirs, torch.tensor(x), torch.tensor(t))
    compare(ln.jvp(ours, (x,), (t,))[1].numpy(), y_dot.numpy())


def data(rank, dtype, ties=False):
    rng = np.random.default_rng(rank)
    shape = (2, 3, *SPATIAL[rank])
    return (rng.integers(-2, 3, shape) if ties else rng.standard_normal(shape)).astype(dtype)


GEOMETRIES = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 1, "padding": 1},
    {"kernel_size": 2, "stride": 3, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 5, "stride": 3, "padding": 2},
]
DILATED = {"kernel_size": 2, "stride": 1, "dilation": 3, "padding": 1}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("options", [*GEOMETRIES, DILATED], ids=str)
def test_max_pool(dtype, rank, options):
    ours, theirs = getattr(F, f"max_pool{rank}d"), getattr(T, f"max_pool{rank}d")
    x = data(rank, dtype)
    check(lambda v: ours(v, **options), lambda v: theirs(v, **options), x, dtype, exact=True)
    for values in (x, data(rank, dtype, ties=True)):
        _, idx = ours(values, **options, return_indices=True)
        _, expected = theirs(torch.tensor(values), **options, return_indices=True)
        np.testing.assert_array_equal(idx.numpy(), expected.numpy())


@pytest.mark.parametrize("dtype", DTYPES)
def test_max_pool_of_nan_and_infinities(dtype):
    rng = np.random.default_rng(0)
    x = data(2, dtype)
    x = np.where(rng.random(x.shape) < 0.2, rng.choice([np.nan, np.inf, -np.inf], x.shape), x).astype(dtype)
    for options in GEOMETRIES:
        y, idx = F.max_pool2d(x, **options, return_indices=True)
        y_torch, idx_torch = T.max_pool2d(torch.tensor(x), **options, return_indices=True)
        np.testing.assert_array_equal(y.numpy(), y_torch.numpy())
        no_nan = ~np.isnan(y.numpy())  # of several NaN in a window PyTorch names the last, we the first
        np.testing.assert_array_equal(idx.numpy()[no_nan], idx_torch.numpy()[no_nan])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("options", GEOMETRIES, ids=str)
@pytest.mark.parametrize("divide", [{}, {"count_include_pad": False}, {"divisor_override": 5}], ids=str)
def test_avg_pool(dtype, rank, options, divide):
    if rank == 1 and "divisor_override" in divide:
        pytest.skip("PyTorch's avg_pool1d has no divisor_override")
    ours, theirs = getattr(F, f"avg_pool{rank}d"), getattr(T, f"avg_pool{rank}d")
    check(lambda v: ours(v, **options, **divide), lambda v: theirs(v, **options, **divide), data(rank, dtype), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("rank", "size"), [(1, 5), (1, 40), (2, 1), (2, (7, 5)), (2, (None, 20)), (3, 3), (3, (7, 2, None))]
)
def test_adaptive_pooling(dtype, rank, size):
    for kind in ("max", "avg"):
        ours, theirs = getattr(F, f"adaptive_{kind}_pool{rank}d"), getattr(T, f"adaptive_{kind}_pool{rank}d")
        check(lambda v: ours(v, size), lambda v: theirs(v, size), data(rank, dtype), dtype, exact=kind == "max")  # noqa: B023
    _, idx = getattr(F, f"adaptive_max_pool{rank}d")(data(rank, dtype), size, return_indices=True)
    _, expected = getattr(T, f"adaptive_max_pool{rank}d")(torch.tensor(data(rank, dtype)), size, return_indices=True)
    np.testing.assert_array_equal(idx.numpy(), expected.numpy())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("beta", [0.5, 4.0, -2.0])
def test_smooth_max_pool_is_a_logsumexp_of_unfolded_windows(dtype, beta):
    def theirs(v):
        columns = T.unfold(v, 3, padding=1, stride=2).reshape(2, 3, 9, -1)
        return (torch.logsumexp(beta * columns, 2) / beta).reshape(2, 3, 7, 9)

    check(lambda v: F.smooth_max_pool2d(v, 3, beta, 2, 1), theirs, data(2, dtype), dtype)
