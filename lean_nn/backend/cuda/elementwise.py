"""One number in, one number out, by CuPy's functions; the formulas are those of ``lean_nn_c/elementwise_scalar.h``.

NaN comes out wherever it goes in, hence the direction of each comparison. Numbers that meet an array are scalars of
its own type, so that nothing is ever computed in another one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt
from typing import Any

from cupyx.scipy import special

from lean_nn.backend.cuda.library import cp

Formula = Callable[..., Any]


def _bounded(x: Any, low: float, high: float) -> Any:
    number = x.dtype.type
    above = cp.where(x < number(low), number(low), x)
    return cp.where(above > number(high), number(high), above)


def _sigmoid(x: Any) -> Any:
    one = x.dtype.type(1)
    e = cp.exp(-cp.absolute(x))
    return cp.where(x < 0, e, one) / (e + one)


def _cdf(x: Any) -> Any:
    return special.erfc(x * x.dtype.type(-sqrt(0.5))) * x.dtype.type(0.5)


def _pdf(x: Any) -> Any:
    return cp.exp(x * x * x.dtype.type(-0.5)) * x.dtype.type(1 / sqrt(2 * pi))


def _softplus(x: Any, *, beta: float, threshold: float) -> Any:
    number = x.dtype.type
    z = x * number(beta)
    smooth = (cp.where(z > 0, z, number(0)) + cp.log1p(cp.exp(-cp.absolute(z)))) / number(beta)
    return cp.where(z > number(threshold), x, smooth)


def _gelu_tanh(x: Any) -> Any:
    number = x.dtype.type
    return x * _sigmoid(x * number(2 * sqrt(2 / pi)) * (x * x * number(0.044715) + number(1)))


def _elu(x: Any, *, alpha: float) -> Any:
    return cp.where(x > 0, x, cp.expm1(x) * x.dtype.type(alpha))


def _sign(x: Any) -> Any:
    one = x.dtype.type(1)
    return cp.where(x > 0, one, cp.where(x < 0, -one, x))


UNARY: dict[str, Formula] = {
    "neg": lambda x: -x,
    "abs": lambda x: cp.absolute(x),
    "sign": _sign,
    "exp": lambda x: cp.exp(x),
    "expm1": lambda x: cp.expm1(x),
    "log": lambda x: cp.log(x),
    "log1p": lambda x: cp.log1p(x),
    "sqrt": lambda x: cp.sqrt(x),
    "square": lambda x: x * x,
    "tanh": lambda x: cp.tanh(x),
    "erf": lambda x: special.erf(x),
    "sigmoid": _sigmoid,
    "normal_cdf": _cdf,
    "normal_pdf": _pdf,
    "relu": lambda x: cp.where(x <= 0, x.dtype.type(0), x),
    "leaky_relu": lambda x, *, slope: cp.where(x > 0, x, x * x.dtype.type(slope)),
    "elu": _elu,
    "gelu": lambda x: x * _cdf(x),
    "gelu_tanh": _gelu_tanh,
    "silu": lambda x: x * _sigmoid(x),
    "softplus": _softplus,
    "clip": lambda x, *, low, high: _bounded(x, low, high),
    "hardsigmoid": lambda x: _bounded(x + x.dtype.type(3), 0, 6) / x.dtype.type(6),
    "hardswish": lambda x: x * _bounded(x + x.dtype.type(3), 0, 6) / x.dtype.type(6),
}


def _between(a: Any, x: Any, passes: Any) -> Any:
    return cp.where(passes, a, x.dtype.type(0))


def _silu_gate(a: Any, x: Any) -> Any:
    s = _sigmoid(x)
    return a * (s + x * (s * (x.dtype.type(1) - s)))


def _gelu_tanh_gate(a: Any, x: Any) -> Any:
    number = x.dtype.type
    x = _bounded(x, -30, 30)  # beyond, it is all or nothing
    bend = x * x * number(0.044715)
    s = _sigmoid(x * number(2 * sqrt(2 / pi)) * (bend + number(1)))
    slope = x * number(2 * sqrt(2 / pi)) * (bend * number(3) + number(1))
    return a * (s + slope * (s * (number(1) - s)))


def _affine(x: Any, scale: Any, shift: Any) -> Any:
    channel = (1, x.shape[1], *(1,) * (x.ndim - 2))
    return x * scale.reshape(channel) + shift.reshape(channel)


PAIRS: dict[str, Formula] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": lambda a, b: cp.power(a, b),
    "maximum": lambda a, b: cp.maximum(a, b),
    "minimum": lambda a, b: cp.minimum(a, b),
    "relu_gate": lambda a, x: cp.where(x <= 0, x.dtype.type(0), a),
    "sign_gate": lambda a, x: a * _sign(x),
    "larger_gate": lambda t, a, b: cp.where(a < b, t.dtype.type(0), cp.where(a == b, t * t.dtype.type(0.5), t)),
    "div_gate": lambda t, y, b: -(t * y) / b,
    "pow_gate": lambda t, a, b: cp.where(b == 0, t.dtype.type(0), t * (b * cp.power(a, b - b.dtype.type(1)))),
    "leaky_gate": lambda a, x, *, slope: cp.where(x > 0, a, a * x.dtype.type(slope)),
    "elu_gate": lambda a, x, *, alpha: cp.where(x > 0, a, a * (cp.exp(x) * x.dtype.type(alpha))),
    "clip_gate": lambda a, x, *, low, high: _between(a, x, (x >= x.dtype.type(low)) & (x <= x.dtype.type(high))),
    "open_gate": lambda a, x, *, bound, over: _between(a / a.dtype.type(over), x, cp.absolute(x) < x.dtype.type(bound)),
    "hardswish_gate": lambda a, x: cp.where(
        x >= x.dtype.type(3), a, cp.where(x <= x.dtype.type(-3), x.dtype.type(0), a * (x / x.dtype.type(3) + x.dtype.type(0.5)))
    ),
    "gelu_gate": lambda a, x: a * (_cdf(x) + x * _pdf(x)),
    "gelu_tanh_gate": _gelu_tanh_gate,
    "silu_gate": _silu_gate,
    "square_gate": lambda a, x: a * x * x.dtype.type(2),
    "sqrt_gate": lambda a, h: a / (h + h),
    "tanh_gate": lambda a, h: a * ((h.dtype.type(1) - h) * (h.dtype.type(1) + h)),
    "sigmoid_gate": lambda a, h: a * (h * (h.dtype.type(1) - h)),
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "affine": _affine,
    "where": lambda c, a, b: cp.where(c, a, b),
}


def _slot(formula: Formula) -> Formula:
    def slot(*arrays: Any, out: Any, **params: Any) -> None:
        out[...] = formula(*arrays, **params)

    return slot


SLOTS = {name: _slot(formula) for name, formula in (UNARY | PAIRS).items()}
