"""One primitive on one call, through the whole matrix: `check_primitive` and the checks it is made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from lean_nn.accuracy import bound_text, measure
from lean_nn.cases import Case
from lean_nn.convert import as_tensor
from lean_nn.ops import find
from lean_nn.primitive import FLOATS, NONDIFF, Aval, GraphError, Primitive, comparable, evaluate, get
from lean_nn.spec.dual import Dual
from lean_nn.testing.grads import Array, Function, Rng, arrays_of, check_grads, dot, norm
from lean_nn.threads import get_num_threads, num_threads
from lean_nn.transforms import grad, jvp, vjp

__all__ = ["CHECKS", "check_primitive"]


class Run:
    """A primitive, a dtype, and fresh arguments: what a check looks at."""

    def __init__(self, prim: Primitive, case: Case, dtype: Any, seed: int) -> None:
        self.prim, self.case, self.dtype = prim, case, np.dtype(dtype)
        self.params: Mapping[str, Any] = case.params
        self.arrays = tuple(np.asarray(a) for a in case.make(np.random.default_rng(seed), self.dtype))
        self.rng = np.random.default_rng(seed + 1)
        self.moving = [i for i, a in enumerate(self.arrays) if a.dtype in FLOATS and _has_slope(prim, i)]
        self.ruled = prim.jvp is not None or prim.vjp is not None or bool(prim.linear)
        self.smooth = self.ruled and any(prim.differentiable_out) and bool(self.moving)

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
    if not comparable(run.prim):
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
    forward, reverse = dot(u, arrays_of(y_dot)), dot(v, arrays_of(x_bar))
    scale = norm(u) * norm(arrays_of(y_dot)) + norm(v) * norm(arrays_of(x_bar)) + 1e-30
    tolerance = 1e3 * run.unit(arrays_of(y))
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
    u = [as_tensor(t) for t in run.directions(arrays_of(y))]
    v = [as_tensor(t) for t in run.directions(arrays_of(x))]
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
    ahead, back = dot(u, arrays_of(forward)), dot(v, arrays_of(reverse))
    scale = 1 + norm(u) * norm(arrays_of(forward)) + norm(v) * norm(arrays_of(reverse))
    if not (abs(ahead - back) <= 1e5 * run.unit(arrays_of(y)) * scale or not math.isfinite(scale)):
        raise run.fail("third order", f"forward {ahead!r}, reverse {back!r}")


def _inner(a: Any, b: Any) -> Any:
    product = get("mul")(a, b)
    return get("sum")(product, axes=tuple(range(len(product.shape))), keepdims=False)


def _total(parts: list[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = get("add")(total, part)
    return total


def check_loud(run: Run) -> None:
    """A record without any rule says so when it is differentiated, in both modes."""
    if run.ruled or not any(run.prim.differentiable_out):
        return
    f, x = run.function(run.arrays), [as_tensor(run.arrays[i]) for i in run.moving]
    for mode, differentiate in (("forward", lambda: jvp(f, x, x)), ("reverse", lambda: vjp(f, *x)[1](f(*x)))):
        try:
            differentiate()
        except GraphError:
            continue
        raise run.fail("no rule is an error", f"the {mode} mode went through")


def check_layouts(run: Run) -> None:
    """Strided and read-only arguments give the same bits, and no argument is written to."""
    before = [a.tobytes() for a in run.arrays]
    plain = run.value()
    if [a.tobytes() for a in run.arrays] != before:
        raise run.fail("arguments are left alone", "one was written to")
    for name, change in (("strided", _strided), ("read-only", _read_only), ("reversed", _reversed)):
        changed = [change(a) for a in run.arrays]
        y = run.prim(*[as_tensor(a) for a in changed], **run.params)
        for got, want in zip(arrays_of(y), plain, strict=True):
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
    "loud": check_loud, "dual numbers": check_dual_numbers, "adjoint": check_adjoint, "exact adjoint": check_exact_adjoint,
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
    record = find(prim) or get(prim) if isinstance(prim, str) else prim
    for dtype in dtypes:
        for name, check in CHECKS.items():
            if "large" not in case.tags or name in LARGE:
                check(Run(record, case, dtype, seed))
