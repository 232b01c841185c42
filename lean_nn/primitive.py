"""The spine: what a primitive is, where it is found, and how a value is computed from it.

One record per primitive::

    exp = primitive(
        "exp",
        abstract=same_shape,              # shapes and dtypes, and the only place that raises for them
        spec=spec.exp,                    # what it means, on object arrays of any scalar
        step=kernel,                      # how fast: what computes arrays of these shapes
        jvp=(lambda t, y, x: mul(t, y),), # one rule per argument, made of primitives only
        vjp=(lambda g, y, x: mul(g, y),),
        saves_output=True,                # the rules use y
        accuracy=Ulps(2),                 # what the kernel promises against the spec
    )

Arrays are positional, parameters keyword-only and hashable. Calling the record applies it (`bind`, in
``lean_nn_c/engine.pyx``, which also explains recording and the reverse sweep).

The rules of one argument, forward and reverse, have the same form::

    jvp[i](t, y, *args, **params)     the change of the output(s) when argument i moves by t
    vjp[i](g, y, *args, **params)     what argument i gets when the output(s) are weighted by g

Where several arguments share work, ``Joint(rule)`` serves them together, in either place. ``Gate(prim)`` is a rule that is one
elementwise primitive, prim(t, x), or prim(t, y) with ``by_output``.

`y` is the output (None unless `saves_output`); with several outputs `g`, `y` and the result of a forward
rule are tuples. ``linear=(0, 1)`` says that the primitive is linear in these arguments one at a time: their
forward rule is the primitive itself with the argument replaced. A primitive that only looks at its argument
in another way (reshape) has ``view(*arrays, **params)`` instead of kernels. ``lane`` is a kernel that the
engine may call itself for the commonest case, one float type and equal shapes. ``pointwise``, the names of its
numbers, says that element i of the output depends on element i of the arguments alone (broadcast to its shape), so
that it may be written over one of them. ``step(*avals, out=avals, **params)`` is the kernel with its geometry read
once (`lean_nn_c.step`), which eager code remembers and compiled programs run alone; where there is none, in a primitive of
your own, ``cpu(*arrays, out=outputs, **params)`` writes into the outputs it is given. ``checks_values`` says that the kernel
looks at the numbers and may refuse them (an index, say), so a program changes nothing of the caller's before it has run.
``dual(*avals, moves=…, out=avals, **params)``, where forward mode would read memory twice, is a kernel for value and tangents
together: on the arguments, the tangents of those that move, the outputs and the tangents of the differentiable ones, with the
bits of value and rule; None where it has none for these (`lean_nn.autodiff.dual`).
``NONDIFF`` marks an argument without a derivative. A rule that is missing is an error when it is needed, never zero.
"""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np

from lean_nn_c.engine import NONDIFF, GraphError, Primitive
from lean_nn_c.sweep import Gate, Joint

__all__ = [
    "NONDIFF", "Aval", "Backend", "Exact", "Gamma", "Gate", "GraphError", "Joint", "Primitive", "Ulps", "Within",
    "check_same_float", "evaluate", "get", "meaning", "primitive", "register_backend", "registry",
]

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
OBJECT = np.dtype(object)


class Aval(NamedTuple):
    """What is known of an array before it exists."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


# --- what a kernel promises against the spec ---


class Exact:
    """The same bits as the spec evaluated in the same type."""


class Ulps(NamedTuple):
    """Within `ulps` units in the last place of the exact result."""

    ulps: float


class Gamma(NamedTuple):
    """|ŷ − y| ≤ γₙ·prim(|args|), γₙ = n·u/(1 − n·u): a sum of products in any fixed order.

    `terms(*avals, **params)` is n, the number of roundings an output can collect; `n` says it in words.
    """

    terms: Callable[..., int]
    n: str = ""


class Within(NamedTuple):
    """|ŷ − y| ≤ bound, element by element, where the bound follows from the values.

    `bound(u, *arrays, **params)` gives one float64 array per output (a lone one for one output); u is the unit
    roundoff of the arrays' type.
    """

    bound: Callable[..., Any]


# --- the registry ---

registry: dict[str, Primitive] = {}


def primitive(name: str, *, abstract: Callable[..., Any], **fields: Any) -> Primitive:
    """Make a record and enter it in the registry."""
    if name in registry:
        raise ValueError(f"primitive: names are unique; got {name!r} twice; choose another")
    record = registry[name] = Primitive(name, abstract=abstract, **fields)
    return record


def get(name: str) -> Primitive:
    """The record called `name`."""
    try:
        return registry[name]
    except KeyError:
        raise KeyError(f"primitive: {name!r} is not registered; got a name not in lean_nn.primitive.registry") from None


def meaning(name: str) -> Callable[..., Any]:
    """``spec.<name>``, looked up when it is called: what runs on kernels alone never imports the specification."""

    def evaluated(*args: Any, **params: Any) -> Any:
        from lean_nn import spec

        return getattr(spec, name)(*args, **params)

    return evaluated


copyreg.pickle(Primitive, lambda prim: (get, (prim.name,)))  # by name, as functions are


# --- backends: the type of the data decides ---


class Backend(Protocol):
    """Computes a primitive on one kind of array."""

    name: str

    def claims(self, arrays: tuple[Any, ...]) -> bool:
        """Whether this backend's kind of array is among `arrays`."""

    def run(self, prim: Primitive, arrays: tuple[Any, ...], avals: tuple[Aval, ...], params: dict[str, Any]) -> Any:
        """Allocate the outputs, compute, return them (one array, or a tuple)."""


