"""Duals: value and tangents by one kernel have the bits of the value and of the rule, and step aside where somebody looks on."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lean_nn as ln
from lean_nn import functional as F
from lean_nn.autodiff import dual
from lean_nn.autodiff.dual import in_chains
from lean_nn.backend.cpu_chain import INPUTS, OUT, TANGENT, Written, dual_places
from lean_nn.cases import Case, all_cases
from lean_nn.ops import load_all
from lean_nn.primitive import FLOATS, NONDIFF, Joint, Primitive, primitive, registry
from lean_nn.testing.primitives import Run
from lean_nn.window import strided
from lean_nn_c import elementwise as kernels
from lean_nn_c.reduce import SUM_LINE

load_all()


def has_dual(prim: Primitive) -> bool:
    return bool(prim.dual or in_chains(prim) or prim.linear) and prim.view is None


CASES = [case for case in all_cases() if has_dual(registry[case.primitive]) and "large" not in case.tags]


def moving_sets(run: Run):
    """Every choice of arguments that move."""
    for chosen in product((False, True), repeat=len(run.moving)):
        if any(chosen):
            yield [i for i, moves in zip(run.moving, chosen, strict=True) if moves]


def pushed(run: Run, moving: list[int], tangents: dict[int, np.ndarray]):
    def f(*boxes):
        full = [ln.tensor(a) for a in run.arrays]
        for i, box in zip(moving, boxes, strict=True):
            full[i] = box
        y = run.prim(*full, **run.params)
        return y if isinstance(y, tuple) else (y,)

    return ln.jvp(f, [ln.tensor(run.arrays[i]) for i in moving], [ln.tensor(tangents[i]) for i in moving])


def bits(tensors):
    return [(t.shape, str(t.dtype), np.nan_to_num(np.asarray(t), nan=7e7).tobytes()) for t in tensors]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_dual_has_the_bits_of_value_and_rule(case: Case, dtype):
    run = Run(registry[case.primitive], case, dtype, 3)
    if not run.smooth:
        return
    tangents = {i: run.rng.standard_normal(run.arrays[i].shape).astype(run.arrays[i].dtype) for i in run.moving}
    for moving in moving_sets(run):
        run.prim.duals.clear()
        together = pushed(run, moving, tangents)
        with ln.Tape():  # it sees the rule, so the rule runs
            apart = pushed(run, moving, tangents)
        assert bits(together[0]) == bits(apart[0])
        if case.primitive != "pair_loss" or run.params["reduction"] == "none":  # its sums have orders of their own
            assert bits(together[1]) == bits(apart[1]), moving
        assert bits(together[0]) == bits([ln.tensor(y) for y in run.value()])
        for threads in (1, 2):
            with ln.num_threads(threads):
                again = pushed(run, moving, tangents)
            assert bits(again[0] + again[1]) == bits(together[0] + together[1])


FAR = {
    "relu": lambda x: F.relu(x), "cube": lambda x: x**3, "times channels": lambda x: x * (x.detach()[0, :, :1, :1] + 2.0),
    "a condition": lambda x: F.where(x.detach() > 0.0, x, -1.0), "silu": F.silu, "gelu": F.gelu,
    "gelu, tanh": lambda x: F.gelu(x, "tanh"), "squares": lambda x: F.mse_loss(x, x.detach() * 0.5, "none"),
    "at least a number": lambda x: F.maximum(x, 0.5), "at most a number": lambda x: F.minimum(x, 0.5),
    "clamp": lambda x: F.clamp(x, -1.0, 1.0), "product": lambda x: x * x.detach(),
    "exp": F.exp, "softsign": lambda x: x / (1.0 + F.abs(x)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", FAR)
def test_of_arrays_that_no_cache_holds_as_well(name, dtype):
    """More than 24 MB: light functions fetch ahead of use, heavy ones go by short segments; the last one is shorter."""
    rng = np.random.default_rng(0)
    x, v = (ln.tensor(rng.standard_normal((9, 7, 211, 151)).astype(dtype)) for _ in range(2))
    with ln.num_threads(1):
        together = ln.jvp(FAR[name], (x,), (v,))
    with ln.Tape():
        apart = ln.jvp(FAR[name], (x,), (v,))
    assert bits(together) == bits(apart)
    with ln.num_threads(2):
        assert bits(ln.jvp(FAR[name], (x,), (v,))) == bits(together)


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "silu"])
def test_functions_that_share_an_exponential_are_one_loop(name):
    """Any number of cells, the last of which are no whole vector; infinities and NaN as the two loops have them."""
    for n in (0, 1, 7, 8, 9, 1023):
        x, v = (np.random.default_rng(s).standard_normal(n).astype("float32") * 9 for s in (n, n + 1))
        x[:5] = (np.inf, -np.inf, np.nan, -0.0, 1e30)[:n]
        y, dot = np.empty_like(x), np.empty_like(x)
        step = kernels.both_step(name, n, (True, True), False)
        assert step is not None
        step(x, v, y, dot)
        with ln.no_grad():
            apart = registry[name](ln.tensor(x)), registry[f"{name}_gate"](ln.tensor(v), ln.tensor(x))
        assert bits((ln.tensor(y), ln.tensor(dot))) == bits(apart)
    assert kernels.both_step("relu", 8, (True, True), False) is None
    assert kernels.both_step(name, 8, (True,), False) is None


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_extremes_and_their_tangents_are_one_loop(name, dtype):
    """Ties, which share, infinities, NaN and zeros of both signs as value and rule have them; also of large arrays."""
    special = np.array([np.inf, -np.inf, np.nan, -0.0, 0.0, 1.0], dtype)
    for n in (36, 37, 1000, 2_000_000):
        a, b, s, t = (np.random.default_rng([n, k]).standard_normal(n).astype(dtype) for k in range(4))
        a[:36], b[:36] = np.repeat(special, 6), np.tile(special, 6)
        y, dot = np.empty_like(a), np.empty_like(a)
        step = kernels.both_step(name, n, (True,) * 4, dtype == "float64")
        assert step is not None
        step(a, b, s, t, y, dot)
        one, two = (a, b) if name == "maximum" else (b, a)
        with ln.no_grad():
            gate = registry["larger_gate"]
            apart = registry[name](ln.tensor(a), ln.tensor(b)), gate(ln.tensor(s), one, two) + gate(ln.tensor(t), two, one)
        assert bits((ln.tensor(y), ln.tensor(dot))) == bits(apart)
        with ln.num_threads(2):
            assert bits(ln.jvp(getattr(F, name), (ln.tensor(a), ln.tensor(b)), (ln.tensor(s), ln.tensor(t)))) == bits(apart)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("exponent", [0.5, -0.5, 3.0, 2.0, 0.0, -1.0, 1.7])
def test_powers_take_a_root_once_and_have_the_rules_bits(exponent, dtype):
    """Any number of cells; at 0, infinities and NaN as value and rule have them."""
    e = ln.tensor(np.array(exponent, dtype))
    for n in (0, 1, 9, 191, 192, 193, 1000):
        x, v = (np.random.default_rng(s).standard_normal(n).astype(dtype) for s in (n, n + 1))
        x[:6] = (np.inf, -np.inf, np.nan, -0.0, 0.0, -2.0)[:n]
        y, dot = np.empty_like(x), np.empty_like(x)
        step = kernels.both_step("pow", n, (True, False, True), dtype == "float64")
        assert step is not None
        step(x, np.asarray(e), v, y, dot)
        with ln.no_grad():
            apart = registry["pow"](ln.tensor(x), e), registry["pow_gate"](ln.tensor(v), ln.tensor(x), e)
        assert bits((ln.tensor(y), ln.tensor(dot))) == bits(apart)


def test_a_power_of_one_number_is_no_array_to_a_number():
    """Two single numbers go pow's way for arrays, as they do without a tangent."""
    for x in np.random.default_rng(0).uniform(0.1, 9, (200, 1)).astype("float32"):
        for shape in ((), (1,)):
            a, b = ln.tensor(x.reshape(shape)), ln.tensor(np.full(shape, 0.5, "float32"))
            assert bits([ln.jvp(lambda a, b=b: F.pow(a, b), (a,), (a,))[0]]) == bits([F.pow(a, b)])


