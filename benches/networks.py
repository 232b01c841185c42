"""The networks of the training steps, as plain functions of a dict of parameters.

``forward(params, x, training, F)`` says each network once: F is `lean_nn.functional` or, for the peer, `torch.nn.functional`,
whose names and arguments are the same. ``make(rng)`` gives the initial arrays (He's normal distribution), ``buffers``
names those that are not trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod, sqrt
from typing import Any

import numpy as np

from lean_nn import functional

Arrays = dict[str, np.ndarray[Any, Any]]
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Network:
    """A network, the shape of its input (batch first) and its number of classes."""

    name: str
    shapes: Shapes
    forward: Callable[..., Any]
    x: tuple[int, ...]
    classes: int = 10

    def make(self, rng: np.random.Generator, dtype: str = "float32") -> Arrays:
        """Initial values of all parameters and buffers."""
        return {name: _initial(rng, name, shape).astype(dtype) for name, shape in self.shapes.items()}

    def trained(self, params: dict[str, Any]) -> list[Any]:
        """The values of `params` that an optimiser gets, in order."""
        return [value for name, value in params.items() if not is_buffer(name)]

    def batch(self, rng: np.random.Generator, dtype: str = "float32") -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Random images and classes."""
        return rng.standard_normal(self.x).astype(dtype), rng.integers(0, self.classes, self.x[0])


def is_buffer(name: str) -> bool:
    """Whether a name is of a running statistic, which no optimiser touches."""
    return ".running_" in name


def _initial(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    if len(shape) > 1:
        return rng.standard_normal(shape) * sqrt(2 / prod(shape[1:]))
    return np.ones(shape) if name.endswith((".weight", "running_var")) else np.zeros(shape)


def _layer(name: str, *weight: int) -> Shapes:
    return {f"{name}.weight": weight, f"{name}.bias": weight[:1]}


# --- LeNet-style: conv 1→32 5², pool 2, conv 32→64 5², pool 2, 3136→128→10 ---


def lenet(params: dict[str, Any], x: Any, training: bool = True, F: Any = functional) -> Any:
    p = params
    x = F.max_pool2d(F.relu(F.conv2d(x, p["conv1.weight"], p["conv1.bias"], padding=2)), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, p["conv2.weight"], p["conv2.bias"], padding=2)), 2)
    x = F.relu(F.linear(x.flatten(1), p["fc1.weight"], p["fc1.bias"]))
    return F.linear(x, p["fc2.weight"], p["fc2.bias"])


