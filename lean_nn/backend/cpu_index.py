"""Between the records that move values by index, dropout and cast, and their kernels.

``index(...)`` gives the two slots of a primitive, ``cpu`` and ``step``; both run the same step, remembered per geometry.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

from lean_nn.backend import cpu_move
from lean_nn.backend.cpu import STEPS
from lean_nn.backend.cpu_reduce import FLOAT64, Cpu, Make, Shape, spans
from lean_nn.primitive import Aval
from lean_nn_c import index as kernels
from lean_nn_c.step import Step

Sizes = tuple[int, int, int, int]  # outer, n, k, inner


def _slots(name: str, which: str, sizes: Callable[..., Sizes]) -> tuple[Cpu, Make]:
    @lru_cache(STEPS)
    def made(wide: bool, x: Shape, idx: Shape, out: Shape, axis: int, ignore: int | None) -> Step:
        return kernels.index_step(name, which, wide, *sizes(x, idx, out, axis), ignore)

    def cpu(x: Any, idx: Any, *, out: Any, axis: int = 0, ignore: int | None = None, **_: Any) -> None:
        made(x.dtype == FLOAT64, x.shape, idx.shape, out.shape, axis, ignore)(x, idx, out)

    def step(x: Aval, idx: Aval, *, out: tuple[Aval], axis: int = 0, ignore: int | None = None, **_: Any) -> Step:
        return made(x.dtype == FLOAT64, x.shape, idx.shape, out[0].shape, axis, ignore)

    return cpu, step


def gather(name: str) -> tuple[Cpu, Make]:
    """Reads along an axis, one index per element of the output."""

    def sizes(x: Shape, idx: Shape, out: Shape, axis: int) -> Sizes:
        outer, n, inner = spans(x, axis)
        return outer, n, idx[axis], inner

    return _slots(name, "gather", sizes)


def scatter_add(name: str) -> tuple[Cpu, Make]:
    """Adds along an axis, one index per element of the data."""

    def sizes(g: Shape, idx: Shape, out: Shape, axis: int) -> Sizes:
        outer, n, inner = spans(out, axis)
        return outer, n, idx[axis], inner

    return _slots(name, "scatter_add", sizes)


def take() -> tuple[Cpu, Make]:
    def sizes(x: Shape, idx: Shape, out: Shape, axis: int) -> Sizes:
        outer, n, inner = spans(x, axis)
        return outer, n, prod(idx), inner

    return _slots("take", "take", sizes)


def take_transpose() -> tuple[Cpu, Make]:
    def sizes(g: Shape, idx: Shape, out: Shape, axis: int) -> Sizes:
        outer, n, inner = spans(out, axis)
        return outer, n, prod(idx), inner

    return _slots("take_transpose", "take_transpose", sizes)


def gather_at() -> tuple[Cpu, Make]:
    return _slots("gather_at", "gather_at", lambda x, idx, out, axis: (prod(x[:2]), prod(x[2:]), prod(idx[2:]), 1))


def scatter_add_at() -> tuple[Cpu, Make]:
    return _slots("scatter_add_at", "scatter_add_at", lambda g, idx, out, axis: (prod(g[:2]), prod(out[2:]), prod(g[2:]), 1))


# --- one element at a time ---

_dropout_step = lru_cache(STEPS)(kernels.dropout_step)


def dropout(x: Any, seed: Any, *, out: Any, p: float) -> None:
    _dropout_step(x.dtype == FLOAT64, x.size, p)(x, seed, out)


def dropout_step(x: Aval, seed: Aval, *, out: tuple[Aval], p: float) -> Step:
    return _dropout_step(x.dtype == FLOAT64, prod(x.shape), p)


@lru_cache(STEPS)
def _cast_step(wide: bool, widens: bool, n: int) -> Step:
    return cpu_move.copy(n, 8 if wide else 4) if wide == widens else kernels.cast_step(wide, n)


def cast(x: Any, *, out: Any, dtype: str) -> None:
    _cast_step(x.dtype == FLOAT64, out.dtype == FLOAT64, x.size)(x, out)


def cast_step(x: Aval, *, out: tuple[Aval], dtype: str) -> Step:
    return _cast_step(x.dtype == FLOAT64, out[0].dtype == FLOAT64, prod(x.shape))
