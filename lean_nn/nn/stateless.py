"""A Module as a function of its parameters and buffers: what transforms differentiate and `compile` traces.

While such a function runs, the Module's tables hold the Tensors it was given, and a `Scope` of this thread says where
dropout takes its seeds from and that the batch counters stay as they are. One Module is called this way by one thread at
a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from lean_nn import functional as F
from lean_nn.convert import as_tensor
from lean_nn.nn.module import Module
from lean_nn.primitive import FLOATS
from lean_nn.tensor import Tensor
from lean_nn_c import engine

__all__ = ["dropout_seeds", "functional_call", "pure"]

_MASK = 2**64 - 1


class Scope:
    """One call of a pure function: its seeds, how many were taken, and the counters that the call would have advanced."""

    def __init__(self, seed: Any) -> None:
        self.seed, self.drawn = seed, 0
        self.counters: list[Tensor] = []

    def next_seed(self) -> Any:
        """The seed of the next dropout in this call."""
        place, self.drawn = self.drawn, self.drawn + 1
        if self.seed is None:
            return None
        if isinstance(self.seed, int):
            return hashed(self.seed, place)
        if not self.seed.shape and isinstance(self.seed.data, np.ndarray):
            return hashed(self.seed.item(), place)
        if self.seed.ndim != 1 or place >= self.seed.shape[0]:
            raise ValueError(f"pure: one seed per dropout; got shape {self.seed.shape} for number {place}; pass "
                             f"nn.dropout_seeds(seed, n) with n the number of dropouts in one call")  # fmt: skip
        return F.reshape(self.seed[place : place + 1], ())


class _Scopes(threading.local):
    current: Scope | None = None


scopes = _Scopes()


def hashed(*numbers: int) -> int:
    """A whole number of 62 bits that depends on all of `numbers` and on their order (SplitMix64's mixing)."""
    z = 0
    for number in numbers:
        z = (z + (number & _MASK) + 0x9E3779B97F4A7C15) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        z ^= z >> 31
    return z >> 2


def dropout_seeds(seed: int, n: int) -> np.ndarray[Any, Any]:
    """n seeds, one for each dropout of one call: what a compiled function takes as its argument `seed`.

    Examples
    --------
    >>> from lean_nn import nn
    >>> seeds = nn.dropout_seeds(3, 2)
    >>> seeds.shape, seeds.dtype, seeds[0] == seeds[1]
    ((2,), dtype('int64'), np.False_)
    """
    return np.array([hashed(seed, place) for place in range(n)], np.int64)


@contextmanager
def _swapped(model: Module, state: Mapping[str, Any]) -> Iterator[None]:
    """The model's tables with the Tensors of `state` in place of its own, also where one is known by several names."""
    every = dict(_every_name(model))
    unknown = [name for name in state if name not in every]
    if unknown:
        raise ValueError(f"functional_call: names of parameters and buffers; got {unknown}; choose from {list(every)}")
    wanted = {id(every[name]): as_tensor(value, op="functional_call") for name, value in state.items()}
    for name in state:
        old, new = every[name], wanted[id(every[name])]
        if old.shape != new.shape:
            raise ValueError(f"functional_call: {name} has shape {old.shape}; got {new.shape}; pass one like it")
    undo: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for module in model.modules():
            for table in (module.__dict__["_parameters"], module.__dict__["_buffers"]):
                for name, value in table.items():
                    if id(value) in wanted:
                        undo.append((table, name, value))
                        table[name] = wanted[id(value)]
        yield
    finally:
        for table, name, value in undo:
            table[name] = value


def _every_name(model: Module) -> Iterator[tuple[str, Tensor]]:
    for path, module in model.named_modules():
        for table in (module._parameters, module._buffers):
            for name, value in table.items():
                if value is not None:
                    yield f"{path}.{name}" if path else name, value


def functional_call(model: Module, state: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
    """``model(*args)`` with the parameters and buffers in `state` instead of its own; those not named stay.

    Buffers that a call in training mode updates are updated in `state`, as in ``torch.func.functional_call``.

    Examples
    --------
    >>> import lean_nn as ln
    >>> from lean_nn import nn
    >>> model = nn.Linear(2, 1, bias=False)
    >>> nn.functional_call(model, {"weight": ln.tensor([[2.0, 3.0]])}, ln.tensor([[1.0, 1.0]]))
    tensor([[5.]])
    """
    with _swapped(model, state):
        return model(*args, **kwargs)


def pure(model: Module) -> tuple[Callable[..., Any], dict[str, Tensor], dict[str, Tensor]]:
    """``(call, params, buffers)``: the model as ``call(params, buffers, *args, seed=None) → (output, new buffers)``.

    Nothing is overwritten: the running statistics of batch norm come back as new buffers, dropout takes its seeds from
    `seed`. So `call` can be differentiated, and compiled into a training step. Counters (``num_batches_tracked``)
    count what the Module itself has seen; they are no part of it.

    `seed` is a number, or, in a compiled function, an int64 vector with one seed for each dropout: `dropout_seeds`.

    Examples
    --------
    >>> import lean_nn as ln
    >>> from lean_nn import nn
    >>> call, params, buffers = nn.pure(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
    >>> list(params), list(buffers)
    (['0.weight', '0.bias', '1.weight', '1.bias'], ['1.running_mean', '1.running_var'])
    >>> y, new = call(params, buffers, ln.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> y.shape, list(new)
    ((2, 3), ['1.running_mean', '1.running_var'])
    """
    def call(params: Mapping[str, Any], buffers: Mapping[str, Any], *args: Any, seed: Any = None) -> Any:
        numbered = seed is None or isinstance(seed, int)
        return call_in(Scope(seed if numbered else as_tensor(seed, op="pure")), model, params, buffers, *args)

    buffers = {name: b for name, b in model.named_buffers() if b.dtype in FLOATS}
    return call, dict(model.named_parameters()), buffers


@contextmanager
def scoped(scope: Scope) -> Iterator[Scope]:
    """Calls of Modules in this thread are parts of one pure call."""
    before, scopes.current = scopes.current, scope
    try:
        yield scope
    finally:
        scopes.current = before


def call_in(scope: Scope, model: Module, params: Mapping[str, Any], buffers: Mapping[str, Any], *args: Any) -> Any:
    """(output, new buffers) of one call of `pure`'s function; `scope` tells afterwards what it drew and counted."""
    fresh = {name: _apart(value) for name, value in buffers.items()}
    with scoped(scope):
        output = functional_call(model, {**params, **fresh}, *args)
    return output, fresh


def _apart(value: Any) -> Any:
    """A Tensor that can be updated while `value` stays: a copy, or while tracing another box around the same symbol."""
    data = value.data if isinstance(value, engine.Box) else value
    return engine.wrap(data.copy() if isinstance(data, np.ndarray) else data)
