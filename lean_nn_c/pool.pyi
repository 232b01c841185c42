from typing import Any

from numpy.typing import NDArray

from lean_nn_c.step import Step

def max_step(
    wide: bool,
    beside: str,
    cells: int,
    windows: int,
    axes: NDArray[Any],
    outputs: NDArray[Any],
    inputs: NDArray[Any],
) -> Step: ...
