"""Both gradients of a convolution by one node, convolutions that read relu(batch norm) through: where, and with which bits."""

from __future__ import annotations

import numpy as np
import pytest

import lean_nn as ln
import lean_nn.functional as F
from lean_nn.graph.listing import flops
from lean_nn.graph.passes import EXACT, PASSES
from lean_nn.precision import set_precision

RNG = np.random.default_rng(0)
C, SIZE = 16, 24


def array(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def names(program):
    return [node.prim.name for node in program.graph.nodes]


def without(*dropped):
    return [name for name in PASSES if name not in dropped]


def norm(x):
    return F.batch_norm(x, None, None, training=True)


def network(x, *ws):
    """A stem and residual blocks: inner activations are read by a convolution alone, outer ones by the next sum too."""
    x = F.relu(norm(F.conv2d(x, ws[0], padding=1)))
    for inner, outer in zip(ws[1::2], ws[2::2], strict=True):
        y = F.relu(norm(F.conv2d(x, inner, padding=1)))
        x = F.relu(norm(F.conv2d(y, outer, padding=1)) + x)
    return F.exp(x * 0.1).sum()


def gradients(*args):
    return ln.value_and_grad(network, argnums=tuple(range(len(args))))(*args)


def flat(result):
    return [np.asarray(part) for part in (result[0], *result[1])]


def arguments(dtype=np.float32, count=5):
    return array(4, C, SIZE, SIZE, dtype=dtype), *(array(C, C, 3, 3, dtype=dtype) * 0.2 for _ in range(count))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_residual_network(dtype):
    """Every pair is one node, whose result has its sum and its gate; every inner activation is nobody's array."""
    args = arguments(dtype)
    program = ln.compile(gradients, *args)
    found = names(program)
    assert found.count("conv_both") == 5 and not {"conv_input", "conv_weight", "relu_gate"} & set(found)
    assert found.count("conv_headed") == found.count("normalize_statistics") == 2
    ends = [repr(node.params["tail"]) for node in program.graph.nodes if node.prim.name == "conv_both"]
    assert ends.count("add+relu_gate") == 2 and ends.count("") == 3
    heads = [node.params["head"] for node in program.graph.nodes if node.prim.name == "conv_both"]
    assert heads.count(True) == 2

    apart = ln.compile(gradients, *args, passes=without("gradients", "heads"))
    assert program.memory.arena < apart.memory.arena
    want = [a.astype(np.float64) for a in flat(ln.compile(gradients, *(a.astype(np.float64) for a in args), passes=())(
        *(a.astype(np.float64) for a in args)))]  # fmt: skip
    eps = np.finfo(dtype).eps
    for mine, theirs, meant in zip(flat(program(*args)), flat(apart(*args)), want, strict=True):
        error, before = np.abs(mine - meant).max(), np.abs(theirs - meant).max()
        assert error <= 3 * before + 64 * eps * np.abs(meant).max(), "as exact as the two by themselves"


def test_heads_keep_every_bit():
    args = arguments()
    plain = ln.compile(gradients, *args, passes=without("heads", "recompute"))
    headed = ln.compile(gradients, *args, passes=without("recompute"))
    assert "conv_headed" in names(headed) and "conv_headed" not in names(plain)
    want = [a.tobytes() for a in flat(plain(*args))]
    for count in (1, 2, 3):
        with ln.num_threads(count):
            assert [a.tobytes() for a in flat(headed(*args))] == want
    assert headed.memory.arena <= plain.memory.arena


def test_exact_passes_give_eagers_bits():
    """Among them is `heads`, which without pairs finds convolutions alone: forward."""
    args = arguments()
    program = ln.compile(network, *args, passes=EXACT)
    assert names(program).count("conv_headed") == 2
    assert program(*args).tobytes() == network(*(ln.tensor(a) for a in args)).numpy().tobytes()
    backward = ln.compile(gradients, *args, passes=EXACT)
    eager = gradients(*(ln.tensor(a) for a in args))
    assert "conv_both" not in names(backward)
    assert [a.tobytes() for a in flat(backward(*args))] == [a.numpy().tobytes() for a in (eager[0], *eager[1])]


def test_a_gate_ends_a_convolution_without_a_norm():
    """relu_gate(conv_input(...), y), as every plain network has it."""
    x, v, w = array(2, C, SIZE, SIZE), array(C, C, 3, 3), array(C, C, 3, 3)

    def loss(x, v, w):
        return F.conv2d(F.relu(F.conv2d(x, v, padding=1)), w, padding=1).sum()

    def f(x, v, w):
        return ln.grad(loss, argnums=(0, 1, 2))(x, v, w)

    program = ln.compile(f, x, v, w, passes=EXACT)
    assert "conv_input_layer" in names(program) and "relu_gate" not in names(program)
    for mine, eager in zip(program(x, v, w), f(*map(ln.tensor, (x, v, w))), strict=True):
        assert mine.tobytes() == eager.numpy().tobytes()


def used_early(x, w, g):
    """w_bar is read before what is added to x_bar exists."""
    x_bar, w_bar = ln.vjp(lambda x, w: F.conv2d(x, w, padding=1), x, w)[1](g)
    return x_bar + F.conv2d(F.exp(x), w_bar, padding=1)


@pytest.mark.parametrize(
    ("f", "shapes"),
    {
        "groups": (lambda x, w: F.conv2d(x, w, padding=1, groups=2), ((4, C, SIZE, SIZE), (C, C // 2, 3, 3))),
        "stride": (lambda x, w: F.conv2d(x, w, stride=2), ((4, C, SIZE, SIZE), (C, C, 3, 3))),
        "many channels": (lambda x, w: F.conv2d(x, w, padding=1), ((1, 96, SIZE, SIZE), (96, 96, 3, 3))),
        "one tap": (lambda x, w: F.conv2d(x, w), ((4, C, SIZE, SIZE), (C, C, 1, 1))),
        "empty": (lambda x, w: F.conv2d(x, w, padding=1), ((0, C, SIZE, SIZE), (C, C, 3, 3))),
    }.values(),
    ids=str,
)
def test_pairs_left_alone(f, shapes):
    args = [array(*shape) for shape in shapes]
    program = ln.compile(lambda *a: ln.grad(lambda *b: F.exp(f(*b)).sum(), argnums=(0, 1))(*a), *args)
    assert "conv_both" not in names(program)


def test_an_early_reader_keeps_a_pair_apart():
    x, w, g = array(4, C, SIZE, SIZE), array(C, C, 3, 3), array(4, C, SIZE, SIZE)
    program = ln.compile(used_early, x, w, g)
    assert "conv_both" not in names(program) and "conv_input_layer" in names(program)
    want = used_early(*(ln.tensor(a.astype(np.float64)) for a in (x, w, g))).numpy()
    assert np.abs(program(x, w, g) - want).max() <= 1e-4 * np.abs(want).max()


@pytest.mark.parametrize(
    "f",
    {
        "read twice": lambda x, w: F.conv2d(y := F.relu(norm(x)), w, padding=1) + y,
        "wanted": lambda x, w: (y := F.relu(norm(x)), F.conv2d(y, w, padding=1)),
        "no relu": lambda x, w: F.conv2d(norm(x), w, padding=1),
        "a residual": lambda x, w: F.conv2d(F.relu(norm(F.exp(x)) + x), w, padding=1),
        "stride": lambda x, w: F.conv2d(F.relu(norm(x)), w, stride=2),
        "a weight": lambda x, w: F.conv2d(x, F.relu(norm(w))),
    }.values(),
    ids=str,
)
def test_heads_left_alone(f):
    x, w = array(4, C, SIZE, SIZE), array(C, C, 3, 3)
    program = ln.compile(f, x, w, passes=EXACT)
    assert "conv_headed" not in names(program)
    mine, eager = program(x, w), f(ln.tensor(x), ln.tensor(w))
    many = isinstance(eager, tuple)
    for a, b in zip(mine if many else (mine,), eager if many else (eager,), strict=True):
        assert a.tobytes() == b.numpy().tobytes()


def test_exact_precision_has_neither_and_may_come_later():
    args = arguments()
    program = ln.compile(gradients, *args)
    try:
        set_precision("exact")
        assert not {"conv_both", "conv_headed"} & set(names(ln.compile(gradients, *args)))
        want = flat(ln.compile(gradients, *args, passes=EXACT)(*args))
        for mine, meant in zip(flat(program(*args)), want, strict=True):
            assert mine.tobytes() == meant.tobytes(), "a program that was compiled before computes by classical sums too"
    finally:
        set_precision("fast")


def test_operations_are_counted():
    x, w = array(4, C, SIZE, SIZE), array(C, C, 3, 3)
    f = lambda x, w: ln.grad(lambda x, w: F.exp(F.conv2d(x, w, padding=1)).sum(), argnums=(0, 1))(x, w)  # noqa: E731
    joined, apart = (ln.compile(f, x, w, passes=passes).graph for passes in (None, EXACT))
    assert "conv_both" in [node.prim.name for node in joined.nodes]
    assert sum(flops(node, joined.avals) for node in joined.nodes) == sum(flops(node, apart.avals) for node in apart.nodes)
