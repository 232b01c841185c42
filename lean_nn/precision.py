"""Whether fast algorithms whose error is bounded norm-wise only may be used.

Classical kernels obey |ŷ − y| ≤ γₙ·Σ|x||w|, term by term. Winograd's convolution (``lean_nn_c/winograd.pyx``) is about
twice as fast and on random data about twice as far off, but its bound is by the norm of a whole tile of the image.
"""

from __future__ import annotations

from typing import Literal

from lean_nn_c import precision

__all__ = ["get_precision", "set_precision"]

Precision = Literal["exact", "fast"]


def get_precision() -> Precision:
    """``"fast"`` (the default) or ``"exact"``.

    Examples
    --------
    >>> import lean_nn as ln
    >>> ln.get_precision()
    'fast'
    """
    return "fast" if precision.get_fast() else "exact"


def set_precision(value: Precision) -> None:
    """Use classical kernels only (``"exact"``), or fast algorithms where they pay (``"fast"``), in the whole process.

    Examples
    --------
    >>> import lean_nn as ln
    >>> ln.set_precision("exact")
    >>> ln.get_precision()
    'exact'
    >>> ln.set_precision("fast")
    """
    if value not in ("exact", "fast"):
        raise ValueError(f'set_precision: "exact" or "fast"; got {value!r}; choose one')
    precision.set_fast(value == "fast")
