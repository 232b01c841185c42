"""Models by name and by TOML; summaries."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lean_nn as ln
from benches.networks import lenet, lenet_network, resnet_network
from lean_nn import nn

MODELS = {"lenet": (1, 28, 454922), "digits_cnn": (1, 8, 0), "resnet20": (3, 16, 272474), "mlp": (1, 8, 9610)}


@pytest.mark.parametrize("name", MODELS)
def test_models_by_name_run_and_have_their_size(name: str) -> None:
    channels, size, parameters = MODELS[name]
    model = nn.models.MODELS[name]().eval()
    x = np.random.default_rng(0).standard_normal((2, channels, size, size)).astype(np.float32)
    assert model(x).shape == (2, 10)
    if parameters:
        assert sum(p.size for p in model.parameters()) == parameters


def test_lenet_is_that_of_the_benches() -> None:
    model = nn.models.lenet(size=12, width=2).eval()
    x = np.random.default_rng(0).standard_normal((3, 1, 12, 12)).astype(np.float32)
    state = model.state_dict()
    assert {k: v.shape for k, v in state.items()} == lenet_network(3, 12, 2).shapes
    assert (model(x).numpy() == lenet(state, ln.tensor(x), False).numpy()).all()
    assert sum(p.size for p in nn.models.resnet20().parameters()) == sum(
        np.prod(s) for k, s in resnet_network().shapes.items() if "running" not in k
    )


TEXT = """
[[layer]]
type = "Conv2d"
in_channels = 1
out_channels = 4
kernel_size = [3, 3]
padding = "same"
[[layer]]
type = "ReLU"
[[layer]]
type = "Flatten"
[[layer]]
type = "Linear"
in_features = 64
out_features = 3
"""

needs_toml = pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib came with Python 3.11")


@needs_toml
def test_toml_as_text_and_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text(TEXT)
    for source in (TEXT, tmp_path / "net.toml", str(tmp_path / "net.toml")):
        model = nn.from_toml(source)
        assert repr(model[0]) == "Conv2d(1, 4, kernel_size=(3, 3), stride=(1, 1), padding=same)"
        assert model(np.zeros((2, 1, 4, 4), np.float32)).shape == (2, 3)


@needs_toml
@pytest.mark.parametrize(
    "text, problem",
    [
        ("a =\n", "cannot be read"), ("x = 1\n", "list of \\[\\[layer\\]\\]"), ("layer = 3\n", "list of"),
        ("layer = [1]\n", "layer 0 has a type"), ("[[layer]]\ntype = 'Module'\n", "layer 0 has a type"),
        ("[[layer]]\ntype = 'os'\n", "layer 0 has a type"), ("[[layer]]\ntype = '__class__'\n", "layer 0 has a type"),
        ("[[layer]]\ntype = 'CrossEntropyLoss'\n", "has a type"), ("[[layer]]\n", "got None"),
        ("[[layer]]\ntype = 'Linear'\nin_features = 3\n", "layer 0, Linear"),
        ("[[layer]]\ntype = 'ReLU'\n[[layer]]\ntype = 'Linear'\nin_features = 0\nout_features = 1\n", "layer 1, Linear"),
        ("[[layer]]\ntype = 'ReLU'\n[extra]\n", "list of"),
    ],
)  # fmt: skip
def test_toml_that_means_nothing_is_told(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        nn.from_toml(text)


def test_summary_counts_what_can_be_counted_by_hand() -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    model[4].bias.requires_grad = False
    report = nn.summary(model, (2, 1, 4, 4))
    rows = {row.name: row for row in report.rows}
    assert rows["0"].flops == 2 * (2 * 4 * 16) * 9 and rows["0"].output == (2, 4, 4, 4) and rows["0"].parameters == 36
    assert rows["3"].flops == 0 and rows["4"].flops == 2 * 2 * 3 * 64 + 2 * 3 and rows["4"].bytes == 2 * 3 * 4
    assert (report.parameters, report.trainable) == (36 + 8 + 195, 36 + 8 + 192)
    assert report.parameter_bytes == 4 * (36 + 8 + 8 + 195) + 8 and report.peak_bytes > report.arena_bytes > 0
    assert report.flops == sum(row.flops for row in report.rows if row.depth == 1)
    assert json.loads(json.dumps(report.to_dict()))["rows"][1]["layer"] == "Conv2d"
    assert "Conv2d" in str(report) and "239 parameters (236 trained)" in str(report)


def test_summary_leaves_the_model_as_it_was() -> None:
    model = nn.models.digits_cnn()
    model[1].eval()
    before = [m.training for m in model.modules()], [a.tobytes() for a in model.state_dict().values()]
    nn.summary(model, (None, 1, 8, 8))
    assert ([m.training for m in model.modules()], [a.tobytes() for a in model.state_dict().values()]) == before
    with pytest.raises(ValueError):
        nn.summary(model, (None, 3, 8, 8))
    assert [m.training for m in model.modules()] == before[0]
    assert model(np.zeros((2, 1, 8, 8), np.float32)).shape == (2, 10)  # nobody watches any more


def test_summary_of_nested_and_shared_parts() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            return self.part(self.part(x))

    report = nn.summary(nn.Sequential(Twice()), (1, 3))
    assert [(row.name, row.depth) for row in report.rows] == [("", 0), ("0", 1), ("0.part", 2), ("0.part", 2)]
    assert report.parameters == 12 and report.flops == 2 * (2 * 9 + 3)
