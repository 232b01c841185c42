"""Sizes that are left open until the program is called: None, or a name to tell several apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Size = int | str | None
STAND_IN = 2  # what shapes are checked with while a size is open


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
