from collections.abc import Callable
from typing import Any

import numpy as np

from lean_nn_c.step import Step

_Array = np.ndarray[Any, Any]

unary: dict[str, Callable[..., None]]
binary: dict[str, Callable[..., None]]
compare: dict[str, Callable[..., None]]
update: dict[str, Callable[..., None]]

def where(condition: _Array, a: _Array, b: _Array, out: _Array) -> None: ...
CHAIN_LIMITS: tuple[int, int, int]

def chain_step(
    name: str,
    cells: int,
    inputs: list[tuple[int, int]],
    ops: list[tuple[str, tuple[int, ...], int, float, float]],
    items: list[int],
    wide: bool,
) -> Step: ...
