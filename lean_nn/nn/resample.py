"""Upsample: an image in another size, by the nearest cell or by straight lines between cells.

Every axis is treated on its own, because both ways are products over the axes. A cell j of the new axis lies at position
``p(j)`` of the old one; nearest takes the cell there, linear weighs the two around it. Which cells and which weights depends on
sizes alone, so this is a selection and two products: linear in the image, hence differentiable in both modes.

=====================  =====================================================================
nearest                ``p = ⌊j·ratio⌋``, ratio = old/new, or 1/scale_factor where that is given
linear                 ``p = (j + ½)·ratio − ½``, not below 0
linear, align_corners  ``p = j·(old − 1)/(new − 1)``: first and last cells stay where they are
=====================  =====================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lean_nn import functional as F
from lean_nn.convert import as_tensor
from lean_nn.nn.module import Module

__all__ = ["Upsample", "interpolate"]

RANKS = {"linear": 1, "bilinear": 2, "trilinear": 3}
MODES = ("nearest", *RANKS)


def interpolate(
    x: Any, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest", align_corners: bool | None = None,
) -> Any:  # fmt: skip
    """x, ``(N, C, *spatial)``, in another spatial size.

    Parameters
    ----------
    x : Tensor or array
    size : new sizes, one for all axes or one each
    scale_factor : or how many times as large
    mode : "nearest" (any number of axes), "linear", "bilinear", "trilinear" (one, two, three)
    align_corners : for linear modes, whether first and last cells stay where they are

    Examples
    --------
    >>> import lean_nn as ln
    >>> from lean_nn.nn import interpolate
    >>> interpolate(ln.tensor([[[1.0, 3.0]]]), scale_factor=2, mode="linear").tolist()
    [[[1.0, 1.5, 2.5, 3.0]]]
    """
    x = as_tensor(x, op="interpolate")
    d = x.ndim - 2
    _check(d, x.shape, mode, align_corners)
    for axis, (new, ratio) in enumerate(_targets(x.shape[2:], size, scale_factor), 2):
        old = x.shape[axis]
        if mode == "nearest":
            x = F.take(x, np.minimum((np.arange(new) * ratio).astype(np.int64), old - 1), axis)
        elif new != old:  # an axis that keeps its size is left alone, as in PyTorch, whatever the factor was
            x = _between(x, axis, _positions(new, old, ratio, bool(align_corners)))
    return x


def _check(d: int, shape: tuple[int, ...], mode: str, align_corners: bool | None) -> None:
    if mode not in MODES:
        raise ValueError(f"interpolate: mode is one of {MODES}; got {mode!r}; choose one of them")
    if d < 1 or RANKS.get(mode, d) != d:
        axes = f"{RANKS[mode]} spatial axes" if mode in RANKS else "spatial axes"
        raise ValueError(f"interpolate: mode {mode!r} is for (N, C, ...) with {axes}; got shape {shape}; choose another mode")
    if mode == "nearest" and align_corners is not None:
        raise ValueError("interpolate: align_corners is for linear modes; got it with 'nearest'; leave it out")
    if 0 in shape[2:]:
        raise ValueError(f"interpolate: an image has cells; got shape {shape}; pass one that is not empty")


def _each(name: str, value: Any, d: int) -> list[Any]:
    given = list(value) if isinstance(value, (tuple, list)) else [value] * d
    if len(given) != d or not all(isinstance(v, (int, float, np.number)) and v > 0 for v in given):
        raise ValueError(f"interpolate: {name} is positive, one for all axes or {d}; got {value!r}; give one each")
    return given


def _targets(old: tuple[int, ...], size: Any, scale_factor: Any) -> list[tuple[int, float]]:
    """(new size, cells of the old axis per cell of the new one) for each axis."""
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate: either size or scale_factor; got both or neither; pass one of them")
    if size is not None:
        return [(int(new), n / int(new)) for n, new in zip(old, _each("size", size, len(old)), strict=True)]
    factors = _each("scale_factor", scale_factor, len(old))
    targets = [(int(n * factor), 1 / factor) for n, factor in zip(old, factors, strict=True)]
    if min(new for new, _ in targets) < 1:
        raise ValueError(f"interpolate: a result has cells; got scale_factor {scale_factor} for sizes {old}; pass a larger one")
    return targets


def _positions(new: int, old: int, ratio: float, align_corners: bool) -> np.ndarray[Any, Any]:
    cells = np.arange(new, dtype=np.float64)
    if align_corners:
        return cells * ((old - 1) / (new - 1) if new > 1 else 0.0)
    return np.maximum((cells + 0.5) * ratio - 0.5, 0.0)


def _between(x: Any, axis: int, positions: np.ndarray[Any, Any]) -> Any:
    """Along one axis, the straight line between the two cells around each position."""
    last = x.shape[axis] - 1
    low = np.minimum(positions.astype(np.int64), last)
    high = np.minimum(low + 1, last)
    share = np.clip(positions - low, 0.0, 1.0)
    shape = tuple(len(positions) if a == axis else 1 for a in range(x.ndim))
    near, far = ((1 - share).astype(x.dtype).reshape(shape), share.astype(x.dtype).reshape(shape))
    return F.add(F.mul(F.take(x, low, axis), near), F.mul(F.take(x, high, axis), far))


class Upsample(Module):
    """`interpolate` as a layer.

    Examples
    --------
    >>> import numpy as np
    >>> from lean_nn import nn
    >>> nn.Upsample(scale_factor=2, mode="bilinear")(np.zeros((1, 3, 4, 5), np.float32)).shape
    (1, 3, 8, 10)
    """

    def __init__(
        self, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest", align_corners: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if mode not in MODES:
            raise ValueError(f"Upsample: mode is one of {MODES}; got {mode!r}; choose one of them")
        if (size is None) == (scale_factor is None):
            raise ValueError("Upsample: either size or scale_factor; got both or neither; pass one of them")
        self.size, self.mode, self.align_corners = size, mode, align_corners
        many = isinstance(scale_factor, (tuple, list))
        self.scale_factor = tuple(map(float, scale_factor)) if many else scale_factor and float(scale_factor)  # type: ignore[arg-type]

    def forward(self, x: Any) -> Any:
        return interpolate(x, self.size, self.scale_factor, self.mode, self.align_corners)

    def extra_repr(self) -> str:
        where = f"scale_factor={self.scale_factor!r}" if self.scale_factor is not None else f"size={self.size!r}"
        return f"{where}, mode={self.mode!r}"
