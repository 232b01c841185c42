from typing import Any

from numpy.typing import NDArray

def smooth_max_pool(
    x: NDArray[Any],
    y: NDArray[Any],
    axes: NDArray[Any],
    outputs: NDArray[Any],
    inputs: NDArray[Any],
    beta: float,
) -> None: ...
def smooth_gather(
    t: NDArray[Any],
    x: NDArray[Any],
    y: NDArray[Any],
    axes: NDArray[Any],
    outputs: NDArray[Any],
    inputs: NDArray[Any],
    beta: float,
) -> None: ...
def smooth_scatter(
    g: NDArray[Any],
    x: NDArray[Any],
    x_bar: NDArray[Any],
    axes: NDArray[Any],
    outputs: NDArray[Any],
    inputs: NDArray[Any],
    beta: float,
) -> None: ...
