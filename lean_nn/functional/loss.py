"""Losses under PyTorch's names: functions of a prediction `input` and a `target`, reduced by "mean", "sum" or "none".

Composites of primitives, hence differentiable to any order in both modes, also in the target where that is a float.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lean_nn.convert import as_tensor
from lean_nn.ops import activation, broadcast
from lean_nn.ops.elementwise import add, div, mul, neg, sub
from lean_nn.ops.loss import counted, pick
from lean_nn.ops.loss import cross_entropy as cross_entropy_of
from lean_nn.ops.loss import nll_loss as nll_loss_of
from lean_nn.ops.pair_loss import pair_loss
from lean_nn.ops.reduce import log_softmax
from lean_nn.ops.shape import reshape

__all__ = [
    "binary_cross_entropy_with_logits", "cross_entropy", "huber_loss", "l1_loss", "mse_loss", "nll_loss",
    "smooth_l1_loss",
]  # fmt: skip

Tensor = Any


def _check_reduction(op: str, reduction: str) -> None:
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{op}: reduction is 'mean', 'sum' or 'none'; got {reduction!r}; choose one of them")


def _total(x: Tensor) -> Tensor:
    return broadcast.sum(x, axes=tuple(range(x.ndim)), keepdims=False)


def _reduce(values: Tensor, reduction: str, count: Any = None) -> Tensor:
    """The values, their sum, or their sum divided by `count` (their number when None)."""
    if reduction == "none":
        return values
    total = _total(values)
    return total if reduction == "sum" else div(total, float(values.size) if count is None else count)


def _pair(op: str, input: Any, target: Any, reduction: str) -> tuple[Tensor, Tensor]:
    _check_reduction(op, reduction)
    x, t = as_tensor(input, op=op), as_tensor(target, op=op)
    if x.shape != t.shape:
        raise ValueError(f"{op}: input and target have one shape; got {x.shape} and {t.shape}; reshape one of them")
    return x, t


def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """``(input − target)²``.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.mse_loss(np.array([1.0, 4.0]), np.array([0.0, 2.0])).item()
    2.5
    """
    x, t = _pair("mse_loss", input, target, reduction)
    return pair_loss(x, t, kind="square", delta=0.0, reduction=reduction)


def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """``|input − target|``.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.l1_loss(np.array([1.0, 4.0]), np.array([0.0, 2.0]), "sum").item()
    3.0
    """
    x, t = _pair("l1_loss", input, target, reduction)
    return pair_loss(x, t, kind="abs", delta=0.0, reduction=reduction)


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """``d²/2`` where ``|d| ≤ delta``, else ``delta·(|d| − delta/2)``, with d = input − target.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.huber_loss(np.array([0.5, 3.0]), np.array([0.0, 0.0]), "none").numpy()
    array([0.125, 2.5  ])
    """
    if not delta > 0:
        raise ValueError(f"huber_loss: delta is positive; got {delta}; pass a positive number")
    x, t = _pair("huber_loss", input, target, reduction)
    return pair_loss(x, t, kind="huber", delta=float(delta), reduction=reduction)


def smooth_l1_loss(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """``d²/(2·beta)`` where ``|d| ≤ beta``, else ``|d| − beta/2``, with d = input − target; l1_loss for beta 0.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.smooth_l1_loss(np.array([1.0, 3.0]), np.array([0.0, 0.0]), "none", beta=2.0).numpy()
    array([0.25, 2.  ])
    """
    if not beta >= 0:
        raise ValueError(f"smooth_l1_loss: beta is not negative; got {beta}; pass 0 or more")
    if beta == 0:
        return l1_loss(input, target, reduction)
    x, t = _pair("smooth_l1_loss", input, target, reduction)
    values = pair_loss(x, t, kind="huber", delta=float(beta), reduction=reduction)
    return values if beta == 1 else div(values, float(beta))


def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Tensor:
    """``−pos_weight·t·log σ(x) − (1 − t)·log(1 − σ(x))``, computed as ``(1 − t)·x + (1 + (pos_weight − 1)·t)·softplus(−x)``.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.binary_cross_entropy_with_logits(np.array([0.0, 1000.0]), np.array([1.0, 1.0]), reduction="none").numpy()
    array([0.69314718, 0.        ])
    """
    x, t = _pair("binary_cross_entropy_with_logits", input, target, reduction)
    if weight is None and pos_weight is None:
        return pair_loss(x, t, kind="logistic", delta=0.0, reduction=reduction)
    tail = activation.softplus(neg(x), beta=1.0, threshold=math.inf)
    if pos_weight is not None:
        tail = mul(tail, add(mul(sub(pos_weight, 1.0), t), 1.0))
    values = add(mul(sub(1.0, t), x), tail)
    return _reduce(values if weight is None else mul(values, weight), reduction)


# --- classes ---


def _class_axis(op: str, x: Tensor) -> int:
    if x.ndim == 0:
        raise ValueError(f"{op}: input is (N, C, ...) or (C,); got shape {x.shape}; add an axis of classes")
    return 0 if x.ndim == 1 else 1


def _class_weight(op: str, weight: Any, classes: int) -> Tensor | None:
    if weight is None:
        return None
    w = as_tensor(weight, op=op)
    if w.shape != (classes,):
        raise ValueError(f"{op}: weight has shape {(classes,)}; got {w.shape}; give one number per class")
    return w


def _weights(x: Tensor, target: Tensor, weight: Tensor, ignore: int) -> Tensor:
    """Each target's weight, 0 where it is ignored."""
    return reshape(pick(weight, reshape(target, shape=(target.size,)), axis=0, ignore=ignore), shape=target.shape)


