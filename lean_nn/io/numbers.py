"""What readers share: number types (NumPy's, and bfloat16, which NumPy does not have) and whose fault a problem is."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]  # written out: numpy.typing costs 2 ms to import


class BFloat16:
    """Bits of bfloat16 numbers, the upper halves of float32: an array of uint16 that says what it is."""

    __slots__ = ("bits",)

    def __init__(self, bits: Array) -> None:
        self.bits = bits


def float_dtype(op: str, dtype: Any) -> np.dtype[Any]:
    """`dtype` as one of NumPy's floating-point types."""
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        found = np.dtype(object)
    if found not in (np.float16, np.float32, np.float64):
        raise ValueError(f"{op}: dtype is float32, float64 or float16; got {dtype!r}; pass one of them or None")
    return found


def converted(op: str, name: str, array: Array | BFloat16, dtype: np.dtype[Any] | None) -> Array:
    """The array, its floating-point numbers as `dtype` if that is given."""
    if isinstance(array, BFloat16):
        if dtype is None:
            raise ValueError(f"{op}: NumPy has no bfloat16; got {name!r} of that type; "
                             f'pass dtype="float32", which holds every such number exactly')
        array = (array.bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype is None or array.dtype.kind != "f":
        return array
    return array.astype(dtype, copy=False)


def is_not_the_files(problem: Exception) -> bool:
    """Whether a problem has nothing to do with a file's contents: it cannot be opened, memory or a package is missing.

    An OSError without a name comes from seeking to where a damaged table points.
    """
    opening = isinstance(problem, OSError) and problem.filename is not None
    return opening or isinstance(problem, (MemoryError, ImportError))
