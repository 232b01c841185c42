"""Pictures from folders: a folder per class, a file per sample."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lean_nn.io.npy import read_array

__all__ = ["from_folder", "read_picture"]

Array = NDArray[Any]
PICTURES = (".png", ".pgm", ".ppm", ".bmp", ".jpg", ".jpeg")


def from_folder(path: str | os.PathLike[str], size: tuple[int, int] | None = None) -> tuple[Array, Array, list[str]]:
    """(x, y, names of the classes) from ``path/CLASS/FILE``: x of shape (samples, channels, *sizes), float32.

    Parameters
    ----------
    path : a folder with a folder per class; classes and files are taken in the order of their names
    size : (height, width) that pictures are scaled to; None asks that all have one size

    Pictures (``.png``, ``.pgm``, …; they need the extra ``images``) come in 0..1, grey ones with one channel and others with
    three. ``.npy`` files hold one sample each and are taken as they are; one without channels gets an axis for them.
    """
    root = Path(path)
    folders = sorted(folder for folder in root.iterdir() if folder.is_dir() and not folder.name.startswith("."))
    files = [(label, file) for label, folder in enumerate(folders) for file in sorted(folder.iterdir())
             if file.suffix.lower() in (*PICTURES, ".npy")]  # fmt: skip
    if not files:
        raise ValueError(f"from_folder: {str(root)!r} has a folder per class with {', '.join(PICTURES)} or .npy files; "
                         f"got {len(folders)} folders and no such file; name the folder above the classes")
    samples = [read_picture(file, size) for _, file in files]
    for (_, file), sample in zip(files, samples, strict=True):
        if sample.shape != samples[0].shape:
            raise ValueError(f"from_folder: samples have one shape, here {samples[0].shape}; got {sample.shape} in "
                             f"{str(file)!r}; pass size=(height, width)")
    labels = np.array([label for label, _ in files], np.int64)
    return np.stack(samples), labels, [folder.name for folder in folders]


def read_picture(path: str | os.PathLike[str], size: tuple[int, int] | None = None) -> Array:
    """One sample (channels, *sizes) of float32: a picture's pixels in 0..1, or the array of an ``.npy`` file."""
    path = Path(path)
    if path.suffix.lower() == ".npy":
        with open(path, "rb") as file:
            array = read_array(file, os.fstat(file.fileno()).st_size, str(path)).astype(np.float32)
        return array[None] if array.ndim == 2 else array
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("pictures need Pillow: pip install 'lean_nn[images]'") from None
    try:
        with Image.open(path) as picture:
            grey = picture.mode in ("1", "L", "LA", "I", "I;16", "F")
            deep = picture.mode in ("I", "I;16")
            scaled: Any = picture if size is None else picture.resize((size[1], size[0]), Image.Resampling.BILINEAR)
            pixels = np.asarray(scaled if deep else scaled.convert("L" if grey else "RGB"))
    except FileNotFoundError:
        raise
    except Exception as problem:  # whatever a stranger's bytes make a decoder say, the file is wrong
        raise ValueError(f"read_picture: {str(path)!r} is no picture that can be used: {problem}") from problem
    shares = pixels.astype(np.float32) / np.float32(65535 if deep else 255)
    return shares[None] if grey else np.ascontiguousarray(shares.transpose(2, 0, 1))