def lenet_network(batch: int = 64, size: int = 28, width: int = 32) -> Network:
    """`width` channels in the first layer, twice as many in the second."""
    shapes = {
        **_layer("conv1", width, 1, 5, 5), **_layer("conv2", 2 * width, width, 5, 5),
        **_layer("fc1", 4 * width, 2 * width * (size // 4) ** 2), **_layer("fc2", 10, 4 * width),
    }  # fmt: skip
    return Network("LeNet", shapes, lenet, (batch, 1, size, size))


# --- ResNet of 6·depth + 2 layers for 32² images (He et al. 2016), shortcuts by 1×1 convolution ---


def _norm(params: dict[str, Any], name: str, x: Any, training: bool, F: Any) -> Any:
    mean, var = params[f"{name}.running_mean"], params[f"{name}.running_var"]
    return F.batch_norm(x, mean, var, params[f"{name}.weight"], params[f"{name}.bias"], training)


def _block(params: dict[str, Any], name: str, x: Any, training: bool, F: Any) -> Any:
    stride = 2 if f"{name}.short.weight" in params else 1
    y = F.conv2d(x, params[f"{name}.conv1.weight"], None, stride, 1)
    y = F.relu(_norm(params, f"{name}.norm1", y, training, F))
    y = F.conv2d(y, params[f"{name}.conv2.weight"], None, 1, 1)
    y = _norm(params, f"{name}.norm2", y, training, F)
    if stride == 2:
        x = F.conv2d(x, params[f"{name}.short.weight"], None, 2)
        x = _norm(params, f"{name}.norm3", x, training, F)
    return F.relu(y + x)


def resnet(params: dict[str, Any], x: Any, training: bool = True, F: Any = functional) -> Any:
    x = F.relu(_norm(params, "norm", F.conv2d(x, params["conv.weight"], None, 1, 1), training, F))
    for name in _blocks(params):
        x = _block(params, name, x, training, F)
    x = F.adaptive_avg_pool2d(x, 1).flatten(1)
    return F.linear(x, params["fc.weight"], params["fc.bias"])


def _blocks(params: dict[str, Any]) -> Iterator[str]:
    return (name.removesuffix(".conv1.weight") for name in params if name.endswith(".conv1.weight"))


def _normed(name: str, channels: int) -> Shapes:
    parts = ("weight", "bias", "running_mean", "running_var")
    return {f"{name}.{part}": (channels,) for part in parts}


def resnet_network(batch: int = 32, size: int = 32, depth: int = 3, width: int = 16) -> Network:
    shapes: Shapes = {"conv.weight": (width, 3, 3, 3), **_normed("norm", width)}
    inner = width
    for stage in range(3):
        outer = width * 2**stage
        for block in range(depth):
            name = f"stage{stage}.block{block}"
            shapes |= {f"{name}.conv1.weight": (outer, inner, 3, 3), **_normed(f"{name}.norm1", outer),
                       f"{name}.conv2.weight": (outer, outer, 3, 3), **_normed(f"{name}.norm2", outer)}  # fmt: skip
            if inner != outer:
                shapes |= {f"{name}.short.weight": (outer, inner, 1, 1), **_normed(f"{name}.norm3", outer)}
            inner = outer
    return Network(f"ResNet-{6 * depth + 2}", {**shapes, **_layer("fc", 10, inner)}, resnet, (batch, 3, size, size))


# --- U-Net: two levels of two 3 × 3 convolutions, upwards by transposed convolution, the sides joined ---


def unet(params: dict[str, Any], x: Any, training: bool = True, F: Any = functional) -> Any:
    def twice(name: str, x: Any) -> Any:
        for part in ("a", "b"):
            x = F.relu(F.conv2d(x, params[f"{name}{part}.weight"], params[f"{name}{part}.bias"], padding=1))
        return x

    side = twice("down", x)
    low = twice("low", F.max_pool2d(side, 2))
    up = F.conv_transpose2d(low, params["up.weight"], params["up.bias"], 2)
    x = twice("join", F.concat([side, up], 1))
    return F.conv2d(x, params["last.weight"], params["last.bias"])


def unet_network(batch: int = 8, size: int = 64, width: int = 16) -> Network:
    def twice(name: str, inner: int, outer: int) -> Shapes:
        return {**_layer(f"{name}a", outer, inner, 3, 3), **_layer(f"{name}b", outer, outer, 3, 3)}

    shapes = {
        **twice("down", 3, width), **twice("low", width, 2 * width), "up.weight": (2 * width, width, 2, 2), "up.bias": (width,),
        **twice("join", 2 * width, width), **_layer("last", 2, width, 1, 1),
    }  # fmt: skip
    return Network("U-Net", shapes, unet, (batch, 3, size, size))


# --- 3-D CNN: conv 1→16 3³, pool 2, conv 16→32 3³, global average, 32→10 ---


def cnn3d(params: dict[str, Any], x: Any, training: bool = True, F: Any = functional) -> Any:
    p = params
    x = F.max_pool3d(F.relu(F.conv3d(x, p["conv1.weight"], p["conv1.bias"], padding=1)), 2)
    x = F.relu(F.conv3d(x, p["conv2.weight"], p["conv2.bias"], padding=1))
    x = F.adaptive_avg_pool3d(x, 1).flatten(1)
    return F.linear(x, p["fc.weight"], p["fc.bias"])


def cnn3d_network(batch: int = 4, size: int = 32, width: int = 16) -> Network:
    shapes = {
        **_layer("conv1", width, 1, 3, 3, 3), **_layer("conv2", 2 * width, width, 3, 3, 3), **_layer("fc", 10, 2 * width),
    }  # fmt: skip
    return Network("3-D CNN", shapes, cnn3d, (batch, 1, size, size, size))
