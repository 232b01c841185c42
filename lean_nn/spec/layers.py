"""The seeds' N-D pooling layers: configurations, output shapes, forward, JVP and backward.

``*_spatial_*`` functions take one plane ``(*S)``, the others channels first ``(C, *S)``. All are adapters:
the one implementation is in ``pool.py`` and ``smooth_pool.py``. `max_pool`, `avg_pool`, `smooth_max_pool` and
their ``_backward`` are the seeds' friendly aliases (a configuration first, then the array).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import pool, smooth_pool
from .container import Array, ArrayLike, as_array
from .geometry import Ints, bad, check_at_least, check_length, out_spatial
from .scalar import Scalar
from .windows import Adaptive, Strided, as_strided

# --- configurations -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _PoolSpec:
    """Kernel sizes, strides and symmetric padding per spatial axis, outermost first."""

    kernel_sizes: Ints
    stride_sizes: Ints
    padding_sizes: Ints

    def __post_init__(self) -> None:
        op = type(self).__name__
        for name in ("kernel_sizes", "stride_sizes", "padding_sizes"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        check_length(op, "stride", self.stride_sizes, len(self.kernel_sizes))
        check_length(op, "padding", self.padding_sizes, len(self.kernel_sizes))
        check_at_least(op, "kernel", self.kernel_sizes, 1)
        check_at_least(op, "stride", self.stride_sizes, 1)
        check_at_least(op, "padding", self.padding_sizes, 0)

    @property
    def window(self) -> Strided:
        """The window that the pooling functions take."""
        return as_strided(type(self).__name__, self.kernel_sizes, self.stride_sizes, self.padding_sizes)


class MaxPoolSpec(_PoolSpec):
    """N-D (smooth) max pooling.

    Examples
    --------
    >>> max_pool(MaxPoolSpec((2,), (2,), (0,)), [[1, 3, 2, 4]]).tolist()
    [[3, 4]]
    """


class AvgPoolSpec(_PoolSpec):
    """N-D average pooling; padding counts as zeros and in the divisor.

    Examples
    --------
    >>> avg_pool(AvgPoolSpec((2,), (2,), (0,)), [[1.0, 3.0, 2.0, 4.0]]).tolist()
    [[2.0, 3.0]]
    """


# --- output shapes ------------------------------------------------------------------------------------------


def pool_out_spatial(in_spatial: Sequence[int], kernel: Sequence[int], stride: Sequence[int]) -> Ints:
    """``(in − k) // stride + 1`` per axis, counted."""
    return pool_out_spatial_pad(in_spatial, kernel, stride, (0,) * len(in_spatial))


