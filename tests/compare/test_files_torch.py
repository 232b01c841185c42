"""`lean_nn.io` beside PyTorch: what ``torch.save`` writes today is read, and the stored files say what they should."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lean_nn import io

torch = pytest.importorskip("torch")

DATA = Path(__file__).resolve().parent.parent / "data"


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(found) == list(expected)
    for name, tensor in expected.items():
        wide = tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor
        np.testing.assert_array_equal(found[name], wide.detach().numpy())


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_models(zipped: bool, dtype: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(16, 3), torch.nn.Embedding(5, 2)
    ).to(getattr(torch, dtype))
    model[3].weight = torch.nn.Parameter(torch.randn(16, 3).to(getattr(torch, dtype)).t())
    path = tmp_path / "model.pt"
    torch.save(model.state_dict(), path, _use_new_zipfile_serialization=zipped)
    same(io.load(path, dtype=None if dtype in ("float32", "float64") else "float32"), model.state_dict())


@pytest.mark.parametrize("zipped", [True, False])
def test_an_optimizer_beside_the_model(zipped: bool, tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    path = tmp_path / "checkpoint.pth"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, path,
               _use_new_zipfile_serialization=zipped)  # fmt: skip
    found = io.load_pytorch(path)
    same(found["model"], model.state_dict())
    np.testing.assert_array_equal(found["optimizer"]["state"][0]["exp_avg"], optimizer.state_dict()["state"][0]["exp_avg"])
    assert found["optimizer"]["param_groups"][0]["betas"] == (0.9, 0.999) and found["epoch"] == 3


@pytest.mark.parametrize("zipped", [True, False])
def test_a_whole_model_is_refused_by_name(zipped: bool, tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(2, 2), tmp_path / "model.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(ValueError, match=r"'torch.nn.modules.linear.Linear', which is refused.*save model.state_dict\(\)"):
        io.load(tmp_path / "model.pt")


@pytest.mark.parametrize("kind", ["zip", "legacy"])
@pytest.mark.parametrize("name", ["state", "bfloat16"])
def test_stored_files(name: str, kind: str) -> None:
    path = DATA / f"{name}_{kind}.pt"
    same(io.load(path, dtype="float32" if name == "bfloat16" else None), torch.load(path, weights_only=True))
