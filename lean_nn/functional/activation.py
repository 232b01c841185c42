"""Elementwise functions and activations under PyTorch's names.

All take Tensors, NumPy arrays or numbers; a Python number takes the dtype of the arrays beside it. At kinks the
derivative is PyTorch's: 0 for relu and abs at 0, half to each side at a tie of maximum, 1 for clamp at its bounds.
"""

from __future__ import annotations

import math
from typing import Any

from lean_nn.convert import as_tensor
from lean_nn.ops import activation as ops
from lean_nn.ops import elementwise as ew

__all__ = [
    "abs", "add", "clamp", "clip", "div", "elu", "erf", "exp", "expm1", "gelu", "hardsigmoid", "hardswish",
    "leaky_relu", "log", "log1p", "maximum", "minimum", "mul", "neg", "pow", "relu", "sigmoid", "sign", "silu",
    "softplus", "sqrt", "sub", "tanh", "where",
]  # fmt: skip

Tensor = Any

# a primitive is called like a function; the doc strings are those of `lean_nn.spec`
add, sub, mul, div, neg, pow = ew.add, ew.sub, ew.mul, ew.div, ew.neg, ew.pow
exp, expm1, log, log1p, sqrt = ew.exp, ew.expm1, ew.log, ew.log1p, ew.sqrt
abs, sign, maximum, minimum = ew.abs, ew.sign, ew.maximum, ew.minimum
erf, tanh, sigmoid = ew.erf, ew.tanh, ew.sigmoid


def where(condition: Any, x: Any, y: Any) -> Tensor:
    """``x`` where the condition holds, else ``y``; the three broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.where(np.array([True, False]), np.array([1.0, 2.0]), 0.0).numpy()
    array([1., 0.])
    """
    return ew.where(condition, x, y)


def relu(x: Any) -> Tensor:
    """``max(x, 0)``; NaN stays NaN, the slope at 0 is 0.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.relu(np.array([-1.0, 2.0])).numpy()
    array([0., 2.])
    """
    return ew.relu(x)


def leaky_relu(x: Any, negative_slope: float = 0.01) -> Tensor:
    """``x`` where ``x > 0``, else ``negative_slope·x``.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.leaky_relu(np.array([-2.0, 2.0]), 0.25).numpy()
    array([-0.5,  2. ])
    """
    return ops.leaky_relu(x, slope=float(negative_slope))


def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """``x`` where ``x > 0``, else ``alpha·(exp(x) − 1)``.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.elu(np.array([-np.inf, 2.0])).numpy()
    array([-1.,  2.])
    """
    return ops.elu(x, alpha=float(alpha))


def gelu(x: Any, approximate: str = "none") -> Tensor:
    """``x·Φ(x)``; with ``approximate="tanh"``, ``x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))``.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.gelu(np.array([-1.0, 0.0, 1.0])).numpy().round(4)
    array([-0.1587,  0.    ,  0.8413])
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate is 'none' or 'tanh'; got {approximate!r}; choose one of them")
    return ops.gelu(x) if approximate == "none" else ops.gelu_tanh(x)


def silu(x: Any) -> Tensor:
    """``x·σ(x)``, also called swish.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.silu(np.array([0.0, 1.0])).numpy().round(4)
    array([0.    , 0.7311])
    """
    return ops.silu(x)


def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``log(1 + exp(beta·x))/beta``, and ``x`` itself where ``beta·x > threshold``.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.softplus(np.array([0.0, 30.0])).numpy().round(4)
    array([ 0.6931, 30.    ])
    """
    if not beta != 0 or math.isnan(beta):
        raise ValueError(f"softplus: beta is a number other than 0; got {beta}; use beta > 0")
    return ops.softplus(x, beta=float(beta), threshold=float(threshold))


def hardsigmoid(x: Any) -> Tensor:
    """``min(max(x + 3, 0), 6)/6``.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.hardsigmoid(np.array([-4.0, 0.0, 4.0])).numpy()
    array([0. , 0.5, 1. ])
    """
    return ops.hardsigmoid(x)


def hardswish(x: Any) -> Tensor:
    """``x·min(max(x + 3, 0), 6)/6``.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.hardswish(np.array([-4.0, 1.5, 4.0])).numpy()
    array([-0.   ,  1.125,  4.   ])
    """
    return ops.hardswish(x)


def clamp(x: Any, min: float | None = None, max: float | None = None) -> Tensor:
    """``min(max(x, min), max)``; a bound that is None is no bound, NaN stays NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import lean_nn.functional as F
    >>> F.clamp(np.array([-2.0, 0.5, 2.0]), -1.0, 1.0).numpy()
    array([-1. ,  0.5,  1. ])
    """
    low = -math.inf if min is None else float(min)
    high = math.inf if max is None else float(max)
    if math.isnan(low) or math.isnan(high):
        raise ValueError(f"clamp: bounds are numbers; got min {min} and max {max}; leave a bound out with None")
    return ew.clip(as_tensor(x, op="clamp"), low=low, high=high)


clip = clamp
