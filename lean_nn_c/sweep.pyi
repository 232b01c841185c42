from collections.abc import Callable
from typing import Any

from lean_nn_c.engine import Box, Node, Primitive, Trace

class Joint:
    rule: Callable[..., Any]
    def __init__(self, rule: Callable[..., Any]) -> None: ...

class Gate:
    prim: Primitive
    by_output: bool
    def __init__(self, prim: Primitive, *, by_output: bool = False) -> None: ...
    def __call__(self, t: Any, y: Any, x: Any, **params: Any) -> Any: ...

def install(addition: Primitive, zeros_of: Callable[..., Any]) -> None: ...
def set_out(trace: Trace, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> list[Any] | None: ...
def outputs_of(node: Node) -> Any: ...
def pull(
    roots: list[tuple[Box, Any]],
    bit: int,
    *,
    keep: bool,
    wanted: set[int] | None = None,
    needed: set[int] | None = None,
    inner: dict[int, Any] | None = None,
) -> dict[int, tuple[Box, Any]]: ...
