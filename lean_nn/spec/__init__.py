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

The names (file ``names``) are the primitives' own: a primitive's record takes ``spec.<name>`` as its meaning, called with
object arrays and the same parameters. They are imported when one of them is asked for: a program that runs on kernels never
reads the specification.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .names import *  # noqa: F403
    from .names import __all__ as __all__


def __getattr__(name: str) -> object:
    from importlib.util import find_spec

    if find_spec(f"{__name__}.{name}"):  # ``from lean_nn.spec import scalar`` asks here before it imports the file
        raise AttributeError(name)
    from . import names

    if name != "__all__" and name not in names.__all__:
        raise AttributeError(f"module 'lean_nn.spec' has no attribute {name!r}")
    globals().update({name: getattr(names, name) for name in names.__all__}, __all__=names.__all__)
    return globals()[name]
