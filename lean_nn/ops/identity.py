"""Operations that change nothing but the point of view: the same data under another name, in another type or place.

alias(x) is a Tensor of its own over x's data: where a level starts to watch a value without watching what it
came from. cast is linear, and its transpose is the cast back; so it is with to_device.
"""

from __future__ import annotations

import numpy as np

from lean_nn import device as places
from lean_nn.backend import cpu_index
from lean_nn.primitive import FLOATS, Aval, Exact, Primitive, Ulps, primitive


def _cast_abstract(x: Aval, *, dtype: str) -> Aval:
    new = np.dtype(dtype)
    if x.dtype not in FLOATS or new not in FLOATS:
        raise TypeError(f"cast: between float32 and float64 only; got {x.dtype} to {new}; convert the data with NumPy first")
    return Aval(x.shape, new)


alias: Primitive = primitive(
    "alias",
    abstract=lambda x: x,
    view=lambda x: x,
    linear=(0,),
    vjp=(lambda g, y, x: alias(g),),
    accuracy=Exact(),
)

to_device: Primitive = primitive(
    "to_device",
    abstract=lambda x, *, device: x,
    view=lambda x, *, device: places.move(x, places.parse(device)),
    linear=(0,),
    vjp=(lambda g, y, x, *, device: to_device(g, device=str(x.device)),),
    accuracy=Exact(),
)

cast: Primitive = primitive(
    "cast",
    abstract=_cast_abstract,
    step=cpu_index.cast_step,
    linear=(0,),
    vjp=(lambda g, y, x, *, dtype: cast(g, dtype=str(x.dtype)),),
    accuracy=Ulps(0.5),
)
