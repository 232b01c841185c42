from typing import Any

from numpy.typing import NDArray

from lean_nn_c.step import Step

def max_step(
    wide: bool,
    places: bool,
    cells: int,
    windows: int,
    axes: NDArray[Any],
    outputs: NDArray[Any],
    inputs: NDArray[Any],
) -> Step: ...
def gather_at(x: NDArray[Any], idx: NDArray[Any], y: NDArray[Any], planes: int) -> None: ...
def scatter_add_at(y_bar: NDArray[Any], idx: NDArray[Any], x_bar: NDArray[Any], planes: int) -> None: ...
