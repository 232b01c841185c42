"""Cases of arithmetic, functions, activations, gates, comparisons and where."""

from __future__ import annotations

from typing import Any

import numpy as np

from lean_nn.cases import Array, Case, Make, normal, uniform

Rng = np.random.Generator
DType = np.dtype[Any]

KINK = frozenset({"kink"})


def _normal(*shapes: tuple[int, ...]) -> Make:
    return lambda rng, dtype: tuple(normal(rng, dtype, *shape) for shape in shapes)


def _between(low: float, high: float, *shapes: tuple[int, ...]) -> Make:
    return lambda rng, dtype: tuple(uniform(rng, dtype, low, high, *shape) for shape in shapes)


def _few_values(rng: Rng, dtype: DType, *shape: int) -> Array:
    """Small whole numbers: ties and kinks on purpose."""
    return rng.integers(-3, 4, shape).astype(dtype)


def _ties(*shapes: tuple[int, ...]) -> Make:
    return lambda rng, dtype: tuple(_few_values(rng, dtype, *shape) for shape in shapes)


def _chosen(rng: Rng, dtype: DType) -> tuple[Array, ...]:
    return rng.random((2, 1, 4)) < 0.5, normal(rng, dtype, 3, 4), normal(rng, dtype, 2, 3, 1)


def _powers(exponent: float) -> Make:
    def make(rng: Rng, dtype: DType) -> tuple[Array, ...]:
        return normal(rng, dtype, 3, 4), uniform(rng, dtype, 0.3, 2.0, 3, 4), np.array(exponent, dtype)

    return make


SHAPES = {
    "equal shapes": ((2, 3), (2, 3)), "scalar right": ((2, 3), ()), "scalar left": ((), (2, 3)),
    "broadcast": ((2, 1, 3), (4, 1)), "empty": ((0, 3), (3,)), "rank 5": ((1, 2, 1, 2, 2), (2, 1, 2, 1, 2)),
}  # fmt: skip

ARITHMETIC = [
    Case(label, name, _normal(*shapes)) for name in ("add", "sub", "mul") for label, shapes in SHAPES.items()
] + [
    *(Case(label, "div", _between(0.3, 2.0, *shapes)) for label, shapes in SHAPES.items()),
    *(Case(label, "pow", _between(0.3, 2.0, *shapes)) for label, shapes in SHAPES.items()),
    *(Case(label, "maximum", _normal(*shapes)) for label, shapes in SHAPES.items()),
    *(Case(label, "minimum", _normal(*shapes)) for label, shapes in SHAPES.items()),
    Case("ties", "maximum", _ties((4, 5), (5,)), tags=KINK),
    Case("ties", "minimum", _ties((4, 5), (5,)), tags=KINK),
    Case("squares", "pow", lambda rng, dtype: (uniform(rng, dtype, 0.3, 2.0, 3, 4), np.array(2.0, dtype))),
]  # fmt: skip

FUNCTIONS = [
    case
    for name, make in {
        "neg": _normal((3, 4)), "exp": _normal((3, 4)), "expm1": _normal((3, 4)), "tanh": _normal((3, 4)),
        "sigmoid": _normal((3, 4)), "erf": _normal((3, 4)), "normal_cdf": _between(-6, 6, (3, 4)),
        "normal_pdf": _between(-6, 6, (3, 4)), "log": _between(0.2, 5, (3, 4)), "log1p": _between(-0.7, 5, (3, 4)),
        "sqrt": _between(0.2, 5, (3, 4)), "abs": _normal((3, 4)), "sign": _normal((3, 4)), "relu": _normal((3, 4)),
        "gelu": _between(-6, 6, (3, 4)), "gelu_tanh": _between(-6, 6, (3, 4)), "silu": _between(-6, 6, (3, 4)),
        "hardsigmoid": _between(-5, 5, (3, 4)), "hardswish": _between(-5, 5, (3, 4)), "square": _normal((3, 4)),
    }.items()
    for case in (Case("plain", name, make), Case("one", name, _between(0.5, 1, ())), Case("none", name, _normal((2, 0))))
] + [
    Case("kinks", name, _ties((5, 7)), tags=KINK) for name in ("abs", "sign", "relu", "hardsigmoid", "hardswish")
]  # fmt: skip

WITH_NUMBERS = [
    Case(f"{label} {tuple(params.values())}", name, make((3, 5)), params, tags)
    for name, choices in {
        "leaky_relu": [{"slope": 0.01}, {"slope": -0.5}],
        "elu": [{"alpha": 1.0}, {"alpha": 0.3}],
        "softplus": [{"beta": 1.0, "threshold": 20.0}, {"beta": 2.5, "threshold": 1.0}],
        "clip": [{"low": -1.0, "high": 1.0}, {"low": float("-inf"), "high": 0.5}],
    }.items()
    for params in choices
    for label, make, tags in (("plain", _normal, frozenset()), ("kinks", _ties, KINK))
]

GATES = [
    Case(label, name, make((3, 4), shape), params, tags)
    for name, params in {
        "relu_gate": {}, "sign_gate": {}, "leaky_gate": {"slope": 0.25}, "elu_gate": {"alpha": 1.5},
        "clip_gate": {"low": -1.0, "high": 2.0}, "open_gate": {"bound": 1.0, "over": 6.0},
        "tanh_gate": {}, "sigmoid_gate": {}, "hardswish_gate": {}, "gelu_gate": {}, "gelu_tanh_gate": {}, "silu_gate": {},
        "square_gate": {},
    }.items()
    for label, make, shape, tags in (
        ("plain", _normal, (3, 4), frozenset()), ("broadcast", _normal, (4,), frozenset()), ("kinks", _ties, (3, 4), KINK),
    )
]  # fmt: skip

GATES += [
    Case(label, "sqrt_gate", _between(0.3, 2.0, (3, 4), shape)) for label, shape in (("plain", (3, 4)), ("broadcast", (4,)))
] + [
    Case(label, name, _between(0.3, 2.0, *shapes)) for name in ("div_gate", "pow_gate")
    for label, shapes in {
        "plain": ((3, 4), (3, 4), (3, 4)), "broadcast": ((4,), (3, 1), (2, 3, 4)), "scalar right": ((3, 4), (3, 4), ()),
        "one": ((), (), ()), "none": ((2, 0), (2, 0), (2, 0)),
    }.items()
] + [
    Case(f"power {b:g}", "pow_gate", _powers(b), tags=frozenset() if b else KINK)  # at 0 the gate is shut
    for b in (-1.0, -0.5, 0.0, 0.5, 2.0, 2.5, 3.0, 4.0)
]  # fmt: skip

CHOICES = [
    Case(label, name, make((3, 4), (4,))) for name in ("eq", "ne", "lt", "le", "gt", "ge")
    for label, make in (("plain", _normal), ("ties", _ties))
] + [
    Case("broadcast", "where", _chosen),
    Case("plain", "larger_gate", _normal((3, 4), (3, 4), (3, 4))),
    Case("broadcast", "larger_gate", _normal((4,), (3, 1), (2, 3, 4))),
    Case("ties", "larger_gate", _ties((4, 5), (4, 5), (5,)), tags=KINK),
]  # fmt: skip

CASES = [*ARITHMETIC, *FUNCTIONS, *WITH_NUMBERS, *GATES, *CHOICES]
