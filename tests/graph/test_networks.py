"""Whole networks: compiled equals eager, bit for bit without fusions, within the bound with them; training as well."""

from __future__ import annotations

import numpy as np
import pytest
from graph_networks import NETWORKS, example, training_step

import lean_nn as ln
from lean_nn import tree as trees
from lean_nn.graph.passes import EXACT, PASSES

DTYPES = ["float32", "float64"]
both = pytest.mark.parametrize("dtype", DTYPES)
each = pytest.mark.parametrize("name", NETWORKS)


def data(tree):
    """Arrays in the order of the leaves, whatever holds them."""
    return [np.asarray(leaf.numpy() if isinstance(leaf, ln.Tensor) else leaf) for leaf in trees.leaves(tree)]


def same(got, want):
    got, want = data(got), data(want)
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


def directions(tree, seed):
    rng = np.random.default_rng(seed)
    return trees.transform(lambda a: rng.standard_normal(a.shape).astype(a.dtype), tree)


def tensors(tree):
    return trees.transform(ln.tensor, tree)


@both
@each
def test_inference_has_eagers_bits(name, dtype):
    """Parameters as arguments, and as constants of the program."""
    params, buffers, x, _ = example(name, dtype)
    forward = NETWORKS[name].forward
    want = forward({**params, **buffers}, ln.tensor(x), False)
    as_arguments = ln.compile(lambda p, b, x: forward({**p, **b}, x, False), params, buffers, x, passes=EXACT)
    as_constants = ln.compile(lambda x: forward({**params, **buffers}, x, False), x, passes=EXACT)
    same(as_arguments(params, buffers, x), want)
    same(as_constants(x), want)
    same(as_constants(ln.tensor(x)), want)


@both
@each
def test_training_mode_has_eagers_bits_and_moves_the_statistics(name, dtype):
    params, buffers, x, _ = example(name, dtype)
    forward = NETWORKS[name].forward
    program = ln.compile(lambda p, b, x: forward({**p, **b}, x, True), params, buffers, x, passes=EXACT)
    mine, eager = [{k: a.copy() for k, a in buffers.items()} for _ in range(2)]
    for _ in range(2):
        got, want = program(params, mine, x), forward({**params, **eager}, ln.tensor(x), True)
        same(got, want)
        same(mine, eager)
    assert not buffers or any((mine[k] != buffers[k]).any() for k in mine)


@both
@each
def test_derivatives_have_eagers_bits(name, dtype):
    params, buffers, x, _ = example(name, dtype)
    forward = NETWORKS[name].forward

    def f(p, x):
        return forward({**p, **buffers}, x, False)

    program = ln.compile(f, params, x, passes=EXACT)
    tangents = directions((params, x), 1)
    same(program.jvp((params, x), tangents), ln.jvp(f, tensors((params, x)), tensors(tangents)))
    y, pull = ln.vjp(f, *tensors((params, x)))
    cotangent = directions(y.numpy(), 2)
    same(program.vjp((params, x), cotangent), (y, pull(ln.tensor(cotangent))))


def rounding(program, dtype):
    """The sum over all layers of the roundings of one: n terms, and two for each of four folded numbers per channel."""
    graph, total = program.source.graph, 0
    for node in graph.nodes:
        if node.prim.name in ("conv", "conv_input", "matmul"):
            total += int(np.prod(graph.avals[node.inputs[1]].shape[1:])) + 2 * 4 + 2
    return max(total, 1) * float(np.finfo(dtype).eps)


@both
@each
def test_all_passes_stay_within_the_bound(name, dtype):
    """Norm-wise: the layers' bounds add up (numbers are of the order of one throughout these networks)."""
    params, buffers, x, _ = example(name, dtype)
    forward = NETWORKS[name].forward
    program = ln.compile(lambda x: forward({**params, **buffers}, x, False), x)
    want = forward({**params, **buffers}, ln.tensor(x), False).numpy()
    error = np.abs(program(x) - want).max() / np.abs(want).max()
    assert error <= rounding(program, dtype)
    assert program.passes == tuple(PASSES)


