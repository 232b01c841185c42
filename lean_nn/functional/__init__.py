"""The operators with PyTorch's names and argument order; Tensors and NumPy arrays alike.

===============  =========================================================================================
``conv``         conv, conv1d … conv3d, conv_transpose …, unfold, fold
``linear``       matmul, linear
``shape``        reshape, transpose, concat, stack, split, pad, flip, gather, scatter_add, take, embedding, cast
``indexing``     index: what ``x[...]`` means
===============  =========================================================================================
"""

from lean_nn.functional.conv import (
    conv,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    fold,
    unfold,
)
from lean_nn.functional.indexing import index
from lean_nn.functional.linear import linear, matmul
from lean_nn.functional.shape import (
    alias,
    broadcast_to,
    cast,
    concat,
    embedding,
    flatten,
    flip,
    gather,
    pad,
    reshape,
    scatter_add,
    split,
    stack,
    take,
    transpose,
)

__all__ = [
    "alias", "broadcast_to", "cast", "concat", "conv", "conv1d", "conv2d", "conv3d", "conv_transpose",
    "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "embedding", "flatten", "flip", "fold", "gather",
    "index", "linear", "matmul", "pad", "reshape", "scatter_add", "split", "stack", "take", "transpose", "unfold",
]  # fmt: skip
