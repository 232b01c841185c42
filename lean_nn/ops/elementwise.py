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

from lean_nn.ops.broadcast import broadcast_to, sum_to
from lean_nn.primitive import (
    NONDIFF,
    Aval,
    Exact,
    Primitive,
    Ulps,
    check_float,
    check_same_float,
    primitive,
)
from lean_nn.spec import activation as meaning
from lean_nn.spec import scalar
from lean_nn.spec.container import broadcast_shape
from lean_nn.spec.container import elementwise as each
from lean_nn_c import elementwise as kernels

Rule = Callable[..., Any]
BOOL = np.dtype(np.bool_)


def unary(
    name: str, define: Rule, rule: Any, accuracy: Any, *, from_output: bool = False, numbers: tuple[str, ...] = ()
) -> Primitive:
    """A record for y = define(x); `rule(t, y, x, **numbers)` is the slope times t, for both modes."""
    kernel = kernels.unary[name]

    def abstract(x: Aval, **params: Any) -> Aval:
        check_float(name, x)
        return x

    def spec(x: Any, **params: Any) -> Any:
        return each(name, lambda v: define(v, **params), x)

    def cpu(x: Any, *, out: Any, **params: Any) -> None:
        kernel(x, out, *[params[number] for number in numbers])

    return primitive(
        name, abstract=abstract, spec=spec, cpu=cpu, lane=None if numbers else kernel, jvp=(rule,), vjp=(rule,),
        saves_output=from_output, differentiable_out=(rule is not NONDIFF,), accuracy=accuracy,
    )  # fmt: skip


def _pair_abstract(name: str) -> Callable[..., Aval]:
    def abstract(a: Aval, b: Aval, **params: Any) -> Aval:
        dtype = check_same_float(name, a, b)
        return Aval(broadcast_shape(name, a.shape, b.shape), dtype)

    return abstract


def binary(
    name: str, define: Rule, accuracy: Any, *, jvp: Any = None, vjp: Any, linear: tuple[int, ...] = (),
    numbers: tuple[str, ...] = (),
) -> Primitive:  # fmt: skip
    kernel = kernels.binary[name]

    def spec(a: Any, b: Any, **params: Any) -> Any:
        return each(name, lambda v, w: define(v, w, **params), a, b)

    def cpu(a: Any, b: Any, *, out: Any, **params: Any) -> None:
        kernel(a, b, out, *[params[number] for number in numbers])

    return primitive(
        name, abstract=_pair_abstract(name), spec=spec, cpu=cpu, lane=None if numbers else kernel,
        linear=linear, jvp=jvp, vjp=vjp, accuracy=accuracy,
    )  # fmt: skip


def _stretched(t: Any, *others: Any) -> Any:
    """`t` broadcast to the shape it has together with `others`."""
    shape = np.broadcast_shapes(t.shape, *[other.shape for other in others])
    return t if t.shape == shape else broadcast_to(t, shape=shape)


# --------------------------------------------------------------------------------------- arithmetic

add = binary(
    "add", lambda a, b: a + b, Exact(),
    jvp=(lambda t, y, a, b: _stretched(t, b), lambda t, y, a, b: _stretched(t, a)),
    vjp=(lambda g, y, a, b: sum_to(g, a.shape), lambda g, y, a, b: sum_to(g, b.shape)),
)  # fmt: skip
sub = binary(
    "sub", lambda a, b: a - b, Exact(),
    jvp=(lambda t, y, a, b: _stretched(t, b), lambda t, y, a, b: _stretched(neg(t), a)),
    vjp=(lambda g, y, a, b: sum_to(g, a.shape), lambda g, y, a, b: neg(sum_to(g, b.shape))),
)  # fmt: skip
mul = binary(
    "mul", lambda a, b: a * b, Exact(), linear=(0, 1),
    vjp=(lambda g, y, a, b: sum_to(mul(g, b), a.shape), lambda g, y, a, b: sum_to(mul(g, a), b.shape)),
)  # fmt: skip


def _div_by(t: Any, y: Any, a: Any, b: Any) -> Any:
    """d(a/b)/db = −a/b²."""
    return neg(div(div(mul(t, a), b), b))