@pytest.mark.parametrize("name", ["resnet20", "mobilenet"])
def test_batch_norm_is_folded_away(name):
    params, buffers, x, _ = example(name)
    forward = NETWORKS[name].forward
    program = ln.compile(lambda x: forward({**params, **buffers}, x, False), x)
    left = {node.prim.name for node in program.graph.nodes}
    assert not left & {"sub", "div", "sqrt"}, left


@both
@each
def test_five_steps_of_training_have_eagers_bits(name, dtype):
    """value_and_grad, momentum, in-place parameters, running statistics as arguments: one program."""
    params, buffers, x, t = example(name, dtype)
    step = training_step(name)
    slots = {key: np.zeros_like(a) for key, a in params.items()}
    kept, kept_slots, kept_buffers = [{k: a.copy() for k, a in d.items()} for d in (params, slots, buffers)]
    program = ln.compile(step, kept, kept_slots, kept_buffers, x, t, inplace=(0, 1), passes=EXACT)
    p, s, b = tensors(params), tensors(slots), tensors({k: a.copy() for k, a in buffers.items()})
    for _ in range(5):
        p, s, loss = step(p, s, b, ln.tensor(x), ln.tensor(t))
        same(program(kept_buffers, x, t), loss)
        same((kept, kept_slots, kept_buffers), (p, s, b))
    assert np.isfinite(loss.item())


@each
def test_training_with_all_passes_goes_the_same_way(name):
    params, buffers, x, t = example(name, "float64")
    step = training_step(name)
    slots = {key: np.zeros_like(a) for key, a in params.items()}
    p, s, b = (tensors({k: a.copy() for k, a in d.items()}) for d in (params, slots, buffers))
    program = ln.compile(step, params, slots, buffers, x, t, inplace=(0, 1))
    for _ in range(5):
        p, s, loss = step(p, s, b, ln.tensor(x), ln.tensor(t))
        assert float(program(buffers, x, t)) == pytest.approx(loss.item(), rel=1e-9)


@each
def test_open_batch(name):
    params, buffers, x, _ = example(name)
    forward = NETWORKS[name].forward

    def f(x):
        return forward({**params, **buffers}, x, False)

    family = ln.compile(f, (None, *x.shape[1:]), passes=EXACT)
    for n in (1, 3, 1):
        batch = np.concatenate([x, x])[:n]
        same(family(batch), f(ln.tensor(batch)))
    assert family.program_for(x[:1]) is family.at({None: 1})


def test_an_optimisers_own_update_compiles():
    """The primitives of `lean_nn.optim` inside a compiled step: Adam, its slots kept too."""
    from lean_nn.ops.optim import adam

    params, _, x, t = example("lenet", "float64")
    forward = NETWORKS["lenet"].forward
    numbers = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "decoupled": False, "maximize": False}

    def step(params, first, second, count, x, t):
        value, grads = ln.value_and_grad(lambda p: ln.functional.cross_entropy(forward(p, x), t))(params)
        count, rate = count + 1.0, ln.tensor(np.array(0.01))
        new = {k: adam(params[k], grads[k], first[k], second[k], rate, count, **numbers) for k in params}
        return *({k: parts[i] for k, parts in new.items()} for i in range(3)), count, value

    zeros = {k: np.zeros_like(a) for k, a in params.items()}
    state = [{k: a.copy() for k, a in d.items()} for d in (params, zeros, zeros)] + [np.array(0.0)]
    program = ln.compile(step, *state, x, t, inplace=(0, 1, 2, 3), passes=EXACT)
    eager = [tensors(params), tensors(zeros), tensors(zeros), ln.tensor(np.array(0.0))]
    for _ in range(3):
        *eager, loss = step(*eager, ln.tensor(x), ln.tensor(t))
        same(program(x, t), loss)
        same(state, eager)