_backends: list[Backend] = []


def register_backend(backend: Backend) -> None:
    """Add a backend; the last one registered that claims the arrays computes them."""
    _backends.insert(0, backend)
    for prim in registry.values():
        prim.plans.clear()
        prim.duals.clear()


def evaluate(prim: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """The value of `prim` on `arrays`: shapes first, then the backend that the data's type names."""
    avals = _outputs(prim, [Aval(a.shape, a.dtype) for a in arrays], params)
    return _backend_of(prim, arrays).run(prim, arrays, avals, params)


def plan(prim: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, Any]:
    """What `evaluate` does with all arrays like these: (avals of the outputs, a kernel on inputs and outputs).

    For a view (None, the function of the inputs); (None, None) where the backend makes no plans.
    """
    avals = [Aval(a.shape, a.dtype) for a in arrays]
    outs = _outputs(prim, avals, params)
    planner = getattr(_backend_of(prim, arrays), "plan", None)
    return (None, None) if planner is None else planner(prim, avals, outs, params)


def _outputs(prim: Primitive, avals: list[Aval], params: dict[str, Any]) -> tuple[Aval, ...]:
    """What is known of the outputs; raises where the arguments do not fit the primitive, or the outputs memory."""
    out = prim.abstract(*avals, **params)
    outs = (out,) if isinstance(out, Aval) else tuple(out)
    for aval in outs:
        if not addressable(aval):
            raise ValueError(f"{prim.name}: the output fits into memory's address range; got shape {aval.shape} "
                             f"of {aval.dtype}; make it smaller")
    return outs


def addressable(aval: Aval) -> bool:
    """Whether NumPy takes such an array: its bytes can be counted, also those along axes beside an empty one."""
    return prod(n for n in aval.shape if n) * aval.dtype.itemsize <= sys.maxsize


def _backend_of(prim: Primitive, arrays: tuple[Any, ...]) -> Backend:
    for backend in _backends:
        if backend.claims(arrays):
            return backend
    kinds = sorted({type(a).__name__ for a in arrays})
    raise TypeError(f"{prim.name}: no backend for such arrays; got {kinds}; pass NumPy arrays or Tensors")


def comparable(prim: Primitive) -> bool:
    """Whether a kernel of its own stands beside a meaning: a view has none."""
    return prim.view is None and (prim.step is not None or prim.cpu is not None) and prim.spec is not None


def missing_kernel(prim: Primitive, backend: str) -> GraphError:
    """The error for a slot that is empty: named, never a silent fallback."""
    return GraphError(f"{prim.name}: no {backend} kernel; got data that needs one; give the primitive a `{backend}` slot")


# --- dtypes: one rule, one wording ---


def check_float(op: str, aval: Aval) -> None:
    """Raise unless the array is float32, float64 or of exact objects."""
    if aval.dtype not in FLOATS and aval.dtype != OBJECT:
        raise TypeError(
            f"{op}: float32, float64 or object data is needed; got {aval.dtype}; convert with .astype('float32')"
        )


def check_same_float(op: str, *avals: Aval) -> np.dtype[Any]:
    """Raise unless all arrays are of one float type (or all of objects); returns it."""
    for aval in avals:
        check_float(op, aval)
    if len({aval.dtype for aval in avals}) > 1:
        got = ", ".join(str(aval.dtype) for aval in avals)
        raise TypeError(f"{op}: arguments of one dtype are needed; got {got}; convert one with .astype(...)")
    return avals[0].dtype


def check_index(op: str, aval: Aval) -> None:
    """Raise unless the array is int64."""
    if aval.dtype != np.dtype(np.int64):
        raise TypeError(f"{op}: indices are int64; got {aval.dtype}; convert with .astype('int64')")
