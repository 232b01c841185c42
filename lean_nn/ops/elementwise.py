"""One number in, one number out: arithmetic, smooth functions, comparisons and choices.

The derivative of such a function is a factor per element, so its forward and its reverse rule are the same
expression; each is written once below. Where the factor is a choice between pieces it is a *gate*: a primitive
of its own, linear in what passes through it (`relu_gate(t, x)` = t where x > 0, else 0), so that relu's rule is
one call and one pass over memory. At kinks the gates choose as PyTorch does. The activations built from these
are in `lean_nn.ops.activation`.

Binary operations broadcast like NumPy; see `lean_nn.ops.broadcast` for `sum_to`, which undoes it in reverse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lean_nn.backend.cpu_chain import step_of
from lean_nn.ops.broadcast import broadcast_to, sum_to
from lean_nn.primitive import (
    NONDIFF,
    Aval,
    Exact,
    Gate,
    Joint,
    Primitive,
    Ulps,
    Within,
    check_float,
    check_same_float,
    meaning,
    primitive,
)
from lean_nn.spec.geometry import broadcast_shape
from lean_nn_c import elementwise as kernels

Rule = Callable[..., Any]
Tangents = tuple[Any, Any]
BOOL = np.dtype(np.bool_)


def unary(
    name: str, rule: Any, accuracy: Any, *, from_output: bool = False, numbers: tuple[str, ...] = (), linear: tuple[int, ...] = ()
) -> Primitive:
    """A record for a function of one number; `rule(t, y, x, **numbers)` is its slope times t, for both modes."""
    def abstract(x: Aval, **params: Any) -> Aval:
        check_float(name, x)
        return x

    return primitive(
        name, abstract=abstract, spec=meaning(name), lane=None if numbers else kernels.unary[name],
        linear=linear, jvp=(rule,), vjp=(rule,), differentiable_out=(rule is not NONDIFF,),
        saves_output=from_output or (type(rule) is Gate and rule.by_output),
        accuracy=accuracy, pointwise=numbers, step=step_of(name, numbers),
    )  # fmt: skip


def _pair_abstract(name: str) -> Callable[..., Aval]:
    def abstract(a: Aval, b: Aval, **params: Any) -> Aval:
        dtype = check_same_float(name, a, b)
        return Aval(broadcast_shape(name, a.shape, b.shape), dtype)

    return abstract


def binary(
    name: str, accuracy: Any, *, jvp: Any = None, vjp: Any, linear: tuple[int, ...] = (),
    numbers: tuple[str, ...] = (),
) -> Primitive:  # fmt: skip
    return primitive(
        name, abstract=_pair_abstract(name), spec=meaning(name), lane=None if numbers else kernels.binary[name],
        linear=linear, jvp=jvp, vjp=vjp, accuracy=accuracy, pointwise=numbers,
        step=step_of(name, numbers),
    )  # fmt: skip


def triple(name: str, accuracy: Any, **rules: Any) -> Primitive:
    """A record for a gate of two places: what passes, then these."""

    def abstract(t: Aval, a: Aval, b: Aval) -> Aval:
        dtype = check_same_float(name, t, a, b)
        return Aval(broadcast_shape(name, t.shape, a.shape, b.shape), dtype)

    return primitive(name, abstract=abstract, spec=meaning(name), accuracy=accuracy, pointwise=(), step=step_of(name), **rules)


def _stretched(t: Any, *others: Any) -> Any:
    """`t` broadcast to the shape it has together with `others`."""
    shape = np.broadcast_shapes(t.shape, *[other.shape for other in others])
    return t if t.shape == shape else broadcast_to(t, shape=shape)


# --------------------------------------------------------------------------------------- arithmetic


def _add_push(tangents: Tangents, y: Any, a: Any, b: Any) -> Any:
    a_dot, b_dot = tangents
    if a_dot is None or b_dot is None:
        return _stretched(b_dot, a) if a_dot is None else _stretched(a_dot, b)
    return add(a_dot, b_dot)


def _sub_push(tangents: Tangents, y: Any, a: Any, b: Any) -> Any:
    a_dot, b_dot = tangents
    if a_dot is None or b_dot is None:
        return _stretched(neg(b_dot), a) if a_dot is None else _stretched(a_dot, b)
    return sub(a_dot, b_dot)


add: Primitive = binary(
    "add", Exact(), jvp=Joint(_add_push),
    vjp=(lambda g, y, a, b: sum_to(g, a.shape), lambda g, y, a, b: sum_to(g, b.shape)),
)  # fmt: skip
sub: Primitive = binary(
    "sub", Exact(), jvp=Joint(_sub_push),
    vjp=(lambda g, y, a, b: sum_to(g, a.shape), lambda g, y, a, b: neg(sum_to(g, b.shape))),
)  # fmt: skip
mul: Primitive = binary(
    "mul", Exact(), linear=(0, 1),
    vjp=(lambda g, y, a, b: sum_to(mul(g, b), a.shape), lambda g, y, a, b: sum_to(mul(g, a), b.shape)),
)  # fmt: skip


def _div_by(t: Any, y: Any, a: Any, b: Any) -> Any:
    """d(a/b)/db = −(a/b)/b: where the value is at hand, a dual's is, it need not be divided again."""
    return div_gate(t, div(a, b), b)


