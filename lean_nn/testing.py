"""The checks that every primitive of this package passes, for yours as well.

``check_grads(f, args)``         derivatives of a function: numerical, forward and reverse, to any order
``check_primitive(prim, case)``  one record on one call: everything in `CHECKS`

A derivative is checked by inner products: with random u and v the three numbers ``u·(f(x + εv) − f(x − εv))/2ε``,
``u·(J·v)`` and ``(uᵀ·J)·v`` must agree. Each costs a few evaluations however large the Jacobian is, and an error in
any entry shows up. For the next order the same is asked of the function ``x ↦ J·v`` (mode "fwd") or ``x ↦ uᵀ·J``
(mode "rev"). All checks raise AssertionError with the numbers that disagree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lean_nn import tree
from lean_nn.accuracy import bound_text, measure
from lean_nn.cases import Case
from lean_nn.convert import as_tensor
from lean_nn.primitive import FLOATS, NONDIFF, Aval, Primitive, evaluate, get
from lean_nn.spec.dual import Dual
from lean_nn.threads import get_num_threads, num_threads
from lean_nn.transforms import grad, jvp, vjp

__all__ = ["CHECKS", "check_grads", "check_primitive"]

Array = NDArray[Any]
Function = Callable[..., Any]
Rng = np.random.Generator


# --- derivatives of a function ---


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
    numerical = _dot(u, _difference(f, x, v, eps))
    analytic = {}
    if "fwd" in modes:
        analytic["fwd"] = _dot(u, _arrays(jvp(f, x, v)[1]))
    if "rev" in modes:
        analytic["rev"] = _dot(v, _arrays(vjp(f, *x)[1](tree.rebuild(y, u))))
    scale = 1 + abs(numerical) + _norm(u) * _norm(_difference(f, x, v, eps))
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


def _arrays(value: Any) -> list[Array]:
    return [leaf.data for leaf in tree.leaves(value)]


def _difference(f: Function, x: list[Any], v: list[Any], eps: float) -> list[Array]:
    ahead, behind = (
        _arrays(f(*[as_tensor(b.data + b.data.dtype.type(s * eps) * t.data) for b, t in zip(x, v, strict=True)]))
        for s in (1, -1)
    )
    return [(a.astype(np.float64) - b.astype(np.float64)) / (2 * eps) for a, b in zip(ahead, behind, strict=True)]


def _dot(a: Sequence[Any], b: Sequence[Array]) -> float:
    return math.fsum(
        float(np.vdot(np.float64(p.data), np.float64(q))) for p, q in zip(a, b, strict=True) if q.dtype.kind == "f"
    )


def _norm(a: Sequence[Any]) -> float:
    return math.sqrt(math.fsum(float(np.square(np.float64(getattr(p, "data", p))).sum()) for p in a))


# --- one primitive on one call ---


class Run:
    """A primitive, a dtype, and fresh arguments: what a check looks at."""

    def __init__(self, prim: Primitive, case: Case, dtype: Any, seed: int) -> None:
        self.prim, self.case, self.dtype = prim, case, np.dtype(dtype)
        self.params: Mapping[str, Any] = case.params
        self.arrays = tuple(np.asarray(a) for a in case.make(np.random.default_rng(seed), self.dtype))
        self.rng = np.random.default_rng(seed + 1)
        self.moving = [i for i, a in enumerate(self.arrays) if a.dtype in FLOATS and _has_slope(prim, i)]
        self.smooth = any(prim.differentiable_out) and bool(self.moving)

    def value(self) -> tuple[Array, ...]:
        """The outputs, from the backend that the data's type names."""
        return _outputs(evaluate(self.prim, self.arrays, dict(self.params)))

    def function(self, arrays: Sequence[Array]) -> Function:
        """The primitive as a function of its moving arguments, giving its differentiable outputs as a tuple."""

        def f(*moving: Any) -> tuple[Any, ...]:
            full = [as_tensor(a) for a in arrays]
            for i, box in zip(self.moving, moving, strict=True):
                full[i] = box
            y = self.prim(*full, **self.params)
            outs = y if isinstance(y, tuple) else (y,)
            return tuple(out for out, d in zip(outs, self.prim.differentiable_out, strict=True) if d)

        return f

    def directions(self, arrays: Sequence[Array]) -> list[Array]:
        """A random array like each of ``arrays``, of its dtype."""
        return [self.rng.standard_normal(a.shape).astype(a.dtype) for a in arrays]

    def unit(self, arrays: Sequence[Array]) -> float:
        """The spacing of floats at 1 in the coarsest type that took part."""
        return max(float(np.finfo(dtype).eps) for dtype in {self.dtype, *(a.dtype for a in arrays)})

    def fail(self, check: str, got: str) -> AssertionError:
        """The error of a check."""
        return AssertionError(f"{self.case} {self.dtype}: {check}; {got}")


