"""Neural networks on the CPU: small, fast, exact about meaning, the same bits on every run.

==================  =========================================================================================
``ln.tensor``       an array that operations can be recorded on: ``Tensor``
``ln.functional``   the operators, with PyTorch's names and argument order
``ln.Tape``         record once, push tangents forward, pull cotangents back
``ln.grad`` …       functions from functions: derivatives in either mode, nestable in any order
``ln.compile``      a function as a program: fused, all memory planned; ``ln.GraphBuilder`` the same by hand
``ln.nn``           layers, initialisers, losses and whole models under PyTorch's names
``ln.optim``        optimisers, learning-rate schedules, gradient clipping
``ln.data``         the digits, splits, loaders, augmentation
``ln.fit``          train a model: compiled steps, metrics, checkpoints; ``ln.training``, ``ln.viz`` the rest of it
``ln.io``           weights in files: .npz, .safetensors, PyTorch's
``ln.spec``         the executable specification: what every operator means, on any kind of number
``ln.testing``      the checks that every primitive passes, for yours as well
==================  =========================================================================================
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from lean_nn._version import __version__

_collecting = gc.isenabled()
gc.disable()  # NumPy and the engine make thousands of objects and no garbage: looking for some would take 10 ms
try:
    from lean_nn_c import engine as _engine
finally:
    if _collecting:
        gc.enable()

if TYPE_CHECKING:
    from lean_nn import data, functional, io, nn, optim, spec, testing, training, viz
    from lean_nn.autodiff.modes import enable_grad, is_grad_enabled, no_grad
    from lean_nn.autodiff.tape import Tape
    from lean_nn.config import show_config
    from lean_nn.graph import GraphBuilder, Program, compile, load_program
    from lean_nn.nn import manual_seed
    from lean_nn.precision import get_precision, set_precision
    from lean_nn.primitive import GraphError
    from lean_nn.tensor import Tensor, from_dlpack, from_numpy, tensor
    from lean_nn.threads import get_num_threads, num_threads, set_num_threads
    from lean_nn.training import fit
    from lean_nn.transforms import grad, hessian, hvp, jacfwd, jacrev, jvp, linearize, value_and_grad, vjp

__all__ = [
    "GraphBuilder", "GraphError", "Program", "Tape", "Tensor", "__version__", "compile", "data", "enable_grad", "fit",
    "from_dlpack", "from_numpy", "functional", "get_num_threads", "get_precision", "grad", "hessian", "hvp", "io",
    "is_grad_enabled", "jacfwd", "jacrev", "jvp", "linearize", "load_program", "manual_seed", "nn", "no_grad",
    "num_threads", "optim", "set_num_threads", "set_precision", "show_config", "spec", "tensor", "testing",
    "training", "value_and_grad", "viz", "vjp",
]  # fmt: skip

# Rooms are opened when one of their names is first asked for: a command that only predicts imports a third of the house.
_ROOMS = {
    "autodiff.modes": ("enable_grad", "is_grad_enabled", "no_grad"),
    "autodiff.tape": ("Tape",),
    "config": ("show_config",),
    "graph": ("GraphBuilder", "Program", "compile", "load_program"),
    "nn": ("manual_seed",),
    "precision": ("get_precision", "set_precision"),
    "primitive": ("GraphError",),
    "tensor": ("Tensor", "from_dlpack", "from_numpy", "tensor"),
    "threads": ("get_num_threads", "num_threads", "set_num_threads"),
    "training": ("fit",),
    "transforms": ("grad", "hessian", "hvp", "jacfwd", "jacrev", "jvp", "linearize", "value_and_grad", "vjp"),
}
_LAZY = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'lean_nn' has no attribute {name!r}")
    module = import_module(f"lean_nn.{_LAZY.get(name, name)}")
    value = getattr(module, name) if name in _LAZY else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """Python enters a module in its package when it is imported; ``lean_nn.tensor`` stays the function of that name."""

    def __setattr__(self, name: str, value: object) -> None:
        if name == "tensor" and isinstance(value, ModuleType):
            value = value.tensor
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
_engine.open_with(lambda: import_module("lean_nn.tensor"))
