"""Modules as functions: nothing is overwritten, derivatives pass, compiled equals eager, training steps compile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lean_nn as ln
import lean_nn.functional as F
from lean_nn import nn
from lean_nn.graph.passes import EXACT

rng = np.random.default_rng(0)


def net(dropout: float = 0.5) -> nn.Sequential:
    ln.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout(dropout), nn.Flatten(), nn.Dropout(dropout),
                         nn.Linear(12, 2))  # fmt: skip


X = rng.standard_normal((5, 1, 4, 4)).astype(np.float32)


def bits(model: nn.Module) -> list[bytes]:
    return [a.tobytes() for a in model.state_dict().values()]


def test_a_pure_call_is_the_models_call_and_leaves_it_alone() -> None:
    model, twin = net(0.0), net(0.0)
    call, params, buffers = nn.pure(model)
    before = bits(model)
    y, new = call(params, buffers, ln.tensor(X))
    assert bits(model) == before and model[1].running_mean is buffers["1.running_mean"]
    assert (y.numpy() == twin(X).numpy()).all()
    assert {k: v.tolist() for k, v in new.items()} == {k: dict(twin.named_buffers())[k].tolist() for k in new}
    assert set(new) == {"1.running_mean", "1.running_var"}


def test_seeds_decide_what_is_dropped() -> None:
    call, params, buffers = nn.pure(net())
    first, again, other = (call(params, buffers, ln.tensor(X), seed=s)[0].tolist() for s in (1, 1, 2))
    assert first == again != other
    vector = call(params, buffers, ln.tensor(X), seed=nn.dropout_seeds(1, 2))[0].tolist()
    scalar = call(params, buffers, ln.tensor(X), seed=np.array(1))[0].tolist()
    assert vector == first == scalar
    with pytest.raises(ValueError, match="one seed per dropout"):
        call(params, buffers, ln.tensor(X), seed=nn.dropout_seeds(1, 1))


def test_two_dropouts_of_one_call_drop_differently() -> None:
    model = nn.Sequential(nn.Dropout(0.5))
    call, _, _ = nn.pure(nn.ModuleList([model]).append(nn.Identity()) and model)
    x = ln.tensor(np.ones(1000, np.float32))
    one = call({}, {}, x, seed=nn.dropout_seeds(0, 1))[0].numpy()
    both = nn.pure(nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5)))[0]({}, {}, x, seed=0)[0].numpy()
    assert abs((one == 0).mean() - 0.5) < 0.06 and abs((both == 0).mean() - 0.75) < 0.06


def test_functional_call_takes_some_state_and_gives_it_back() -> None:
    model = net(0.0).eval()
    weight = model[6].weight
    zero = {"6.weight": np.zeros((2, 12), np.float32), "6.bias": np.zeros(2, np.float32)}
    assert (nn.functional_call(model, zero, X).numpy() == 0).all()
    assert model[6].weight is weight
    with pytest.raises(ValueError, match="names of parameters"):
        nn.functional_call(model, {"nothing": weight}, X)
    with pytest.raises(ValueError, match="has shape"):
        nn.functional_call(model, {"6.bias": np.zeros(3, np.float32)}, X)
    with pytest.raises(ValueError):
        nn.functional_call(model, zero, np.zeros((5, 2, 4, 4), np.float32))
    assert model[6].weight is weight  # also after an error


def test_a_shared_parameter_is_replaced_under_each_of_its_names() -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    y = nn.functional_call(model, {"1.weight": 2 * np.eye(2, dtype=np.float32)}, np.ones((1, 2), np.float32))
    assert y.tolist() == [[4.0, 4.0]]


def test_derivatives_pass_in_both_modes() -> None:
    model = net(0.0).double()
    call, params, buffers = nn.pure(model)
    x = ln.tensor(X.astype(np.float64))

    def loss(p: Any) -> Any:
        return F.tanh(call(p, buffers, x)[0]).sum()

    grads = ln.grad(loss)(params)
    direction = {k: ln.tensor(rng.standard_normal(p.shape)) for k, p in params.items()}
    _, slope = ln.jvp(loss, (params,), (direction,))
    inner = sum((grads[k].numpy() * direction[k].numpy()).sum() for k in params)
    assert abs(slope.item() - inner) < 1e-12 * max(1, abs(inner))


def test_a_module_compiles_in_eval_mode_only() -> None:
    model = net()
    model(X)
    with pytest.raises(ValueError, match=r"call .eval\(\) first"):
        ln.compile(model, X.shape)
    model.eval()
    program = ln.compile(model, (None, 1, 4, 4), passes=EXACT)
    for n in (1, 5):
        assert (program(X[:n]) == model(X[:n]).numpy()).all()
    folded = ln.compile(model, (2, 1, 4, 4))
    assert "batch" not in str(folded) and np.allclose(folded(X[:2]), model(X[:2]).numpy(), atol=1e-6)


def test_a_training_step_compiles_with_rate_and_seeds_as_arguments() -> None:
    """The compiled step, fed other rates and seeds, has the bits of the eager one; nothing is compiled again."""
    eager, model = net(), net()
    t = np.array([0, 1, 0, 1, 0])

    def maker(model: nn.Module) -> Any:
        optimizer = ln.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        call, params, buffers = nn.pure(model)

        def step(params: Any, buffers: Any, slots: Any, count: Any, x: Any, t: Any, lr: Any, seeds: Any) -> Any:
            def loss(p: Any) -> Any:
                y, new = call(p, buffers, x, seed=seeds)
                return F.cross_entropy(y, t), new

            (value, new), grads = ln.value_and_grad(loss, has_aux=True)(params)
            params, state = optimizer.update(params, grads, {"step": count, "lr": [lr], "slots": slots})
            return params, {k: v.detach() for k, v in new.items()}, state["slots"], state["step"], value

        state = optimizer.init(list(params.values()))
        return step, [params, buffers, state["slots"], state["step"]]

    step, kept = maker(model)
    program = ln.compile(step, *kept, X, t, np.array(0.1), nn.dropout_seeds(0, 2), inplace=(0, 1, 2, 3), passes=EXACT)
    plain, values = maker(eager)
    for i, lr in enumerate((0.1, 0.05, 0.2)):
        seeds = nn.dropout_seeds(i, 2)
        value = program(X, t, np.array(lr), seeds)
        *values, want = plain(*values, ln.tensor(X), ln.tensor(t), ln.tensor(np.array(lr)), ln.tensor(seeds))
        assert value == want.numpy()
    for name, p in model.named_parameters():
        assert p.numpy().tobytes() == values[0][name].numpy().tobytes()
    assert model[1].running_mean.numpy().tobytes() == values[1]["1.running_mean"].numpy().tobytes()


def test_without_a_seed_a_compiled_dropout_is_refused() -> None:
    call, params, buffers = nn.pure(net())
    with pytest.raises(ln.GraphError, match="seed"):
        ln.compile(lambda p, b, x: call(p, b, x), params, buffers, X)


def test_a_mean_of_all_batches_needs_the_module_itself() -> None:
    call, params, buffers = nn.pure(nn.BatchNorm1d(2, momentum=None))
    with pytest.raises(ln.GraphError, match="momentum None"):
        call(params, buffers, np.ones((3, 2), np.float32))
