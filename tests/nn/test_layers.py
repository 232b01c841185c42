"""Layers without PyTorch beside them: they are their functions, on every number of axes, and refuse what means nothing."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lean_nn as ln
import lean_nn.functional as F
from lean_nn import nn

rng = np.random.default_rng(0)


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_convolutions_of_any_rank_are_their_functions(d: int) -> None:
    x = rng.standard_normal((2, 4, *(5,) * d))
    layer = nn.Conv(4, 6, (2,) * d, stride=2, padding=1, groups=2, dtype="float64")
    assert layer.weight.shape == (6, 2, *(2,) * d)
    assert (layer(x).numpy() == F.conv(x, layer.weight, layer.bias, 2, 1, groups=2).numpy()).all()
    back = nn.ConvTranspose(4, 6, (2,) * d, stride=2, groups=2, dtype="float64")
    assert back.weight.shape == (4, 3, *(2,) * d)
    assert (back(x).numpy() == F.conv_transpose(x, back.weight, back.bias, 2, groups=2).numpy()).all()


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_pools_of_any_rank_are_their_functions(d: int) -> None:
    x = rng.standard_normal((2, 3, *(5,) * d))
    k = (2,) * d
    pairs = [
        (nn.MaxPool(k, 1, 1), F.max_pool(x, k, 1, 1)), (nn.AvgPool(k, padding=1), F.avg_pool(x, k, padding=1)),
        (nn.SmoothMaxPool(k, 3.0, 2), F.smooth_max_pool(x, k, 3.0, 2)),
        (nn.AdaptiveAvgPool((3,) * d), F.adaptive_avg_pool(x, (3,) * d)),
        (nn.AdaptiveMaxPool((2,) * d), F.adaptive_max_pool(x, (2,) * d)),
    ]  # fmt: skip
    for layer, want in pairs:
        assert (layer(x).numpy() == want.numpy()).all(), layer


def test_winners_come_along_when_asked_for() -> None:
    x = rng.standard_normal((1, 1, 4, 4))
    for layer, want in [
        (nn.MaxPool2d(2, return_indices=True), F.max_pool2d(x, 2, return_indices=True)),
        (nn.AdaptiveMaxPool2d(2, return_indices=True), F.adaptive_max_pool2d(x, 2, return_indices=True)),
    ]:
        assert [a.tolist() for a in layer(x)] == [a.tolist() for a in want]


def test_learnable_sharpness_is_trained_eagerly_and_compiled() -> None:
    layer = nn.SmoothMaxPool2d(2, beta=2.0, learnable=True, dtype="float64")
    x, step = rng.standard_normal((1, 1, 4, 4)), 1e-6
    layer(x).sum().backward()
    ahead, behind = (F.smooth_max_pool2d(x, 2, 2.0 + s).sum().item() for s in (step, -step))
    assert abs(layer.beta.grad.item() - (ahead - behind) / (2 * step)) < 1e-8
    call, params, _ = nn.pure(layer)
    compiled = ln.compile(ln.grad(lambda p, x: call(p, {}, x)[0].sum()), params, x)
    assert compiled(params, x)["beta"] == layer.beta.grad.item()
    layer.beta.data[...] = 0
    with pytest.raises(ValueError, match="beta"):
        layer(x)


@given(
    n=st.integers(1, 6), before=st.integers(0, 6), after=st.integers(0, 6),
    mode=st.sampled_from(["reflect", "replicate", "circular"]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_padding_by_cells_is_numpys(n: int, before: int, after: int, mode: str) -> None:
    from lean_nn.nn.conv import pad_by_cells

    numpys = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    x = np.arange(1.0, n + 1).reshape(1, 1, n)
    most = {"reflect": n - 1, "circular": n, "replicate": 99}[mode]
    if max(before, after) > most:
        with pytest.raises(ValueError, match="copies at most"):
            pad_by_cells(x, [(before, after)], mode)
        return
    got = ln.tensor(np.asarray(pad_by_cells(ln.tensor(x), [(before, after)], mode))).numpy()
    assert got.tolist() == np.pad(x, ((0, 0), (0, 0), (before, after)), mode=numpys).tolist()


def test_layers_run_on_exact_fractions() -> None:
    layer = nn.Linear(2, 1)
    state = {"weight": np.array([[Fraction(1, 3), Fraction(1, 2)]]), "bias": np.array([Fraction(1, 6)])}
    y = nn.functional_call(layer, state, np.array([[Fraction(1), Fraction(1)]]))
    assert y.tolist() == [[Fraction(1)]]


def test_dropout_in_use_does_nothing_and_in_training_scales() -> None:
    layer, x = nn.Dropout(0.25), np.ones(10000, np.float32)
    assert layer.eval()(x) is x
    layer.train()
    ln.manual_seed(3)
    first = layer(x).numpy()
    assert set(np.unique(first)) == {0.0, np.float32(1 / 0.75)} and abs((first == 0).mean() - 0.25) < 0.02
    assert (layer(x).numpy() != first).any()
    ln.manual_seed(3)
    assert (layer(x).numpy() == first).all()


def test_batch_norm_counts_and_averages() -> None:
    """With momentum None the running mean is the plain mean of the batches' means."""
    layer = nn.BatchNorm1d(2, momentum=None, dtype="float64")
    batches = [rng.standard_normal((5, 2)) for _ in range(3)]
    for batch in batches:
        layer(batch)
    assert layer.num_batches_tracked.item() == 3
    assert np.allclose(layer.running_mean.numpy(), np.mean([b.mean(0) for b in batches], 0), rtol=0, atol=1e-15)
    assert np.allclose(layer.running_var.numpy(), np.mean([b.var(0, ddof=1) for b in batches], 0), rtol=0, atol=1e-14)
    layer.eval()(batches[0])
    assert layer.num_batches_tracked.item() == 3


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsampling_of_straight_lines(mode: str) -> None:
    """Linear interpolation with fixed corners keeps a straight line straight; nearest repeats."""
    x = np.linspace(0, 1, 5).reshape(1, 1, 5)
    if mode == "linear":
        y = nn.Upsample(size=9, mode="linear", align_corners=True)(x).numpy()
        assert np.allclose(y[0, 0], np.linspace(0, 1, 9), rtol=0, atol=1e-15)
    else:
        assert nn.Upsample(scale_factor=2)(x).numpy()[0, 0].tolist() == np.repeat(x[0, 0], 2).tolist()


