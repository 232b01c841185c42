"""The operators with PyTorch's names and argument order; Tensors and NumPy arrays alike.

==================  ======================================================================================
``conv``            conv, conv1d … conv3d, conv_transpose …, unfold, fold
``pool``            max_pool …, avg_pool …, smooth_max_pool …; ``adaptive_pool`` the adaptive ones
``linear``          matmul, linear
``shape``           reshape, transpose, concat, stack, split, pad, flip, gather, scatter_add, take, cast
``indexing``        index: what ``x[...]`` means
``activation``      exp, log, maximum, where, clamp, … relu, gelu, silu, softplus, hardswish, …
``reduce``          sum, mean, var, max, min, argmax, argmin, logsumexp, softmax, log_softmax
``norm``            batch_norm, layer_norm, group_norm; dropout and its seeds
``loss``            mse, l1, huber, smooth_l1, cross_entropy, nll, binary_cross_entropy_with_logits
==================  ======================================================================================

A family's own ``__all__`` is the list of what it adds here.
"""

from lean_nn.functional.activation import *
from lean_nn.functional.activation import __all__ as _activation
from lean_nn.functional.adaptive_pool import *
from lean_nn.functional.adaptive_pool import __all__ as _adaptive_pool
from lean_nn.functional.conv import *
from lean_nn.functional.conv import __all__ as _conv
from lean_nn.functional.indexing import *
from lean_nn.functional.indexing import __all__ as _indexing
from lean_nn.functional.linear import *
from lean_nn.functional.linear import __all__ as _linear
from lean_nn.functional.loss import *
from lean_nn.functional.loss import __all__ as _loss
from lean_nn.functional.norm import *
from lean_nn.functional.norm import __all__ as _norm
from lean_nn.functional.pool import *
from lean_nn.functional.pool import __all__ as _pool
from lean_nn.functional.reduce import *
from lean_nn.functional.reduce import __all__ as _reduce
from lean_nn.functional.shape import *
from lean_nn.functional.shape import __all__ as _shape

__all__ = [
    *_activation, *_adaptive_pool, *_conv, *_indexing, *_linear, *_loss, *_norm, *_pool, *_reduce, *_shape,
]  # fmt: skip
