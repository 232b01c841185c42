from typing import Any

from numpy.typing import NDArray

def max_pool(
    x: NDArray[Any],
    y: NDArray[Any],
    idx: NDArray[Any] | None,
    axes: NDArray[Any],
    outputs: NDArray[Any],
    inputs: NDArray[Any],
) -> None: ...
def gather_at(x: NDArray[Any], idx: NDArray[Any], y: NDArray[Any], planes: int) -> None: ...
def scatter_add_at(y_bar: NDArray[Any], idx: NDArray[Any], x_bar: NDArray[Any], planes: int) -> None: ...
