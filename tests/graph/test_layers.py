"""Convolutions and products with what follows them, and weights transformed beforehand: the passes tails and prepack."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import lean_nn as ln
import lean_nn.functional as F
from lean_nn.backend.cpu_conv import algorithm
from lean_nn.graph.passes import PASSES
from lean_nn.primitive import GraphError, get

RNG = np.random.default_rng(0)


def randn(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


K3, K1, KT = randn(8, 8, 3, 3), randn(8, 8, 1, 1), randn(8, 4, 4, 4)
B8, W, BW = randn(8), randn(5, 8), randn(5)
X = randn(2, 8, 16, 16)  # Winograd's algorithm takes it

FUSED = {
    "conv relu": (lambda x: F.relu(F.conv2d(x, K3, B8, padding=1)), ["conv_layer"]),
    "conv leaky": (lambda x: F.leaky_relu(F.conv2d(x, K1), 0.2), ["conv_layer"]),
    "residual": (lambda x: F.relu(F.conv2d(x, K3, B8, padding=1) + x), ["conv_layer"]),
    "residual first": (lambda x: F.relu(x + F.conv2d(x, K3, padding=1)), ["conv_layer"]),
    "residual alone": (lambda x: F.conv2d(x, K3, padding=1) + x, ["conv_layer"]),
    "two convolutions": (lambda x: F.relu(F.conv2d(x, K3, padding=1) + F.conv2d(x, K1)), ["conv", "conv_layer"]),
    "transposed": (lambda x: F.relu(F.conv_transpose2d(x, KT, None, 2, 1)), ["conv_input_layer"]),
    "no batch": (lambda x: F.relu(F.conv2d(x[0], K1, B8)), ["slice", "conv_layer"]),
    "linear": (lambda x: F.relu(F.linear(x.flatten(1)[:, :8], W, BW)), ["slice", "matmul_layer"]),
    "linear bias": (lambda x: F.linear(x.flatten(1)[:, :8], W, BW), ["slice", "matmul_layer"]),
}
LEFT = {
    "read twice": lambda x: [y := F.conv2d(x, K3), F.relu(y) * y][1],
    "wanted itself": lambda x: [y := F.conv2d(x, K3), (y, F.relu(y))][1],
    "reshaped for others too": lambda x: [y := F.conv2d(x[0], K3), F.relu(y) * y][1],
    "twice itself": lambda x: [y := F.conv2d(x, K3), y + y][1],
    "grows": lambda x: F.conv2d(x[:1], K3) + randn(2, 8, 14, 14),
    "per pixel": lambda x: F.conv2d(x, K3) + randn(14, 14),
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
    with algorithm("winograd"):  # by itself a level may take another where the weight is not packed
        plain, packed = (ln.compile(f, X, passes=passes) for passes in (("tails",), ("tails", "prepack")))
    extra = packed.memory.weights - plain.memory.weights
    assert extra >= 4 * K3.size and packed.memory.arena == plain.memory.arena
    assert sorted(a.nbytes for a in packed.graph.constants.values())[-1] == extra
    assert "tail=add+relu+packed" in str(packed)
    assert packed(X).tobytes() == plain(X).tobytes()
    assert len(packed.source.graph.constants) == len(plain.source.graph.constants)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("transposed", [False, True], ids=["conv", "transposed"])
@pytest.mark.parametrize(("rows", "terms", "size"), [(7, 3, 3), (13, 16, 7), (24, 40, 14), (61, 300, 4), (200, 530, 7)], ids=str)
def test_the_weight_of_a_layer_with_one_tap_is_packed_in_panels(rows, terms, size, transposed, dtype):
    """Few terms and several blocks of them, panels of unequal height, on one thread and on several: the same bits."""
    x, b = randn(1, terms, size, size).astype(dtype), randn(rows).astype(dtype)
    w = randn(*((terms, rows) if transposed else (rows, terms)), 1, 1).astype(dtype)

    def f(x):
        return F.relu(F.conv_transpose2d(x, w, b) if transposed else F.conv2d(x, w, b))

    plain, packed = (ln.compile(f, x, passes=passes) for passes in (("tails",), ("tails", "prepack")))
    assert "packed" in str(packed) and "packed" not in str(plain)
    assert packed.memory.weights - plain.memory.weights == -(-rows // 6) * 6 * terms * x.itemsize
    for threads in (1, 2, 5):
        with ln.num_threads(threads):
            assert packed(x).tobytes() == plain(x).tobytes() == f(ln.tensor(x)).numpy().tobytes()


def test_weights_with_one_tap_that_are_read_as_they_lie():
    """Few rows, few cells (dot products), many cells, several samples, groups, a stride: packing would gain nothing."""
    layers = [((1, 8, 4, 4), (6, 8, 1, 1), {}), ((1, 8, 2, 2), (16, 8, 1, 1), {}), ((1, 8, 20, 20), (16, 8, 1, 1), {}),
              ((2, 8, 4, 4), (16, 8, 1, 1), {}), ((1, 16, 4, 4), (16, 8, 1, 1), {"groups": 2}),
              ((1, 8, 8, 8), (16, 8, 1, 1), {"stride": 2})]  # fmt: skip
    for shape, weight, options in layers:
        w = randn(*weight)
        assert "packed" not in str(ln.compile(lambda x, w=w, o=options: F.conv2d(x, w, **o), shape)), (shape, weight)
    infinite = randn(16, 8, 1, 1)
    infinite[3, 2], x = np.inf, randn(1, 8, 4, 4)
    program = ln.compile(lambda x: F.conv2d(x, infinite), x)
    assert "packed" in str(program)
    np.testing.assert_array_equal(program(x), F.conv2d(ln.tensor(x), infinite).numpy())


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


PRODUCTS = {  # shapes of both factors, which of them are transposed
    "rows": ((7, 5), (5, 8), False, False),
    "linear": ((8, 300), (33, 300), False, True),
    "wide": ((30, 256), (256, 100), False, False),
    "blocks": ((9, 600), (600, 17), False, False),
    "turned": ((257, 31), (9, 257), True, True),
    "most": ((256, 16), (16, 40), False, False),
    "batch": ((2, 3, 6, 11), (20, 11), False, True),
    "one by one": ((1, 8, 11), (1, 11, 20), False, False),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("tail", [False, True], ids=["plain", "tail"])
def test_a_constant_factor_is_packed_and_the_bits_are_the_same(name, dtype, tail):
    """The packed strips take its place; on one thread and on two the sums are those of the product that packs itself."""
    a_shape, b_shape, ta, tb = PRODUCTS[name]
    a, b = randn(*a_shape).astype(dtype), randn(*b_shape).astype(dtype)
    bias = randn(b_shape[-2 if tb else -1]).astype(dtype)

    def f(x):
        y = get("matmul")(x, b, ta=ta, tb=tb)
        return F.relu(y + bias) if tail else y

    plain, packed = (ln.compile(f, a, passes=passes) for passes in (("tails",), ("tails", "prepack")))
    assert [n.prim.name for n in packed.graph.nodes] == ["matmul_layer"] and "packed" in str(packed)
    assert b.shape not in [c.shape for c in packed.graph.constants.values()]
    assert 0 <= packed.memory.weights - plain.memory.weights < b.nbytes + 64 * b_shape[-1 if tb else -2] * b.itemsize
    for threads in (1, 2):
        with ln.num_threads(threads):
            assert packed(a).tobytes() == plain(a).tobytes() == f(ln.tensor(a)).numpy().tobytes()


def test_factors_that_are_read_as_they_lie_are_not_packed():
    """Few rows, dot products, many rows; a factor that differs along the batch; one that is no constant; two constants."""
    w, many = randn(20, 16), randn(3, 16, 20)
    for f, shape in [
        (lambda x: x @ w.T, (1, 16)), (lambda x: x @ w.T, (6, 16)), (lambda x: x @ w[:3].T, (40, 16)),
        (lambda x: x @ w.T, (257, 16)), (lambda x: x @ many, (3, 8, 16)), (lambda x: w @ x, (16, 30)),
    ]:  # fmt: skip
        program = ln.compile(f, shape)
        assert "packed" not in str(program), (shape, str(program))
    assert "packed" not in str(ln.compile(lambda x, w: x @ w, (8, 16), (16, 20)))
    assert "packed" in str(ln.compile(lambda x: x @ w.T, (8, 16)))


def test_a_factor_is_packed_once_and_stays_where_it_is_read():
    w = randn(20, 20)

    def f(x):
        y = F.relu(x @ w)
        return (y @ w).sum(), y @ w.T, (w * 2.0) @ y[0]

    program = ln.compile(f, (8, 20), passes=("dead", "tails", "prepack"))
    shapes = [a.shape for a in program.graph.constants.values()]
    assert shapes.count((20, 20)) == 1 and sum(len(shape) == 1 for shape in shapes) == 2  # itself; as it lies, and turned
    x = randn(8, 20)
    for got, want in zip(program(x), f(ln.tensor(x)), strict=True):
        assert got.tobytes() == want.numpy().tobytes()


def test_a_packed_factor_is_read_by_its_kernel_alone():
    w = randn(16, 20)
    (node,) = ln.compile(lambda x: x @ w, (8, 16)).graph.nodes
    for slot in ("spec", "cpu"):
        with pytest.raises(GraphError, match=f"matmul_layer.*{slot}"):
            getattr(node.prim, slot)(randn(8, 16), randn(512), **({"out": None} if slot == "cpu" else {}), **node.params)


def test_a_file_holds_the_graph_as_it_was_recorded(tmp_path):
    program = ln.compile(FUSED["residual"][0], X)
    program.save(tmp_path / "program")
    loaded = ln.load_program(tmp_path / "program")
    assert loaded(X).tobytes() == program(X).tobytes()
    assert loaded.memory == program.memory
    assert (tmp_path / "program").stat().st_size < program.memory.weights
