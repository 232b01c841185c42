from collections.abc import Callable
from typing import Any

KINDS: dict[str, int]

class Frame:
    arena: Any
    arrays: list[Any]

class Executor:
    steps: list[Any]
    arena: int
    def __init__(
        self,
        steps: list[Any],
        operands: list[Any],
        shapes: list[tuple[int, ...]],
        dtypes: list[Any],
        places: list[tuple[int, int, int]],
        constants: list[Any],
        arena: int,
    ) -> None: ...
    def frame(self, arena: Any) -> Frame: ...
    def run(
        self, frame: Frame, inputs: list[Any], outputs: list[Any], watch: Callable[[int], Any] | None = None
    ) -> None: ...
