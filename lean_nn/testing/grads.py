"""Derivatives of a function, checked by inner products.

With random u and v the three numbers ``u·(f(x + εv) − f(x − εv))/2ε``, ``u·(J·v)`` and ``(uᵀ·J)·v`` must agree. Each
costs a few evaluations however large the Jacobian is, and an error in any entry shows up. For the next order the
same is asked of the function ``x ↦ J·v`` (mode "fwd") or ``x ↦ uᵀ·J`` (mode "rev").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lean_nn import tree
from lean_nn.convert import as_tensor
from lean_nn.primitive import FLOATS
from lean_nn.transforms import jvp, vjp

Array = NDArray[Any]
Function = Callable[..., Any]
Rng = np.random.Generator


def check_grads(
    f: Function,
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = ("fwd", "rev"),
    *,
    eps: float | None = None,
    rtol: float | None = None,
    seed: int = 0,
) -> None:
    """``u·(f(x+εv) − f(x−εv))/2ε = u·(J·v) = (uᵀ·J)·v`` for random u, v, up to ``order`` derivatives.

    Parameters
    ----------
    f : function of Tensors
        Returns a Tensor, or a tuple, list or dict of them.
    args : sequence of arrays or Tensors
        Where to check; all of float32 or float64. Use float64 if you can: a difference quotient in float32 has
        two digits.
    order : int
        How many times to differentiate.
    modes : sequence of "fwd", "rev"
        Which modes to use, in every combination.
    eps, rtol : float, optional
        Step of the difference quotient and relative tolerance; the defaults follow from the dtype.
    seed : int
        Of the random directions.

    Examples
    --------
    >>> import lean_nn as ln
    >>> check_grads(lambda x: ln.functional.tanh(x) * x, [np.linspace(-1, 1, 5)])
    """
    unknown = set(modes) - {"fwd", "rev"}
    if unknown or not modes:
        raise ValueError(f'check_grads: modes are "fwd" and "rev"; got {tuple(modes)}; use one or both')
    boxes = [as_tensor(a, op="check_grads") for a in args]
    for box in boxes:
        if box.data.dtype not in FLOATS:
            raise TypeError(f"check_grads: float32 or float64 data is needed; got {box.data.dtype}; convert it")
    unit = max((float(np.finfo(b.data.dtype).eps) for b in boxes), default=1e-16)
    step = unit ** (1 / 3) if eps is None else eps
    tolerance = 2e3 * unit ** (2 / 3) if rtol is None else rtol
    _check_order(f, boxes, order, tuple(modes), step, tolerance, np.random.default_rng(seed), "")


def _check_order(
    f: Function, x: list[Any], order: int, modes: tuple[str, ...], eps: float, rtol: float, rng: Rng, path: str
) -> None:
    v = [_normal(rng, b) for b in x]
    y = f(*x)
    u = [_normal(rng, b) for b in tree.leaves(y)]
    numerical = dot(u, _difference(f, x, v, eps))
    analytic = {}
    if "fwd" in modes:
        analytic["fwd"] = dot(u, arrays_of(jvp(f, x, v)[1]))
    if "rev" in modes:
        analytic["rev"] = dot(v, arrays_of(vjp(f, *x)[1](tree.rebuild(y, u))))
    scale = 1 + abs(numerical) + norm(u) * norm(_difference(f, x, v, eps))
    for mode, value in analytic.items():
        if not abs(value - numerical) <= rtol * scale:
            raise AssertionError(
                f"check_grads: derivative {path + mode} disagrees with the difference quotient; got {value:.12g} and "
                f"{numerical:.12g}, {abs(value - numerical) / scale:.3g} apart where {rtol:.3g} is allowed"
            )
    if order <= 1:
        return
    if "fwd" in modes:
        _check_order(lambda *a: jvp(f, a, v)[1], x, order - 1, modes, eps, rtol, rng, path + "fwd-")
    if "rev" in modes:
        again = tree.rebuild(y, u)
        _check_order(lambda *a: vjp(f, *a)[1](again), x, order - 1, modes, eps, rtol, rng, path + "rev-")


def _normal(rng: Rng, like: Any) -> Any:
    return as_tensor(rng.standard_normal(like.data.shape).astype(like.data.dtype))


def arrays_of(value: Any) -> list[Array]:
    return [leaf.data for leaf in tree.leaves(value)]


def _difference(f: Function, x: list[Any], v: list[Any], eps: float) -> list[Array]:
    ahead, behind = (
        arrays_of(f(*[as_tensor(b.data + b.data.dtype.type(s * eps) * t.data) for b, t in zip(x, v, strict=True)]))
        for s in (1, -1)
    )
    return [(a.astype(np.float64) - b.astype(np.float64)) / (2 * eps) for a, b in zip(ahead, behind, strict=True)]


def dot(a: Sequence[Any], b: Sequence[Array]) -> float:
    return math.fsum(
        float(np.vdot(np.float64(p.data), np.float64(q))) for p, q in zip(a, b, strict=True) if q.dtype.kind == "f"
    )


def norm(a: Sequence[Any]) -> float:
    return math.sqrt(math.fsum(float(np.square(np.float64(getattr(p, "data", p))).sum()) for p in a))
