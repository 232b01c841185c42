"""Every layer beside PyTorch's of the same name: the same state, the same output and gradients, the same words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


UPSAMPLES: list[tuple[dict[str, Any], tuple[int, ...]]] = [
    *[({"scale_factor": f}, (2, 3, 5)) for f in (2, 1.5, 0.7, 3.3)], *[({"size": n}, (2, 3, 5)) for n in (1, 3, 5, 7, 12)],
    ({"size": (3, 9)}, (1, 2, 4, 5)), ({"scale_factor": (2, 3, 1)}, (1, 1, 2, 3, 4)),
    *[({"size": n, "mode": "linear", "align_corners": c}, (2, 3, 5)) for n in (1, 3, 5, 8) for c in (False, True)],
    *[({"scale_factor": f, "mode": "linear"}, (2, 3, 5)) for f in (2, 1.5, 0.7, 1.1)],
    ({"scale_factor": 2, "mode": "bilinear"}, (1, 2, 4, 5)),
    ({"size": (7, 3), "mode": "bilinear", "align_corners": True}, (1, 2, 4, 5)),
    ({"scale_factor": (2, 1.5, 3), "mode": "trilinear"}, (1, 1, 3, 4, 2)),
]  # fmt: skip


@pytest.mark.parametrize("options, shape", UPSAMPLES, ids=lambda value: str(value))
def test_upsample(options: dict[str, Any], shape: tuple[int, ...]) -> None:
    mine, yours = nn.Upsample(**options), torch.nn.Upsample(**options)
    assert repr(mine) == repr(yours)
    rng = np.random.default_rng(0)
    array = rng.standard_normal(shape)
    x, t = ln.tensor(array, requires_grad=True), torch.from_numpy(array).requires_grad_()
    y, s = mine(x), yours(t)
    close(y, s)
    weight = rng.standard_normal(y.shape)
    y.backward(ln.tensor(weight))
    s.backward(torch.from_numpy(weight))
    close(x.grad, t.grad)


@pytest.mark.parametrize("old", range(1, 12))
def test_nearest_takes_pytorchs_cells(old: int) -> None:
    array = np.arange(float(old)).reshape(1, 1, old)
    for new in range(1, 25):
        want = torch.nn.functional.interpolate(torch.from_numpy(array), size=new).numpy()
        assert nn.interpolate(array, size=new).numpy().tolist() == want.tolist()


def nets(lib: Any) -> Any:
    block = lib.Sequential(lib.Conv2d(3, 8, 3, 2, 1, bias=False), lib.BatchNorm2d(8), lib.ReLU(), lib.Dropout(0.0))
    up = lib.Sequential(lib.ConvTranspose2d(8, 4, 4, 2, 1), lib.GroupNorm(2, 4), lib.GELU(), lib.Upsample(scale_factor=2))
    return lib.Sequential(block, up, lib.AdaptiveAvgPool2d(3), lib.Flatten(), lib.LayerNorm(36), lib.Linear(36, 5))


def test_a_whole_network_and_its_training() -> None:
    """The same words, state, outputs; 12 steps of Adam by `fit` in float64 end where PyTorch's loop ends."""
    ln.manual_seed(0)
    mine, yours = nets(nn).double(), nets(torch.nn).double()
    assert repr(mine) == repr(yours)
    yours.load_state_dict({key: torch.from_numpy(value.copy()) for key, value in mine.state_dict().items()})
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((12, 3, 8, 8)), rng.integers(0, 5, 12)
    optimizer = torch.optim.Adam(yours.parameters(), lr=0.01)
    losses = []
    for _ in range(6):
        total = 0.0
        for start in (0, 8):
            optimizer.zero_grad()
            part = torch.from_numpy(x[start : start + 8]), torch.from_numpy(y[start : start + 8])
            loss = torch.nn.functional.cross_entropy(yours(part[0]), part[1])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(yours.parameters(), 1.0)
            optimizer.step()
            total += loss.item() * len(part[0])
        losses.append(total / 12)
    own = ln.optim.Adam(mine.parameters(), lr=0.01)
    history = ln.fit(mine, (x, y), "cross_entropy", own, 6, batch_size=8, shuffle=False, clip_norm=1.0, progress=False)
    assert np.allclose(history["loss"], losses, rtol=1e-10)
    for a, b in zip(mine.state_dict().values(), yours.state_dict().values(), strict=True):
        close(ln.tensor(a), b, 1e-9)
    yours.load_state_dict({key: torch.from_numpy(value.copy()) for key, value in mine.state_dict().items()})
    close(mine.eval()(x), yours.eval()(torch.from_numpy(x)))
    mine.load_state_dict({key: value.numpy() for key, value in yours.state_dict().items()})


INITIAL = [("Linear", (60, 300)), ("Conv2d", (16, 64, 3)), ("ConvTranspose2d", (64, 16, 3)), ("Conv1d", (30, 300, 5, 1, 0, 1, 3)),
           ("Embedding", (100, 60)), ("BatchNorm2d", (4,)), ("LayerNorm", ((3, 4),))]  # fmt: skip


@pytest.mark.parametrize("name, args", INITIAL, ids=lambda value: str(value))
def test_first_values_are_distributed_as_pytorchs(name: str, args: tuple[Any, ...]) -> None:
    """Kolmogorov and Smirnov's test on two samples, and the same largest value possible."""
    from scipy import stats

    ln.manual_seed(3)
    torch.manual_seed(3)
    mine, yours = getattr(nn, name)(*args), getattr(torch.nn, name)(*args)
    for key, value in mine.state_dict().items():
        other = yours.state_dict()[key].numpy()
        assert value.shape == other.shape and value.dtype == other.dtype
        if np.ptp(other) == 0:
            assert (value == other).all()
        else:
            assert stats.ks_2samp(value.ravel(), other.ravel()).pvalue > 1e-3
            assert name == "Embedding" or value.size < 1000 or abs(np.abs(value).max() / np.abs(other).max() - 1) < 0.01


