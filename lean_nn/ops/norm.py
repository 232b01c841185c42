"""Standardisation, the core of batch, layer and group normalisation.

standardize maps x to (z, μ, r) with z = (x − μ)·r; μ and r are outputs, not hidden state, so that the running
statistics of batch_norm and every higher derivative can use them. With m(v) the mean over a group of n::

    T : t ↦ (r·(t − m(t) − z·m(z·t)),  m(t),  −r²·m(z·t))               standardize_tangent
    Tᵀ: (g, ḡ_μ, ḡ_r) ↦ r·(g − m(g) − z·m(z·g)) + (ḡ_μ − ḡ_r·r²·z)/n    standardize_transpose

The family is closed: T and Tᵀ are each other's transposes, and their slopes in z and r are products and means.

variance is Σ (x − μ)²/(n − correction), and moves by 2·Σ (x − μ)·t/(n − correction): variance_tangent, linear in both.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from lean_nn.backend import cpu_reduce
from lean_nn.convert import zeros_like
from lean_nn.ops.broadcast import broadcast_to, check_axes, without
from lean_nn.ops.broadcast import sum as total
from lean_nn.ops.elementwise import add, div, mul, neg, sub
from lean_nn.primitive import (
    Aval,
    Primitive,
    Within,
    check_float,
    check_same_float,
    meaning,
    primitive,
)

Shape = tuple[int, ...]


def spans_of(shape: Shape, axes: Shape) -> tuple[int, int, int]:
    found = cpu_reduce.groups(shape, axes)
    return found if found is not None else (0, 0, 0)  # `abstract` has refused that


def group_of(op: str, x: Aval, axes: Shape) -> Aval:
    """What is known of the statistics of x."""
    check_axes(op, x.shape, axes)
    if cpu_reduce.groups(x.shape, axes) is None:
        raise ValueError(f"{op}: the kept axes are adjacent; got axes {axes} of shape {x.shape}; transpose it first")
    return Aval(without(x.shape, axes, True), x.dtype)


def check_like(op: str, name: str, got: Aval, shape: Shape) -> None:
    if got.shape != shape:
        raise ValueError(f"{op}: {name} has shape {shape}; got {got.shape}; pass what standardize returned")


# --- bounds; K roundings per sum, see standard.h ---


def roundings(shape: Shape, axes: Shape) -> float:
    outer, _, inner = spans_of(shape, axes)
    return 45 + outer * (1 + inner / 512) * 2.0**-20


def _mean(x: Any, axes: Shape) -> Any:
    return x.mean(axes, keepdims=True)


def standardize_bound(u: float, x: Any, *, axes: Shape, eps: float) -> tuple[Any, Any, Any]:
    """mean: K·u·mean|x| = e; rstd: r·(K·u + (r·e)²); z: both carried through (x − mean)·rstd, and 3 roundings."""
    k = roundings(x.shape, axes)
    if u < 1e-10:  # in double the partial sums are not wider than the data
        k += prod(x.shape[a] for a in axes) / 512 + x.shape[0]
    mean, r = _mean(x, axes), 1 / np.sqrt(x.var(axes, keepdims=True) + eps)
    e_mean = k * u * _mean(np.abs(x), axes)
    e_r = r * (k * u + r * r * e_mean**2)
    return r * (e_mean + u * np.abs(x - mean)) + np.abs(x - mean) * e_r + 2 * u * np.abs(x - mean) * r, e_mean, e_r


def tangent_bound(u: float, t: Any, z: Any, r: Any, *, axes: Shape) -> tuple[Any, Any, Any]:
    """K·u·rstd·(|t| + mean|t| + |z|·mean|z·t|); the other two results K·u·mean|t| and K·u·rstd²·mean|z·t|."""
    k = (roundings(t.shape, axes) + prod(t.shape[a] for a in axes) / 512 + t.shape[0]) * u
    t_mean, zt_mean = _mean(np.abs(t), axes), _mean(np.abs(z * t), axes)
    return k * np.abs(r) * (np.abs(t) + t_mean + np.abs(z) * zt_mean), k * t_mean, k * r * r * zt_mean


def transpose_bound(u: float, g: Any, g_mean: Any, g_rstd: Any, z: Any, r: Any, *, axes: Shape) -> Any:
    """that of the tangent, and 8·u·(|mean's cotangent| + |rstd's|·rstd²·|z|)/n."""
    n = prod(g.shape[a] for a in axes)
    own = tangent_bound(u, g, z, r, axes=axes)[0]
    return own + 8 * u * (np.abs(g_mean) + np.abs(g_rstd) * r * r * np.abs(z)) / n


# --- the map ---


def _standardize_abstract(x: Aval, *, axes: Shape, eps: float) -> tuple[Aval, Aval, Aval]:
    check_float("standardize", x)
    group = group_of("standardize", x, axes)
    return x, group, group


_standardize_step = cpu_reduce.standard("standardize", "x", "y first second")

standardize: Primitive = primitive(
    "standardize",
    abstract=_standardize_abstract,
    spec=meaning("standardize"),
    step=_standardize_step,
    dual=cpu_reduce.standardize_dual,
    jvp=(lambda t, y, x, *, axes, eps: standardize_tangent(t, y[0], y[2], axes=axes),),
    vjp=(lambda g, y, x, *, axes, eps: standardize_transpose(*g, y[0], y[2], axes=axes),),
    differentiable_out=(True, True, True),
    saves_output=True,
    accuracy=Within(standardize_bound),
)


# --- T ---


def mean_of(x: Any, axes: Shape) -> Any:
    return div(total(x, axes=axes, keepdims=True), float(prod(x.shape[a] for a in axes)))


def _centred(t: Any, z: Any, axes: Shape) -> Any:
    """t − m(t) − z·m(z·t)."""
    return sub(sub(t, mean_of(t, axes)), mul(z, mean_of(mul(z, t), axes)))


def _twisted(s: Any, t: Any, z: Any, r: Any, axes: Shape) -> Any:
    """−r·(s·m(z·t) + z·m(s·t)): how r·(t − m(t) − z·m(z·t)) moves when z moves by s."""
    inner = add(mul(s, mean_of(mul(z, t), axes)), mul(z, mean_of(mul(s, t), axes)))
    return neg(mul(r, inner))


def _tangent_abstract(t: Aval, z: Aval, rstd: Aval, *, axes: Shape) -> tuple[Aval, Aval, Aval]:
    op = "standardize_tangent"
    check_same_float(op, t, z, rstd)
    group = group_of(op, t, axes)
    check_like(op, "z", z, t.shape)
    check_like(op, "rstd", rstd, group.shape)
    return t, group, group


_tangent_step = cpu_reduce.standard("standardize_tangent", "t x rstd", "y first second", tangents=True)


def tangent_in_z(s: Any, y: Any, t: Any, z: Any, r: Any, *, axes: Shape) -> tuple[Any, None, Any]:
    return _twisted(s, t, z, r, axes), None, neg(mul(mul(r, r), mean_of(mul(s, t), axes)))


def tangent_in_r(s: Any, y: Any, t: Any, z: Any, r: Any, *, axes: Shape) -> tuple[Any, None, Any]:
    return mul(s, _centred(t, z, axes)), None, mul(mul(mul(s, r), -2.0), mean_of(mul(z, t), axes))


def tangent_to_z(g: Any, y: Any, t: Any, z: Any, r: Any, *, axes: Shape) -> Any:
    """−r·(g·m(z·t) + t·m(g·z)) − ḡ_r·r²·t/n."""
    n = float(prod(t.shape[a] for a in axes))
    inner = add(mul(g[0], mean_of(mul(z, t), axes)), mul(t, mean_of(mul(g[0], z), axes)))
    return neg(add(mul(r, inner), mul(div(mul(mul(r, r), g[2]), n), t)))


def tangent_to_r(g: Any, y: Any, t: Any, z: Any, r: Any, *, axes: Shape) -> Any:
    """Σ g·(t − m(t) − z·m(z·t)) − 2·r·ḡ_r·m(z·t)."""
    own = total(mul(g[0], _centred(t, z, axes)), axes=axes, keepdims=True)
    return sub(own, mul(mul(mul(r, g[2]), 2.0), mean_of(mul(z, t), axes)))


standardize_tangent: Primitive = primitive(
    "standardize_tangent",
    abstract=_tangent_abstract,
    spec=meaning("standardize_tangent"),
    step=_tangent_step,
    linear=(0,),
    jvp=(None, tangent_in_z, tangent_in_r),
    vjp=(
        lambda g, y, t, z, r, *, axes: standardize_transpose(*g, z, r, axes=axes),
        tangent_to_z,
        tangent_to_r,
    ),
    differentiable_out=(True, True, True),
    accuracy=Within(tangent_bound),
)

# --- Tᵀ ---


def _transpose_abstract(g: Aval, g_mean: Aval, g_rstd: Aval, z: Aval, rstd: Aval, *, axes: Shape) -> Aval:
    op = "standardize_transpose"
    check_same_float(op, g, g_mean, g_rstd, z, rstd)
    group = group_of(op, g, axes)
    check_like(op, "z", z, g.shape)
    for name, aval in (("g_mean", g_mean), ("g_rstd", g_rstd), ("rstd", rstd)):
        check_like(op, name, aval, group.shape)
    return g


_transpose_step = cpu_reduce.standard("standardize_transpose", "t g_mean g_rstd x rstd", "y")


def _transpose_in_g(s: Any, y: Any, g: Any, gm: Any, gr: Any, z: Any, r: Any, *, axes: Shape) -> Any:
    none = zeros_like(gm)
    return standardize_transpose(s, none, none, z, r, axes=axes)


def transpose_in_mean(s: Any, y: Any, g: Any, gm: Any, gr: Any, z: Any, r: Any, *, axes: Shape) -> Any:
    return broadcast_to(div(s, float(prod(g.shape[a] for a in axes))), shape=g.shape)


def transpose_in_rstd(s: Any, y: Any, g: Any, gm: Any, gr: Any, z: Any, r: Any, *, axes: Shape) -> Any:
    return neg(mul(div(mul(s, mul(r, r)), float(prod(g.shape[a] for a in axes))), z))


def transpose_in_z(s: Any, y: Any, g: Any, gm: Any, gr: Any, z: Any, r: Any, *, axes: Shape) -> Any:
    """−r·(s·m(z·g) + z·m(s·g)) − ḡ_r·r²·s/n."""
    return add(_twisted(s, g, z, r, axes), transpose_in_rstd(gr, y, g, gm, gr, s, r, axes=axes))


def transpose_in_r(s: Any, y: Any, g: Any, gm: Any, gr: Any, z: Any, r: Any, *, axes: Shape) -> Any:
    n = float(prod(g.shape[a] for a in axes))
    return sub(mul(s, _centred(g, z, axes)), mul(div(mul(mul(mul(gr, r), 2.0), s), n), z))


def transpose_to_z(h: Any, y: Any, g: Any, gm: Any, gr: Any, z: Any, r: Any, *, axes: Shape) -> Any:
    """−r·(h·m(z·g) + g·m(h·z)) − ḡ_r·r²·h/n."""
    inner = add(mul(h, mean_of(mul(z, g), axes)), mul(g, mean_of(mul(h, z), axes)))
    return sub(transpose_in_rstd(gr, y, g, gm, gr, h, r, axes=axes), mul(r, inner))


def transpose_to_r(h: Any, y: Any, g: Any, gm: Any, gr: Any, z: Any, r: Any, *, axes: Shape) -> Any:
    """Σ h·(g − m(g) − z·m(z·g)) − 2·ḡ_r·r·m(h·z)."""
    own = total(mul(h, _centred(g, z, axes)), axes=axes, keepdims=True)
    return sub(own, mul(mul(mul(gr, r), 2.0), mean_of(mul(h, z), axes)))


standardize_transpose: Primitive = primitive(
    "standardize_transpose",
    abstract=_transpose_abstract,
    spec=meaning("standardize_transpose"),
    step=_transpose_step,
    jvp=(_transpose_in_g, transpose_in_mean, transpose_in_rstd, transpose_in_z, transpose_in_r),
    vjp=(
        lambda h, y, g, gm, gr, z, r, *, axes: standardize_tangent(h, z, r, axes=axes)[0],
        lambda h, y, g, gm, gr, z, r, *, axes: mean_of(h, axes),
        lambda h, y, g, gm, gr, z, r, *, axes: neg(mul(mul(r, r), mean_of(mul(z, h), axes))),
        transpose_to_z,
        transpose_to_r,
    ),
    accuracy=Within(transpose_bound),
)


# --- the variance alone ---


def _variance_abstract(op: str) -> Any:
    def abstract(x: Aval, *others: Aval, axes: Shape, correction: int) -> Aval:
        check_same_float(op, x, *others)
        check_axes(op, x.shape, axes)
        if cpu_reduce.moments(x.shape, axes) is None:
            raise ValueError(f"{op}: two runs of reduced axes at most; got axes {axes} of shape {x.shape}; transpose it first")
        for other in others:
            check_like(op, "x", other, x.shape)
        return Aval(without(x.shape, axes, True), x.dtype)

    return abstract


def _left(x: Any, axes: Shape, correction: int) -> float:
    """What the squares are divided by: 0 where there are too few, so that the result is not a number."""
    return float(max(prod(x.shape[a] for a in axes) - correction, 0))


def _share(g: Any, x: Any, axes: Shape, correction: int) -> Any:
    """2·g·(x − μ)/(n − correction)."""
    return mul(sub(x, mean_of(x, axes)), div(mul(g, 2.0), _left(x, axes, correction)))


def _variance_roundings(x: Any, axes: Shape) -> float:
    """K of the two bounds below."""
    return float(45 + prod(x.shape[a] for a in axes) / 512 + (x.shape[0] if 0 in axes else 0))


def _variance_bound(u: float, x: Any, *, axes: Shape, correction: int) -> Any:
    """(K·u·Σ (x − mean)² + n·(K·u·mean|x|)²)/(n − correction), K = 45 + n/512 (+ the first axis' length if reduced)."""
    n = prod(x.shape[a] for a in axes)
    if n == 0:
        return np.full(without(x.shape, axes, True), np.nan)
    k = _variance_roundings(x, axes) * u
    squares = n * x.var(axes, keepdims=True) if axes else np.zeros(x.shape)
    whole = k * squares + n * (k * _mean(np.abs(x), axes)) ** 2
    return whole / max(n - correction, 0) + np.finfo(np.float32).tiny


def _variance_tangent_bound(u: float, t: Any, x: Any, *, axes: Shape, correction: int) -> Any:
    """2·K·u·(Σ |t|·|x − mean| + mean|t|·Σ |x − mean| + K·u·Σ |t|·mean|x|)/(n − correction), K as of the variance."""
    n = prod(x.shape[a] for a in axes)
    if n == 0:
        return np.full(without(x.shape, axes, True), np.nan)
    k = _variance_roundings(x, axes) * u
    apart, size = np.abs(x - _mean(x, axes)), np.abs(t)
    whole = _mean(size * apart, axes) + _mean(size, axes) * _mean(apart, axes) + k * _mean(size, axes) * _mean(np.abs(x), axes)
    return 2 * k * n * whole / max(n - correction, 0) + np.finfo(np.float32).tiny


variance: Primitive = primitive(
    "variance",
    abstract=_variance_abstract("variance"),
    spec=meaning("variance"),
    step=cpu_reduce.variance("variance", "xy"),
    dual=cpu_reduce.variance("variance", "xtyd"),
    jvp=(lambda t, y, x, **params: variance_tangent(t, x, **params),),
    vjp=(lambda g, y, x, *, axes, correction: _share(g, x, axes, correction),),
    accuracy=Within(_variance_bound),
)

variance_tangent: Primitive = primitive(
    "variance_tangent",
    abstract=_variance_abstract("variance_tangent"),
    spec=meaning("variance_tangent"),
    step=cpu_reduce.variance("variance_tangent", "txd"),
    linear=(0, 1),
    vjp=(
        lambda g, y, t, x, *, axes, correction: _share(g, x, axes, correction),
        lambda g, y, t, x, *, axes, correction: _share(g, t, axes, correction),
    ),
    accuracy=Within(_variance_tangent_bound),
)
