"""One call on the CPU and on the device: values, tangents, cotangents and second derivatives beside each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from conftest import LANE

from lean_nn import from_numpy
from lean_nn.cases import Case
from lean_nn.convert import as_tensor
from lean_nn.graph import compile
from lean_nn.graph.passes import EXACT
from lean_nn.ops import load_all
from lean_nn.primitive import FLOATS, NONDIFF, Exact, Primitive, get
from lean_nn.transforms import grad, jvp, vjp
from lean_nn_c import ISA

Arrays = list[np.ndarray]

# The primitives that launch a kernel of kernels.cu.
KERNELS = ("max_pool", "max_pool_value", "gather_at", "scatter_add_at", "avg_pool", "avg_pool_transpose", "smooth_max_pool",
           "smooth_gather", "smooth_scatter", "conv", "conv_input", "conv_weight", "unfold", "fold", "scatter_add",
           "take_transpose", "unpick")  # fmt: skip

POOLING = KERNELS[:9]
load_all()
FUSED = ISA != "x86_64_v2"  # the CPU's exp and log fuse products and sums, as the device's do


def places(prim: Primitive, arrays: Arrays) -> list[int]:
    """The arguments that have a derivative."""
    if prim.jvp is None and prim.vjp is None and not prim.linear:
        return []
    rules = prim.jvp if isinstance(prim.jvp, tuple) else ()
    return [
        i for i, a in enumerate(arrays)
        if a.dtype in FLOATS and (i in prim.linear or i >= len(rules) or rules[i] is not NONDIFF)
    ]  # fmt: skip


def inner(a: Any, b: Any) -> Any:
    product = get("mul")(a, b)
    return get("sum")(product, axes=tuple(range(len(product.shape))), keepdims=False)


class Call:
    """A case with its arguments, and random directions that both devices share."""

    def __init__(self, case: Case, dtype: Any) -> None:
        self.case, self.prim = case, get(case.primitive)
        self.arrays: Arrays = [np.asarray(a) for a in case.make(np.random.default_rng(0), np.dtype(dtype))]
        self.moving = places(self.prim, self.arrays)
        self.smooth = bool(self.moving) and any(self.prim.differentiable_out)
        rng = np.random.default_rng(1)
        self.v = [rng.standard_normal(self.arrays[i].shape).astype(self.arrays[i].dtype) for i in self.moving]
        outs = self.outputs([as_tensor(a) for a in self.arrays])
        self.u = [rng.standard_normal(y.shape).astype(y.dtype) for y in outs]

    def outputs(self, boxes: list[Any]) -> list[Any]:
        """The differentiable outputs."""
        y = self.prim(*boxes, **self.case.params)
        outs = y if isinstance(y, tuple) else (y,)
        return [out for out, d in zip(outs, self.prim.differentiable_out, strict=True) if d]

    def on(self, place: Callable[[np.ndarray], Any], derivatives: bool = True, second: bool = True) -> dict[str, Arrays]:
        """Everything there is to compare; `place` puts an array on a device."""
        boxes = [place(a) for a in self.arrays]
        y = self.prim(*boxes, **self.case.params)
        found = {"value": list(y) if isinstance(y, tuple) else [y]}
        if self.smooth and derivatives:
            outs = [out for out, d in zip(found["value"], self.prim.differentiable_out, strict=True) if d]
            u = [from_numpy(a, str(out.device)) for a, out in zip(self.u, outs, strict=True)]
            found |= self._derivatives(boxes, [place(a) for a in self.v], u, second)
        return {name: [t.cpu().numpy() for t in tensors] for name, tensors in found.items()}

    def compiled(self, place: Callable[[np.ndarray], Any]) -> dict[str, Arrays]:
        """Value, tangent and cotangent of the same call as a program."""
        program = compile(lambda *boxes: self.prim(*boxes, **self.case.params), *self.arrays, passes=EXACT)
        y = program(*(place(a) for a in self.arrays))
        found = {"value": list(y) if isinstance(y, tuple) else [y]}
        if self.smooth:
            x, v, u = ([place(a) for a in arrays] for arrays in (self._moved(), self.v, self.u))
            part = compile(self._function(self.arrays), *self._moved(), passes=EXACT)
            found["tangent"], found["cotangent"] = list(part.jvp(x, v)[1]), list(part.vjp(x, tuple(u))[1])
        return {name: [t.cpu().numpy() for t in tensors] for name, tensors in found.items()}

    def _moved(self) -> Arrays:
        return [self.arrays[i] for i in self.moving]

    def _function(self, fixed: list[Any]) -> Callable[..., tuple[Any, ...]]:
        """Of the arguments that have a derivative; the others are as given."""

        def f(*moving: Any) -> tuple[Any, ...]:
            full = list(fixed)
            for i, box in zip(self.moving, moving, strict=True):
                full[i] = box
            return tuple(self.outputs(full))

        return f

    def _derivatives(self, boxes: list[Any], v: list[Any], u: list[Any], second: bool) -> dict[str, list[Any]]:
        f = self._function(boxes)

        def weighted(*moving: Any) -> Any:
            parts = [inner(y, w) for y, w in zip(f(*moving), u, strict=True)]
            total = parts[0]
            for part in parts[1:]:
                total = get("add")(total, part)
            return total

        x = [boxes[i] for i in self.moving]
        everything = tuple(range(len(x)))
        found = {"tangent": list(jvp(f, x, v)[1]), "cotangent": list(vjp(f, *x)[1](tuple(u)))}
        if second:
            found["second"] = list(jvp(grad(weighted, everything), x, v)[1])
        return found


def bitwise(prim: Primitive) -> bool:
    """Whether the device must give the CPU's bits: comparisons, choices and moves, and everything that pools."""
    if prim.name.startswith("smooth") and not FUSED:
        return False
    return prim.name in POOLING or (isinstance(prim.accuracy, Exact) and prim.name not in ("add", "sub", "mul", "neg"))


