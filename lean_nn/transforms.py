"""Functions from functions: derivatives in either mode, nestable in any order.

With f: x ↦ y, J its Jacobian at x:

=================================  ====================================  =========================
``jvp(f, primals, tangents)``      (y, J·v)                              forward
``linearize(f, *primals)``         y and v ↦ J·v                         record once, push often
``vjp(f, *primals)``               y and u ↦ uᵀ·J                        record once, pull often
``grad``, ``value_and_grad``       uᵀ·J for a scalar y, u = 1            reverse
``hvp(f, primals, tangents)``      (∂²f)·v                               forward over reverse
``jacfwd``, ``jacrev``             J, column by column or row by row
``hessian``                        ∂²f                                   forward over reverse
=================================  ====================================  =========================

Arguments and results may be tuples, lists and dicts of Tensors. Each is a few lines over the two modes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from lean_nn import functional as F
from lean_nn import tree
from lean_nn.autodiff.forward import Trace
from lean_nn.autodiff.tape import Tape, matching
from lean_nn.convert import as_tensor, as_tensor_like, ones_like, zeros, zeros_like
from lean_nn.primitive import FLOATS, OBJECT
from lean_nn_c import engine, sweep

Function = Callable[..., Any]


def _fresh(op: str, value: Any) -> Any:
    """A box of its own for an input, still connected to `value` for the levels outside."""
    box = as_tensor(value, op=op)
    if box.data.dtype not in FLOATS and box.data.dtype != OBJECT:
        raise TypeError(f"{op}: derivatives are of float data; got {box.data.dtype}; convert with .astype('float32')")
    return F.alias(box)


def _tensors(op: str, found: list[Any]) -> list[Any]:
    """The leaves of a function's result, which must be Tensors."""
    for leaf in found:
        if not isinstance(leaf, engine.Box):
            raise TypeError(f"{op}: the function must return Tensors; got {type(leaf).__name__}; return what was computed")
    return found


def _check_form(op: str, what: str, given: Any, expected: Any) -> None:
    if tree.is_flat(given) and tree.is_flat(expected) and len(given) == len(expected):
        return
    if tree.form(given) != tree.form(expected):
        raise ValueError(f"{op}: {what} have the form of their primals {tree.form(expected)}; got {tree.form(given)}; "
                         f"pass one per Tensor")


# --- forward ---


def jvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """(f(x), J·v): the value and its change when the primals move by the tangents.

    Examples
    --------
    >>> import lean_nn as ln
    >>> ln.jvp(lambda x: x * x, (ln.tensor(3.0),), (ln.tensor(1.0),))
    (tensor(9.), tensor(6.))
    """
    primals, tangents = tuple(primals), tuple(tangents)
    with Trace() as trace:
        y = f(*(sweep.set_out(trace, primals, tangents) or _set_out(trace, primals, tangents)))
        return y, _tangent(trace, y) if isinstance(y, engine.Box) else tree.transform(lambda out: _tangent(trace, out), y)


def _tangent(trace: Trace, out: Any) -> Any:
    """How a Tensor that the function returned moves; not at all where it has no tangent."""
    _tensors("jvp", [out])
    tangent = None if out.tangents is None else out.tangents.get(trace)
    return zeros_like(out) if tangent is None else tangent


