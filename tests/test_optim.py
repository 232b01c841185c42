"""Optimisers: exact on Fractions, in place and as a pure function alike, state in and out, schedules, clipping, errors."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import lean_nn as ln
from lean_nn import functional as F
from lean_nn import optim, tree

MAKERS = {
    "sgd": lambda p: optim.SGD(p, 0.1),
    "sgd decay": lambda p: optim.SGD(p, 0.1, weight_decay=0.01, maximize=True),
    "momentum": lambda p: optim.SGD(p, 0.1, 0.9, dampening=0.5),
    "nesterov": lambda p: optim.SGD(p, 0.1, 0.9, nesterov=True),
    "adam": lambda p: optim.Adam(p, 0.1),
    "adam amsgrad": lambda p: optim.Adam(p, 0.1, amsgrad=True, weight_decay=0.1),
    "adamw": lambda p: optim.AdamW(p, 0.1),
    "rmsprop": lambda p: optim.RMSprop(p, 0.1),
    "rmsprop momentum": lambda p: optim.RMSprop(p, 0.1, momentum=0.9),
    "rmsprop centered": lambda p: optim.RMSprop(p, 0.1, centered=True),
    "rmsprop all": lambda p: optim.RMSprop(p, 0.1, centered=True, momentum=0.9, weight_decay=0.1),
    "adagrad": lambda p: optim.Adagrad(p, 0.1, lr_decay=0.1, initial_accumulator_value=0.5),
}  # fmt: skip
SHAPES = ((3, 4), (), (5000,))  # more than one block of the kernel in the last


def parameters(dtype: str = "float32", seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [ln.tensor(rng.standard_normal(shape).astype(dtype), requires_grad=True) for shape in SHAPES]


def loss_of(params: Any) -> Any:
    """Some curved function of all parameters."""
    parts = [F.sum(F.mul(F.mul(p, p), F.sigmoid(p))) for p in params]
    return F.add(F.add(parts[0], parts[1]), parts[2])


def run(optimizer: Any, params: Any, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(params).backward()
        optimizer.step()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_pure_update_is_step_bit_for_bit(make: Any, dtype: str) -> None:
    mine, pure = parameters(dtype), parameters(dtype)
    optimizer, other = make(mine), make(pure)
    state, trees = other.init(pure), pure
    form = tree.form(state)
    for _ in range(4):
        run(optimizer, mine, 1)
        grads = ln.grad(lambda *p: loss_of(p), (0, 1, 2))(*trees)
        before = [p.numpy().copy() for p in trees]
        new, state = other.update(trees, list(grads), state)
        assert all((a == b.numpy()).all() for a, b in zip(before, trees, strict=True)), "an argument was written to"
        trees = new
    assert tree.form(state) == form and isinstance(trees, list)
    assert state["step"].item() == 4
    for a, b in zip(mine, trees, strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_bits_do_not_depend_on_threads(make: Any) -> None:
    results = []
    for n in (1, 2):
        params = parameters()
        with ln.num_threads(n):
            run(make(params), params, 2)
        results.append([p.numpy().tobytes() for p in params])
    assert results[0] == results[1]


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_state_goes_out_and_in(make: Any) -> None:
    """Six steps are three steps, saved, loaded into a fresh optimiser, and three more."""
    whole, parts = parameters(), parameters()
    run(make(whole), whole, 6)
    first = make(parts)
    run(first, parts, 3)
    saved = first.state_dict()
    again = [ln.tensor(p.numpy(), requires_grad=True) for p in parts]
    second = make(again)
    second.load_state_dict(saved)
    run(second, again, 3)
    for a, b in zip(whole, again, strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()


def test_sgd_is_exact_on_fractions() -> None:
    """Two steps on x² by hand: momentum 1/2, dampening 1/4 from the second step on."""
    x = ln.tensor(np.array([Fraction(3)], object), requires_grad=True)
    optimizer = optim.SGD([x], Fraction(1, 4), momentum=0.5, dampening=0.25)
    for wanted in (Fraction(3, 2), Fraction(3, 2) - Fraction(1, 4) * (Fraction(6, 2) + Fraction(3, 4) * 3)):
        optimizer.zero_grad()
        (x * x).sum().backward()
        optimizer.step()
        assert x.numpy()[0] == wanted and isinstance(x.numpy()[0], Fraction)


def test_adagrad_is_exact_on_fractions_where_the_root_is_rational() -> None:
    x = ln.tensor(np.array([Fraction(3, 2)], object), requires_grad=True)
    (x * x).sum().backward()
    optim.Adagrad([x], Fraction(1, 2), initial_accumulator_value=16.0, eps=0.0).step()
    assert x.numpy()[0] == Fraction(3, 2) - Fraction(1, 2) * Fraction(3, 5)


def test_groups_have_settings_of_their_own() -> None:
    a, b = (ln.tensor([1.0], requires_grad=True) for _ in range(2))
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.25)
    (a + b).sum().backward()
    optimizer.step()
    assert (a.item(), b.item()) == (0.75, 0.5)
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.5]


def test_a_parameter_without_a_gradient_is_left_alone() -> None:
    a, b = (ln.tensor([1.0], requires_grad=True) for _ in range(2))
    optimizer = optim.AdamW([a, b], lr=0.25)
    a.sum().backward()
    optimizer.step()
    assert b.item() == 1.0 and a.item() != 1.0 and b not in optimizer.state


def test_closure_and_zero_grad() -> None:
    x = ln.tensor([2.0], requires_grad=True)
    optimizer = optim.SGD([x], lr=0.25)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss

    with ln.no_grad():
        assert optimizer.step(closure).item() == 4.0
    assert x.item() == 1.0
    optimizer.zero_grad(set_to_none=False)
    assert x.grad.item() == 0.0
    optimizer.zero_grad()
    assert x.grad is None


def test_no_decay_leaves_infinite_parameters_finite_gradients_alone() -> None:
    x = ln.tensor([np.inf, 1.0], requires_grad=True)
    x.grad = ln.tensor([1.0, 1.0])
    optim.SGD([x], lr=0.5).step()
    assert x.numpy().tolist() == [np.inf, 0.5]


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: optim.SGD([], 0.1), "at least one parameter"),
        (lambda: optim.SGD([1.0], 0.1), "parameters are Tensors"),
        (lambda: optim.SGD(ln.tensor([1.0]), 0.1), "an iterable of Tensors"),
        (lambda: optim.SGD([ln.tensor([1.0])], -0.1), "lr is not negative"),
        (lambda: optim.SGD([ln.tensor([1.0])], 0.1, nesterov=True), "Nesterov"),
        (lambda: optim.Adam([ln.tensor([1.0])], betas=(1.0, 0.9)), "betas are from 0"),
        (lambda: optim.Adam([ln.tensor([1])]), "leaves of float data"),
        (lambda: optim.SGD([{"params": [ln.tensor([1.0])], "speed": 1}]), "settings are"),
        (lambda: optim.SGD([ln.tensor([1.0], requires_grad=True) * 2.0]), "leaves of float data"),
        (lambda: optim.SGD([ln.tensor([1.0])]).update([ln.tensor([1.0])] * 2, [ln.tensor([1.0])] * 2,
                                                      {"step": 0, "lr": [], "slots": []}), "as many parameters"),
    ],
)  # fmt: skip
def test_errors_say_what_is_wrong(make: Any, text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        make()


def test_a_parameter_twice_is_an_error() -> None:
    x = ln.tensor([1.0], requires_grad=True)
    with pytest.raises(ValueError, match="one group only"):
        optim.SGD([x, x])


def test_wrong_state_is_refused() -> None:
    x, y = ln.tensor([1.0], requires_grad=True), ln.tensor([1.0, 2.0], requires_grad=True)
    mine, other = optim.Adam([x]), optim.Adam([y])
    y.sum().backward()
    other.step()
    with pytest.raises(ValueError, match="its parameter's shape"):
        mine.load_state_dict(other.state_dict())
    with pytest.raises(ValueError, match="same sizes"):
        mine.load_state_dict(optim.Adam([y, ln.tensor([1.0])]).state_dict())


# --- schedules ---


def rates(make: Any, steps: int, lr: float = 1.0) -> list[float]:
    optimizer = optim.SGD([ln.tensor([1.0], requires_grad=True)], lr=lr, momentum=0.9)
    schedule = make(optimizer)
    found = [schedule.get_last_lr()[0]]
    for _ in range(steps):
        schedule.step()
        found.append(schedule.get_last_lr()[0])
    return found


@pytest.mark.parametrize(
    "make, wanted",
    [
        (lambda o: optim.StepLR(o, 2, 0.5), [1, 1, 0.5, 0.5, 0.25]),
        (lambda o: optim.MultiStepLR(o, [1, 3], 0.5), [1, 0.5, 0.5, 0.25, 0.25]),
        (lambda o: optim.LinearLR(o, 0.5, 1.0, 2), [0.5, 0.75, 1, 1, 1]),
        (lambda o: optim.LambdaLR(o, lambda t: 2.0**t), [1, 2, 4, 8, 16]),
        (lambda o: optim.CosineAnnealingLR(o, 4), [1, 0.5 + 0.5**1.5, 0.5, 0.5 - 0.5**1.5, 0]),
    ],
)
def test_rates(make: Any, wanted: list[float]) -> None:
    assert rates(make, 4) == pytest.approx(wanted, abs=1e-15)


def test_one_cycle_moves_rate_and_momentum_against_each_other() -> None:
    optimizer = optim.SGD([ln.tensor([1.0], requires_grad=True)], lr=1.0, momentum=0.9)
    schedule = optim.OneCycleLR(optimizer, 1.0, total_steps=11, pct_start=0.5)
    group = optimizer.param_groups[0]
    assert (group["lr"], group["momentum"]) == pytest.approx((1 / 25, 0.95))
    seen = []
    for _ in range(10):
        schedule.step()
        seen.append((group["lr"], group["momentum"]))
    assert max(seen)[0] > 0.95 and seen[-1] == pytest.approx((1 / 25 / 1e4, 0.95))
    with pytest.raises(ValueError, match="11 steps were planned"):
        for _ in range(3):
            schedule.step()


def test_schedule_state_goes_out_and_in() -> None:
    optimizer = optim.SGD([ln.tensor([1.0], requires_grad=True)], lr=1.0)
    schedule = optim.StepLR(optimizer, 2, 0.5)
    for _ in range(3):
        schedule.step()
    fresh = optim.SGD([ln.tensor([1.0], requires_grad=True)], lr=1.0)
    resumed = optim.StepLR(fresh, 2, 0.5)
    fresh.load_state_dict(optimizer.state_dict())
    resumed.load_state_dict(schedule.state_dict())
    schedule.step()
    resumed.step()
    assert fresh.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"] == 0.25


@pytest.mark.parametrize(
    "make",
    [
        lambda o: optim.StepLR(o, 0), lambda o: optim.LinearLR(o, 0.0), lambda o: optim.CosineAnnealingLR(o, 0),
        lambda o: optim.LambdaLR(o, []), lambda o: optim.OneCycleLR(o, 1.0), lambda o: optim.OneCycleLR(o, 1.0, 0),
    ],
)  # fmt: skip
def test_wrong_schedules_are_refused(make: Any) -> None:
    with pytest.raises(ValueError):
        rates(make, 1)


# --- clipping ---


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, np.inf])
def test_norm_is_clipped_over_all_gradients_together(order: float) -> None:
    params = parameters("float64")
    loss_of(params).backward()
    flat = np.concatenate([p.grad.numpy().reshape(-1) for p in params])
    norm = optim.clip_grad_norm_(params, 0.5, order).item()
    assert norm == pytest.approx(np.linalg.norm(flat, order), rel=1e-12)
    after = np.concatenate([p.grad.numpy().reshape(-1) for p in params])
    assert after == pytest.approx(flat * 0.5 / (norm + 1e-6), rel=1e-12)
    assert optim.clip_grad_norm_(params, 0.5, order).item() == pytest.approx(0.5, rel=1e-5)


def test_small_gradients_are_not_scaled() -> None:
    x = ln.tensor([3.0], requires_grad=True)
    x.sum().backward()
    optim.clip_grad_norm_(x, 10.0)
    assert x.grad.item() == 1.0
    assert optim.clip_grad_norm_([ln.tensor([1.0])], 1.0).item() == 0.0


def test_a_norm_that_is_not_finite_can_be_an_error() -> None:
    x = ln.tensor([3.0], requires_grad=True)
    x.grad = ln.tensor([np.nan])
    with pytest.raises(RuntimeError, match="finite norm"):
        optim.clip_grad_norm_(x, 1.0, error_if_nonfinite=True)
    optim.clip_grad_norm_(x, 1.0)
    assert np.isnan(x.grad.item())


def test_values_are_clipped() -> None:
    x = ln.tensor([3.0, -4.0, 0.5], requires_grad=True)
    (x * x).sum().backward()
    optim.clip_grad_value_([x], 2.0)
    assert x.grad.numpy().tolist() == [2.0, -2.0, 1.0]


@pytest.mark.parametrize(
    "spoil, problem",
    [
        (lambda s: s["param_groups"].pop(), "same sizes"), (lambda s: s["param_groups"][0].update(lr=-1.0), "lr is not negative"),
        (lambda s: s["param_groups"][0].update(betas=(2.0, 0.5)), "betas"), (lambda s: s["state"].update({9: {}}), "parameter 9"),
        (lambda s: s["state"][0].update(momentum_buffer=np.ones((3, 4))), "parameter 0"),
        (lambda s: s["state"][1].pop("step"), "step"),
        (lambda s: s["state"][0].update(exp_avg=np.ones(3)), "shape"),
    ],
)  # fmt: skip
def test_a_state_that_does_not_fit_changes_nothing(spoil: Any, problem: str) -> None:
    params, others = parameters(), parameters()
    optimizer, other = optim.Adam(params, 0.1), optim.Adam(others, 0.2)
    run(optimizer, params, 2)
    run(other, others, 3)
    saved = optimizer.state_dict()
    spoil(saved)
    before = [t.numpy().copy() for own in other.state.values() for k, t in own.items() if k != "step"]
    with pytest.raises(ValueError, match=problem):
        other.load_state_dict(saved)
    after = [t.numpy() for own in other.state.values() for k, t in own.items() if k != "step"]
    assert other.param_groups[0]["lr"] == 0.2 and all((a == b).all() for a, b in zip(before, after, strict=True))


def test_settings_of_pytorch_alone_are_left_out() -> None:
    params = parameters()
    optimizer = optim.Adam(params, 0.1)
    saved = optimizer.state_dict()
    saved["param_groups"][0].update(foreach=None, capturable=False, lr=0.3)
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["lr"] == 0.3 and "foreach" not in optimizer.param_groups[0]


def test_clipping_as_a_pure_function_is_clipping_in_place() -> None:
    params = parameters("float64")
    loss_of(params).backward()
    grads = {str(i): p.grad.detach() for i, p in enumerate(params)}
    by_norm, by_value = optim.clipped_by_norm(grads, 2.0), optim.clipped_by_value(grads, 0.3)
    before = [g.numpy().copy() for g in grads.values()]
    optim.clip_grad_norm_(params, 2.0)
    for i, p in enumerate(params):
        assert np.allclose(p.grad.numpy(), by_norm[str(i)].numpy(), rtol=1e-14)
        assert (np.clip(before[i], -0.3, 0.3) == by_value[str(i)].numpy()).all()
    assert optim.clipped_by_norm({"a": ln.tensor(np.empty(0))}, 1.0)["a"].shape == (0,)
