from collections.abc import Callable
from typing import Any

import numpy as np

_Array = np.ndarray[Any, Any]

unary: dict[str, Callable[..., None]]
binary: dict[str, Callable[..., None]]
compare: dict[str, Callable[..., None]]
update: dict[str, Callable[..., None]]

def where(condition: _Array, a: _Array, b: _Array, out: _Array) -> None: ...
