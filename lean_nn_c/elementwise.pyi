from collections.abc import Callable

from lean_nn_c.step import Step

unary: dict[str, Callable[..., None]]
binary: dict[str, Callable[..., None]]
compare: tuple[str, ...]
triple: tuple[str, ...]
update: dict[str, int]
CHAIN_LIMITS: tuple[int, int, int]

def chain_step(
    name: str,
    cells: int,
    inputs: list[tuple[int, int]],
    ops: list[tuple[str, tuple[int, ...], int, float, float]],
    items: list[int],
    wide: bool,
    outputs: int = 1,
) -> Step: ...
def both_step(name: str, cells: int, full: tuple[bool, ...], wide: bool) -> Step | None: ...
def total_step(
    name: str,
    cells: int,
    inputs: int,
    ops: list[tuple[str, tuple[int, ...], int, float, float]],
    items: list[int],
    wide: bool,
    counts: tuple[float, ...],
) -> Step: ...
def broadcast_step(
    name: str,
    shapes: tuple[tuple[int, ...], ...],
    out: tuple[int, ...],
    items: tuple[int, ...],
    p0: float,
    p1: float,
    wide: bool,
) -> Step: ...

FAMILIES: dict[str, int]

def update_step(
    rule: str, wide: bool, n: int, wide_rate: bool, wide_count: bool, family: str, given: tuple[float, ...]
) -> Step: ...
def update_numbers(family: str, given: tuple[float, ...], rate: float, count: float) -> tuple[float, ...]: ...
