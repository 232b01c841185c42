from typing import Any

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[np.floating[Any]]
_Sizes = tuple[int, ...]

ALGORITHMS: tuple[str, ...]

def conv(
    x: _Array,
    w: _Array,
    b: _Array | None,
    y: _Array,
    n: int,
    c: int,
    o: int,
    groups: int,
    spatial: _Sizes,
    kernel: _Sizes,
    out: _Sizes,
    stride: _Sizes,
    pad: _Sizes,
    dilation: _Sizes,
    algorithm: str = "auto",
) -> None: ...
def conv_input(
    y_bar: _Array,
    w: _Array,
    x_bar: _Array,
    n: int,
    c: int,
    o: int,
    groups: int,
    spatial: _Sizes,
    kernel: _Sizes,
    out: _Sizes,
    stride: _Sizes,
    pad: _Sizes,
    dilation: _Sizes,
    algorithm: str = "auto",
) -> None: ...
def conv_weight(
    x: _Array,
    y_bar: _Array,
    w_bar: _Array,
    n: int,
    c: int,
    o: int,
    groups: int,
    spatial: _Sizes,
    kernel: _Sizes,
    out: _Sizes,
    stride: _Sizes,
    pad: _Sizes,
    dilation: _Sizes,
    algorithm: str = "auto",
) -> None: ...
def unfold(
    x: _Array,
    cols: _Array,
    n: int,
    c: int,
    spatial: _Sizes,
    kernel: _Sizes,
    out: _Sizes,
    stride: _Sizes,
    pad: _Sizes,
    dilation: _Sizes,
) -> None: ...
def fold(
    cols: _Array,
    x_bar: _Array,
    n: int,
    c: int,
    spatial: _Sizes,
    kernel: _Sizes,
    out: _Sizes,
    stride: _Sizes,
    pad: _Sizes,
    dilation: _Sizes,
) -> None: ...
