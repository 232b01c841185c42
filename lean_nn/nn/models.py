"""Whole models by name, and from a few lines of TOML."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lean_nn import functional as F
from lean_nn import nn
from lean_nn.nn.module import Module

__all__ = ["MODELS", "digits_cnn", "from_toml", "lenet", "mlp", "resnet20"]


class LeNet(Module):
    """Two convolutions of 5×5 with pooling, two linear layers: LeCun's, with today's activations."""

    def __init__(self, channels: int, classes: int, size: int, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 5, padding=2)
        self.conv2 = nn.Conv2d(width, 2 * width, 5, padding=2)
        self.fc1 = nn.Linear(2 * width * (size // 4) ** 2, 4 * width)
        self.fc2 = nn.Linear(4 * width, classes)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(F.flatten(x, 1))))


def lenet(channels: int = 1, classes: int = 10, size: int = 28, width: int = 32) -> Module:
    """A LeNet-style network for ``(N, channels, size, size)``: 32 and 64 channels, 3136 → 128 → 10 unless told.

    Examples
    --------
    >>> from lean_nn import nn
    >>> sum(p.size for p in nn.models.lenet().parameters())
    454922
    """
    return LeNet(channels, classes, size, width)


def digits_cnn(channels: int = 1, classes: int = 10, size: int = 8, width: int = 32) -> Module:
    """A small convolutional network for the 8×8 digits: seconds to train, above 98.5 % on those it has not seen.

    Examples
    --------
    >>> import numpy as np
    >>> from lean_nn import nn
    >>> nn.models.digits_cnn().eval()(np.zeros((2, 1, 8, 8), np.float32)).shape
    (2, 10)
    """
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.3), nn.Linear(2 * width * (size // 4) ** 2, classes),
    )  # fmt: skip


def mlp(features: int = 64, classes: int = 10, hidden: Sequence[int] = (128,), dropout: float = 0.0) -> Module:
    """Linear layers with ReLU between them; the input is flattened.

    Examples
    --------
    >>> from lean_nn import nn
    >>> nn.models.mlp(64, 10, hidden=(32,))
    Sequential(
      (0): Flatten(start_dim=1, end_dim=-1)
      (1): Linear(in_features=64, out_features=32, bias=True)
      (2): ReLU()
      (3): Linear(in_features=32, out_features=10, bias=True)
    )
    """
    layers: list[Module] = [nn.Flatten()]
    for inner, outer in zip((features, *hidden), hidden, strict=False):
        layers += [nn.Linear(inner, outer), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
    return nn.Sequential(*layers, nn.Linear((features, *hidden)[-1], classes))


class _Block(Module):
    """Two convolutions and a way around them (He et al. 2016), by a 1×1 convolution where the shape changes."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer)
        self.conv2, self.norm2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer)
        self.short: Module = nn.Identity()
        if stride != 1 or inner != outer:
            self.short = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x: Any) -> Any:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.short(x))


def resnet20(channels: int = 3, classes: int = 10, width: int = 16, depth: int = 3) -> Module:
    """The residual network of 6·depth + 2 layers for small images: 20 layers unless told.

    Examples
    --------
    >>> from lean_nn import nn
    >>> sum(p.size for p in nn.models.resnet20().parameters())
    272474
    """
    blocks: list[Module] = []
    inner = width
    for stage in range(3):
        for block in range(depth):
            outer = width * 2**stage
            blocks.append(_Block(inner, outer, 2 if stage and not block else 1))
            inner = outer
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, classes),
    )  # fmt: skip


MODELS: dict[str, Callable[..., Module]] = {"digits_cnn": digits_cnn, "lenet": lenet, "mlp": mlp, "resnet20": resnet20}

LAYERS = {  # what a file may name: layers from x to y, nothing else
    name for name, value in vars(nn).items()
    if isinstance(value, type) and issubclass(value, Module) and not name.startswith("_") and not name.endswith("Loss")
    and name not in ("Module", "ModuleDict", "ModuleList", "Sequential")
}  # fmt: skip


def from_toml(source: str | os.PathLike[str]) -> Module:
    """A Sequential from TOML: a list of layers, each a table with its ``type`` and its arguments by name.

    Parameters
    ----------
    source : path of a file, or the text itself (anything with a line break)

    Examples
    --------
    >>> from lean_nn import nn
    >>> nn.from_toml('''
    ... [[layer]]
    ... type = "Linear"
    ... in_features = 4
    ... out_features = 2
    ... [[layer]]
    ... type = "ReLU"
    ... ''')
    Sequential(
      (0): Linear(in_features=4, out_features=2, bias=True)
      (1): ReLU()
    )
    """
    if sys.version_info < (3, 11):
        raise RuntimeError("from_toml: TOML is read by Python 3.11 and later; got an older one; build the model in Python")
    import tomllib

    text = source if isinstance(source, str) and "\n" in source else Path(source).read_text("utf-8")
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ValueError(f"from_toml: a TOML document is needed; got one that cannot be read: {problem}; correct it") from None
    layers = found.get("layer")
    unknown = sorted(set(found) - {"layer"})
    if not isinstance(layers, list) or not layers or unknown:
        raise ValueError(f"from_toml: a model is a list of [[layer]] tables; got {sorted(found)}; write one table per layer")
    return nn.Sequential(*(_layer(i, table) for i, table in enumerate(layers)))


def _layer(number: int, table: Any) -> Module:
    kind = table.get("type") if isinstance(table, dict) else None
    if kind not in LAYERS:
        raise ValueError(f"from_toml: layer {number} has a type among {sorted(LAYERS)}; got {kind!r}; choose one of them")
    arguments = {key: tuple(v) if isinstance(v, list) else v for key, v in table.items() if key != "type"}
    try:
        made: Module = getattr(nn, kind)(**arguments)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"from_toml: layer {number}, {kind}, takes its own arguments; got {arguments}: {problem}; "
                         f"correct them") from None  # fmt: skip
    return made
