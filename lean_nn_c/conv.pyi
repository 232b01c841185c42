from lean_nn_c.step import Step

_Ints = tuple[int, ...]

ALGORITHMS: dict[str, int]

def step(
    name: str,
    wide: bool,
    bias: bool,
    n: int,
    c: int,
    o: int,
    groups: int,
    spatial: _Ints,
    kernel: _Ints,
    out: _Ints,
    stride: _Ints,
    pad: _Ints,
    dilation: _Ints,
    algorithm: str = "auto",
    other: bool = False,
    act: str = "",
    slope: float = 0,
    packed: bool = False,
) -> Step: ...
def winners(
    name: str,
    windows: int,
    n: int,
    c: int,
    o: int,
    groups: int,
    spatial: _Ints,
    kernel: _Ints,
    out: _Ints,
    stride: _Ints,
    pad: _Ints,
    dilation: _Ints,
) -> Step | None: ...
def pack(
    name: str,
    wide: bool,
    n: int,
    c: int,
    o: int,
    groups: int,
    spatial: _Ints,
    kernel: _Ints,
    out: _Ints,
    stride: _Ints,
    pad: _Ints,
    dilation: _Ints,
    algorithm: str = "auto",
) -> Step | None: ...
