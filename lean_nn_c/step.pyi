from collections.abc import Callable
from typing import Any

ACTS: dict[str, int]

class Step:
    name: str
    sizes: tuple[int, ...]
    outputs: int
    keep: Any
    blame: Callable[..., Exception] | None
    def __call__(self, *arrays: Any) -> None: ...
    def scratch(self, threads: int) -> int: ...
    def measure(self, *arrays: Any) -> tuple[int, int]: ...
