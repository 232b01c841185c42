from lean_nn_c.step import Step

KINDS: dict[str, tuple[int, str]]
ROLES: tuple[str, ...]
SUM_LINE: int

def roundings(n: int) -> int: ...
def sum_roundings(shape: tuple[int, ...], axes: tuple[int, ...]) -> int: ...
def sum_step(wide: bool, shape: tuple[int, ...], axes: tuple[int, ...]) -> Step: ...
def extreme_step(name: str, wide: bool, outer: int, n: int, inner: int, least: bool) -> Step: ...
def soft_step(
    name: str,
    wide: bool,
    outer: int,
    n: int,
    inner: int,
    ignore: int = 0,
    smoothing: float = 0,
    reduction: str = "none",
) -> Step: ...
def standard_step(
    name: str,
    wide: bool,
    roles: tuple[str, ...],
    outputs: int,
    A: int,
    G: int,
    B: int,
    eps: float = 0,
    tangents: bool = False,
    S: int = 0,
    W: int = 0,
    relu: bool = False,
) -> Step: ...
def variance_step(name: str, wide: bool, roles: str, outer: int, A: int, G: int, B: int, left: float) -> Step: ...
