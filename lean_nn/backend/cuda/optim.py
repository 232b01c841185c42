"""Optimiser updates: the formulas of ``lean_nn_c/elementwise_update.h`` on whole arrays.

``UPDATES[rule](arrays, c)`` takes the parameter, its gradient and the slots, and the rule's numbers in that file's order;
it gives the new parameter and the new slots.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lean_nn.backend.cuda.library import cp

Arrays = tuple[Any, ...]


def _direction(p: Any, g: Any, c: Arrays) -> Any:
    """The gradient with its direction, and the decay where there is one: 0·inf would be NaN."""
    d = g * c[2]
    return d + p * c[1] if c[1] != 0 else d


def _sgd(p: Any, g: Any, c: Arrays) -> Arrays:
    return (p - _direction(p, g, c) * c[0],)


def _momentum(p: Any, g: Any, v: Any, c: Arrays) -> Arrays:
    d = _direction(p, g, c)
    v = v * c[3] + d * c[4]
    way = d + v * c[3] if c[5] != 0 else v
    return p - way * c[0], v


def _moments(p: Any, g: Any, m: Any, v: Any, c: Arrays) -> Arrays:
    d = _direction(p, g, c)
    return m + (d - m) * c[4], v * c[5] + d * d * c[6]


def _adam_step(p: Any, m: Any, square: Any, c: Arrays) -> Any:
    return p * c[3] - m / (cp.sqrt(square) * c[7] + c[8]) * c[0]


def _adam(p: Any, g: Any, m: Any, v: Any, c: Arrays) -> Arrays:
    m, v = _moments(p, g, m, v, c)
    return _adam_step(p, m, v, c), m, v


def _amsgrad(p: Any, g: Any, m: Any, v: Any, top: Any, c: Arrays) -> Arrays:
    m, v = _moments(p, g, m, v, c)
    top = cp.maximum(top, v)
    return _adam_step(p, m, top, c), m, v, top


def _squares(p: Any, g: Any, v: Any, c: Arrays) -> tuple[Any, Any]:
    """(d/(√v' + ε), v')."""
    d = _direction(p, g, c)
    v = v * c[3] + d * d * c[4]
    return d / (cp.sqrt(v) + c[5]), v


def _centred(p: Any, g: Any, v: Any, mean: Any, c: Arrays) -> tuple[Any, Any, Any]:
    """The same with the variance of the gradient, which is negative by rounding only."""
    d = _direction(p, g, c)
    v, mean = v * c[3] + d * d * c[4], mean + (d - mean) * c[4]
    spread = v - mean * mean
    return d / (cp.sqrt(cp.where(spread < 0, p.dtype.type(0), spread)) + c[5]), v, mean


def _rmsprop(p: Any, g: Any, v: Any, c: Arrays) -> Arrays:
    way, v = _squares(p, g, v, c)
    return p - way * c[0], v


def _rmsprop_momentum(p: Any, g: Any, v: Any, b: Any, c: Arrays) -> Arrays:
    way, v = _squares(p, g, v, c)
    b = b * c[6] + way
    return p - b * c[0], v, b


def _rmsprop_centered(p: Any, g: Any, v: Any, mean: Any, c: Arrays) -> Arrays:
    way, v, mean = _centred(p, g, v, mean, c)
    return p - way * c[0], v, mean


def _rmsprop_centered_momentum(p: Any, g: Any, v: Any, mean: Any, b: Any, c: Arrays) -> Arrays:
    way, v, mean = _centred(p, g, v, mean, c)
    b = b * c[6] + way
    return p - b * c[0], v, mean, b


def _adagrad(p: Any, g: Any, v: Any, c: Arrays) -> Arrays:
    d = _direction(p, g, c)
    v = v + d * d
    return p - d / (cp.sqrt(v) + c[3]) * c[0], v


UPDATES: dict[str, Callable[..., Arrays]] = {
    "sgd": _sgd, "momentum": _momentum, "adam": _adam, "amsgrad": _amsgrad, "rmsprop": _rmsprop,
    "rmsprop_momentum": _rmsprop_momentum, "rmsprop_centered": _rmsprop_centered,
    "rmsprop_centered_momentum": _rmsprop_centered_momentum, "adagrad": _adagrad,
}  # fmt: skip


def update(name: str, arrays: Arrays, out: Arrays, numbers: tuple[float, ...]) -> None:
    """Rule `name`; `out` may be the arrays themselves, for all is computed before any is written."""
    new = UPDATES[name](*arrays, c=tuple(arrays[0].dtype.type(number) for number in numbers))
    for place, value in zip(out, new, strict=True):
        place[...] = value
