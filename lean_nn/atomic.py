"""Files that are written whole or not at all.

A program that is killed while it writes must not leave half a file where a whole one stood. So the bytes go to a file beside
it first, reach the disk (``fsync``), and then the file takes its name: renaming within a folder is one step for everybody who
looks. The folder is synced too, so that the new name survives a power cut.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

__all__ = ["open_atomically", "write_atomically"]


@contextmanager
def open_atomically(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file to write to, which becomes the file `path` when the block ends well.

    An existing file keeps its contents until the new ones are complete; if the block raises, it keeps them altogether.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "greeting")
    >>> with open_atomically(path) as file:
    ...     count = file.write(b"good morning")
    >>> with open(path, "rb") as file:
    ...     file.read()
    b'good morning'
    """
    path = os.fspath(path)
    folder, name = os.path.split(path)
    beside = os.path.join(folder, f".{name}.{os.urandom(6).hex()}")
    try:
        with open(beside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(beside)
        raise
    _sync_folder(folder or ".")


def write_atomically(path: str | os.PathLike[str], chunks: Iterable[Any]) -> None:
    """Write `chunks` (bytes, or anything with a buffer) to the file `path`, all of them or nothing."""
    with open_atomically(path) as file:
        for chunk in chunks:
            file.write(chunk)


def _sync_folder(folder: str) -> None:
    """Best effort: some systems do not let a folder be opened, and the file itself is safe already."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