def _div_push(tangents: Tangents, y: Any, a: Any, b: Any) -> Any:
    """(ȧ − a/b·ḃ)/b."""
    a_dot, b_dot = tangents
    if a_dot is None or b_dot is None:
        return _div_by(b_dot, y, a, b) if a_dot is None else div(a_dot, b)
    return div(sub(a_dot, mul(div(a, b), b_dot)), b)


div: Primitive = binary(
    "div", Ulps(0.5), jvp=Joint(_div_push),
    vjp=(lambda g, y, a, b: sum_to(div(g, b), a.shape), lambda g, y, a, b: sum_to(_div_by(g, y, a, b), b.shape)),
)  # fmt: skip
div_gate: Primitive = triple(  # −t·y/b moves with b as y does: a further order is the gate once more
    "div_gate", Ulps(1.5), linear=(0, 1), saves_output=True,
    jvp=(None, None, lambda s, z, t, y, b: div_gate(s, z, b)),
    vjp=(
        lambda g, z, t, y, b: sum_to(div_gate(g, y, b), t.shape),
        lambda g, z, t, y, b: sum_to(div_gate(t, g, b), y.shape),
        lambda g, z, t, y, b: sum_to(div_gate(g, z, b), b.shape),
    ),
)  # fmt: skip
neg: Primitive = unary("neg", lambda t, y, x: neg(t), Exact(), linear=(0,))


def _pow_exponent(t: Any, y: Any, a: Any, b: Any) -> Any:
    """a^b·log a, and 0 where a is 0 and b ≥ 0: 0^b stays 0 (or 1)."""
    slope = mul(t, mul(pow(a, b), log(a)))
    return where(equal(a, 0.0), where(greater_equal(b, 0.0), 0.0, slope), slope)


pow: Primitive = binary(
    "pow", Ulps(1.5),
    jvp=(lambda t, y, a, b: pow_gate(t, a, b), _pow_exponent),
    vjp=(
        lambda g, y, a, b: sum_to(pow_gate(g, a, b), a.shape),
        lambda g, y, a, b: sum_to(_pow_exponent(g, y, a, b), b.shape),
    ),
)  # fmt: skip


def _pow_gate_base(t: Any, a: Any, b: Any) -> Any:
    """b·(b−1)·a^(b−2); a gate that is shut, b = 0, stays shut, as a^(−1) times 0 is no number at a = 0."""
    return mul(b, pow_gate(t, a, where(equal(b, 0.0), 0.0, sub(b, 1.0))))


def _pow_gate_exponent(t: Any, a: Any, b: Any) -> Any:
    """a^(b−1) + b·a^(b−1)·log a; where b is 0 the gate is shut."""
    less = sub(b, 1.0)
    return where(equal(b, 0.0), 0.0, add(mul(t, pow(a, less)), mul(b, _pow_exponent(t, None, a, less))))


