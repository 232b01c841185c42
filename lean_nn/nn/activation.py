"""Activations as layers. `inplace` is accepted as in PyTorch and changes nothing: a Tensor is never overwritten by an
operation, and a compiled program works in place wherever it can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lean_nn import functional as F
from lean_nn.nn.module import Module

__all__ = [
    "ELU", "GELU", "Hardsigmoid", "Hardswish", "LeakyReLU", "LogSoftmax", "ReLU", "ReLU6", "SiLU", "Sigmoid", "Softmax",
    "Softplus", "Tanh",
]  # fmt: skip


class _Plain(Module):
    """A function without settings."""

    function: Callable[[Any], Any]

    def forward(self, x: Any) -> Any:
        return type(self).function(x)


class _InPlace(_Plain):
    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_InPlace):
    """``max(x, 0)``."""

    function = staticmethod(F.relu)


class ReLU6(_InPlace):
    """``min(max(x, 0), 6)``."""

    function = staticmethod(lambda x: F.minimum(F.relu(x), 6.0))


class SiLU(_InPlace):
    """``x·σ(x)``."""

    function = staticmethod(F.silu)


class Hardswish(_InPlace):
    """``x·min(max(x + 3, 0), 6)/6``."""

    function = staticmethod(F.hardswish)

    def extra_repr(self) -> str:
        return ""


class Hardsigmoid(Hardswish):
    """``min(max(x + 3, 0), 6)/6``."""

    function = staticmethod(F.hardsigmoid)


class Sigmoid(_Plain):
    """``1/(1 + exp(−x))``."""

    function = staticmethod(F.sigmoid)


class Tanh(_Plain):
    """``tanh x``."""

    function = staticmethod(F.tanh)


class GELU(Module):
    """``x·Φ(x)``, or its approximation by "tanh"."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        if approximate not in ("none", "tanh"):
            raise ValueError(f"GELU: approximate is 'none' or 'tanh'; got {approximate!r}; choose one of them")
        self.approximate = approximate

    def forward(self, x: Any) -> Any:
        return F.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class LeakyReLU(Module):
    """``x`` where ``x > 0``, else ``negative_slope·x``."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, x: Any) -> Any:
        return F.leaky_relu(x, self.negative_slope)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}{', inplace=True' if self.inplace else ''}"


class ELU(Module):
    """``x`` where ``x > 0``, else ``alpha·(exp(x) − 1)``."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, x: Any) -> Any:
        return F.elu(x, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}{', inplace=True' if self.inplace else ''}"


class Softplus(Module):
    """``log(1 + exp(beta·x))/beta``, and ``x`` itself where ``beta·x > threshold``."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, x: Any) -> Any:
        return F.softplus(x, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Softmax(Module):
    """``exp(x)/Σ exp(x)`` along `dim`."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Any) -> Any:
        return F.softmax(x, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """``x − log Σ exp(x)`` along `dim`."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Any) -> Any:
        return F.log_softmax(x, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"