FILLS: list[tuple[str, dict[str, Any]]] = [
    ("kaiming_uniform_", {"a": 0.3}), ("kaiming_normal_", {"mode": "fan_out", "nonlinearity": "relu"}), ("xavier_uniform_", {}),
    ("xavier_normal_", {"gain": 3.0}), ("normal_", {"mean": 1.0, "std": 0.3}), ("uniform_", {"a": -1.0, "b": 4.0}),
    ("trunc_normal_", {"std": 0.5, "a": -0.5, "b": 1.0}), ("orthogonal_", {}),
]  # fmt: skip


@pytest.mark.parametrize("name, options", FILLS, ids=lambda value: str(value))
def test_initialisers_are_distributed_as_pytorchs(name: str, options: dict[str, Any]) -> None:
    from scipy import stats

    torch.manual_seed(3)
    mine = getattr(nn.init, name)(ln.tensor(np.empty((64, 30, 3))), generator=np.random.default_rng(2), **options).numpy()
    other = getattr(torch.nn.init, name)(torch.empty(64, 30, 3, dtype=torch.float64), **options).numpy()
    assert stats.ks_2samp(mine.ravel(), other.ravel()).pvalue > 1e-3


@pytest.mark.parametrize("name", ["linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu", "conv2d"])
def test_gains(name: str) -> None:
    assert nn.init.calculate_gain(name) == torch.nn.init.calculate_gain(name)


def test_models_in_pytorch_have_the_same_state() -> None:
    """`digits_cnn` written in PyTorch takes our state and gives our answers."""
    model = nn.models.digits_cnn().double().eval()
    G = torch.nn
    twin = G.Sequential(
        G.Conv2d(1, 32, 3, padding=1), G.BatchNorm2d(32), G.ReLU(), G.Conv2d(32, 32, 3, padding=1), G.BatchNorm2d(32), G.ReLU(),
        G.MaxPool2d(2), G.Conv2d(32, 64, 3, padding=1), G.BatchNorm2d(64), G.ReLU(), G.MaxPool2d(2), G.Flatten(), G.Dropout(0.3),
        G.Linear(256, 10),
    ).double().eval()  # fmt: skip
    assert repr(model) == repr(twin)
    twin.load_state_dict({key: torch.from_numpy(value) for key, value in model.state_dict().items()})
    x = np.random.default_rng(0).random((3, 1, 8, 8))
    close(model(x), twin(torch.from_numpy(x)))


PARTS: dict[str, Any] = {  # layers that keep four channels, whatever the size of the image
    "conv": lambda lib, n: lib.Conv2d(4, 4, 1 + n % 3, padding=1, stride=1 + n % 2, groups=(1, 2, 4)[n % 3]),
    "mirror": lambda lib, n: lib.Conv2d(4, 4, 3, padding=1, padding_mode=("reflect", "replicate", "circular")[n % 3]),
    "back": lambda lib, n: lib.ConvTranspose2d(4, 4, 2 + n % 2, stride=1 + n % 2, bias=n > 1),
    "max": lambda lib, n: lib.MaxPool2d(2, 1 + n % 2, n % 2), "mean": lambda lib, n: lib.AvgPool2d(2, 1, 1, n > 1, n % 2 == 0),
    "norm": lambda lib, n: lib.BatchNorm2d(4, momentum=(0.1, 0.5, None, 1.0)[n]),
    "group": lambda lib, n: lib.GroupNorm(1 + n % 2, 4),
    "relu": lambda lib, n: lib.ReLU(), "gelu": lambda lib, n: lib.GELU(), "silu": lambda lib, n: lib.SiLU(),
    "up": lambda lib, n: lib.Upsample(size=(3 + n, 4)), "bins": lambda lib, n: lib.AdaptiveMaxPool2d((3, 2 + n)),
    "line": lambda lib, n: lib.Upsample(scale_factor=1.5, mode="bilinear", align_corners=n > 1),
}  # fmt: skip


ONE = st.tuples(st.sampled_from(sorted(PARTS)), st.integers(0, 3))


@given(parts=st.lists(ONE, min_size=1, max_size=6), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_any_network_of_these_parts(parts: list[tuple[str, int]], seed: int) -> None:
    """Output, gradients and running statistics of random networks, in training and in use."""

    def make(lib: Any) -> Any:
        body = [PARTS[name](lib, n) for name, n in parts]
        return lib.Sequential(*body, lib.AdaptiveAvgPool2d(2), lib.Flatten(), lib.Linear(16, 3))

    mine, yours = make(nn).double(), make(torch.nn).double()
    yours.load_state_dict({key: torch.from_numpy(value.copy()) for key, value in mine.state_dict().items()})
    rng = np.random.default_rng(seed)
    array, weight = rng.standard_normal((2, 4, 6, 5)), rng.standard_normal((2, 3))
    x, t = ln.tensor(array, requires_grad=True), torch.from_numpy(array).requires_grad_()
    y, s = mine(x), yours(t)
    close(y, s, 1e-10)
    y.backward(ln.tensor(weight))
    s.backward(torch.from_numpy(weight))
    close(x.grad, t.grad, 1e-9)
    for p, q in zip(mine.parameters(), yours.parameters(), strict=True):
        close(p.grad, q.grad, 1e-9)
    close(mine.eval()(x), yours.eval()(t), 1e-9)
    program = ln.compile(mine, array)
    assert np.allclose(program(array), mine(array).numpy(), rtol=1e-9, atol=1e-9)
