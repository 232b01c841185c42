"""Object arrays: fractions, duals, intervals, any scalar. The specification itself is the backend."""

from __future__ import annotations

from typing import Any

import numpy as np

from lean_nn.primitive import Aval, Primitive, missing_kernel


class Spec:
    name = "spec"

    def claims(self, arrays: tuple[Any, ...]) -> bool:
        for a in arrays:  # noqa: SIM110  # see Cpu.claims
            if type(a) is np.ndarray and a.dtype.hasobject:
                return True
        return False

    def run(self, prim: Primitive, arrays: tuple[Any, ...], avals: tuple[Aval, ...], params: dict[str, Any]) -> Any:
        if prim.view is not None:
            return prim.view(*arrays, **params)
        if prim.spec is None:
            raise missing_kernel(prim, self.name)
        result = prim.spec(*arrays, **params)
        values = result if len(prim.differentiable_out) > 1 else (result,)
        outs = tuple(np.ascontiguousarray(v, a.dtype).reshape(a.shape) for v, a in zip(values, avals, strict=True))
        return outs if len(prim.differentiable_out) > 1 else outs[0]
