"""Between the pooling records and their kernels: flat planes and packed tables."""

from __future__ import annotations

from math import prod
from typing import Any

from lean_nn.spec.geometry import check_beta
from lean_nn.window import Bins, Window
from lean_nn_c import pool, pool_average, pool_smooth

PADDED, REAL, GIVEN = 0, 1, 2  # what the average divides by, in the kernel's numbers


def _flat(x: Any) -> Any:
    return x.reshape(-1)


def max_pool(x: Any, *, out: tuple[Any, Any], window: Window | Bins) -> None:
    pool.max_pool(_flat(x), _flat(out[0]), _flat(out[1]), *window.packed(x.shape[2:]))


def max_pool_value(x: Any, *, out: Any, window: Window | Bins) -> None:
    pool.max_pool(_flat(x), _flat(out), None, *window.packed(x.shape[2:]))


def gather_at(x: Any, idx: Any, *, out: Any) -> None:
    pool.gather_at(_flat(x), _flat(idx), _flat(out), prod(x.shape[:2]))


def scatter_add_at(y_bar: Any, idx: Any, *, out: Any, spatial: tuple[int, ...]) -> None:
    pool.scatter_add_at(_flat(y_bar), _flat(idx), _flat(out), prod(y_bar.shape[:2]))


def _divisor(count_include_pad: bool, divisor_override: int | None) -> tuple[int, float]:
    if divisor_override is None:
        return (PADDED if count_include_pad else REAL), 1.0
    try:
        return GIVEN, float(divisor_override)
    except OverflowError:  # no sum of floats is that large: the quotient is 0 in either type
        return GIVEN, float("inf")


def avg_pool(
    x: Any, *, out: Any, window: Window | Bins, count_include_pad: bool = True, divisor_override: int | None = None
) -> None:
    by = _divisor(count_include_pad, divisor_override)
    pool_average.avg_pool(_flat(x), _flat(out), *window.packed(x.shape[2:]), *by)


def avg_pool_transpose(
    y_bar: Any,
    *,
    out: Any,
    spatial: tuple[int, ...],
    window: Window | Bins,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> None:
    by = _divisor(count_include_pad, divisor_override)
    pool_average.avg_pool_transpose(_flat(y_bar), _flat(out), *window.packed(spatial), *by)


def _beta(op: str, beta: Any) -> float:
    value = float(beta.item())
    check_beta(op, value)
    return value


def smooth_max_pool(x: Any, beta: Any, *, out: Any, window: Window | Bins) -> None:
    b = _beta("smooth_max_pool", beta)
    pool_smooth.smooth_max_pool(_flat(x), _flat(out), *window.packed(x.shape[2:]), b)


def smooth_gather(t: Any, x: Any, beta: Any, *, out: Any, window: Window | Bins) -> None:
    b = _beta("smooth_gather", beta)
    pool_smooth.smooth_gather(_flat(t), _flat(x), _flat(out), *window.packed(x.shape[2:]), b)


def smooth_scatter(g: Any, x: Any, beta: Any, *, out: Any, window: Window | Bins) -> None:
    b = _beta("smooth_scatter", beta)
    pool_smooth.smooth_scatter(_flat(g), _flat(x), _flat(out), *window.packed(x.shape[2:]), b)
