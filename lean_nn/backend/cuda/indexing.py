"""Reading at places given by integers, and adding at them in a fixed order; dropout.

CuPy's own scatters use atomics, whose order changes from run to run. Here the indices are sorted, which keeps equal ones
in their order, and a thread adds up the terms of its cell: the sum that the CPU takes, in the same order.

Indices are looked at before anything moves, so a wrong one is the CPU's error. That waits for the device.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from lean_nn.backend.cuda.launch import launch
from lean_nn.backend.cuda.library import cp

Shape = tuple[int, ...]


def check(op: str, idx: Any, n: int, ignore: int | None = None) -> Any:
    """idx, every entry in 0 … n − 1; those that are `ignore` become n."""
    outside = (idx < 0) | (idx >= n)
    if ignore is not None:
        skipped = idx == ignore
        outside &= ~skipped
    if idx.size and bool(outside.any()):
        at = int(outside.reshape(-1).argmax())
        got = int(idx.reshape(-1)[at])
        raise IndexError(f"{op}: indices are 0 … {n - 1} on an axis of {n}; got {got} at flat position {at}; correct the index")
    return idx if ignore is None else cp.where(skipped, np.int64(n), idx)


def add_at(terms: Any, keys: Any, out: Any, n: int, k: int, inner: int) -> None:
    """out (outer, n, inner) = sums of terms (outer, k, inner) by `keys` (k,) in 0 … n − 1; keys of n or more are left out."""
    order = cp.argsort(keys, kind="stable").astype(np.int64)
    bounds = cp.searchsorted(keys[order], cp.arange(n + 1, dtype=np.int64)).astype(np.int64)
    largest = max(terms.size, out.size)
    launch("segment_sum", out.dtype, 1, largest, out.size, out.size, n, k, inner, terms, order, bounds, out)


# --- gather and scatter_add ---


def gather(x: Any, idx: Any, *, out: Any, axis: int) -> None:
    _gather("gather", x, idx, out, axis, None)


def pick(x: Any, idx: Any, *, out: Any, axis: int, ignore: int) -> None:
    _gather("pick", x, idx, out, axis, ignore)


def _gather(op: str, x: Any, idx: Any, out: Any, axis: int, ignore: int | None) -> None:
    places = check(op, idx, x.shape[axis], ignore)
    if not out.size:
        return
    if ignore is None:
        out[...] = cp.take_along_axis(x, places, axis)
        return
    skipped = places == x.shape[axis]
    if x.shape[axis] == 0:
        out.fill(0)
        return
    found = cp.take_along_axis(x, cp.where(skipped, np.int64(0), places), axis)
    out[...] = cp.where(skipped, x.dtype.type(0), found)


def scatter_add(g: Any, idx: Any, *, out: Any, axis: int, size: int) -> None:
    _scatter("scatter_add", g, idx, out, axis, None)


def unpick(g: Any, idx: Any, *, out: Any, axis: int, size: int, ignore: int) -> None:
    _scatter("unpick", g, idx, out, axis, ignore)


def _scatter(op: str, g: Any, idx: Any, out: Any, axis: int, ignore: int | None) -> None:
    n, k = out.shape[axis], idx.shape[axis]
    places = check(op, idx, n, ignore)
    if not out.size or not idx.size:
        out.fill(0)
        return
    inner = prod(out.shape[axis + 1 :])
    flat = cp.arange(idx.size, dtype=np.int64)
    column, outer = flat % np.int64(inner), flat // np.int64(inner * k)
    rows = places.reshape(-1)
    cells = (outer * np.int64(n) + rows) * np.int64(inner) + column
    add_at(g, cp.where(rows == n, np.int64(out.size), cells), out, out.size, idx.size, 1)


# --- take and take_transpose ---


def take(x: Any, idx: Any, *, out: Any, axis: int) -> None:
    check("take", idx, x.shape[axis])
    if out.size:
        out[...] = cp.take(x, idx, axis)


def take_transpose(g: Any, idx: Any, *, out: Any, axis: int, size: int) -> None:
    check("take_transpose", idx, size)
    if not out.size or not idx.size:
        out.fill(0)
        return
    add_at(g, idx.reshape(-1), out, size, idx.size, prod(out.shape[axis + 1 :]))


# --- dropout ---


def dropout(x: Any, seed: Any, *, out: Any, p: float) -> None:
    """The i-th number of the sequence `seed`, SplitMix64's, decides on element i, as on the CPU."""
    word = np.uint64
    z = (cp.arange(x.size, dtype=word) + word(1)) * word(0x9E3779B97F4A7C15) + seed.astype(word)
    z = (z ^ (z >> word(30))) * word(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> word(27))) * word(0x94D049BB133111EB)
    z = z ^ (z >> word(31))
    stays = (z >> word(11)).astype(np.float64) * np.float64(2.0**-53) >= p
    keep = x.dtype.type(1.0 - p)
    out[...] = cp.where(stays.reshape(x.shape), x / keep, x.dtype.type(0))


SLOTS = {
    "gather": gather, "scatter_add": scatter_add, "pick": pick, "unpick": unpick, "take": take,
    "take_transpose": take_transpose, "dropout": dropout,
}  # fmt: skip
