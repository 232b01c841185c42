"""Each pass: what it changes on a small graph, what it must leave alone, that it can be switched off, that results agree."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from graph_networks import NETWORKS, example

import lean_nn as ln
import lean_nn.functional as F
from lean_nn.graph.passes import EXACT, PASSES, optimise
from lean_nn.ops.pool import max_pool
from lean_nn.primitive import get
from lean_nn.window import Window

RNG = np.random.default_rng(0)


def randn(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


def ops(f, *shapes, passes):
    return [node.prim.name for node in ln.compile(f, *shapes, passes=passes).graph.nodes]


def agree(f, x, passes):
    """The passes keep the bits of what the function computes eagerly."""
    got, want = ln.compile(f, x, passes=passes)(x), f(ln.tensor(x))
    for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, want)), strict=True):
        assert a.tobytes() == b.numpy().tobytes()


# --- all of them ---


def test_no_pass_changes_the_graph_it_is_given():
    traced = ln.compile(lambda x: F.relu(F.conv2d(x, np.ones((2, 1, 3, 3), np.float32)) * 2.0 + 1.0), (1, 1, 8, 8)).source
    before = repr(traced.graph)
    optimise(traced.graph, PASSES)
    assert repr(traced.graph) == before


def test_without_passes_the_graph_is_as_recorded():
    program = ln.compile(lambda x: (x + 0) * 1 + (x + 0), (2,), passes=())
    assert [n.prim.name for n in program.graph.nodes] == [n.prim.name for n in program.source.graph.nodes]


SUBSETS = [subset for n in range(len(PASSES) + 1) for subset in combinations(PASSES, n)]


@pytest.mark.parametrize("passes", SUBSETS, ids="+".join)
def test_any_choice_of_passes_gives_the_same_network(passes):
    params, buffers, x, _ = example("mobilenet", "float64")
    forward = NETWORKS["mobilenet"].forward
    want = forward({**params, **buffers}, ln.tensor(x), False).numpy()
    got = ln.compile(lambda x: forward({**params, **buffers}, x, False), x, passes=passes)(x)
    if set(passes) <= set(EXACT):
        assert got.tobytes() == want.tobytes()
    else:
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


def test_the_order_that_passes_are_named_in_does_not_matter():
    f = lambda x: F.relu(F.conv2d(x, np.ones((2, 1, 3, 3), np.float32)) * 2.0)  # noqa: E731
    forward, backward = (ln.compile(f, (1, 1, 8, 8), passes=names) for names in (tuple(PASSES), tuple(PASSES)[::-1]))
    assert str(forward) == str(backward)


# --- constants ---

W = randn(3)


def test_constants_are_computed_beforehand():
    def f(x):
        return x * F.exp(ln.tensor(W)).sum() + F.sqrt(x * 0 + 1)

    def g(x):
        return x * F.exp(x * 0).sum()

    def folded(x):
        return x * (as_symbol(x, W) * 2).sum()

    assert ops(folded, (3,), passes=()) == ["mul", "sum", "mul"]
    assert ops(folded, (3,), passes=("constants",)) == ["mul"]
    for function in (f, g, folded):
        agree(function, randn(3), ("constants",))


def as_symbol(x, array):
    """A constant of the graph that x belongs to: eagerly a Tensor."""
    if isinstance(x.data, np.ndarray):
        return ln.tensor(array)
    from lean_nn_c import engine

    return engine.wrap(x.data.recorder.symbol(array, "test"))


def test_a_constant_that_would_only_take_space_stays_a_node():
    def f(x):
        return x + F.broadcast_to(as_symbol(x, np.ones((1, 1), np.float32)), (64, 64)) * 2

    assert "broadcast_to" in ops(f, (64, 64), passes=("constants",))
    assert ln.compile(f, (64, 64)).memory.weights < 1000


def test_folding_does_not_grow_step_by_step():
    """Four times larger each time is within the limit of one node; the sum of them is bounded all the same."""

    def f(x):
        a = as_symbol(x, np.ones((1, 1024), np.float32))
        for k in range(1, 7):
            a = F.broadcast_to(a.reshape(1, -1), (4, 1024 * 4 ** (k - 1))).reshape(1, -1)
        return x + a.sum()

    left = ops(f, (1,), passes=("constants",))
    assert left.count("broadcast_to") == 3 and ops(f, (1,), passes=()).count("broadcast_to") == 6


# --- common subexpressions ---


def test_equal_expressions_are_computed_once():
    def f(x):
        return F.exp(x) * F.exp(x) + F.exp(x + 1) + F.exp(x + 1)

    assert ops(f, (3,), passes=()).count("exp") == 4
    assert ops(f, (3,), passes=("common",)).count("exp") == 2
    assert ops(f, (3,), passes=("common",)).count("add") == 3
    agree(f, randn(3), ("common",))


def test_expressions_that_only_look_equal_are_not():
    def f(x):
        a = F.leaky_relu(x, 0.0), F.leaky_relu(x, -0.0)
        b = F.leaky_relu(x, 0.1), F.leaky_relu(x, 0.2)
        return (*a, *b, x / 0.0, x / -0.0)

    x = np.array([-1.0, 2.0], np.float32)
    assert ops(f, (2,), passes=("common",)).count("div") == 2
    assert ops(f, (2,), passes=("common",)).count("leaky_relu") == 4
    agree(f, x, ("common",))


def test_outputs_of_several_are_common_too():
    def f(x):
        a = F.max_pool2d(x, 2, return_indices=True)
        b = F.max_pool2d(x, 2, return_indices=True)
        return a[0] + b[0], a[1], b[1]

    assert ops(f, (1, 1, 4, 4), passes=("common",)).count("max_pool") == 1
    agree(f, randn(1, 1, 4, 4), ("common",))


# --- dead values ---


def test_what_nobody_reads_is_dropped():
    def f(x):
        F.exp(x) + W
        return x * 2

    assert ops(f, (3,), passes=()) == ["exp", "add", "mul"]
    program = ln.compile(f, (3,), passes=("dead",))
    assert [n.prim.name for n in program.graph.nodes] == ["mul"] and program.memory.weights == 4
    agree(f, randn(3), ("dead",))


def test_an_input_stays_in_the_signature():
    program = ln.compile(lambda x, y: x * 2, (3,), (4,), passes=("dead",))
    assert program(randn(3), randn(4)).shape == (3,)


def test_winners_that_nobody_reads_are_not_looked_for():
    window = F.max_pool2d

    def value(x):
        return pool_pair(x)[0]

    def pool_pair(x):
        return window(x, 2, return_indices=True)

    assert ops(value, (1, 1, 4, 4), passes=()) == ["max_pool"]
    assert ops(value, (1, 1, 4, 4), passes=("dead",)) == ["max_pool_value"]
    assert ops(pool_pair, (1, 1, 4, 4), passes=("dead",)) == ["max_pool"]
    agree(value, randn(1, 1, 4, 4), ("dead",))
    assert max_pool.outputs == 2


# --- gates ---


@pytest.mark.parametrize("window", [(2, 2), (3, 2), (3, 1, 1), ((1, 2), 1)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_relu_behind_max_pooling_is_differentiated_on_the_pooled_side(window, dtype):
    """The same bits, whatever overlaps, ties, or is not finite; what was pooled is not kept."""
    x, c = randn(2, 3, 9, 8).astype(dtype), randn(2, 3, 9, 8).astype(dtype)
    x[0, 0], x[0, 1, 2, 2], x[1, 0, 4, 4], x[1, 1] = -1, np.nan, np.inf, np.round(x[1, 1])

    def f(x):
        def loss(x):
            y = F.max_pool2d(F.relu(x * 2), *window)
            return (y * y * c[..., : y.shape[2], : y.shape[3]]).sum()

        return ln.grad(loss)(x)

    plain, moved = (ln.compile(f, x, passes=passes) for passes in (("dead",), ("dead", "gates")))
    names = [[node.prim.name for node in p.graph.nodes] for p in (plain, moved)]
    assert names[0].index("scatter_add_at") < names[0].index("relu_gate")
    assert names[1].index("relu_gate") < names[1].index("scatter_add_at") and sorted(names[0]) == sorted(names[1])
    assert moved(x).tobytes() == plain(x).tobytes() == f(ln.tensor(x)).numpy().tobytes()
    if window == (2, 2):
        assert moved.memory.arena < plain.memory.arena


def test_gates_that_stay_behind_the_scatter():
    """A gate by something else than what was pooled; a scattered gradient that somebody else reads; winners from elsewhere."""
    x = randn(1, 1, 4, 4)
    gate, scatter = get("relu_gate"), get("scatter_add_at")

    def pooled(x):
        return max_pool(x, window=Window((2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1), False))

    _, idx = pooled(ln.tensor(x))

    def other(x):
        p, i = pooled(x)
        return gate(scatter(p, i, spatial=(4, 4), window=None), x * -1)

    def twice(x):
        p, i = pooled(x)
        s = scatter(p, i, spatial=(4, 4), window=None)
        return gate(s, x) + s

    def given(x):
        return gate(scatter(pooled(x)[0], ln.tensor(idx.data), spatial=(4, 4), window=None), x)

    for f in (other, twice, given):
        assert ops(f, (1, 1, 4, 4), passes=("gates",)) == ops(f, (1, 1, 4, 4), passes=())
        agree(f, x, ("gates",))


# --- scales and shifts ---


def gamma(n, dtype):
    u = float(np.finfo(dtype).eps) / 2
    return n * u / (1 - n * u)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("groups", [1, 2])
def test_batch_norm_folds_into_convolution_within_its_bound(dtype, groups):
    """|ŷ − y| ≤ γ_{n + 2m}·(Σ|x||w'| + |b'|) around the exact result, for each of the two ways to compute it."""
    w, b = randn(4, 4 // groups, 3, 3, dtype=dtype), randn(4, dtype=dtype)
    mean, var = randn(4, dtype=dtype), RNG.random(4).astype(dtype) + np.dtype(dtype).type(0.5)
    weight, bias = randn(4, dtype=dtype), randn(4, dtype=dtype)

    def f(x):
        return F.batch_norm(F.conv2d(x, w, b, padding=1, groups=groups), mean, var, weight, bias)

    x = randn(2, 4, 6, 6, dtype=dtype)
    assert ops(f, x, passes=("constants", "affine")) == ["conv"]
    folded, plain = ln.compile(f, x, passes=("constants", "affine"))(x), ln.compile(f, x, passes=EXACT)(x)
    shape = (-1, 1, 1, 1)
    scale = np.abs(weight / np.sqrt(var + 1e-5)).astype("float64")
    ab = [np.abs(a).astype("float64") for a in (x, w, b, mean, bias)]
    size = F.conv2d(ab[0], ab[1] * scale.reshape(shape), (ab[2] + ab[3]) * scale + ab[4], padding=1, groups=groups).numpy()
    n = 9 * 4 // groups + 1
    assert (np.abs(folded.astype("float64") - plain) <= 2 * gamma(n + 2 * 4 + 4, dtype) * size).all()


def test_scales_and_shifts_fold_into_transposed_convolution_group_by_group():
    w, c = randn(4, 3, 3, 3, dtype="float64"), randn(1, 6, 1, 1, dtype="float64")

    def f(x):
        return (F.conv_transpose2d(x, w, None, stride=2, groups=2) * c - c) / 3.0

    x = randn(1, 4, 5, 5, dtype="float64")
    assert ops(f, x, passes=("constants", "affine")) == ["conv_input"]
    np.testing.assert_allclose(ln.compile(f, x)(x), f(ln.tensor(x)).numpy(), rtol=1e-13, atol=1e-13)


C = randn(2, 1, 1)
K = randn(2, 1, 3, 3)
LEFT_ALONE = {
    "read twice": lambda x: [y := F.conv2d(x, K), y * C + F.exp(y)][1],
    "wanted itself": lambda x: [y := F.conv2d(x, K), (y, y * C)][1],
    "per pixel": lambda x: F.conv2d(x, K) * np.ones((1, 2, 4, 4), np.float32),
    "per sample": lambda x: F.conv2d(x, K) * np.ones((2, 1, 1, 1), np.float32),
    "grows": lambda x: F.conv2d(x, K) + np.ones((3, 2, 2, 1, 1), np.float32),
    "weight is no constant": lambda x: F.conv2d(x, x[:, :, :3, :3]) * C[:1],
    "divides the constant": lambda x: as_symbol(x, C) / F.conv2d(x, K),
    "not a scale": lambda x: F.maximum(F.conv2d(x, K), as_symbol(x, C)),
}


@pytest.mark.parametrize("kind", LEFT_ALONE)
def test_what_affine_must_leave_alone(kind):
    f, x = LEFT_ALONE[kind], randn(2, 1, 6, 6)
    assert ops(f, x, passes=("affine",)) == ops(f, x, passes=("dead",))
    agree(f, x, ("affine",))


def test_affine_can_be_switched_off():
    f = lambda x: F.conv2d(x, K) * C  # noqa: E731
    assert ops(f, (1, 1, 6, 6), passes=("affine",)) == ["conv"]
    assert ops(f, (1, 1, 6, 6), passes=()) == ["conv", "mul"]


# --- chains ---


def test_elementwise_operations_run_as_one_loop():
    def f(x):
        return F.relu(x * 2 + 1) * F.sigmoid(x)

    assert ops(f, (3, 4), passes=()) == ["mul", "add", "relu", "sigmoid", "mul"]
    assert ops(f, (3, 4), passes=("chains",)) == ["fused"]
    for shape in ((3, 4), (1,), (), (3, 5000), (0, 4)):
        agree(f, np.asarray(randn(*shape)).reshape(shape), ("chains",))


CHAINS = {
    "numbers per channel": (lambda x: F.relu(x * randn_like(x, (1, 8, 1, 1)) + randn_like(x, (8, 1, 1))), (2, 8, 5, 5)),
    "a row": (lambda x: F.exp(x + randn_like(x, (5,))) - 1, (2, 8, 5, 5)),
    "a mask": (lambda x: F.where(x > 0, F.exp(x), x * 0.5), (6, 7)),
    "long": (lambda x: [x := F.tanh(x * 1.5) - 0.1 for _ in range(40)][-1], (3, 7)),
    "wide": (lambda x: sum((F.exp(x * k) for k in range(20)), x), (3, 7)),
    "bushy": (lambda x: tree_of(x, 7), (3, 7)),
    "leaning": (lambda x: F.exp(x) - (F.tanh(x) - (F.sigmoid(x) - (F.exp(x) - tree_of(x, 3)))), (5, 7)),
    "squares": (lambda x: (x * x) * (x * x) + x, (9,)),
    "read outside": (lambda x: [y := F.relu(x) + 1, (y * 2, y.sum(0), y)][1], (4, 5)),
    "numbers of parameters": (lambda x: F.clamp(F.leaky_relu(x, 0.3), -0.1, 0.5) + F.elu(x, 0.7), (33,)),
}


def tree_of(x, depth):
    """A balanced tree of operations on one array: as many values at once as it is deep."""
    return F.tanh(x) if depth == 0 else F.relu(tree_of(x, depth - 1)) - tree_of(x, depth - 1) * 0.5


def test_a_chain_has_a_place_for_every_value():
    """Trees of any form: what the pass joins fits into the temporaries there are."""
    rng = np.random.default_rng(0)

    def grown(x, n):
        if n <= 1:
            return F.tanh(x)
        k = int(rng.integers(0, n))
        return F.exp(grown(x, n - 1)) if k == 0 else grown(x, k) * grown(x, n - k)

    for _ in range(40):
        program = ln.compile(lambda x: grown(x, int(rng.integers(2, 60))), (8,), passes=("chains",))
        assert sum(node.prim.name == "fused" for node in program.graph.nodes) >= 1
        assert np.isfinite(program(np.full(8, 0.01, np.float32))).all()


def randn_like(x, shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(x.dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", CHAINS)
def test_chains_keep_the_bits(kind, dtype):
    f, shape = CHAINS[kind]
    agree(f, randn(*shape, dtype=dtype), ("chains",))
    assert "fused" in ops(f, randn(*shape, dtype=dtype), passes=("chains",))


def test_a_chain_stops_where_its_value_is_needed_elsewhere():
    f = lambda x: [y := F.relu(x) + 1, y * 2 + y.sum()][1]  # noqa: E731
    assert ops(f, (4,), passes=("chains",)) == ["fused", "sum", "fused"]


def test_a_chain_does_not_cross_shapes():
    f = lambda x: F.exp((F.exp(x) * 2).reshape(2, 2)) * 2  # noqa: E731
    assert ops(f, (4,), passes=("chains",)) == ["fused", "reshape", "fused"]


def test_chains_can_be_switched_off():
    f = lambda x: F.relu(x) * 2  # noqa: E731
    assert "fused" not in ops(f, (4,), passes=[name for name in PASSES if name != "chains"])
