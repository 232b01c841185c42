"""Gradients behind max pooling, summed winner by winner: what the pass changes, what it leaves alone, that results agree."""

from __future__ import annotations

import numpy as np
import pytest

import lean_nn as ln
import lean_nn.functional as F
from lean_nn.backend.cpu_conv import algorithm, winners_step
from lean_nn.graph.passes import PASSES
from lean_nn.ops.pool import max_pool
from lean_nn.primitive import Aval, get
from lean_nn.window import Window

RNG = np.random.default_rng(0)
WITHOUT = tuple(name for name in PASSES if name != "winners")
CONV = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}
POOL = {3: F.max_pool1d, 4: F.max_pool2d, 5: F.max_pool3d}


def names(program):
    return [node.prim.name for node in program.graph.nodes]


def whole(*shape):
    """Whole numbers, of which every sum here is exact in float32, whatever its order."""
    return RNG.integers(-4, 5, shape).astype(np.float32)


def loss_of(pool, geometry):
    """(x, w, b) ↦ the sum of a pooled convolution's squares."""

    def loss(x, w, b):
        return (POOL[x.ndim](F.relu(CONV[x.ndim](x, w, b, **geometry)), *pool) ** 2).sum()

    return loss


def step_of(x, pool, geometry):
    """(w, b) ↦ (w_bar, b_bar) of that, for one x."""
    loss = loss_of(pool, geometry)
    return ln.grad(lambda w, b: loss(ln.tensor(x), w, b), argnums=(0, 1))


# image, weight, geometry, pooling: with few channels,
LAYERS = {
    "LeNet's first": ((3, 1, 12, 12), (8, 1, 5, 5), {"padding": 2}, (2,)),
    "1-D, kernel rows of several vectors": ((2, 2, 50), (6, 2, 19), {"padding": 9}, (4,)),
    "3-D": ((2, 1, 6, 8, 6), (5, 1, 3, 3, 3), {"padding": 1}, (2,)),
    "strided, windows that overlap": ((2, 3, 21, 23), (4, 3, 7, 7), {"stride": 2, "padding": 3}, (3, 2, 1)),
    "groups": ((8, 4, 12, 10), (12, 2, 3, 5), {"padding": (1, 2), "groups": 2}, (3,)),
    "dilated rows, cells left over": ((4, 2, 32, 35), (40, 2, 3, 7), {"dilation": (2, 1), "stride": (3, 2)}, (3,)),
    "cells that no window reads": ((4, 1, 60, 90), (32, 1, 5, 8), {"stride": (6, 3), "padding": (1, 4)}, (3,)),
}
# and with many, where the image's gradient gains as well
WIDE = {
    "seven by seven": ((3, 32, 14, 14), (64, 32, 7, 7), {"padding": 3}, (2,)),
    "1-D, a kernel row of several parts": ((2, 6, 300), (40, 6, 120), {"padding": 60}, (4,)),
    "3-D": ((8, 8, 8, 8, 8), (64, 8, 3, 3, 3), {"padding": 1}, (2,)),
    "strided, windows that overlap": ((8, 13, 29, 31), (96, 13, 5, 7), {"stride": 2, "padding": 3}, (3, 2, 1)),
    "groups, more outputs than at a time": ((1, 20, 20, 19), (264, 10, 5, 5), {"padding": (2, 1), "groups": 2}, (3,)),
    "dilated rows, cells that no window reads": ((8, 16, 44, 40), (96, 16, 3, 7), {"dilation": (2, 1), "stride": (5, 3)}, (3,)),
    "many bands": ((2, 24, 60, 64), (96, 24, 5, 5), {"padding": 2}, (3,)),
}


