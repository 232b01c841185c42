"""Which cells a pooling window has: strided or adaptive, any number of axes.

A window is given by an object with ``kernel, stride, padding, dilation, ceil_mode`` (padding as pairs), or
with ``output`` for adaptive bins; nothing else of it is read. `Cells` answers all that pooling asks: the output
size, and for every output the cells it sees, row-major. A cell is a coordinate of the input, or None
for padding; cells beyond the padded input (``ceil_mode``) are no cells at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .geometry import (
    Ints,
    Pairs,
    adaptive_end,
    adaptive_start,
    check_adaptive,
    check_elements,
    check_length,
    check_pool_rank,
    indices,
    out_spatial,
    pad_pairs,
    padded_coords,
    padded_spatial,
    per_axis,
    unpad_coords,
)

Cell = Ints | None


@dataclass(frozen=True)
class Strided:
    """A strided window: what `as_strided` makes of pooling arguments."""

    kernel: Ints
    stride: Ints
    padding: Pairs
    dilation: Ints
    ceil_mode: bool = False


@dataclass(frozen=True)
class Adaptive:
    """Adaptive bins: ``output`` sizes, None for an axis that stays as it is."""

    output: tuple[int | None, ...]


def as_strided(
    op: str,
    kernel: Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] | Sequence[Sequence[int]] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> Strided:
    """Pooling arguments as a window; a stride left out is the kernel."""
    sizes = tuple(kernel)
    d = len(sizes)
    strides = sizes if stride is None else per_axis(op, "stride", stride, d)
    pads = pad_pairs(op, padding, d)
    return Strided(sizes, strides, pads, per_axis(op, "dilation", dilation, d), ceil_mode)


class Cells:
    """All windows over an input of one spatial shape."""

    def __init__(self, op: str, window: Any, spatial: Ints) -> None:
        self.window, self.spatial = window, spatial
        self.adaptive = hasattr(window, "output")
        if self.adaptive:
            check_length(op, "output_size", window.output, len(spatial))
            self.out = tuple(n if o is None else o for n, o in zip(spatial, window.output, strict=True))
            check_adaptive(op, spatial, self.out)
        else:
            w = window
            self.out = out_spatial(op, spatial, w.kernel, w.stride, w.padding, w.dilation, w.ceil_mode)

    def of(self, p: Ints) -> list[Cell]:
        """The cells of window ``p``."""
        if self.adaptive:
            axes = list(zip(self.spatial, self.out, p, strict=True))
            ranges = [range(adaptive_start(n, o, i), adaptive_end(n, o, i)) for n, o, i in axes]
            return [tuple(r[j] for r, j in zip(ranges, k, strict=True)) for k in indices([len(r) for r in ranges])]
        w = self.window
        padded, before = padded_spatial(self.spatial, w.padding), [a for a, _ in w.padding]
        places = (padded_coords(p, k, w.stride, w.dilation) for k in indices(w.kernel))
        inside = (q for q in places if all(i < n for i, n in zip(q, padded, strict=True)))
        return [unpad_coords(q, before, self.spatial) for q in inside]

    def real(self, p: Ints) -> list[Ints]:
        """The cells of window ``p`` that are not padding."""
        return [q for q in self.of(p) if q is not None]


def window_rank(window: Any) -> int:
    """Number of spatial axes of a window."""
    return len(window.output) if hasattr(window, "output") else len(window.kernel)


def split_shape(op: str, window: Any, shape: Ints) -> tuple[Ints, Cells]:
    """``(lead, cells)``: the axes before the spatial ones, and the windows over the spatial ones."""
    d = window_rank(window)
    check_pool_rank(op, shape, d)
    lead = shape[: len(shape) - d]
    cells = Cells(op, window, shape[len(shape) - d :])
    check_elements(op, (*lead, *cells.out))
    return lead, cells
