from typing import Any

import numpy as np

_Array = np.ndarray[Any, Any]

def roundings(n: int) -> int: ...
def sum_roundings(shape: tuple[int, ...], axes: tuple[int, ...]) -> int: ...
def sum(x: _Array, out: _Array, axes: tuple[int, ...]) -> None: ...
def extreme(x: _Array, y: _Array, idx: _Array, outer: int, n: int, inner: int, least: bool) -> None: ...
def logsumexp(x: _Array, out: _Array, outer: int, n: int, inner: int) -> None: ...
def softmax(x: _Array, out: _Array, outer: int, n: int, inner: int) -> None: ...
def log_softmax(x: _Array, out: _Array, outer: int, n: int, inner: int) -> None: ...
def standardize(
    x: _Array, z: _Array, mean: _Array, rstd: _Array, A: int, G: int, B: int, eps: float
) -> None: ...
def standardize_tangent(
    t: _Array,
    z: _Array,
    rstd: _Array,
    z_dot: _Array,
    mean_dot: _Array,
    rstd_dot: _Array,
    A: int,
    G: int,
    B: int,
) -> None: ...
def standardize_transpose(
    g_z: _Array,
    g_mean: _Array,
    g_rstd: _Array,
    z: _Array,
    rstd: _Array,
    x_bar: _Array,
    A: int,
    G: int,
    B: int,
) -> None: ...
