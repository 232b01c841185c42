"""Cases of the optimiser updates: every rule, first and later steps, each option, no element and one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from lean_nn.cases import Array, Case, Make, normal, uniform

Rng = np.random.Generator
DType = np.dtype[Any]
Shape = tuple[int, ...]

COMMON = {"weight_decay": 0.0, "maximize": False}
DECAY = {"weight_decay": 0.125, "maximize": True}
MOMENTUM = {"momentum": 0.875, "dampening": 0.0, "nesterov": False}
ADAM = {"betas": (0.875, 0.96875), "eps": 1e-8, "decoupled": False}
RMSPROP = {"alpha": 0.75, "eps": 1e-8}
# the arrays each rule keeps: "m" any numbers, "v" positive ones, "c" small beside the "v" before it
SLOTS = {
    "sgd": "", "momentum": "m", "adam": "mv", "amsgrad": "mvv", "rmsprop": "v", "rmsprop_momentum": "vm",
    "rmsprop_centered": "vc", "rmsprop_centered_momentum": "vcm", "adagrad": "v",
}  # fmt: skip


def _slot(rng: Rng, dtype: DType, kind: str, shape: Shape) -> Array:
    if kind == "m":
        return normal(rng, dtype, *shape)
    return uniform(rng, dtype, 0.5, 2.0, *shape) if kind == "v" else uniform(rng, dtype, -0.5, 0.5, *shape)


def _arrays(rule: str, shape: Shape, step: int) -> Make:
    def make(rng: Rng, dtype: DType) -> tuple[Array, ...]:
        slots = [_slot(rng, dtype, kind, shape) for kind in SLOTS[rule]]
        numbers = np.array(0.0625, dtype), np.array(step, dtype)
        return normal(rng, dtype, *shape), normal(rng, dtype, *shape), *slots, *numbers

    return make


def _cases(rule: str, **variants: dict[str, Any]) -> Iterator[Case]:
    first = next(iter(variants.values()))
    yield Case("no element", f"{rule}_update", _arrays(rule, (0, 3), 1), first)
    yield Case("one element", f"{rule}_update", _arrays(rule, (), 2), first)
    for label, params in variants.items():
        yield Case(f"{label}, first step", f"{rule}_update", _arrays(rule, (3, 5), 1), params)
        yield Case(f"{label}, later", f"{rule}_update", _arrays(rule, (2, 3, 3), 7), params)
    yield Case("blocks", f"{rule}_update", _arrays(rule, (97, 101), 3), first, frozenset({"large"}))


CASES = [
    *_cases("sgd", plain=COMMON, decay=DECAY),
    *_cases("momentum", plain=MOMENTUM | COMMON, decay=MOMENTUM | DECAY,
            dampened=MOMENTUM | COMMON | {"dampening": 0.25}, nesterov=MOMENTUM | DECAY | {"nesterov": True}),
    *_cases("adam", plain=ADAM | COMMON, decay=ADAM | DECAY, decoupled=ADAM | DECAY | {"decoupled": True}),
    *_cases("amsgrad", plain=ADAM | COMMON, decay=ADAM | DECAY, decoupled=ADAM | DECAY | {"decoupled": True}),
    *_cases("rmsprop", plain=RMSPROP | COMMON, decay=RMSPROP | DECAY),
    *_cases("rmsprop_momentum", plain=RMSPROP | COMMON | {"momentum": 0.5}, decay=RMSPROP | DECAY | {"momentum": 0.5}),
    *_cases("rmsprop_centered", plain=RMSPROP | COMMON, decay=RMSPROP | DECAY),
    *_cases("rmsprop_centered_momentum", plain=RMSPROP | COMMON | {"momentum": 0.5}),
    *_cases("adagrad", plain={"lr_decay": 0.0, "eps": 1e-10} | COMMON, decay={"lr_decay": 0.25, "eps": 1e-10} | DECAY),
]  # fmt: skip
