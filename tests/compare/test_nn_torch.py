"""Every layer beside PyTorch's of the same name: the same state, the same output and gradients, the same words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lean_nn as ln
from lean_nn import nn

torch = pytest.importorskip("torch")
TOL = 1e-12

# (class, arguments, shape of the input), each made in both libraries
LAYERS: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = [
    ("Conv1d", (3, 4, 3), {"padding": 1, "stride": 2}, (2, 3, 9)),
    ("Conv2d", (4, 6, 3), {"padding": (1, 0), "groups": 2, "bias": False}, (2, 4, 7, 6)),
    ("Conv2d", (2, 3, (3, 2)), {"padding": "same", "dilation": 2}, (2, 2, 7, 6)),
    ("Conv3d", (2, 3, 2), {"dilation": (1, 2, 1), "padding": "valid"}, (2, 2, 4, 5, 4)),
    *[("Conv2d", (2, 3, 3), {"padding": (2, 1), "padding_mode": mode}, (2, 2, 5, 4)) for mode in
      ("reflect", "replicate", "circular")],
    ("Conv1d", (2, 3, 4), {"padding": "same", "padding_mode": "circular"}, (2, 2, 6)),
    ("ConvTranspose1d", (3, 4, 3), {"stride": 2, "output_padding": 1}, (2, 3, 5)),
    ("ConvTranspose2d", (4, 6, 3), {"stride": 2, "padding": 1, "groups": 2}, (2, 4, 5, 4)),
    ("ConvTranspose3d", (2, 3, 2), {"dilation": 2, "bias": False}, (2, 2, 3, 3, 3)),
    ("MaxPool1d", (3,), {"stride": 2, "padding": 1}, (2, 3, 9)),
    ("MaxPool2d", (3, 2, 1), {"ceil_mode": True}, (2, 3, 8, 7)),
    ("MaxPool3d", (2,), {"dilation": 2}, (2, 2, 5, 5, 5)),
    ("AvgPool1d", (3,), {"padding": 1, "count_include_pad": False}, (2, 3, 9)),
    ("AvgPool2d", ((2, 3),), {"stride": 2, "divisor_override": 5}, (2, 3, 8, 7)),
    ("AvgPool3d", (2,), {"ceil_mode": True}, (2, 2, 5, 5, 5)),
    ("AdaptiveAvgPool1d", (3,), {}, (2, 3, 7)), ("AdaptiveAvgPool2d", ((None, 2),), {}, (2, 3, 7, 5)),
    ("AdaptiveAvgPool3d", (2,), {}, (2, 3, 5, 4, 3)), ("AdaptiveMaxPool1d", (3,), {}, (2, 3, 7)),
    ("AdaptiveMaxPool2d", ((3, 2),), {}, (2, 3, 7, 5)), ("AdaptiveMaxPool3d", (2,), {}, (2, 3, 5, 4, 3)),
    ("Linear", (3, 4), {}, (2, 5, 3)), ("Linear", (3, 4, False), {}, (3,)), ("Flatten", (), {}, (2, 3, 4)),
    ("Flatten", (0, 1), {}, (2, 3, 4)), ("Unflatten", (1, (2, 3)), {}, (2, 6, 4)), ("Identity", (), {}, (2, 3)),
    ("ReLU", (), {}, (2, 3)), ("ReLU6", (), {}, (20, 3)), ("SiLU", (), {}, (2, 3)),
    ("GELU", (), {}, (2, 3)), ("GELU", ("tanh",), {}, (2, 3)), ("Sigmoid", (), {}, (2, 3)), ("Tanh", (), {}, (2, 3)),
    ("LeakyReLU", (0.1,), {}, (2, 3)), ("ELU", (0.5,), {}, (2, 3)), ("Softplus", (2.0, 5.0), {}, (9, 3)),
    ("Hardswish", (), {}, (9, 3)), ("Hardsigmoid", (), {}, (9, 3)), ("Softmax", (1,), {}, (2, 3)),
    ("LogSoftmax", (1,), {}, (2, 3)),
    ("BatchNorm1d", (3,), {}, (5, 3)), ("BatchNorm1d", (3, 1e-3, 0.3), {}, (5, 3, 4)),
    ("BatchNorm2d", (3,), {"affine": False}, (2, 3, 4, 4)), ("BatchNorm3d", (2,), {"momentum": None}, (2, 2, 3, 3, 3)),
    ("BatchNorm2d", (3,), {"track_running_stats": False}, (2, 3, 4, 4)),
    ("LayerNorm", (4,), {}, (2, 3, 4)), ("LayerNorm", ((3, 4),), {"bias": False}, (2, 3, 4)),
    ("LayerNorm", (4, 1e-3, False), {}, (2, 3, 4)), ("GroupNorm", (2, 4), {}, (2, 4, 3)),
    ("GroupNorm", (4, 4, 1e-3, False), {}, (2, 4, 3, 3)),
]  # fmt: skip


def both(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, Any]:
    mine = getattr(nn, name)(*args, **options).double()
    yours = getattr(torch.nn, name)(*args, **options).double()
    yours.load_state_dict({key: torch.from_numpy(value.copy()) for key, value in mine.state_dict().items()})
    return mine, yours


def close(a: Any, b: Any, tolerance: float = TOL) -> None:
    a, b = np.asarray(a.numpy()), b.detach().numpy()
    assert a.shape == b.shape and a.dtype == b.dtype
    assert np.max(np.abs(a - b), initial=0) <= tolerance


@pytest.mark.parametrize("name, args, options, shape", LAYERS, ids=lambda value: str(value))
def test_layer(name: str, args: tuple[Any, ...], options: dict[str, Any], shape: tuple[int, ...]) -> None:
    mine, yours = both(name, args, options)
    assert repr(mine) == repr(yours) or name == "AvgPool1d"  # which alone writes (3,) for 3
    rng = np.random.default_rng(0)
    for module in (mine, yours):
        module.train()
    for _ in range(2):  # running statistics move twice
        array = 3 * rng.standard_normal(shape)
        x, t = ln.tensor(array, requires_grad=True), torch.from_numpy(array).requires_grad_()
        y, s = mine(x), yours(t)
        tolerance = 3e-8 if name.startswith("Hard") else TOL  # PyTorch multiplies by a float32 sixth
        close(y, s, tolerance)
        weight = rng.standard_normal(y.shape)
        mine.zero_grad()
        yours.zero_grad()
        y.backward(ln.tensor(weight))
        s.backward(torch.from_numpy(weight))
        close(x.grad, t.grad, tolerance)
        for (n, p), (m, q) in zip(mine.named_parameters(), yours.named_parameters(), strict=True):
            assert n == m
            close(p.grad, q.grad)
    mine.eval()
    yours.eval()
    close(mine(x), yours(t), tolerance)
    assert list(mine.state_dict()) == list(yours.state_dict())
    for a, b in zip(mine.state_dict().values(), yours.state_dict().values(), strict=True):
        close(ln.tensor(a), b)
    assert mine.load_state_dict({key: value.numpy() for key, value in yours.state_dict().items()}) == ([], [])


def test_embedding() -> None:
    mine, yours = both("Embedding", (7, 3), {"padding_idx": -2})
    assert repr(mine) == repr(yours)
    index = np.array([[1, 5, 2], [5, 5, 6]])
    y, s = mine(index), yours(torch.from_numpy(index))
    close(y, s)
    y.sum().backward()
    s.sum().backward()
    close(mine.weight.grad, yours.weight.grad)


LOSSES = [
    ("MSELoss", {}), ("L1Loss", {"reduction": "sum"}), ("HuberLoss", {"delta": 0.5}), ("SmoothL1Loss", {"beta": 0.5}),
    ("BCEWithLogitsLoss", {"reduction": "none"}),
]  # fmt: skip


@pytest.mark.parametrize("name, options", LOSSES, ids=lambda value: str(value))
def test_loss_of_arrays(name: str, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    x, t = rng.standard_normal((4, 3)), rng.random((4, 3))
    mine, yours = getattr(nn, name)(**options), getattr(torch.nn, name)(**options)
    assert repr(mine) == repr(yours)
    close(mine(x, t), yours(torch.from_numpy(x), torch.from_numpy(t)))


@pytest.mark.parametrize("name", ["CrossEntropyLoss", "NLLLoss"])
@pytest.mark.parametrize("weighted", [False, True])
def test_loss_of_classes(name: str, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    x, t, w = rng.standard_normal((6, 3)), rng.integers(0, 3, 6), rng.random(3)
    mine = getattr(nn, name)(weight=w if weighted else None)
    yours = getattr(torch.nn, name)(weight=torch.from_numpy(w) if weighted else None)
    assert list(mine.state_dict()) == list(yours.state_dict())
    close(mine(x, t), yours(torch.from_numpy(x), torch.from_numpy(t)))
