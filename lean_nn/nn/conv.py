"""Convolutions as layers. The name without a number takes its axes from the kernel's length, one to any number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lean_nn import functional as F
from lean_nn.nn import init
from lean_nn.nn.module import Module, Parameter
from lean_nn.spec.geometry import per_axis

__all__ = [
    "Conv", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
]  # fmt: skip

IntLike = int | Sequence[int]
PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def kernel_of(op: str, rank: int | None, kernel_size: Any) -> tuple[int, ...]:
    """The kernel as a tuple; one number stands for all axes of a layer that says how many it has."""
    if rank is None:
        if not isinstance(kernel_size, (tuple, list)):
            raise ValueError(f"{op}: kernel_size is a tuple, one entry per spatial axis; got {kernel_size!r}; pass a tuple")
        rank = len(kernel_size)
    kernel = per_axis(op, "kernel_size", kernel_size, rank)
    if min(kernel, default=1) < 1:
        raise ValueError(f"{op}: a kernel has at least one cell per axis; got {kernel}; pass 1 or more")
    return kernel


def positive(op: str, **values: Any) -> None:
    """Refuse sizes that are no whole numbers from 1 on."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise ValueError(f"{op}: {name} is a whole number from 1; got {value!r}; pass such a number")


class _Convolution(Module):
    rank: int | None = None
    transposed = False

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: IntLike, stride: IntLike, padding: Any, dilation: IntLike,
        groups: int, bias: bool, padding_mode: str, dtype: Any, output_padding: IntLike,
    ) -> None:  # fmt: skip
        super().__init__()
        op = type(self).__name__
        positive(op, in_channels=in_channels, out_channels=out_channels, groups=groups)
        if in_channels % groups or out_channels % groups:
            raise ValueError(f"{op}: groups divide both numbers of channels; got {groups} for {in_channels} and {out_channels}; "
                             f"choose a common divisor")  # fmt: skip
        if padding_mode not in PADDING_MODES or (self.transposed and padding_mode != "zeros"):
            modes = PADDING_MODES[:1] if self.transposed else PADDING_MODES
            raise ValueError(f"{op}: padding_mode is one of {modes}; got {padding_mode!r}; choose one of them")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = kernel_of(op, self.rank, kernel_size)
        d = len(self.kernel_size)
        self.stride, self.dilation = per_axis(op, "stride", stride, d), per_axis(op, "dilation", dilation, d)
        self.output_padding = per_axis(op, "output_padding", output_padding, d)
        self.padding, self.padding_mode = self._padding(op, padding, d), padding_mode
        ends = (in_channels, out_channels // groups) if self.transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(np.empty((*ends, *self.kernel_size), dtype))
        self.register_parameter("bias", Parameter(np.empty(out_channels, dtype)) if bias else None)
        self.reset_parameters()

    def _padding(self, op: str, padding: Any, d: int) -> Any:
        if isinstance(padding, str):
            if padding not in ("same", "valid") or self.transposed:
                raise ValueError(f"{op}: padding is in cells{'' if self.transposed else ', same or valid'}; got {padding!r}; "
                                 f"choose one")  # fmt: skip
            if padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError(f"{op}: padding 'same' goes with stride 1; got stride {self.stride}; pad by cells")
            return padding
        if isinstance(padding, (tuple, list)) and any(isinstance(p, (tuple, list)) for p in padding):
            return tuple(per_axis(op, "padding", p, 2) for p in padding)
        return per_axis(op, "padding", padding, d)

    def reset_parameters(self) -> None:
        """First values, as PyTorch's: U(−1/√fan_in, 1/√fan_in)."""
        init.default_(self.weight, self.bias)

    def extra_repr(self) -> str:
        d = len(self.kernel_size)
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        defaults = {"padding": (0,) * d, "dilation": (1,) * d, "output_padding": (0,) * d, "groups": 1}
        for name, default in defaults.items():
            value = getattr(self, name)
            if value != default:
                text += f", {name}={value}"
        text += "" if self.bias is not None else ", bias=False"
        return text if self.padding_mode == "zeros" else f"{text}, padding_mode={self.padding_mode}"


class Conv(_Convolution):
    """`functional.conv` with a weight and a bias of its own; the kernel's length says how many spatial axes there are.

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size, stride, dilation : int or one per axis
    padding : int, one per axis, a pair (before, after) per axis, "same" or "valid"
    groups : channels are split into so many groups that do not see each other
    bias : whether there is one
    padding_mode : "zeros", "reflect", "replicate" or "circular": what stands in the padding
    dtype : of the parameters

    Examples
    --------
    >>> import numpy as np
    >>> from lean_nn import nn
    >>> layer = nn.Conv(3, 8, (3, 3, 3, 3), padding=1)
    >>> layer(np.zeros((2, 3, 4, 4, 4, 4), np.float32)).shape
    (2, 8, 4, 4, 4, 4)
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: IntLike, stride: IntLike = 1, padding: Any = 0,
        dilation: IntLike = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", dtype: Any = "float32",
    ) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, dtype, 0)

    def forward(self, x: Any) -> Any:
        if self.padding_mode == "zeros":
            return F.conv(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
        padded = pad_by_cells(x, self._pairs(), self.padding_mode)
        return F.conv(padded, self.weight, self.bias, self.stride, 0, self.dilation, self.groups)

    def _pairs(self) -> list[tuple[int, int]]:
        """Cells (before, after) on each axis."""
        if self.padding == "valid":
            return [(0, 0)] * len(self.kernel_size)
        if self.padding == "same":
            spans = [d * (k - 1) for k, d in zip(self.kernel_size, self.dilation, strict=True)]
            return [(span // 2, span - span // 2) for span in spans]
        return [p if isinstance(p, tuple) else (p, p) for p in self.padding]


def pad_by_cells(x: Any, pairs: list[tuple[int, int]], mode: str) -> Any:
    """x with (before, after) copies of its own cells on each of its last axes: "reflect", "replicate" or "circular".

    Where each cell of the result comes from is a list of places, so this is a selection: linear, and differentiable.
    """
    for axis, (before, after) in zip(range(-len(pairs), 0), pairs, strict=True):
        n = x.shape[axis]
        most = {"reflect": n - 1, "circular": n, "replicate": max(before, after) if n else 0}[mode]
        if max(before, after) > most:
            raise ValueError(f"conv: padding_mode {mode!r} copies at most {most} cells of {n}; got {(before, after)}; pad less")
        if before or after:
            x = F.take(x, _sources(n, before, after, mode), axis)
    return x


def _sources(n: int, before: int, after: int, mode: str) -> np.ndarray[Any, Any]:
    places: np.ndarray[Any, Any] = np.arange(-before, n + after)
    if mode == "replicate":
        return places.clip(0, n - 1)
    if mode == "circular":
        return places % n
    reflected: np.ndarray[Any, Any] = (n - 1) - np.abs((n - 1) - np.abs(places))
    return reflected


class Conv1d(Conv):
    """`Conv` with one spatial axis."""

    rank = 1


class Conv2d(Conv):
    """`Conv` with two spatial axes.

    Examples
    --------
    >>> from lean_nn import nn
    >>> nn.Conv2d(1, 32, 5, padding=2)
    Conv2d(1, 32, kernel_size=(5, 5), stride=(1, 1), padding=(2, 2))
    """

    rank = 2


class Conv3d(Conv):
    """`Conv` with three spatial axes."""

    rank = 3


class ConvTranspose(_Convolution):
    """`functional.conv_transpose` with a weight ``(in, out/groups, *kernel)`` and a bias of its own.

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size, stride, padding, dilation, groups, bias, dtype : those of the `Conv` this is the transpose of
    output_padding : cells added at the end of each axis, fewer than stride or dilation
    padding_mode : "zeros", the only one that a transpose has

    Examples
    --------
    >>> import numpy as np
    >>> from lean_nn import nn
    >>> nn.ConvTranspose2d(4, 2, 4, stride=2, padding=1)(np.zeros((1, 4, 8, 8), np.float32)).shape
    (1, 2, 16, 16)
    """

    transposed = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: IntLike, stride: IntLike = 1, padding: Any = 0,
        output_padding: IntLike = 0, groups: int = 1, bias: bool = True, dilation: IntLike = 1, padding_mode: str = "zeros",
        dtype: Any = "float32",
    ) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, dtype,
                         output_padding)  # fmt: skip

    def forward(self, x: Any) -> Any:
        return F.conv_transpose(x, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups,
                                self.dilation)  # fmt: skip


class ConvTranspose1d(ConvTranspose):
    """`ConvTranspose` with one spatial axis."""

    rank = 1


class ConvTranspose2d(ConvTranspose):
    """`ConvTranspose` with two spatial axes."""

    rank = 2


class ConvTranspose3d(ConvTranspose):
    """`ConvTranspose` with three spatial axes."""

    rank = 3
