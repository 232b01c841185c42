"""Between the reductions' records and their kernels: the ``step`` slots of sums, extremes, the softmax family, standardising."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, cast

import numpy as np

from lean_nn.primitive import Aval
from lean_nn_c import reduce
from lean_nn_c.step import Step

Shape = tuple[int, ...]
Make = Callable[..., Step]

FLOAT64 = np.dtype(np.float64)


def spans(shape: Shape, axis: int) -> tuple[int, int, int]:
    """(outer, n, inner): the array as lines of n."""
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def sum_step(x: Aval, *, out: tuple[Aval], axes: Shape, keepdims: bool) -> Step:
    return reduce.sum_step(x.dtype == FLOAT64, x.shape, axes)


# --- along one axis ---


def extreme(name: str, least: bool) -> Make:
    def step(x: Aval, *, out: tuple[Aval, ...], axis: int) -> Step:
        return reduce.extreme_step(name, x.dtype == FLOAT64, *spans(x.shape, axis), least)

    return step


def soft(name: str) -> Make:
    """Of a primitive on lines along one axis; its arguments have one shape."""

    def step(x: Aval, *others: Aval, out: tuple[Aval, ...], axis: int) -> Step:
        return reduce.soft_step(name, x.dtype == FLOAT64, *spans(x.shape, axis))

    return step


def cross(name: str) -> Make:
    """Of a loss, whose last argument is one class per line, the one before it the lines."""

    def step(*avals: Aval, out: tuple[Aval], axis: int, ignore: int, smoothing: float, reduction: str) -> Step:
        x = avals[-2]
        return reduce.soft_step(name, x.dtype == FLOAT64, *spans(x.shape, axis), ignore, smoothing, reduction)

    return step


# --- duals: tangents too, where the lines or the groups move ---

COUNTED = 1 << 24  # lines whose number is exact in float32


def soft_dual(name: str) -> Make:
    """Of logsumexp and log_softmax."""

    def step(x: Aval, *, moves: tuple[bool], out: tuple[Aval], axis: int) -> Step:
        return reduce.soft_step(f"{name}, dual", x.dtype == FLOAT64, *spans(x.shape, axis))

    return step


def cross_dual(
    x: Aval, idx: Aval, *, moves: tuple[bool, bool], out: tuple[Aval], axis: int, ignore: int, smoothing: float, reduction: str
) -> Step | None:
    """Of so few lines that the rule, which sums weights of 1, counts as the loss does.

    With smoothing lines must have a sum, which is not cut into parts.
    """
    outer, n, inner = spans(x.shape, axis)
    if n == 0 or outer * inner > COUNTED or (smoothing and not 1 < n <= reduce.SUM_LINE):
        return None
    return reduce.soft_step("cross_entropy, dual", x.dtype == FLOAT64, outer, n, inner, ignore, smoothing, reduction)


DUAL = "y first second y_dot first_dot second_dot"


def standardize_dual(x: Aval, *, moves: tuple[bool], **params: Any) -> Step:
    return standard("standardize", "x v", DUAL)(x, x, **params)


def normalize_dual(x: Aval, w: Aval, b: Aval, *, moves: tuple[bool, bool, bool], **params: Any) -> Any:
    """Where x moves, and perhaps w and b."""
    if not moves[0]:
        return None
    if moves == (True, False, False):
        return standard("normalize", "x w b v", DUAL)(x, w, b, x, **params)
    step = standard("normalize", "x w b v w_dot b_dot", DUAL)(x, w, b, x, w, b, **params)
    if all(moves):
        return step
    none = np.zeros(w.shape, w.dtype)
    return lambda *a: step(*a[:4], *((a[4], none) if moves[1] else (none, a[4])), *a[5:])


# --- standardisation ---


def groups(shape: Shape, axes: Shape) -> tuple[int, int, int] | None:
    """(A, G, B): the array as groups G between reduced axes A and B; None where the kept axes are not adjacent."""
    kept = [a for a in range(len(shape)) if a not in axes and shape[a] != 1]
    if not kept:
        return 1, 1, prod(shape)
    first, last = kept[0], kept[-1] + 1
    if any(a in axes and shape[a] != 1 for a in range(first, last)):
        return None
    return prod(shape[:first]), prod(shape[first:last]), prod(shape[last:])


def features(shape: Shape, axes: Shape, own: Shape) -> tuple[int, int] | None:
    """(S, W): element e of the array has the (e div S mod W)-th number of an array of shape `own`; (0, 0) for one per group.

    None where `own` is of neither kind: see `lean_nn.ops.normalize`.
    """
    if own == tuple(1 if a in axes else n for a, n in enumerate(shape)):
        return 0, 0
    sizes = groups(shape, axes)
    given = [a for a, n in enumerate(own) if n != 1]
    if sizes is None or sizes[0] != 1 or len(own) != len(shape):
        return None
    last = given[-1] + 1 if given else len(shape)
    if any(own[a] != shape[a] for a in range(given[0] if given else last, last)):
        return None
    S, W = prod(shape[last:]) if given else sizes[2], prod(own)
    whole = S > 0 and sizes[2] % S == 0 and W > 0 and W % max(sizes[2] // S, 1) == 0
    return (S, W) if whole or prod(shape) == 0 else None


def rows_with_one_factor(x: Aval, w: Aval, axes: Shape) -> bool:
    """Whether more than standardising may run in its passes (`reduce.standard_step`): batch norm of images."""
    sizes = groups(x.shape, axes)
    return sizes is not None and sizes[2] > 1 and features(x.shape, axes, w.shape) == (0, 0)


def standard(name: str, reads: str, writes: str, tangents: bool = False, relu: bool = False) -> Make:
    """Of a primitive of this family; `reads` and `writes` are its arrays' roles (`reduce.standard_step`)."""
    roles, outputs = (*reads.split(), *writes.split()), len(writes.split())
    factor = roles.index("w") if "w" in roles else None

    def step(*avals: Aval, out: tuple[Aval, ...], axes: Shape, eps: float = 0.0) -> Step:
        x = avals[0]
        sizes = groups(x.shape, axes)
        by = (0, 0) if factor is None else features(x.shape, axes, avals[factor].shape)
        if sizes is None or by is None:
            raise ValueError(f"{name}: the kept axes are adjacent; got axes {axes} of shape {x.shape}; transpose it first")
        return reduce.standard_step(name, x.dtype == FLOAT64, roles, outputs, *sizes, eps, tangents, *by, relu)

    return step


