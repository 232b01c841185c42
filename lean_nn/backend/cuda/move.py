"""Moving numbers: slices of CuPy arrays assigned to slices of others."""

from __future__ import annotations

from typing import Any

from lean_nn.backend.cpu_move import slice_keys

Shape = tuple[int, ...]


def broadcast_to(x: Any, *, out: Any, shape: Shape) -> None:
    out[...] = x


def transpose(x: Any, *, out: Any, axes: Shape) -> None:
    out[...] = x.transpose(axes)


def slice_cells(x: Any, *, out: Any, start: Shape, size: Shape, step: Shape) -> None:
    out[...] = x[slice_keys(start, size, step)]


def unslice(g: Any, *, out: Any, start: Shape, step: Shape, shape: Shape) -> None:
    out.fill(0)
    out[slice_keys(start, g.shape, step)] = g


def concat(*parts: Any, out: Any, axis: int) -> None:
    begin = 0
    for part in parts:
        end = begin + part.shape[axis]
        out[(slice(None),) * axis + (slice(begin, end),)] = part
        begin = end


def pad(x: Any, *, out: Any, padding: tuple[tuple[int, int], ...], value: float) -> None:
    out.fill(out.dtype.type(value))
    out[tuple(slice(before, before + n) for (before, _), n in zip(padding, x.shape, strict=True))] = x


def flip(x: Any, *, out: Any, axes: Shape) -> None:
    out[...] = x[tuple(slice(None, None, -1 if a in axes else 1) for a in range(x.ndim))]


def cast(x: Any, *, out: Any, dtype: str) -> None:
    out[...] = x.astype(out.dtype)


SLOTS = {
    "broadcast_to": broadcast_to, "transpose": transpose, "slice": slice_cells, "unslice": unslice, "concat": concat,
    "pad": pad, "flip": flip, "cast": cast,
}  # fmt: skip
