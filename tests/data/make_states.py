"""Writes the PyTorch files beside it, with PyTorch: ``python tests/data/make_states.py``."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

import torch

FOLDER = Path(__file__).parent


def state() -> OrderedDict[str, Any]:
    """Every number type, a transposed tensor, a slice, two tensors that share, an empty one, a scalar."""
    base = torch.arange(12, dtype=torch.float32).reshape(3, 4) / 8
    found = OrderedDict(
        weight=base, shared=base[1:, ::2], turned=base.t(), scalar=torch.tensor(7), empty=torch.zeros(0, 3),
        parameter=torch.nn.Parameter(torch.ones(2, 2)), double=torch.tensor([1 / 3, float("nan"), float("inf")]).double(),
        half=torch.tensor([1.5, -2.0]).half(), int32=torch.tensor([1, -2], dtype=torch.int32),
        int8=torch.tensor([-3], dtype=torch.int8), uint8=torch.tensor([200], dtype=torch.uint8),
        int16=torch.tensor([300], dtype=torch.int16), bool=torch.tensor([True, False]),
    )  # fmt: skip
    found._metadata = OrderedDict({"": {"version": 1}})
    return found


def main() -> None:
    torch.manual_seed(0)
    brain = {"brain": torch.tensor([1.0, -3.140625, 65280.0]).bfloat16()}
    checkpoint = {"epoch": 3, "lr": 0.5, "name": "net", "shape": (1, [2, None]), "state_dict": state()}
    for name, value in {"state": state(), "bfloat16": brain, "checkpoint": checkpoint}.items():
        torch.save(value, FOLDER / f"{name}_zip.pt")
        torch.save(value, FOLDER / f"{name}_legacy.pt", _use_new_zipfile_serialization=False)


if __name__ == "__main__":
    main()
