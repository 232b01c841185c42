from typing import Any

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[np.floating[Any]]

def matmul(
    a: _Array,
    b: _Array,
    c: _Array,
    m: int,
    n: int,
    k: int,
    ta: bool,
    tb: bool,
    batch: tuple[int, ...],
    a_step: tuple[int, ...],
    b_step: tuple[int, ...],
) -> None: ...