def test_upsampling_derivative_is_its_transpose() -> None:
    x, g = rng.standard_normal((1, 2, 3, 4)), rng.standard_normal((1, 2, 7, 5))
    layer = nn.Upsample(size=(7, 5), mode="bilinear")
    t = ln.tensor(x, requires_grad=True)
    layer(t).backward(ln.tensor(g))
    v = rng.standard_normal(x.shape)
    assert abs((layer(v).numpy() * g).sum() - (t.grad.numpy() * v).sum()) < 1e-12


REFUSED: list[tuple[Any, str]] = [
    (lambda: nn.Conv2d(3, 4, 3, groups=2), "groups divide"), (lambda: nn.Conv2d(0, 4, 3), "in_channels"),
    (lambda: nn.Conv2d(3, True, 3), "out_channels"), (lambda: nn.Conv2d(3, 4, 0), "kernel"),
    (lambda: nn.Conv2d(3, 4, (3, 3, 3)), "kernel_size"), (lambda: nn.Conv(3, 4, 3), "tuple"),
    (lambda: nn.Conv2d(3, 4, 3, padding="some"), "same or valid"), (lambda: nn.Conv2d(3, 4, 3, 2, "same"), "stride 1"),
    (lambda: nn.Conv2d(3, 4, 3, padding_mode="mirror"), "padding_mode"),
    (lambda: nn.ConvTranspose2d(3, 4, 3, padding_mode="reflect"), "padding_mode"),
    (lambda: nn.ConvTranspose2d(3, 4, 3, padding="same"), "in cells"),
    (lambda: nn.Conv2d(1, 1, 3, padding=9, padding_mode="circular")(np.ones((1, 1, 4, 4), np.float32)), "at most 4"),
    (lambda: nn.MaxPool(2), "tuple"), (lambda: nn.MaxPool2d((2, 2, 2)), "kernel_size"),
    (lambda: nn.SmoothMaxPool2d(2, 0.0), "beta"), (lambda: nn.AdaptiveAvgPool2d((1, 2, 3)), "one size for all axes or 2"),
    (lambda: nn.Linear(3, -1), "out_features"), (lambda: nn.Linear(2.5, 1), "in_features"),
    (lambda: nn.Embedding(3, 2, 7), "padding_idx"), (lambda: nn.Dropout(1.5), "from 0 to 1"), (lambda: nn.GELU("fast"), "tanh"),
    (lambda: nn.BatchNorm2d(3)(np.ones((2, 3), np.float32)), "4 axes"), (lambda: nn.GroupNorm(3, 4), "divide"),
    (lambda: nn.BatchNorm1d(3)(np.ones((1, 3), np.float32)), "more than one value"),
    (lambda: nn.Upsample(), "either size or scale_factor"), (lambda: nn.Upsample(2, mode="cubic"), "mode is one of"),
    (lambda: nn.Upsample(size=2, mode="bilinear")(np.ones((1, 1, 4))), "2 spatial axes"),
    (lambda: nn.Upsample(scale_factor=0.1)(np.ones((1, 1, 4))), "larger"),
    (lambda: nn.interpolate(np.ones((1, 1, 4)), size=2, align_corners=True), "linear modes"),
    (lambda: nn.interpolate(np.ones((1, 1, 4)), size=-2), "positive"),
    (lambda: nn.interpolate(np.ones((1, 1, 0)), size=2), "has cells"),
    (lambda: nn.CrossEntropyLoss(reduction="median"), "reduction"),
]  # fmt: skip


@pytest.mark.parametrize("make, problem", REFUSED, ids=[problem for _, problem in REFUSED])
def test_what_means_nothing_is_refused(make: Any, problem: str) -> None:
    with pytest.raises((ValueError, TypeError), match=problem):
        make()
