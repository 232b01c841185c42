"""What all optimisers share. A rule says which primitive, which numbers and which arrays of its own; the rest is here.

Two ways to take a step, the same bits:

* ``optimizer.step()`` after ``loss.backward()`` overwrites the parameters and the optimiser's arrays where they lie.
* ``params, state = optimizer.update(params, grads, state)`` is a pure function of trees of Tensors, made of primitives:
  what the graph compiler traces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from lean_nn import tree
from lean_nn.autodiff.modes import enable_grad
from lean_nn.convert import as_tensor_like, filled, scalar_array
from lean_nn.device import to_host
from lean_nn.ops.elementwise import add
from lean_nn.ops.optim import in_place
from lean_nn.primitive import FLOATS, OBJECT, Primitive
from lean_nn.tensor import Tensor

Group = dict[str, Any]


class Rule(NamedTuple):
    """One way to update: the primitive, its numbers, and the names (with first values) of the arrays it keeps."""

    primitive: Primitive
    numbers: dict[str, Any]
    slots: dict[str, float]


class Optimizer:
    """Parameters in groups, each with its own settings, and what is remembered of each parameter.

    Parameters
    ----------
    params : Tensors with `requires_grad`, or dicts ``{"params": [...], "lr": ...}``, each a group with settings of its own
    defaults : the settings of groups that do not say otherwise

    Attributes
    ----------
    param_groups : list of dicts; ``group["lr"]`` and the others may be changed between steps
    state : {parameter: {"step": …, …}}
    """

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.param_groups: list[Group] = []
        self.state: dict[Any, dict[str, Any]] = {}
        if isinstance(params, Tensor):
            raise TypeError("optimizer: an iterable of Tensors or of dicts is needed; got one Tensor; pass [tensor]")
        given = list(params.values() if isinstance(params, Mapping) else params)
        if not given:
            raise ValueError("optimizer: at least one parameter is needed; got none; pass model parameters")
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)

    def _rule(self, group: Group) -> Rule:
        raise NotImplementedError

    def add_param_group(self, group: Group) -> None:
        """Take on further parameters, with settings of their own."""
        params = group["params"]
        own = [params] if isinstance(params, Tensor) else list(params)
        known = {id(p) for other in self.param_groups for p in other["params"]}
        for p in own:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer: parameters are Tensors; got {type(p).__name__}; wrap it with ln.tensor")
            if p.node is not None or (p.dtype not in FLOATS and p.dtype != OBJECT):
                raise ValueError(f"optimizer: parameters are leaves of float data; got {p.dtype}; use .detach()")
            if id(p) in known:
                raise ValueError("optimizer: a parameter is in one group only; got one twice; leave it out of one")
            known.add(id(p))
        unknown = set(group) - set(self.defaults) - {"params", "initial_lr"}
        if unknown:
            raise ValueError(f"optimizer: settings are {sorted(self.defaults)}; got {sorted(unknown)}; correct the name")
        complete = {**self.defaults, **group, "params": own}
        self._check(complete)
        self.param_groups.append(complete)

    def _check(self, group: Group) -> None:
        """Refuse settings that mean nothing."""
        name = type(self).__name__
        for key in ("lr", "eps", "weight_decay", "momentum", "alpha", "lr_decay", "initial_accumulator_value"):
            if key in group and not group[key] >= 0:
                raise ValueError(f"{name}: {key} is not negative; got {group[key]}; pass 0 or more")
        for beta in group.get("betas", ()):
            if not 0 <= beta < 1:
                raise ValueError(f"{name}: betas are from 0 to below 1; got {group['betas']}; pass two such numbers")

    # --- in place ---

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients (or fill them with zeros)."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    p.grad.data[...] = 0

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; `closure` computes the loss anew and is returned.

        The arrays of the parameters are overwritten: what was recorded before and kept with ``retain_graph`` is stale.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            rule, known = self._rule(group), dict[Any, Any]()
            for p in group["params"]:
                if p.grad is not None:
                    self._step_one(rule, p, group["lr"], known)
        return loss

    def _step_one(self, rule: Rule, p: Any, lr: float, known: dict[Any, Any]) -> None:
        """`known` are the numbers of this step as arrays: most parameters share them."""
        state = self.state.get(p)
        if state is None:
            state = self.state[p] = {"step": 0}
        for name, start in rule.slots.items():
            if name not in state:
                state[name] = _filled(p, start)
        state["step"] += 1
        data, count = p.data, state["step"]
        key = count, data.dtype == OBJECT
        if key not in known:
            known[key] = _number(lr, data.dtype), _number(count, data.dtype)
        in_place(rule.primitive, (data, p.grad.data, *[state[name].data for name in rule.slots], *known[key]), rule.numbers)

    # --- as a pure function ---

    def init(self, params: Any) -> dict[str, Any]:
        """The state before the first `update`: a tree of Tensors.

        ``state["lr"]`` holds the learning rate of each group and may be replaced between steps, as may any leaf.
        """
        first = tree.leaves(params)[0]
        return {
            "step": as_tensor_like(np.array(0.0), first),
            "lr": [as_tensor_like(np.array(float(group["lr"])), first) for group in self.param_groups],
            "slots": [
                {name: _filled(p, start) for name, start in rule.slots.items()}
                for p, (rule, _) in zip(tree.leaves(params), self._by_parameter(params), strict=True)
            ],
        }

    def shared_state(self) -> dict[str, Any]:
        """The state for `update`, made of the optimiser's own arrays, so that a program may keep them in place.

        Afterwards `count_steps` tells the optimiser how many steps the program has taken.
        """
        params = self._parameters()
        for p, (rule, _) in zip(params, self._by_parameter(params), strict=True):
            own = self.state.setdefault(p, {"step": 0})
            for name, start in rule.slots.items():
                if name not in own:
                    own[name] = _filled(p, start)
        counts = {self.state[p]["step"] for p in params}
        if len(counts) > 1:
            raise ValueError(f"optimizer: a pure update counts the same steps for all parameters; got {sorted(counts)}; "
                             f"give parameters without a gradient an optimiser of their own")  # fmt: skip
        return {
            **self.init(params), "step": as_tensor_like(np.array(float(counts.pop())), params[0]),
            "slots": [{name: self.state[p][name] for name in rule.slots}
                      for p, (rule, _) in zip(params, self._by_parameter(params), strict=True)],
        }  # fmt: skip

    def count_steps(self, steps: int) -> None:
        """All parameters have taken so many steps in all."""
        for own in self.state.values():
            own["step"] = steps

    def update(self, params: Any, grads: Any, state: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(new parameters, new state), both of the given form; nothing is overwritten.

        `params` has the leaves, in number and order, that the optimiser was made with: each takes the settings of its group.
        """
        if tree.form(params) != tree.form(grads):
            raise ValueError(f"update: gradients have the form of the parameters {tree.form(params)}; "
                             f"got {tree.form(grads)}; pass one per parameter")  # fmt: skip
        step = add(state["step"], 1.0)
        new, kept = [], []
        for p, g, own, (rule, at) in zip(
            tree.leaves(params), tree.leaves(grads), state["slots"], self._by_parameter(params), strict=True
        ):
            result = rule.primitive(p, g, *own.values(), state["lr"][at], step, **rule.numbers)
            first, *slots = result if isinstance(result, tuple) else (result,)
            new.append(first)
            kept.append(dict(zip(own, slots, strict=True)))
        return tree.rebuild(params, new), {"step": step, "lr": state["lr"], "slots": kept}

    def _by_parameter(self, params: Any) -> list[tuple[Rule, int]]:
        """(rule, number of the group) of each leaf."""
        found = []
        for at, group in enumerate(self.param_groups):
            found += [(self._rule(group), at)] * len(group["params"])
        if len(found) != len(tree.leaves(params)):
            raise ValueError(f"update: as many parameters as the optimiser has; got {len(tree.leaves(params))} for "
                             f"{len(found)}; pass the same tree")  # fmt: skip
        return found

    # --- state in and out ---

    def state_dict(self) -> dict[str, Any]:
        """Settings and state as plain containers, parameters by their number: PyTorch's layout."""
        place = {id(p): i for i, p in enumerate(self._parameters())}
        groups = [{**group, "params": [place[id(p)] for p in group["params"]]} for group in self.param_groups]
        state = {place[id(p)]: dict(own) for p, own in self.state.items() if id(p) in place}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave; arrays are copied in the parameters' dtypes. An error changes nothing.

        Settings that this optimiser does not have (PyTorch's ``foreach``, say, which means nothing here) are left out.
        """
        given = [dict(group) for group in state_dict["param_groups"]]
        sizes = [len(group["params"]) for group in given]
        if sizes != [len(group["params"]) for group in self.param_groups]:
            raise ValueError(f"load_state_dict: groups of the same sizes; got {sizes} for "
                             f"{[len(g['params']) for g in self.param_groups]}; make the optimiser alike")  # fmt: skip
        known = {*self.defaults, "initial_lr"}
        settings = [{key: value for key, value in group.items() if key in known} for group in given]
        groups = [{**group, **new} for group, new in zip(self.param_groups, settings, strict=True)]
        for group in groups:
            self._check(group)
        params = self._parameters()
        slots = [set(self._rule(group).slots) for group in groups for _ in group["params"]]
        state = {}
        for i, own in ((int(i), own) for i, own in state_dict["state"].items()):
            if not 0 <= i < len(params) or set(own) - slots[i] - {"step"} or "step" not in own:
                wanted = ["step", *sorted(slots[i])] if 0 <= i < len(params) else f"at most {len(params)} parameters"
                raise ValueError(f"load_state_dict: parameter {i} of {type(self).__name__} has {wanted}; got {sorted(own)}; "
                                 f"load the state of an optimiser like it")  # fmt: skip
            state[params[i]] = _copied(params[i], own)
        for group, new in zip(self.param_groups, settings, strict=True):
            group.update(new)
        self.state = state

    def _parameters(self) -> list[Any]:
        return [p for group in self.param_groups for p in group["params"]]


def _number(value: float, dtype: np.dtype[Any]) -> Any:
    return scalar_array(value, OBJECT if dtype == OBJECT else FLOATS[1])


def _filled(p: Any, value: float) -> Any:
    return filled(p.shape, value, p)


def _copied(p: Any, own: Mapping[str, Any]) -> dict[str, Any]:
    copy: dict[str, Any] = {}
    for name, value in own.items():
        if name == "step":
            copy[name] = int(value)
            continue
        array = np.array(to_host(value.data if isinstance(value, Tensor) else value), p.dtype)
        if array.shape != p.shape:
            raise ValueError(f"load_state_dict: {name} has its parameter's shape {p.shape}; got {array.shape}; "
                             f"load the state of this model")  # fmt: skip
        copy[name] = as_tensor_like(array, p)
    return copy
