"""All that a run knows, in one file: written whole or not at all, read with suspicion, taken over all at once.

Arrays stand under ``model.<name>``, ``optimizer.<number>.<slot>`` and ``best.<name>``; everything else (the place in the data,
settings and counts of the optimiser, schedule, stopping, history) is JSON in the file's metadata. Python writes
floats so that they read back the same, hence a resumed run has the bits of an unbroken one.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from lean_nn import io
from lean_nn.nn.module import Module
from lean_nn.optim import Optimizer

__all__ = ["notes", "read", "write"]

VERSION = "1"
Array = np.ndarray[Any, Any]
Path = str | os.PathLike[str]


def write(path: Path, model: Module, optimizer: Optimizer, best: dict[str, Array], told: dict[str, Any]) -> None:
    """Write everything to `path`, whose suffix chooses the format."""
    saved = optimizer.state_dict()
    slots = {f"optimizer.{i}.{name}": t.numpy() for i, own in saved["state"].items() for name, t in own.items() if name != "step"}
    steps = {str(i): own["step"] for i, own in saved["state"].items()}
    arrays = {**_under("model", model.state_dict()), **slots, **_under("best", best)}
    text = json.dumps({**told, "optimizer": {"steps": steps, "param_groups": saved["param_groups"]}})
    io.save(path, arrays, {"lean_nn.checkpoint": VERSION, "lean_nn.training": text})


def read(path: Path, model: Module, optimizer: Optimizer) -> tuple[dict[str, Array], dict[str, Any]]:
    """Take over model and optimiser from `path`; gives the best arrays so far and the notes. An error changes nothing."""
    said, arrays = notes(path), io.load(path)
    model_state, best = _of("model", arrays), _of("best", arrays)
    before = {name: array.copy() for name, array in model.state_dict().items()}
    model.load_state_dict(model_state)
    try:
        optimizer.load_state_dict(_optimizer_state(said["optimizer"], arrays))
    except Exception as problem:
        model.load_state_dict(before)
        raise ValueError(f"fit: {os.fspath(path)!r} goes with another optimiser: {problem}; "
                         f"pass resume=False to begin anew") from problem  # fmt: skip
    return best, said


def notes(path: Path) -> dict[str, Any]:
    """All of a checkpoint but its arrays."""
    about = io.metadata(path)
    if about.get("lean_nn.checkpoint") != VERSION:
        raise ValueError(f"fit: {os.fspath(path)!r} is a checkpoint; got a file without its mark; pass resume=False")
    try:
        found = json.loads(about.get("lean_nn.training", ""))
    except ValueError:
        found = None
    needed = ("optimizer", "recipe", "place", "loader", "history", "sums", "stopped", "schedule", "stopping")
    if not isinstance(found, dict) or any(key not in found for key in needed):
        raise ValueError(f"fit: {os.fspath(path)!r} is a checkpoint; got one whose notes cannot be read; pass resume=False")
    return found


def _optimizer_state(notes: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
    state: dict[int, dict[str, Any]] = {int(i): {"step": int(n)} for i, n in notes["steps"].items()}
    for key, array in _of("optimizer", arrays).items():
        number, _, slot = key.partition(".")
        state[int(number)][slot] = array
    groups = [{k: tuple(v) if k == "betas" else v for k, v in group.items()} for group in notes["param_groups"]]
    return {"state": state, "param_groups": groups}


def _under(prefix: str, arrays: dict[str, Array]) -> dict[str, Array]:
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def _of(prefix: str, arrays: dict[str, Array]) -> dict[str, Array]:
    return {name[len(prefix) + 1 :]: array for name, array in arrays.items() if name.startswith(f"{prefix}.")}
