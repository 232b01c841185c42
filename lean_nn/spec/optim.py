"""Optimiser updates by definition, one element at a time: PyTorch's formulas.

Each takes the parameter p, its gradient g, the optimiser's own arrays, then the learning rate and the number of the step
(from 1), both without axes; it gives the new parameter and the new arrays. ``maximize`` turns the gradient round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import scalar
from .container import Array, ArrayLike, as_array
from .scalar import Scalar

Element = Callable[..., tuple[Scalar, ...]]


def _direction(p: Scalar, g: Scalar, weight_decay: float, maximize: bool) -> Scalar:
    """±g + weight_decay·p; no decay at all where its factor is 0."""
    d = -g if maximize else g
    return d + scalar.like(p, weight_decay) * p if weight_decay else d


def sgd(p: Scalar, g: Scalar, lr: Scalar, step: Scalar, *, weight_decay: float, maximize: bool) -> tuple[Scalar, ...]:
    """``p − lr·d``, d = ±g + weight_decay·p."""
    return (p - lr * _direction(p, g, weight_decay, maximize),)


def momentum(
    p: Scalar, g: Scalar, v: Scalar, lr: Scalar, step: Scalar,
    *, momentum: float, dampening: float, nesterov: bool, weight_decay: float, maximize: bool,
) -> tuple[Scalar, ...]:  # fmt: skip
    """``v' = momentum·v + (1 − dampening)·d`` (d alone on the first step), ``p − lr·v'``, or ``p − lr·(d + momentum·v')``."""
    d = _direction(p, g, weight_decay, maximize)
    keep = scalar.like(p, momentum)
    v = keep * v + (d if step == 1 else (1 - scalar.like(p, dampening)) * d)
    return p - lr * (d + keep * v if nesterov else v), v


def _moments(
    p: Scalar, d: Scalar, m: Scalar, v: Scalar, betas: tuple[float, float]
) -> tuple[Scalar, Scalar]:
    beta1, beta2 = scalar.like(p, betas[0]), scalar.like(p, betas[1])
    return m + (d - m) * (1 - beta1), beta2 * v + (1 - beta2) * (d * d)


def _adam_step(
    p: Scalar, m: Scalar, square: Scalar, lr: Scalar, step: Scalar, betas: tuple[float, float], eps: float, shrink: Scalar
) -> Scalar:
    """``p·shrink − lr/(1 − β₁ᵗ)·m/(√square/√(1 − β₂ᵗ) + eps)``."""
    short1, short2 = (1 - scalar.pow(scalar.like(p, beta), step) for beta in betas)
    below = scalar.sqrt(square) / scalar.sqrt(short2) + scalar.like(p, eps)
    return p * shrink - lr / short1 * scalar.div(m, below)


def adam(
    p: Scalar, g: Scalar, m: Scalar, v: Scalar, lr: Scalar, step: Scalar,
    *, betas: tuple[float, float], eps: float, weight_decay: float, decoupled: bool, maximize: bool,
) -> tuple[Scalar, ...]:  # fmt: skip
    """``m' = m + (1 − β₁)(d − m)``, ``v' = β₂·v + (1 − β₂)·d²``; decoupled decay (AdamW) shrinks p and leaves d alone."""
    d = _direction(p, g, 0.0 if decoupled else weight_decay, maximize)
    shrink = 1 - lr * scalar.like(p, weight_decay) if decoupled else 1
    m, v = _moments(p, d, m, v, betas)
    return _adam_step(p, m, v, lr, step, betas, eps, shrink), m, v


def amsgrad(
    p: Scalar, g: Scalar, m: Scalar, v: Scalar, top: Scalar, lr: Scalar, step: Scalar,
    *, betas: tuple[float, float], eps: float, weight_decay: float, decoupled: bool, maximize: bool,
) -> tuple[Scalar, ...]:  # fmt: skip
    """As `adam`, with the largest v so far in the denominator."""
    d = _direction(p, g, 0.0 if decoupled else weight_decay, maximize)
    shrink = 1 - lr * scalar.like(p, weight_decay) if decoupled else 1
    m, v = _moments(p, d, m, v, betas)
    top = scalar.maximum(top, v)
    return _adam_step(p, m, top, lr, step, betas, eps, shrink), m, v, top


def _squares(
    p: Scalar, d: Scalar, v: Scalar, mean: Scalar | None, alpha: float, eps: float
) -> tuple[Scalar, Scalar, Scalar | None]:
    """(d/(√spread + eps), v', mean'): the spread is the mean square, less the squared mean where that is kept."""
    keep = scalar.like(p, alpha)
    v = keep * v + (1 - keep) * (d * d)
    spread = v
    if mean is not None:
        mean = mean + (d - mean) * (1 - keep)
        spread = scalar.maximum(v - mean * mean, 0)  # not negative except by rounding
    return scalar.div(d, scalar.sqrt(spread) + scalar.like(p, eps)), v, mean


def rmsprop(
    p: Scalar, g: Scalar, v: Scalar, lr: Scalar, step: Scalar,
    *, alpha: float, eps: float, weight_decay: float, maximize: bool,
) -> tuple[Scalar, ...]:  # fmt: skip
    """``v' = α·v + (1 − α)·d²``, ``p − lr·d/(√v' + eps)``."""
    way, v, _ = _squares(p, _direction(p, g, weight_decay, maximize), v, None, alpha, eps)
    return p - lr * way, v


def rmsprop_momentum(
    p: Scalar, g: Scalar, v: Scalar, b: Scalar, lr: Scalar, step: Scalar,
    *, alpha: float, eps: float, momentum: float, weight_decay: float, maximize: bool,
) -> tuple[Scalar, ...]:  # fmt: skip
    """As `rmsprop`, with ``b' = momentum·b + d/(√v' + eps)`` and ``p − lr·b'``."""
    way, v, _ = _squares(p, _direction(p, g, weight_decay, maximize), v, None, alpha, eps)
    b = scalar.like(p, momentum) * b + way
    return p - lr * b, v, b


def rmsprop_centered(
    p: Scalar, g: Scalar, v: Scalar, mean: Scalar, lr: Scalar, step: Scalar,
    *, alpha: float, eps: float, weight_decay: float, maximize: bool,
) -> tuple[Scalar, ...]:  # fmt: skip
    """As `rmsprop`, with ``mean' = mean + (1 − α)(d − mean)`` and ``v' − mean'²`` (never below 0) for v'."""
    way, v, mean = _squares(p, _direction(p, g, weight_decay, maximize), v, mean, alpha, eps)
    return p - lr * way, v, mean


def rmsprop_centered_momentum(
    p: Scalar, g: Scalar, v: Scalar, mean: Scalar, b: Scalar, lr: Scalar, step: Scalar,
    *, alpha: float, eps: float, momentum: float, weight_decay: float, maximize: bool,
) -> tuple[Scalar, ...]:  # fmt: skip
    """`rmsprop_centered` with the momentum of `rmsprop_momentum`."""
    way, v, mean = _squares(p, _direction(p, g, weight_decay, maximize), v, mean, alpha, eps)
    b = scalar.like(p, momentum) * b + way
    return p - lr * b, v, mean, b


def adagrad(
    p: Scalar, g: Scalar, v: Scalar, lr: Scalar, step: Scalar,
    *, lr_decay: float, eps: float, weight_decay: float, maximize: bool,
) -> tuple[Scalar, ...]:  # fmt: skip
    """``v' = v + d²``, ``p − lr/(1 + (step − 1)·lr_decay)·d/(√v' + eps)``."""
    d = _direction(p, g, weight_decay, maximize)
    v = v + d * d
    rate = lr / (1 + (step - 1) * scalar.like(p, lr_decay))
    return p - rate * scalar.div(d, scalar.sqrt(v) + scalar.like(p, eps)), v


ELEMENTS: dict[str, Element] = {
    "sgd": sgd, "momentum": momentum, "adam": adam, "amsgrad": amsgrad, "rmsprop": rmsprop,
    "rmsprop_momentum": rmsprop_momentum, "rmsprop_centered": rmsprop_centered,
    "rmsprop_centered_momentum": rmsprop_centered_momentum, "adagrad": adagrad,
}  # fmt: skip


def update(name: str, *arrays: ArrayLike, **params: Any) -> tuple[Array, ...]:
    """Rule `name` on every element; the last two of the arrays are the learning rate and the step."""
    *full, lr, step = (as_array(a) for a in arrays)
    outs = tuple(np.empty(full[0].size, object) for _ in full[1:])
    for i, values in enumerate(zip(*(a.reshape(-1) for a in full), strict=True)):
        for out, value in zip(outs, ELEMENTS[name](*values, lr[()], step[()], **params), strict=True):
            out[i] = value
    return tuple(out.reshape(full[0].shape) for out in outs)
