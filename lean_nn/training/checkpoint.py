"""All that a run knows, in one file: written whole or not at all, read with suspicion, taken over all at once.

Arrays stand under ``model.<name>``, ``optimizer.<number>.<slot>`` and ``best.<name>``; everything else (the place in the data,
settings and counts of the optimiser, schedule, stopping, history) is JSON in the file's metadata. Python writes
floats so that they read back the same, hence a resumed run has the bits of an unbroken one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from lean_nn import io
from lean_nn.nn.module import Module
from lean_nn.optim import Optimizer
from lean_nn.training.history import History

__all__ = ["Resumed", "notes", "restore", "write"]

VERSION = "1"
Array = np.ndarray[Any, Any]
Path = str | os.PathLike[str]


def write(path: Path, model: Module, optimizer: Optimizer, best: dict[str, Array], told: dict[str, Any]) -> None:
    """Write everything to `path`, whose suffix chooses the format."""
    saved = optimizer.state_dict()
    slots = {
        f"optimizer.{i}.{name}": t.cpu().numpy()
        for i, own in saved["state"].items() for name, t in own.items() if name != "step"
    }  # fmt: skip
    steps = {str(i): own["step"] for i, own in saved["state"].items()}
    arrays = {**_under("model", model.state_dict()), **slots, **_under("best", best)}
    text = json.dumps({**told, "optimizer": {"steps": steps, "param_groups": saved["param_groups"]}})
    io.save(path, arrays, {"lean_nn.checkpoint": VERSION, "lean_nn.training": text})


class Resumed(NamedTuple):
    """What a checkpoint tells the loop: the best arrays so far, whole epochs and batches done, sums of the present epoch."""

    best: dict[str, Array]
    epoch: int
    batch: int
    sums: dict[str, float]
    history: History
    stopped: bool


def restore(
    path: Path, recipe: dict[str, Any], model: Module, optimizer: Optimizer, parts: Mapping[str, Any]
) -> Resumed:
    """Take over everything from `path`. An error changes nothing.

    Parameters
    ----------
    recipe : what the run must have in common with the one that wrote the file
    parts : by name, what has a state of plain numbers: loader, schedule, stopping (or None)
    """
    said, name = notes(path), os.fspath(path)
    if said["recipe"] != recipe:
        raise ValueError(f"fit: {name!r} was written with {said['recipe']}; got {recipe}; run it alike, or pass resume=False")
    there = {key: part for key, part in parts.items() if part is not None and said[key] is not None}
    before = {key: part.state_dict() for key, part in there.items()}
    try:
        epoch, batch = (int(n) for n in said["place"])
        sums = {str(key): float(value) for key, value in said["sums"].items()}
        history = History(said["history"])
        for key, part in there.items():
            part.load_state_dict(said[key])
        best = _load_arrays(path, said["optimizer"], model, optimizer)
    except Exception as problem:
        for key, part in there.items():
            part.load_state_dict(before[key])
        if isinstance(problem, OSError):
            raise
        raise ValueError(f"fit: {name!r} belongs to another run: {problem}; run it alike, or pass resume=False") from problem
    return Resumed(best, epoch, batch, sums, history, bool(said["stopped"]))


def _load_arrays(path: Path, said: dict[str, Any], model: Module, optimizer: Optimizer) -> dict[str, Array]:
    """Model and optimiser, both or neither; gives the best arrays so far."""
    arrays = io.load(path)
    before = {name: array.copy() for name, array in model.state_dict().items()}
    best = _of("best", arrays)
    try:
        if best:
            model.load_state_dict(best)  # checks that they fit
        model.load_state_dict(_of("model", arrays))
        optimizer.load_state_dict(_optimizer_state(said, arrays))
    except Exception:
        model.load_state_dict(before)
        raise
    return best


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
