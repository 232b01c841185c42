"""Max and average pooling: arrays ``(N, C, *S)``, windows strided (`Window`) or adaptive (`Bins`).

**Maximum.** y[p] = x[w(p)], w(p) the first largest cell of window p. Where x moves a little the winners stay, so
pooling is the gather ``y = x[w]`` with w fixed, linear; its transpose is the scatter ``x̄[j] = Σ ȳ[p] over w(p) = j``:

    max_pool → (y, idx)    tangent: gather_at(t, idx)    cotangent: scatter_add_at(g, idx)

The winners are an output, not hidden state, and the pair {gather_at, scatter_add_at} is closed, so all orders follow.
`scatter_add_at` takes any indices; where they are winners, `window` says of which windows, and a backend that gathers
(CUDA) looks at those alone.
`max_pool_value` is the same maximum without the winners, for when nobody differentiates; its rules find them again. Its dual
takes value and tangent from the cell that wins, so forward mode alone needs no winners either.

**Average.** y = A x, with A[p, j] = 1/divisor(p) for the cells j of window p: linear, and Aᵀ is `avg_pool_transpose`.

Smooth maximum: ``smooth_pool.py``.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from lean_nn import spec
from lean_nn.backend import cpu_index, cpu_pool
from lean_nn.primitive import NONDIFF, Aval, Exact, Gamma, Primitive, check_float, check_index, meaning, primitive
from lean_nn.spec.geometry import bad, check_divisor, check_elements, check_same_shape
from lean_nn.window import CACHED, Bins, Window

INT64 = np.dtype(np.int64)
Shape = tuple[int, ...]


@lru_cache(CACHED)
def pooled(op: str, shape: Shape, window: Window | Bins) -> Shape:
    """``(N, C, *P)``: the shape that pooling makes of ``(N, C, *S)``, or its error."""
    if len(shape) != window.rank + 2:
        rule = f"input must be (batch, channels, *spatial) with {window.rank} spatial axes"
        raise bad(op, rule, f"shape {shape}", "reshape it or change the kernel")
    out = (*shape[:2], *window.out_spatial(shape[2:], op))
    check_elements(op, out)
    return out


# --- maximum ---


def _value_abstract(x: Aval, *, window: Window | Bins) -> Aval:
    check_float("max_pool", x)
    return Aval(pooled("max_pool", x.shape, window), x.dtype)


def _max_abstract(x: Aval, *, window: Window | Bins) -> tuple[Aval, Aval]:
    y = _value_abstract(x, window=window)
    return y, Aval(y.shape, INT64)


def _check_places(op: str, shape: Shape, idx: Aval) -> None:
    check_index(op, idx)
    if len(shape) < 2 or len(idx.shape) < 2 or shape[:2] != idx.shape[:2]:
        got = f"{shape} and {idx.shape}"
        raise bad(op, "array and index must share (batch, channels)", got, "use the index of this input")


def _gather_abstract(x: Aval, idx: Aval) -> Aval:
    check_float("gather_at", x)
    _check_places("gather_at", x.shape, idx)
    return Aval(idx.shape, x.dtype)


def _scatter_abstract(y_bar: Aval, idx: Aval, *, spatial: Shape, window: Window | Bins | None = None) -> Aval:
    check_float("scatter_add_at", y_bar)
    check_same_shape("scatter_add_at", "index", idx.shape, y_bar.shape)
    shape = (*y_bar.shape[:2], *spatial)
    _check_places("scatter_add_at", shape, idx)
    check_elements("scatter_add_at", shape)
    if window is not None:
        check_same_shape("scatter_add_at", "cotangent", y_bar.shape, pooled("scatter_add_at", shape, window))
    return Aval(shape, y_bar.dtype)


def _scatter_spec(y_bar: Any, idx: Any, *, spatial: Shape, window: Window | Bins | None = None) -> Any:
    return spec.scatter_add_at(y_bar, idx, spatial=spatial)


max_pool: Primitive = primitive(
    "max_pool",
    abstract=_max_abstract,
    spec=meaning("max_pool"),
    step=cpu_pool.max_pool_step,
    dual=cpu_pool.winners_dual,
    jvp=(lambda t, y, x, *, window: (gather_at(t, y[1]), None),),
    vjp=(lambda g, y, x, *, window: scatter_add_at(g[0], y[1], spatial=x.shape[2:], window=window),),
    differentiable_out=(True, False),
    saves_output=True,
    accuracy=Exact(),
)

max_pool_value: Primitive = primitive(
    "max_pool_value",
    abstract=_value_abstract,
    spec=lambda x, *, window: spec.max_pool(x, window=window)[0],
    step=cpu_pool.max_pool_step,
    dual=cpu_pool.max_pool_dual,
    jvp=(lambda t, y, x, *, window: gather_at(t, max_pool(x, window=window)[1]),),
    vjp=(lambda g, y, x, *, window: scatter_add_at(g, max_pool(x, window=window)[1], spatial=x.shape[2:], window=window),),
    accuracy=Exact(),
)

_gather_step = cpu_index.gather_at()
_scatter_step = cpu_index.scatter_add_at()

gather_at: Primitive = primitive(
    "gather_at",
    abstract=_gather_abstract,
    spec=meaning("gather_at"),
    step=_gather_step,
    checks_values=True,
    linear=(0,),
    jvp=(None, NONDIFF),
    vjp=(lambda g, y, x, idx: scatter_add_at(g, idx, spatial=x.shape[2:]), NONDIFF),
    accuracy=Exact(),
)

scatter_add_at: Primitive = primitive(
    "scatter_add_at",
    abstract=_scatter_abstract,
    spec=_scatter_spec,
    step=_scatter_step,
    checks_values=True,
    linear=(0,),
    jvp=(None, NONDIFF),
    vjp=(lambda h, y, y_bar, idx, *, spatial, window=None: gather_at(h, idx), NONDIFF),
    accuracy=Exact(),
)

# --- average ---


def _average_abstract(
    x: Aval, *, window: Window | Bins, count_include_pad: bool = True, divisor_override: int | None = None
) -> Aval:
    check_float("avg_pool", x)
    check_divisor("avg_pool", divisor_override)
    return Aval(pooled("avg_pool", x.shape, window), x.dtype)


def _transpose_abstract(
    y_bar: Aval,
    *,
    spatial: Shape,
    window: Window | Bins,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Aval:
    op = "avg_pool_transpose"
    check_float(op, y_bar)
    check_divisor(op, divisor_override)
    shape = (*y_bar.shape[:2], *spatial)
    check_same_shape(op, "cotangent", y_bar.shape, pooled(op, shape, window))
    check_elements(op, shape)
    return Aval(shape, y_bar.dtype)


def largest_window(spatial: Shape, window: Window | Bins) -> int:
    """Cells of the largest window."""
    return prod(t.kernel for t in window.tables(spatial))


def largest_cover(spatial: Shape, window: Window | Bins) -> int:
    """An upper bound for the windows that share a cell."""
    return prod(max((t.high - t.low).tolist(), default=0) for t in window.tables(spatial))


avg_pool: Primitive = primitive(
    "avg_pool",
    abstract=_average_abstract,
    spec=meaning("avg_pool"),
    step=cpu_pool.avg_pool_step,
    linear=(0,),
    vjp=(lambda g, y, x, **params: avg_pool_transpose(g, spatial=x.shape[2:], **params),),
    accuracy=Gamma(lambda x, *, window, **by: largest_window(x.shape[2:], window) + 2, "cells of a window + 2"),
)

avg_pool_transpose: Primitive = primitive(
    "avg_pool_transpose",
    abstract=_transpose_abstract,
    spec=meaning("avg_pool_transpose"),
    step=cpu_pool.avg_pool_transpose_step,
    linear=(0,),
    vjp=(lambda h, y, y_bar, *, spatial, **params: avg_pool(h, **params),),
    accuracy=Gamma(
        lambda y_bar, *, spatial, window, **by: largest_cover(spatial, window) + 2, "windows over a cell + 2"
    ),
)
