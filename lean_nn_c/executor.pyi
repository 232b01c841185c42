from collections.abc import Callable
from typing import Any

from lean_nn_c.step import Step

KINDS: dict[str, int]
FRAMES: int

class Frame:
    arena: Any

class Signature:
    def __init__(
        self, inputs: list[tuple[tuple[int, ...], Any]], outputs: list[tuple[tuple[int, ...], Any]]
    ) -> None: ...
    def inputs_of(self, arguments: tuple[Any, ...]) -> list[Any] | None: ...
    def outputs_of(self, out: Any, inputs: list[Any]) -> list[Any] | None: ...

def overlapping(arrays: list[Any], written: list[int]) -> tuple[int, int] | None: ...

class Executor:
    steps: list[Step]
    made: int
    arena: int
    def __init__(
        self,
        steps: list[Step],
        operands: list[Any],
        shapes: list[tuple[int, ...]],
        dtypes: list[Any],
        places: list[tuple[int, int, int]],
        constants: list[Any],
        arena: int,
    ) -> None: ...
    def scratch(self, threads: int) -> int: ...
    def release(self) -> None: ...
    def run(self, inputs: list[Any], outputs: list[Any], watch: Callable[[int], Any] | None = None) -> None: ...