def used(prim: Primitive) -> list[bool]:
    return [known is not None for known in prim.duals.values()]


X = np.random.default_rng(0).standard_normal((2, 3, 8, 9)).astype("float32")
FUNCTIONS = {
    "relu": (F.relu, ["relu"]), "silu": (F.silu, ["silu"]), "tanh": (F.tanh, ["tanh"]), "hardswish": (F.hardswish, ["hardswish"]),
    "softplus": (F.softplus, ["softplus"]), "max_pool2d": (lambda x: F.max_pool2d(x, 2), ["max_pool_value"]),
    "x·x + 3x": (lambda x: x * x + 3.0 * x, ["mul", "add"]), "x/|x|": (lambda x: x / x.abs(), ["div", "abs"]),
    "maximum": (lambda x: F.maximum(x, x * 0.5), ["maximum", "mul"]), "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), ["avg_pool"]),
    "max": (lambda x: F.max(x, 1).values, ["max"]), "min of rows": (lambda x: F.min(x, 3).values, ["min"]),
    "max of all": (lambda x: F.max(x * x), ["max"]),
    "winners": (lambda x: F.max_pool2d(x, 2, return_indices=True)[0], ["max_pool"]),
    "minimum": (lambda x: F.minimum(x, 0.5), ["minimum"]), "−x": (lambda x: -x, ["neg"]),
    "cube": (lambda x: x**3, ["pow"]), "1/(1 + x²)": (lambda x: 1.0 / (1.0 + x * x), ["div"]),
    "square": (lambda x: x**2, ["square"]), "concat": (lambda x: F.concat((x, x * x), 1), ["concat"]),
    "gelu, tanh": (lambda x: F.gelu(x, "tanh"), ["gelu_tanh"]), "logsumexp": (lambda x: F.logsumexp(x, 1), ["logsumexp"]),
    "logsumexp of rows": (lambda x: F.logsumexp(x, 3), ["logsumexp"]),
    "log_softmax": (lambda x: F.log_softmax(x, 3), ["log_softmax"]),
    "over columns": (lambda x: F.log_softmax(x, 1), ["log_softmax"]),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), ["normalize"]),
    "layer_norm": (lambda x: F.layer_norm(x, x.shape[3]), ["standardize"]),
    "matmul": (lambda x: F.matmul(x, x.transpose(0, 1, 3, 2)), ["matmul"]),
    "conv2d": (lambda x: F.conv2d(x, x[:1, :, :3, :3], x[0, 0, 0, :1], padding=1), ["conv"]),
    "conv_transpose2d": (lambda x: F.conv_transpose2d(x[:, :1], x[:1, :, :3, :3], x[0, :, 0, 0], 2, 1), ["conv_input"]),
    "cross_entropy": (lambda x: F.cross_entropy(x.reshape(-1, 4), np.arange(x.size // 4) % 3), ["cross_entropy"]),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_lone_jvp_takes_the_dual(name):
    f, prims = FUNCTIONS[name]
    for prim in prims:
        registry[prim].duals.clear()
    ln.jvp(f, (X,), (X[::-1].copy(),))
    for prim in prims:
        assert used(registry[prim]) == [True] * len(used(registry[prim])) != [], prim


@pytest.mark.parametrize("name", FUNCTIONS)
def test_who_looks_on_sees_the_rule(name):
    """Derivatives of tangents, by every kind of level outside, are those of the functions themselves."""
    f, _ = FUNCTIONS[name]
    x = X[:1, :2, :4, :5].astype("float64") + 0.01
    u, v = (np.random.default_rng(s).standard_normal(x.shape) for s in (1, 2))

    def push(x):
        return ln.jvp(f, (x,), (ln.tensor(v),))[1]

    eps = 1e-6
    wanted = (push(ln.tensor(x + eps * u)).numpy() - push(ln.tensor(x - eps * u)).numpy()) / (2 * eps)
    forward = ln.jvp(push, (x,), (u,))[1].numpy()
    np.testing.assert_allclose(forward, wanted, atol=1e-6)
    w = np.random.default_rng(5).standard_normal(wanted.shape)
    back = ln.vjp(push, ln.tensor(x))[1](ln.tensor(w))[0].numpy()
    np.testing.assert_allclose((back * u).sum(), (wanted * w).sum(), atol=1e-5)
    leaf = ln.tensor(x, requires_grad=True)
    end = (push(leaf) * ln.tensor(w)).sum()
    if end.requires_grad:  # a function made of straight pieces has nothing to record
        end.backward()
    np.testing.assert_allclose(0 if leaf.grad is None else leaf.grad.numpy(), back, atol=1e-12)
    with ln.Tape() as tape:
        start = ln.tensor(x)
        end = push(start)
    np.testing.assert_allclose(tape.push({start: ln.tensor(u)})[end].numpy(), forward, atol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_forward_over_reverse_is_hvp(name):
    """A level inside records the value as ever; its tangents may come from a dual."""
    f, _ = FUNCTIONS[name]
    x, v = (ln.tensor(np.random.default_rng(s).standard_normal((1, 1, 4, 4)) + 0.01) for s in (1, 2))

    def total(x):
        return (f(x) * f(x)).sum()

    one = ln.jvp(ln.grad(total), (x,), (v,))[1].numpy()
    other = ln.grad(lambda x: ln.jvp(total, (x,), (v,))[1])(x).numpy()
    np.testing.assert_allclose(one, other, atol=1e-10)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "maximum", "minimum"])
def test_a_value_beside_itself_has_the_rules_bits(name):
    """One chain for both, which reads each array once; one array under two names may move in two ways."""
    f, x, u, v = getattr(F, name), np.abs(X) + 0.25, X[::-1].copy(), X[:, ::-1].copy()

    def push():
        return ln.jvp(lambda x: f(x, x), (x,), (u,)) + ln.jvp(f, (x, x), (u, v))

    registry[name].duals.clear()
    together = push()
    assert used(registry[name]) == [True, True]
    with ln.Tape():
        apart = push()
    assert bits(together) == bits(apart)


def test_a_value_times_itself_moves_by_one_product_twice(monkeypatch):
    chains = []
    monkeypatch.setattr(dual, "dual_chain", lambda name, avals, out, ops, tangent: chains.append(ops))
    registry["mul"].duals.clear()
    try:
        ln.jvp(lambda x: F.mul(x, x), (X,), (X,))
    finally:
        registry["mul"].duals.clear()
    assert [[op.name for op in ops] for ops in chains] == [["mul", "mul", "add"]]


def test_a_number_comes_after_the_array_it_multiplies(monkeypatch):
    """Both products of 3·x, as loops are made for that."""
    pairs = []
    monkeypatch.setattr(dual, "_apart", lambda recorder, tangent: pairs.append([op.operands for op in recorder.ops]))
    registry["mul"].duals.clear()
    try:
        ln.jvp(lambda x: 3.0 * x, (X,), (X,))
    finally:
        registry["mul"].duals.clear()
    assert pairs == [[(1, 0), (2, 0)]]


WINDOWS = [((2, 2),), ((1, 3),), ((3, 2),), ((2, 2), (1, 2)), ((2, 2), (3, 2), 1), ((2, 2), (2, 2), 0, 2)]


@pytest.mark.parametrize("geometry", WINDOWS, ids=str)
def test_winners_and_tangents_have_the_rules_bits(geometry):
    """Looked up, or in a second pass where windows are small and lie apart."""
    window = strided("max_pool2d", 2, *geometry)
    x = np.round(np.random.default_rng(1).standard_normal((2, 3, 9, 11)), 1).astype("float32")
    x[0, 1, 4, 5] = np.nan
    t = np.arange(x.size, dtype="float32").reshape(x.shape)
    places = []

    def values(x):
        y, idx = registry["max_pool"](x, window=window)
        places.append(idx)
        return y

    y, dot = ln.jvp(values, (x,), (t,))
    want, idx = registry["max_pool"](x, window=window)
    assert bits([y, *places, dot]) == bits([want, idx, registry["gather_at"](t, idx)])


def test_tangents_cells_hold_what_is_computed_on_the_way():
    """Truth values have cells of another size, which must not be written over while they are read."""
    squares = [Written("mul", (0, 0), ()), Written("mul", (0, 1), ()), Written("add", (-2, -2), ())]
    assert dual_places(squares) == {-1: OUT, -2: TANGENT, -3: TANGENT}
    chosen = [Written("relu", (0,), ()), Written("gt", (0, 1), ()), Written("exp", (0,), ()), Written("where", (-2, 1, -3), ())]
    assert dual_places(chosen) == {-1: OUT, -2: INPUTS, -3: TANGENT, -4: TANGENT}


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("lines", [1, 300, 8192, 8193, 20000, 81920, 81921])
def test_the_loss_of_many_lines_has_the_rules_bits(reduction, lines):
    rng = np.random.default_rng(lines)
    x, t = (rng.standard_normal((lines, 3)).astype("float32") for _ in range(2))
    idx = rng.integers(0, 3, lines)
    idx[::7] = -100

    def push():
        return ln.jvp(lambda x: F.cross_entropy(x, idx, reduction=reduction), (x,), (t,))

    registry["cross_entropy"].duals.clear()
    together = push()
    assert used(registry["cross_entropy"]) == [True]
    with ln.Tape():
        apart = push()
    assert bits(together) == bits(apart)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(700, 5), (90, 64), (7, 700), (3, 40, 6, 7), (2, 9000), (5, 1)])
