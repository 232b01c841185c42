"""NumPy arrays of float32 and float64: outputs are allocated here, kernels write into them."""

from __future__ import annotations

from typing import Any

import numpy as np

from lean_nn.primitive import Aval, Primitive, missing_kernel
from lean_nn_c import memory


def allocate(aval: Aval) -> np.ndarray[Any, Any]:
    """An uninitialised output array."""
    return memory.empty(aval.shape, aval.dtype)


class Cpu:
    name = "cpu"

    def claims(self, arrays: tuple[Any, ...]) -> bool:
        for a in arrays:  # noqa: SIM110  # every operation passes here, and a generator costs more than its loop
            if type(a) is not np.ndarray:
                return False
        return True

    def plan(self, prim: Primitive, avals: list[Aval], outs: tuple[Aval, ...], params: dict[str, Any]) -> tuple[Any, Any]:
        """What `run` would do, for the engine to remember (`lean_nn.primitive.plan`)."""
        if prim.view is not None:
            return None, prim.view
        step = None if prim.step is None else prim.step(*avals, out=outs, **params)
        return (outs, step) if step is not None else (None, None)

    def run(self, prim: Primitive, arrays: tuple[Any, ...], avals: tuple[Aval, ...], params: dict[str, Any]) -> Any:
        if prim.view is not None:
            return prim.view(*arrays, **params)
        outs = tuple([allocate(aval) for aval in avals])
        out = outs[0] if prim.outputs == 1 else outs
        step = None if prim.step is None else prim.step(*[Aval(a.shape, a.dtype) for a in arrays], out=avals, **params)
        if step is not None:
            step(*arrays, *outs)
        elif prim.cpu is not None:
            prim.cpu(*arrays, out=out, **params)
        else:
            raise missing_kernel(prim, self.name)
        return out
