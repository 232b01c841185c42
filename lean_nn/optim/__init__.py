"""Optimisers, learning-rate schedules and gradient clipping: PyTorch's names, arguments and formulas.

==============  ===========================================================================================
``rules``       SGD, Adam, AdamW, RMSprop, Adagrad
``optimizer``   what they share: parameter groups, state in and out, ``step`` in place and the pure ``update``
``schedules``   StepLR, MultiStepLR, LambdaLR, LinearLR, CosineAnnealingLR, OneCycleLR
``clip``        clip_grad_norm_, clip_grad_value_; clipped_by_norm, clipped_by_value
==============  ===========================================================================================

The arithmetic is one primitive per rule (`lean_nn.ops.optim`): one pass over memory for each parameter.
"""

from lean_nn.optim.clip import clip_grad_norm_, clip_grad_value_, clipped_by_norm, clipped_by_value
from lean_nn.optim.optimizer import Optimizer
from lean_nn.optim.rules import SGD, Adagrad, Adam, AdamW, RMSprop
from lean_nn.optim.schedules import (
    CosineAnnealingLR,
    LambdaLR,
    LinearLR,
    MultiStepLR,
    OneCycleLR,
    Schedule,
    StepLR,
)

__all__ = [
    "SGD", "Adagrad", "Adam", "AdamW", "CosineAnnealingLR", "LambdaLR", "LinearLR", "MultiStepLR", "OneCycleLR",
    "Optimizer", "RMSprop", "Schedule", "StepLR", "clip_grad_norm_", "clip_grad_value_", "clipped_by_norm", "clipped_by_value",
]  # fmt: skip