def test_a_smoothed_loss_has_the_rules_bits(shape, dtype):
    """Lines set side by side, contiguous, of several chunks, as columns; too long for a sum of one part; of one class."""
    rng = np.random.default_rng(4)
    x, t = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    idx = rng.integers(0, shape[1], (shape[0], *shape[2:]))
    idx[::3] = -100

    def push(reduction):
        return ln.jvp(lambda x: F.cross_entropy(x, idx, label_smoothing=0.1, reduction=reduction), (x,), (t,))

    registry["cross_entropy"].duals.clear()
    together = [push(reduction) for reduction in ("none", "sum", "mean")]
    assert used(registry["cross_entropy"]) == [1 < shape[1] <= SUM_LINE] * 3
    with ln.Tape():
        apart = [push(reduction) for reduction in ("none", "sum", "mean")]
    assert [bits(pair) for pair in together] == [bits(pair) for pair in apart]


@pytest.mark.parametrize("moving", [1, 2])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.huber_loss, F.binary_cross_entropy_with_logits])
def test_a_losss_tangent_is_within_the_bound_of_a_sum(loss, reduction, moving):
    """31 + log₂(n/32) roundings (`reduce.roundings`) in either order, and a few of each term."""
    arrays = np.random.default_rng(1).standard_normal((4, 3, 70_001)).astype("float32")

    def push(dtype, how):
        x, t, x_dot, t_dot = arrays.astype(dtype)
        if moving == 1:
            return ln.jvp(lambda x: loss(x, t, reduction=how), (x,), (x_dot,))[1].numpy()
        return ln.jvp(lambda x, t: loss(x, t, reduction=how), (x, t), (x_dot, t_dot))[1].numpy()

    terms = push("float64", "none") / (arrays[0].size if reduction == "mean" else 1)
    tangent = push("float32", reduction)
    assert abs(tangent - terms.sum()) <= 64 * 2.0**-24 * np.abs(terms).sum()
    with ln.num_threads(1):
        assert push("float32", reduction) == tangent


