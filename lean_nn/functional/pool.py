"""Pooling under PyTorch's names; the names without a number take any number of axes from the kernel's length.

Images are ``(N, C, *spatial)``, one sample ``(C, *spatial)`` or one plane ``(*spatial)``; Tensors and NumPy arrays
alike. Padding may be an int, one per axis, or a pair (before, after) per axis. Adaptive pooling: ``adaptive_pool.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lean_nn.convert import as_tensor
from lean_nn.device import holds_numbers
from lean_nn.ops import pool as ops
from lean_nn.ops import smooth_pool
from lean_nn.ops.shape import reshape
from lean_nn.spec.geometry import bad, check_beta, check_pool_rank
from lean_nn.window import Bins, Padding, Window, strided
from lean_nn_c import engine

__all__ = [
    "avg_pool", "avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool", "max_pool1d", "max_pool2d", "max_pool3d",
    "smooth_max_pool", "smooth_max_pool1d", "smooth_max_pool2d", "smooth_max_pool3d",
]

Tensor = Any
IntLike = int | Sequence[int]


# --- shared with adaptive_pool ---


def rank_of(op: str, name: str, value: Any) -> int:
    """The number of spatial axes that a tuple names; one number alone does not say."""
    if not isinstance(value, (tuple, list)):
        raise bad(op, f"{name} must be a tuple, one entry per spatial axis", repr(value), f"use a tuple or {op}2d")
    if not value:
        raise bad(op, f"{name} must have at least one entry", repr(value), "give one per spatial axis")
    return len(value)


def on_batch(op: str, x: Tensor, d: int, pool: Callable[..., Any], **params: Any) -> Any:
    """`pool` on ``(N, C, *spatial)``; a sample or a plane becomes a batch of one and comes back as it was."""
    shape = x.data.shape
    missing = d + 2 - len(shape)
    if not missing:
        return pool(x, **params)
    check_pool_rank(op, shape, d)
    results = pool(reshape(x, shape=(1,) * missing + shape), **params)
    if isinstance(results, tuple):
        return tuple(reshape(y, shape=y.shape[missing:]) for y in results)
    return reshape(results, shape=results.shape[missing:])


def _winners_serve(x: Tensor) -> bool:
    """Whether a derivative will ask which cells won: any but a lone tangent on numbers, which the dual kernel carries along."""
    if x.mask & engine.live_levels():
        return True
    return bool(x.tangents) and (len(x.tangents) > 1 or not holds_numbers(x.data))


def _first_of_max(x: Tensor, window: Window | Bins) -> Tensor:
    return ops.max_pool(x, window=window)[0]


def pool_max(x: Any, window: Window | Bins, return_indices: bool) -> Any:
    """Max pooling; without the winners where neither the caller nor a derivative asks for them."""
    x = as_tensor(x, op="max_pool")
    pool = ops.max_pool if return_indices else _first_of_max if _winners_serve(x) else ops.max_pool_value
    return on_batch("max_pool", x, window.rank, pool, window=window)


def pool_average(
    x: Any, window: Window | Bins, count_include_pad: bool = True, divisor_override: int | None = None
) -> Tensor:
    """Average pooling."""
    by = {"count_include_pad": bool(count_include_pad), "divisor_override": divisor_override}
    return on_batch("avg_pool", as_tensor(x, op="avg_pool"), window.rank, ops.avg_pool, window=window, **by)


# --- maximum ---


def max_pool(
    x: Any,
    kernel_size: Sequence[int],
    stride: IntLike | None = None,
    padding: Padding = 0,
    dilation: IntLike = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """``y[n,c,p] = max over i of x[n,c, p·stride + i·dilation − padding]``, padding never a candidate.

    The first maximum in row-major order wins and takes the gradient; NaN wins over all. A window without a real
    cell gives 0 and index −1.

    Parameters
    ----------
    x : Tensor or array, (N, C, *spatial), (C, *spatial) or (*spatial)
    kernel_size : tuple of int
        Cells per axis; its length is the number of spatial axes.
    stride : int or tuple of int, optional
        Distance of windows; the kernel's size by default.
    padding : int, or int or pair (before, after) per axis
    dilation : int or tuple of int
        Distance of a window's cells.
    ceil_mode : bool
        Keep a last window that sticks out, unless it would start in the padding.
    return_indices : bool
        Also return each winner's flat index into the unpadded spatial axes, int64.

    Returns
    -------
    y : Tensor, or (y, idx) with `return_indices`

    Examples
    --------
    >>> import lean_nn as ln
    >>> x = ln.tensor([[1.0, 5.0, 2.0], [4.0, 3.0, 6.0]])
    >>> y, idx = ln.functional.max_pool(x, (2, 2), stride=1, return_indices=True)
    >>> y.tolist(), idx.tolist()
    ([[5.0, 6.0]], [[1, 5]])
    """
    d = rank_of("max_pool", "kernel_size", kernel_size)
    window = strided("max_pool", d, kernel_size, stride, padding, dilation, ceil_mode)
    return pool_max(x, window, return_indices)


def max_pool1d(
    x: Any,
    kernel_size: IntLike,
    stride: IntLike | None = None,
    padding: Padding = 0,
    dilation: IntLike = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """``y[n,c,p] = max over i of x[n,c, p·stride + i·dilation − padding]`` on one axis; see `max_pool`.

    Examples
    --------
    >>> import lean_nn as ln
    >>> ln.functional.max_pool1d(ln.tensor([[1.0, 3.0, 2.0, 0.0]]), 2).tolist()
    [[3.0, 2.0]]
    """
    window = strided("max_pool", 1, kernel_size, stride, padding, dilation, ceil_mode)
    return pool_max(x, window, return_indices)


def max_pool2d(
    x: Any,
    kernel_size: IntLike,
    stride: IntLike | None = None,
    padding: Padding = 0,
    dilation: IntLike = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """``y[n,c,p] = max over i of x[n,c, p·stride + i·dilation − padding]`` on two axes; see `max_pool`.

    Examples
    --------
    >>> import lean_nn as ln
    >>> ln.functional.max_pool2d(ln.tensor([[[1.0, 3.0], [2.0, 0.0]]]), 2).tolist()
    [[[3.0]]]
    """
    window = strided("max_pool", 2, kernel_size, stride, padding, dilation, ceil_mode)
    return pool_max(x, window, return_indices)


def max_pool3d(
    x: Any,
    kernel_size: IntLike,
    stride: IntLike | None = None,
    padding: Padding = 0,
    dilation: IntLike = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """``y[n,c,p] = max over i of x[n,c, p·stride + i·dilation − padding]`` on three axes; see `max_pool`.

    Examples
    --------
    >>> import numpy as np, lean_nn as ln
    >>> ln.functional.max_pool3d(np.arange(16.0).reshape(1, 2, 2, 4), 2).tolist()
    [[[[13.0, 15.0]]]]
    """
    window = strided("max_pool", 3, kernel_size, stride, padding, dilation, ceil_mode)
    return pool_max(x, window, return_indices)


# --- average ---


def avg_pool(
    x: Any,
    kernel_size: Sequence[int],
    stride: IntLike | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """``y[n,c,p] = Σᵢ x̃[n,c, p·stride + i − padding] / divisor(p)``, padding counting as zeros.

    Parameters
    ----------
    x : Tensor or array, (N, C, *spatial), (C, *spatial) or (*spatial)
    kernel_size : tuple of int
        Cells per axis; its length is the number of spatial axes.
    stride, padding, ceil_mode : as in `max_pool`
    count_include_pad : bool
        Divide by all cells of the window inside the padded input, or by the real ones only.
    divisor_override : int, optional
        Divide by this number instead.

    Examples
    --------
    >>> import lean_nn as ln
    >>> ln.functional.avg_pool(ln.tensor([[1.0, 3.0], [5.0, 7.0]]), (2, 2)).tolist()
    [[4.0]]
    """
    d = rank_of("avg_pool", "kernel_size", kernel_size)
    window = strided("avg_pool", d, kernel_size, stride, padding, 1, ceil_mode)
    return pool_average(x, window, count_include_pad, divisor_override)


def avg_pool1d(
    x: Any,
    kernel_size: IntLike,
    stride: IntLike | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """``y[n,c,p] = Σᵢ x̃[n,c, p·stride + i − padding] / divisor(p)`` on one axis; see `avg_pool`.

    Examples
    --------
    >>> import lean_nn as ln
    >>> ln.functional.avg_pool1d(ln.tensor([[1.0, 3.0, 2.0, 0.0]]), 2).tolist()
    [[2.0, 1.0]]
    """
    window = strided("avg_pool", 1, kernel_size, stride, padding, 1, ceil_mode)
    return pool_average(x, window, count_include_pad, divisor_override)


def avg_pool2d(
    x: Any,
    kernel_size: IntLike,
    stride: IntLike | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """``y[n,c,p] = Σᵢ x̃[n,c, p·stride + i − padding] / divisor(p)`` on two axes; see `avg_pool`.

    Examples
    --------
    >>> import lean_nn as ln
    >>> x = ln.tensor([[[1.0, 3.0], [2.0, 0.0]]])
    >>> ln.functional.avg_pool2d(x, 2).tolist(), ln.functional.avg_pool2d(x, 2, divisor_override=2).tolist()
    ([[[1.5]]], [[[3.0]]])
    """
    window = strided("avg_pool", 2, kernel_size, stride, padding, 1, ceil_mode)
    return pool_average(x, window, count_include_pad, divisor_override)


def avg_pool3d(
    x: Any,
    kernel_size: IntLike,
    stride: IntLike | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """``y[n,c,p] = Σᵢ x̃[n,c, p·stride + i − padding] / divisor(p)`` on three axes; see `avg_pool`.

    Examples
    --------
    >>> import numpy as np, lean_nn as ln
    >>> ln.functional.avg_pool3d(np.arange(16.0).reshape(1, 2, 2, 4), 2).tolist()
    [[[[6.5, 8.5]]]]
    """
    window = strided("avg_pool", 3, kernel_size, stride, padding, 1, ceil_mode)
    return pool_average(x, window, count_include_pad, divisor_override)


# --- smooth maximum ---


def _pool_smooth(x: Any, beta: Any, window: Window) -> Tensor:
    number = beta.data if isinstance(beta, engine.Box) else beta
    known = not isinstance(beta, engine.Box) or isinstance(number, np.ndarray)  # while a function is traced it is not
    if known and not getattr(number, "shape", ()):
        check_beta("smooth_max_pool", number.item() if hasattr(number, "item") else number)
    return on_batch(
        "smooth_max_pool",
        as_tensor(x, op="smooth_max_pool"),
        window.rank,
        lambda x: smooth_pool.smooth_max_pool(x, beta, window=window),
    )


def smooth_max_pool(
    x: Any, kernel_size: Sequence[int], beta: Any, stride: IntLike | None = None, padding: Padding = 0
) -> Tensor:
    """``y[n,c,p] = (1/β)·log Σᵢ exp(β·x̃[n,c, p·stride + i − padding])``, padding counting as value 0.

    A smooth maximum for β > 0, a smooth minimum for β < 0; finite for every finite β and x. It is not normalised: a
    constant window c of n cells gives ``c + log(n)/β``.

    Parameters
    ----------
    x : Tensor or array, (N, C, *spatial), (C, *spatial) or (*spatial)
    kernel_size : tuple of int
        Cells per axis; its length is the number of spatial axes.
    beta : float or Tensor
        Sharpness, finite and not 0; a Tensor gets its derivative too.
    stride, padding : as in `max_pool`

    Examples
    --------
    >>> import lean_nn as ln
    >>> x = ln.tensor([[1.0, 2.0, 1.5, 0.0]])
    >>> [round(v, 4) for v in ln.functional.smooth_max_pool(x, (2,), beta=10.0).tolist()[0]]
    [2.0, 1.5]
    """
    d = rank_of("smooth_max_pool", "kernel_size", kernel_size)
    return _pool_smooth(x, beta, strided("smooth_max_pool", d, kernel_size, stride, padding))


def smooth_max_pool1d(
    x: Any, kernel_size: IntLike, beta: Any, stride: IntLike | None = None, padding: Padding = 0
) -> Tensor:
    """``y[n,c,p] = (1/β)·log Σᵢ exp(β·x̃[n,c, p·stride + i − padding])`` on one axis; see `smooth_max_pool`.

    Examples
    --------
    >>> import lean_nn as ln
    >>> ln.functional.smooth_max_pool1d(ln.tensor([[1e20, -1e20]]), 2, 1e20).tolist()
    [[1.0000000200408773e+20]]
    """
    return _pool_smooth(x, beta, strided("smooth_max_pool", 1, kernel_size, stride, padding))


def smooth_max_pool2d(
    x: Any, kernel_size: IntLike, beta: Any, stride: IntLike | None = None, padding: Padding = 0
) -> Tensor:
    """``y[n,c,p] = (1/β)·log Σᵢ exp(β·x̃[n,c, p·stride + i − padding])`` on two axes; see `smooth_max_pool`.

    Examples
    --------
    >>> import math, numpy as np, lean_nn as ln
    >>> round(ln.functional.smooth_max_pool2d(np.ones((1, 2, 2)), 2, 1.0).item() - math.log(4), 12)
    1.0
    """
    return _pool_smooth(x, beta, strided("smooth_max_pool", 2, kernel_size, stride, padding))


def smooth_max_pool3d(
    x: Any, kernel_size: IntLike, beta: Any, stride: IntLike | None = None, padding: Padding = 0
) -> Tensor:
    """``y[n,c,p] = (1/β)·log Σᵢ exp(β·x̃[n,c, p·stride + i − padding])`` on three axes; see `smooth_max_pool`.

    Examples
    --------
    >>> import math, numpy as np, lean_nn as ln
    >>> round(ln.functional.smooth_max_pool3d(np.ones((1, 2, 2, 2)), 2, -1.0).item() + math.log(8), 12)
    1.0
    """
    return _pool_smooth(x, beta, strided("smooth_max_pool", 3, kernel_size, stride, padding))
