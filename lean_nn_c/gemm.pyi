from lean_nn_c.step import Step

def step(
    wide: bool,
    a_size: int,
    b_size: int,
    m: int,
    n: int,
    k: int,
    ta: bool,
    tb: bool,
    batch: tuple[int, ...],
    a_step: tuple[int, ...],
    b_step: tuple[int, ...],
    bias: bool = False,
    other: bool = False,
    act: str = "",
    slope: float = 0,
    packed: bool = False,
) -> Step: ...
def pack(wide: bool, rows: int, n: int, k: int, ta: bool, tb: bool) -> Step | None: ...
