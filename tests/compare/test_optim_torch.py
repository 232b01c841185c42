"""The same trajectory as PyTorch's optimisers, and the same rates as its schedules, over 100 steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lean_nn as ln
from lean_nn import functional as F
from lean_nn import optim

torch = pytest.importorskip("torch")

OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.01}), ("SGD", {"lr": 0.01, "weight_decay": 0.1}), ("SGD", {"lr": 0.01, "maximize": True}),
    ("SGD", {"lr": 0.01, "momentum": 0.9}), ("SGD", {"lr": 0.01, "momentum": 0.9, "dampening": 0.3}),
    ("SGD", {"lr": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.1, "maximize": True}),
    *[(name, {"lr": 0.01, **more}) for name in ("Adam", "AdamW") for more in (
        {}, {"betas": (0.8, 0.95)}, {"eps": 1e-3}, {"weight_decay": 0.1}, {"amsgrad": True},
        {"amsgrad": True, "weight_decay": 0.1, "maximize": True}, {"maximize": True})],
    *[("RMSprop", {"lr": 0.01, **more}) for more in (
        {}, {"alpha": 0.9}, {"eps": 1e-3}, {"weight_decay": 0.1}, {"momentum": 0.9}, {"centered": True},
        {"centered": True, "momentum": 0.9, "weight_decay": 0.1}, {"maximize": True})],
    *[("Adagrad", {"lr": 0.1, **more}) for more in (
        {}, {"lr_decay": 0.01}, {"weight_decay": 0.1}, {"initial_accumulator_value": 0.5}, {"eps": 1e-3},
        {"maximize": True})],
]  # fmt: skip


def arrays() -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape) for shape in ((4, 3), (4,), (2, 4))]


def our_loss(x: Any, w: Any, b: Any, v: Any) -> Any:
    return F.sum(F.tanh(F.linear(F.tanh(F.linear(x, w, b)), v)))


def their_loss(x: Any, w: Any, b: Any, v: Any) -> Any:
    return torch.tanh(torch.nn.functional.linear(torch.tanh(torch.nn.functional.linear(x, w, b)), v)).sum()


@pytest.mark.parametrize("name, options", OPTIONS, ids=lambda value: str(value))
def test_same_trajectory(name: str, options: dict[str, Any]) -> None:
    mine = [ln.tensor(a, requires_grad=True) for a in arrays()]
    yours = [torch.from_numpy(a).requires_grad_() for a in arrays()]
    ours, theirs = getattr(optim, name)(mine, **options), getattr(torch.optim, name)(yours, **options)
    rng = np.random.default_rng(1)
    for _ in range(100):
        x = rng.standard_normal((8, 3))
        for optimizer, loss in ((ours, our_loss(ln.tensor(x), *mine)), (theirs, their_loss(torch.from_numpy(x), *yours))):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        for a, b in zip(mine, yours, strict=True):
            assert np.max(np.abs(a.numpy() - b.detach().numpy())) <= 1e-12


@pytest.mark.parametrize("name, options", OPTIONS, ids=lambda value: str(value))
def test_settings_and_state_have_the_same_names(name: str, options: dict[str, Any]) -> None:
    mine, yours = ln.tensor([1.0], requires_grad=True), torch.ones(1, requires_grad=True)
    ours, theirs = getattr(optim, name)([mine], **options), getattr(torch.optim, name)([yours], **options)
    mine.grad, yours.grad = ln.tensor([1.0]), torch.ones(1)
    ours.step()
    theirs.step()
    saved, wanted = ours.state_dict(), theirs.state_dict()
    settings = {key: value for key, value in wanted["param_groups"][0].items()
                if key not in ("foreach", "capturable", "differentiable", "fused", "decoupled_weight_decay")}  # fmt: skip
    assert saved["param_groups"] == [settings]
    theirs_named = set(wanted["state"].get(0, {}))
    assert {key for key in saved["state"][0] if key != "step"} == theirs_named - {"step"}


SCHEDULES: list[tuple[str, dict[str, Any]]] = [
    ("StepLR", {"step_size": 7, "gamma": 0.5}), ("MultiStepLR", {"milestones": [3, 30, 31], "gamma": 0.3}),
    ("LinearLR", {}), ("LinearLR", {"start_factor": 0.1, "end_factor": 0.7, "total_iters": 20}),
    ("CosineAnnealingLR", {"T_max": 40, "eta_min": 0.01}), ("CosineAnnealingLR", {"T_max": 99}),
    ("LambdaLR", {"lr_lambda": lambda t: 0.9**t}), ("OneCycleLR", {"max_lr": 0.5, "total_steps": 101}),
    ("OneCycleLR", {"max_lr": [0.5, 0.2], "epochs": 11, "steps_per_epoch": 10, "anneal_strategy": "linear"}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 101, "three_phase": True, "pct_start": 0.2}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 101, "cycle_momentum": False}),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name, options", SCHEDULES, ids=lambda value: str(value))
def test_same_rates(name: str, options: dict[str, Any], kind: str) -> None:
    extra = {"momentum": 0.9} if kind == "SGD" else {}
    pairs = []
    for library, schedules, tensor in ((optim, optim, ln.tensor), (torch.optim, torch.optim.lr_scheduler, torch.tensor)):
        groups = [{"params": [tensor([1.0], requires_grad=True)]}, {"params": [tensor([1.0], requires_grad=True)], "lr": 0.3}]
        optimizer = getattr(library, kind)(groups, lr=0.1, **extra)
        for p in (p for group in groups for p in group["params"]):
            p.grad = tensor([1.0])
        pairs.append((optimizer, getattr(schedules, name)(optimizer, **options)))
    for _ in range(100):
        found = []
        for optimizer, schedule in pairs:
            found.append([group["lr"] for group in optimizer.param_groups]
                         + [group.get("momentum", group.get("betas", (0,))[0]) for group in optimizer.param_groups])  # fmt: skip
            optimizer.step()
            schedule.step()
        assert found[0] == pytest.approx(found[1], rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("order", [1.0, 2.0, float("inf")])
def test_same_clipping(order: float) -> None:
    mine = [ln.tensor(a, requires_grad=True) for a in arrays()]
    yours = [torch.from_numpy(a).requires_grad_() for a in arrays()]
    x = np.random.default_rng(1).standard_normal((8, 3))
    our_loss(ln.tensor(x), *mine).backward()
    their_loss(torch.from_numpy(x), *yours).backward()
    ours = optim.clip_grad_norm_(mine, 0.5, order)
    theirs = torch.nn.utils.clip_grad_norm_(yours, 0.5, order)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-12)
    for a, b in zip(mine, yours, strict=True):
        assert a.grad.numpy() == pytest.approx(b.grad.numpy(), rel=1e-12)
