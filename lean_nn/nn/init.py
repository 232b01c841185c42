"""First values of parameters: PyTorch's names, formulas and defaults, from one repeatable source of chance.

Numbers are drawn in float64 from NumPy's PCG64 and rounded to the parameter's dtype, so the two dtypes begin alike, and
the same seed gives the same bits on every run. The source is the one that `manual_seed` starts (0 until then), or a
``numpy.random.Generator`` of your own. Each function fills its Tensor in place and returns it.

``fan_in`` is the number of terms in one output's sum, ``fan_out`` the number of outputs one input enters; kaiming keeps
the variance of activations along fan_in, xavier between the two.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lean_nn import functional as F

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "manual_seed", "normal_", "ones_",
    "orthogonal_", "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip

Generator = np.random.Generator | None
_source = np.random.Generator(np.random.PCG64(0))


def manual_seed(seed: int) -> np.random.Generator:
    """Start all sources of chance anew: first values of parameters, and the seeds of dropout.

    Examples
    --------
    >>> import lean_nn as ln
    >>> first = ln.manual_seed(7) and ln.nn.Linear(2, 1).weight.numpy().copy()
    >>> again = ln.manual_seed(7) and ln.nn.Linear(2, 1).weight.numpy().copy()
    >>> (first == again).all().item()
    True
    """
    global _source
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"manual_seed: a whole number from 0; got {seed!r}; pass such a seed")
    F.manual_seed(int(seed))
    _source = np.random.Generator(np.random.PCG64(int(seed)))
    return _source


def _fill(tensor: Any, values: Any) -> Any:
    np.copyto(tensor.data, values, casting="same_kind")
    return tensor


def _draw(generator: Generator) -> np.random.Generator:
    return _source if generator is None else generator


def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Generator = None) -> Any:
    """U(a, b)."""
    return _fill(tensor, _draw(generator).uniform(a, b, tensor.shape))


def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Generator = None) -> Any:
    """N(mean, std²)."""
    return _fill(tensor, _draw(generator).normal(mean, std, tensor.shape))


def trunc_normal_(
    tensor: Any, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Generator = None
) -> Any:
    """N(mean, std²), drawn anew until it lies in [a, b]."""
    if not a < b or not (a - mean) / std < 6 or not (b - mean) / std > -6:
        raise ValueError(f"trunc_normal_: bounds within six deviations; got [{a}, {b}] for {mean} ± {std}; widen them")
    source = _draw(generator)
    values = source.normal(mean, std, tensor.shape)
    while (outside := (values < a) | (values > b)).any():
        values[outside] = source.normal(mean, std, int(outside.sum()))
    return _fill(tensor, values)


def constant_(tensor: Any, val: float) -> Any:
    """`val` everywhere."""
    return _fill(tensor, np.float64(val))


def ones_(tensor: Any) -> Any:
    """1 everywhere."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Any) -> Any:
    """0 everywhere."""
    return constant_(tensor, 0.0)


def eye_(tensor: Any) -> Any:
    """1 on the diagonal of a matrix, else 0."""
    if tensor.ndim != 2:
        raise ValueError(f"eye_: a matrix is needed; got shape {tensor.shape}; use dirac_ for kernels")
    return _fill(tensor, np.eye(*tensor.shape))


def dirac_(tensor: Any, groups: int = 1) -> Any:
    """A kernel that passes each input channel on unchanged, as far as there are output channels."""
    shape = tensor.shape
    if len(shape) < 3 or shape[0] % groups:
        raise ValueError(f"dirac_: a kernel (out, in, *k), out a multiple of groups; got shape {shape} and {groups}; correct it")
    values = np.zeros(shape)
    middle = tuple(n // 2 for n in shape[2:])
    each = shape[0] // groups
    for group in range(groups):
        for i in range(min(each, shape[1])):
            values[(group * each + i, i, *middle)] = 1.0
    return _fill(tensor, values)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """What an activation takes from the standard deviation, to be put back: √2 for relu, 5/3 for tanh, …

    Examples
    --------
    >>> from lean_nn import nn
    >>> round(nn.init.calculate_gain("relu"), 4)
    1.4142
    """
    table = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2.0), "selu": 0.75}
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity.startswith("conv"):
        return 1.0
    if nonlinearity not in table:
        raise ValueError(f"calculate_gain: one of {[*table, 'leaky_relu']}; got {nonlinearity!r}; choose one of them")
    return table[nonlinearity]


def fans(tensor: Any) -> tuple[int, int]:
    """(fan_in, fan_out) of a weight ``(out, in, *kernel)``."""
    shape = tensor.shape
    if len(shape) < 2:
        raise ValueError(f"init: a weight with two or more axes has fans; got shape {shape}; use uniform_ or normal_")
    cells = math.prod(shape[2:])
    return shape[1] * cells, shape[0] * cells


def _kaiming_std(tensor: Any, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"kaiming: mode is 'fan_in' or 'fan_out'; got {mode!r}; choose one of them")
    fan = fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if fan else 0.0


def kaiming_uniform_(
    tensor: Any, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Generator = None
) -> Any:
    """U(−b, b), b = gain·√(3/fan)."""
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Any, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Generator = None
) -> Any:
    """N(0, gain²/fan)."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Generator = None) -> Any:
    """U(−b, b), b = gain·√(6/(fan_in + fan_out))."""
    bound = gain * math.sqrt(6.0 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Generator = None) -> Any:
    """N(0, 2·gain²/(fan_in + fan_out))."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(fans(tensor))), generator)


def orthogonal_(tensor: Any, gain: float = 1.0, generator: Generator = None) -> Any:
    """gain times a matrix with orthonormal rows or columns, uniform among those; other axes than the first as one."""
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_: two or more axes; got shape {tensor.shape}; use normal_")
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    flat = _draw(generator).standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(flat)
    q = q * np.sign(np.diag(r))  # makes the distribution uniform
    return _fill(tensor, gain * (q if rows >= columns else q.T).reshape(tensor.shape))


def default_(weight: Any, bias: Any) -> None:
    """PyTorch's first values of a layer: U(−1/√fan_in, 1/√fan_in) for both."""
    kaiming_uniform_(weight, a=math.sqrt(5.0))
    if bias is not None:
        fan_in, _ = fans(weight)
        bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
        uniform_(bias, -bound, bound)
