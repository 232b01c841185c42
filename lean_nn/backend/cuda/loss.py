"""Losses and their slopes by CuPy's own functions (lean_nn/ops/loss.py and lean_nn/ops/pair_loss.py tell what they are)."""

from __future__ import annotations

from typing import Any

import numpy as np

from lean_nn.backend.cuda.elementwise import UNARY
from lean_nn.backend.cuda.indexing import check
from lean_nn.backend.cuda.library import cp


def _places(op: str, x: Any, idx: Any, axis: int, ignore: int) -> tuple[Any, Any]:
    """(classes along the axis, 0 where they are ignored; 1 or 0 for whether they count)."""
    found = check(op, idx, x.shape[axis], ignore)
    counts = found != np.int64(x.shape[axis])
    return cp.expand_dims(cp.where(counts, found, np.int64(0)), axis), counts.astype(x.dtype)


def cross_entropy(x: Any, idx: Any, *, out: Any, axis: int, ignore: int, smoothing: float, reduction: str) -> None:
    places, counts = _places("cross_entropy", x, idx, axis, ignore)
    if x.size:
        below = x.max(axis=axis, keepdims=True) - x
        near = cp.take_along_axis(below, places, axis).reshape(idx.shape)
        if smoothing:
            mean = below.sum(axis=axis) / x.dtype.type(x.shape[axis])
            near = near * x.dtype.type(1 - smoothing) + mean * x.dtype.type(smoothing)
        values = near + cp.log(cp.exp(-below).sum(axis=axis))
        values = cp.where(counts != 0, values, x.dtype.type(0))
    else:
        values = counts
    if reduction == "none":
        out[...] = values
    else:
        out[...] = values.sum() / counts.sum() if reduction == "mean" else values.sum()


def cross_entropy_transpose(
    g: Any, x: Any, idx: Any, *, out: Any, axis: int, ignore: int, smoothing: float, reduction: str
) -> None:
    places, counts = _places("cross_entropy_transpose", x, idx, axis, ignore)
    if not x.size:
        return
    e = cp.exp(x - x.max(axis=axis, keepdims=True))
    own = cp.arange(x.shape[axis], dtype=np.int64).reshape([-1 if a == axis else 1 for a in range(x.ndim)]) == places
    q = own.astype(x.dtype) * x.dtype.type(1 - smoothing) + x.dtype.type(smoothing / x.shape[axis])
    weight = (g / counts.sum() if reduction == "mean" else g) * counts
    slope = (e / e.sum(axis=axis, keepdims=True) - q) * cp.expand_dims(weight, axis)
    out[...] = cp.where(cp.expand_dims(counts != 0, axis), slope, x.dtype.type(0))


def nll_loss(x: Any, idx: Any, *, out: Any, axis: int, ignore: int, reduction: str) -> None:
    places, counts = _places("nll_loss", x, idx, axis, ignore)
    values = -cp.take_along_axis(x, places, axis).reshape(idx.shape) if x.size else counts
    values = cp.where(counts != 0, values, x.dtype.type(0))
    if reduction == "none":
        out[...] = values
    else:
        out[...] = values.sum() / counts.sum() if reduction == "mean" else values.sum()


def nll_loss_transpose(g: Any, idx: Any, *, out: Any, axis: int, size: int, ignore: int, reduction: str) -> None:
    places, counts = _places("nll_loss_transpose", out, idx, axis, ignore)
    if not out.size:
        return
    own = cp.arange(size, dtype=np.int64).reshape([-1 if a == axis else 1 for a in range(out.ndim)]) == places
    weight = g / counts.sum() if reduction == "mean" else g
    out[...] = cp.where(own & cp.expand_dims(counts != 0, axis), cp.expand_dims(-weight * counts, axis), out.dtype.type(0))


# --- a prediction and a target ---


def pair_loss(x: Any, t: Any, *, out: Any, kind: str, delta: float, reduction: str) -> None:
    d = x - t
    if kind == "square":
        values = d * d
    elif kind == "abs":
        values = cp.absolute(d)
    elif kind == "huber":
        c = UNARY["clip"](d, low=-delta, high=delta)
        values = c * (d - c * x.dtype.type(0.5))
    else:
        values = (x.dtype.type(1) - t) * x + UNARY["softplus"](-x, beta=1.0, threshold=float("inf"))
    if reduction != "none":
        values = values.sum() / x.dtype.type(x.size if reduction == "mean" else 1)
    out[...] = values


def pair_loss_slope(g: Any, x: Any, t: Any, *, out: Any, kind: str, delta: float) -> None:
    d = x - t
    if kind == "abs":
        d = UNARY["sign"](d)
    elif kind == "huber":
        d = UNARY["clip"](d, low=-delta, high=delta)
    elif kind == "logistic":
        d = UNARY["sigmoid"](x) - t
    out[...] = g * d


SLOTS = {
    "cross_entropy": cross_entropy, "cross_entropy_transpose": cross_entropy_transpose, "nll_loss": nll_loss,
    "nll_loss_transpose": nll_loss_transpose, "pair_loss": pair_loss, "pair_loss_slope": pair_loss_slope,
}  # fmt: skip
