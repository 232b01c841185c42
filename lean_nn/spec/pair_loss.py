"""Losses of a prediction and a target, element by element, and their slopes."""

from __future__ import annotations

from . import scalar
from .container import Array, ArrayLike, as_array, elementwise, zeros
from .elementwise import clip, sigmoid, softplus, sub
from .scalar import Scalar


def pair_loss(x: ArrayLike, t: ArrayLike, *, kind: str, delta: float, reduction: str) -> Array:
    """``(x − t)²``, ``|x − t|``, Huber's function of x − t, or ``(1 − t)·x + softplus(−x)``; all, their sum, or their mean."""
    d = sub(x, t)
    if kind == "square":
        values = elementwise(kind, lambda v: v * v, d)
    elif kind == "abs":
        values = elementwise(kind, scalar.abs, d)
    elif kind == "huber":
        values = elementwise(kind, lambda v, c: c * (v - c / 2), d, clip(d, low=-delta, high=delta))
    else:
        tail = softplus(elementwise("neg", lambda v: -v, x), beta=1.0, threshold=float("inf"))
        values = elementwise(kind, lambda a, b, c: (1 - b) * a + c, x, t, tail)
    if reduction == "none":
        return values
    result, whole = zeros(()), sum(values.reshape(-1).tolist(), start=0)
    result[()] = scalar.div(whole, values.size) if reduction == "mean" else whole
    return result


def pair_loss_slope(g: ArrayLike, x: ArrayLike, t: ArrayLike, *, kind: str, delta: float) -> Array:
    """``g·(x − t)``, ``g·sign(x − t)``, ``g·clip(x − t, ±delta)`` or ``g·(σ(x) − t)``."""
    d: Array = sub(x, t)
    if kind == "abs":
        d = elementwise(kind, scalar.sign, d)
    elif kind == "huber":
        d = clip(d, low=-delta, high=delta)
    elif kind == "logistic":
        d = sub(sigmoid(x), t)

    def times(a: Scalar, b: Scalar) -> Scalar:
        return a * b

    return elementwise("pair_loss_slope", times, as_array(g), d)
