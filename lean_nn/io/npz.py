"""``.npz``: a zip archive with an ``.npy`` file per array, without pickle.

Reading goes by three claims that must agree before memory is taken: the shape in an entry's ``.npy`` header, the size in the
archive's table, and the length of the file. Deflate makes at most 1,032 bytes of one, so an entry that claims more lies;
entries do not overlap, so their packed sizes add up to less than the file has.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from numpy.lib import format as npy

from lean_nn.atomic import open_atomically
from lean_nn.io.npy import read_array
from lean_nn.io.numbers import Array

METADATA = "__metadata__"
DEFLATE_RATIO = 1032
LONGEST_METADATA = 100_000_000  # bytes


def write(path: str | os.PathLike[str], state: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """An entry per array, not compressed: weights hardly shrink, and reading is a copy."""
    if METADATA in state:
        raise ValueError(f"save: {METADATA!r} holds the metadata of an .npz; got an array of that name; rename it")
    entries = dict(state)
    if metadata:
        entries[METADATA] = np.frombuffer(json.dumps(dict(metadata)).encode(), np.uint8)
    with open_atomically(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in entries.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                npy.write_array(entry, array, allow_pickle=False)


def read(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The arrays by name."""
    with opened(path) as archive:
        return {name: _array(archive, info) for name, info in entries(archive).items() if name != METADATA}


def read_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """What stands in the metadata entry; nothing if there is none."""
    with opened(path) as archive:
        info = entries(archive).get(METADATA)
        if info is None:
            return {}
        if info.file_size > LONGEST_METADATA:
            raise ValueError(f"metadata have at most {LONGEST_METADATA} bytes; got {info.file_size}")
        found = json.loads(_array(archive, info).tobytes())
    if not isinstance(found, dict):
        raise ValueError("metadata are texts by name; got something else")
    return found


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    """The archive, its entries' sizes compared with the length of the file."""
    with open(path, "rb") as file:
        length = os.fstat(file.fileno()).st_size
        with zipfile.ZipFile(file) as archive:
            packed = sum(info.compress_size for info in archive.infolist())
            if packed > length:
                raise ValueError(f"entries take {packed} bytes of a file of {length}: they overlap")
            for info in archive.infolist():
                _check_entry(info)
            yield archive


def _check_entry(info: zipfile.ZipInfo) -> None:
    if info.flag_bits & 0x1:
        raise ValueError(f"entry {info.filename!r} is encrypted")
    stored = info.compress_type == zipfile.ZIP_STORED
    if not stored and info.compress_type != zipfile.ZIP_DEFLATED:
        raise ValueError(f"entry {info.filename!r} is stored or deflated; got method {info.compress_type}")
    most = info.compress_size if stored else DEFLATE_RATIO * info.compress_size
    if info.file_size > most or (stored and info.file_size != most):
        raise ValueError(f"entry {info.filename!r} claims {info.file_size} bytes from {info.compress_size}")


def entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Arrays by name: what ends in ``.npy``."""
    found: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name == info.filename:
            raise ValueError(f"entries end in .npy; got {info.filename!r}")
        if name in found:
            raise ValueError(f"names differ; got {name!r} twice")
        found[name] = info
    return found


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    with archive.open(info) as file:
        return read_array(file, info.file_size, info.filename)
