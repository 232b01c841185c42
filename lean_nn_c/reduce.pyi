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
    x: _Array, w: _Array | None, b: _Array | None, y: _Array, mean: _Array, rstd: _Array, A: int, G: int, B: int, eps: float
) -> None: ...
def standardize_slope(
    t: _Array,
    x: _Array,
    mean: _Array | None,
    rstd: _Array,
    w: _Array | None,
    g_mean: _Array | None,
    g_rstd: _Array | None,
    out: _Array,
    first: _Array | None,
    second: _Array | None,
    tangents: bool,
    A: int,
    G: int,
    B: int,
) -> None: ...
