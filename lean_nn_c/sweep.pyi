from collections.abc import Callable
from typing import Any

from lean_nn_c.engine import Box, Node, Primitive, Trace

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