def moments(shape: Shape, axes: Shape) -> tuple[int, int, int, int] | None:
    """(outer, A, G, B): groups G between reduced axes A and B, anew for each of `outer`; None where runs of axes are too many.

    Examples
    --------
    >>> moments((2, 3, 4, 5), (0, 2, 3)), moments((2, 3, 4, 5), (1,)), moments((2, 3, 4), (2,)), moments((2, 3, 4, 5, 6), (1, 3))
    ((1, 2, 3, 20), (2, 3, 20, 1), (1, 1, 6, 4), None)
    """
    found = groups(shape, axes)
    if found is not None:
        return 1, *found
    kept = next(a for a in range(len(shape)) if a in axes and shape[a] != 1)  # as many axes lead
    found = groups(shape[kept:], tuple(a - kept for a in axes if a >= kept))
    return None if found is None else (prod(shape[:kept]), *found)


def variance(name: str, roles: str) -> Make:
    """Of the variance, its tangent, or both; `roles` are the arrays (`reduce.variance_step`)."""

    def step(x: Aval, *others: Aval, out: tuple[Aval, ...], axes: Shape, correction: int, **_: Any) -> Step:
        sizes = cast("tuple[int, int, int, int]", moments(x.shape, axes))  # others are refused by `abstract`
        left = max(prod(x.shape[a] for a in axes) - correction, 0)
        return reduce.variance_step(name, x.dtype == FLOAT64, roles, *sizes, left)

    return step
