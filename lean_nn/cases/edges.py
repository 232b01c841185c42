"""The edges: every primitive that can be is called on an empty array and on a single element."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from lean_nn.cases import Array, Case, Make, normal, uniform

Rng = np.random.Generator
DType = np.dtype[Any]
Shape = tuple[int, ...]


def _floats(*shapes: Shape) -> Make:
    return lambda rng, dtype: tuple(normal(rng, dtype, *shape) for shape in shapes)


def _at(shape: Shape, idx: Shape) -> Make:
    """Data, and indices that are all 0."""
    return lambda rng, dtype: (normal(rng, dtype, *shape), np.zeros(idx, np.int64))


def _chosen(shape: Shape) -> Make:
    def make(rng: Rng, dtype: DType) -> tuple[Array, ...]:
        return np.ones(shape, np.bool_), normal(rng, dtype, *shape), normal(rng, dtype, *shape)

    return make


def _seeded(shape: Shape) -> Make:
    return lambda rng, dtype: (normal(rng, dtype, *shape), np.array(3, np.int64))


def _standard(shape: Shape, *extra: int) -> Make:
    """``extra`` arrays like the statistics, between the data and z and rstd."""

    def make(rng: Rng, dtype: DType) -> tuple[Array, ...]:
        group = (1, *shape[1:])
        between = [normal(rng, dtype, *group) for _ in extra]
        return normal(rng, dtype, *shape), *between, normal(rng, dtype, *shape), uniform(rng, dtype, 0.5, 2.0, *group)

    return make


UNARY: dict[str, dict[str, Any]] = {
    "alias": {}, "to_device": {"device": "cpu"},
    "clip": {"low": -1.0, "high": 1.0}, "elu": {"alpha": 1.5}, "leaky_relu": {"slope": 0.25},
    "softplus": {"beta": 1.0, "threshold": 20.0}, "cast": {"dtype": "float64"}, "flip": {"axes": (0,)},
    "transpose": {"axes": (1, 0)},
}  # fmt: skip
BINARY: dict[str, dict[str, Any]] = {
    "relu_gate": {}, "sign_gate": {}, "leaky_gate": {"slope": 0.25}, "elu_gate": {"alpha": 1.5},
    "tanh_gate": {}, "sigmoid_gate": {}, "hardswish_gate": {}, "gelu_gate": {}, "gelu_tanh_gate": {}, "silu_gate": {},
    "clip_gate": {"low": -1.0, "high": 2.0}, "open_gate": {"bound": 1.0, "over": 6.0}, "square_gate": {}, "sqrt_gate": {},
    **{name: {} for name in ("eq", "ne", "lt", "le", "gt", "ge")},
}  # fmt: skip


def _elementwise(label: str, shape: Shape) -> Iterator[Case]:
    for name, params in UNARY.items():
        yield Case(label, name, _floats(shape), params)
    for name, params in BINARY.items():
        yield Case(label, name, _floats(shape, shape), params)
    yield Case(label, "where", _chosen(shape))
    yield Case(label, "larger_gate", _floats(shape, shape, shape))
    yield Case(label, "dropout", _seeded(shape), {"p": 0.25})


def _moved(label: str, n: int) -> Iterator[Case]:
    """Shapes and indices of ``n`` elements."""
    yield Case(label, "broadcast_to", _floats((1, n)), {"shape": (2, n)})
    yield Case(label, "pad", _floats((n,)), {"padding": ((1, 2),), "value": 0.5})
    yield Case(label, "slice", _floats((n,)), {"start": (0,), "size": (n,), "step": (1,)})
    yield Case(label, "unslice", _floats((n,)), {"start": (0,), "step": (1,), "shape": (n + 1,)})
    yield Case(label, "concat", _floats((n,), (n,)), {"axis": 0})
    yield Case(label, "gather", _at((1, 2), (1, n)), {"axis": 1})
    yield Case(label, "scatter_add", _at((n,), (n,)), {"axis": 0, "size": 2})
    yield Case(label, "take", _at((1,), (n,)), {"axis": 0})
    yield Case(label, "take_transpose", _at((n,), (n,)), {"axis": 0, "size": 2})
    yield Case(label, "pick", _at((1,), (n,)), {"axis": 0, "ignore": -100})
    yield Case(label, "unpick", _at((n,), (n,)), {"axis": 0, "size": 2, "ignore": -100})


CASES = [
    *_elementwise("no element", (0, 3)),
    *_elementwise("one element", (1, 1)),
    *_moved("none", 0),
    *_moved("one", 1),
    *[Case("one element", name, _floats((1,)), {"axis": 0}) for name in ("max", "min", "logsumexp")],
    *[Case("one element", name, _floats((1,)), {"axis": 0}) for name in ("softmax", "log_softmax")],
    Case("one element", "matmul", _floats((1, 1), (1, 1)), {"ta": False, "tb": False}),
    Case("one element", "standardize", _floats((1, 1)), {"axes": (0,), "eps": 0.5}),
    Case("one element", "standardize_tangent", _standard((1, 1)), {"axes": (0,)}),
    Case("one element", "standardize_transpose", _standard((1, 1), 0, 0), {"axes": (0,)}),
    Case("no element", "variance", _floats((0, 3)), {"axes": (1,), "correction": 1}),
    Case("one element", "variance", _floats((1, 1)), {"axes": (1,), "correction": 0}),
    Case("no element", "variance_tangent", _floats((0, 3), (0, 3)), {"axes": (1,), "correction": 1}),
    Case("one element", "variance_tangent", _floats((1, 1), (1, 1)), {"axes": (1,), "correction": 0}),
]
