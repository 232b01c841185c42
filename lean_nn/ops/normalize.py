"""Normalisation as one primitive: standardisation with factors and terms, y = w·z + b.

The family of `lean_nn.ops.norm`, whose rules serve it by way of z = (x − μ)·r, with the passes over memory fused: forward
one to read and one to write, backward one to read and one to write for the three gradients together::

    normalize            (x, w, b) ↦ (w·z + b, μ, r)
    normalize_tangent    (t, x, w, μ, r) ↦ (w·ż, μ̇, ṙ)              with (ż, μ̇, ṙ) = T(t)
    normalize_transpose  (g, ḡ_μ, ḡ_r, x, w, μ, r) ↦ (Tᵀ(w·g, ḡ_μ, ḡ_r), Σ g·z, Σ g)

w and b have the shape of the statistics (batch norm); or, where a group's elements lie together, that of x with 1 in place of
all axes but some neighbours (layer norm: the last ones; group norm: the channels). The sums go over the axes that w has not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lean_nn.backend import cpu_reduce
from lean_nn.convert import zeros_like
from lean_nn.ops import norm
from lean_nn.ops.broadcast import broadcast_to, sum_to
from lean_nn.ops.broadcast import sum as total
from lean_nn.ops.elementwise import add, mul, neg, sub
from lean_nn.ops.norm import Shape, mean_of, standardize_tangent, standardize_transpose
from lean_nn.primitive import Aval, Joint, Primitive, Within, check_same_float, meaning, primitive

Triple = tuple[Any, Any, Any]


def _standard(x: Any, mean: Any, r: Any) -> Any:
    """z."""
    return mul(sub(x, mean), r)


def _over(x: Any, axes: Shape) -> Any:
    return total(x, axes=axes, keepdims=True)


def _check(op: str, x: Aval, axes: Shape, factors: dict[str, Aval], **others: Aval) -> Aval:
    """What is known of the statistics; `others` must be like them, `factors` like each other and fit x."""
    check_same_float(op, x, *factors.values(), *others.values())
    group = norm.group_of(op, x, axes)
    for name, aval in others.items():
        norm.check_like(op, name, aval, group.shape)
    for name, aval in factors.items():
        if cpu_reduce.features(x.shape, axes, aval.shape) is None:
            raise ValueError(
                f"{op}: {name} has the statistics' shape {group.shape}, or, where last axes are reduced, x's on neighbouring "
                f"axes and 1 on all others; got {aval.shape} for {x.shape} and axes {axes}; reshape it"
            )
    if len({aval.shape for aval in factors.values()}) > 1:
        got = [aval.shape for aval in factors.values()]
        raise ValueError(f"{op}: weight and bias have one shape; got {got}; reshape one of them")
    return group


# --- bounds ---


def _normalize_bound(u: float, x: Any, w: Any, b: Any, *, axes: Shape, eps: float) -> Triple:
    """|w| times the bound of standardize, and 2·u·(|w·z| + |b|)."""
    e_z, e_mean, e_r = norm.standardize_bound(u, x, axes=axes, eps=eps)
    z = np.abs(x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)
    return np.abs(w) * e_z + 2 * u * (np.abs(w) * z + np.abs(b)), e_mean, e_r


def _tangent_bound(u: float, t: Any, x: Any, w: Any, mean: Any, r: Any, *, axes: Shape) -> Triple:
    """that of standardize_tangent at z = (x − mean)·rstd, its first result times |w|."""
    e_z, e_mean, e_r = norm.tangent_bound(u, t, (x - mean) * r, r, axes=axes)
    return np.abs(w) * e_z, e_mean, e_r


def _transpose_bound(
    u: float, g: Any, g_mean: Any, g_rstd: Any, x: Any, w: Any, mean: Any, r: Any, *, axes: Shape
) -> Triple:
    """that of standardize_transpose at w·g and z = (x − mean)·rstd; K·u·Σ|g·z| and K·u·Σ|g|."""
    z = (x - mean) * r
    e_x = norm.transpose_bound(u, w * g, g_mean, g_rstd, z, r, axes=axes)
    over = tuple(a for a, n in enumerate(w.shape) if n == 1)
    k = (norm.roundings(g.shape, axes) + g.size / 512 + g.shape[0] + g.size / max(w.size, 1) / 16) * u
    return e_x, k * np.abs(g * z).sum(over, keepdims=True), k * np.abs(g).sum(over, keepdims=True)


# --- the map ---


def _normalize_abstract(x: Aval, w: Aval, b: Aval, *, axes: Shape, eps: float) -> tuple[Aval, Aval, Aval]:
    group = _check("normalize", x, axes, {"weight": w, "bias": b})
    return x, group, group


_normalize_step = cpu_reduce.standard("normalize", "x w b", "y first second")


def _normalize_push(tangents: Triple, y: Triple, x: Any, w: Any, b: Any, *, axes: Shape, eps: float) -> Any:
    """A tangent of w and one of b are a factor and a term like w and b: the same map, in one pass."""
    x_dot, w_dot, b_dot = tangents
    if w_dot is not None:
        term = zeros_like(w_dot) if b_dot is None else b_dot
        affine = normalize(x, w_dot, term, axes=axes, eps=eps)[0]
    else:
        affine = None if b_dot is None else broadcast_to(b_dot, shape=x.shape)
    if x_dot is None:
        return affine, None, None
    moved, mean_dot, r_dot = normalize_tangent(x_dot, x, w, y[1], y[2], axes=axes)
    return moved if affine is None else add(moved, affine), mean_dot, r_dot


def _normalize_pull(wanted: tuple[bool, ...], g: Triple, y: Triple, x: Any, w: Any, b: Any, *, axes: Shape, eps: float) -> Any:
    return normalize_transpose(*g, x, w, y[1], y[2], axes=axes)


normalize: Primitive = primitive(
    "normalize",
    abstract=_normalize_abstract,
    spec=meaning("normalize"),
    step=_normalize_step,
    dual=cpu_reduce.normalize_dual,
    jvp=Joint(_normalize_push),
    vjp=Joint(_normalize_pull),
    differentiable_out=(True, True, True),
    saves_output=True,
    accuracy=Within(_normalize_bound),
)

# --- forward ---


def _tangent_abstract(t: Aval, x: Aval, w: Aval, mean: Aval, rstd: Aval, *, axes: Shape) -> tuple[Aval, Aval, Aval]:
    op = "normalize_tangent"
    group = _check(op, x, axes, {"weight": w}, mean=mean, rstd=rstd)
    check_same_float(op, t, x)
    norm.check_like(op, "t", t, x.shape)
    return x, group, group


_tangent_step = cpu_reduce.standard(
    "normalize_tangent", "t x w mean rstd", "y first second", tangents=True
)


def _tangent_by_z(dz: Any, t: Any, x: Any, w: Any, mean: Any, r: Any, axes: Shape) -> tuple[Any, None, Any]:
    """How the tangent moves when z moves by dz."""
    first, _, third = norm.tangent_in_z(dz, None, t, _standard(x, mean, r), r, axes=axes)
    return mul(w, first), None, third


def _tangent_in_r(s: Any, y: Any, t: Any, x: Any, w: Any, mean: Any, r: Any, *, axes: Shape) -> tuple[Any, None, Any]:
    by_z = _tangent_by_z(mul(sub(x, mean), s), t, x, w, mean, r, axes)
    own = norm.tangent_in_r(s, None, t, _standard(x, mean, r), r, axes=axes)
    return add(by_z[0], mul(w, own[0])), None, add(by_z[2], own[2])


def _tangent_to_z(g: Triple, t: Any, x: Any, w: Any, mean: Any, r: Any, axes: Shape) -> Any:
    return norm.tangent_to_z((mul(w, g[0]), g[1], g[2]), None, t, _standard(x, mean, r), r, axes=axes)


def _tangent_to_w(g: Triple, y: Any, t: Any, x: Any, w: Any, mean: Any, r: Any, *, axes: Shape) -> Any:
    return sum_to(mul(g[0], standardize_tangent(t, _standard(x, mean, r), r, axes=axes)[0]), w.shape)


def _tangent_to_r(g: Triple, y: Any, t: Any, x: Any, w: Any, mean: Any, r: Any, *, axes: Shape) -> Any:
    by_z = _over(mul(_tangent_to_z(g, t, x, w, mean, r, axes), sub(x, mean)), axes)
    weighted = (mul(w, g[0]), g[1], g[2])
    return add(by_z, norm.tangent_to_r(weighted, None, t, _standard(x, mean, r), r, axes=axes))


normalize_tangent: Primitive = primitive(
    "normalize_tangent",
    abstract=_tangent_abstract,
    spec=meaning("normalize_tangent"),
    step=_tangent_step,
    linear=(0,),
    jvp=(
        None,
        lambda s, y, t, x, w, m, r, *, axes: _tangent_by_z(mul(s, r), t, x, w, m, r, axes),
        lambda s, y, t, x, w, m, r, *, axes: (normalize_tangent(t, x, s, m, r, axes=axes)[0], None, None),
        lambda s, y, t, x, w, m, r, *, axes: _tangent_by_z(neg(mul(s, r)), t, x, w, m, r, axes),
        _tangent_in_r,
    ),
    vjp=(
        lambda g, y, t, x, w, m, r, *, axes: normalize_transpose(*g, x, w, m, r, axes=axes)[0],
        lambda g, y, t, x, w, m, r, *, axes: mul(_tangent_to_z(g, t, x, w, m, r, axes), r),
        _tangent_to_w,
        lambda g, y, t, x, w, m, r, *, axes: neg(_over(mul(_tangent_to_z(g, t, x, w, m, r, axes), r), axes)),
        _tangent_to_r,
    ),
    differentiable_out=(True, True, True),
    accuracy=Within(_tangent_bound),
)

# --- reverse ---


def _transpose_abstract(
    g: Aval, g_mean: Aval, g_rstd: Aval, x: Aval, w: Aval, mean: Aval, rstd: Aval, *, axes: Shape
) -> tuple[Aval, Aval, Aval]:
    op = "normalize_transpose"
    _check(op, x, axes, {"weight": w}, g_mean=g_mean, g_rstd=g_rstd, mean=mean, rstd=rstd)
    check_same_float(op, g, x)
    norm.check_like(op, "g", g, x.shape)
    return x, w, w


_transpose_step = cpu_reduce.standard(
    "normalize_transpose", "t g_mean g_rstd x w mean rstd", "y second first"
)


Rest = tuple[Any, ...]  # g, ḡ_μ, ḡ_r, x, w, μ, r


def _transpose_by_z(dz: Any, rest: Rest, axes: Shape) -> tuple[Any, Any, None]:
    """How the results move when z moves by dz."""
    g, gm, gr, x, w, mean, r = rest
    first = norm.transpose_in_z(dz, None, mul(w, g), gm, gr, _standard(x, mean, r), r, axes=axes)
    return first, sum_to(mul(g, dz), w.shape), None


def _transpose_in_g(s: Any, y: Any, *rest: Any, axes: Shape) -> Triple:
    none = zeros_like(rest[1])
    return normalize_transpose(s, none, none, *rest[3:], axes=axes)  # type: ignore[no-any-return]


def _transpose_in_mean_cotangent(s: Any, y: Any, *rest: Any, axes: Shape) -> tuple[Any, None, None]:
    return norm.transpose_in_mean(s, None, rest[0], None, None, None, None, axes=axes), None, None


def _transpose_in_rstd_cotangent(s: Any, y: Any, *rest: Any, axes: Shape) -> tuple[Any, None, None]:
    g, gm, gr, x, _, mean, r = rest
    return norm.transpose_in_rstd(s, None, g, gm, gr, _standard(x, mean, r), r, axes=axes), None, None


def _transpose_in_w(s: Any, y: Any, *rest: Any, axes: Shape) -> tuple[Any, None, None]:
    g, gm, _, x, _, mean, r = rest
    none = zeros_like(gm)
    return standardize_transpose(mul(s, g), none, none, _standard(x, mean, r), r, axes=axes), None, None


def _transpose_in_r(s: Any, y: Any, *rest: Any, axes: Shape) -> tuple[Any, Any, None]:
    g, gm, gr, x, w, mean, r = rest
    first, second, _ = _transpose_by_z(mul(sub(x, mean), s), rest, axes)
    own = norm.transpose_in_r(s, None, mul(w, g), gm, gr, _standard(x, mean, r), r, axes=axes)
    return add(first, own), second, None


def _transpose_to_g(h: Triple, y: Any, *rest: Any, axes: Shape) -> Any:
    _, _, _, x, w, mean, r = rest
    own = normalize_tangent(h[0], x, w, mean, r, axes=axes)[0]
    return add(own, add(mul(h[1], _standard(x, mean, r)), h[2]))


def _transpose_to_z(h: Triple, rest: Rest, axes: Shape) -> Any:
    g, gm, gr, x, w, mean, r = rest
    own = norm.transpose_to_z(h[0], None, mul(w, g), gm, gr, _standard(x, mean, r), r, axes=axes)
    return add(own, mul(h[1], g))


def _transpose_to_rstd_cotangent(h: Triple, y: Any, *rest: Any, axes: Shape) -> Any:
    _, _, _, x, _, mean, r = rest
    return neg(mul(mul(r, r), mean_of(mul(_standard(x, mean, r), h[0]), axes)))


def _transpose_to_w(h: Triple, y: Any, *rest: Any, axes: Shape) -> Any:
    g, _, _, x, w, mean, r = rest
    return sum_to(mul(g, standardize_tangent(h[0], _standard(x, mean, r), r, axes=axes)[0]), w.shape)


def _transpose_to_r(h: Triple, y: Any, *rest: Any, axes: Shape) -> Any:
    g, gm, gr, x, w, mean, r = rest
    by_z = _over(mul(_transpose_to_z(h, rest, axes), sub(x, mean)), axes)
    return add(by_z, norm.transpose_to_r(h[0], None, mul(w, g), gm, gr, _standard(x, mean, r), r, axes=axes))


normalize_transpose: Primitive = primitive(
    "normalize_transpose",
    abstract=_transpose_abstract,
    spec=meaning("normalize_transpose"),
    step=_transpose_step,
    jvp=(
        _transpose_in_g,
        _transpose_in_mean_cotangent,
        _transpose_in_rstd_cotangent,
        lambda s, y, *rest, axes: _transpose_by_z(mul(s, rest[6]), rest, axes),
        _transpose_in_w,
        lambda s, y, *rest, axes: _transpose_by_z(neg(mul(s, rest[6])), rest, axes),
        _transpose_in_r,
    ),
    vjp=(
        _transpose_to_g,
        lambda h, y, *rest, axes: mean_of(h[0], axes),
        _transpose_to_rstd_cotangent,
        lambda h, y, *rest, axes: mul(_transpose_to_z(h, rest, axes), rest[6]),
        _transpose_to_w,
        lambda h, y, *rest, axes: neg(_over(mul(_transpose_to_z(h, rest, axes), rest[6]), axes)),
        _transpose_to_r,
    ),
    differentiable_out=(True, True, True),
    accuracy=Within(_transpose_bound),
)
