"""State dicts of PyTorch (``.pt``, ``.pth``), read without it.

Two formats are about. Since version 1.6 a file is a zip archive: ``NAME/data.pkl`` is a pickle in which storages are numbered,
``NAME/data/7`` holds the bytes of storage 7, not compressed. Before, it was a row of pickles (a magic number, a version, facts
about the machine, the state, the list of storages), then for each storage its count and its bytes.

The pickles are read by `lean_nn.io.pickles`, which can only make data. A storage is read once, when its size was compared with
what the file has; tensors are cut from it where they lie, after checking that they lie within. Tensors that share numbers
share memory here too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from math import prod
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np

from lean_nn.io.npy import fill
from lean_nn.io.npz import opened
from lean_nn.io.numbers import Array, BFloat16, converted, float_dtype, is_not_the_files
from lean_nn.io.pickles import Name, Storage, StoredTensor, unpickle

__all__ = ["load_pytorch", "read"]

DTYPES: dict[str, Any] = {
    "Double": np.float64, "Float": np.float32, "Half": np.float16, "BFloat16": np.uint16, "Long": np.int64,
    "Int": np.int32, "Short": np.int16, "Char": np.int8, "Byte": np.uint8, "Bool": np.bool_,
    "ComplexFloat": np.complex64, "ComplexDouble": np.complex128,
}  # fmt: skip
MAGIC = 0x1950A86A20F9469CFC6C
VERSION = 1001
LONGEST_PICKLE = 16_000_000  # bytes
DEEPEST = 32  # containers within containers
SHARED = 64  # times the file's length: what all tensors, which may share storages, have together


def load_pytorch(path: str | os.PathLike[str], dtype: Any = None) -> Any:
    """Everything in a file of PyTorch's: dicts, lists, tuples, texts and numbers, with arrays for tensors.

    `lean_nn.io.load` is for state dicts; this is for checkpoints that hold one beside other things.

    Parameters
    ----------
    path : a file that ``torch.save`` wrote, of either format
    dtype : float32, float64 or float16; converts floating-point arrays, and is needed where some are bfloat16

    Raises
    ------
    ValueError
        If the file is damaged, or holds anything but tensors and plain containers. Nothing in it is ever executed.
    """
    wanted = None if dtype is None else float_dtype("load_pytorch", dtype)
    try:
        value, storages, length = _contents(path)
        return _Finished(storages, length, lambda name, array: converted("load_pytorch", name, array, wanted)).of(value)
    except Exception as problem:  # whatever a stranger's bytes make a parser say, the file is wrong
        if is_not_the_files(problem):
            raise
        text = str(problem) or type(problem).__name__
        known = text.startswith("load_pytorch: ")
        raise ValueError(text if known else f"load_pytorch: {os.fspath(path)!r} cannot be used: {text}") from problem


def read(path: str | os.PathLike[str]) -> dict[str, Array | BFloat16]:
    """The tensors of a state dict by name."""
    value, storages, length = _contents(path)
    if type(value) is not dict or not all(type(k) is str and isinstance(v, StoredTensor) for k, v in value.items()):
        inside = f"the entries {[str(key)[:30] for key in value][:8]}" if type(value) is dict else f"a {type(value).__name__}"
        raise ValueError(f"a state dict has tensors by name; got {inside}: "
                         f"take the state dict out of lean_nn.io.load_pytorch(path)")
    found: dict[str, Array | BFloat16] = _Finished(storages, length, lambda name, array: array).of(value)
    return found


Bytes = Callable[[Storage], Array]


def _contents(path: str | os.PathLike[str]) -> tuple[Any, Bytes, int]:
    """The value in the file, what reads its storages, and the file's length."""
    length = os.stat(path).st_size
    with open(path, "rb") as file:
        zipped = file.read(4) == b"PK\x03\x04"
    value, raw = _from_zip(path) if zipped else _from_row(path, length)

    def storage(wanted: Storage) -> Array:
        dtype = np.dtype(DTYPES[wanted.type])
        if wanted.key not in raw:
            raise ValueError(f"storage {wanted.key[:40]!r} is not in the file")
        found = raw[wanted.key]
        if found.size != wanted.count * dtype.itemsize:
            raise ValueError(f"storage {wanted.key[:40]!r} of {wanted.count} numbers takes {wanted.count * dtype.itemsize} "
                             f"bytes; got {found.size}")
        if wanted.type == "Bool" and found.max(initial=0) > 1:
            raise ValueError(f"storage {wanted.key[:40]!r} has truth values, bytes 0 and 1; got others")
        return found.view(dtype)

    return value, storage, length


# --- the zip format ---


def _from_zip(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Array]]:
    with opened(path) as archive:
        names = [name for name in archive.namelist() if name.endswith("/data.pkl") or name == "data.pkl"]
        if len(names) != 1 or len(set(archive.namelist())) < len(archive.namelist()):
            raise ValueError(f"an archive has one data.pkl and every name once; got {names[:4]}")
        folder = names[0].removesuffix("data.pkl")
        order = bytes(_entry(archive, f"{folder}byteorder")) if f"{folder}byteorder" in archive.namelist() else b"little"
        if order != b"little":
            raise ValueError(f"numbers are written little end first; got {order[:20]!r}")
        pickle = _entry(archive, names[0])
        value, end = unpickle(pickle.data)
        if end != pickle.size:
            raise ValueError(f"the pickle ends with its entry; got {pickle.size - end} bytes behind it")
        keys = [name.removeprefix(f"{folder}data/") for name in archive.namelist() if name.startswith(f"{folder}data/")]
        return value, {key: _entry(archive, f"{folder}data/{key}", limit=None) for key in keys}