def pool_out_spatial_pad(
    in_spatial: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> Ints:
    """``(in + 2·pad − k) // stride + 1`` per axis, counted."""
    w = as_strided("pool", tuple(kernel), tuple(stride), tuple(padding))
    return out_spatial("pool", tuple(in_spatial), w.kernel, w.stride, w.padding, w.dilation)


def pool_out_shape(in_spatial: Sequence[int], kernel: Sequence[int], stride: Sequence[int]) -> Ints:
    """Output shape of one plane, no padding."""
    return pool_out_spatial(in_spatial, kernel, stride)


def pool_multi_out_shape(in_c: int, in_spatial: Sequence[int], kernel: Sequence[int], stride: Sequence[int]) -> Ints:
    """``(C, *out)``: channels are kept, no padding."""
    return (in_c, *pool_out_spatial(in_spatial, kernel, stride))


def pool_out_shape_pad(
    in_spatial: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> Ints:
    """Output shape of one plane with symmetric padding."""
    return pool_out_spatial_pad(in_spatial, kernel, stride, padding)


def pool_multi_out_shape_pad(
    in_c: int,
    in_spatial: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
) -> Ints:
    """``(C, *out)`` with symmetric padding."""
    return (in_c, *pool_out_spatial_pad(in_spatial, kernel, stride, padding))


# --- one plane ----------------------------------------------------------------------------------------------


def _ranked(op: str, x: ArrayLike, layer: Any, lead: int) -> Array:
    """The array, if it has the layer's spatial axes after ``lead`` others."""
    a = as_array(x)
    d = len(layer.window.kernel)
    if a.ndim != d + lead:
        layout = "(channels, *spatial)" if lead else "(*spatial)"
        rule = f"input must be {layout} with {d} spatial axes"
        raise bad(op, rule, f"shape {a.shape}", "reshape it or change the layer")
    return a


def max_pool_spatial_spec(layer: Any, input: ArrayLike) -> Array:
    """``y[p] = max x[q]`` over the real cells of window p of one plane."""
    return pool.max_pool(_ranked("max_pool", input, layer, 0), window=layer.window)[0]


def max_pool_spatial_jvp_spec(layer: Any, input: ArrayLike, tangent: ArrayLike) -> Array:
    """``ẏ[p] = ẋ[winner of p]``."""
    return pool.max_pool_jvp(_ranked("max_pool", input, layer, 0), tangent, window=layer.window)


def max_pool_spatial_backward_spec(layer: Any, input: ArrayLike, grad_output: ArrayLike) -> Array:
    """``x̄[q] = Σ ȳ[p]`` over the windows q wins."""
    return pool.max_pool_vjp(_ranked("max_pool", input, layer, 0), grad_output, window=layer.window)


def avg_pool_spatial_spec(layer: Any, input: ArrayLike) -> Array:
    """``y[p] = Σ x̃[q] / Πk``."""
    return pool.avg_pool(_ranked("avg_pool", input, layer, 0), window=layer.window)


def avg_pool_spatial_backward_spec(layer: Any, grad_output: ArrayLike, in_spatial: Sequence[int]) -> Array:
    """``x̄[q] = Σ ȳ[p] / Πk`` over the windows that see q."""
    g = _ranked("avg_pool", grad_output, layer, 0)
    return pool.avg_pool_transpose(g, spatial=tuple(in_spatial), window=layer.window)


def smooth_max_pool_spatial_spec(layer: Any, beta: Scalar, input: ArrayLike) -> Array:
    """``y[p] = (1/β)·log Σ exp(β·x̃)``."""
    x = _ranked("smooth_max_pool", input, layer, 0)
    return smooth_pool.smooth_max_pool(x, beta, window=layer.window)


def smooth_max_pool_spatial_jvp_spec(layer: Any, beta: Scalar, input: ArrayLike, tangent: ArrayLike) -> Array:
    """``ẏ[p] = Σ softmax(β·x̃)·ẋ``."""
    x = _ranked("smooth_max_pool", input, layer, 0)
    return smooth_pool.smooth_max_pool_jvp(x, beta, tangent, window=layer.window)


def smooth_max_pool_spatial_backward_spec(layer: Any, beta: Scalar, input: ArrayLike, grad_output: ArrayLike) -> Array:
    """``x̄[q] = Σ_p ȳ[p]·softmax(β·x̃)_q``."""
    x = _ranked("smooth_max_pool", input, layer, 0)
    return smooth_pool.smooth_max_pool_vjp(x, beta, grad_output, window=layer.window)


# --- channels first -----------------------------------------------------------------------------------------


def max_pool_spec(layer: Any, input: ArrayLike) -> Array:
    """`max_pool_spatial_spec` of every channel."""
    return pool.max_pool(_ranked("max_pool", input, layer, 1), window=layer.window)[0]


def max_pool_jvp_spec(layer: Any, input: ArrayLike, tangent: ArrayLike) -> Array:
    """`max_pool_spatial_jvp_spec` of every channel."""
    return pool.max_pool_jvp(_ranked("max_pool", input, layer, 1), tangent, window=layer.window)


def max_pool_backward_spec(layer: Any, input: ArrayLike, grad_output: ArrayLike) -> Array:
    """`max_pool_spatial_backward_spec` of every channel."""
    return pool.max_pool_vjp(_ranked("max_pool", input, layer, 1), grad_output, window=layer.window)


def avg_pool_spec(layer: Any, input: ArrayLike) -> Array:
    """`avg_pool_spatial_spec` of every channel."""
    return pool.avg_pool(_ranked("avg_pool", input, layer, 1), window=layer.window)


def avg_pool_backward_spec(layer: Any, grad_output: ArrayLike, in_spatial: Sequence[int]) -> Array:
    """`avg_pool_spatial_backward_spec` of every channel."""
    g = _ranked("avg_pool", grad_output, layer, 1)
    return pool.avg_pool_transpose(g, spatial=tuple(in_spatial), window=layer.window)


def smooth_max_pool_spec(layer: Any, beta: Scalar, input: ArrayLike) -> Array:
    """`smooth_max_pool_spatial_spec` of every channel."""
    x = _ranked("smooth_max_pool", input, layer, 1)
    return smooth_pool.smooth_max_pool(x, beta, window=layer.window)


def smooth_max_pool_jvp_spec(layer: Any, beta: Scalar, input: ArrayLike, tangent: ArrayLike) -> Array:
    """`smooth_max_pool_spatial_jvp_spec` of every channel."""
    x = _ranked("smooth_max_pool", input, layer, 1)
    return smooth_pool.smooth_max_pool_jvp(x, beta, tangent, window=layer.window)


def smooth_max_pool_backward_spec(layer: Any, beta: Scalar, input: ArrayLike, grad_output: ArrayLike) -> Array:
    """`smooth_max_pool_spatial_backward_spec` of every channel."""
    x = _ranked("smooth_max_pool", input, layer, 1)
    return smooth_pool.smooth_max_pool_vjp(x, beta, grad_output, window=layer.window)


max_pool: Callable[..., Array] = max_pool_spec
avg_pool: Callable[..., Array] = avg_pool_spec
smooth_max_pool: Callable[..., Array] = smooth_max_pool_spec
max_pool_backward: Callable[..., Array] = max_pool_backward_spec
avg_pool_backward: Callable[..., Array] = avg_pool_backward_spec
smooth_max_pool_backward: Callable[..., Array] = smooth_max_pool_backward_spec


# --- adaptive: the seeds stop at 2-D forward, these are N-D with both derivatives ---------------------------


def _bins(output: Sequence[int | None]) -> Adaptive:
    return Adaptive(tuple(output))


def adaptive_avg_pool(x: ArrayLike, output: Sequence[int | None]) -> Array:
    """``y[p]`` = mean of bin p, ``[floor(p·in/out), ceil((p+1)·in/out))`` per axis."""
    return pool.avg_pool(x, window=_bins(output))


def adaptive_avg_pool_jvp(x_dot: ArrayLike, output: Sequence[int | None]) -> Array:
    """The same pooling of the tangent."""
    return adaptive_avg_pool(x_dot, output)


def adaptive_avg_pool_vjp(y_bar: ArrayLike, output: Sequence[int | None], in_spatial: Sequence[int]) -> Array:
    """``x̄[q] = Σ ȳ[p] / size of bin p`` over the bins that hold q."""
    return pool.avg_pool_transpose(y_bar, spatial=tuple(in_spatial), window=_bins(output))


def adaptive_max_pool(x: ArrayLike, output: Sequence[int | None]) -> tuple[Array, Array]:
    """``y[p]`` = maximum of bin p, and its flat index."""
    return pool.max_pool(x, window=_bins(output))


def adaptive_max_pool_jvp(x: ArrayLike, x_dot: ArrayLike, output: Sequence[int | None]) -> Array:
    """``ẏ[p] = ẋ[winner of bin p]``."""
    return pool.max_pool_jvp(x, x_dot, window=_bins(output))


def adaptive_max_pool_vjp(x: ArrayLike, y_bar: ArrayLike, output: Sequence[int | None]) -> Array:
    """``x̄[q] = Σ ȳ[p]`` over the bins that q wins."""
    return pool.max_pool_vjp(x, y_bar, window=_bins(output))
