"""The matrix product, with either factor transposed where it lies.

C = A·B is linear in A and in B, and ⟨G, A·B⟩ = ⟨G·Bᵀ, A⟩ = ⟨Aᵀ·G, B⟩: with flags for transposed factors the cotangents
are products of the same kind and nothing is ever transposed in memory. Batch axes broadcast as in NumPy; the
cotangent of a factor that was repeated is the sum over its repetitions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lean_nn.backend import cpu_bilinear, cpu_linear
from lean_nn.ops.broadcast import sum_to
from lean_nn.primitive import Aval, Gamma, Primitive, check_same_float, meaning, primitive


def _matmul_abstract(a: Aval, b: Aval, *, ta: bool = False, tb: bool = False) -> Aval:
    dtype = check_same_float("matmul", a, b)
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise ValueError(
            f"matmul: factors are (..., rows, columns); got shapes {a.shape} and {b.shape}; "
            f"reshape them or use functional.matmul"
        )
    m, k = (a.shape[-1], a.shape[-2]) if ta else a.shape[-2:]
    inner, n = (b.shape[-1], b.shape[-2]) if tb else b.shape[-2:]
    if k != inner:
        raise ValueError(
            f"matmul: columns of the first factor must equal rows of the second; got {k} and {inner} "
            f"from shapes {a.shape} and {b.shape}; transpose or reshape one"
        )
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) if len(a.shape) + len(b.shape) > 4 else ()
    except ValueError:
        raise ValueError(
            f"matmul: batch axes must be equal or 1; got {a.shape[:-2]} and {b.shape[:-2]}; reshape one factor"
        ) from None
    return Aval((*batch, m, n), dtype)


def _left(g: Any, y: Any, a: Any, b: Any, *, ta: bool = False, tb: bool = False) -> Any:
    part = matmul(b, g, ta=tb, tb=True) if ta else matmul(g, b, ta=False, tb=not tb)
    return sum_to(part, a.shape)


def _right(g: Any, y: Any, a: Any, b: Any, *, ta: bool = False, tb: bool = False) -> Any:
    part = matmul(g, a, ta=True, tb=ta) if tb else matmul(a, g, ta=not ta, tb=False)
    return sum_to(part, b.shape)


matmul: Primitive = primitive(
    "matmul",
    abstract=_matmul_abstract,
    spec=meaning("matmul"),
    step=cpu_linear.matmul_step,
    dual=cpu_bilinear.dual(cpu_linear.matmul_step),
    linear=(0, 1),
    vjp=(_left, _right),
    accuracy=Gamma(lambda a, b, *, ta=False, tb=False: a.shape[-2 if ta else -1], "terms of a product"),
)