def _set_out(trace: Trace, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    """The primals with boxes for their leaves that carry the tangents, whatever they are and whoever watches them."""
    _check_form("jvp", "tangents", tangents, primals)
    boxes = [_fresh("jvp", p) for p in tree.leaves(primals)]
    for box, t in zip(boxes, tree.leaves(tangents), strict=True):
        engine.carry(box, trace, matching("jvp", box, t))
    return tree.rebuild(primals, boxes)


def linearize(f: Function, *primals: Any) -> tuple[Any, Function]:
    """f(x) and the linear map v ↦ J·v, which replays the recorded operations."""
    boxes = [_fresh("linearize", p) for p in tree.leaves(primals)]
    with Tape() as tape:
        y = f(*tree.rebuild(primals, boxes))
        outs = [F.alias(out) for out in _tensors("linearize", tree.leaves(y))]

    def push(*tangents: Any) -> Any:
        _check_form("linearize", "tangents", tangents, primals)
        moving = {box: t for box, t in zip(boxes, tree.leaves(tangents), strict=True) if tape.knows(box)}
        for box, t in zip(boxes, tree.leaves(tangents), strict=True):
            matching("linearize", box, t)
        return tree.rebuild(y, tape.push(moving)[tuple(outs)])

    return tree.rebuild(y, outs), push


# --- reverse ---


@contextmanager
def _level() -> Iterator[int]:
    level = engine.open_level()
    try:
        yield 1 << level
    finally:
        engine.close_level(level)


def _record(op: str, f: Function, primals: tuple[Any, ...]) -> tuple[Any, Function]:
    """f(x), and the reverse sweep from its Tensors back to those of `primals`."""
    with _level() as bit:
        boxes = [_fresh(op, p) for p in tree.leaves(primals)]
        for box in boxes:
            engine.watch(box, box.mask | bit)
        y = f(*tree.rebuild(primals, boxes))
        outs = _tensors(op, tree.leaves(y))

    def pull(cotangents: Sequence[Any], keep: bool) -> Any:
        roots = [(out, matching(op, out, g)) for out, g in zip(outs, cotangents, strict=True)]
        live = [(out, g) for out, g in roots if out.mask & bit]
        found = sweep.pull(live, bit, keep=keep, wanted={id(box) for box in boxes})
        return tree.rebuild(
            primals, [found[id(b)][1] if id(b) in found else zeros_like(b) for b in boxes]
        )

    return y, pull


def vjp(f: Function, *primals: Any) -> tuple[Any, Function]:
    """f(x) and the map u ↦ uᵀ·J: one cotangent per primal, as a tuple.

    Examples
    --------
    >>> import lean_nn as ln
    >>> y, pull = ln.vjp(lambda x, w: x * w, ln.tensor(2.0), ln.tensor(5.0))
    >>> pull(ln.tensor(1.0))
    (tensor(5.), tensor(2.))
    """
    y, sweep = _record("vjp", f, primals)

    def pull(cotangent: Any) -> Any:
        _check_form("vjp", "cotangents", cotangent, y)
        return sweep(tree.leaves(cotangent), True)

    return y, pull


def value_and_grad(f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """x ↦ (f(x), df/dx) for a scalar f; with `has_aux`, f returns (scalar, anything)."""

    def wrapped(*args: Any) -> Any:
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        for n in numbers:
            if not -len(args) <= n < len(args):
                raise ValueError(f"grad: argnums name positional arguments; got {n} for {len(args)}; pass it positionally")
        places = [n % len(args) for n in numbers]
        aux: list[Any] = []

        def chosen(*moving: Any) -> Any:
            full = list(args)
            for place, value in zip(places, moving, strict=True):
                full[place] = value
            result = f(*full)
            if has_aux:
                result, extra = result
                aux.append(extra)
            return result

        y, sweep = _record("grad", chosen, tuple(args[place] for place in places))
        if not isinstance(y, engine.Box) or y.data.size != 1:
            got = y.data.shape if isinstance(y, engine.Box) else tree.form(y)
            raise ValueError(f"grad: the function must return one scalar Tensor; got {got}; sum it, or use vjp or jacrev")
        grads = sweep([ones_like(y)], False)
        grads = grads[0] if isinstance(argnums, int) else grads
        return ((y, aux[0]), grads) if has_aux else (y, grads)

    return wrapped


def grad(f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """x ↦ df/dx for a scalar f.

    Examples
    --------
    >>> import lean_nn as ln
    >>> ln.grad(ln.grad(lambda x: x * x * x))(ln.tensor(2.0))
    tensor(12.)
    """
    both = value_and_grad(f, argnums, has_aux)

    def wrapped(*args: Any) -> Any:
        value, grads = both(*args)
        return (grads, value[1]) if has_aux else grads

    return wrapped


def hvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """(∂²f/∂x²)·v for a scalar f, forward over reverse; a tuple when there are several primals."""
    several = len(primals) > 1
    gradient = grad(f, tuple(range(len(primals))) if several else 0)
    return jvp(gradient, primals, tangents)[1]


# --- whole matrices ---


def _basis(box: Any) -> Iterator[Any]:
    """The unit vectors of the space of `box`."""
    for i in range(box.data.size):
        unit = np.zeros(box.data.size, box.data.dtype)
        unit[i] = 1
        yield as_tensor_like(unit.reshape(box.data.shape), box)


def _stacked(rows: list[Any], before: tuple[int, ...], after: tuple[int, ...], template: Any) -> Any:
    """Tensors of shape `after`, one per element of `before`, as one Tensor of shape before + after."""
    if not rows:
        return zeros((*before, *after), template.data.dtype, template)
    return F.reshape(F.concat([F.reshape(row, (1, *after)) for row in rows], 0), (*before, *after))


def jacrev(f: Function, argnums: int = 0) -> Function:
    """x ↦ J, of shape y.shape + x.shape, a row per element of y by the reverse sweep."""

    def wrapped(*args: Any) -> Any:
        y, pull = vjp(_in_one(f, args, argnums % len(args)), args[argnums])
        _tensors("jacrev", tree.leaves(y))
        rows = [pull(unit)[0] for unit in _basis(y)]
        x = as_tensor(args[argnums])
        return _stacked(rows, y.data.shape, x.data.shape, x)

    return wrapped


def jacfwd(f: Function, argnums: int = 0) -> Function:
    """x ↦ J, of shape y.shape + x.shape, a column per element of x by forward mode."""

    def wrapped(*args: Any) -> Any:
        y, push = linearize(_in_one(f, args, argnums % len(args)), args[argnums])
        _tensors("jacfwd", tree.leaves(y))
        x = as_tensor(args[argnums])
        columns = _stacked([push(unit) for unit in _basis(x)], (x.data.size,), (y.data.size,), y)
        return F.reshape(F.transpose(columns), (*y.data.shape, *x.data.shape))

    return wrapped


def _in_one(f: Function, args: tuple[Any, ...], argnum: int) -> Function:
    """f as a function of its argument `argnum` alone."""
    return lambda x: f(*args[:argnum], x, *args[argnum + 1 :])


def hessian(f: Function, argnums: int = 0) -> Function:
    """x ↦ ∂²f/∂x², of shape x.shape + x.shape, for a scalar f: forward over reverse."""
    return jacfwd(grad(f, argnums), argnums)
