"""Tensor: an array with operators that knows where it came from. No derivative logic lives here.

The box itself (data, node, mask) is `lean_nn_c.engine.Box`; operators call primitives, methods call
`lean_nn.functional`. Data is always C-contiguous and never changed in place by an operation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from lean_nn import device as places
from lean_nn import functional as F
from lean_nn.autodiff.forward import plan_dual, propagate
from lean_nn.autodiff.tape import matching
from lean_nn.convert import as_array, ones_like, to_boxes, zeros
from lean_nn.ops import elementwise as ew
from lean_nn.ops.identity import to_device
from lean_nn.primitive import FLOATS, OBJECT, GraphError, evaluate, plan
from lean_nn_c import engine, memory, sweep

DLPACK_CPU, DLPACK_CUDA = 1, 2  # DLPack's numbers for host memory and a CUDA device's
AMBIENT = 1  # level 0 of the engine, as a mask: requires_grad


class Tensor(engine.Box):
    """An array of float32, float64, exact objects, int64 or bool that operations can be recorded on.

    Make one with `lean_nn.tensor`.
    """

    __slots__ = ()
    __array_ufunc__ = None  # NumPy leaves mixed expressions to our operators
    __array_priority__ = 1000

    # --- what it is ---

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.data.dtype  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        return self.data.ndim  # type: ignore[no-any-return]

    @property
    def size(self) -> int:
        return self.data.size  # type: ignore[no-any-return]

    @property
    def device(self) -> str:
        """Where the data lies: ``"cpu"``, ``"cuda:0"``."""
        return str(places.device_of(self.data))

    def numel(self) -> int:
        return self.size

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len: a Tensor with at least one axis is needed; got a 0-d Tensor; use .item()")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        if not places.holds_numbers(self.data):  # a value of a graph: its number and its type
            return f"tensor({self.data!r})"
        body = np.array2string(places.to_host(self.data), separator=", ", prefix="tensor(", threshold=1000)
        extra = "" if self.dtype == np.float32 else f", dtype={self.dtype}"
        if places.is_foreign(self.data):
            extra += f", device='{self.device}'"
        if self.requires_grad:
            extra += f", node={self.node.prim.name}" if self.node is not None else ", requires_grad=True"
        return f"tensor({body}{extra})"

    __hash__ = object.__hash__

    # --- out of the house ---

    def numpy(self) -> np.ndarray[Any, Any]:
        """The data as a NumPy array, shared; an error while a function is traced, when there are no numbers."""
        return self.data if type(self.data) is np.ndarray else self._in_host_memory("numpy").__array__()

    def _in_host_memory(self, op: str) -> Any:
        if places.is_foreign(self.data):
            raise TypeError(f"{op}: memory of the CPU is needed; got a Tensor on {self.device}; copy it with .cpu()")
        return self.data

    def to(self, device: str) -> Tensor:
        """This Tensor on `device` ("cpu", "cuda", "cuda:1"): itself where it lies there, else a copy that knows its origin."""
        if not places.holds_numbers(self.data):
            raise GraphError("to: a compiled function computes where its arguments lie; got one that moves a Tensor; "
                             "move the arguments before the call")
        wanted = places.parse(device)
        return self if places.device_of(self.data) == wanted else to_device(self, device=str(wanted))

    def cuda(self, index: int | None = None) -> Tensor:
        """This Tensor on a CUDA device, the current one unless told; CuPy is needed (the extra ``cuda``)."""
        return self.to("cuda" if index is None else f"cuda:{index}")

    def cpu(self) -> Tensor:
        """This Tensor in host memory."""
        return self.to("cpu")

    def item(self) -> Any:
        """The only element, as a Python number."""
        if self.size != 1:
            raise ValueError(f"item: one element is needed; got shape {self.shape}; index the Tensor first")
        return self.data.item()

    def tolist(self) -> Any:
        return self.data.tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False and dtype is not None and np.dtype(dtype) != self.dtype:
            raise ValueError(f"__array__: a cast needs a copy; got dtype {np.dtype(dtype)} with copy=False; allow the copy")
        own = self._in_host_memory("__array__")
        array = own if dtype is None else own.astype(dtype, copy=False)
        return array.copy() if copy and array is self.data else array  # type: ignore[no-any-return]

    def __dlpack__(self, **options: Any) -> Any:
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.data.__dlpack_device__()  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self.data, self.requires_grad)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.dtype != np.int64:
            raise TypeError(f"index: an int64 Tensor is needed; got {self.dtype}; use int(tensor)")
        return int(self.item())

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(f"bool: one element is needed; got shape {self.shape}; compare elements or reduce first")
        return bool(self.data.item())

    # --- derivatives ---

    @property
    def requires_grad(self) -> bool:
        """Whether operations on this Tensor are recorded for `backward`."""
        return bool(self.mask & AMBIENT)

    @requires_grad.setter
    def requires_grad(self, on: bool) -> None:
        if self.node is not None:
            raise GraphError("requires_grad: only leaves can be switched; got the result of an operation; use .detach()")
        if on and self.dtype not in FLOATS and self.dtype != OBJECT:
            raise TypeError(f"requires_grad: float data is needed; got {self.dtype}; convert with .astype('float32')")
        engine.watch(self, self.mask | AMBIENT if on else self.mask & ~AMBIENT)

    def requires_grad_(self, on: bool = True) -> Tensor:
        self.requires_grad = on
        return self

    @property
    def is_leaf(self) -> bool:
        return self.node is None

    def detach(self) -> Tensor:
        """The same data, forgotten by every level."""
        return engine.wrap(self.data)  # type: ignore[no-any-return]

    def backward(self, gradient: Any = None, retain_graph: bool = False, create_graph: bool = False) -> None:
        """Add d(self)/d(leaf) to `leaf.grad` for every leaf with `requires_grad`."""
        if not self.requires_grad:
            raise GraphError("backward: nothing was recorded for this Tensor; got one without requires_grad; set it on "
                             "the leaves before computing")
        if gradient is None:
            if self.size != 1:
                raise ValueError(f"backward: a scalar is needed; got shape {self.shape}; pass `gradient` of that shape")
            gradient = ones_like(self)
        root = matching("backward", self, gradient)
        before = engine.set_recording(create_graph and engine.is_recording())
        try:
            leaves = sweep.pull([(self, root)], AMBIENT, keep=retain_graph or create_graph)
            for leaf, g in leaves.values():
                leaf.grad = g if leaf.grad is None else ew.add(leaf.grad, g)
        finally:
            engine.set_recording(before)

    # --- arithmetic ---

    def __add__(self, other: Any) -> Any:
        return ew.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return ew.add(other, self)

    def __sub__(self, other: Any) -> Any:
        return ew.sub(self, other)

    def __rsub__(self, other: Any) -> Any:
        return ew.sub(other, self)

    def __mul__(self, other: Any) -> Any:
        return ew.square(self) if other is self else ew.mul(self, other)

    def __rmul__(self, other: Any) -> Any:
        return ew.mul(other, self)

    def __truediv__(self, other: Any) -> Any:
        return ew.div(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return ew.div(other, self)

    def __pow__(self, other: Any) -> Any:
        if (type(other) is int or type(other) is float) and other in (2, -1) and self.dtype in FLOATS:
            return ew.square(self) if other == 2 else ew.div(1.0, self)  # the same bits, and slopes without a power
        return ew.pow(self, other)

    def __rpow__(self, other: Any) -> Any:
        return ew.pow(other, self)

    def __neg__(self) -> Any:
        return ew.neg(self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return ew.abs(self)

    def __matmul__(self, other: Any) -> Any:
        return F.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return F.matmul(other, self)

    def __lt__(self, other: Any) -> Any:
        return ew.less(self, other)

    def __le__(self, other: Any) -> Any:
        return ew.less_equal(self, other)

    def __gt__(self, other: Any) -> Any:
        return ew.greater(self, other)

    def __ge__(self, other: Any) -> Any:
        return ew.greater_equal(self, other)

    def __eq__(self, other: Any) -> Any:
        return ew.equal(self, other)

    def __ne__(self, other: Any) -> Any:
        return ew.not_equal(self, other)

    def __getitem__(self, key: Any) -> Any:
        return F.index(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError("tensor: elements are not assigned in place; got x[...] = value; build the result with where, "
                        "scatter_add or concat")

    # --- methods, as in PyTorch and NumPy ---

    @property
    def T(self) -> Any:
        return F.transpose(self)

    def reshape(self, *shape: Any) -> Any:
        return F.reshape(self, shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape)

    def transpose(self, *axes: Any) -> Any:
        return F.transpose(self, axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes or None)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Any:
        return F.flatten(self, start_dim, end_dim)

    def astype(self, dtype: Any) -> Any:
        """The same numbers in another dtype (rounded where it is narrower)."""
        return F.cast(self, dtype)

    def sum(self, dim: Any = None, keepdim: bool = False) -> Any:
        return F.sum(self, dim, keepdim)

    def mean(self, dim: Any = None, keepdim: bool = False) -> Any:
        return F.mean(self, dim, keepdim)

    def var(self, dim: Any = None, correction: int = 1, keepdim: bool = False) -> Any:
        return F.var(self, dim, correction=correction, keepdim=keepdim)

    def max(self, dim: Any = None, keepdim: bool = False) -> Any:
        return F.max(self, dim, keepdim)

    def min(self, dim: Any = None, keepdim: bool = False) -> Any:
        return F.min(self, dim, keepdim)

    def argmax(self, dim: int | None = None) -> Tensor:
        found = self.data.argmax(dim)
        return engine.wrap(as_array(found if places.is_foreign(found) else np.asarray(found), np.int64))  # type: ignore[no-any-return]

    def exp(self) -> Any:
        return ew.exp(self)

    def log(self) -> Any:
        return ew.log(self)

    def sqrt(self) -> Any:
        return ew.sqrt(self)

    def tanh(self) -> Any:
        return ew.tanh(self)

    def sigmoid(self) -> Any:
        return ew.sigmoid(self)

    def relu(self) -> Any:
        return ew.relu(self)

    def abs(self) -> Any:
        return ew.abs(self)


engine.install(Tensor, to_boxes, evaluate, plan, plan_dual, propagate)
sweep.install(ew.add, zeros)


def _unpickle(data: Any, requires_grad: bool) -> Tensor:
    return tensor(data, requires_grad=requires_grad)


def tensor(data: Any, requires_grad: bool = False, dtype: Any = None, device: str | None = None) -> Tensor:
    """A Tensor with a copy of `data`.

    Parameters
    ----------
    data : array, nested sequence, number or Tensor
        NumPy arrays keep their dtype; Python floats become float32, ints int64, Fractions exact objects.
    requires_grad : record operations on it for `backward`
    dtype : convert to this dtype
    device : "cpu", "cuda" or "cuda:1"; where `data` lies unless told

    Examples
    --------
    >>> import lean_nn as ln
    >>> x = ln.tensor([3.0, 4.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([6., 8.])
    """
    source = data.data if isinstance(data, Tensor) else data
    array = as_array(source, dtype)
    there = array if device is None else places.move(array, places.parse(device))
    box: Tensor = engine.wrap(_copied(there) if there is source or there.base is not None else there)
    if requires_grad:
        box.requires_grad = True
    return box


def _copied(array: Any) -> Any:
    """A copy where results would lie: large arrays on pages that the kernels read quickly."""
    if type(array) is not np.ndarray:
        return array.copy()
    copy = memory.empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def from_dlpack(source: Any) -> Tensor:
    """A Tensor that shares the memory of `source` (any object with ``__dlpack__`` on the CPU or a CUDA device)."""
    if not hasattr(source, "__dlpack__"):
        raise TypeError(f"from_dlpack: an object with __dlpack__ is needed; got {type(source).__name__}; use ln.tensor")
    device = source.__dlpack_device__()[0]
    if device == DLPACK_CUDA:
        return engine.wrap(as_array(places.library("cuda").from_dlpack(source), op="from_dlpack"))  # type: ignore[no-any-return]
    if device != DLPACK_CPU:
        raise ValueError(f"from_dlpack: memory of the CPU or of a CUDA device is needed; got DLPack device type {int(device)}; "
                         f"copy it to the CPU")
    return engine.wrap(as_array(np.from_dlpack(source), op="from_dlpack"))  # type: ignore[no-any-return]


def from_numpy(array: np.ndarray[Any, Any], device: str | None = None) -> Tensor:
    """A Tensor that shares the memory of `array` (a strided array is copied), or holds a copy on `device`."""
    return engine.wrap(places.move(as_array(array, op="from_numpy"), places.parse(device)))  # type: ignore[no-any-return]
