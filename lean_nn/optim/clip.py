"""Gradients kept within bounds, in place, before a step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from lean_nn import functional as F
from lean_nn import tree
from lean_nn.convert import as_tensor, scalar_array
from lean_nn.device import is_foreign
from lean_nn.primitive import OBJECT
from lean_nn.tensor import Tensor
from lean_nn_c import elementwise as kernels
from lean_nn_c.engine import wrap

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clipped_by_norm", "clipped_by_value"]


def _gradients(parameters: Any) -> list[Any]:
    given: Iterable[Any] = [parameters] if isinstance(parameters, Tensor) else parameters
    return [wrap(p.grad.data) for p in given if p.grad is not None]


def _norm(x: Any, order: float) -> Any:
    if math.isinf(order):
        return F.max(F.abs(F.reshape(x, (-1,))))
    if order == 2:
        return F.sqrt(F.sum(F.mul(x, x)))
    return F.pow(F.sum(F.pow(F.abs(x), order)), 1 / order)


def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Any:
    """Scale all gradients by one number so that their norm together is at most `max_norm`; returns the norm they had.

    The number is ``min(1, max_norm/(norm + 1e-6))``, as in PyTorch.

    Examples
    --------
    >>> import lean_nn as ln
    >>> x = ln.tensor([3.0, 4.0], requires_grad=True)
    >>> x.sum().backward(ln.tensor(10.0))
    >>> round(ln.optim.clip_grad_norm_([x], 1.0).item(), 4)
    14.1421
    >>> x.grad.numpy().round(4)
    array([0.7071, 0.7071], dtype=float32)
    """
    grads = [g for g in _gradients(parameters) if g.size]
    if not grads:
        return as_tensor(0.0)
    norms = [F.reshape(_norm(g, float(norm_type)), (1,)) for g in grads]
    total = _norm(F.concat(norms), float(norm_type))
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(f"clip_grad_norm_: a finite norm is needed; got {total.item()}; look for inf and NaN in the loss")
    scale = min(1.0, max_norm / (total.item() + 1e-6)) if total.item() == total.item() else math.nan
    for g in grads:
        if g.dtype == OBJECT or is_foreign(g.data):
            g.data[...] = F.mul(g, scale).data
        else:
            kernels.binary["mul"](g.data, scalar_array(scale, g.dtype), g.data)
    return total


def clip_grad_value_(parameters: Any, clip_value: float) -> None:
    """Clip every element of every gradient to ±clip_value.

    Examples
    --------
    >>> import lean_nn as ln
    >>> x = ln.tensor([3.0, 4.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> ln.optim.clip_grad_value_([x], 7.0)
    >>> x.grad
    tensor([6., 7.])
    """
    bound = float(clip_value)
    for g in _gradients(parameters):
        if g.dtype == OBJECT or is_foreign(g.data):
            g.data[...] = F.clamp(g, -bound, bound).data
        else:
            kernels.unary["clip"](g.data, g.data, -bound, bound)


def clipped_by_norm(grads: Any, max_norm: float, norm_type: float = 2.0) -> Any:
    """A tree of gradients times ``min(1, max_norm/(norm + 1e-6))``: `clip_grad_norm_` as a pure function.

    Examples
    --------
    >>> import lean_nn as ln
    >>> ln.optim.clipped_by_norm({"a": ln.tensor([3.0]), "b": ln.tensor([4.0])}, 10.0)
    {'a': tensor([3.]), 'b': tensor([4.])}
    """
    leaves = [g for g in tree.leaves(grads) if g.size]
    if not leaves:
        return grads
    total = _norm(F.concat([F.reshape(_norm(g, float(norm_type)), (1,)) for g in leaves]), float(norm_type))
    scale = F.minimum(F.div(float(max_norm), F.add(total, 1e-6)), 1.0)
    return tree.transform(lambda g: F.mul(g, scale), grads)


def clipped_by_value(grads: Any, clip_value: float) -> Any:
    """A tree of gradients with every element clipped to ±clip_value: `clip_grad_value_` as a pure function."""
    return tree.transform(lambda g: F.clamp(g, -float(clip_value), float(clip_value)), grads)