@pytest.fixture
def exact():
    """Classical convolutions, whose sums of whole numbers are exact; Winograd's round on the way."""
    ln.set_precision("exact")
    yield
    ln.set_precision("fast")


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.usefixtures("exact")
def test_sums_over_winners_are_those_over_the_spread_array(name):
    """Exact sums, hence equal ones; on any number of threads; the scratch is as said."""
    image, weight, geometry, pool = LAYERS[name]
    x, w, b = whole(*image), whole(*weight), whole(weight[0])
    f = step_of(x, pool, geometry)
    program = ln.compile(f, w, b)
    assert "conv_weight_at" in names(program) and not {"conv_weight", "scatter_add_at"} & set(names(program))
    want = [t.numpy().tobytes() for t in f(ln.tensor(w), ln.tensor(b))]
    for n in (1, 2, 3):
        with ln.num_threads(n):
            assert [a.tobytes() for a in program(w, b)] == want
    assert any(np.frombuffer(part, np.float32).any() for part in want)
    assert "conv_weight" in names(ln.compile(f, w, b, passes=WITHOUT))


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.usefixtures("exact")
def test_with_many_channels_the_image_too(name):
    image, weight, geometry, pool = WIDE[name]
    arrays = whole(*image), whole(*weight) // 2, whole(weight[0])
    f = ln.grad(loss_of(pool, geometry), argnums=(0, 1, 2))
    program = ln.compile(f, *arrays)
    assert {"conv_weight_at", "conv_input_at"} <= set(names(program)) and "scatter_add_at" not in names(program)
    want = [t.numpy() for t in f(*map(ln.tensor, arrays))]
    assert all(abs(a).max() < 2**24 and a.any() for a in want)  # of whole numbers below that, float32 keeps every sum
    for n in (1, 2, 3):
        with ln.num_threads(n):
            for mine, plain in zip(program(*arrays), want, strict=True):
                np.testing.assert_array_equal(mine, plain)


