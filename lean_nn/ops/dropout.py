"""Dropout: which elements stay is a function of the seed and the place alone, so every derivative drops the same ones.

Linear in x and its own transpose.
"""

from __future__ import annotations

from lean_nn.backend import cpu_index
from lean_nn.primitive import NONDIFF, Aval, Primitive, Ulps, check_float, check_index, meaning, primitive


def _dropout_abstract(x: Aval, seed: Aval, *, p: float) -> Aval:
    check_float("dropout", x)
    check_index("dropout", seed)
    if seed.shape != ():
        raise ValueError(f"dropout: the seed is one number; got shape {seed.shape}; pass an int")
    if not 0 <= p < 1:
        raise ValueError(f"dropout: p must be in [0, 1); got {p}; use the fraction of elements to drop")
    return x


dropout: Primitive = primitive(
    "dropout",
    abstract=_dropout_abstract,
    spec=meaning("dropout"),
    step=cpu_index.dropout_step,
    linear=(0,),
    jvp=(None, NONDIFF),
    vjp=(lambda g, y, x, seed, *, p: dropout(g, seed, p=p), NONDIFF),
    accuracy=Ulps(1.5),
)