def _has_slope(prim: Primitive, argnum: int) -> bool:
    if argnum in prim.linear or not isinstance(prim.jvp, tuple):
        return True
    return argnum < len(prim.jvp) and prim.jvp[argnum] is not NONDIFF


def _outputs(value: Any) -> tuple[Array, ...]:
    return value if isinstance(value, tuple) else (value,)


def _same_bits(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def check_shapes(run: Run) -> None:
    """``abstract`` promises the shape and dtype that the kernel delivers and the specification has."""
    promised = run.prim.abstract(*[Aval(a.shape, a.dtype) for a in run.arrays], **run.params)
    avals = (promised,) if isinstance(promised, Aval) else tuple(promised)
    actual = [Aval(y.shape, y.dtype) for y in run.value()]
    if list(avals) != actual:
        raise run.fail("abstract and kernel disagree", f"promised {avals}, got {actual}")
    if run.prim.spec is None or "large" in run.case.tags:
        return
    objects = [a.astype(object) if a.dtype in FLOATS else a for a in run.arrays]
    shapes = [np.shape(y) for y in _outputs(run.prim.spec(*objects, **run.params))]
    if [aval.shape for aval in avals] != shapes:
        raise run.fail("abstract and spec disagree", f"promised {avals}, got {shapes}")


def check_accuracy(run: Run) -> None:
    """The kernel is as near to the specification as the record says."""
    if run.prim.view is not None or run.prim.cpu is None or run.prim.spec is None:
        return
    error = measure(run.prim, run.arrays, run.params)
    if not error <= 1:
        raise run.fail("kernel is off the spec", f"{error:.3g} times {bound_text(run.prim.accuracy)}")


def check_dual_numbers(run: Run) -> None:
    """The forward rule gives what dual numbers give when they go through the specification."""
    if not run.smooth or run.prim.spec is None:
        return
    x = [run.arrays[i] for i in run.moving]
    v = run.directions(x)
    got = [t.data for t in jvp(run.function(run.arrays), [as_tensor(a) for a in x], [as_tensor(t) for t in v])[1]]
    full: list[Array] = [a.astype(object) if a.dtype in FLOATS else a for a in run.arrays]
    for i, t in zip(run.moving, v, strict=True):
        full[i] = _duals(run.arrays[i], t)
    spec = _outputs(run.prim.spec(*full, **run.params))
    wanted = [_tangents(y) for y, d in zip(spec, run.prim.differentiable_out, strict=True) if d]
    tolerance = 1e3 * float(np.finfo(run.dtype).eps)
    for g, w in zip(got, wanted, strict=True):
        w = w.reshape(g.shape)
        scale = 1 + float(np.max(np.abs(w), initial=0.0, where=np.isfinite(w)))
        close = (np.abs(g - w) <= tolerance * scale) | (g == w) | (np.isnan(g) & np.isnan(w))
        if not close.all():
            at = tuple(int(i) for i in np.argwhere(~close)[0])
            raise run.fail("JVP and dual numbers disagree", f"at {at}: {g[at]!r} and {w[at]!r}")


def _duals(x: Array, t: Array) -> Array:
    out = np.empty(x.size, object)
    out[:] = [Dual(p, q) for p, q in zip(x.reshape(-1).tolist(), t.reshape(-1).tolist(), strict=True)]
    return out.reshape(x.shape)


def _tangents(y: Array) -> Array:
    y = np.asarray(y, object)
    values = [float(v.tangent) if isinstance(v, Dual) else 0.0 for v in y.reshape(-1)]
    return np.array(values, np.float64).reshape(y.shape)


def check_adjoint(run: Run) -> None:
    """``u·(J·v) = (uᵀ·J)·v``: forward and reverse rules are of one map, up to rounding."""
    if not run.smooth:
        return
    f, x = run.function(run.arrays), [as_tensor(run.arrays[i]) for i in run.moving]
    v = [as_tensor(t) for t in run.directions([b.data for b in x])]
    y, y_dot = jvp(f, x, v)
    u = [as_tensor(t) for t in run.directions([b.data for b in y])]
    x_bar = vjp(f, *x)[1](tuple(u))
    forward, reverse = _dot(u, _arrays(y_dot)), _dot(v, _arrays(x_bar))
    scale = _norm(u) * _norm(_arrays(y_dot)) + _norm(v) * _norm(_arrays(x_bar)) + 1e-30
    tolerance = 1e3 * run.unit(_arrays(y))
    if not (abs(forward - reverse) <= tolerance * scale or not math.isfinite(scale)):
        raise run.fail("adjoint identity", f"u·(J·v) = {forward!r}, (uᵀ·J)·v = {reverse!r}")


def check_exact_adjoint(run: Run) -> None:
    """The same with ``==`` on Fractions, where the specification and the rules stay rational."""
    if not run.smooth or run.prim.spec is None:
        return
    arrays = [_fractions(run.rng, a) if a.dtype in FLOATS else a for a in run.arrays]
    f, x = run.function(arrays), [as_tensor(arrays[i]) for i in run.moving]
    v = [as_tensor(_fractions(run.rng, b.data)) for b in x]
    try:
        y, y_dot = jvp(f, x, v)
        u = [as_tensor(_fractions(run.rng, b.data)) for b in y]
        x_bar = vjp(f, *x)[1](tuple(u))
    except (TypeError, ZeroDivisionError, ValueError) as problem:
        if isinstance(problem, TypeError) and "no exact value for Fraction" not in str(problem):
            raise
        return
    forward = sum(_exact_dot(a.data, b.data) for a, b in zip(u, y_dot, strict=True))
    reverse = sum(_exact_dot(a.data, b.data) for a, b in zip(v, x_bar, strict=True))
    if isinstance(forward, float) or isinstance(reverse, float):
        raise run.fail("exact adjoint identity", "a float constant in a rule made the result inexact")
    if forward != reverse:
        raise run.fail("exact adjoint identity", f"u·(J·v) = {forward}, (uᵀ·J)·v = {reverse}")


def _fractions(rng: Rng, like: Array) -> Array:
    out = np.empty(like.size, object)
    parts = rng.integers(-20, 21, like.size).tolist(), rng.integers(1, 7, like.size).tolist()
    out[:] = [Fraction(p, q) for p, q in zip(*parts, strict=True)]
    return out.reshape(like.shape)


def _exact_dot(a: Array, b: Array) -> Any:
    return sum((p * q for p, q in zip(a.reshape(-1), b.reshape(-1), strict=True)), Fraction(0))


def check_second_order(run: Run) -> None:
    """Two derivatives in all four combinations of the modes, against difference quotients (float64 only)."""
    if not run.smooth or run.dtype != np.float64 or "kink" in run.case.tags:
        return
    try:
        check_grads(run.function(run.arrays), [run.arrays[i] for i in run.moving], order=2)
    except AssertionError as problem:
        raise run.fail("second order", str(problem)) from None


def check_third_order(run: Run) -> None:
    """``u·D³f[v, v, v]`` by three forward and by three reverse sweeps: no rule is missing, and both agree."""
    if not run.smooth or "no-order3" in run.case.tags:
        return
    f, x = run.function(run.arrays), [as_tensor(run.arrays[i]) for i in run.moving]
    y = f(*x)
    u = [as_tensor(t) for t in run.directions(_arrays(y))]
    v = [as_tensor(t) for t in run.directions(_arrays(x))]
    everything = tuple(range(len(x)))

    def push(g: Function) -> Function:
        return lambda *a: jvp(g, a, v)[1]

    def pull(g: Function) -> Function:
        return lambda *a: _total([_inner(p, t) for p, t in zip(grad(g, everything)(*a), v, strict=True)])

    forward = push(push(push(f)))(*x)
    reverse = grad(pull(pull(lambda *a: _total([_inner(p, t) for p, t in zip(f(*a), u, strict=True)]))), everything)(*x)
    for name, got, like in (("forward", forward, y), ("reverse", reverse, x)):
        if [t.data.shape for t in got] != [t.data.shape for t in like]:
            raise run.fail(f"third order, {name}", "the shapes are wrong")
    ahead, back = _dot(u, _arrays(forward)), _dot(v, _arrays(reverse))
    scale = 1 + _norm(u) * _norm(_arrays(forward)) + _norm(v) * _norm(_arrays(reverse))
    if not (abs(ahead - back) <= 1e5 * run.unit(_arrays(y)) * scale or not math.isfinite(scale)):
        raise run.fail("third order", f"forward {ahead!r}, reverse {back!r}")


def _inner(a: Any, b: Any) -> Any:
    product = get("mul")(a, b)
    return get("sum")(product, axes=tuple(range(len(product.shape))), keepdims=False)


def _total(parts: list[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = get("add")(total, part)
    return total


def check_layouts(run: Run) -> None:
    """Strided and read-only arguments give the same bits, and no argument is written to."""
    before = [a.tobytes() for a in run.arrays]
    plain = run.value()
    if [a.tobytes() for a in run.arrays] != before:
        raise run.fail("arguments are left alone", "one was written to")
    for name, change in (("strided", _strided), ("read-only", _read_only), ("reversed", _reversed)):
        changed = [change(a) for a in run.arrays]
        y = run.prim(*[as_tensor(a) for a in changed], **run.params)
        for got, want in zip(_arrays(y), plain, strict=True):
            if not _same_bits(got, want):
                raise run.fail(f"{name} arguments", "the result differs from that of contiguous ones")


def _strided(a: Array) -> Array:
    wide = np.zeros((*a.shape, 2), a.dtype)
    wide[..., 0] = a
    view: Array = wide[..., 0]
    return view


def _read_only(a: Array) -> Array:
    copy = a.copy()
    copy.flags.writeable = False
    return copy


def _reversed(a: Array) -> Array:
    backwards: Array = np.flip(np.flip(a).copy())
    return backwards


def check_threads(run: Run) -> None:
    """One thread, two and all of them give the same bits."""
    most = get_num_threads()
    results = []
    for n in sorted({1, 2, most}):
        with num_threads(n):
            results.append(run.value())
    for other in results[1:]:
        if not all(_same_bits(a, b) for a, b in zip(results[0], other, strict=True)):
            raise run.fail("threads", "the bits depend on their number")


CHECKS: dict[str, Callable[[Run], None]] = {
    "shapes": check_shapes, "layouts": check_layouts, "threads": check_threads, "accuracy": check_accuracy,
    "dual numbers": check_dual_numbers, "adjoint": check_adjoint, "exact adjoint": check_exact_adjoint,
    "second order": check_second_order, "third order": check_third_order,
}  # fmt: skip
# What a case tagged "large" goes through: the rest would take the specification minutes.
LARGE = ("shapes", "adjoint", "layouts", "threads")


def check_primitive(
    prim: Primitive | str, case: Case, dtypes: Sequence[Any] = FLOATS, *, seed: int = 0
) -> None:
    """Every check of `CHECKS` for one call of one primitive, in each dtype.

    Parameters
    ----------
    prim : Primitive or str
        The record, or its registered name.
    case : Case
        The call: a function that makes the arguments, the parameters, and tags (see ``lean_nn.cases``).
    dtypes : sequence of dtypes
        float32 and float64 unless told.
    seed : int
        Of the arguments and the random directions.

    Examples
    --------
    >>> from lean_nn.cases import Case, normal
    >>> check_primitive("tanh", Case("mine", "tanh", lambda rng, dtype: (normal(rng, dtype, 2, 3),)))
    """
    record = get(prim) if isinstance(prim, str) else prim
    for dtype in dtypes:
        for name, check in CHECKS.items():
            if "large" not in case.tags or name in LARGE:
                check(Run(record, case, dtype, seed))
