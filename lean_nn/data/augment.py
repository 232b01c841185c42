"""Batches changed at random: ``transform(x, rng) -> x``, whole batches at once, the argument left as it is.

x has the shape (samples, channels, *sizes); each sample is changed by its own draw. Pass one to `lean_nn.data.Loader`, which
gives every batch a generator of its own, or call it yourself.
"""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Compose", "Flip", "Noise", "Shift"]

Array = NDArray[Any]


def _spatial(op: str, x: Array) -> int:
    if x.ndim < 3:
        raise ValueError(f"{op}: x has samples, channels and at least one further axis; got shape {x.shape}; "
                         f"insert an axis for the channels")
    return x.ndim - 2


class Shift:
    """Each sample moved by up to `pixels` along every spatial axis; zeros come in.

    Examples
    --------
    >>> import numpy as np
    >>> from lean_nn.data.augment import Shift
    >>> x = np.arange(1, 5, dtype=np.float32).reshape(1, 1, 4)
    >>> Shift(1)(x, np.random.default_rng(3)).tolist()
    [[[0.0, 1.0, 2.0, 3.0]]]
    """

    def __init__(self, pixels: int = 1) -> None:
        self.pixels = index(pixels)
        if self.pixels < 0:
            raise ValueError(f"Shift: pixels is a number from 0 up; got {pixels}; pass 1 or 2")

    def __call__(self, x: Array, rng: np.random.Generator) -> Array:
        axes, most = _spatial("Shift", x), self.pixels
        moves = rng.integers(-most, most + 1, (len(x), axes))
        padded = np.pad(x, [(0, 0), (0, 0), *[(most, most)] * axes])
        places = np.lib.stride_tricks.sliding_window_view(padded, x.shape[2:], tuple(range(2, x.ndim)))
        return places[(np.arange(len(x)), slice(None), *(most - moves).T)]  # one copy, a row at a time


class Flip:
    """Each sample turned round along one axis with probability `p`; the last axis is left and right.

    Examples
    --------
    >>> import numpy as np
    >>> from lean_nn.data.augment import Flip
    >>> Flip(p=1)(np.array([[[1.0, 2.0]]]), np.random.default_rng(0)).tolist()
    [[[2.0, 1.0]]]
    """

    def __init__(self, axis: int = -1, p: float = 0.5) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"Flip: p is a probability; got {p}; pass a number from 0 to 1")
        self.axis, self.p = index(axis), float(p)

    def __call__(self, x: Array, rng: np.random.Generator) -> Array:
        axes = _spatial("Flip", x)
        if not -axes <= self.axis < x.ndim or 0 <= self.axis < 2:
            raise ValueError(f"Flip: axis is a spatial one of shape {x.shape}; got {self.axis}; pass -1 for the last")
        turned = rng.random(len(x)) < self.p
        return np.where(turned.reshape(-1, *[1] * (x.ndim - 1)), np.flip(x, self.axis), x)


class Noise:
    """x + std · normal numbers, in x's own dtype.

    Examples
    --------
    >>> import numpy as np
    >>> from lean_nn.data.augment import Noise
    >>> Noise(0.0)(np.ones((1, 1, 2), np.float32), np.random.default_rng(0)).tolist()
    [[[1.0, 1.0]]]
    """

    def __init__(self, std: float = 0.1) -> None:
        if not std >= 0:
            raise ValueError(f"Noise: std is a number from 0 up; got {std}; pass 0.1")
        self.std = float(std)

    def __call__(self, x: Array, rng: np.random.Generator) -> Array:
        if x.dtype not in (np.float32, np.float64):
            raise TypeError(f"Noise: x is float32 or float64; got {x.dtype}; convert it")
        noise: Array = rng.standard_normal(x.shape, x.dtype)
        noise *= x.dtype.type(self.std)
        noise += x
        return noise


class Compose:
    """One after the other, all from one generator.

    Examples
    --------
    >>> from lean_nn.data.augment import Compose, Noise, Shift
    >>> augmented = Compose(Shift(1), Noise(0.05))
    """

    def __init__(self, *transforms: Any) -> None:
        if not all(map(callable, transforms)):
            raise TypeError("Compose: transforms are called as transform(x, rng); got something else; pass Shift(1), …")
        self.transforms = transforms

    def __call__(self, x: Array, rng: np.random.Generator) -> Array:
        for transform in self.transforms:
            x = transform(x, rng)
        return x