def _pow_gate_bound(u: float, t: Any, a: Any, b: Any) -> Any:
    """(6 + |(b − 1)·log a|)·u·|y|: b − 1 is rounded too."""
    slope = np.where(b == 0, 0, t * b * np.power(a, b - 1))
    return (6 + np.abs((b - 1) * np.log(np.abs(a)))) * u * np.abs(slope)


pow_gate: Primitive = triple(  # the slope of a^b in a: t·b·a^(b−1), and 0 where b is 0: a constant has none even at a = 0
    "pow_gate", Within(_pow_gate_bound), linear=(0,),
    jvp=(
        None,
        lambda s, y, t, a, b: _pow_gate_base(mul(s, t), a, b),
        lambda s, y, t, a, b: _pow_gate_exponent(mul(s, t), a, b),
    ),
    vjp=(
        lambda g, y, t, a, b: sum_to(pow_gate(g, a, b), t.shape),
        lambda g, y, t, a, b: sum_to(_pow_gate_base(mul(g, t), a, b), a.shape),
        lambda g, y, t, a, b: sum_to(_pow_gate_exponent(mul(g, t), a, b), b.shape),
    ),
)  # fmt: skip

# --------------------------------------------------------------------------------- smooth functions

exp: Primitive = unary("exp", lambda t, y, x: mul(t, y), Ulps(1), from_output=True)
expm1: Primitive = unary("expm1", lambda t, y, x: mul(t, exp(x)), Ulps(2))
log: Primitive = unary("log", lambda t, y, x: div(t, x), Ulps(1))
log1p: Primitive = unary("log1p", lambda t, y, x: div(t, add(x, 1.0)), Ulps(1.5))
TWO_OVER_SQRT_PI = 1.1283791670955125739
erf: Primitive = unary(
    "erf", lambda t, y, x: mul(t, mul(exp(neg(mul(x, x))), TWO_OVER_SQRT_PI)), Ulps(1.5)
)
normal_cdf: Primitive = unary("normal_cdf", lambda t, y, x: mul(t, normal_pdf(x)), Ulps(6))
normal_pdf: Primitive = unary(
    "normal_pdf", lambda t, y, x: neg(mul(t, mul(x, y))), Ulps(4), from_output=True
)

square_gate: Primitive = binary(  # 2·t·x, a product of both
    "square_gate", Exact(), linear=(0, 1),
    vjp=(
        lambda g, y, t, x: sum_to(square_gate(g, x), t.shape),
        lambda g, y, t, x: sum_to(square_gate(g, t), x.shape),
    ),
)  # fmt: skip
sqrt_gate: Primitive = binary(
    "sqrt_gate", Ulps(0.5), linear=(0,),
    jvp=(None, lambda s, y, t, h: neg(div(sqrt_gate(mul(s, t), h), h))),
    vjp=(
        lambda g, y, t, h: sum_to(sqrt_gate(g, h), t.shape),
        lambda g, y, t, h: sum_to(neg(div(sqrt_gate(mul(g, t), h), h)), h.shape),
    ),
)  # fmt: skip
tanh_gate: Primitive = binary(
    "tanh_gate", Ulps(2.5), linear=(0,),
    jvp=(None, lambda s, y, t, h: mul(mul(s, -2.0), mul(t, h))),
    vjp=(
        lambda g, y, t, h: sum_to(tanh_gate(g, h), t.shape),
        lambda g, y, t, h: sum_to(mul(mul(g, -2.0), mul(t, h)), h.shape),
    ),
)  # fmt: skip
sigmoid_gate: Primitive = binary(
    "sigmoid_gate", Ulps(2.5), linear=(0,),
    jvp=(None, lambda s, y, t, h: mul(s, mul(t, sub(1.0, add(h, h))))),
    vjp=(
        lambda g, y, t, h: sum_to(sigmoid_gate(g, h), t.shape),
        lambda g, y, t, h: sum_to(mul(g, mul(t, sub(1.0, add(h, h)))), h.shape),
    ),
)  # fmt: skip

square: Primitive = unary("square", Gate(square_gate), Exact())
sqrt: Primitive = unary("sqrt", Gate(sqrt_gate, by_output=True), Ulps(0.5))
tanh: Primitive = unary("tanh", Gate(tanh_gate, by_output=True), Ulps(3))
sigmoid: Primitive = unary("sigmoid", Gate(sigmoid_gate, by_output=True), Ulps(2.5))

