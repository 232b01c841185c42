"""Matrix products and the linear layer under NumPy's and PyTorch's rules."""

from __future__ import annotations

from math import prod
from typing import Any

from lean_nn.convert import as_tensor
from lean_nn.ops.elementwise import add
from lean_nn.ops.linear import matmul as matmul_primitive
from lean_nn.ops.shape import reshape
from lean_nn.spec.geometry import bad

__all__ = ["linear", "matmul"]

Tensor = Any


def matmul(a: Any, b: Any) -> Tensor:
    """``c[…,i,j] = Σ_k a[…,i,k] · b[…,k,j]``, batch axes broadcast; a vector is a row (left) or a column (right).

    Parameters
    ----------
    a, b
        ``(…, m, k)`` and ``(…, k, n)``, or vectors ``(k,)``, whose added axis the result does not have.

    Notes
    -----
    ``|ĉ − c| ≤ γₖ·matmul(|a|, |b|)``; the same bits for any number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.matmul(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 10.0])).numpy()
    array([21., 43.])
    """
    left, right = as_tensor(a, op="matmul"), as_tensor(b, op="matmul")
    if not left.shape or not right.shape:
        got = f"shapes {left.shape} and {right.shape}"
        raise bad("matmul", "factors have at least one axis", got, "multiply by a number with *")
    rows = left if len(left.shape) > 1 else reshape(left, shape=(1, *left.shape))
    columns = right if len(right.shape) > 1 else reshape(right, shape=(*right.shape, 1))
    c = _product(rows, columns)
    if rows is left and columns is right:
        return c
    m = () if rows is not left else (c.shape[-2],)
    n = () if columns is not right else (c.shape[-1],)
    return reshape(c, shape=(*c.shape[:-2], *m, *n))


def _product(a: Tensor, b: Tensor, tb: bool = False) -> Tensor:
    """a @ op(b); one matrix b for a batch of a is one taller product, whose gradient needs no sum over the batch."""
    if len(a.shape) == 2 or len(b.shape) > 2 or b.shape[-1 if tb else -2] != a.shape[-1]:
        return matmul_primitive(a, b, ta=False, tb=tb)
    flat = matmul_primitive(reshape(a, shape=(prod(a.shape[:-1]), a.shape[-1])), b, ta=False, tb=tb)
    return reshape(flat, shape=(*a.shape[:-1], flat.shape[-1]))


def linear(input: Any, weight: Any, bias: Any = None) -> Tensor:
    """``y[…,o] = Σ_i x[…,i] · w[o,i] + b[o]``.

    Parameters
    ----------
    input
        ``(…, I)``.
    weight
        ``(O, I)``, or ``(I,)`` for a single output without an axis.
    bias
        ``(O,)`` or None.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.linear(np.array([1.0, 2.0]), np.array([[1.0, 1.0], [0.0, 3.0]]), np.array([0.5, 0.0])).numpy()
    array([3.5, 6. ])
    """
    x, w = as_tensor(input, op="linear"), as_tensor(weight, op="linear")
    b = None if bias is None else as_tensor(bias, op="linear")
    _check_linear(x.shape, w.shape, None if b is None else b.shape)
    single = len(x.shape) == 1
    matrix = w if len(w.shape) == 2 else reshape(w, shape=(1, *w.shape))
    y = _product(reshape(x, shape=(1, *x.shape)) if single else x, matrix, tb=True)
    shape = (*x.shape[:-1], *w.shape[:-1])
    y = y if y.shape == shape else reshape(y, shape=shape)
    return y if b is None else add(y, b)


def _check_linear(x: tuple[int, ...], w: tuple[int, ...], b: tuple[int, ...] | None) -> None:
    if not x or len(w) not in (1, 2):
        rule = "input is (..., in_features) and weight (out_features, in_features)"
        raise bad("linear", rule, f"shapes {x} and {w}", "reshape them")
    if x[-1] != w[-1]:
        rule = "input features must equal the weight's"
        raise bad("linear", rule, f"{x[-1]} and {w[-1]} from shapes {x} and {w}", "transpose or reshape one")
    if b is not None and b != w[:-1]:
        raise bad("linear", f"bias must have shape {w[:-1]}, one entry per output", b, "reshape it or leave it out")
