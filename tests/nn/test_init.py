"""First values: bounds, variances, distributions, and the same bits for the same seed."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lean_nn as ln
from lean_nn import nn
from lean_nn.nn import init


def filled(function: Any, shape: tuple[int, ...] = (200, 50, 3, 3), **options: Any) -> Any:
    return function(ln.tensor(np.empty(shape)), generator=np.random.default_rng(1), **options).numpy()


UNIFORM = [
    (init.uniform_, {"a": -2.0, "b": 3.0}, -2.0, 3.0), (init.kaiming_uniform_, {}, -math.sqrt(6 / 450), math.sqrt(6 / 450)),
    (init.kaiming_uniform_, {"a": math.sqrt(5)}, -math.sqrt(1 / 450), math.sqrt(1 / 450)),
    (init.kaiming_uniform_, {"mode": "fan_out", "nonlinearity": "relu"}, -math.sqrt(6 / 1800), math.sqrt(6 / 1800)),
    (init.xavier_uniform_, {"gain": 2.0}, -2 * math.sqrt(6 / 2250), 2 * math.sqrt(6 / 2250)),
]  # fmt: skip
NORMAL = [
    (init.normal_, {"mean": 1.0, "std": 2.0}, 1.0, 2.0), (init.kaiming_normal_, {}, 0.0, math.sqrt(2 / 450)),
    (init.xavier_normal_, {}, 0.0, math.sqrt(2 / 2250)),
]  # fmt: skip


@pytest.mark.parametrize("function, options, low, high", UNIFORM)
def test_uniform(function: Any, options: dict[str, Any], low: float, high: float) -> None:
    values = filled(function, **options).ravel()
    assert values.min() >= low and values.max() <= high
    assert stats.kstest(values, stats.uniform(low, high - low).cdf).pvalue > 1e-3


@pytest.mark.parametrize("function, options, mean, std", NORMAL)
def test_normal(function: Any, options: dict[str, Any], mean: float, std: float) -> None:
    assert stats.kstest(filled(function, **options).ravel(), stats.norm(mean, std).cdf).pvalue > 1e-3


def test_truncated_normal() -> None:
    values = filled(init.trunc_normal_, std=1.5, a=-1.0, b=2.0).ravel()
    assert stats.kstest(values, stats.truncnorm(-1 / 1.5, 2 / 1.5, scale=1.5).cdf).pvalue > 1e-3


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (4, 2, 3)])
def test_orthogonal_is(shape: tuple[int, ...]) -> None:
    q = filled(init.orthogonal_, shape, gain=2.0).reshape(shape[0], -1)
    small = q @ q.T if q.shape[0] <= q.shape[1] else q.T @ q
    assert np.allclose(small, 4 * np.eye(len(small)), atol=1e-12)


def test_fixed_values() -> None:
    assert init.eye_(ln.tensor(np.empty((2, 3)))).tolist() == np.eye(2, 3).tolist()
    assert init.ones_(ln.tensor(np.empty(2))).tolist() == [1, 1] and init.zeros_(ln.tensor(np.empty(2))).tolist() == [0, 0]
    x = np.random.default_rng(0).standard_normal((2, 4, 5, 5))
    layer = nn.Conv2d(4, 4, 3, padding=1, groups=2, bias=False, dtype="float64")
    init.dirac_(layer.weight, groups=2)
    assert (layer(x).numpy() == x).all()


def test_layers_begin_as_pytorchs_do() -> None:
    """U(−1/√fan_in, 1/√fan_in), for transposed convolutions with PyTorch's idea of fan_in: out/groups times the kernel."""
    for layer, fan in [
        (nn.Linear(64, 500), 64), (nn.Conv2d(16, 80, 3, groups=2), 72), (nn.ConvTranspose2d(80, 16, 3, groups=2), 72),
    ]:  # fmt: skip
        bound = 1 / math.sqrt(fan)
        for values in (layer.weight.numpy().ravel(), layer.bias.numpy()):
            assert np.abs(values).max() <= np.float32(bound)
        assert stats.kstest(layer.weight.numpy().ravel(), stats.uniform(-bound, 2 * bound).cdf).pvalue > 1e-3
    assert stats.kstest(nn.Embedding(100, 50).weight.numpy().ravel(), stats.norm.cdf).pvalue > 1e-3


def test_a_seed_gives_these_bits() -> None:
    """Pinned: the first values of a model are the same on every machine."""
    ln.manual_seed(1)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Linear(5, 3), nn.Embedding(4, 2))
    bits = hashlib.sha256(b"".join(a.tobytes() for a in net.state_dict().values())).hexdigest()
    ln.manual_seed(1)
    again = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Linear(5, 3), nn.Embedding(4, 2))
    assert hashlib.sha256(b"".join(a.tobytes() for a in again.state_dict().values())).hexdigest() == bits
    other = nn.Linear(5, 3)
    assert (other.weight.numpy() != net[1].weight.numpy()).any()
    ln.manual_seed(1)
    double = nn.Conv2d(1, 4, 3, dtype="float64")
    assert (double.weight.numpy().astype(np.float32) == net[0].weight.numpy()).all()
    assert bits[:16] == PINNED


PINNED = "458339eb3042f2e2"


@pytest.mark.parametrize(
    "call, problem",
    [
        (lambda: ln.manual_seed(-1), "from 0"), (lambda: ln.manual_seed(1.5), "whole number"),
        (lambda: init.kaiming_uniform_(ln.tensor([1.0])), "two or more axes"),
        (lambda: init.kaiming_normal_(ln.tensor([[1.0]]), mode="fan"), "fan_in"),
        (lambda: init.calculate_gain("swish"), "choose one"), (lambda: init.eye_(ln.tensor([1.0])), "matrix"),
        (lambda: init.dirac_(ln.tensor([[1.0]])), "kernel"), (lambda: init.orthogonal_(ln.tensor([1.0])), "two or more"),
        (lambda: init.trunc_normal_(ln.tensor([1.0]), a=9.0, b=10.0), "six deviations"),
    ],
)  # fmt: skip
def test_wrong_use_is_told(call: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        call()
