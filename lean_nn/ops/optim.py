"""Optimiser updates, one primitive per rule: ``update(p, g, *slots, lr, step, **numbers) → (p', *slots')``.

The optimiser's own arrays (momentum, averages) are *slots*: arguments and results, not hidden state. The learning rate and
the number of the step are arrays without axes, so that a compiled program serves every step. A kernel makes one pass
over memory and its outputs may be its inputs: an optimiser passes the parameter's own array as the output.

An update has no derivative rules: differentiating through a training step is an error, not a silent zero.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from lean_nn.backend.cpu_reduce import FLOAT64
from lean_nn.device import CPU, common_device
from lean_nn.primitive import OBJECT, Aval, Primitive, Within, check_float, check_same_float, evaluate, primitive
from lean_nn.spec.optim import ELEMENTS, update
from lean_nn.spec.rounded import Rounded
from lean_nn_c import elementwise as kernels
from lean_nn_c.engine import step_for
from lean_nn_c.step import Step

Numbers = tuple[float, ...]

# --- the numbers of a family of rules, in the order of `numbers_of` in lean_nn_c/elementwise.pyx ---


def _plain(*, weight_decay: float, maximize: bool) -> Numbers:
    return weight_decay, -1.0 if maximize else 1.0


def _momentum(*, momentum: float, dampening: float, nesterov: bool, **common: Any) -> Numbers:
    return *_plain(**common), momentum, dampening, float(nesterov)


def _adam(*, betas: tuple[float, float], eps: float, decoupled: bool, **common: Any) -> Numbers:
    return *_plain(**common), *betas, eps, float(decoupled)


def _rmsprop(*, alpha: float, eps: float, momentum: float = 0.0, **common: Any) -> Numbers:
    return *_plain(**common), alpha, eps, momentum


def _adagrad(*, lr_decay: float, eps: float, **common: Any) -> Numbers:
    return *_plain(**common), eps, lr_decay


# --- the records ---


def _abstract(op: str, *avals: Aval, slots: int) -> tuple[Aval, ...]:
    if len(avals) != slots + 4:
        raise ValueError(f"{op}: parameter, gradient, {slots} slots, rate and step; got {len(avals)} arrays; pass all")
    *full, lr, step = avals
    dtype = check_same_float(op, *full)
    for name, aval in (("rate", lr), ("step", step)):
        check_float(op, aval)
        if aval.shape != () or (aval.dtype == OBJECT) != (dtype == OBJECT):
            raise ValueError(f"{op}: the {name} is one number; got shape {aval.shape} of {aval.dtype}; pass a scalar")
    if len({aval.shape for aval in full}) > 1:
        shapes = ", ".join(str(aval.shape) for aval in full)
        raise ValueError(f"{op}: parameter, gradient and slots have one shape; got {shapes}; pass the parameter's own")
    return tuple(full[:1] * (slots + 1))


def _bound(name: str) -> Callable[..., Any]:
    def bound(u: float, *arrays: Any, **params: Any) -> Any:
        """each operation of the formula rounds twice at most, carried through to first order (`lean_nn/spec/rounded.py`)"""
        *full, lr, step = arrays
        flat = zip(*(a.reshape(-1).tolist() for a in full), strict=True)
        rounded = [ELEMENTS[name](*[Rounded(v, 0.0, u) for v in values], float(lr), float(step), **params) for values in flat]
        tiny = float(np.finfo(np.float32).tiny)  # a product may underflow
        errors = [np.array([2 * values[k].error + tiny for values in rounded]) for k in range(len(full) - 1)]
        return errors if len(errors) > 1 else errors[0]

    return bound


def _rule(name: str, slots: int, numbers: Callable[..., Numbers]) -> Primitive:
    op, family = f"{name}_update", numbers.__name__[1:]

    def abstract(*avals: Aval, **params: Any) -> Any:
        outs = _abstract(op, *avals, slots=slots)
        return outs if slots else outs[0]

    def spec(*arrays: Any, **params: Any) -> Any:
        outs = update(name, *arrays, **params)
        return outs if slots else outs[0]

    def step(*avals: Aval, out: tuple[Aval, ...], **params: Any) -> Step:
        wide, wide_rate, wide_count = (aval.dtype == FLOAT64 for aval in (avals[0], avals[-2], avals[-1]))
        given = tuple(map(float, numbers(**params)))
        return kernels.update_step(name, wide, prod(avals[0].shape), wide_rate, wide_count, family, given)

    def cuda(*arrays: Any, out: Any, **params: Any) -> None:
        from lean_nn.backend.cuda import optim as formulas  # CuPy is there: its arrays have come this far

        *full, lr, count = arrays
        c = kernels.update_numbers(family, numbers(**params), lr.item(), count.item())
        formulas.update(name, tuple(full), out if slots else (out,), c)

    return primitive(op, abstract=abstract, spec=spec, cuda=cuda, step=step,
                     differentiable_out=(True,) * (slots + 1), accuracy=Within(_bound(name)), pointwise=())  # fmt: skip


sgd: Primitive = _rule("sgd", 0, _plain)
momentum: Primitive = _rule("momentum", 1, _momentum)
adam: Primitive = _rule("adam", 2, _adam)
amsgrad: Primitive = _rule("amsgrad", 3, _adam)
rmsprop: Primitive = _rule("rmsprop", 1, _rmsprop)
rmsprop_momentum: Primitive = _rule("rmsprop_momentum", 2, _rmsprop)
rmsprop_centered: Primitive = _rule("rmsprop_centered", 2, _rmsprop)
rmsprop_centered_momentum: Primitive = _rule("rmsprop_centered_momentum", 3, _rmsprop)
adagrad: Primitive = _rule("adagrad", 1, _adagrad)


def in_place(rule: Primitive, arrays: tuple[Any, ...], params: dict[str, Any]) -> None:
    """Apply `rule` to arrays; parameter and slots are overwritten with what becomes of them."""
    own = (arrays[0], *arrays[2:-2])
    step = step_for(rule, [*arrays], params)
    if step is not None:
        step(*arrays, *own)
        return
    device = common_device(rule.name, arrays[:-2])
    if arrays[0].dtype != OBJECT and device != CPU and rule.cuda is not None:
        rule.abstract(*[Aval(a.shape, a.dtype) for a in arrays], **params)
        rule.cuda(*arrays, out=own if rule.outputs > 1 else own[0], **params)
        return
    new = evaluate(rule, arrays, params)
    for array, value in zip(own, new if rule.outputs > 1 else (new,), strict=True):
        array[...] = value
