"""Metrics by name: numbers of a batch's outputs and targets, averaged over the samples of an epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

__all__ = ["METRICS", "Metric", "named_metrics"]

Array = np.ndarray[Any, Any]
Metric = Callable[[Array, Array], Any]


def accuracy(output: Array, target: Array) -> float:
    """The share of samples whose largest output is that of the target class; of one output, whose sign is right.

    Examples
    --------
    >>> import numpy as np
    >>> accuracy(np.array([[0.1, 0.9], [0.8, 0.2]]), np.array([1, 1]))
    0.5
    """
    if output.ndim == target.ndim:  # one output per target: a logit
        return float(np.mean((output > 0) == (target > 0.5)))
    return float(np.mean(output.argmax(1) == target))


def top5_accuracy(output: Array, target: Array) -> float:
    """The share of samples whose target class is among the five largest outputs."""
    best = np.argsort(-output, 1, kind="stable")[:, :5]
    return float(np.mean((best == target[:, None]).any(1)))


def mae(output: Array, target: Array) -> float:
    """The mean of ``|output − target|``."""
    return float(np.mean(np.abs(output - target), dtype=np.float64))


def mse(output: Array, target: Array) -> float:
    """The mean of ``(output − target)²``."""
    return float(np.mean(np.square(output - target), dtype=np.float64))


METRICS: dict[str, Metric] = {"accuracy": accuracy, "mae": mae, "mse": mse, "top5_accuracy": top5_accuracy}


def named_metrics(metrics: str | Iterable[Any] | Mapping[str, Metric]) -> dict[str, Metric]:
    """Metrics by name, from names, functions ``(output, target) → number`` and dicts of such."""
    if isinstance(metrics, Mapping):
        return dict(metrics)
    found: dict[str, Metric] = {}
    for metric in (metrics,) if isinstance(metrics, str) or callable(metrics) else metrics:
        if callable(metric):
            found[getattr(metric, "__name__", type(metric).__name__)] = metric
        elif metric in METRICS:
            found[metric] = METRICS[metric]
        else:
            raise ValueError(f"fit: metrics are functions or of {list(METRICS)}; got {metric!r}; choose one of them")
    return found
