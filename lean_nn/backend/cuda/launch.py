"""From Python to ``kernels.cu``: modules compiled when first needed, the geometry struct, and the launch itself.

A module is compiled once per number type, rank and width of index. Indices are 32 bits wide where every number that a
kernel can form fits, which leaves room for one step of the grid beyond the last element; 64 bits else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from math import prod
from typing import Any

import numpy as np

from lean_nn.backend.cuda.library import cp
from lean_nn.window import Bins, Window

BLOCK = 256  # threads per block
Ints = tuple[int, ...]


@dataclass
class Limits:
    """What tests lower, so that small data go the ways of large data."""

    grid: int = 65536  # blocks; an element beyond BLOCK·grid is reached by striding
    wide: bool = False  # 64-bit indices whatever the size
    columns: int = 256 << 20  # bytes of the column buffer of a convolution; a batch is split to stay below


limits = Limits()
NARROW = 2**31 - BLOCK * limits.grid  # an index and one step of the largest grid fit into 32 bits


def _text(name: str) -> str:
    """A file of this folder, or one of the CPU's kernels that both share."""
    here = files(__package__).joinpath(name)
    text = (here if here.is_file() else files("lean_nn_c").joinpath(name)).read_text(encoding="utf-8")
    return re.sub(r'^#include "([\w.]+)"$', lambda line: _text(line[1]), text, flags=re.MULTILINE)


@lru_cache(None)
def source() -> str:
    """The text of ``kernels.cu``, with what it includes in its place: the compiler sees no files."""
    return _text("kernels.cu")


def options(real: np.dtype[Any], rank: int, wide: bool) -> tuple[str, ...]:
    """What the compiler is told of one module; products and sums are fused only where the text says so."""
    return (
        f"-DLNN_T={'double' if real == np.float64 else 'float'}", f"-DLNN_D={rank}", f"-DLNN_I={'wide' if wide else 'int'}",
        "-fmad=false",
    )  # fmt: skip


@lru_cache(None)
def _module(real: np.dtype[Any], rank: int, wide: bool) -> Any:
    return cp.RawModule(code=source(), options=options(real, rank, wide))


@lru_cache(None)
def _kernel(name: str, real: np.dtype[Any], rank: int, wide: bool) -> Any:
    return _module(real, rank, wide).get_function(name)


@dataclass(frozen=True)
class Geometry:
    """Images, windows over them, and every way to number their cells."""

    batch: int
    channels: int
    cells: Ints
    windows: Ints
    kernel: Ints
    stride: Ints
    dilation: Ints
    before: Ints
    padded: Ints

    @property
    def rank(self) -> int:
        return len(self.cells)

    def largest(self) -> int:
        """The largest number that a kernel forms of these: elements, columns, and places in the padded axes."""
        planes = self.batch * self.channels
        reach: list[int] = [
            n + before + padded + k * r + s
            for n, before, padded, k, r, s in zip(
                self.cells, self.before, self.padded, self.kernel, self.dilation, self.stride, strict=True
            )
        ]
        return max(planes * prod(self.cells), planes * prod(self.windows) * prod(self.kernel), *reach)

    def struct(self, wide: bool) -> Any:
        """The numbers as ``struct Geometry`` has them."""
        return _struct(self, wide)


@lru_cache(256)
def _struct(g: Geometry, wide: bool) -> Any:
    index = np.int64 if wide else np.int32
    axes = ("in", "out", "kernel", "stride", "dilation", "before", "padded")
    layout = np.dtype([("batch", index), ("channels", index), *((name, index, (g.rank,)) for name in axes)])
    value = np.zeros((), layout)
    value["batch"], value["channels"] = g.batch, g.channels
    per_axis = g.cells, g.windows, g.kernel, g.stride, g.dilation, g.before, g.padded
    for name, numbers in zip(axes, per_axis, strict=True):
        value[name] = numbers
    value.setflags(write=False)
    return value


@lru_cache(256)
def geometry(shape: Ints, window: Window | Bins) -> Geometry:
    """The geometry of pooling images of `shape`, ``(N, C, *S)``."""
    cells = shape[2:]
    windows = window.out_spatial(cells)
    if isinstance(window, Bins):
        one, none = (1,) * len(cells), (0,) * len(cells)
        return Geometry(shape[0], shape[1], cells, windows, one, one, one, none, cells)
    before = tuple(a for a, _ in window.padding)
    padded = tuple(n + b for n, (_, b) in zip(cells, window.padding, strict=True))
    return Geometry(
        shape[0], shape[1], cells, windows, window.kernel, window.stride, window.dilation, before, padded
    )


def launch(name: str, real: np.dtype[Any], rank: int, largest: int, count: int, *arguments: Any) -> None:
    """Run a kernel that writes `count` elements; Python ints among the arguments are indices, a Geometry its struct."""
    if count == 0:
        return
    wide = limits.wide or max(largest, count) > NARROW
    index = np.int64 if wide else np.int32
    packed = [
        a.struct(wide) if isinstance(a, Geometry) else index(a) if isinstance(a, int) else checked(name, a)
        for a in arguments
    ]
    grid = min(-(-count // BLOCK), limits.grid)
    _kernel(name, real, rank, wide)((grid,), (BLOCK,), tuple(packed))


def checked(name: str, argument: Any) -> Any:
    """A kernel reads memory as it lies: arrays are contiguous."""
    if isinstance(argument, cp.ndarray) and not argument.flags.c_contiguous:
        raise ValueError(f"{name}: contiguous arrays are needed; got strides {argument.strides} for shape {argument.shape}; "
                         f"copy it with cupy.ascontiguousarray")
    return argument


def on_windows(name: str, g: Geometry, window: Window | Bins, count: int, *arguments: Any) -> None:
    """Launch the form of kernel `name` that `window` asks for; its first array tells the number type."""
    form = "adaptive" if isinstance(window, Bins) else "strided"
    real = next(a.dtype for a in arguments if isinstance(a, cp.ndarray))
    launch(f"{name}_{form}", real, g.rank, g.largest(), count, g, count, *arguments)
