"""Convolutions and products with what follows them, and weights transformed beforehand: the passes tails and prepack."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import lean_nn as ln
import lean_nn.functional as F
from lean_nn.backend.cpu_conv import algorithm
from lean_nn.graph.passes import PASSES

RNG = np.random.default_rng(0)


def randn(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


K3, K1, KT = randn(8, 8, 3, 3), randn(8, 8, 1, 1), randn(8, 4, 4, 4)
B8, W, BW = randn(8), randn(5, 8), randn(5)
X = randn(2, 8, 9, 9)

FUSED = {
    "conv relu": (lambda x: F.relu(F.conv2d(x, K3, B8, padding=1)), ["conv_layer"]),
    "conv leaky": (lambda x: F.leaky_relu(F.conv2d(x, K1), 0.2), ["conv_layer"]),
    "residual": (lambda x: F.relu(F.conv2d(x, K3, B8, padding=1) + x), ["conv_layer"]),
    "residual first": (lambda x: F.relu(x + F.conv2d(x, K3, padding=1)), ["conv_layer"]),
    "residual alone": (lambda x: F.conv2d(x, K3, padding=1) + x, ["conv_layer"]),
    "two convolutions": (lambda x: F.relu(F.conv2d(x, K3, padding=1) + F.conv2d(x, K1)), ["conv", "conv_layer"]),
    "transposed": (lambda x: F.relu(F.conv_transpose2d(x, KT, None, 2, 1)), ["conv_input_layer"]),
    "linear": (lambda x: F.relu(F.linear(x.flatten(1)[:, :8], W, BW)), ["slice", "matmul_layer"]),
    "linear bias": (lambda x: F.linear(x.flatten(1)[:, :8], W, BW), ["slice", "matmul_layer"]),
}
LEFT = {
    "read twice": lambda x: [y := F.conv2d(x, K3), F.relu(y) * y][1],
    "wanted itself": lambda x: [y := F.conv2d(x, K3), (y, F.relu(y))][1],
    "twice itself": lambda x: [y := F.conv2d(x, K3), y + y][1],
    "grows": lambda x: F.conv2d(x[:1], K3) + randn(2, 8, 7, 7),
    "per pixel": lambda x: F.conv2d(x, K3) + randn(7, 7),
    "another activation": lambda x: F.sigmoid(F.conv2d(x, K3)),
    "per row": lambda x: x.flatten(1)[:, :8] @ W.T + randn(2, 1),
}


def ops(f, x, passes):
    return [n.prim.name for n in ln.compile(f, x, passes=passes).graph.nodes if n.prim.view is None]


@pytest.mark.parametrize("name", FUSED)
def test_what_follows_a_layer_runs_inside_it_in_the_same_bits(name):
    f, names = FUSED[name]
    assert ops(f, X, ("tails",)) == names
    assert not any("_layer" in op for op in ops(f, X, ()))
    assert ln.compile(f, X, passes=("tails",))(X).tobytes() == f(ln.tensor(X)).numpy().tobytes()


@pytest.mark.parametrize("name", LEFT)
def test_what_a_kernel_cannot_do_is_left_alone(name):
    assert not any("_layer" in op for op in ops(LEFT[name], X, ("tails",)))


def test_the_listing_says_what_runs_together():
    text = str(ln.compile(FUSED["residual"][0], X, passes=("tails",)))
    assert "conv_layer(%0, %1, %2, %0) tail=add+relu stride=(1, 1)" in text


def test_an_algorithm_without_a_step_is_refused():
    for passes in ((), ("tails",)):
        with algorithm("im2col"), pytest.raises(ValueError, match="by an algorithm that programs can run; got 'im2col'"):
            ln.compile(FUSED["residual"][0], X, passes=passes)


def test_the_specification_of_a_layer_is_made_of_its_parts():
    node = ln.compile(FUSED["residual"][0], X, passes=("tails",)).graph.nodes[0]

    def exact(*shape):
        return np.vectorize(Fraction, otypes=[object])(RNG.integers(-3, 4, shape))

    x, w, b = exact(1, 2, 3, 3), exact(2, 2, 3, 3), exact(2)
    params = {name: value for name, value in node.params.items() if name != "tail"}
    want = ln.spec.conv(x, w, b, **params) + x
    want = np.where(want <= 0, Fraction(0), want)
    assert (node.prim.spec(x, w, b, x, **node.params) == want).all()


# --- prepack ---


def test_a_constant_weight_is_transformed_once_and_counted():
    f = FUSED["residual"][0]
    plain, packed = (ln.compile(f, X, passes=passes) for passes in (("tails",), ("tails", "prepack")))
    extra = packed.memory.weights - plain.memory.weights
    assert extra >= 4 * K3.size and packed.memory.arena == plain.memory.arena
    assert sorted(a.nbytes for a in packed.graph.constants.values())[-1] == extra
    assert "tail=add+relu+packed" in str(packed)
    assert packed(X).tobytes() == plain(X).tobytes()
    assert len(packed.source.graph.constants) == len(plain.source.graph.constants)


def test_a_weight_that_is_no_constant_is_not_packed():
    program = ln.compile(lambda x, w: F.conv2d(x, w, padding=1), X, K3)
    assert [n.prim.name for n in program.graph.nodes] == ["conv"]


def test_a_transform_already_made_lets_winograd_pay_where_it_would_not():
    x, w = randn(1, 32, 14, 14), randn(64, 32, 5, 5)

    def f(x):
        return F.conv2d(x, w, padding=2)

    program = ln.compile(f, x)
    want = ln.compile(f, x, passes=())(x)
    assert ops(f, x, tuple(PASSES)) == ["conv_layer"] and ops(f, x, ()) == ["conv"]
    np.testing.assert_allclose(program(x), want, rtol=0, atol=2e-4 * np.abs(want).max())


def test_what_is_not_finite_is_computed_from_the_weight_itself():
    x = X.copy()
    x[0, 0, 4, 4] = np.inf
    f = FUSED["conv relu"][0]
    got, want = ln.compile(f, x)(x), f(ln.tensor(x)).numpy()
    assert (np.isfinite(got) == np.isfinite(want)).all() and (np.isnan(got) == np.isnan(want)).all()


def test_exact_precision_packs_nothing_and_ignores_what_was_packed():
    f = FUSED["conv relu"][0]
    packed = ln.compile(f, X)
    try:
        ln.set_precision("exact")
        assert ln.compile(f, X).memory.weights < packed.memory.weights
        assert packed(X).tobytes() == f(ln.tensor(X)).numpy().tobytes()
    finally:
        ln.set_precision("fast")


def test_a_file_holds_the_graph_as_it_was_recorded(tmp_path):
    program = ln.compile(FUSED["residual"][0], X)
    program.save(tmp_path / "program")
    loaded = ln.load_program(tmp_path / "program")
    assert loaded(X).tobytes() == program(X).tobytes()
    assert loaded.memory == program.memory
    assert (tmp_path / "program").stat().st_size < program.memory.weights
