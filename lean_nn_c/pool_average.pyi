from typing import Any

from numpy.typing import NDArray

from lean_nn_c.step import Step

def average_step(
    wide: bool,
    transposed: bool,
    cells: int,
    windows: int,
    axes: NDArray[Any],
    outputs: NDArray[Any],
    inputs: NDArray[Any],
    kind: int,
    given: float,
) -> Step: ...
