"""``.safetensors`` through the package `safetensors`, which checks the layout; here are only the number types."""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from lean_nn.atomic import write_atomically
from lean_nn.io.numbers import Array, BFloat16

DTYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16,
    "I8": np.int8, "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8, "BOOL": np.bool_,
}  # fmt: skip


def _package() -> Any:
    try:
        import safetensors
    except ImportError:
        raise ImportError("safetensors files need the package of that name: pip install 'lean_nn[safetensors]'") from None
    return safetensors


def write(path: str | os.PathLike[str], state: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """All arrays in one file."""
    _package()
    from safetensors.numpy import save

    known = {np.dtype(dtype) for dtype in DTYPES.values()}
    for name, array in state.items():
        if array.dtype not in known:
            raise TypeError(f"save: safetensors holds {sorted(map(str, known))}; got {array.dtype} for {name!r}; convert it")
    write_atomically(path, [save(dict(state), dict(metadata) or None)])


def read(path: str | os.PathLike[str]) -> dict[str, Array | BFloat16]:
    """The arrays by name, in the order of the names; copies that may be written to."""
    package = _package()
    with open(path, "rb") as file:
        found = package.deserialize(file.read())
    return {name: _array(name, entry) for name, entry in sorted(found, key=lambda item: item[0])}


def _array(name: str, entry: Mapping[str, Any]) -> Array | BFloat16:
    shape, code = tuple(entry["shape"]), entry["dtype"]
    if code != "BF16" and code not in DTYPES:
        raise ValueError(f"{name!r} has one of the types {', '.join(DTYPES)}, BF16; got {code}")
    raw = np.frombuffer(entry["data"], np.uint8)
    dtype = np.dtype(np.uint16 if code == "BF16" else DTYPES[code])
    if raw.size != prod(shape) * dtype.itemsize:
        raise ValueError(f"{name!r} of shape {shape} takes {prod(shape) * dtype.itemsize} bytes; got {raw.size}")
    if code == "BOOL" and raw.max(initial=0) > 1:
        raise ValueError(f"{name!r} has truth values, bytes 0 and 1; got others")
    array = raw.copy().view(dtype).reshape(shape)
    return BFloat16(array) if code == "BF16" else array


def read_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """What stands in the header's ``__metadata__``."""
    with _package().safe_open(os.fspath(path), framework="numpy") as file:
        return file.metadata() or {}
