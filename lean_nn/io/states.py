"""`save`, `load`, `metadata`: one front door, the suffix of the file chooses the format."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lean_nn.io import npz, pytorch, safe
from lean_nn.io.numbers import Array, converted, float_dtype, is_not_the_files

__all__ = ["load", "metadata", "save"]

READERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    ".npz": npz.read, ".safetensors": safe.read, ".pt": pytorch.read, ".pth": pytorch.read,
}  # fmt: skip
WRITERS = {".npz": npz.write, ".safetensors": safe.write}
NOTES = {".npz": npz.read_metadata, ".safetensors": safe.read_metadata}


def save(path: str | os.PathLike[str], state: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays by name to `path` (``.npz`` or ``.safetensors``), all of them or nothing.

    Parameters
    ----------
    path : the suffix chooses the format
    state : arrays, Tensors or numbers by name; what `lean_nn.nn.Module.state_dict` returns
    metadata : texts by name that go along

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from lean_nn import io
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.npz")
    >>> io.save(path, {"layer.weight": np.eye(2, dtype=np.float32)}, {"made by": "hand"})
    >>> io.load(path)
    {'layer.weight': array([[1., 0.],
           [0., 1.]], dtype=float32)}
    >>> io.metadata(path)
    {'made by': 'hand'}
    """
    write = WRITERS[_suffix("save", path, WRITERS)]
    write(path, {name: _plain(name, value) for name, value in state.items()}, _texts(metadata or {}))


def load(path: str | os.PathLike[str], dtype: Any = None) -> dict[str, Array]:
    """The arrays of a file by name.

    Parameters
    ----------
    path : ``.npz``, ``.safetensors``, or a state dict of PyTorch's in ``.pt`` or ``.pth``
    dtype : float32, float64 or float16
        Convert all floating-point arrays to it; None leaves them as they are. NumPy has no bfloat16, so a file with such
        numbers asks for this argument (float32 holds each of them exactly).

    Raises
    ------
    ValueError
        If the file is damaged, has other contents, or wants to run something.
    """
    wanted = None if dtype is None else float_dtype("load", dtype)
    name = os.fspath(path)
    try:
        found = READERS[_suffix("load", path, READERS)](path)
        return {key: converted("load", key, array, wanted) for key, array in found.items()}
    except Exception as problem:  # whatever a stranger's bytes make a parser say, the file is wrong
        if is_not_the_files(problem):
            raise
        text = str(problem) or type(problem).__name__
        raise ValueError(text if text.startswith("load: ") else f"load: {name!r} cannot be used: {text}") from problem


def metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """The texts that `save` was given."""
    read = NOTES[_suffix("metadata", path, NOTES)]
    try:
        return _texts(read(path))
    except Exception as problem:
        if is_not_the_files(problem):
            raise
        raise ValueError(f"metadata: {os.fspath(path)!r} cannot be used: {problem or type(problem).__name__}") from problem


def _suffix(op: str, path: str | os.PathLike[str], known: Mapping[str, Any]) -> str:
    suffix = os.path.splitext(os.fspath(path))[1].lower()
    if suffix not in known:
        raise ValueError(f"{op}: a file ends in {', '.join(known)}; got {os.fspath(path)!r}; name its format")
    return suffix


def _plain(name: Any, value: Any) -> Array:
    """The array of an array, Tensor or number; nothing that would need pickle."""
    if not isinstance(name, str) or not name:
        raise TypeError(f"save: names are text; got {name!r}; rename it")
    array = np.asarray(getattr(value, "data", value) if not isinstance(value, np.ndarray) else value, order="C")
    if array.dtype.kind not in "biufc":
        raise TypeError(f"save: arrays of numbers; got {array.dtype} for {name!r}; convert it")
    return array


def _texts(notes: Mapping[str, str]) -> dict[str, str]:
    for name, text in notes.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise TypeError(f"save: metadata are texts by name; got {name!r}: {type(text).__name__}; write it as text")
    return dict(notes)
