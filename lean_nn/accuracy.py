"""How far a kernel is from the specification, in units of the bound its record states: at most 1 is kept.

The kernel's floats go through the specification as the exact numbers they are: as Fractions where the result is
rational, else as Intervals, which are sure to contain it. So the distance reported is never larger than the true
one, and 0.5 means that half of what the record allows was used.

========================  ===========================================================================
the record's `accuracy`   unit of the distance |ŷ − y|
========================  ===========================================================================
``Exact()``               any difference at all is infinitely far; compared with the spec in the same type
``Ulps(k)``               k units in the last place of y
``Gamma(terms)``          γₙ·prim(|args|), n = terms(*avals, **params)
``Within(bound)``         bound(u, *arrays, **params)
========================  ===========================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lean_nn.primitive import FLOATS, Aval, Exact, Gamma, GraphError, Primitive, Ulps, Within, evaluate
from lean_nn.spec.interval import Interval

__all__ = ["bound_text", "measure"]

Array = NDArray[Any]
Outputs = tuple[Array, ...]
Conversion = Callable[[Any], Any]


def _objects(array: Array, scalar: Conversion) -> Array:
    """An object array of ``scalar(element)``; indices and conditions stay as they are."""
    if array.dtype not in FLOATS:
        return array
    result = np.empty(array.shape, object)
    result.reshape(-1)[:] = [scalar(value) for value in array.reshape(-1)]
    return result


def _spec(prim: Primitive, arrays: tuple[Array, ...], params: Mapping[str, Any], scalar: Conversion) -> Outputs:
    if prim.spec is None:
        raise GraphError(f"{prim.name}: no spec to compare with; got a record without one; give it a `spec` slot")
    result = prim.spec(*[_objects(array, scalar) for array in arrays], **params)
    values = result if prim.outputs > 1 else (result,)
    return tuple(np.asarray(value) for value in values)


def _exactly(value: Any) -> Fraction:
    return Fraction(float(value))


def _enclosed(value: Any) -> Interval:
    return Interval(float(value))


def reference(prim: Primitive, arrays: tuple[Array, ...], params: Mapping[str, Any]) -> Outputs:
    """The exact results as Fractions, or Intervals around them; as floats where neither can be had (NaN, inf)."""
    for scalar in (_exactly, _enclosed):
        try:
            return _spec(prim, arrays, params, scalar)
        except (TypeError, ValueError, OverflowError, ZeroDivisionError):
            continue  # irrational, or undecided on an interval, or not a finite number
    return _spec(prim, arrays, params, float)


def _gap(got: float, wanted: Any) -> float:
    """|got − wanted|, for an Interval the distance to it; 0 for the same infinity or two NaN."""
    lo, hi = (wanted.lo, wanted.hi) if isinstance(wanted, Interval) else (wanted, wanted)
    if not math.isfinite(got):
        same = got in (lo, hi) or (got != got and lo != lo)
        return 0.0 if same or (got > 0 and hi >= _LARGEST) or (got < 0 and lo <= -_LARGEST) else math.inf
    if isinstance(lo, float) and not math.isfinite(lo) and lo == hi:
        return math.inf
    below = float(lo - Fraction(got)) if isinstance(lo, Fraction) else lo - got
    above = float(Fraction(got) - hi) if isinstance(hi, Fraction) else got - hi
    return max(below, above, 0.0) if below == below and above == above else math.inf


_LARGEST = float(np.finfo(np.float32).max)


def _size(wanted: Any) -> float:
    """The largest |y| that `wanted` allows."""
    return max(abs(wanted.lo), abs(wanted.hi)) if isinstance(wanted, Interval) else abs(float(wanted))


def _ulp(size: float, dtype: np.dtype[Any]) -> float:
    if not math.isfinite(size):
        return math.inf
    return float(np.spacing(np.minimum(dtype.type(size), np.finfo(dtype).max)))


def _gamma(n: int, dtype: np.dtype[Any]) -> float:
    unit = float(np.finfo(dtype).eps) / 2
    if n * unit >= 1:
        raise ValueError(f"Gamma: n·u must be below 1; got n = {n} in {dtype}; the case is too long for this type")
    return n * unit / (1 - n * unit)


def _units(
    prim: Primitive, arrays: tuple[Array, ...], params: Mapping[str, Any], exact: Outputs, dtypes: list[np.dtype[Any]]
) -> list[list[float]]:
    """The stated bound of every element of every output."""
    accuracy = prim.accuracy
    if isinstance(accuracy, Ulps):
        return [[accuracy.ulps * _ulp(_size(v), d) for v in y.reshape(-1)] for y, d in zip(exact, dtypes, strict=True)]
    if isinstance(accuracy, Gamma):
        avals = [Aval(array.shape, array.dtype) for array in arrays]
        sizes = reference(prim, tuple(np.abs(a) if a.dtype in FLOATS else a for a in arrays), params)
        gamma = _gamma(accuracy.terms(*avals, **params), dtypes[0])
        tiny = float(np.finfo(dtypes[0]).smallest_subnormal)  # a product may underflow
        return [[gamma * _size(v) + tiny for v in y.reshape(-1)] for y in sizes]
    if isinstance(accuracy, Within):
        with np.errstate(all="ignore"):  # what is not finite is compared as such
            bounds = accuracy.bound(float(np.finfo(dtypes[0]).eps) / 2, *_wide(arrays), **params)
        return [[float(v) for v in np.asarray(b).reshape(-1)] for b in (bounds if prim.outputs > 1 else (bounds,))]
    raise GraphError(f"{prim.name}: no stated accuracy; got {accuracy!r}; give it Exact(), Ulps(k), Gamma or Within")


def _wide(arrays: tuple[Array, ...]) -> list[Array]:
    return [array.astype(np.float64) if array.dtype in FLOATS else array for array in arrays]


def _differs(got: Array, wanted: Array, dtype: np.dtype[Any]) -> bool:
    same = got == wanted.astype(dtype)
    return not bool(np.all(same | ((got != got) & (wanted.astype(dtype) != wanted.astype(dtype)))))


def measure(prim: Primitive, arrays: tuple[Array, ...], params: Mapping[str, Any]) -> float:
    """max |ŷ − y| / bound over all elements of all outputs; inf for a difference where none is allowed."""
    result = evaluate(prim, arrays, dict(params))
    outs: Outputs = result if prim.outputs > 1 else (result,)
    if isinstance(prim.accuracy, Exact):
        floats = next((a.dtype for a in arrays if a.dtype in FLOATS), FLOATS[0])
        wanted = _spec(prim, arrays, params, floats.type)
        differs = any(_differs(got, want, got.dtype) for got, want in zip(outs, wanted, strict=True))
        return math.inf if differs else 0.0
    exact = reference(prim, arrays, params)
    worst = 0.0
    units = _units(prim, arrays, params, exact, [out.dtype for out in outs])
    for got, want, unit in zip(outs, exact, units, strict=True):
        for g, y, u in zip(got.reshape(-1), want.reshape(-1), unit, strict=True):
            gap = _gap(float(g), y)
            worst = max(worst, gap / u if u else (math.inf if gap else 0.0))
    return worst


def bound_text(accuracy: Any) -> str:
    """The bound in words, for `lean-nn check` and docs/numerics.md."""
    if isinstance(accuracy, Exact):
        return "the same bits"
    if isinstance(accuracy, Ulps):
        return f"{accuracy.ulps:g} ulp"
    if isinstance(accuracy, Within):
        return "by value"
    return "γₙ·Σ|terms|" if isinstance(accuracy, Gamma) else "none stated"
