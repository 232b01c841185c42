"""Between the reductions' records and their kernels: sums, extremes, the softmax family, standardisation.

The functions named after a primitive are its ``cpu`` slot, those that end in ``_step`` its ``step`` slot; both run the
same step, which is remembered per geometry.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from lean_nn.backend.cpu import STEPS
from lean_nn.primitive import Aval
from lean_nn_c import reduce
from lean_nn_c.step import Step

Shape = tuple[int, ...]
Cpu = Callable[..., None]
Make = Callable[..., Step]

FLOAT64 = np.dtype(np.float64)


def spans(shape: Shape, axis: int) -> tuple[int, int, int]:
    """(outer, n, inner): the array as lines of n."""
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


# --- sum ---

_sum_step = lru_cache(STEPS)(reduce.sum_step)


def sum(x: Any, *, out: Any, axes: Shape, keepdims: bool) -> None:
    _sum_step(x.dtype == FLOAT64, x.shape, axes)(x, out)


def sum_step(x: Aval, *, out: tuple[Aval], axes: Shape, keepdims: bool) -> Step:
    return _sum_step(x.dtype == FLOAT64, x.shape, axes)


# --- along one axis ---


def _along(make: Callable[[bool, Shape, int], Step]) -> tuple[Cpu, Make]:
    """The two slots of a primitive on lines along one axis; its arguments have one shape."""
    made = lru_cache(STEPS)(make)

    def cpu(*arrays: Any, out: Any, axis: int) -> None:
        step = made(arrays[0].dtype == FLOAT64, arrays[0].shape, axis)
        if type(out) is tuple:
            step(*arrays, *out)
        else:
            step(*arrays, out)

    def step(*avals: Aval, out: tuple[Aval, ...], axis: int) -> Step:
        return made(avals[0].dtype == FLOAT64, avals[0].shape, axis)

    return cpu, step


def extreme(name: str, least: bool) -> tuple[Cpu, Make]:
    return _along(lambda wide, shape, axis: reduce.extreme_step(name, wide, *spans(shape, axis), least))


def soft(name: str) -> tuple[Cpu, Make]:
    return _along(lambda wide, shape, axis: reduce.soft_step(name, wide, *spans(shape, axis)))


def cross(name: str) -> tuple[Cpu, Make]:
    """The same for a loss, whose last argument is one class per line."""

    @lru_cache(STEPS)
    def made(wide: bool, shape: Shape, axis: int, ignore: int, smoothing: float, reduction: str) -> Step:
        return reduce.soft_step(name, wide, *spans(shape, axis), ignore, smoothing, reduction)

    def cpu(*arrays: Any, out: Any, **params: Any) -> None:
        made(arrays[-2].dtype == FLOAT64, arrays[-2].shape, **params)(*arrays, out)

    def step(*avals: Aval, out: tuple[Aval], **params: Any) -> Step:
        return made(avals[-2].dtype == FLOAT64, avals[-2].shape, **params)

    return cpu, step


# --- standardisation ---


def groups(shape: Shape, axes: Shape) -> tuple[int, int, int] | None:
    """(A, G, B): the array as groups G between reduced axes A and B; None where the kept axes are not adjacent."""
    kept = [a for a in range(len(shape)) if a not in axes and shape[a] != 1]
    if not kept:
        return 1, 1, prod(shape)
    first, last = kept[0], kept[-1] + 1
    if any(a in axes and shape[a] != 1 for a in range(first, last)):
        return None
    return prod(shape[:first]), prod(shape[first:last]), prod(shape[last:])


def features(shape: Shape, axes: Shape, own: Shape) -> tuple[int, int] | None:
    """(S, W): element e of the array has the (e div S mod W)-th number of an array of shape `own`; (0, 0) for one per group.

    None where `own` is of neither kind: see `lean_nn.ops.normalize`.
    """
    if own == tuple(1 if a in axes else n for a, n in enumerate(shape)):
        return 0, 0
    sizes = groups(shape, axes)
    given = [a for a, n in enumerate(own) if n != 1]
    if sizes is None or sizes[0] != 1 or len(own) != len(shape):
        return None
    last = given[-1] + 1 if given else len(shape)
    if any(own[a] != shape[a] for a in range(given[0] if given else last, last)):
        return None
    S, W = prod(shape[last:]) if given else sizes[2], prod(own)
    whole = S > 0 and sizes[2] % S == 0 and W > 0 and W % max(sizes[2] // S, 1) == 0
    return (S, W) if whole or prod(shape) == 0 else None


def standard(name: str, reads: str, writes: str, tangents: bool = False) -> tuple[Cpu, Make]:
    """The two slots of a primitive of this family; `reads` and `writes` are its arrays' roles (`reduce.standard_step`)."""
    roles, outputs = (*reads.split(), *writes.split()), len(writes.split())
    factor = roles.index("w") if "w" in roles else None

    @lru_cache(STEPS)
    def made(wide: bool, shape: Shape, own: Shape | None, axes: Shape, eps: float) -> Step:
        sizes = groups(shape, axes)
        by = (0, 0) if own is None else features(shape, axes, own)
        if sizes is None or by is None:
            raise ValueError(f"{name}: the kept axes are adjacent; got axes {axes} of shape {shape}; transpose it first")
        return reduce.standard_step(name, wide, roles, outputs, *sizes, eps, tangents, *by)

    def step_for(arrays: tuple[Any, ...], axes: Shape, eps: float) -> Step:
        own = None if factor is None else arrays[factor].shape
        return made(arrays[0].dtype == FLOAT64, arrays[0].shape, own, axes, eps)

    def cpu(*arrays: Any, out: Any, axes: Shape, eps: float = 0.0) -> None:
        step = step_for(arrays, axes, eps)
        if outputs > 1:
            step(*arrays, *out)
        else:
            step(*arrays, out)

    def step(*avals: Aval, out: tuple[Aval, ...], axes: Shape, eps: float = 0.0) -> Step:
        return step_for(avals, axes, eps)

    return cpu, step
