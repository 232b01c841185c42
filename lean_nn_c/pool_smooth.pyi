from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from lean_nn_c.step import Step

NAMES: tuple[str, ...]

def smooth_step(
    name: str,
    wide: bool,
    cells: int,
    windows: int,
    axes: NDArray[Any],
    outputs: NDArray[Any],
    inputs: NDArray[Any],
    blame: Callable[..., Exception],
) -> Step: ...
