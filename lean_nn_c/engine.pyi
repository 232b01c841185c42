from collections.abc import Callable
from typing import Any

class GraphError(RuntimeError): ...

NONDIFF: Any
CONSTANT: int

class Primitive:
    name: str
    abstract: Callable[..., Any]
    spec: Callable[..., Any] | None
    cpu: Callable[..., Any] | None
    cuda: Callable[..., Any] | None
    jvp: Any
    vjp: Any
    accuracy: Any
    lane: Callable[..., Any] | None
    view: Callable[..., Any] | None
    linear: tuple[int, ...]
    differentiable_out: tuple[bool, ...]
    saves_output: bool
    checks_values: bool
    pointwise: tuple[str, ...] | None
    step: Callable[..., Any] | None
    dual: Callable[..., Any] | None
    plans: dict[Any, Any]
    duals: dict[Any, Any]
    outputs: int
    def __init__(
        self,
        name: str,
        *,
        abstract: Callable[..., Any],
        spec: Callable[..., Any] | None = None,
        cpu: Callable[..., Any] | None = None,
        cuda: Callable[..., Any] | None = None,
        jvp: Any = None,
        vjp: Any = None,
        linear: tuple[int, ...] = (),
        differentiable_out: tuple[bool, ...] = (True,),
        saves_output: bool = False,
        accuracy: Any = None,
        lane: Callable[..., Any] | None = None,
        view: Callable[..., Any] | None = None,
        pointwise: tuple[str, ...] | None = None,
        step: Callable[..., Any] | None = None,
        dual: Callable[..., Any] | None = None,
        checks_values: bool = False,
    ) -> None: ...
    def __call__(self, *args: Any, **params: Any) -> Any: ...

class Node:
    id: int
    prim: Primitive
    inputs: tuple[Any, ...] | None
    params: dict[str, Any]
    saved: tuple[Any, ...] | None
    avals: tuple[tuple[tuple[int, ...], Any], ...] | None
    mask: int

class Box:
    data: Any
    node: Node | None
    index: int
    mask: int
    tangents: dict[Trace, Any] | None
    grad: Any

class Trace:
    level: int
    live: bool
    moving: list[Any]

def install(
    tensor: type,
    boxes: Callable[..., Any],
    evaluator: Callable[..., Any],
    planner: Callable[..., Any],
    dual_planner: Callable[..., Any],
    forward: Callable[..., Any],
) -> None: ...
def open_with(f: Callable[[], Any]) -> None: ...
def carry(box: Box, trace: Trace, tangent: Any) -> None: ...
def wrap(data: Any, mask: int = 0) -> Any: ...
def watch(box: Box, mask: int) -> None: ...
def rebind(box: Box, data: Any) -> None: ...
def open_level(nodes: list[Node] | None = None) -> int: ...
def close_level(level: int) -> None: ...
def set_limit(limit: int) -> int: ...
def get_limit() -> int: ...
def set_recording(on: bool) -> bool: ...
def is_recording() -> bool: ...
def live_levels() -> int: ...
def set_variant(variant: int) -> int: ...
def get_variant() -> int: ...
def step_for(prim: Primitive, arrays: list[Any], params: dict[str, Any]) -> Any: ...
def bind(prim: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any: ...
