"""Normalisations, all of one family (`standardize`) over different axes, scaled and shifted; and dropout."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np

from lean_nn.convert import as_tensor, as_tensor_like, assign, filled, zeros_like
from lean_nn.device import holds_numbers
from lean_nn.ops.affine import affine
from lean_nn.ops.dropout import dropout as dropout_primitive
from lean_nn.ops.elementwise import add, div, mul, neg, relu_gate, sqrt, sub
from lean_nn.ops.norm import standardize
from lean_nn.ops.normalize import normalize
from lean_nn.ops.shape import reshape
from lean_nn.primitive import GraphError
from lean_nn_c import engine

__all__ = ["batch_norm", "dropout", "group_norm", "layer_norm", "manual_seed"]

Tensor = Any


def _affine(
    op: str, x: Tensor, weight: Any, bias: Any, own: tuple[int, ...], shape: tuple[int, ...], axes: tuple[int, ...], eps: float
) -> Tensor:
    """x standardised over `axes`, times weight, plus bias, both of shape `own`, seen as `shape`."""
    _check_features(op, "weight", weight, own)
    _check_features(op, "bias", bias, own)
    if weight is None and bias is None:
        return standardize(x, axes=axes, eps=eps)[0]
    w, b = _vector(op, weight, 1.0, x, shape), _vector(op, bias, 0.0, x, shape)
    return normalize(x, w, b, axes=axes, eps=eps)[0]


def _check_features(op: str, name: str, value: Any, own: tuple[int, ...]) -> None:
    if value is None:
        return
    shape = value.data.shape if isinstance(value, engine.Box) else np.shape(value)
    if shape != own:
        raise ValueError(f"{op}: {name} has shape {own}; got {shape}; give one number per feature")


def _channels(op: str, x: Tensor) -> int:
    if x.ndim < 2:
        raise ValueError(f"{op}: input is (N, C, ...); got shape {x.shape}; add a batch axis")
    return x.shape[1]  # type: ignore[no-any-return]


def _update(running: Any, value: Tensor, momentum: float) -> None:
    """running ← (1 − momentum)·running + momentum·value, in place: a buffer, not part of the computation."""
    if running is None:
        return
    before = engine.set_recording(False)
    try:
        old = as_tensor(running, op="batch_norm")
        assign("batch_norm", running, add(mul(old, 1 - momentum), mul(reshape(value, shape=old.shape), momentum)))
    finally:
        engine.set_recording(before)


def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """``(x − mean)/√(var + eps)·weight + bias`` per channel of ``(N, C, *S)``.

    Parameters
    ----------
    x : ``(N, C, *S)``
    running_mean, running_var : ``(C,)`` or None
        Used when not training. When training, the batch's own statistics are used and these, unless None, are
        updated in place (with the unbiased variance), as PyTorch does.
    weight, bias : ``(C,)`` or None
    training : use the batch's statistics
    momentum : share of the new statistics in the running ones
    eps : added to the variance

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.batch_norm(np.array([[1.0], [3.0]]), None, None, training=True, eps=0.0).numpy()
    array([[-1.],
           [ 1.]])
    """
    x = as_tensor(x, op="batch_norm")
    channels = _channels("batch_norm", x)
    shape = (1, channels, *(1,) * (x.ndim - 2))
    _check_features("batch_norm", "weight", weight, (channels,))
    _check_features("batch_norm", "bias", bias, (channels,))
    if not training:
        return _by_running(x, running_mean, running_var, weight, bias, shape, eps)
    w, b = _vector("batch_norm", weight, 1.0, x, shape), _vector("batch_norm", bias, 0.0, x, shape)
    return _by_batch(x, w, b, running_mean, running_var, momentum, eps)


def _vector(op: str, value: Any, default: float, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """weight or bias as an array of this shape."""
    if value is None:
        return filled(shape, default, x)
    value = as_tensor(value, op=op)
    return value if value.data.shape == shape else reshape(value, shape=shape)


def _by_batch(
    x: Tensor, w: Tensor, b: Tensor, running_mean: Any, running_var: Any, momentum: float, eps: float
) -> Tensor:
    axes = (0, *range(2, x.ndim))
    n = x.size // x.shape[1] if x.shape[1] else 0
    if n == 1:
        raise ValueError(
            f"batch_norm: more than one value per channel when training; got shape {x.shape}; "
            f"use a larger batch or training=False"
        )
    y, mean, rstd = normalize(x, w, b, axes=axes, eps=float(eps))
    if n:
        _update(running_mean, engine.wrap(mean.data), momentum)
    if n and running_var is not None:
        rstd = engine.wrap(rstd.data)
        _update(running_var, mul(sub(div(1.0, mul(rstd, rstd)), eps), n / (n - 1)), momentum)
    return y


def _by_running(
    x: Tensor, mean: Any, var: Any, weight: Any, bias: Any, shape: tuple[int, ...], eps: float
) -> Tensor:
    """x·scale + (bias − mean·scale), scale = weight/√(var + eps): the short arrays first, then one pass over x."""
    if mean is None or var is None:
        raise ValueError("batch_norm: running statistics are needed when not training; got None; pass them or training=True")
    for name, value in (("running_mean", mean), ("running_var", var)):
        _check_features("batch_norm", name, value, (shape[1],))
    spread = sqrt(add(as_tensor(var), float(eps)))
    scale = div(1.0 if weight is None else weight, spread)
    shift = mul(as_tensor(mean), scale)
    shift = neg(shift) if bias is None else sub(bias, shift)
    if holds_numbers(x.data):
        return affine(x, scale, shift)
    return add(mul(x, reshape(scale, shape=shape)), reshape(shift, shape=shape))


def layer_norm(
    x: Any, normalized_shape: int | Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """``(x − mean)/√(var + eps)·weight + bias`` over the last axes, whose sizes are `normalized_shape`.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.layer_norm(np.array([[1.0, 3.0], [5.0, 9.0]]), 2, eps=0.0).numpy()
    array([[-1.,  1.],
           [-1.,  1.]])
    """
    x = as_tensor(x, op="layer_norm")
    own = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    shape = x.data.shape
    first = len(shape) - len(own)
    if not own or shape[first:] != own or first < 0:
        raise ValueError(f"layer_norm: the last axes have normalized_shape {own}; got shape {shape}; name its last sizes")
    return _affine("layer_norm", x, weight, bias, own, (1,) * first + own, tuple(range(first, len(shape))), float(eps))


def group_norm(x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """``(x − mean)/√(var + eps)·weight + bias`` over each group of channels of each sample of ``(N, C, *S)``.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.group_norm(np.array([[1.0, 3.0, 5.0, 9.0]]), 2, eps=0.0).numpy()
    array([[-1.,  1., -1.,  1.]])
    """
    x = as_tensor(x, op="group_norm")
    channels = _channels("group_norm", x)
    if num_groups < 1 or channels % num_groups:
        raise ValueError(f"group_norm: groups divide the channels; got {num_groups} for {channels}; choose a divisor")
    grouped = reshape(x, shape=(x.shape[0], num_groups, channels // num_groups, *x.shape[2:]))
    shape = (1, num_groups, channels // num_groups, *(1,) * (x.ndim - 2))
    y = _affine("group_norm", grouped, weight, bias, (channels,), shape, tuple(range(2, grouped.ndim)), float(eps))
    return reshape(y, shape=x.shape)


_seeds = count()


def manual_seed(seed: int) -> None:
    """Start the sequence of seeds that `dropout` takes when it is given none."""
    global _seeds
    _seeds = count(int(seed) * 0x100000001B3 % 2**62)


def dropout(x: Any, p: float = 0.5, training: bool = True, seed: Any = None) -> Tensor:
    """``x/(1 − p)`` with probability 1 − p, else 0.

    Which elements stay is a function of the seed and the element's place alone: the same seed drops the same
    elements on every machine, with any number of threads, and in every derivative.

    Parameters
    ----------
    x : array
    p : probability of dropping, 0 to 1
    training : when False, x is returned
    seed : int or int64 scalar; None takes the next of a sequence that `manual_seed` starts

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.dropout(np.ones(8), 0.5, seed=1).numpy()
    array([2., 2., 2., 0., 0., 2., 2., 2.])
    """
    x = as_tensor(x, op="dropout")
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: p must be in [0, 1]; got {p}; use the fraction of elements to drop")
    if not training or p == 0:
        return x
    if p == 1:
        return relu_gate(x, zeros_like(x))  # closed everywhere
    if seed is None and not holds_numbers(x.data):
        raise GraphError("dropout: a compiled function is given its seed; got none; pass seed= as an argument of the function")
    start = next(_seeds) if seed is None else seed
    return dropout_primitive(x, as_tensor_like(start, x, np.int64, op="dropout"), p=float(p))
