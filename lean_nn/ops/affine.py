"""A factor and a term per channel, in one pass: ``x·scale + shift``, what batch normalisation is when its statistics are given.

The same as `mul` and then `add`, bit for bit; where functions are traced these two are recorded, for a program has its own ways
to join them (`lean_nn.graph.passes`).
"""

from __future__ import annotations

from typing import Any

from lean_nn.backend.cpu_chain import INPUTS, OUT, TANGENT, Op, chain
from lean_nn.ops.broadcast import broadcast_to
from lean_nn.ops.broadcast import sum as total
from lean_nn.ops.elementwise import mul
from lean_nn.ops.shape import reshape
from lean_nn.primitive import Aval, Gamma, Primitive, check_same_float, meaning, primitive
from lean_nn_c.step import Step

A, B = INPUTS, INPUTS + 1  # temporaries of a chain
VALUE: list[Op] = [("muladd", (0, 1, 2), OUT, ())]


def _abstract(x: Aval, scale: Aval, shift: Aval) -> Aval:
    check_same_float("affine", x, scale, shift)
    if len(x.shape) < 2 or not scale.shape == shift.shape == (x.shape[1],):
        got = f"{scale.shape} and {shift.shape} for {x.shape}"
        raise ValueError(f"affine: one number per channel of (N, C, ...); got {got}; pass arrays of shape (C,)")
    return x


def _seen(x: Aval, *others: Aval) -> list[Aval]:
    """`others` as a chain repeats them: those per channel along the other axes."""
    return [Aval((*own.shape, *(1,) * (len(x.shape) - 2)), own.dtype) if own.shape != x.shape else own for own in others]


def _step(x: Aval, scale: Aval, shift: Aval, *, out: tuple[Aval]) -> Step:
    return chain("affine", [x, *_seen(x, scale, shift)], out[0], VALUE, {})


def _dual(x: Aval, scale: Aval, shift: Aval, *, moves: tuple[bool, bool, bool], out: tuple[Aval]) -> Step | None:
    """ẋ·scale + x·ṡcale + ṡhift, of those that move, added in this order; not where the shift moves alone."""
    if not (moves[0] or moves[1]):
        return None
    last = 2 + sum(moves)  # the place of the shift's tangent, if it has one
    ops = list(VALUE)
    if moves[0] and moves[1]:
        ops += [("mul", (3, 1), A, ()), ("muladd", (0, 4, A), B if moves[2] else TANGENT, ())]
        ops += [("add", (B, last), TANGENT, ())] if moves[2] else []
    else:
        product = (3, 1) if moves[0] else (0, 3)
        ops.append(("muladd", (*product, last), TANGENT, ()) if moves[2] else ("mul", product, TANGENT, ()))
    moving = [aval for aval, moved in zip((x, scale, shift), moves, strict=True) if moved]
    return chain("affine", [x, *_seen(x, scale, shift, *moving)], out[0], ops, {}, 2)


def _spread(own: Any, x: Any) -> Any:
    return reshape(own, shape=(1, x.shape[1], *(1,) * (len(x.shape) - 2)))


def _summed(g: Any) -> Any:
    return total(g, axes=(0, *range(2, len(g.shape))), keepdims=False)


affine: Primitive = primitive(
    "affine",
    abstract=_abstract,
    spec=meaning("affine"),
    step=_step,
    dual=_dual,
    jvp=(
        lambda t, y, x, scale, shift: mul(t, _spread(scale, x)),
        lambda t, y, x, scale, shift: mul(x, _spread(t, x)),
        lambda t, y, x, scale, shift: broadcast_to(_spread(t, x), shape=x.shape),
    ),
    vjp=(
        lambda g, y, x, scale, shift: mul(g, _spread(scale, x)),
        lambda g, y, x, scale, shift: _summed(mul(g, x)),
        lambda g, y, x, scale, shift: _summed(g),
    ),
    accuracy=Gamma(lambda x, scale, shift: 2, "2"),
)
