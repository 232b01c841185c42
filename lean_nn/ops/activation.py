"""Activations: smooth ones and ones made of pieces, with PyTorch's slopes at the kinks.

Each rule is the slope times what passes, for both modes (see `lean_nn.ops.elementwise`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lean_nn.ops.broadcast import sum_to
from lean_nn.ops.elementwise import (
    add,
    binary,
    gate,
    greater,
    mul,
    normal_pdf,
    relu_gate,
    sigmoid,
    sigmoid_gate,
    sub,
    unary,
    where,
)
from lean_nn.primitive import Gamma, Gate, Primitive, Ulps

SQRT_8_OVER_PI = 1.5957691216057307117
CUBIC = 0.044715

# --- pieces ---

leaky_gate: Primitive = gate("leaky_gate", Ulps(1.5), ("slope",))
open_gate: Primitive = gate("open_gate", Ulps(0.5), ("bound", "over"))  # t/over between −bound and bound


def _elu_curve(s: Any, y: Any, t: Any, x: Any, *, alpha: float) -> Any:
    """The slope of elu_gate in x: t·alpha·exp(x) below 0, none above: the gate less what just passes."""
    both = mul(s, t)
    return sub(elu_gate(both, x, alpha=alpha), relu_gate(both, x))


elu_gate: Primitive = binary(
    "elu_gate", Ulps(3), linear=(0,), numbers=("alpha",),
    jvp=(None, _elu_curve),
    vjp=(
        lambda g, y, t, x, *, alpha: sum_to(elu_gate(g, x, alpha=alpha), t.shape),
        lambda g, y, t, x, *, alpha: sum_to(_elu_curve(g, y, t, x, alpha=alpha), x.shape),
    ),
)  # fmt: skip
leaky_relu: Primitive = unary("leaky_relu", Gate(leaky_gate), Ulps(1.5), numbers=("slope",))
elu: Primitive = unary("elu", Gate(elu_gate), Ulps(3.5), numbers=("alpha",))
hardsigmoid: Primitive = unary(
    "hardsigmoid", lambda t, y, x: open_gate(t, x, bound=3.0, over=6.0), Ulps(1.5)
)


def _hardswish_bend(s: Any, y: Any, t: Any, x: Any) -> Any:
    """1/3 between −3 and 3, where the slope is x/3 + 1/2; 0 beyond."""
    return open_gate(mul(s, t), x, bound=3.0, over=3.0)


hardswish_gate: Primitive = binary(
    "hardswish_gate", Gamma(lambda t, x: 5, "5"), linear=(0,),
    jvp=(None, _hardswish_bend),
    vjp=(
        lambda g, y, t, x: sum_to(hardswish_gate(g, x), t.shape),
        lambda g, y, t, x: sum_to(_hardswish_bend(g, y, t, x), x.shape),
    ),
)  # fmt: skip
hardswish: Primitive = unary("hardswish", Gate(hardswish_gate), Ulps(2.5))

# --- smooth ---


def _smooth_gate(name: str, curve: Callable[[Any], Any]) -> Primitive:
    """A gate whose slope in the place is `curve`, the second derivative of its function.

    The slope itself is a sum whose terms cancel near its zero: its error is bounded beside the terms, not beside the sum.
    """

    def passed(g: Any, y: Any, t: Any, x: Any) -> Any:
        return sum_to(record(g, x), t.shape)

    def bent(s: Any, y: Any, t: Any, x: Any) -> Any:
        return mul(mul(s, t), curve(x))

    record = binary(
        name, Gamma(lambda t, x: 12, "12"), linear=(0,), jvp=(None, bent),
        vjp=(passed, lambda g, y, t, x: sum_to(bent(g, y, t, x), x.shape)),
    )  # fmt: skip
    return record


def _gelu_curve(x: Any) -> Any:
    """φ·(2 − x²)."""
    return mul(normal_pdf(x), sub(2.0, mul(x, x)))


def _silu_curve(x: Any) -> Any:
    """σ·(1 − σ)·(2 + x·(1 − 2σ))."""
    s = sigmoid(x)
    return sigmoid_gate(add(mul(x, sub(1.0, add(s, s))), 2.0), s)


def _gelu_tanh_curve(x: Any) -> Any:
    """σ'(u)·(2u' + x·(u'' + (1 − 2σ(u))·u'²)), u = √(8/π)·(x + 0.044715 x³)."""
    square = mul(mul(x, x), CUBIC)
    s = sigmoid(mul(mul(x, SQRT_8_OVER_PI), add(square, 1.0)))
    slope = mul(add(mul(square, 3.0), 1.0), SQRT_8_OVER_PI)
    bend = add(mul(x, 6.0 * CUBIC * SQRT_8_OVER_PI), mul(sub(1.0, add(s, s)), mul(slope, slope)))
    return sigmoid_gate(add(mul(slope, 2.0), mul(x, bend)), s)


gelu_gate: Primitive = _smooth_gate("gelu_gate", _gelu_curve)
gelu_tanh_gate: Primitive = _smooth_gate("gelu_tanh_gate", _gelu_tanh_curve)
silu_gate: Primitive = _smooth_gate("silu_gate", _silu_curve)


def _softplus_rule(t: Any, y: Any, x: Any, *, beta: float, threshold: float) -> Any:
    """σ(βx), and 1 where the value is x itself."""
    z = mul(x, beta)
    return where(greater(z, threshold), t, mul(t, sigmoid(z)))


silu: Primitive = unary("silu", Gate(silu_gate), Ulps(3.5))
gelu: Primitive = unary("gelu", Gate(gelu_gate), Ulps(7))
gelu_tanh: Primitive = unary(
    "gelu_tanh", Gate(gelu_tanh_gate), Gamma(lambda x: 12, "12")
)  # in the far lower tail the argument's rounding is magnified, hence not so many ulps of y
softplus: Primitive = unary("softplus", _softplus_rule, Ulps(4), numbers=("beta", "threshold"))
