"""The executable specification: what every operator means, on scalars of any kind.

Read it to know what a result should be; run it on Fractions to get it exactly, on `Dual` numbers to get exact
derivatives, on `Interval` to get proven bounds. It is slow on purpose: loops over definitions, one text each. It
imports nothing else of lean_nn, so that it can judge the rest.

====================  ======================================================================================
file                  what is there
====================  ======================================================================================
``geometry``          windows: coordinates, counted sizes, the words of every geometry error
``conv_geometry``     shapes of the convolution family
``scalar``            exp, log, maximum, … of float, int, Fraction, and objects with such methods
``dual, interval``    dual numbers, outward-rounded intervals; ``rounded``: running error bounds
``container``         object arrays: the only container
``convolution``       convolution and its transposes with JVP and VJP; ``columns``: unfold and fold
``windows``           which cells a pooling window has, strided or adaptive
``pool, smooth_pool`` max, average and smooth max pooling with JVP and VJP
``layers, pool2d``    the seeds' pooling layers, N-D and 2-D; ``private``: one window at a time
``elementwise``       arithmetic, functions, activations, gates, comparisons
``reduce``            sums, extremes, log-sum-exp, softmax, standardisation
``shape``             reshape … flip, indexing, matrix products, dropout
``optim``             optimiser updates, element by element
``seeds``             `SEED_NAMES`: where each of the source documents' definitions is served
====================  ======================================================================================

The names below are the primitives' own: a primitive's record takes ``spec.<name>`` as its meaning, called with
object arrays and the same parameters.
"""

from .columns import fold, unfold
from .convolution import (
    conv,
    conv_input,
    conv_jvp,
    conv_transpose,
    conv_transpose_jvp,
    conv_transpose_vjp,
    conv_vjp,
    conv_weight,
)
from .dual import Dual
from .elementwise import (
    abs,
    add,
    clip,
    clip_gate,
    div,
    elu,
    elu_gate,
    eq,
    erf,
    exp,
    expm1,
    ge,
    gelu,
    gelu_tanh,
    gt,
    hardsigmoid,
    hardswish,
    le,
    leaky_gate,
    leaky_relu,
    log,
    log1p,
    lt,
    maximum,
    minimum,
    mul,
    ne,
    neg,
    normal_cdf,
    normal_pdf,
    open_gate,
    pow,
    reciprocal,
    relu,
    relu_gate,
    sigmoid,
    sigmoid_gate,
    sign,
    silu,
    softplus,
    sqrt,
    square,
    sub,
    tanh,
    tanh_gate,
    where,
)
from .interval import Interval
from .layers import AvgPoolSpec, MaxPoolSpec
from .pool import (
    avg_pool,
    avg_pool_jvp,
    avg_pool_transpose,
    avg_pool_vjp,
    gather_at,
    max_pool,
    max_pool_jvp,
    max_pool_vjp,
    scatter_add_at,
)
from .pool2d import AdaptiveAvgPool2DSpec, AdaptiveMaxPool2DSpec, AvgPool2DSpec, MaxPool2DSpec
from .reduce import (
    log_softmax,
    logsumexp,
    max,
    mean,
    min,
    softmax,
    standardize,
    standardize_tangent,
    standardize_transpose,
    sum,
)
from .seeds import SEED_NAMES
from .shape import (
    broadcast_to,
    concat,
    dropout,
    flip,
    gather,
    linear,
    matmul,
    pad,
    reshape,
    scatter_add,
    slice,
    split,
    take,
    take_transpose,
    transpose,
    unslice,
)
from .smooth_pool import (
    smooth_gather,
    smooth_max_pool,
    smooth_max_pool_dbeta,
    smooth_max_pool_jvp,
    smooth_max_pool_vjp,
    smooth_scatter,
)

__all__ = [  # noqa: RUF022
    "AdaptiveAvgPool2DSpec",
    "AdaptiveMaxPool2DSpec",
    "AvgPool2DSpec",
    "AvgPoolSpec",
    "Dual",
    "Interval",
    "MaxPool2DSpec",
    "MaxPoolSpec",
    "SEED_NAMES",
    "abs",
    "add",
    "avg_pool",
    "avg_pool_jvp",
    "avg_pool_transpose",
    "avg_pool_vjp",
    "broadcast_to",
    "clip",
    "clip_gate",
    "concat",
    "conv",
    "conv_input",
    "conv_jvp",
    "conv_transpose",
    "conv_transpose_jvp",
    "conv_transpose_vjp",
    "conv_vjp",
    "conv_weight",
    "div",
    "dropout",
    "elu",
    "elu_gate",
    "eq",
    "erf",
    "exp",
    "expm1",
    "flip",
    "fold",
    "gather",
    "gather_at",
    "ge",
    "gelu",
    "gelu_tanh",
    "gt",
    "hardsigmoid",
    "hardswish",
    "le",
    "leaky_gate",
    "leaky_relu",
    "linear",
    "log",
    "log1p",
    "log_softmax",
    "logsumexp",
    "lt",
    "matmul",
    "max",
    "max_pool",
    "max_pool_jvp",
    "max_pool_vjp",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mul",
    "ne",
    "neg",
    "normal_cdf",
    "normal_pdf",
    "open_gate",
    "pad",
    "pow",
    "reciprocal",
    "relu",
    "relu_gate",
    "reshape",
    "scatter_add",
    "scatter_add_at",
    "sigmoid",
    "sigmoid_gate",
    "sign",
    "silu",
    "slice",
    "smooth_gather",
    "smooth_max_pool",
    "smooth_max_pool_dbeta",
    "smooth_max_pool_jvp",
    "smooth_max_pool_vjp",
    "smooth_scatter",
    "softmax",
    "softplus",
    "split",
    "sqrt",
    "square",
    "standardize",
    "standardize_tangent",
    "standardize_transpose",
    "sub",
    "sum",
    "take",
    "take_transpose",
    "tanh",
    "tanh_gate",
    "transpose",
    "unfold",
    "unslice",
    "where",
]
