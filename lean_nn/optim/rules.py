"""The optimisers: settings under PyTorch's names, and the primitive that each turns them into."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lean_nn.ops import optim as ops
from lean_nn.optim.optimizer import Group, Optimizer, Rule

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "RMSprop"]


def _common(group: Group) -> dict[str, Any]:
    return {"weight_decay": float(group["weight_decay"]), "maximize": bool(group["maximize"])}


class SGD(Optimizer):
    """``p ← p − lr·v``, v = momentum·v + (1 − dampening)·d, d = gradient + weight_decay·p.

    Parameters
    ----------
    params : iterable of Tensors, or of dicts, each a group with settings of its own
    lr : learning rate
    momentum : share of the last direction that is kept
    dampening : share of the gradient that is left out of the direction, from the second step on
    weight_decay : share of the parameter that is added to its gradient
    nesterov : go d + momentum·v instead of v
    maximize : climb instead of descending

    Examples
    --------
    >>> import lean_nn as ln
    >>> x = ln.tensor([3.0], requires_grad=True)
    >>> optimizer = ln.optim.SGD([x], lr=0.25)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([1.5], requires_grad=True)
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0.0, dampening: float = 0.0,
        weight_decay: float = 0.0, nesterov: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        settings = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                    "nesterov": nesterov, "maximize": maximize}  # fmt: skip
        super().__init__(params, settings)

    def _check(self, group: Group) -> None:
        super()._check(group)
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError(f"SGD: Nesterov's way has momentum and no dampening; got {group['momentum']} and "
                             f"{group['dampening']}; change one of the three")  # fmt: skip

    def _rule(self, group: Group) -> Rule:
        if group["momentum"] == 0:
            return Rule(ops.sgd, _common(group), {})
        numbers = {"momentum": float(group["momentum"]), "dampening": float(group["dampening"]),
                   "nesterov": bool(group["nesterov"]), **_common(group)}  # fmt: skip
        return Rule(ops.momentum, numbers, {"momentum_buffer": 0.0})


class Adam(Optimizer):
    """``p ← p − lr·m̂/(√v̂ + eps)``: running means of the gradient and of its square, each divided by 1 − βᵗ.

    Parameters
    ----------
    params : iterable of Tensors, or of dicts, each a group with settings of its own
    lr : learning rate
    betas : what the two running means keep of themselves at a step
    eps : added to the denominator
    weight_decay : share of the parameter that is added to its gradient
    amsgrad : divide by the largest v so far
    maximize : climb instead of descending

    Examples
    --------
    >>> import lean_nn as ln
    >>> x = ln.tensor([3.0], requires_grad=True)
    >>> optimizer = ln.optim.Adam([x], lr=0.5)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([2.5], requires_grad=True)
    """

    decoupled = False

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0.0, amsgrad: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        settings = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
                    "maximize": maximize}  # fmt: skip
        super().__init__(params, settings)

    def _rule(self, group: Group) -> Rule:
        beta1, beta2 = group["betas"]
        numbers = {"betas": (float(beta1), float(beta2)), "eps": float(group["eps"]),
                   "decoupled": self.decoupled, **_common(group)}  # fmt: skip
        slots = {"exp_avg": 0.0, "exp_avg_sq": 0.0}
        if group["amsgrad"]:
            return Rule(ops.amsgrad, numbers, {**slots, "max_exp_avg_sq": 0.0})
        return Rule(ops.adam, numbers, slots)


class AdamW(Adam):
    """`Adam` whose decay is no part of the gradient: ``p ← p·(1 − lr·weight_decay)`` before the step."""

    decoupled = True

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)


class RMSprop(Optimizer):
    """``p ← p − lr·d/(√v + eps)``, v a running mean of d²; centred: of d² less the running mean of d, squared.

    Parameters
    ----------
    params : iterable of Tensors, or of dicts, each a group with settings of its own
    lr : learning rate
    alpha : what the running means keep of themselves at a step
    eps : added to the denominator
    weight_decay : share of the parameter that is added to its gradient
    momentum : share of the last direction that is kept
    centered : divide by the standard deviation of the gradient and not by the root of its mean square
    maximize : climb instead of descending
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0.0,
        momentum: float = 0.0, centered: bool = False, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        settings = {"lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
                    "weight_decay": weight_decay, "maximize": maximize}  # fmt: skip
        super().__init__(params, settings)

    def _rule(self, group: Group) -> Rule:
        numbers = {"alpha": float(group["alpha"]), "eps": float(group["eps"]), **_common(group)}
        slots = {"square_avg": 0.0, **({"grad_avg": 0.0} if group["centered"] else {})}
        if group["momentum"] == 0:
            return Rule(ops.rmsprop_centered if group["centered"] else ops.rmsprop, numbers, slots)
        numbers["momentum"] = float(group["momentum"])
        rule = ops.rmsprop_centered_momentum if group["centered"] else ops.rmsprop_momentum
        return Rule(rule, numbers, {**slots, "momentum_buffer": 0.0})


class Adagrad(Optimizer):
    """``p ← p − lr/(1 + (t − 1)·lr_decay)·d/(√v + eps)``, v the sum of all d² so far.

    Parameters
    ----------
    params : iterable of Tensors, or of dicts, each a group with settings of its own
    lr : learning rate
    lr_decay : how fast the rate falls
    weight_decay : share of the parameter that is added to its gradient
    initial_accumulator_value : what v begins with
    eps : added to the denominator
    maximize : climb instead of descending
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, lr_decay: float = 0.0, weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0, eps: float = 1e-10, *, maximize: bool = False,
    ) -> None:  # fmt: skip
        settings = {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
                    "initial_accumulator_value": initial_accumulator_value, "maximize": maximize}  # fmt: skip
        super().__init__(params, settings)

    def _rule(self, group: Group) -> Rule:
        numbers = {"lr_decay": float(group["lr_decay"]), "eps": float(group["eps"]), **_common(group)}
        return Rule(ops.adagrad, numbers, {"sum": float(group["initial_accumulator_value"])})
