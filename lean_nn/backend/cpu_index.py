"""Between the records that move values by index, dropout and cast, and their kernels: their ``step`` slots."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from lean_nn.backend import cpu_move
from lean_nn.backend.cpu_reduce import FLOAT64, Make, Shape, spans
from lean_nn.primitive import Aval
from lean_nn_c import index as kernels
from lean_nn_c.step import Step

Sizes = tuple[int, int, int, int]  # outer, n, k, inner


def _slot(name: str, which: str, sizes: Callable[..., Sizes]) -> Make:
    def step(x: Aval, idx: Aval, *, out: tuple[Aval], axis: int = 0, ignore: int | None = None, **_: Any) -> Step:
        return kernels.index_step(name, which, x.dtype == FLOAT64, *sizes(x.shape, idx.shape, out[0].shape, axis), ignore)

    return step


def gather(name: str) -> Make:
    """Reads along an axis, one index per element of the output."""

    def sizes(x: Shape, idx: Shape, out: Shape, axis: int) -> Sizes:
        outer, n, inner = spans(x, axis)
        return outer, n, idx[axis], inner

    return _slot(name, "gather", sizes)


def scatter_add(name: str) -> Make:
    """Adds along an axis, one index per element of the data."""

    def sizes(g: Shape, idx: Shape, out: Shape, axis: int) -> Sizes:
        outer, n, inner = spans(out, axis)
        return outer, n, idx[axis], inner

    return _slot(name, "scatter_add", sizes)


def take() -> Make:
    def sizes(x: Shape, idx: Shape, out: Shape, axis: int) -> Sizes:
        outer, n, inner = spans(x, axis)
        return outer, n, prod(idx), inner

    return _slot("take", "take", sizes)


def take_transpose() -> Make:
    def sizes(g: Shape, idx: Shape, out: Shape, axis: int) -> Sizes:
        outer, n, inner = spans(out, axis)
        return outer, n, prod(idx), inner

    return _slot("take_transpose", "take_transpose", sizes)


def gather_at() -> Make:
    return _slot("gather_at", "gather_at", lambda x, idx, out, axis: (prod(x[:2]), prod(x[2:]), prod(idx[2:]), 1))


def scatter_add_at() -> Make:
    return _slot("scatter_add_at", "scatter_add_at", lambda g, idx, out, axis: (prod(g[:2]), prod(out[2:]), prod(g[2:]), 1))


# --- duals: the tangent is looked up where the value was found, as the rule does ---


def at_extremes() -> Make:
    """Reads one element of each line along an axis, which the index lacks."""

    def sizes(x: Shape, idx: Shape, out: Shape, axis: int) -> Sizes:
        outer, n, inner = spans(x, axis)
        return outer, n, 1, inner

    return _slot("gather", "gather", sizes)


def found(value: Make, look: Make) -> Callable[..., Any]:
    """The ``dual`` slot of a primitive that gives values and their places."""

    def dual(x: Aval, *, moves: tuple[bool], out: tuple[Aval, Aval], **params: Any) -> Any:
        find, fetch = value(x, out=out, **params), look(x, out[1], out=out[:1], **params)

        def kernel(x: Any, t: Any, y: Any, idx: Any, dot: Any) -> None:
            find(x, y, idx)
            fetch(t, idx, dot)

        return kernel

    return dual


# --- one element at a time ---


def dropout_step(x: Aval, seed: Aval, *, out: tuple[Aval], p: float) -> Step:
    return kernels.dropout_step(x.dtype == FLOAT64, prod(x.shape), p)


def cast_step(x: Aval, *, out: tuple[Aval], dtype: str) -> Step:
    if x.dtype == out[0].dtype:
        return cpu_move.copy(prod(x.shape), x.dtype.itemsize)
    return kernels.cast_step(x.dtype == FLOAT64, prod(x.shape))