def _entry(archive: ZipFile, name: str, limit: int | None = LONGEST_PICKLE) -> Array:
    """The bytes of an entry, which lies in the archive as it is."""
    info = archive.getinfo(name)
    if info.compress_type != ZIP_STORED or (limit is not None and info.file_size > limit):
        raise ValueError(f"entry {name!r} is not compressed and has at most {limit} bytes; got {info.file_size}")
    raw = np.empty(info.file_size, np.uint8)
    with archive.open(info) as file:
        fill(file, raw, name)
    return raw


# --- the format before 1.6 ---


def _from_row(path: str | os.PathLike[str], length: int) -> tuple[Any, dict[str, Array]]:
    data = np.fromfile(path, np.uint8)
    view, head = data.data, data.data[:LONGEST_PICKLE]
    magic, end = unpickle(head) if data[:1] == 0x80 else (None, 0)
    if magic != MAGIC:
        raise ValueError("a file of PyTorch's is a zip archive or begins with PyTorch's magic number; got neither")
    version, end = unpickle(head, end)
    if version != VERSION:
        raise ValueError(f"the format's version is {VERSION}; got {str(version)[:40]}")
    _, end = unpickle(head, end)
    value, end = unpickle(head, end)
    keys, end = unpickle(head, end)
    if type(keys) is not list or not all(type(key) is str for key in keys) or len(set(keys)) < len(keys):
        raise ValueError("the storages are listed by key, each once; got something else")
    sizes = _item_sizes(value)
    raw: dict[str, Array] = {}
    for key in keys:
        if key not in sizes or end + 8 > length:
            raise ValueError(f"storage {key[:40]!r} belongs to a tensor and is in the file; got neither")
        count = int.from_bytes(view[end : end + 8], "little") * sizes[key]
        if count > length - end - 8:
            raise ValueError(f"storage {key[:40]!r} lies within the file; got {count} bytes of {length - end - 8}")
        raw[key] = data[end + 8 : end + 8 + count].copy()  # aligned
        end += 8 + count
    if end != length:
        raise ValueError(f"the storages end the file; got {length - end} bytes behind them")
    return value, raw


def _item_sizes(value: Any) -> dict[str, int]:
    """Bytes per number of every storage that a tensor in `value` is cut from."""
    found: dict[str, int] = {}

    def note(stored: Storage) -> Array:
        size = np.dtype(DTYPES[stored.type]).itemsize
        if found.setdefault(stored.key, size) != size:
            raise ValueError(f"storage {stored.key[:40]!r} has numbers of one size; got two")
        return np.empty(0, np.uint8)

    _Finished(note, 0, lambda name, array: array, cut=False).of(value)
    return found


# --- arrays for tensors ---


class _Finished:
    """Takes a value apart and puts it together again with arrays; values within values are few deep."""

    def __init__(self, storage: Bytes, length: int, finish: Callable[[str, Any], Any], cut: bool = True) -> None:
        self.storage, self.finish, self.cut = storage, finish, cut
        self.left = SHARED * length
        self.done: dict[int, tuple[int, Any]] = {}

    def of(self, value: Any) -> Any:
        return self._walk(value, 0, "the value")[1]

    def _walk(self, value: Any, depth: int, name: str) -> tuple[int, Any]:
        """(how many containers deep, the finished value); what is shared is finished once."""
        if depth > DEEPEST:
            raise ValueError(f"values lie at most {DEEPEST} containers deep")
        if type(value) in (str, int, float, bool, type(None)):
            return 0, value
        if isinstance(value, (Name, Storage)):
            raise ValueError(f"a value is a tensor, a container, a text or a number; got {type(value).__name__.lower()}")
        height, made = self.done.get(id(value), (0, self.done))
        if made is not self.done:
            if depth + height > DEEPEST:
                raise ValueError(f"values lie at most {DEEPEST} containers deep")
            return height, made
        height, made = self._make(value, depth, name)
        self.done[id(value)] = height, made
        return height, made

    def _make(self, value: Any, depth: int, name: str) -> tuple[int, Any]:
        if isinstance(value, StoredTensor):
            return 0, self._tensor(value, name)
        parts = list(value.values()) if type(value) is dict else list(value)
        names = list(map(str, value)) if type(value) is dict else [name] * len(parts)
        found = [self._walk(part, depth + 1, key) for part, key in zip(parts, names, strict=True)]
        height = 1 + max((h for h, _ in found), default=0)
        made = [part for _, part in found]
        return height, dict(zip(value, made, strict=True)) if type(value) is dict else type(value)(made)

    def _tensor(self, tensor: StoredTensor, name: str) -> Any:
        flat = self.storage(tensor.storage)
        if not self.cut:
            return None
        self.left -= prod(tensor.shape) * flat.itemsize
        if self.left < 0:
            raise ValueError(f"tensors have together at most {SHARED} times the numbers of the file; got more")
        strides = [step * flat.itemsize for step in tensor.steps]
        array: Array = np.lib.stride_tricks.as_strided(flat[tensor.first :], tensor.shape, strides) if prod(tensor.shape) \
            else np.empty(tensor.shape, flat.dtype)  # fmt: skip
        return self.finish(name, BFloat16(array) if tensor.storage.type == "BFloat16" else array)
