from typing import Any

from numpy.typing import NDArray

def avg_pool(
    x: NDArray[Any],
    y: NDArray[Any],
    axes: NDArray[Any],
    outputs: NDArray[Any],
    inputs: NDArray[Any],
    kind: int,
    given: float,
) -> None: ...
def avg_pool_transpose(
    y_bar: NDArray[Any],
    x_bar: NDArray[Any],
    axes: NDArray[Any],
    outputs: NDArray[Any],
    inputs: NDArray[Any],
    kind: int,
    given: float,
) -> None: ...