# ------------------------------------------------------------------------- functions made of pieces


def gate(name: str, accuracy: Any, numbers: tuple[str, ...] = ()) -> Primitive:
    """A gate that is piecewise constant in the place: nothing flows to it."""

    def passed(g: Any, y: Any, t: Any, x: Any, **params: Any) -> Any:
        return sum_to(record(g, x, **params), t.shape)

    record = binary(name, accuracy, linear=(0,), jvp=(None, NONDIFF), vjp=(passed, NONDIFF), numbers=numbers)
    return record


relu_gate: Primitive = gate("relu_gate", Exact())
clip_gate: Primitive = gate("clip_gate", Exact(), ("low", "high"))
# relu by its output, which is positive where its input is: the input need not be kept
relu: Primitive = unary("relu", Gate(relu_gate, by_output=True), Exact())
clip: Primitive = unary("clip", Gate(clip_gate), Ulps(0.5), numbers=("low", "high"))
sign_gate: Primitive = gate("sign_gate", Exact())
abs: Primitive = unary("abs", Gate(sign_gate), Exact())
sign: Primitive = unary("sign", NONDIFF, Exact())


larger_gate: Primitive = triple(
    "larger_gate", Exact(), linear=(0,), jvp=(None, NONDIFF, NONDIFF),
    vjp=(lambda g, y, t, a, b: sum_to(larger_gate(g, a, b), t.shape), NONDIFF, NONDIFF),
)  # fmt: skip


def _extreme(name: str, taken: Rule) -> Primitive:
    """maximum or minimum; `taken(t, a, b)` is the share of `t` that a gets beside b."""
    return binary(
        name, Exact(),
        jvp=(lambda t, y, a, b: taken(t, a, b), lambda t, y, a, b: taken(t, b, a)),
        vjp=(
            lambda g, y, a, b: sum_to(taken(g, a, b), a.shape),
            lambda g, y, a, b: sum_to(taken(g, b, a), b.shape),
        ),
    )  # fmt: skip


maximum: Primitive = _extreme("maximum", lambda t, a, b: larger_gate(t, a, b))
minimum: Primitive = _extreme("minimum", lambda t, a, b: larger_gate(t, b, a))

# ------------------------------------------------------------------------- comparisons and choices


def _comparison(name: str) -> Primitive:
    shaped = _pair_abstract(name)
    return primitive(
        name, abstract=lambda a, b: Aval(shaped(a, b).shape, BOOL), spec=meaning(name),
        jvp=(NONDIFF, NONDIFF), vjp=(NONDIFF, NONDIFF), differentiable_out=(False,), accuracy=Exact(),
        pointwise=(), step=step_of(name),
    )  # fmt: skip


equal: Primitive = _comparison("eq")
not_equal: Primitive = _comparison("ne")
less: Primitive = _comparison("lt")
less_equal: Primitive = _comparison("le")
greater: Primitive = _comparison("gt")
greater_equal: Primitive = _comparison("ge")


def _where_abstract(c: Aval, a: Aval, b: Aval) -> Aval:
    if c.dtype != BOOL:
        raise TypeError(f"where: the condition is bool; got {c.dtype}; compare first, as in x > 0")
    dtype = check_same_float("where", a, b)
    return Aval(broadcast_shape("where", c.shape, a.shape, b.shape), dtype)


where: Primitive = primitive(
    "where",
    abstract=_where_abstract,
    spec=meaning("where"),
    jvp=(
        NONDIFF,
        lambda t, y, c, a, b: where(c, _stretched(t, b), 0.0),
        lambda t, y, c, a, b: where(c, 0.0, _stretched(t, a)),
    ),
    vjp=(
        NONDIFF,
        lambda g, y, c, a, b: sum_to(where(c, g, 0.0), a.shape),
        lambda g, y, c, a, b: sum_to(where(c, 0.0, g), b.shape),
    ),
    accuracy=Exact(),
    pointwise=(),
    step=step_of("where"),
)
