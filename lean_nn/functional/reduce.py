"""Reductions under PyTorch's names: sum mean var max min argmax argmin logsumexp softmax log_softmax.

Sums have a fixed order, so their bits depend on the shape alone: not on threads, and not on the machine's vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from lean_nn.backend.cpu_reduce import moments
from lean_nn.convert import as_tensor
from lean_nn.functional.shape import axes_of, axis_of
from lean_nn.ops import broadcast, shape
from lean_nn.ops import reduce as ops
from lean_nn.ops.elementwise import div
from lean_nn.ops.norm import variance

__all__ = [
    "Extreme", "argmax", "argmin", "log_softmax", "logsumexp", "max", "mean", "min", "softmax", "sum", "var",
]  # fmt: skip

Tensor = Any
Dims = int | Sequence[int] | None


class Extreme(NamedTuple):
    """What `max` and `min` along an axis give."""

    values: Any
    indices: Any


def sum(x: Any, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """``Σ x`` over `dim` (all axes when None).

    Notes
    -----
    ``|ŝ − s| ≤ γₙ·Σ|x|`` with n ≈ 31 + log₂(terms/32), the depth of the summation tree, for up to 8192 terms.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.sum(np.array([[1.0, 2.0], [3.0, 4.0]]), 0).numpy()
    array([4., 6.])
    """
    x = as_tensor(x, op="sum")
    return broadcast.sum(x, axes=axes_of("sum", dim, x.ndim), keepdims=bool(keepdim))


def mean(x: Any, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """``Σ x / n`` over `dim` (all axes when None); of nothing it is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.mean(np.array([[1.0, 2.0], [3.0, 4.0]])).item()
    2.5
    """
    x = as_tensor(x, op="mean")
    axes = axes_of("mean", dim, x.ndim)
    return div(broadcast.sum(x, axes=axes, keepdims=bool(keepdim)), float(prod(x.shape[a] for a in axes)))


def var(x: Any, dim: Dims = None, *, correction: int = 1, keepdim: bool = False) -> Tensor:
    """``Σ (x − mean)² / (n − correction)`` over `dim` (all axes when None), in one pass: pieces have means of their own.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.var(np.array([1.0, 2.0, 3.0, 4.0]), correction=0).item()
    1.25
    """
    x = as_tensor(x, op="var")
    axes = axes_of("var", dim, x.ndim)
    lines, over = x, axes
    if moments(x.shape, axes) is None:
        kept = tuple(a for a in range(x.ndim) if a not in axes)
        lines, over = shape.transpose(x, axes=kept + axes), tuple(range(len(kept), x.ndim))
    y = variance(lines, axes=over, correction=int(correction))
    return shape.reshape(y, shape=broadcast.without(x.shape, axes, bool(keepdim)))


def _flat(x: Tensor) -> Tensor:
    return shape.reshape(x, shape=(x.size,))


def _with_axis(y: Tensor, like: Tensor, axis: int) -> Tensor:
    return shape.reshape(y, shape=broadcast.without(like.shape, (axis,), True))


def _extreme(name: str, primitive: Any, x: Any, dim: int | None, keepdim: bool) -> Any:
    x = as_tensor(x, op=name)
    if dim is None:
        return primitive(_flat(x), axis=0)[0]
    axis = axis_of(name, dim, x.ndim)
    values, indices = primitive(x, axis=axis)
    if keepdim:
        values, indices = _with_axis(values, x, axis), _with_axis(indices, x, axis)
    return Extreme(values, indices)


def max(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """``max x``: of all elements, or along `dim` as (values, indices).

    The first maximum wins, in value and in gradient; the first NaN beats all.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.max(np.array([[1.0, 5.0], [7.0, 7.0]]), 1).indices.numpy()
    array([1, 0])
    """
    return _extreme("max", ops.max, x, dim, keepdim)


def min(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """``min x``: of all elements, or along `dim` as (values, indices).

    The first minimum wins, in value and in gradient; the first NaN beats all.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.min(np.array([[1.0, 5.0], [7.0, 6.0]])).item()
    1.0
    """
    return _extreme("min", ops.min, x, dim, keepdim)


def argmax(x: Any, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The place of the first maximum, along `dim` or among all elements in row-major order."""
    x = as_tensor(x, op="argmax")
    return ops.max(_flat(x), axis=0)[1] if dim is None else max(x, dim, keepdim).indices


def argmin(x: Any, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The place of the first minimum, along `dim` or among all elements in row-major order."""
    x = as_tensor(x, op="argmin")
    return ops.min(_flat(x), axis=0)[1] if dim is None else min(x, dim, keepdim).indices


def logsumexp(x: Any, dim: int | Sequence[int], keepdim: bool = False) -> Tensor:
    """``log Σ exp(x)`` over `dim`, shifted by the maximum.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> round(F.logsumexp(np.array([1000.0, 1000.0]), 0).item(), 4)
    1000.6931
    """
    x = as_tensor(x, op="logsumexp")
    axes = axes_of("logsumexp", dim, x.ndim)
    kept = tuple(a for a in range(x.ndim) if a not in axes)
    lines = shape.transpose(x, axes=kept + axes) if len(axes) > 1 else x
    if len(axes) == 1:
        y = ops.logsumexp(lines, axis=axes[0])
    else:
        rest = tuple(x.shape[a] for a in kept)
        y = ops.logsumexp(shape.reshape(lines, shape=(*rest, prod(x.shape[a] for a in axes))), axis=len(kept))
    return shape.reshape(y, shape=broadcast.without(x.shape, axes, True)) if keepdim else y


def softmax(x: Any, dim: int) -> Tensor:
    """``exp(x) / Σ exp(x)`` along `dim`, shifted by the maximum; a line of −∞ only, or with +∞, is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.softmax(np.array([0.0, 0.0, -np.inf]), 0).numpy()
    array([0.5, 0.5, 0. ])
    """
    x = as_tensor(x, op="softmax")
    return ops.softmax(x, axis=axis_of("softmax", dim, x.ndim))


def log_softmax(x: Any, dim: int) -> Tensor:
    """``x − log Σ exp(x)`` along `dim`, shifted by the maximum.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.log_softmax(np.array([0.0, -1000.0]), 0).numpy()
    array([    0., -1000.])
    """
    x = as_tensor(x, op="log_softmax")
    return ops.log_softmax(x, axis=axis_of("log_softmax", dim, x.ndim))
