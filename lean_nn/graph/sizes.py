"""Sizes that are left open until the program is called: None, or a name to tell several apart.

In the file of a family a number that follows from open sizes is a polynomial in them, ``{"n": [[2, [0, 1]], [3, []]]}`` for
2·s₀·s₁ + 3: a list of terms, each a whole number and the sizes it is multiplied with. `closed` puts the sizes in.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

Size = int | str | None
STAND_IN = 2  # what shapes are checked with while a size is open
DEGREE = 2  # of polynomials in open sizes
LARGEST = 1 << 62  # coefficient of one


def stand_in(size: Size) -> int:
    """A number to check shapes with."""
    return size if isinstance(size, int) else STAND_IN


def is_shape(value: Any) -> bool:
    """Whether an example is a shape: a tuple of sizes."""
    return isinstance(value, tuple) and all(n is None or type(n) in (int, str) for n in value)


def check_sizes(op: str, shape: tuple[Size, ...]) -> tuple[Size, ...]:
    """The shape, or the error for a size that is none."""
    for n in shape:
        if not (n is None or isinstance(n, str) or (isinstance(n, int) and n >= 0)):
            raise ValueError(f"{op}: a size is a number, None or a name; got {n!r} in {shape}; use None for the batch")
    return shape


def match(shapes: Sequence[tuple[Size, ...]], arrays: Sequence[Any], names: Sequence[str]) -> dict[Size, int]:
    """The open sizes that follow from the arrays, or the error for an array that does not fit."""
    found: dict[Size, int] = {}
    if len(shapes) != len(arrays):
        raise ValueError(f"program: {len(shapes)} arrays are needed; got {len(arrays)}; pass {', '.join(map(str, shapes))}")
    for shape, array, name in zip(shapes, arrays, names, strict=True):
        fits = len(shape) == len(array.shape)
        for n, m in zip(shape, array.shape, strict=False):
            fits = fits and (n == m if isinstance(n, int) else found.setdefault(n, m) == m)
        if not fits:
            raise ValueError(f"program: input {name} has shape {shape}; got {tuple(array.shape)}"
                             f"{f' with {found}' if found else ''}; convert it or compile for this shape")
    return found


def shown(sizes: dict[Size, int]) -> str:
    """``None=8``, ``batch=8, width=3``"""
    return ", ".join(f"{name}={n}" for name, n in sizes.items())


def closed(part: Any, sizes: Sequence[int]) -> Any:
    """A description in JSON's types with the open sizes put in: each polynomial is a number."""
    if isinstance(part, list):
        return [closed(inner, sizes) for inner in part]
    if not isinstance(part, dict):
        return part
    if set(part) == {"n"}:
        return _value(part["n"], sizes)
    return {key: closed(inner, sizes) for key, inner in part.items()}


def _value(terms: Any, sizes: Sequence[int]) -> int:
    """The polynomial's value; what is no polynomial is an error."""
    if not isinstance(terms, list) or not 0 < len(terms) <= (1 + len(sizes)) ** DEGREE:
        raise ValueError(f"a number is a sum of products of sizes; got {str(terms)[:60]}")
    total = 0
    for term in terms:
        coefficient, factors = term
        fits = type(coefficient) is int and abs(coefficient) <= LARGEST and isinstance(factors, list) and len(factors) <= DEGREE
        if not fits or not all(type(i) is int and 0 <= i < len(sizes) for i in factors):
            raise ValueError(f"a term is a whole number times at most {DEGREE} of {len(sizes)} open sizes; got {str(term)[:60]}")
        total += coefficient * prod(sizes[i] for i in factors)
    return total
