"""The handwritten digits of the UCI repository, shipped with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lean_nn.io import load

__all__ = ["load_digits"]


def load_digits() -> tuple[NDArray[Any], NDArray[Any]]:
    """1,797 handwritten digits: pictures (1797, 1, 8, 8) of float32 in 0..1, and labels of int64.

    From "Optical Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak, UCI Machine Learning Repository
    (https://doi.org/10.24432/C50P49), licensed under CC BY 4.0; ``DIGITS.txt`` beside this file says what was changed.

    Examples
    --------
    >>> from lean_nn.data import load_digits
    >>> x, y = load_digits()
    >>> x.shape, x.dtype, y.shape, y[:10].tolist()
    ((1797, 1, 8, 8), dtype('float32'), (1797,), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    found = load(Path(__file__).with_name("digits.npz"))
    return found["x"][:, None].astype(np.float32) / np.float32(16), found["y"].astype(np.int64)