@pytest.mark.parametrize(("name", "few"), [*((name, True) for name in LAYERS), *((name, False) for name in WIDE)])
def test_winner_by_winner_within_the_bound(name, few):
    """|w^ − w| ≤ γ_n·Σ|x||g|, n = samples · windows, and |x^ − x| ≤ γ_n·Σ|w||g|, n = winners of a group · taps; the kernels
    alone, winners anywhere. What is exact enough: the same in doubles."""
    image, weight, geometry, pool = LAYERS[name] if few else WIDE[name]
    out = ln.compile(lambda x, w: CONV[len(image)](x, w, **geometry), image, weight)
    cells = out.graph.avals[out.graph.outputs[0]].shape[2:]
    params = next(node.params for node in out.source.graph.nodes if node.prim.name == "conv")
    x, w = (RNG.standard_normal(shape).astype(np.float32) for shape in (image, weight))
    windows = (image[0], weight[0], int(np.prod(cells)) // pool[0] ** len(cells))
    g, idx = RNG.standard_normal(windows).astype(np.float32), RNG.integers(0, np.prod(cells), windows)

    def spread(g):
        return get("scatter_add_at")(ln.tensor(g.astype(np.float64)), ln.tensor(idx), spatial=cells)

    def weight_exact(x, g):
        return get("conv_weight")(ln.tensor(x.astype(np.float64)), spread(g), kernel=weight[2:], **params).numpy()

    def image_exact(w, g):
        return get("conv_input")(spread(g), ln.tensor(w.astype(np.float64)), spatial=image[2:], **params).numpy()

    both = (
        ("conv_weight", (x, g, idx), weight, x, weight_exact, windows[0] * windows[2]),
        ("conv_input", (g, idx, w), image, w, image_exact, windows[1] * windows[2]),
    )
    for kind, arrays, shape, factor, exact, n in both[: 1 if few else 2]:
        step = winners_step(kind, Aval(image, x.dtype), Aval(weight, w.dtype), Aval(windows, g.dtype), cells, **params)
        assert step is not None
        got = np.full(shape, np.nan, np.float32)
        said, (taken, strays) = step.scratch(ln.get_num_threads()), step.measure(*arrays, got)
        assert taken == said and strays == 0
        assert (abs(got - exact(factor, g)) <= 1.01 * n * 2.0**-24 * exact(abs(factor), abs(g))).all()


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("where", ["x", "-x", "g", "huge"])
def test_what_is_not_finite_meets_the_zeros_too(where):
    """As if the gradient had been spread: an infinite cell of x makes NaN of every weight that meets a zero there."""
    x, w, b = whole(4, 1, 12, 12), whole(12, 1, 5, 5), whole(12)
    c = np.ones((4, 12, 6, 6), np.float32)
    if where == "g":
        c[0, 1, 2, 2] = np.inf
    elif where == "huge":
        x, c = abs(x), c * 3e38  # no inf − inf, in whatever order
    else:
        x[1, 0, 0, 0] = np.inf if where == "x" else -np.inf

    def f(w, b):
        return ln.grad(lambda w, b: (F.max_pool2d(F.conv2d(x, w, b, padding=2), 2) * c).sum(), argnums=(0, 1))(w, b)

    program = ln.compile(f, w, b)
    assert "conv_weight_at" in names(program)
    got, want = program(w, b), ln.compile(f, w, b, passes=())(w, b)
    for mine, plain in zip(got, want, strict=True):
        np.testing.assert_array_equal(mine, plain)
    assert not np.isfinite(got[0]).all()


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("where", ["w", "g"])
def test_what_is_not_finite_meets_the_zeros_of_the_image_too(where):
    x, w, b = whole(2, 32, 12, 12), whole(64, 32, 5, 5) // 2, whole(64)
    c = np.ones((2, 64, 6, 6), np.float32)
    if where == "w":
        w[3, 4, 1, 2] = -np.inf
    else:
        c[0, 1, 2, 2] = np.inf

    def f(x, w, b):
        return ln.grad(lambda x: (F.max_pool2d(F.conv2d(x, w, b, padding=2), 2) * c).sum())(x)

    program = ln.compile(f, x, w, b)
    assert "conv_input_at" in names(program)
    got = program(x, w, b)
    np.testing.assert_array_equal(got, ln.compile(f, x, w, b, passes=())(x, w, b))
    assert not np.isfinite(got).all()


def test_a_bias_behind_pooling_is_summed_over_the_pooled_values_though_others_need_the_spread_array():
    """Dilated rows: the weight's gradient and the image's read the spread array, the bias's does not."""
    w, b, x = whole(12, 8, 3, 3), whole(12), whole(2, 8, 8, 8)

    def f(x, w, b):
        y = F.conv2d(x, w, b, padding=2, dilation=2)
        return F.max_pool2d(y, 2).sum()

    f = ln.grad(f, argnums=(0, 1, 2))
    program = ln.compile(f, x, w, b)
    (summed,) = (node for node in program.graph.nodes if node.prim.name == "sum")
    assert program.graph.avals[summed.inputs[0]].shape == (2, 12, 4, 4)
    assert {"scatter_add_at", "conv_weight", "conv_input"} <= set(names(program))
    np.testing.assert_array_equal(program(x, w, b)[2], f(*map(ln.tensor, (x, w, b)))[2].numpy())


@pytest.mark.usefixtures("exact")
def test_what_winners_must_leave_alone():
    """Windows of padding alone, whose cotangent goes nowhere; winners of something else; sums over fewer axes; dilated rows;
    doubles; an algorithm that was asked for."""
    x, w, b = whole(1, 1, 8, 8), whole(5, 1, 3, 3), whole(5)
    passes = ("dead", "winners")
    empty = step_of(x, (1, 3, 1), {"padding": 1})  # a kernel of one cell with padding 1
    dilated = step_of(x, (2,), {"padding": 2, "dilation": 2})
    for f in (empty, dilated):
        program = ln.compile(f, w, b, passes=passes)
        assert "conv_weight_at" not in names(program) and "scatter_add_at" in names(program)
        for mine, want in zip(program(w, b), f(ln.tensor(w), ln.tensor(b)), strict=True):
            np.testing.assert_array_equal(mine, want.numpy())
    assert "sum" in names(ln.compile(empty, w, b, passes=passes))

    wide = [a.astype(np.float64) for a in (x, w, b)]
    assert "conv_weight_at" not in names(ln.compile(step_of(wide[0], (2,), {"padding": 1}), *wide[1:]))
    with algorithm("taps"):
        assert "conv_weight_at" not in names(ln.compile(step_of(x, (2,), {"padding": 1}), w, b))

    scatter, total = get("scatter_add_at"), get("sum")
    window = Window((2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1))

    def given(x, idx):
        return total(scatter(x, idx, spatial=(8, 8)), axes=(0, 2, 3), keepdims=False)

    def elsewhere(x, z):
        return total(scatter(z, max_pool(x, window=window)[1], spatial=(9, 9)), axes=(0, 2, 3), keepdims=False)

    def rows(x):
        p, idx = max_pool(x, window=window)
        return total(scatter(p, idx, spatial=(8, 8)), axes=(0, 2), keepdims=False)

    small, places = whole(1, 1, 4, 4), RNG.integers(-1, 64, (1, 1, 4, 4))
    for f, arrays in ((given, (small, places)), (elsewhere, (x, small)), (rows, (x,))):
        program = ln.compile(f, *arrays, passes=passes)
        assert "scatter_add_at" in names(program)
        np.testing.assert_array_equal(program(*arrays), f(*map(ln.tensor, arrays)).numpy())
