"""Learning rates over time: the rate of every group is a function of its first rate and of the number of steps so far.

``schedule.step()`` goes after ``optimizer.step()``, once per epoch or per batch, as the schedule is meant. PyTorch's
names, arguments and values; each is written as the closed formula.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lean_nn.optim.optimizer import Group, Optimizer

__all__ = ["CosineAnnealingLR", "LambdaLR", "LinearLR", "MultiStepLR", "OneCycleLR", "Schedule", "StepLR"]


class Schedule:
    """Sets ``group["lr"]`` of every group to `rate(initial rate, steps so far)`.

    Parameters
    ----------
    optimizer : Optimizer
    last_epoch : steps taken before, −1 for none; each group then has an ``"initial_lr"``
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer, self.last_epoch = optimizer, last_epoch
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.base_lrs = [float(group["initial_lr"]) for group in optimizer.param_groups]
        self.step()

    def rate(self, base: float, t: int, group: int) -> float:
        """The rate of group number `group`, which began with `base`, after t steps."""
        raise NotImplementedError

    def step(self) -> None:
        """One step further."""
        self.last_epoch += 1
        for i, (group, base) in enumerate(zip(self.optimizer.param_groups, self.base_lrs, strict=True)):
            self._set(group, base, i)

    def _set(self, group: Group, base: float, i: int) -> None:
        group["lr"] = self.rate(base, self.last_epoch, i)

    def get_last_lr(self) -> list[float]:
        """The rates as they are now."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs: how far it is, and the first rates."""
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave; the groups' rates come with the optimiser's own state."""
        self.last_epoch, self.base_lrs = int(state_dict["last_epoch"]), list(state_dict["base_lrs"])


class LambdaLR(Schedule):
    """``base·f(t)``; one function for all groups, or a list with one each.

    Examples
    --------
    >>> import lean_nn as ln
    >>> optimizer = ln.optim.SGD([ln.tensor([1.0], requires_grad=True)], lr=0.5)
    >>> schedule = ln.optim.LambdaLR(optimizer, lambda t: 1 / (1 + t))
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        groups = len(optimizer.param_groups)
        self.lr_lambdas = [lr_lambda] * groups if callable(lr_lambda) else list(lr_lambda)
        if len(self.lr_lambdas) != groups:
            raise ValueError(f"LambdaLR: one function per group; got {len(self.lr_lambdas)} for {groups}; pass one for all")
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, t: int, group: int) -> float:
        return base * self.lr_lambdas[group](t)


class StepLR(Schedule):
    """``base·gamma^⌊t/step_size⌋``."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        if step_size < 1:
            raise ValueError(f"StepLR: at least one step between changes; got {step_size}; pass 1 or more")
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, t: int, group: int) -> float:
        return float(base * self.gamma ** (t // self.step_size))


class MultiStepLR(Schedule):
    """``base·gamma^k``, k the number of milestones that have been passed."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, t: int, group: int) -> float:
        return float(base * self.gamma ** bisect_right(self.milestones, t))


class LinearLR(Schedule):
    """``base·f``, f from `start_factor` to `end_factor` in `total_iters` even steps, and constant afterwards: a warm-up."""

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1 / 3, end_factor: float = 1.0, total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1 or total_iters < 1:
            raise ValueError(f"LinearLR: factors are from 0 to 1, the first above 0, over at least one step; got "
                             f"{start_factor}, {end_factor} and {total_iters}; correct them")  # fmt: skip
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, t: int, group: int) -> float:
        share = min(t, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * share)


class CosineAnnealingLR(Schedule):
    """``eta_min + (base − eta_min)·(1 + cos(π·t/T_max))/2``."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        if T_max < 1:
            raise ValueError(f"CosineAnnealingLR: at least one step; got T_max {T_max}; pass the length of the run")
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, t: int, group: int) -> float:
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * t / self.T_max)) / 2


class OneCycleLR(Schedule):
    """Up from ``max_lr/div_factor`` to `max_lr` in the first `pct_start` of the steps, then down to nearly nothing.

    The momentum (or β₁) goes the other way, from `max_momentum` to `base_momentum` and back, unless `cycle_momentum` is
    False.

    Parameters
    ----------
    optimizer : Optimizer
    max_lr : the highest rate, one number or one per group
    total_steps : length of the cycle; or `epochs` times `steps_per_epoch`
    pct_start : share of the steps on which the rate rises
    anneal_strategy : "cos" or "linear"
    div_factor : max_lr ÷ first rate
    final_div_factor : first rate ÷ last rate
    three_phase : first back to the first rate, as slowly as it rose, then down to the last
    """

    def __init__(
        self, optimizer: Optimizer, max_lr: float | Sequence[float], total_steps: int | None = None,
        epochs: int | None = None, steps_per_epoch: int | None = None, pct_start: float = 0.3,
        anneal_strategy: str = "cos", cycle_momentum: bool = True, base_momentum: float = 0.85,
        max_momentum: float = 0.95, div_factor: float = 25.0, final_div_factor: float = 1e4, three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("OneCycleLR: a length is needed; got none; pass total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if total_steps < 1 or not 0 <= pct_start <= 1 or anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: total_steps from 1, pct_start from 0 to 1, anneal_strategy 'cos' or 'linear'; got "
                             f"{total_steps}, {pct_start} and {anneal_strategy!r}; correct them")  # fmt: skip
        self.total_steps, self.between = total_steps, _cosine if anneal_strategy == "cos" else _linear
        self.cycle_momentum = cycle_momentum
        groups = len(optimizer.param_groups)
        tops = [float(max_lr)] * groups if isinstance(max_lr, (int, float)) else [float(value) for value in max_lr]
        lows = [top / div_factor for top in tops]
        self.rates = [_phases(total_steps, pct_start, three_phase, low, top, low / final_div_factor)
                      for low, top in zip(lows, tops, strict=True)]  # fmt: skip
        self.momenta = _phases(total_steps, pct_start, three_phase, max_momentum, base_momentum, max_momentum)
        if last_epoch == -1:
            for group, low in zip(optimizer.param_groups, lows, strict=True):
                group["lr"] = group["initial_lr"] = low
        super().__init__(optimizer, last_epoch)

    def rate(self, base: float, t: int, group: int) -> float:
        if t > self.total_steps:
            raise ValueError(f"OneCycleLR: {self.total_steps} steps were planned; got step {t}; pass a larger total_steps")
        return _along(self.rates[group], t, self.between)

    def _set(self, group: Group, base: float, i: int) -> None:
        super()._set(group, base, i)
        if not self.cycle_momentum:
            return
        value = _along(self.momenta, self.last_epoch, self.between)
        if "betas" in group:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


Phases = list[tuple[float, float, float]]  # (last step, first value, last value)


def _phases(total: int, rise: float, three: bool, low: float, top: float, end: float) -> Phases:
    if three:
        turn = rise * total - 1
        return [(turn, low, top), (2 * turn, top, low), (total - 1, low, end)]
    return [(rise * total - 1, low, top), (total - 1, top, end)]


def _along(phases: Phases, t: int, between: Callable[[float, float, float], float]) -> float:
    began = 0.0
    for i, (end, first, last) in enumerate(phases):
        if t <= end or i == len(phases) - 1:
            return between(first, last, (t - began) / (end - began))
        began = end
    return phases[-1][2]


def _cosine(first: float, last: float, share: float) -> float:
    return last + (first - last) / 2 * (1 + math.cos(math.pi * share))


def _linear(first: float, last: float, share: float) -> float:
    return first + (last - first) * share
