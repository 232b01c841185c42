from typing import Any

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[np.floating[Any]]
_Sizes = tuple[int, ...]

def packed_length(c: int, o: int, groups: int, m: int, transposed: bool = False) -> int: ...
def pack_weights(w: _Array, packed: _Array, c: int, o: int, groups: int, m: int, transposed: bool = False) -> None: ...
def conv(
    x: _Array,
    packed: _Array,
    b: _Array | None,
    y: _Array,
    n: int,
    c: int,
    o: int,
    groups: int,
    spatial: _Sizes,
    out: _Sizes,
    pad: _Sizes,
    m: int,
) -> bool: ...
