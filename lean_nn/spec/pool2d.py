"""The seeds' 2-D pooling: the N-D layers adapted to images ``(H, W)`` and ``(C, H, W)``.

Functions ending in ``_pad`` take the symmetric padding after the layer. TorchLean's published unpadded 2-D
backward picks a wrong winner on non-monotone data; here it is the N-D rule like everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import layers
from .container import Array, ArrayLike, as_array
from .geometry import Ints, bad, check_at_least
from .layers import AvgPoolSpec, MaxPoolSpec
from .scalar import Scalar

# --- configurations -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pool2DSpec:
    """Kernel height and width, and one stride for both axes."""

    kernel_height: int
    kernel_width: int
    stride: int

    def __post_init__(self) -> None:
        op = type(self).__name__
        check_at_least(op, "kernel", (self.kernel_height, self.kernel_width), 1)
        check_at_least(op, "stride", (self.stride,), 1)

    def _sizes(self, padding: int) -> tuple[Ints, Ints, Ints]:
        return (self.kernel_height, self.kernel_width), (self.stride,) * 2, (padding,) * 2


class MaxPool2DSpec(_Pool2DSpec):
    """2-D (smooth) max pooling."""

    def nd(self, padding: int = 0) -> MaxPoolSpec:
        """The N-D configuration it stands for."""
        return MaxPoolSpec(*self._sizes(padding))


class AvgPool2DSpec(_Pool2DSpec):
    """2-D average pooling."""

    def nd(self, padding: int = 0) -> AvgPoolSpec:
        """The N-D configuration it stands for."""
        return AvgPoolSpec(*self._sizes(padding))


@dataclass(frozen=True)
class _AdaptivePool2DSpec:
    """Output height and width."""

    output_height: int
    output_width: int

    def __post_init__(self) -> None:
        check_at_least(type(self).__name__, "output_size", self.output, 1)

    @property
    def output(self) -> tuple[int, int]:
        """Both sizes."""
        return self.output_height, self.output_width


class AdaptiveAvgPool2DSpec(_AdaptivePool2DSpec):
    """2-D adaptive average pooling."""


class AdaptiveMaxPool2DSpec(_AdaptivePool2DSpec):
    """2-D adaptive max pooling."""


# --- output shapes ------------------------------------------------------------------------------------------


def pool2d_out_shape(in_h: int, in_w: int, k_h: int, k_w: int, stride: int) -> Ints:
    """``((H − kH) // stride + 1, (W − kW) // stride + 1)``."""
    return layers.pool_out_shape((in_h, in_w), (k_h, k_w), (stride,) * 2)


def pool2d_multi_out_shape(in_c: int, in_h: int, in_w: int, k_h: int, k_w: int, stride: int) -> Ints:
    """The same after the channels."""
    return layers.pool_multi_out_shape(in_c, (in_h, in_w), (k_h, k_w), (stride,) * 2)


def pool2d_out_shape_pad(in_h: int, in_w: int, k_h: int, k_w: int, stride: int, padding: int) -> Ints:
    """``((H + 2·pad − kH) // stride + 1, (W + 2·pad − kW) // stride + 1)``."""
    return layers.pool_out_shape_pad((in_h, in_w), (k_h, k_w), (stride,) * 2, (padding,) * 2)


def pool2d_multi_out_shape_pad(in_c: int, in_h: int, in_w: int, k_h: int, k_w: int, stride: int, padding: int) -> Ints:
    """The same after the channels."""
    return layers.pool_multi_out_shape_pad(in_c, (in_h, in_w), (k_h, k_w), (stride,) * 2, (padding,) * 2)


# --- max ----------------------------------------------------------------------------------------------------


def max_pool2d_spec(layer: MaxPool2DSpec, input: ArrayLike) -> Array:
    """Max pooling of an image."""
    return layers.max_pool_spatial_spec(layer.nd(), input)


def max_pool2d_jvp_spec(layer: MaxPool2DSpec, input: ArrayLike, tangent: ArrayLike) -> Array:
    """Its JVP: the tangent of the winner."""
    return layers.max_pool_spatial_jvp_spec(layer.nd(), input, tangent)


def max_pool2d_backward_spec(layer: MaxPool2DSpec, input: ArrayLike, grad_output: ArrayLike) -> Array:
    """Its VJP: the cotangent goes to the winner."""
    return layers.max_pool_spatial_backward_spec(layer.nd(), input, grad_output)


def max_pool2d_multi_spec_pad(layer: MaxPool2DSpec, padding: int, input: ArrayLike) -> Array:
    """Max pooling of every channel; padding cells are never candidates."""
    return layers.max_pool_spec(layer.nd(padding), input)


def max_pool2d_multi_jvp_spec_pad(layer: MaxPool2DSpec, padding: int, input: ArrayLike, tangent: ArrayLike) -> Array:
    """Its JVP; 0 where a window has no real cell."""
    return layers.max_pool_jvp_spec(layer.nd(padding), input, tangent)


def max_pool2d_multi_backward_spec_pad(
    layer: MaxPool2DSpec, padding: int, input: ArrayLike, grad_output: ArrayLike
) -> Array:
    """Its VJP."""
    return layers.max_pool_backward_spec(layer.nd(padding), input, grad_output)


def max_pool2d_multi_spec(layer: MaxPool2DSpec, input: ArrayLike) -> Array:
    """Max pooling of every channel."""
    return max_pool2d_multi_spec_pad(layer, 0, input)


def max_pool2d_multi_jvp_spec(layer: MaxPool2DSpec, input: ArrayLike, tangent: ArrayLike) -> Array:
    """Its JVP."""
    return max_pool2d_multi_jvp_spec_pad(layer, 0, input, tangent)


def max_pool2d_multi_backward_spec(layer: MaxPool2DSpec, input: ArrayLike, grad_output: ArrayLike) -> Array:
    """Its VJP."""
    return max_pool2d_multi_backward_spec_pad(layer, 0, input, grad_output)


# --- average ------------------------------------------------------------------------------------------------


def avg_pool2d_spec(layer: AvgPool2DSpec, input: ArrayLike) -> Array:
    """Average pooling of an image."""
    return layers.avg_pool_spatial_spec(layer.nd(), input)


def avg_pool2d_backward_spec(layer: AvgPool2DSpec, grad_output: ArrayLike, in_spatial: Sequence[int]) -> Array:
    """Its VJP: ``g / (kH·kW)`` to every cell of the window."""
    return layers.avg_pool_spatial_backward_spec(layer.nd(), grad_output, in_spatial)


def avg_pool2d_multi_spec_pad(layer: AvgPool2DSpec, padding: int, input: ArrayLike) -> Array:
    """Average pooling of every channel; padding counts as zeros and in the divisor."""
    return layers.avg_pool_spec(layer.nd(padding), input)


def avg_pool2d_multi_backward_spec_pad(
    layer: AvgPool2DSpec, padding: int, grad_output: ArrayLike, in_spatial: Sequence[int]
) -> Array:
    """Its VJP; the share of padding cells is lost."""
    return layers.avg_pool_backward_spec(layer.nd(padding), grad_output, in_spatial)


def avg_pool2d_multi_spec(layer: AvgPool2DSpec, input: ArrayLike) -> Array:
    """Average pooling of every channel."""
    return avg_pool2d_multi_spec_pad(layer, 0, input)


# --- smooth max ---------------------------------------------------------------------------------------------


def smooth_max_pool2d_spec(layer: MaxPool2DSpec, beta: Scalar, input: ArrayLike) -> Array:
    """Smooth max pooling of an image."""
    return layers.smooth_max_pool_spatial_spec(layer.nd(), beta, input)


def smooth_max_pool2d_jvp_spec(layer: MaxPool2DSpec, beta: Scalar, input: ArrayLike, tangent: ArrayLike) -> Array:
    """Its JVP."""
    return layers.smooth_max_pool_spatial_jvp_spec(layer.nd(), beta, input, tangent)


def smooth_max_pool2d_backward_spec(
    layer: MaxPool2DSpec, beta: Scalar, input: ArrayLike, grad_output: ArrayLike
) -> Array:
    """Its VJP."""
    return layers.smooth_max_pool_spatial_backward_spec(layer.nd(), beta, input, grad_output)


def smooth_max_pool2d_multi_spec(layer: MaxPool2DSpec, beta: Scalar, input: ArrayLike) -> Array:
    """Smooth max pooling of every channel."""
    return layers.smooth_max_pool_spec(layer.nd(), beta, input)


def smooth_max_pool2d_multi_jvp_spec(layer: MaxPool2DSpec, beta: Scalar, input: ArrayLike, tangent: ArrayLike) -> Array:
    """Its JVP."""
    return layers.smooth_max_pool_jvp_spec(layer.nd(), beta, input, tangent)


def smooth_max_pool2d_multi_backward_spec(
    layer: MaxPool2DSpec, beta: Scalar, input: ArrayLike, grad_output: ArrayLike
) -> Array:
    """Its VJP."""
    return layers.smooth_max_pool_backward_spec(layer.nd(), beta, input, grad_output)


# --- adaptive -----------------------------------------------------------------------------------------------


def adaptive_avg_pool2d_spec(layer: AdaptiveAvgPool2DSpec, input: ArrayLike) -> Array:
    """The mean of each of ``outH × outW`` bins, per channel."""
    return layers.adaptive_avg_pool(input, layer.output)


def adaptive_max_pool2d_spec(layer: AdaptiveMaxPool2DSpec, input: ArrayLike) -> Array:
    """The maximum of each of ``outH × outW`` bins, per channel."""
    return layers.adaptive_max_pool(input, layer.output)[0]


# --- unpadding ----------------------------------------------------------------------------------------------


def unpad_image(img: ArrayLike, padding: int) -> Array:
    """``img[p : H+p, p : W+p]``: remove symmetric padding from ``(H + 2p, W + 2p)``.

    Examples
    --------
    >>> unpad_image([[0, 0, 0], [0, 5, 0], [0, 0, 0]], 1).tolist()
    [[5]]
    """
    return _unpad(as_array(img), padding, 2)


def unpad_multi_channel(img: ArrayLike, padding: int) -> Array:
    """`unpad_image` of every channel."""
    return _unpad(as_array(img), padding, 3)


def _unpad(a: Array, padding: int, rank: int) -> Array:
    check_at_least("unpad", "padding", (padding,), 0)
    if a.ndim != rank or any(n < 2 * padding for n in a.shape[-2:]):
        rule = f"image must have {rank} axes, the last two at least twice the padding"
        raise bad("unpad", rule, f"shape {a.shape}, padding {padding}", "reduce the padding")
    h, w = a.shape[-2:]
    return a[..., padding : h - padding, padding : w - padding].copy()