def same_bits(got: np.ndarray, wanted: np.ndarray) -> bool:
    """Equal bits; NaN is NaN whatever its bits, and float32 denormals are zeros where the compiler flushes them."""
    if got.dtype not in FLOATS:
        return got.tobytes() == wanted.tobytes()
    number = ~np.isnan(wanted)
    if LANE != "source" and got.dtype == np.float32:
        got, wanted = (np.where(np.abs(a) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), a), a) for a in (got, wanted))
    return np.array_equal(number, ~np.isnan(got)) and got[number].tobytes() == wanted[number].tobytes()


def compare(name: str, got: Arrays, wanted: Arrays, exact: bool) -> None:
    """Equal bits, or a distance of some hundred roundings of the largest term."""
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted, strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype), name
        if g.dtype not in FLOATS or exact:
            assert same_bits(g, w), name
            continue
        finite = np.isfinite(w)
        scale = float(np.max(np.abs(w), initial=1.0, where=finite))
        assert np.array_equal(np.isnan(g), np.isnan(w)), name
        assert np.array_equal(g[~finite], w[~finite], equal_nan=True), name
        distance = float(np.max(np.abs(g[finite] - w[finite]), initial=0.0))
        assert distance <= 400 * float(np.finfo(g.dtype).eps) * scale, f"{name}: {distance / scale}"


def compare_all(prim: Primitive, got: dict[str, Arrays], wanted: dict[str, Arrays]) -> None:
    """Values, tangents, cotangents and second derivatives. Of pooling's all have the CPU's bits but beta's, a number, for
    it is summed by CuPy's own reduction; of the others the values, if any."""
    exact, pools = bitwise(prim), prim.name in POOLING
    for name in wanted:
        for g, w in zip(got[name], wanted[name], strict=True):
            compare(name, [g], [w], exact and (name == "value" or (pools and w.ndim > 0)))
