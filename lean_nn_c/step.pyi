from typing import Any

class Step:
    name: str
    operands: int
    def __call__(self, *arrays: Any) -> None: ...