def test_sums_over_arrays_that_no_cache_holds_are_exact_where_they_can_be():
    """2²¹ and some cells: nothing is fetched, and the lines are summed that always are."""
    x, t, x_dot, t_dot = (ln.tensor(a.astype("float32")) for a in np.random.default_rng(2).integers(0, 2, (4, (1 << 21) + 333)))
    with ln.num_threads(1):
        y, dot = ln.jvp(lambda x, t: F.mse_loss(x, t, "sum"), (x, t), (x_dot, t_dot))
    apart = np.asarray(x) - np.asarray(t)
    assert y.item() == np.sum(apart**2, dtype="float64")
    assert dot.item() == np.sum(2 * apart * (np.asarray(x_dot) - np.asarray(t_dot)), dtype="float64")


SHAPES = [((3, 5, 700), (2,)), ((3, 700, 5), (1,)), ((40, 3, 50), (0, 2)), ((2, 3, 4, 5, 6), (1, 3))]


@pytest.mark.parametrize("shape, axes", SHAPES)
def test_a_variances_tangent_does_not_depend_on_where_x_lies(shape, axes):
    """x far from 0, whose mean is rounded, and tangents that are not centred: the error would be hundreds of times the bound."""
    rng = np.random.default_rng(0)
    x, t = (1e4 + rng.standard_normal(shape)).astype("float32"), (3 + rng.standard_normal(shape)).astype("float32")
    y, dot = ln.jvp(lambda x: F.var(x, axes), (x,), (t,))
    wide, moved = x.astype("float64"), t.astype("float64")
    apart = wide - wide.mean(axes, keepdims=True)
    left = x.size / y.size - 1
    size = (np.abs(moved) * np.abs(apart)).sum(axes) + np.abs(moved).mean(axes) * np.abs(apart).sum(axes)
    assert (np.abs(dot.numpy() - 2 * (apart * moved).sum(axes) / left) <= 2 * 60 * 2.0**-24 * size / left).all()
    np.testing.assert_allclose(y.numpy(), wide.var(axes, ddof=1), rtol=1e-5)
    same = F.var(x, axes, keepdim=True).numpy()
    assert same.shape == apart.sum(axes, keepdims=True).shape and same.tobytes() == y.numpy().tobytes()


