"""Convolution and its transpose under PyTorch's names; the names without a number are for any number of axes.

Images are ``(N, C, *spatial)`` or one sample ``(C, *spatial)``; Tensors and NumPy arrays alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lean_nn.convert import as_tensor
from lean_nn.ops.conv import conv as conv_primitive
from lean_nn.ops.conv import conv_input
from lean_nn.ops.conv import fold as fold_primitive
from lean_nn.ops.conv import unfold as unfold_primitive
from lean_nn.ops.shape import pad, reshape
from lean_nn.spec.conv_geometry import conv_transpose_shape
from lean_nn.spec.geometry import bad, per_axis
from lean_nn.window import Window, conv_window

__all__ = [
    "conv", "conv1d", "conv2d", "conv3d", "conv_transpose", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "fold", "unfold",
]

Tensor = Any
IntLike = int | Sequence[int]
Padding = int | str | Sequence[int] | Sequence[Sequence[int]]


def _operands(op: str, input: Any, weight: Any, bias: Any) -> tuple[Tensor, Tensor, Tensor | None]:
    """As Tensors; only the bias may be missing."""
    return as_tensor(input, op=op), as_tensor(weight, op=op), None if bias is None else as_tensor(bias, op=op)


def _per_sample(x: Tensor, rank: int, f: Callable[[Tensor], Tensor]) -> Tensor:
    """f on a batch; a single sample becomes a batch of one and comes back as a sample."""
    if len(x.shape) != rank - 1:
        return f(x)
    y = f(reshape(x, shape=(1, *x.shape)))
    return reshape(y, shape=y.shape[1:])


def _geometry(window: Window, groups: int) -> dict[str, Any]:
    steps = {"stride": window.stride, "padding": window.padding, "dilation": window.dilation}
    return {**steps, "groups": groups}


def _check_axes(op: str, layout: str, weight: Tensor, d: int | None) -> None:
    if len(weight.shape) < 2 or (d is not None and len(weight.shape) != d + 2):
        axes = "" if d is None else f" with {d + 2} axes"
        raise bad(op, f"weight must be {layout}{axes}", f"shape {weight.shape}", "reshape it")


# --- convolution ---


def conv(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: IntLike = 1,
    padding: Padding = 0,
    dilation: IntLike = 1,
    groups: int = 1,
) -> Tensor:
    """``y[n,o,p] = Σ_c Σ_k x̃[n,c,p·stride + k·dilation − before] · w[o,c,k] + b[o]``, for any number of axes.

    Cross-correlation, as in every neural-network library; x̃ is 0 in the padding, which contributes nothing.

    Parameters
    ----------
    input
        ``(N, C, *spatial)`` or ``(C, *spatial)``.
    weight
        ``(O, C / groups, *kernel)``; its axes say how many are spatial. None at all is a linear layer.
    bias
        ``(O,)`` or None.
    stride, dilation
        One int, or one per spatial axis.
    padding
        One int, one per axis, or a pair ``(before, after)`` per axis; ``"same"`` (stride 1) or ``"valid"``.
    groups
        Channels are split into so many groups that do not see each other.

    Returns
    -------
    Tensor
        ``(N, O, *out)`` or ``(O, *out)``, ``out = (in + pads − dilation·(k−1) − 1) // stride + 1``.

    Notes
    -----
    ``|ŷ − y| ≤ γₙ·conv(|x|, |w|, |b|)`` with n = C/groups·Πk + 1; the same bits for any number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> x = np.array([[1.0, 2.0, 3.0, 4.0]])
    >>> F.conv(x, np.array([[[1.0, 10.0]]]), stride=2).numpy()
    array([[21., 43.]])
    """
    return _conv("conv", None, input, weight, bias, stride, padding, dilation, groups)


def _conv(
    op: str,
    d: int | None,
    input: Any,
    weight: Any,
    bias: Any,
    stride: IntLike,
    padding: Padding,
    dilation: IntLike,
    groups: int,
) -> Tensor:
    x, w, b = _operands(op, input, weight, bias)
    _check_axes(op, "(out_channels, in_channels / groups, *kernel)", w, d)
    geometry = _geometry(conv_window("conv", w.shape[2:], stride, padding, dilation), groups)
    arrays = (w,) if b is None else (w, b)
    return _per_sample(x, len(w.shape), lambda batch: conv_primitive(batch, *arrays, **geometry))


def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: IntLike = 1,
    padding: Padding = 0,
    dilation: IntLike = 1,
    groups: int = 1,
) -> Tensor:
    """``y[n,o,p] = Σ_c Σ_k x̃[n,c,p·s + k·d − before] · w[o,c,k] + b[o]``: `conv` with one spatial axis.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.conv1d(np.array([[1.0, 2.0, 4.0]]), np.array([[[-1.0, 1.0]]]), padding=(1,)).numpy()
    array([[ 1.,  1.,  2., -4.]])
    """
    return _conv("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: IntLike = 1,
    padding: Padding = 0,
    dilation: IntLike = 1,
    groups: int = 1,
) -> Tensor:
    """``y[n,o,p] = Σ_c Σ_k x̃[n,c,p·s + k·d − before] · w[o,c,k] + b[o]``: `conv` with two spatial axes.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> x = np.arange(9.0).reshape(1, 1, 3, 3)
    >>> F.conv2d(x, np.ones((1, 1, 2, 2)), np.array([0.5])).numpy()
    array([[[[ 8.5, 12.5],
             [20.5, 24.5]]]])
    """
    return _conv("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: IntLike = 1,
    padding: Padding = 0,
    dilation: IntLike = 1,
    groups: int = 1,
) -> Tensor:
    """``y[n,o,p] = Σ_c Σ_k x̃[n,c,p·s + k·d − before] · w[o,c,k] + b[o]``: `conv` with three spatial axes.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.conv3d(np.ones((2, 4, 4, 4)), np.ones((1, 2, 3, 3, 3)), padding="same").shape
    (1, 4, 4, 4)
    """
    return _conv("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


# --- transposed convolution ---


def conv_transpose(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: IntLike = 1,
    padding: Padding = 0,
    output_padding: IntLike = 0,
    groups: int = 1,
    dilation: IntLike = 1,
) -> Tensor:
    """``y[n,o,q] = Σ_i Σ_{p·stride + k·dilation − before = q} x[n,i,p] · w[i,o,k] + b[o]``, any number of axes.

    The exact transpose of `conv` with the same geometry.

    Parameters
    ----------
    input
        ``(N, I, *spatial)`` or ``(I, *spatial)``.
    weight
        ``(I, O / groups, *kernel)``.
    bias
        ``(O,)`` or None.
    stride, padding, dilation, groups
        Those of the convolution this is the transpose of; padding cells are cut off the output.
    output_padding
        Cells added at the end of each axis, fewer than stride or dilation.

    Returns
    -------
    Tensor
        ``(N, O, *out)`` or ``(O, *out)``, ``out = (in−1)·stride − pads + dilation·(k−1) + output_padding + 1``.

    Notes
    -----
    ``|ŷ − y| ≤ γₙ·conv_transpose(|x|, |w|, |b|)``, n = I/groups·Πk + 1; the same bits for any number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.conv_transpose(np.array([[1.0, 2.0]]), np.array([[[1.0, 10.0]]]), stride=2).numpy()
    array([[ 1., 10.,  2., 20.]])
    """
    return _transpose("conv_transpose", None, input, weight, bias, stride, padding, output_padding, groups, dilation)


def _transpose(
    op: str,
    d: int | None,
    input: Any,
    weight: Any,
    bias: Any,
    stride: IntLike,
    padding: Padding,
    output_padding: IntLike,
    groups: int,
    dilation: IntLike,
) -> Tensor:
    x, w, b = _operands(op, input, weight, bias)
    _check_axes(op, "(in_channels, out_channels / groups, *kernel)", w, d)
    window = conv_window("conv_transpose", w.shape[2:], stride, padding, dilation)
    extra = per_axis("conv_transpose", "output_padding", output_padding, len(w.shape) - 2)
    steps = (window.stride, window.padding, extra, window.dilation, groups)

    def on_batch(batch: Tensor) -> Tensor:
        bias_shape = None if b is None else b.shape
        shape = conv_transpose_shape("conv_transpose", batch.shape, w.shape, bias_shape, *steps)
        cells = _extended(batch, extra, window.stride)
        arrays = (cells, w) if b is None else (cells, w, b)
        return conv_input(*arrays, spatial=shape[2:], **_geometry(window, groups))

    return _per_sample(x, len(w.shape), on_batch)


def _extended(x: Tensor, extra: tuple[int, ...], stride: tuple[int, ...]) -> Tensor:
    """A whole stride of output padding is one more window of the convolution: one more input cell, zero."""
    more = tuple(e // s for e, s in zip(extra, stride, strict=True))
    if not any(more):
        return x
    return pad(x, padding=((0, 0), (0, 0), *((0, n) for n in more)), value=0.0)


def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: IntLike = 1,
    padding: Padding = 0,
    output_padding: IntLike = 0,
    groups: int = 1,
    dilation: IntLike = 1,
) -> Tensor:
    """``y[n,o,q] = Σ_i Σ_{p·s + k·d − before = q} x[n,i,p] · w[i,o,k] + b[o]``: `conv_transpose`, one spatial axis.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.conv_transpose1d(np.array([[1.0, 2.0]]), np.array([[[1.0, 1.0, 1.0]]])).numpy()
    array([[1., 3., 3., 2.]])
    """
    return _transpose("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: IntLike = 1,
    padding: Padding = 0,
    output_padding: IntLike = 0,
    groups: int = 1,
    dilation: IntLike = 1,
) -> Tensor:
    """``y[n,o,q] = Σ_i Σ_{p·s + k·d − before = q} x[n,i,p] · w[i,o,k] + b[o]``: `conv_transpose`, two spatial axes.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.conv_transpose2d(np.ones((1, 64, 32, 32)), np.ones((64, 32, 4, 4)), stride=2, padding=1).shape
    (1, 32, 64, 64)
    """
    return _transpose("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: IntLike = 1,
    padding: Padding = 0,
    output_padding: IntLike = 0,
    groups: int = 1,
    dilation: IntLike = 1,
) -> Tensor:
    """``y[n,o,q] = Σ_i Σ_{p·s + k·d − before = q} x[n,i,p] · w[i,o,k] + b[o]``: `conv_transpose`, three spatial axes.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.conv_transpose3d(np.ones((1, 2, 2, 2)), np.ones((1, 1, 2, 2, 2)), stride=2, output_padding=1).shape
    (1, 5, 5, 5)
    """
    return _transpose("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


# --- windows as columns ---


def unfold(
    input: Any, kernel_size: IntLike, dilation: IntLike = 1, padding: Padding = 0, stride: IntLike = 1
) -> Tensor:
    """``cols[n, (c, k), p] = x̃[n, c, p·stride + k·dilation − before]``: every window as a column (im2col).

    The number of spatial axes is the length of `kernel_size`, or for an int what ``(N, C, *spatial)`` has.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.unfold(np.array([[[1.0, 2.0, 3.0]]]), 2).numpy()
    array([[[1., 2.],
            [2., 3.]]])
    """
    x = as_tensor(input, op="unfold")
    axes = len(kernel_size) if isinstance(kernel_size, (tuple, list)) else max(len(x.shape) - 2, 0)
    kernel = per_axis("unfold", "kernel", kernel_size, axes)
    window = conv_window("unfold", kernel, stride, padding, dilation)
    return _per_sample(x, axes + 2, lambda batch: unfold_primitive(batch, **_columns(window)))


def fold(
    input: Any,
    output_size: Sequence[int],
    kernel_size: IntLike,
    dilation: IntLike = 1,
    padding: Padding = 0,
    stride: IntLike = 1,
) -> Tensor:
    """``x[n, c, q] = Σ cols[n, (c, k), p]`` over ``p·stride + k·dilation − before = q``: unfold's transpose (col2im).

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.fold(np.array([[[1.0, 2.0], [2.0, 3.0]]]), (3,), 2).numpy()
    array([[[1., 4., 3.]]])
    """
    cols = as_tensor(input, op="fold")
    spatial = per_axis("fold", "output_size", output_size, len(tuple(output_size)))
    kernel = per_axis("fold", "kernel", kernel_size, len(spatial))
    window = conv_window("fold", kernel, stride, padding, dilation)
    return _per_sample(cols, 3, lambda batch: fold_primitive(batch, spatial=spatial, **_columns(window)))


def _columns(window: Window) -> dict[str, Any]:
    steps = {"stride": window.stride, "padding": window.padding, "dilation": window.dilation}
    return {"kernel": window.kernel, **steps}
