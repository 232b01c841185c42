"""The specification beside PyTorch: values, gradients and JVPs over random geometry that both accept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from spec_support import adaptive, convolution, rngs, strided

from lean_nn import spec

torch = pytest.importorskip("torch")
F = torch.nn.functional
FEW = settings(max_examples=60, deadline=None)
# torch warns about itself when forward mode is first used
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def near(a, b):
    b = b.detach().numpy() if hasattr(b, "detach") else b
    np.testing.assert_allclose(np.asarray(a, float), b, rtol=1e-10, atol=1e-10)


def leaf(x):
    return torch.tensor(np.asarray(x, float), requires_grad=True)


@FEW
@given(convolution(like_torch=True), rngs)
def test_convolution(case, rng):
    x_shape, w_shape, params = case
    d = len(w_shape) - 2
    x, w, b = (rng.standard_normal(s) for s in (x_shape, w_shape, w_shape[:1]))
    f = getattr(F, f"conv{d}d")
    options = {**params, "padding": tuple(a for a, _ in params["padding"])}
    tx, tw, tb = leaf(x), leaf(w), leaf(b)
    y = f(tx, tw, tb, **options)
    near(spec.conv(x, w, b, **params), y)
    g = rng.standard_normal(tuple(y.shape))
    grads = torch.autograd.grad(y, (tx, tw, tb), torch.tensor(g))
    for mine, theirs in zip(spec.conv_vjp(g, x, w, **params), grads, strict=True):
        near(mine, theirs)
    x_dot, w_dot = rng.standard_normal(x_shape), rng.standard_normal(w_shape)
    _, y_dot = torch.func.jvp(
        lambda p, q: f(p, q, **options), (tx.detach(), tw.detach()), (torch.tensor(x_dot), torch.tensor(w_dot))
    )
    near(spec.conv_jvp(x, w, None, x_dot, w_dot, **params), y_dot)


@FEW
@given(st.data(), rngs)
def test_transposed_convolution(data, rng):
    draw, d = data.draw, data.draw(st.integers(1, 3))
    stride, dilation = (tuple(draw(st.integers(1, 3)) for _ in range(d)) for _ in range(2))
    groups = draw(st.integers(1, 2))
    params = {
        "stride": stride, "padding": tuple(draw(st.integers(0, 2)) for _ in range(d)), "dilation": dilation,
        "output_padding": tuple(draw(st.integers(0, max(s, r) - 1)) for s, r in zip(stride, dilation, strict=True)),
        "groups": groups,
    }  # fmt: skip
    x = rng.standard_normal((2, 2 * groups, *rng.integers(1, 4, d)))
    w = rng.standard_normal((2 * groups, 2, *rng.integers(1, 4, d)))
    try:
        y = spec.conv_transpose(x, w, **params)
    except ValueError:
        with pytest.raises(RuntimeError):
            getattr(F, f"conv_transpose{d}d")(torch.tensor(x), torch.tensor(w), **params)
        return
    near(y, getattr(F, f"conv_transpose{d}d")(torch.tensor(x), torch.tensor(w), **params))


def torch_window(window):
    return {"kernel_size": window.kernel, "stride": window.stride, "padding": tuple(a for a, _ in window.padding)}


@FEW
@given(strided(like_torch=True), rngs)
def test_max_pooling(case, rng):
    window, spatial = case
    d = len(spatial)
    x = rng.integers(-3, 4, (2, *spatial)).astype(float)  # ties are likely
    tx = leaf(x)
    f = getattr(F, f"max_pool{d}d")
    options = {**torch_window(window), "dilation": window.dilation, "ceil_mode": window.ceil_mode}
    mine, at = spec.max_pool(x, window=window)
    assume((at >= 0).all())  # a window without real cell is −inf there, 0 here
    y, idx = f(tx, return_indices=True, **options)
    assert np.array_equal(mine.astype(float), y.detach().numpy()) and np.array_equal(at, idx.numpy())
    g = rng.standard_normal(tuple(y.shape))
    near(spec.max_pool_vjp(x, g, window=window), torch.autograd.grad(y, tx, torch.tensor(g))[0])


@FEW
@given(strided(like_torch=True), rngs, st.booleans(), st.sampled_from([None, 3]))
def test_average_pooling(case, rng, include, override):
    window, spatial = case
    d = len(spatial)
    window = replace(window, dilation=(1,) * d)  # PyTorch's average pooling has none
    override = override if d > 1 else None
    # PyTorch's 3-D kernel refuses an input smaller than the kernel even when padding makes it fit
    assume(d < 3 or all(n >= k for n, k in zip(spatial, window.kernel, strict=True)))
    x = rng.standard_normal((2, *spatial))
    tx = leaf(x)
    options = {**torch_window(window), "ceil_mode": window.ceil_mode, "count_include_pad": include}
    extra = {} if override is None else {"divisor_override": override}
    y = getattr(F, f"avg_pool{d}d")(tx, **options, **extra)
    params = {"window": window, "count_include_pad": include, "divisor_override": override}
    near(spec.avg_pool(x, **params), y)
    g = rng.standard_normal(tuple(y.shape))
    near(spec.avg_pool_transpose(g, spatial=spatial, **params), torch.autograd.grad(y, tx, torch.tensor(g))[0])


@FEW
@given(adaptive(), rngs)
def test_adaptive_pooling(case, rng):
    window, spatial = case
    d = len(spatial)
    x = rng.standard_normal((2, *spatial))
    tx = leaf(x)
    sizes = tuple(n if o is None else o for n, o in zip(spatial, window.output, strict=True))
    y = getattr(F, f"adaptive_avg_pool{d}d")(tx, sizes)
    near(spec.avg_pool(x, window=window), y)
    g = rng.standard_normal(tuple(y.shape))
    near(spec.avg_pool_transpose(g, spatial=spatial, window=window), torch.autograd.grad(y, tx, torch.tensor(g))[0])
    z, idx = getattr(F, f"adaptive_max_pool{d}d")(tx, sizes, return_indices=True)
    mine, at = spec.max_pool(x, window=window)
    near(mine, z)
    assert np.array_equal(at, idx.numpy())


X = np.concatenate([np.linspace(-9, 25, 69), [-3.0, 3.0, 0.0]])
ACTIVATIONS = {
    "relu": ("relu", {}, {}), "gelu": ("gelu", {}, {}), "gelu_tanh": ("gelu", {}, {"approximate": "tanh"}),
    "silu": ("silu", {}, {}), "hardsigmoid": ("hardsigmoid", {}, {}), "hardswish": ("hardswish", {}, {}),
    "leaky_relu": ("leaky_relu", {"slope": 0.2}, {"negative_slope": 0.2}),
    "elu": ("elu", {"alpha": 1.5}, {"alpha": 1.5}),
    "softplus": ("softplus", {"beta": 2.0, "threshold": 20.0}, {"beta": 2.0, "threshold": 20.0}),
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_and_their_slopes(name):
    theirs, mine, options = ACTIVATIONS[name]
    x = leaf(X)
    y = getattr(F, theirs)(x, **options)
    near(getattr(spec, name)(X, **mine), y)
    slope = [spec.Dual(v, 1.0) for v in X.tolist()]
    tangents = [getattr(v, "tangent", 0) for v in getattr(spec, name)(slope, **mine)]
    tolerance = 1e-7 if name == "hardsigmoid" else 1e-10  # its 1/6 is a float32 constant in PyTorch
    np.testing.assert_allclose(np.array(tangents, float), torch.autograd.grad(y.sum(), x)[0].numpy(), atol=tolerance)


@pytest.mark.parametrize("d", [1, 2])
def test_unfold_and_fold(d):
    rng = np.random.default_rng(d)
    if d == 1:
        x, kernel = rng.standard_normal((2, 3, 1, 7)), (1, 3)
    else:
        x, kernel = rng.standard_normal((2, 3, 5, 4)), (3, 2)
    cols = F.unfold(torch.tensor(x), kernel, dilation=(1, 1), padding=(0, 1), stride=(1, 2))
    params = {"kernel": kernel, "stride": (1, 2), "padding": ((0, 0), (1, 1))}
    near(spec.unfold(x, **params), cols)
    back = F.fold(cols, x.shape[2:], kernel, padding=(0, 1), stride=(1, 2))
    near(spec.fold(cols.numpy(), spatial=x.shape[2:], **params), back)


def test_extremes_choose_the_first_and_nan():
    x = np.array([[1.0, 3.0, 3.0], [2.0, np.nan, np.nan]])
    y, idx = torch.max(torch.tensor(x), 1)
    mine, at = spec.max(x, axis=1)
    near(mine, y)
    assert at.tolist() == idx.tolist()
