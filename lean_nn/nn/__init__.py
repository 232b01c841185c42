"""Layers, initialisers, losses and whole models under PyTorch's names; users of `functional`, never of kernels.

================  =========================================================================================
``module``        Module and Parameter: tables of parameters, buffers and parts; state in and out
``containers``    Sequential, ModuleList, ModuleDict
``conv``          Conv and ConvTranspose, any number of axes and 1d to 3d
``pool``          MaxPool, AvgPool, SmoothMaxPool, adaptive pooling, the same
``layers``        Linear, Embedding, Dropout, Flatten, Unflatten, Identity
``resample``      Upsample: nearest and linear
``activation``    ReLU, GELU, SiLU, …          ``norm``  BatchNorm, LayerNorm, GroupNorm
``loss``          CrossEntropyLoss, MSELoss, …  ``init``  first values; ``manual_seed``
``stateless``     functional_call and pure: a Module as a function of its parameters
``overview``      layers, shapes, parameters, operations and memory as a table
``models``        lenet, digits_cnn, mlp, resnet20; `from_toml`
================  =========================================================================================
"""

from lean_nn.lazy import opener
from lean_nn.nn import init
from lean_nn.nn.activation import *
from lean_nn.nn.activation import __all__ as _activation
from lean_nn.nn.containers import ModuleDict, ModuleList, Sequential
from lean_nn.nn.conv import *
from lean_nn.nn.conv import __all__ as _conv
from lean_nn.nn.init import manual_seed
from lean_nn.nn.layers import *
from lean_nn.nn.layers import __all__ as _layers
from lean_nn.nn.loss import *
from lean_nn.nn.loss import __all__ as _loss
from lean_nn.nn.module import Module, Parameter
from lean_nn.nn.norm import *
from lean_nn.nn.norm import __all__ as _norm
from lean_nn.nn.pool import *
from lean_nn.nn.pool import __all__ as _pool
from lean_nn.nn.resample import Upsample, interpolate
from lean_nn.nn.stateless import dropout_seeds, functional_call, pure

__all__ = [
    *_activation, *_conv, *_layers, *_loss, *_norm, *_pool, "Module", "ModuleDict", "ModuleList", "Parameter", "Sequential",
    "Summary", "Upsample", "dropout_seeds", "from_toml", "functional_call", "init", "interpolate", "manual_seed", "models",
    "pure", "summary",
]  # fmt: skip

# these stand on the names above, or need the compiler: they come when they are asked for
__getattr__ = opener(__name__, {"Summary": "overview", "from_toml": "models", "models": "models", "summary": "overview"})
