"""The seeds' ``Spec.Private``: one window at a time, by coordinates (symmetric padding, no dilation)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from . import geometry, pool, smooth_pool
from .container import Array, ArrayLike, as_array, build
from .geometry import Ints, check_same_shape, indices
from .scalar import Scalar
from .windows import Cells, as_strided

T = TypeVar("T")


def tensor_of_dims(dims: Sequence[int], f: Callable[[Ints], Scalar]) -> Array:
    """``out[i] = f(i)``: the array of shape ``dims`` with these entries."""
    return build(dims, f)


def foldl_indices(dims: Sequence[int], init: T, f: Callable[[T, Ints], T]) -> T:
    """``f(… f(f(init, i₀), i₁) …)`` over all index tuples, row-major."""
    value = init
    for i in indices(dims):
        value = f(value, i)
    return value


def padded_coords(out_idxs: Sequence[int], win_idxs: Sequence[int], stride: Sequence[int]) -> Ints | None:
    """``p·s + k`` per axis; None when the lists have different lengths."""
    if not len(out_idxs) == len(win_idxs) == len(stride):
        return None
    return geometry.padded_coords(tuple(out_idxs), tuple(win_idxs), tuple(stride))


def unpad_coords(padded: Sequence[int], padding: Sequence[int]) -> Ints | None:
    """``padded − padding`` per axis; None before the input, or when the lists have different lengths."""
    if len(padded) != len(padding):
        return None
    return geometry.unpad_coords(tuple(padded), tuple(padding))


def get_padded_max_input_val(
    input: ArrayLike,
    out_idxs: Sequence[int],
    win_idxs: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
) -> Scalar | None:
    """The cell under the window, or None in the padding: never a candidate."""
    x = as_array(input)
    padded = padded_coords(out_idxs, win_idxs, stride)
    if padded is None:
        return None
    q = geometry.unpad_coords(padded, tuple(padding), x.shape)
    return None if q is None else x[q]


def get_padded_average_input_val(
    input: ArrayLike,
    out_idxs: Sequence[int],
    win_idxs: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
) -> Scalar:
    """The cell under the window, or 0 in the padding."""
    value = get_padded_max_input_val(input, out_idxs, win_idxs, stride, padding)
    return 0 if value is None else value


def _cells(op: str, x: Array, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]) -> Cells:
    return Cells(op, as_strided(op, kernel, tuple(stride), tuple(padding)), x.shape)


def max_pool_value(
    input: ArrayLike,
    out_idxs: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
) -> Scalar:
    """The maximum of one window, 0 without real cell."""
    return max_pool_jvp_value(input, input, out_idxs, kernel, stride, padding)


def max_pool_jvp_value(
    input: ArrayLike,
    tangent: ArrayLike,
    out_idxs: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
) -> Scalar:
    """The tangent at one window's winner, 0 without real cell."""
    x, t = as_array(input), as_array(tangent)
    check_same_shape("max_pool", "tangent", t.shape, x.shape)
    q = pool.winner(x, (), _cells("max_pool", x, kernel, stride, padding), tuple(out_idxs))
    return 0 if q is None else t[q]


def avg_pool_value(
    input: ArrayLike,
    out_idxs: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
) -> Scalar:
    """``Σ x̃ / Πk`` of one window."""
    x = as_array(input)
    cells = _cells("avg_pool", x, kernel, stride, padding)
    p = tuple(out_idxs)
    return sum(x[q] for q in cells.real(p)) / pool.divisor(cells, p)


def smooth_max_pool_value(
    beta: Scalar,
    input: ArrayLike,
    out_idxs: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
) -> Scalar:
    """``(1/β)·log Σ exp(β·x̃)`` of one window."""
    x = as_array(input)
    cells = _cells("smooth_max_pool", x, kernel, stride, padding)
    b = smooth_pool.beta_scalar("smooth_max_pool", beta)
    return smooth_pool.smooth_value(smooth_pool.window_values(x, (), cells, tuple(out_idxs)), b)


def smooth_max_pool_jvp_value(
    beta: Scalar,
    input: ArrayLike,
    tangent: ArrayLike,
    out_idxs: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
) -> Scalar:
    """``Σ softmax(β·x̃)·ẋ`` of one window."""
    x, t = as_array(input), as_array(tangent)
    check_same_shape("smooth_max_pool", "tangent", t.shape, x.shape)
    cells = _cells("smooth_max_pool", x, kernel, stride, padding)
    b = smooth_pool.beta_scalar("smooth_max_pool", beta)
    return sum(w * t[q] for q, w in smooth_pool.window_weights(x, (), cells, tuple(out_idxs), b))
