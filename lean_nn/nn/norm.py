"""Normalisations as layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lean_nn import functional as F
from lean_nn.nn.conv import positive
from lean_nn.nn.module import Module, Parameter
from lean_nn.nn.stateless import scopes
from lean_nn.primitive import GraphError

__all__ = ["BatchNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "LayerNorm"]


def _scale_and_shift(module: Module, shape: tuple[int, ...], weight: bool, bias: bool, dtype: Any) -> None:
    """Weight 1 and bias 0, or none."""
    module.register_parameter("weight", Parameter(np.ones(shape, dtype)) if weight else None)
    module.register_parameter("bias", Parameter(np.zeros(shape, dtype)) if bias else None)


class BatchNorm(Module):
    """``(x − mean)/√(var + eps)·weight + bias`` per channel of ``(N, C, *S)``, any number of spatial axes.

    While training, mean and variance are those of the batch, and the running ones follow them; in use they are the
    running ones.

    Parameters
    ----------
    num_features : channels
    eps : added to the variance
    momentum : share of the new statistics in the running ones; None for the plain mean of all batches so far
    affine : have a weight and, with `bias`, a bias
    track_running_stats : have running statistics; without, the batch's are used always
    dtype : of parameters and statistics

    Examples
    --------
    >>> from lean_nn import nn
    >>> list(nn.BatchNorm2d(3).state_dict())
    ['weight', 'bias', 'running_mean', 'running_var', 'num_batches_tracked']
    """

    axes: tuple[int, ...] = ()  # how many the input may have

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, dtype: Any = "float32", *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        positive(type(self).__name__, num_features=num_features)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        _scale_and_shift(self, (num_features,), affine, affine and bias, dtype)
        on = track_running_stats
        self.register_buffer("running_mean", np.zeros(num_features, dtype) if on else None)
        self.register_buffer("running_var", np.ones(num_features, dtype) if on else None)
        self.register_buffer("num_batches_tracked", np.array(0) if on else None)

    def forward(self, x: Any) -> Any:
        if self.axes and len(x.shape) not in self.axes:
            name, wanted = type(self).__name__, " or ".join(map(str, self.axes))
            raise ValueError(f"{name}: an input of {wanted} axes, (N, C, ...); got shape {tuple(x.shape)}; reshape it")
        by_batch = self.training or self.running_mean is None
        momentum = self._share() if self.training and self.track_running_stats else 0.0
        mean, var = (self.running_mean, self.running_var) if not by_batch or self.training else (None, None)
        return F.batch_norm(x, mean, var, self.weight, self.bias, by_batch, momentum, self.eps)

    def _share(self) -> float:
        """Count this batch, and say how much of its statistics goes into the running ones."""
        counter, scope = self.num_batches_tracked, scopes.current
        if scope is not None:
            scope.counters.append(counter)
            if self.momentum is None:
                raise GraphError("BatchNorm: a pure function has no count of batches; got momentum None, the mean of all so far; "
                                 "pass a momentum, or call the Module itself")  # fmt: skip
            return self.momentum
        counter.data[...] += 1
        return 1 / counter.item() if self.momentum is None else self.momentum

    def extra_repr(self) -> str:
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
                f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}")  # fmt: skip


class BatchNorm1d(BatchNorm):
    """`BatchNorm` of ``(N, C)`` or ``(N, C, L)``."""

    axes = (2, 3)


class BatchNorm2d(BatchNorm):
    """`BatchNorm` of ``(N, C, H, W)``."""

    axes = (4,)


class BatchNorm3d(BatchNorm):
    """`BatchNorm` of ``(N, C, D, H, W)``."""

    axes = (5,)


class LayerNorm(Module):
    """``(x − mean)/√(var + eps)·weight + bias`` over the last axes, whose sizes are `normalized_shape`.

    Parameters
    ----------
    normalized_shape : int or sizes of the last axes
    eps : added to the variance
    elementwise_affine : have a weight and, with `bias`, a bias
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True,
        dtype: Any = "float32",
    ) -> None:  # fmt: skip
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        _scale_and_shift(self, shape, elementwise_affine, elementwise_affine and bias, dtype)

    def forward(self, x: Any) -> Any:
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
                f"bias={self.bias is not None}")  # fmt: skip


class GroupNorm(Module):
    """``(x − mean)/√(var + eps)·weight + bias`` over each group of channels of each sample.

    Parameters
    ----------
    num_groups : divides the channels
    num_channels : int
    eps : added to the variance
    affine : have a weight and, with `bias`, a bias, one number per channel
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, dtype: Any = "float32", *,
        bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        positive("GroupNorm", num_groups=num_groups, num_channels=num_channels)
        if num_channels % num_groups:
            raise ValueError(f"GroupNorm: groups divide the channels; got {num_groups} for {num_channels}; choose a divisor")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        _scale_and_shift(self, (num_channels,), affine, affine and bias, dtype)

    def forward(self, x: Any) -> Any:
        return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
                f"bias={self.bias is not None}")  # fmt: skip