def test_tangents_of_two_traces_are_not_confused():
    x = ln.tensor(np.array([0.5, 2.0]))

    def inner(x):
        return ln.jvp(lambda z: z * x, (x,), (ln.tensor(np.ones(2)),))[1]  # d(z·x)/dz at z = x is x

    y, dot = ln.jvp(inner, (x,), (ln.tensor(np.full(2, 3.0)),))
    assert y.tolist() == [0.5, 2.0] and dot.tolist() == [3.0, 3.0]


def test_no_grad_and_detached_values():
    x = ln.tensor(np.array([1.0, -2.0]), requires_grad=True)
    with ln.no_grad():
        y, dot = ln.jvp(lambda x: F.relu(x) * x.detach(), (x,), (ln.tensor(np.ones(2)),))
    assert dot.tolist() == [1.0, 0.0] and not y.requires_grad and not dot.requires_grad


def test_a_primitive_of_ones_own_runs_its_rule():
    calls = []

    def tangent(t, y, x):
        calls.append(t.shape)
        return registry["mul"](t, 2.0)

    def cpu(x, *, out):
        np.multiply(x, 2, out=out)

    try:
        twice = primitive("twice_own", abstract=lambda x: x, cpu=cpu, jvp=(tangent,), pointwise=())
        assert ln.jvp(twice, (X,), (X,))[1].numpy().tobytes() == (2 * X).tobytes() and calls == [X.shape]
    finally:
        registry.pop("twice_own", None)


