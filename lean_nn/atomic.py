"""Files that are written whole or not at all.

A program that is killed while it writes must not leave half a file where a whole one stood. So the bytes go to a file beside
it first, reach the disk (``fsync``), and then the file takes its name: renaming within a folder is one step for everybody who
looks. The folder is synced too, so that the new name survives a power cut.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

__all__ = ["write_atomically"]


def write_atomically(path: str | os.PathLike[str], chunks: Iterable[Any]) -> None:
    """Write `chunks` (bytes, or anything with a buffer) to the file `path`, all of them or nothing.

    An existing file keeps its contents until the new ones are complete; if `chunks` raises, it keeps them altogether.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "greeting")
    >>> write_atomically(path, [b"good ", b"morning"])
    >>> with open(path, "rb") as file:
    ...     file.read()
    b'good morning'
    """
    path = os.fspath(path)
    folder, name = os.path.split(path)
    beside = os.path.join(folder, f".{name}.{os.urandom(6).hex()}")
    try:
        with open(beside, "xb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(beside)
        raise
    _sync_folder(folder or ".")


def _sync_folder(folder: str) -> None:
    """Best effort: some systems do not let a folder be opened, and the file itself is safe already."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
