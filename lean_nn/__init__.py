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

from lean_nn import functional
from lean_nn._version import __version__
from lean_nn.autodiff.modes import enable_grad, is_grad_enabled, no_grad
from lean_nn.autodiff.tape import Tape
from lean_nn.config import show_config
from lean_nn.ops import optim as _updates  # noqa: F401  # enters the updates in the registry
from lean_nn.precision import get_precision, set_precision
from lean_nn.primitive import GraphError
from lean_nn.tensor import Tensor, from_dlpack, from_numpy, tensor
from lean_nn.threads import get_num_threads, num_threads, set_num_threads
from lean_nn.transforms import grad, hessian, hvp, jacfwd, jacrev, jvp, linearize, value_and_grad, vjp

__all__ = [
    "GraphBuilder", "GraphError", "Program", "Tape", "Tensor", "__version__", "compile", "data", "enable_grad", "fit",
    "from_dlpack", "from_numpy", "functional", "get_num_threads", "get_precision", "grad", "hessian", "hvp", "io",
    "is_grad_enabled", "jacfwd", "jacrev", "jvp", "linearize", "load_program", "manual_seed", "nn", "no_grad",
    "num_threads", "optim", "set_num_threads", "set_precision", "show_config", "spec", "tensor", "testing",
    "training", "value_and_grad", "viz", "vjp",
]  # fmt: skip


# Rooms that are opened when they are first asked for: importing lean_nn stays quick.
_LAZY = {
    "GraphBuilder": "graph", "Program": "graph", "compile": "graph", "load_program": "graph",
    "data": "data",
    "fit": "training", "training": "training", "viz": "viz",
    "io": "io",
    "manual_seed": "nn", "nn": "nn",
    "optim": "optim",
    "spec": "spec", "testing": "testing",
}  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'lean_nn' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f"lean_nn.{_LAZY[name]}")
    return module if name == _LAZY[name] else getattr(module, name)
