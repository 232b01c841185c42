"""CuPy arrays: the same primitives on a CUDA device. Imported when one is first asked for, never before.

=================  ==============================================================================================
``library``        CuPy, or the reason why it cannot be used
``kernels.cu``     convolution and pooling, one text for all number types, ranks and widths of index
``launch``         compiling it when needed, the geometry struct, grids
``conv`` ``pool``  the records' parameters as the kernels' arguments; matrix products are CuPy's
``indexing``       look-ups and their transposes in a fixed order, dropout
``elementwise`` ``reduce`` ``loss`` ``move`` ``optim``   everything else, by CuPy's own array functions
``device``         arrays in and out of the device's memory
=================  ==============================================================================================

Importing this package registers the type of array; a record's ``cuda`` slot is filled when it is first needed.
docs/cuda.md tells what is verified and how.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lean_nn import device as places
from lean_nn.backend.cuda import conv, elementwise, indexing, loss, move, pool, reduce
from lean_nn.backend.cuda.device import CupyArrays
from lean_nn.backend.cuda.launch import limits
from lean_nn.backend.cuda.library import cp
from lean_nn.primitive import Aval, Primitive, missing_kernel, register_backend

__all__ = ["Cuda", "limits", "slot_of"]


class Cuda:
    """The backend of CuPy arrays."""

    name = "cuda"

    def claims(self, arrays: tuple[Any, ...]) -> bool:
        return any(type(a) is cp.ndarray for a in arrays) and all(places.holds_numbers(a) for a in arrays)

    def run(self, prim: Primitive, arrays: tuple[Any, ...], avals: tuple[Aval, ...], params: dict[str, Any]) -> Any:
        with cp.cuda.Device(places.common_device(prim.name, arrays).number):
            if prim.view is not None:
                return prim.view(*arrays, **params)
            kernel = slot_of(prim)
            outs = tuple(cp.empty(aval.shape, aval.dtype) for aval in avals)
            kernel(*arrays, out=outs if prim.outputs > 1 else outs[0], **params)
            return outs if prim.outputs > 1 else outs[0]


SLOTS: dict[str, Callable[..., None]] = {
    name: slot for module in (conv, elementwise, indexing, loss, move, pool, reduce) for name, slot in module.SLOTS.items()
}


def slot_of(prim: Primitive) -> Callable[..., None]:
    """The record's own ``cuda`` kernel; one that has none is given ours, which lie here so that they cost nothing unasked."""
    if prim.cuda is None:
        prim.cuda = SLOTS.get(prim.name)
    if prim.cuda is None:
        raise missing_kernel(prim, "cuda")
    return prim.cuda


places.register(cp.ndarray, CupyArrays())
register_backend(Cuda())
