"""Pooling as layers. The names without a number take their axes from the length of a tuple."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lean_nn import functional as F
from lean_nn.nn.conv import kernel_of
from lean_nn.nn.module import Module, Parameter
from lean_nn.spec.geometry import check_beta

__all__ = [
    "AdaptiveAvgPool", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool", "AvgPool1d", "AvgPool2d", "AvgPool3d", "MaxPool", "MaxPool1d",
    "MaxPool2d", "MaxPool3d", "SmoothMaxPool", "SmoothMaxPool1d", "SmoothMaxPool2d", "SmoothMaxPool3d",
]  # fmt: skip

IntLike = int | Sequence[int]


class _Pool(Module):
    rank: int | None = None

    def __init__(self, kernel_size: IntLike, stride: IntLike | None, padding: Any) -> None:
        super().__init__()
        self.window = kernel_of(type(self).__name__, self.rank, kernel_size)
        self.kernel_size, self.stride, self.padding = kernel_size, kernel_size if stride is None else stride, padding


class MaxPool(_Pool):
    """The largest cell of each window: `functional.max_pool`.

    Parameters
    ----------
    kernel_size : int or one per axis
    stride : distance of windows; the kernel's size by default
    padding : cells around the input that are never candidates
    dilation : distance of a window's cells
    return_indices : also give each winner's flat place
    ceil_mode : keep a last window that sticks out

    Examples
    --------
    >>> import lean_nn as ln
    >>> ln.nn.MaxPool2d(2)(ln.tensor([[[1.0, 3.0], [2.0, 0.0]]])).tolist()
    [[[3.0]]]
    """

    def __init__(
        self, kernel_size: IntLike, stride: IntLike | None = None, padding: Any = 0, dilation: IntLike = 1,
        return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(kernel_size, stride, padding)
        self.dilation, self.return_indices, self.ceil_mode = dilation, return_indices, ceil_mode

    def forward(self, x: Any) -> Any:
        return F.max_pool(x, self.window, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices)

    def extra_repr(self) -> str:
        return (f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
                f"ceil_mode={self.ceil_mode}")  # fmt: skip


class AvgPool(_Pool):
    """The mean of each window: `functional.avg_pool`.

    Parameters
    ----------
    kernel_size, stride, padding, ceil_mode : as in `MaxPool`; padding counts as zeros
    count_include_pad : divide by all cells of the window or by the real ones
    divisor_override : divide by this number instead
    """

    def __init__(
        self, kernel_size: IntLike, stride: IntLike | None = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(kernel_size, stride, padding)
        self.ceil_mode, self.count_include_pad, self.divisor_override = ceil_mode, count_include_pad, divisor_override

    def forward(self, x: Any) -> Any:
        return F.avg_pool(x, self.window, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
                          self.divisor_override)  # fmt: skip

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class SmoothMaxPool(_Pool):
    """``(1/β)·log Σ exp(β·x)`` of each window: `functional.smooth_max_pool`.

    Parameters
    ----------
    kernel_size : int or one per axis
    beta : sharpness, not 0; negative for a smooth minimum
    stride, padding : as in `MaxPool`; padding counts as zeros
    learnable : make β a parameter, trained with the others
    dtype : of that parameter

    Examples
    --------
    >>> from lean_nn import nn
    >>> [name for name, _ in nn.SmoothMaxPool2d(2, beta=4.0, learnable=True).named_parameters()]
    ['beta']
    """

    def __init__(
        self, kernel_size: IntLike, beta: float = 1.0, stride: IntLike | None = None, padding: Any = 0, *,
        learnable: bool = False, dtype: Any = "float32",
    ) -> None:  # fmt: skip
        super().__init__(kernel_size, stride, padding)
        check_beta(type(self).__name__, beta)
        self.learnable = learnable
        self.beta = Parameter(np.array(beta, dtype)) if learnable else float(beta)

    def forward(self, x: Any) -> Any:
        return F.smooth_max_pool(x, self.window, self.beta, self.stride, self.padding)

    def extra_repr(self) -> str:
        beta = "learnable" if self.learnable else self.beta
        return f"kernel_size={self.kernel_size}, beta={beta}, stride={self.stride}, padding={self.padding}"


class _Adaptive(Module):
    rank: int | None = None

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size
        if isinstance(output_size, (tuple, list)) or self.rank is None:
            self.sizes = output_size
        else:
            self.sizes = (output_size,) * self.rank
        if self.rank is not None and len(self.sizes) != self.rank:
            raise ValueError(f"{type(self).__name__}: one size for all axes or {self.rank}; got {output_size!r}; give one each")

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool(_Adaptive):
    """Means over bins, as many per axis as asked for (None keeps an axis): `functional.adaptive_avg_pool`."""

    def forward(self, x: Any) -> Any:
        return F.adaptive_avg_pool(x, self.sizes)


class AdaptiveMaxPool(_Adaptive):
    """Maxima over bins, as many per axis as asked for (None keeps an axis): `functional.adaptive_max_pool`."""

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, x: Any) -> Any:
        return F.adaptive_max_pool(x, self.sizes, self.return_indices)


class MaxPool1d(MaxPool):
    """`MaxPool` with one spatial axis."""

    rank = 1


class MaxPool2d(MaxPool):
    """`MaxPool` with two spatial axes."""

    rank = 2


class MaxPool3d(MaxPool):
    """`MaxPool` with three spatial axes."""

    rank = 3


class AvgPool1d(AvgPool):
    """`AvgPool` with one spatial axis."""

    rank = 1


class AvgPool2d(AvgPool):
    """`AvgPool` with two spatial axes."""

    rank = 2


class AvgPool3d(AvgPool):
    """`AvgPool` with three spatial axes."""

    rank = 3


class SmoothMaxPool1d(SmoothMaxPool):
    """`SmoothMaxPool` with one spatial axis."""

    rank = 1


class SmoothMaxPool2d(SmoothMaxPool):
    """`SmoothMaxPool` with two spatial axes."""

    rank = 2


class SmoothMaxPool3d(SmoothMaxPool):
    """`SmoothMaxPool` with three spatial axes."""

    rank = 3


class AdaptiveAvgPool1d(AdaptiveAvgPool):
    """`AdaptiveAvgPool` with one spatial axis."""

    rank = 1


class AdaptiveAvgPool2d(AdaptiveAvgPool):
    """`AdaptiveAvgPool` with two spatial axes."""

    rank = 2


class AdaptiveAvgPool3d(AdaptiveAvgPool):
    """`AdaptiveAvgPool` with three spatial axes."""

    rank = 3


class AdaptiveMaxPool1d(AdaptiveMaxPool):
    """`AdaptiveMaxPool` with one spatial axis."""

    rank = 1


class AdaptiveMaxPool2d(AdaptiveMaxPool):
    """`AdaptiveMaxPool` with two spatial axes."""

    rank = 2


class AdaptiveMaxPool3d(AdaptiveMaxPool):
    """`AdaptiveMaxPool` with three spatial axes."""

    rank = 3
