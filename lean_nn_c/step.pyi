from typing import Any

class Step:
    name: str
    sizes: tuple[int, ...]
    outputs: int
    keep: Any
    def __call__(self, *arrays: Any) -> None: ...
