"""Between the pooling records and their kernels: planes and packed tables."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from lean_nn.backend import cpu_index
from lean_nn.primitive import Aval
from lean_nn.spec.geometry import refused_beta
from lean_nn.window import Bins, Window
from lean_nn_c import pool, pool_average, pool_smooth
from lean_nn_c.step import Step

Shape = tuple[int, ...]

PADDED, REAL, GIVEN = 0, 1, 2  # what the average divides by, in the kernel's numbers


def _is_wide(x: Any) -> bool:
    return bool(x.dtype == np.float64)


def _lengths(shape: Shape, window: Window | Bins) -> tuple[int, int]:
    """Cells of the images and windows over them, all planes together."""
    planes = prod(shape[:2])
    return planes * prod(shape[2:]), planes * prod(window.out_spatial(shape[2:]))


def max_pool_step(x: Aval, *, out: tuple[Aval, ...], window: Window | Bins) -> Step:
    """With winners, where there is a second output, or without."""
    return _max(x, "places" if len(out) > 1 else "", window)


def max_pool_dual(x: Aval, *, moves: tuple[bool, ...], out: tuple[Aval, ...], window: Window | Bins) -> Step:
    """x, ẋ ↦ y, ẏ: the cell that wins gives both, and nobody writes down its place."""
    return _max(x, "tangents", window)


FEW = 4  # cells of windows that lie apart, from which both are read in less time than each winner's tangent is looked up
_looked_up = cpu_index.found(max_pool_step, cpu_index.gather_at())


def _lie_apart(window: Window) -> bool:
    sides = zip(window.kernel, window.stride, window.dilation, strict=True)
    return all(r * (k - 1) < s for k, s, r in sides)


def winners_dual(x: Aval, *, moves: tuple[bool, ...], out: tuple[Aval, Aval], window: Window | Bins) -> Any:
    """x, ẋ ↦ y, winners, ẏ: a look-up at the winners, or a second pass."""
    if isinstance(window, Bins) or prod(window.kernel) > FEW or not _lie_apart(window):
        return _looked_up(x, moves=moves, out=out, window=window)
    find, move = _max(x, "places", window), _max(x, "tangents", window)

    def kernel(x: Any, t: Any, y: Any, idx: Any, dot: Any) -> None:
        find(x, y, idx)
        move(x, t, y, dot)

    return kernel


def _max(x: Aval, beside: str, window: Window | Bins) -> Step:
    return pool.max_step(_is_wide(x), beside, *_lengths(x.shape, window), *window.packed(x.shape[2:]))


def divisor(count_include_pad: bool, divisor_override: int | None) -> tuple[int, float]:
    if divisor_override is None:
        return (PADDED if count_include_pad else REAL), 1.0
    try:
        return GIVEN, float(divisor_override)
    except OverflowError:  # no sum of floats is that large: the quotient is 0 in either type
        return GIVEN, float("inf")


def _average(
    wide: bool, transposed: bool, shape: Shape, window: Window | Bins, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Step:  # fmt: skip
    """The kernel for images of `shape`."""
    by = divisor(count_include_pad, divisor_override)
    return pool_average.average_step(wide, transposed, *_lengths(shape, window), *window.packed(shape[2:]), *by)


def avg_pool_step(x: Aval, *, out: tuple[Aval], **params: Any) -> Step:
    return _average(_is_wide(x), False, x.shape, **params)


def avg_pool_transpose_step(y_bar: Aval, *, out: tuple[Aval], spatial: Shape, **params: Any) -> Step:
    return _average(_is_wide(y_bar), True, out[0].shape, **params)


def smooth(name: str, pooled: int) -> Callable[..., Step]:
    """The ``step`` slot of a primitive of the smooth maximum; argument `pooled` has the images."""

    def blame(*arrays: Any) -> Exception:
        return refused_beta(name, float(arrays[-2]))

    def step(*avals: Aval, out: tuple[Aval], window: Window | Bins) -> Step:
        x = avals[pooled]
        return pool_smooth.smooth_step(name, _is_wide(x), *_lengths(x.shape, window), *window.packed(x.shape[2:]), blame)

    return step
