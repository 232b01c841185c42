"""The operators with PyTorch's names and argument order; Tensors and NumPy arrays alike.

==================  ======================================================================================
``conv``            conv, conv1d … conv3d, conv_transpose …, unfold, fold
``pool``            max_pool …, avg_pool …, smooth_max_pool …; ``adaptive_pool`` the adaptive ones
``linear``          matmul, linear
``shape``           reshape, transpose, concat, stack, split, pad, flip, gather, scatter_add, take, cast
``indexing``        index: what ``x[...]`` means
==================  ======================================================================================

A family's own ``__all__`` is the list of what it adds here.
"""

from lean_nn.functional.adaptive_pool import *
from lean_nn.functional.adaptive_pool import __all__ as _adaptive_pool
from lean_nn.functional.conv import *
from lean_nn.functional.conv import __all__ as _conv
from lean_nn.functional.indexing import *
from lean_nn.functional.indexing import __all__ as _indexing
from lean_nn.functional.linear import *
from lean_nn.functional.linear import __all__ as _linear
from lean_nn.functional.pool import *
from lean_nn.functional.pool import __all__ as _pool
from lean_nn.functional.shape import *
from lean_nn.functional.shape import __all__ as _shape

__all__ = [*_adaptive_pool, *_conv, *_indexing, *_linear, *_pool, *_shape]