div = binary(
    "div", scalar.div, Ulps(0.5), linear=(0,),
    jvp=(None, _div_by),
    vjp=(lambda g, y, a, b: sum_to(div(g, b), a.shape), lambda g, y, a, b: sum_to(_div_by(g, y, a, b), b.shape)),
)  # fmt: skip
neg = unary("neg", lambda x: -x, lambda t, y, x: neg(t), Exact())


def _pow_base(t: Any, y: Any, a: Any, b: Any) -> Any:
    """b·a^(b−1), and 0 where b is 0: a constant has no slope even at a = 0."""
    return where(equal(b, 0.0), 0.0, mul(t, mul(b, pow(a, sub(b, 1.0)))))


def _pow_exponent(t: Any, y: Any, a: Any, b: Any) -> Any:
    """a^b·log a, and 0 where a is 0 and b ≥ 0: 0^b stays 0 (or 1)."""
    slope = mul(t, mul(pow(a, b), log(a)))
    return where(equal(a, 0.0), where(greater_equal(b, 0.0), 0.0, slope), slope)


pow = binary(
    "pow", scalar.pow, Ulps(1.5),
    jvp=(_pow_base, _pow_exponent),
    vjp=(
        lambda g, y, a, b: sum_to(_pow_base(g, y, a, b), a.shape),
        lambda g, y, a, b: sum_to(_pow_exponent(g, y, a, b), b.shape),
    ),
)  # fmt: skip

# --------------------------------------------------------------------------------- smooth functions

exp = unary("exp", scalar.exp, lambda t, y, x: mul(t, y), Ulps(1), from_output=True)
expm1 = unary("expm1", scalar.expm1, lambda t, y, x: mul(t, exp(x)), Ulps(1.5))
log = unary("log", scalar.log, lambda t, y, x: div(t, x), Ulps(1))
log1p = unary("log1p", scalar.log1p, lambda t, y, x: div(t, add(x, 1.0)), Ulps(1.5))
sqrt = unary("sqrt", scalar.sqrt, lambda t, y, x: div(t, add(y, y)), Ulps(0.5), from_output=True)
tanh = unary("tanh", scalar.tanh, lambda t, y, x: tanh_gate(t, y), Ulps(2.5), from_output=True)
sigmoid = unary("sigmoid", scalar.sigmoid, lambda t, y, x: sigmoid_gate(t, y), Ulps(2.5), from_output=True)
TWO_OVER_SQRT_PI = 1.1283791670955125739
erf = unary(
    "erf", scalar.erf, lambda t, y, x: mul(t, mul(exp(neg(mul(x, x))), TWO_OVER_SQRT_PI)), Ulps(1.5)
)
normal_cdf = unary("normal_cdf", scalar.normal_cdf, lambda t, y, x: mul(t, normal_pdf(x)), Ulps(4))
normal_pdf = unary(
    "normal_pdf", scalar.normal_pdf, lambda t, y, x: neg(mul(t, mul(x, y))), Ulps(4), from_output=True
)

tanh_gate = binary(
    "tanh_gate", meaning.tanh_gate, Ulps(2.5), linear=(0,),
    jvp=(None, lambda s, y, t, h: mul(mul(s, -2.0), mul(t, h))),
    vjp=(
        lambda g, y, t, h: sum_to(tanh_gate(g, h), t.shape),
        lambda g, y, t, h: sum_to(mul(mul(g, -2.0), mul(t, h)), h.shape),
    ),
)  # fmt: skip
sigmoid_gate = binary(
    "sigmoid_gate", meaning.sigmoid_gate, Ulps(2.5), linear=(0,),
    jvp=(None, lambda s, y, t, h: mul(s, mul(t, sub(1.0, add(h, h))))),
    vjp=(
        lambda g, y, t, h: sum_to(sigmoid_gate(g, h), t.shape),
        lambda g, y, t, h: sum_to(mul(g, mul(t, sub(1.0, add(h, h)))), h.shape),
    ),
)  # fmt: skip

# ------------------------------------------------------------------------- functions made of pieces


