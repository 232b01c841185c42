from lean_nn_c.step import Step

def move_step(
    name: str,
    sources: tuple[int, ...],
    item: int,
    cells: int,
    moves: list[tuple[int, int, int, list[tuple[int, int, int]]]],
    fill: bytes | None = None,
) -> Step: ...