def test_compiled_programs_carry_tangents_too():
    program = ln.compile(lambda x, v: ln.jvp(lambda x: F.max_pool2d(F.relu(x), 2), (x,), (v,)), X, X)
    eager = ln.jvp(lambda x: F.max_pool2d(F.relu(x), 2), (X,), (X[::-1].copy(),))
    assert bits(program(X, X[::-1].copy())) == bits(eager)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_max_pooling_of_any_geometry(data):
    """Against the specification's winners; ties, NaN and −inf among the cells."""
    rank = data.draw(st.integers(1, 3))
    spatial = tuple(data.draw(st.integers(1, 21 if rank < 3 else 7)) for _ in range(rank))
    kernel = tuple(data.draw(st.integers(1, 4)) for _ in range(rank))
    stride, dilation = (tuple(data.draw(st.integers(1, 4 - d)) for _ in range(rank)) for d in (0, 2))
    padding = tuple(data.draw(st.integers(0, k // 2)) for k in kernel)
    if any(n + 2 * p < (k - 1) * d + 1 for n, p, k, d in zip(spatial, padding, kernel, dilation, strict=True)):
        return
    window = strided("max_pool", rank, kernel, stride, padding, dilation)
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    special = np.array([0.0, 1.0, 2.0, -np.inf, np.nan])
    x = rng.choice(special, (2, 2, *spatial), p=(0.3, 0.3, 0.2, 0.17, 0.03)).astype(data.draw(st.sampled_from(FLOATS)))
    t = rng.standard_normal(x.shape).astype(x.dtype)
    y, dot = ln.jvp(lambda x: registry["max_pool_value"](x, window=window), (x,), (t,))
    want, idx = registry["max_pool"](x, window=window)
    assert bits([y]) == bits([want])
    assert bits([dot]) == bits([registry["gather_at"](t, idx)])


def test_rules_of_duals_are_there():
    """A dual replaces a rule, it is no excuse for not having one."""
    for prim in registry.values():
        if prim.dual is not None:
            rules = [prim.jvp] if isinstance(prim.jvp, Joint) else list(prim.jvp or ())
            assert prim.linear or any(rule is not None and rule is not NONDIFF for rule in rules), prim
