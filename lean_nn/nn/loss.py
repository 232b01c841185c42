"""Losses as Modules: the functions of `lean_nn.functional` with their settings kept."""

from __future__ import annotations

from typing import Any

from lean_nn import functional as F
from lean_nn.nn.module import Module

__all__ = ["BCEWithLogitsLoss", "CrossEntropyLoss", "HuberLoss", "L1Loss", "MSELoss", "NLLLoss", "SmoothL1Loss"]


class _Loss(Module):
    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            name = type(self).__name__
            raise ValueError(f"{name}: reduction is 'mean', 'sum' or 'none'; got {reduction!r}; choose one of them")
        self.reduction = reduction


class MSELoss(_Loss):
    """``(input − target)²``."""

    def forward(self, input: Any, target: Any) -> Any:
        return F.mse_loss(input, target, self.reduction)


class L1Loss(_Loss):
    """``|input − target|``."""

    def forward(self, input: Any, target: Any) -> Any:
        return F.l1_loss(input, target, self.reduction)


class HuberLoss(_Loss):
    """``d²/2`` where ``|d| ≤ delta``, else ``delta·(|d| − delta/2)``, with d = input − target."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def forward(self, input: Any, target: Any) -> Any:
        return F.huber_loss(input, target, self.reduction, self.delta)


class SmoothL1Loss(_Loss):
    """``d²/(2·beta)`` where ``|d| ≤ beta``, else ``|d| − beta/2``, with d = input − target."""

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta

    def forward(self, input: Any, target: Any) -> Any:
        return F.smooth_l1_loss(input, target, self.reduction, self.beta)


class CrossEntropyLoss(_Loss):
    """``−Σ_c weight[c]·q[c]·log softmax(input)[c]``, q the target as a distribution: `functional.cross_entropy`.

    Examples
    --------
    >>> import numpy as np
    >>> from lean_nn import nn
    >>> round(nn.CrossEntropyLoss()(np.zeros((1, 4)), np.array([2])).item(), 4)
    1.3863
    """

    def __init__(
        self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0
    ) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Any, target: Any) -> Any:
        return F.cross_entropy(input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing)


class NLLLoss(_Loss):
    """``−weight[t]·input[t]`` at the target class t: `functional.nll_loss`."""

    def __init__(self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index

    def forward(self, input: Any, target: Any) -> Any:
        return F.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


class BCEWithLogitsLoss(_Loss):
    """``−pos_weight·t·log σ(x) − (1 − t)·log(1 − σ(x))``: `functional.binary_cross_entropy_with_logits`."""

    def __init__(self, weight: Any = None, reduction: str = "mean", pos_weight: Any = None) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Any, target: Any) -> Any:
        return F.binary_cross_entropy_with_logits(input, target, self.weight, self.reduction, self.pos_weight)
