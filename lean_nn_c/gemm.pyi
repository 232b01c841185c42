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
) -> Step: ...