def gate(name: str, define: Rule, accuracy: Any, numbers: tuple[str, ...] = ()) -> Primitive:
    """A gate that is piecewise constant in the place: nothing flows to it."""

    def passed(g: Any, y: Any, t: Any, x: Any, **params: Any) -> Any:
        return sum_to(record(g, x, **params), t.shape)

    record = binary(name, define, accuracy, linear=(0,), jvp=(None, NONDIFF), vjp=(passed, NONDIFF), numbers=numbers)
    return record


relu_gate = gate("relu_gate", meaning.relu_gate, Exact())
clip_gate = gate("clip_gate", meaning.clip_gate, Exact(), ("lo", "hi"))
relu = unary("relu", meaning.relu, lambda t, y, x: relu_gate(t, x), Exact())
clip = unary(
    "clip", meaning.clip, lambda t, y, x, **bounds: clip_gate(t, x, **bounds), Ulps(0.5), numbers=("lo", "hi")
)
abs = unary("abs", scalar.abs, lambda t, y, x: mul(t, sign(x)), Exact())
sign = unary("sign", scalar.sign, NONDIFF, Exact())


def _taken(wins: Callable[..., Any], t: Any, a: Any, b: Any) -> Any:
    """The share of `t` that a gets beside b: none where it loses, half at a tie, else (NaN too) all."""
    half = where(equal(a, b), mul(t, 0.5), t)
    return where(wins(b, a), 0.0, half)


def _extreme_rules(wins: Callable[..., Any]) -> tuple[tuple[Rule, Rule], tuple[Rule, Rule]]:
    return (
        (lambda t, y, a, b: _taken(wins, t, a, b), lambda t, y, a, b: _taken(wins, t, b, a)),
        (
            lambda g, y, a, b: sum_to(_taken(wins, g, a, b), a.shape),
            lambda g, y, a, b: sum_to(_taken(wins, g, b, a), b.shape),
        ),
    )


_rules = _extreme_rules(lambda a, b: greater(a, b))
maximum = binary("maximum", scalar.maximum, Exact(), jvp=_rules[0], vjp=_rules[1])
_rules = _extreme_rules(lambda a, b: less(a, b))
minimum = binary("minimum", scalar.minimum, Exact(), jvp=_rules[0], vjp=_rules[1])

# ------------------------------------------------------------------------- comparisons and choices


def _comparison(name: str, kernel_name: str, define: Rule) -> Primitive:
    kernel = kernels.compare[kernel_name]
    shaped = _pair_abstract(name)

    def spec(a: Any, b: Any) -> Any:
        return each(name, define, a, b, dtype=bool)

    def cpu(a: Any, b: Any, *, out: Any) -> None:
        kernel(a, b, out)

    return primitive(
        name, abstract=lambda a, b: Aval(shaped(a, b).shape, BOOL), spec=spec, cpu=cpu,
        jvp=(NONDIFF, NONDIFF), vjp=(NONDIFF, NONDIFF), differentiable_out=(False,), accuracy=Exact(),
    )  # fmt: skip


equal = _comparison("equal", "eq", lambda a, b: a == b)
not_equal = _comparison("not_equal", "ne", lambda a, b: a != b)
less = _comparison("less", "lt", lambda a, b: a < b)
less_equal = _comparison("less_equal", "le", lambda a, b: a <= b)
greater = _comparison("greater", "gt", lambda a, b: a > b)
greater_equal = _comparison("greater_equal", "ge", lambda a, b: a >= b)


def _where_abstract(c: Aval, a: Aval, b: Aval) -> Aval:
    if c.dtype != BOOL:
        raise TypeError(f"where: the condition is bool; got {c.dtype}; compare first, as in x > 0")
    dtype = check_same_float("where", a, b)
    return Aval(broadcast_shape("where", c.shape, a.shape, b.shape), dtype)


def _where_cpu(c: Any, a: Any, b: Any, *, out: Any) -> None:
    kernels.where(c, a, b, out)


where = primitive(
    "where",
    abstract=_where_abstract,
    spec=lambda c, a, b: each("where", lambda p, v, w: v if p else w, c, a, b),
    cpu=_where_cpu,
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
)
