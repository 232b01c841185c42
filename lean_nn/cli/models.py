"""Models as the command line names them: a name, a TOML file, or a saved program."""

from __future__ import annotations

import os
from typing import Any

from lean_nn.cli.common import Usage

__all__ = ["is_program", "loaded", "made"]

NAMES = ("digits_cnn", "lenet", "mlp", "resnet20")


def is_program(text: str) -> bool:
    """Whether `text` names a file that is no TOML."""
    return text not in NAMES and not text.endswith(".toml")


def loaded(path: str, batch: int) -> Any:
    """The saved program; of a family that for `batch` samples."""
    from lean_nn.graph.family import Family
    from lean_nn.graph.files import load_program

    program = load_program(path)
    return program.at(dict.fromkeys(program.open, batch)) if isinstance(program, Family) else program


def made(text: str, shape: tuple[int, ...], classes: int) -> Any:
    """The model called `text` (or described in that TOML file) for samples of `shape`."""
    from lean_nn.nn import models

    if text.endswith(".toml"):
        return models.from_toml(os.fspath(text))
    if text not in NAMES:
        raise Usage(f"a model is one of {', '.join(NAMES)} or a .toml file; got {text!r}")
    if text == "mlp":
        features = 1
        for n in shape:
            features *= n
        return models.mlp(features, classes)
    if len(shape) != 3:
        raise Usage(f"{text} takes pictures (channels, height, width); got samples of {shape}; choose mlp")
    if text == "resnet20":
        return models.resnet20(shape[0], classes)
    if shape[1] != shape[2] or shape[1] < 4:
        raise Usage(f"{text} takes square pictures of 4 × 4 at least; got {shape}; choose resnet20 or mlp, or scale them")
    return models.MODELS[text](shape[0], classes, shape[1])
