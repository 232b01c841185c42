"""Moving numbers: transpose, slice, concat, pad, flip and broadcasting as boxes of cells.

Each function but `copy` is the ``step`` slot of the primitive it is named after; `lean_nn_c.move` does the copying.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from lean_nn.primitive import Aval
from lean_nn_c.move import move_step
from lean_nn_c.step import Step

Shape = tuple[int, ...]
Out = tuple[Aval]
slice_type = slice  # the builtin; the step below takes its name


def _steps(aval: Aval) -> list[int]:
    """Bytes between neighbours on each axis of a contiguous array."""
    steps, size = [], aval.dtype.itemsize
    for n in reversed(aval.shape):
        steps.append(size)
        size *= n
    return steps[::-1]


def _move(sizes: Shape, source: list[int], target: list[int], begin: int = 0, to: int = 0, number: int = 0) -> Any:
    """One box for `move_step`: the last axis, the target's fastest, first."""
    return number, begin, to, list(zip(sizes, source, target, strict=True))[::-1]


def slice_keys(start: Shape, size: Shape, step: Shape) -> tuple[slice_type, ...]:
    """NumPy's spelling of a slice; a negative step that ends before cell 0 has no stop."""
    stops = [first + n * by for first, n, by in zip(start, size, step, strict=True)]
    return tuple(
        slice_type(first, None if stop < 0 else stop, by) for first, stop, by in zip(start, stops, step, strict=True)
    )


def _step(name: str, sources: tuple[Aval, ...], out: Aval, moves: list[Any], fill: Any = None) -> Step:
    value = None if fill is None else np.array(fill, out.dtype).tobytes()
    cells = tuple(prod(aval.shape) for aval in sources)
    return move_step(name, cells, out.dtype.itemsize, prod(out.shape), moves, value)


def copy(cells: int, item: int) -> Step:
    """`cells` of `item` bytes each, as they are."""
    return move_step("copy", (cells,), item, cells, [(0, 0, 0, [(cells, item, item)])])


def transpose(x: Aval, *, out: Out, axes: Shape) -> Step:
    own = _steps(x)
    return _step("transpose", (x,), out[0], [_move(out[0].shape, [own[a] for a in axes], _steps(out[0]))])


def broadcast_to(x: Aval, *, out: Out, shape: Shape) -> Step:
    lead = len(shape) - len(x.shape)
    own = [0] * lead + [0 if n == 1 else step for n, step in zip(x.shape, _steps(x), strict=True)]
    return _step("broadcast_to", (x,), out[0], [_move(shape, own, _steps(out[0]))])


def slice(x: Aval, *, out: Out, start: Shape, size: Shape, step: Shape) -> Step:
    own = _steps(x)
    begin = sum(first * by for first, by in zip(start, own, strict=True))
    return _step("slice", (x,), out[0], [_move(size, [a * b for a, b in zip(own, step, strict=True)], _steps(out[0]), begin)])


def unslice(g: Aval, *, out: Out, start: Shape, step: Shape, shape: Shape) -> Step:
    target = _steps(out[0])
    to = sum(first * by for first, by in zip(start, target, strict=True))
    box = _move(g.shape, _steps(g), [a * b for a, b in zip(target, step, strict=True)], 0, to)
    return _step("unslice", (g,), out[0], [box], 0)


def pad(x: Aval, *, out: Out, padding: tuple[tuple[int, int], ...], value: float) -> Step:
    target = _steps(out[0])
    to = sum(before * by for (before, _), by in zip(padding, target, strict=True))
    return _step("pad", (x,), out[0], [_move(x.shape, _steps(x), target, 0, to)], value)


def flip(x: Aval, *, out: Out, axes: Shape) -> Step:
    own = _steps(x)
    begin = sum((x.shape[a] - 1) * own[a] for a in axes) if prod(x.shape) else 0
    turned = [-by if a in axes else by for a, by in enumerate(own)]
    return _step("flip", (x,), out[0], [_move(x.shape, turned, _steps(out[0]), begin)])


def concat(*parts: Aval, out: Out, axis: int) -> Step:
    target, moves, to = _steps(out[0]), [], 0
    for i, part in enumerate(parts):
        moves.append(_move(part.shape, _steps(part), target, 0, to, i))
        to += part.shape[axis] * target[axis]
    return _step("concat", parts, out[0], moves)