def nll_loss(
    input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """``−weight[t]·input[t]`` at the target class t; the mean is over the weights of the targets.

    Parameters
    ----------
    input : ``(N, C, *S)`` or ``(C,)``, log-probabilities
    target : ``(N, *S)`` or ``()``, int64 classes
    weight : ``(C,)`` or None
    ignore_index : a class that counts nothing
    reduction : "mean", "sum" or "none"

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.nll_loss(np.array([[-1.0, -2.0], [-3.0, -4.0]]), np.array([0, 1])).item()
    2.5
    """
    _check_reduction("nll_loss", reduction)
    logp, t = as_tensor(input, op="nll_loss"), as_tensor(target, op="nll_loss")
    w = _class_weight("nll_loss", weight, logp.shape[_class_axis("nll_loss", logp)])
    axis = _class_axis("nll_loss", logp)
    if w is None:
        return nll_loss_of(logp, t, axis=axis, ignore=int(ignore_index), reduction=reduction)
    weights = _weights(logp, t, w, int(ignore_index))
    values = mul(nll_loss_of(logp, t, axis=axis, ignore=int(ignore_index), reduction="none"), weights)
    return _reduce(values, reduction, _total(weights))


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """``−Σ_c weight[c]·q[c]·log softmax(input)[c]``, where q is the target as a distribution over the classes.

    Parameters
    ----------
    input : ``(N, C, *S)`` or ``(C,)``, logits
    target : int64 classes ``(N, *S)`` or ``()``, or probabilities of the input's shape
    weight : ``(C,)`` or None
    ignore_index : a class that counts nothing (with class targets only)
    reduction : "mean" (over the targets' weights for classes, over samples for probabilities), "sum" or "none"
    label_smoothing : share of the uniform distribution mixed into q, 0 to 1

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> round(F.cross_entropy(np.zeros((1, 4)), np.array([2])).item(), 4)
    1.3863
    """
    op = "cross_entropy"
    _check_reduction(op, reduction)
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"{op}: label_smoothing is from 0 to 1; got {label_smoothing}; pass the share to mix in")
    x, t = as_tensor(input, op=op), as_tensor(target, op=op)
    axis = _class_axis(op, x)
    w = _class_weight(op, weight, x.shape[axis])
    if t.dtype == np.int64:
        return _by_class(x, t, w, int(ignore_index), reduction, float(label_smoothing))
    return _by_distribution(log_softmax(x, axis=axis), t, w, reduction, float(label_smoothing))


def _over_classes(logp: Tensor, weight: Tensor | None) -> Tensor:
    """logp times the class weights."""
    if weight is None:
        return logp
    axis = _class_axis("cross_entropy", logp)
    return mul(logp, reshape(weight, shape=tuple(n if a == axis else 1 for a, n in enumerate(logp.shape))))


def _by_class(x: Tensor, target: Tensor, weight: Tensor | None, ignore: int, reduction: str, smoothing: float) -> Tensor:
    axis = _class_axis("cross_entropy", x)
    if weight is None:
        return cross_entropy_of(x, target, axis=axis, ignore=ignore, smoothing=smoothing, reduction=reduction)
    values = cross_entropy_of(x, target, axis=axis, ignore=ignore, smoothing=0.0, reduction="none")
    weights = _weights(x, target, weight, ignore)
    values = mul(values, weights)
    if smoothing:
        uniform = neg(broadcast.sum(_over_classes(log_softmax(x, axis=axis), weight), axes=(axis,), keepdims=False))
        uniform = mul(uniform, counted(target, x, axis=axis, ignore=ignore))
        values = add(mul(values, 1.0 - smoothing), mul(uniform, smoothing / x.shape[axis]))
    return _reduce(values, reduction, _total(weights))


def _by_distribution(logp: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float) -> Tensor:
    if target.shape != logp.shape:
        raise ValueError(
            f"cross_entropy: probabilities have the input's shape {logp.shape}; got {target.shape}; "
            f"give int64 classes or one probability per class"
        )
    axis = _class_axis("cross_entropy", logp)
    if smoothing:
        target = add(mul(target, 1.0 - smoothing), smoothing / logp.shape[axis])
    values = neg(broadcast.sum(mul(target, _over_classes(logp, weight)), axes=(axis,), keepdims=False))
    return _reduce(values, reduction)
