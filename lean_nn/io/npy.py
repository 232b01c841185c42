"""Single arrays in NumPy's ``.npy`` format, without pickle: the shape that is claimed is the size that is there."""

from __future__ import annotations

from math import prod
from typing import IO

import numpy as np
from numpy.lib import format as npy

from lean_nn.io.numbers import Array

__all__ = ["fill", "read_array"]

MOST_AXES = 32


def read_array(file: IO[bytes], size: int, name: str) -> Array:
    """The array of an ``.npy`` file of `size` bytes, which it fills exactly."""
    version = npy.read_magic(file)
    if version == (1, 0):
        shape, fortran, dtype = npy.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, fortran, dtype = npy.read_array_header_2_0(file)
    else:
        raise ValueError(f"{name!r} has .npy version 1.0 or 2.0; got {version}")
    if dtype.kind not in "biufc":
        raise ValueError(f"{name!r} holds numbers; got {dtype}, which is never unpickled")
    if len(shape) > MOST_AXES or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"{name!r} has at most {MOST_AXES} sizes from 0 up; got {shape}")
    needed = prod(shape) * dtype.itemsize
    began = file.tell()
    if began + needed != size:
        raise ValueError(f"{name!r} of shape {shape} takes {needed} bytes; got {size - began}")
    array = np.empty(prod(shape), dtype)
    fill(file, array.view(np.uint8), name)
    if dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
        raise ValueError(f"{name!r} has truth values, bytes 0 and 1; got others")
    array = array.astype(dtype.newbyteorder("="), copy=False)
    return array.reshape(shape, order="F" if fortran else "C")


def fill(file: IO[bytes], array: Array, name: str) -> None:
    """Read bytes until `array` is full; the file ends there (and with that its checksum is compared)."""
    view = array.data
    done = 0
    while done < len(view):
        count = file.readinto(view[done:])  # type: ignore[attr-defined]
        if not count:
            raise ValueError(f"{name!r} ends after {done} of {len(view)} bytes")
        done += count
    if file.read(1):
        raise ValueError(f"{name!r} goes on after {done} bytes")
