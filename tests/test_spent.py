"""A backward pass writes over cotangents that nobody else can look at, and over no others."""

from __future__ import annotations

import numpy as np
import pytest

import lean_nn as ln
from lean_nn import functional as F
from lean_nn.primitive import NONDIFF, Gate, primitive, registry

N = 1 << 15  # float32 numbers of an array that is large enough to be looked at
TILE = 64  # and of one that is not, N/TILE of which side by side are the large one

GRAPHS = {
    "a gate": lambda x: F.relu(x * 2.0),
    "gates in a row": lambda x: F.tanh(F.sigmoid(F.leaky_relu(F.abs(x) * 3.0, 0.1))),
    "gates by x": lambda x: F.silu(F.gelu(F.hardswish(x * x)) + x),
    "numbers of their own": lambda x: F.clamp(F.elu(x * 2.0, 0.5), -0.25, 0.75),
    "one value, two uses": lambda x: (lambda h: F.relu(h) + h * F.tanh(h))(x * 0.5),
    "a residual": lambda x: (lambda h: F.relu(h + F.relu(h * 2.0)))(F.relu(x)),
    "the same cotangent twice": lambda x: (lambda h: F.relu(h) + F.relu(h))(x + x),
    "views": lambda x: F.relu(F.relu(x.reshape(-1, 8) * 2.0).reshape(-1)),
    "turned": lambda x: F.relu(F.relu(x.reshape(-1, 8) * 2.0).transpose(0, 1)).transpose(0, 1).reshape(-1),
    "powers": lambda x: F.sqrt(x**2 + 1.0) * x,
}


def gradient(f, x, w):
    leaf = ln.tensor(x, requires_grad=True)
    (f(leaf) * ln.tensor(w)).sum().backward()
    return leaf.grad.numpy()


@pytest.mark.parametrize("name", GRAPHS)
def test_bits_are_those_of_small_arrays(name):
    """Of which no cotangent is written over; elementwise, each tile of a large one has the same bits."""
    x, w = np.random.default_rng(0).standard_normal((2, TILE)).astype("float32")
    small = gradient(GRAPHS[name], x, w)
    large = gradient(GRAPHS[name], np.tile(x, N // TILE), np.tile(w, N // TILE))
    assert large.tobytes() == np.tile(small, N // TILE).tobytes()


@pytest.fixture
def own():
    """A function of one's own, its gate, and what that was given to write into: True where it is the cotangent."""
    given = []

    def step(t, x, *, out):
        def kernel(t, x, y):
            given.append(y is t)
            np.multiply(t, 2, out=y)

        return kernel

    def cpu(x, *, out):
        np.multiply(x, 2, out=out)

    gate = primitive("own_gate", abstract=lambda t, x: t, step=step, linear=(0,), vjp=(lambda g, y, t, x: gate(g, x), NONDIFF))
    twice = primitive("own_twice", abstract=lambda x: x, cpu=cpu, linear=(0,), vjp=(Gate(gate),))
    yield twice, given
    del registry["own_gate"], registry["own_twice"]


def test_who_else_may_look_decides(own):
    twice, given = own
    x = ln.tensor(np.ones(N, "float32"), requires_grad=True)

    def runs(y):
        given.clear()
        y.backward()
        return given

    assert runs((twice(x) * 3.0).sum()) == [True]
    assert runs((twice(twice(x)) * 3.0).sum()) == [True, True]
    assert runs((twice(x[:100]) * 3.0).sum()) == [False]  # not worth while
    h = twice(x)
    assert runs(((h + twice(h)) * 3.0).sum()) == [False, True]  # their sum's cotangent is both's; what is added is one's
    assert runs((twice(x).reshape(8, -1) * 3.0).sum()) == [True]
    with ln.Tape() as tape:
        y = twice(x)
        z = y * 3.0
    given.clear()
    bars = tape.pull({z: ln.tensor(np.ones(N, "float32"))}, (x, y))
    assert (bars[y].numpy() == 3).all() and (bars[x].numpy() == 6).all() and given == [False]
    given.clear()
    twice_over = ln.grad(lambda t: ln.grad(lambda t: (twice(t) * t).sum())(t).sum())(ln.tensor(np.ones(N, "float32")))
    assert (twice_over.numpy() == 4).all()
    assert given[0] is False  # the inner sweep's, which the outer one sees


def test_what_the_caller_gave_is_not_written_over():
    x = ln.tensor(np.full(N, -1.0, "float32"), requires_grad=True)
    for seed in (np.ones(N, "float32"), ln.tensor(np.ones(N, "float32"))):
        F.relu(x).backward(seed)
        assert (np.asarray(seed) == 1).all()
    block = np.ones((2, N), "float32")
    F.relu(x).backward(ln.tensor(block[0]))
    assert (block == 1).all() and (x.grad.numpy() == 0).all()


def test_what_a_tape_shows_is_not_written_over():
    """Cotangents that were asked for, of every value on the way, and a second pull over the same nodes."""
    with ln.Tape() as tape:
        x = ln.tensor(np.random.default_rng(0).standard_normal(N).astype("float32"))
        a = x * 2.0
        b = F.relu(a)
        c = F.tanh(b)
    ones = ln.tensor(np.ones(N, "float32"))
    first = [t.numpy().copy() for t in tape.pull({c: ones}, (x, a, b))[x, a, b]]
    again = [t.numpy() for t in tape.pull({c: ones}, (x, a, b))[x, a, b]]
    assert [t.tobytes() for t in first] == [t.tobytes() for t in again]
    np.testing.assert_array_equal(again[1], np.where(a.numpy() > 0, again[2], 0))
    assert (again[2][a.numpy() <= 0] == 1).all()  # relu shuts there, its output's cotangent does not


def test_levels_outside_see_the_rule():
    """Derivatives of gradients, reverse and forward: the gate is recorded, so nothing is written over."""
    x, v = np.random.default_rng(0).standard_normal((2, N)).astype("float64")

    def loss(t):
        return (F.tanh(F.relu(t * 1.5)) ** 2).sum()

    found = ln.hvp(loss, (ln.tensor(x),), (ln.tensor(v),)).numpy()
    u = np.tanh(1.5 * x)
    wanted = np.where(x > 0, 2 * 1.5**2 * (1 - u * u) * (1 - 3 * u * u) * v, 0)
    np.testing.assert_allclose(found, wanted, atol=1e-13)
    twice = ln.grad(lambda t: (ln.grad(loss)(t) * ln.tensor(v)).sum())(ln.tensor(x)).numpy()
    np.testing.assert_allclose(twice, wanted, atol=1e-13)


def test_retained_graphs_give_the_same_twice():
    x = ln.tensor(np.random.default_rng(0).standard_normal(N).astype("float32"), requires_grad=True)
    loss = (F.relu(F.relu(x * 2.0) + x) * 3.0).sum()
    loss.backward(retain_graph=True)
    first = x.grad.numpy().copy()
    x.grad = None
    loss.backward()
    assert x.grad.numpy().tobytes() == first.tobytes()
