"""Batch norm with its neighbours in one pass: what the passes take in, what they leave alone, that every bit is the same."""

from __future__ import annotations

import numpy as np
import pytest

import lean_nn as ln
import lean_nn.functional as F
from lean_nn import spec
from lean_nn.graph.ir import as_avals
from lean_nn.graph.passes import EXACT, norms
from lean_nn.ops.elementwise import relu_gate
from lean_nn.ops.normalize import normalize_transpose
from lean_nn.primitive import Aval
from lean_nn_c import reduce

RNG = np.random.default_rng(0)
WITHOUT = tuple(name for name in EXACT if name not in ("norms", "recompute"))
SHAPES = [(3, 5, 7), (4, 3, 8, 8), (2, 9, 5, 13), (2, 16, 32, 17), (3, 4, 3, 5, 2), (5, 130, 2, 2)]


def array(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def factors(channels, dtype=np.float32):
    """Factors and terms, some of which leave nothing, nothing positive, or an exact zero at the gate."""
    w, b = array(channels, dtype=dtype), array(channels, dtype=dtype)
    w[0] = b[0] = 0
    w[1], b[1] = 0, -1
    return w, b


def names(program):
    return [node.prim.name for node in program.graph.nodes]


def bits(result):
    return [np.asarray(part).tobytes() for part in result]


def norm(x, w, b):
    return F.batch_norm(x, None, None, w, b, training=True)


FORMS = {
    "relu": lambda x, w, b, r: F.relu(norm(x, w, b)),
    "residual": lambda x, w, b, r: norm(x, w, b) + r,
    "residual first, relu": lambda x, w, b, r: F.relu(r + norm(x, w, b)),
    "two norms": lambda x, w, b, r: F.relu(norm(x, w, b) + norm(r, w, b)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_forward_bits(form, shape):
    for dtype in (np.float32, np.float64):
        x, r, (w, b) = array(*shape, dtype=dtype), array(*shape, dtype=dtype), factors(shape[1], dtype)
        program = ln.compile(FORMS[form], x, w, b, r, passes=EXACT)
        found = names(program)
        assert "normalize_layer" in found and not {"relu", "add", "fused"} & set(found)
        want = ln.compile(FORMS[form], x, w, b, r, passes=WITHOUT)
        assert "normalize_layer" not in names(want)
        assert program(x, w, b, r).tobytes() == want(x, w, b, r).tobytes() == FORMS[form](x, w, b, ln.tensor(r)).numpy().tobytes()


def block(x, r, w, b):
    """Two batch norms as in a residual block: the first relu's gate is its own, the second's opens a sum for two readers."""
    inner = F.relu(norm(x * 1.5, w, b))
    outer = F.relu(norm(F.exp(inner), w, b) + r)
    return F.relu(norm(outer * outer + outer, w, b) + outer)


def gradients(x, r, w, b):
    return ln.grad(lambda *a: F.exp(block(*a)).sum(), argnums=(0, 1, 2, 3))(x, r, w, b)


@pytest.mark.parametrize("shape", SHAPES)
def test_backward_bits(shape):
    """The separate nodes' bits, on any number of threads, in place or not."""
    for dtype in (np.float32, np.float64):
        args = array(*shape, dtype=dtype), array(*shape, dtype=dtype), *factors(shape[1], dtype)
        want = bits(ln.compile(gradients, *args, passes=WITHOUT)(*args))
        program = ln.compile(gradients, *args, passes=EXACT)
        reads = [(node.params["reads"], node.params["kept"]) for node in program.graph.nodes if "reads" in node.params]
        assert reads == [(("gate",), True), (("other", "gate"), True), (("b",), False)]
        assert "relu_gate" not in names(program)
        for n in (1, 2, 3):
            with ln.num_threads(n):
                assert bits(program(*args)) == want
        assert bits(ln.compile(gradients, *args, passes=EXACT, share=False)(*args)) == want
        assert all(np.frombuffer(part, dtype).any() for part in want)


def test_a_sum_of_a_cotangent_with_itself():
    """Both terms are one array, which nothing is written over."""
    x = array(3, 4, 6, 5)

    def f(x):
        t = F.exp(x)
        g, none = ln.tensor(np.ones((1, 4, 1, 1), np.float32)), ln.tensor(np.zeros((1, 4, 1, 1), np.float32))
        return normalize_transpose(relu_gate(t + t, x), none, none, x, g, none, g, axes=(0, 2, 3))[0]

    program = ln.compile(f, x, passes=EXACT)
    assert [node.params.get("reads") for node in program.graph.nodes][-1] == ("other", "gate")
    assert program(x).tobytes() == f(ln.tensor(x)).numpy().tobytes()


def test_cotangents_are_written_over_what_dies():
    """dx lies over the layer's own cotangent, which only it reads; the residual's was written over another value before.

    Pooling on the way, for a convolution would add the residual's cotangent itself.
    """
    x, k, (w, b) = array(2, 4, 8, 8), array(4, 4, 3, 3), factors(4)

    def loss(x, k):
        outer = F.relu(norm(F.conv2d(x, k, padding=1), w, b))
        inner = F.relu(norm(F.conv2d(F.avg_pool2d(outer, 3, 1, 1), k, padding=1), w, b))
        return F.exp(norm(F.conv2d(inner, k, padding=1), w, b) + outer).sum()

    program = ln.compile(lambda x, k: ln.grad(loss, argnums=(0, 1))(x, k), x, k)
    places, over = program.plan.places, []
    for node in program.plan.steps:
        if node.prim.name.startswith("normalize_transpose"):
            over.append([(i, o) for i, v in enumerate(node.inputs) for o, u in enumerate(node.outputs) if places[v] == places[u]])
    assert len(over) == 3 and over[1] == [(0, 0)] and over[2] == [(7, 0)]


@pytest.mark.parametrize(
    "shape, axes, factor",
    [((3, 4, 5, 7), (0, 2, 3), (1, 4, 1, 1)), ((70, 9), (0,), (1, 9)), ((5, 4, 6), (1, 2), (1, 4, 6))],
    ids=("rows", "columns", "a factor per feature"),
)
def test_a_cotangent_may_be_written_over_the_input(shape, axes, factor):
    """dx lies over x, where what it is made of besides is wanted still."""
    t, x, w = array(*shape), array(*shape), array(*factor)
    one = np.ones([1 if i in axes else n for i, n in enumerate(shape)], np.float32)

    def f(t, x, w):
        t, x, none = F.exp(t), F.exp(x), ln.tensor(np.zeros_like(one))
        dx, dw, db = normalize_transpose(t, none, none, x, w, none, ln.tensor(one), axes=axes)
        return t, F.tanh(dx), dw, db

    program = ln.compile(f, t, x, w, passes=())
    node = next(n for n in program.plan.steps if n.prim is normalize_transpose)
    assert program.plan.places[node.inputs[3]] == program.plan.places[node.outputs[0]]
    assert [a.tobytes() for a in program(t, x, w)] == [a.numpy().tobytes() for a in f(*map(ln.tensor, (t, x, w)))]


def test_an_argument_that_is_read_twice_is_not_overwritten():
    """x as its own cotangent: the sums read x after the gate has been applied to it."""
    x = array(2, 4, 6, 6)
    one = np.ones((1, 4, 1, 1), np.float32)

    def f(x):
        g, none = ln.tensor(one), ln.tensor(np.zeros_like(one))
        doubled = x * 2.0
        return normalize_transpose(
            relu_gate(doubled, F.exp(x)), none, none, doubled, g, none, g, axes=(0, 2, 3)
        )[0]

    program = ln.compile(f, x, passes=EXACT)
    assert "normalize_transpose_layer" in names(program)
    assert program(x).tobytes() == ln.compile(f, x, passes=WITHOUT)(x).tobytes() == f(ln.tensor(x)).numpy().tobytes()


@pytest.mark.parametrize(
    "f",
    {
        "columns": lambda x: F.relu(F.batch_norm(x.reshape((x.shape[0], -1)), None, None, training=True)),
        "features": lambda x: F.relu(F.layer_norm(x, x.shape[1:])),
        "read twice": lambda x: F.relu(y := norm(x, None, None)) * y,
        "a residual made later": lambda x: norm(x, None, None) + F.exp(x),
        "a residual that repeats": lambda x: norm(x, None, None) + F.exp(x[:, :1]),
    }.values(),
    ids=str,
)
def test_left_alone(f):
    """Also where the batch norm itself is written over its argument."""
    x = array(3, 4, 5, 6)
    program = ln.compile(lambda x: f(F.tanh(x)), x, passes=EXACT)
    assert "normalize_layer" not in names(program)
    assert program(x).tobytes() == f(F.tanh(ln.tensor(x))).numpy().tobytes()


# --- recompute ---


def deep(x, w, b):
    """Residual blocks: every second sum can be made again from the one before, and every relu inside."""
    x = F.relu(norm(x * 2.0, w, b))
    for _ in range(4):
        inner = F.relu(norm(x * x, w, b))
        x = F.relu(norm(inner * inner, w, b) + x)
    return (x * x).sum()


def test_recompute_keeps_bits_and_takes_less(monkeypatch):
    args = array(4, 5, 16, 12), *factors(5)

    def steps(*a):
        return ln.grad(deep, argnums=(0, 1, 2))(*a)

    kept = ln.compile(steps, *args, passes=[name for name in EXACT if name != "recompute"])
    near = ln.compile(steps, *args, passes=EXACT)
    assert "normalize_again" not in names(near), "what is near is not made again"
    monkeypatch.setattr(norms, "AWAY", args[0].nbytes * 4)
    program = ln.compile(steps, *args, passes=EXACT)
    again = [len(node.inputs) for node in program.graph.nodes if node.prim.name == "normalize_again"]
    assert again.count(5) >= 3 and again.count(6) >= 1
    assert program.memory.arena < 0.9 * kept.memory.arena
    assert bits(program(*args)) == bits(kept(*args)) == bits(near(*args))


def test_what_the_caller_wants_is_not_made_again(monkeypatch):
    monkeypatch.setattr(norms, "AWAY", 0)
    x, (w, b) = array(2, 4, 6, 6), factors(4)

    def f(x):
        y = F.relu(norm(x, w, b))
        z = F.exp(y)
        return y, F.exp(z) * y * x

    program = ln.compile(f, x, passes=EXACT)
    assert "normalize_layer" in names(program) and "normalize_again" not in names(program)
    assert bits(program(x)) == bits(part.numpy() for part in f(ln.tensor(x)))


# --- the primitives by themselves ---


def test_steps_agree_with_the_specification():
    """Each from the specifications of what it takes the place of, on arguments that no network would bring."""
    shape, group, axes = (3, 4, 5, 7), (1, 4, 1, 1), (0, 2, 3)
    x, t, gate, other = (array(*shape, dtype=np.float64) for _ in range(4))
    w, b, m, r, g = (array(*group, dtype=np.float64) for _ in range(5))
    own = (x - m) * (w * r) + b
    y, mean, rstd = spec.normalize(x, w, b, axes=axes, eps=1e-5)

    def transposed(t):
        return spec.normalize_transpose(t, g, g, x, w, m, r, axes=axes)

    calls = [
        (norms.layer, (x, w, b, other), {"eps": 1e-5, "active": True}, (np.maximum(y + other, 0), mean, rstd)),
        (norms.again, (x, w, b, m, r), {}, (np.maximum(own, 0),)),
        (norms.again, (x, w, b, m, r, other), {}, (np.maximum(own + other, 0),)),
        (norms.transpose, (t, g, g, x, w, m, r, b), {"reads": ("b",), "kept": False}, transposed(t * (own > 0))),
        (norms.transpose_kept, (t, g, g, x, w, m, r, other, gate), {"reads": ("other", "gate"), "kept": True},
         (*transposed(kept := (t + other) * (gate > 0)), kept)),
    ]  # fmt: skip
    for prim, arrays, params, want in calls:
        avals = [Aval(a.shape, a.dtype) for a in arrays]
        out = as_avals(prim.abstract(*avals, axes=axes, **params))
        got = [np.full(aval.shape, np.nan) for aval in out]
        prim.step(*avals, out=out, axes=axes, **params)(*arrays, *got)
        for mine, meant in zip(got, want, strict=True):
            np.testing.assert_allclose(mine, np.asarray(meant, float), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("roles", "sizes"),
    [
        (("x", "w", "b", "y", "first", "second"), (4, 3, 1)),  # columns
        (("t", "x", "w", "mean", "rstd", "y"), (4, 3, 5)),  # nothing says where the gate opens
        (("t", "x", "w", "mean", "rstd", "b", "other", "y"), (4, 3, 5)),  # a sum by its own gate
        (("t", "x", "rstd", "gate", "y"), (4, 3, 5)),
        (("x", "v", "y", "first", "second", "y_dot", "first_dot", "second_dot"), (4, 3, 5)),
    ],
)
def test_kernel_refuses(roles, sizes):
    with pytest.raises(ValueError, match="more than the map where groups are rows"):
        reduce.standard_step("norm", False, roles, 1, *sizes, relu=True)
