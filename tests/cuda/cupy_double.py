"""A double of CuPy that is stricter than CuPy, so that what passes here passes there.

Its arrays are a class of their own over NumPy memory. Whatever CuPy would accept by accident is refused:

* NumPy arrays among the arguments; operands of different dtypes; NumPy scalars of another dtype
* indices out of range, which CuPy wraps round silently
* kernels: another number of arguments than the signature has, another scalar type, pointer type, struct size or alignment;
  strided arrays; grid or block that is no tuple; more than 1024 threads, 65535 blocks in y or z, 48 KiB shared memory
* a launch that writes to an input, beyond an array, or to two arguments that overlap

`empty` is poisoned. Every launch runs three times, its threads forwards, backwards and shuffled, over three different
poisons: a result that depends on the order, or an element that nobody wrote, shows up as a difference. (A launch that
writes more than LARGE elements runs once, the orders taking turns.)

Only names that the backend uses are here; `test_parity` checks that each exists in the true CuPy.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

GUARD, MARK = 64, 0xA5
POISONS = (0xFB, 0x00, 0xC9)
ORDERS = (0, 1, 2)  # forwards, backwards, shuffled
LARGE = 1 << 18

compile_module: Any = None  # (source, options) -> {name: Compiled}; set by the lane
launches: list[tuple[str, tuple[str, ...], int]] = []  # (kernel, options, blocks) of every launch


class DoubleError(AssertionError):
    """Something that the true CuPy might let pass."""


def _allocate(shape: Any, dtype: Any) -> np.ndarray:
    dtype = np.dtype(dtype)
    sizes = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    count = int(np.prod(sizes, dtype=object))
    buffer = np.full(count * dtype.itemsize + 2 * GUARD, MARK, np.uint8)
    inner = buffer[GUARD : GUARD + count * dtype.itemsize]
    inner[:] = POISONS[0]
    return inner.view(dtype).reshape(sizes)


def _root(array: np.ndarray) -> np.ndarray:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _fresh(value: Any) -> ndarray:
    value = np.asarray(value)
    own = _allocate(value.shape, value.dtype)
    own[...] = value
    return ndarray(own)


def _plain(value: Any, like: np.dtype | None = None) -> Any:
    """What NumPy computes with; refuses what CuPy would have to move or cast."""
    if isinstance(value, ndarray):
        if like is not None and value.dtype != like:
            raise DoubleError(f"operands of {like} and {value.dtype}")
        return value._a
    if isinstance(value, np.ndarray):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    if isinstance(value, np.generic):
        if like is not None and value.dtype != like:
            raise DoubleError(f"a scalar of {value.dtype} meets {like}")
        return value
    if isinstance(value, (bool, int, float)):
        return value
    raise TypeError(f"Unsupported type {type(value)}")


def _operands(*values: Any) -> list[Any]:
    dtype = next(v.dtype for v in values if isinstance(v, ndarray))
    return [_plain(v, dtype) for v in values]


def _key(key: Any) -> Any:
    keys = key if isinstance(key, tuple) else (key,)
    plain = []
    for k in keys:
        if isinstance(k, np.ndarray):
            raise TypeError("index with a CuPy array")
        if isinstance(k, ndarray):
            if k.dtype == bool:
                raise DoubleError("a mask waits for the device")
            k = k._a
        plain.append(k)
    return tuple(plain)


class _Flags:
    def __init__(self, flags: Any) -> None:
        self.c_contiguous = bool(flags.c_contiguous)


class ndarray:
    """An array on the device that is not there."""

    __slots__ = ("_a",)
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, own: np.ndarray) -> None:
        self._a = own

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    # --- what it is ---

    shape = property(lambda self: self._a.shape)
    dtype = property(lambda self: self._a.dtype)
    ndim = property(lambda self: self._a.ndim)
    size = property(lambda self: self._a.size)
    nbytes = property(lambda self: self._a.nbytes)
    strides = property(lambda self: self._a.strides)
    flags = property(lambda self: _Flags(self._a.flags))
    T = property(lambda self: ndarray(self._a.T))
    device = property(lambda self: Device(0))

    @property
    def base(self) -> Any:
        """None for an array that owns its memory: the buffer between the guards is not counted."""
        root = _root(self._a)
        return None if self._a.nbytes + 2 * GUARD == root.nbytes and self._a.flags.c_contiguous else ndarray(root)

    def __len__(self) -> int:
        return len(self._a)

    # --- views ---

    def reshape(self, *shape: Any) -> ndarray:
        return ndarray(self._a.reshape(*shape))

    def transpose(self, *axes: Any) -> ndarray:
        return ndarray(self._a.transpose(*axes))

    def swapaxes(self, a: int, b: int) -> ndarray:
        return ndarray(self._a.swapaxes(a, b))

    def __getitem__(self, key: Any) -> ndarray:
        found = self._a[_key(key)]
        return ndarray(found) if isinstance(found, np.ndarray) and np.shares_memory(found, self._a) else _fresh(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._a[_key(key)] = _plain(value, self.dtype)

    def fill(self, value: Any) -> None:
        self._a.fill(_plain(value))

    # --- out ---

    def item(self) -> Any:
        return self._a.item()

    def tolist(self) -> Any:
        return self._a.tolist()

    def get(self) -> np.ndarray:
        return self._a.copy()

    def __bool__(self) -> bool:
        return bool(self._a)

    def __int__(self) -> int:
        return int(self._a)

    def __float__(self) -> float:
        return float(self._a)

    def __reduce__(self) -> Any:
        return asarray, (self._a.copy(),)

    def astype(self, dtype: Any, copy: bool = True) -> ndarray:
        if not copy and self.dtype == dtype:
            return self
        with np.errstate(over="ignore"):
            return _fresh(self._a.astype(dtype))

    def copy(self, order: str = "C") -> ndarray:
        return _fresh(self._a)

    # --- reductions ---

    def sum(self, axis: Any = None, keepdims: bool = False) -> ndarray:
        return _fresh(self._a.sum(axis=axis, keepdims=keepdims))

    def max(self, axis: Any = None, keepdims: bool = False) -> ndarray:
        return _fresh(self._a.max(axis=axis, keepdims=keepdims))

    def min(self, axis: Any = None, keepdims: bool = False) -> ndarray:
        return _fresh(self._a.min(axis=axis, keepdims=keepdims))

    def any(self) -> ndarray:
        return _fresh(self._a.any())

    def argmax(self, axis: Any = None) -> ndarray:
        return _fresh(self._a.argmax(axis=axis))

    # --- DLPack: a capsule that only the double understands ---

    def __dlpack__(self, **options: Any) -> Any:
        return ("double", self._a)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


def _operator(name: str, reflected: bool = False) -> Any:
    def method(self: ndarray, other: Any) -> Any:
        if isinstance(other, (np.ndarray, list)) or not isinstance(other, (ndarray, np.generic, bool, int, float)):
            raise TypeError(f"Unsupported type {type(other)}")
        with np.errstate(all="ignore"):
            own, its = _operands(self, other)
            found = getattr(np, name)(its, own) if reflected else getattr(np, name)(own, its)
        if found.dtype != self.dtype and found.dtype != bool:
            raise DoubleError(f"{name} of {self.dtype} gave {found.dtype}")
        return _fresh(found)

    return method


_ARITHMETIC = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide",
               "mod": "remainder", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
               "rshift": "right_shift"}  # fmt: skip
for _name, _function in _ARITHMETIC.items():
    setattr(ndarray, f"__{_name}__", _operator(_function))
    setattr(ndarray, f"__r{_name}__", _operator(_function, True))
for _name, _function in {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal",
                         "ne": "not_equal"}.items():  # fmt: skip
    setattr(ndarray, f"__{_name}__", _operator(_function))
ndarray.__neg__ = lambda self: _fresh(-self._a)  # type: ignore[attr-defined]
ndarray.__invert__ = lambda self: _fresh(~self._a)  # type: ignore[attr-defined]
ndarray.__module__ = "cupy"


# --- functions ---


def _elementwise(name: str) -> Any:
    def function(*values: Any, out: ndarray | None = None) -> ndarray:
        with np.errstate(all="ignore"):
            found = getattr(np, name)(*_operands(*values))
        if out is None:
            return _fresh(found)
        if out.shape != found.shape or out.dtype != found.dtype:
            raise DoubleError(f"{name}: out of {out.dtype}{out.shape} for {found.dtype}{found.shape}")
        out._a[...] = found
        return out

    return function


def where(condition: ndarray, a: Any, b: Any) -> ndarray:
    if not isinstance(condition, ndarray) or condition.dtype != bool:
        raise DoubleError("where: the condition is a bool array")
    return _fresh(np.where(condition._a, *_operands(a, b)))


def empty(shape: Any, dtype: Any) -> ndarray:
    return ndarray(_allocate(shape, dtype))


def full(shape: Any, value: Any, dtype: Any) -> ndarray:
    own = empty(shape, dtype)
    own.fill(value)
    return own


def arange(stop: int, dtype: Any) -> ndarray:
    return _fresh(np.arange(stop, dtype=dtype))


def asarray(value: Any) -> ndarray:
    return value if isinstance(value, ndarray) else _fresh(value)


def array(value: Any) -> ndarray:
    return _fresh(value._a if isinstance(value, ndarray) else value)


def asnumpy(value: ndarray) -> np.ndarray:
    return value.get()


def ascontiguousarray(value: ndarray) -> ndarray:
    return value if value._a.flags.c_contiguous else _fresh(_plain(value))


def from_dlpack(source: Any) -> ndarray:
    capsule = source.__dlpack__()
    if not isinstance(capsule, tuple) or capsule[0] != "double":
        raise DoubleError("a capsule of another library")
    return ndarray(capsule[1])


def dot(a: ndarray, b: ndarray, out: ndarray | None = None) -> ndarray:
    if a.ndim != 2 or b.ndim != 2:
        raise DoubleError("dot: two matrices")
    found = np.dot(*_operands(a, b))
    if out is None:
        return _fresh(found)
    if out.dtype != found.dtype or out.shape != found.shape or not out.flags.c_contiguous:
        raise ValueError("Output array has an invalid dtype, shape or layout")
    out._a[...] = found
    return out


def matmul(a: ndarray, b: ndarray) -> ndarray:
    return _fresh(np.matmul(*_operands(a, b)))


def take(a: ndarray, indices: ndarray, axis: int) -> ndarray:
    return _fresh(np.take(_plain(a), _plain(indices, np.dtype(np.int64)), axis, mode="raise"))


def take_along_axis(a: ndarray, indices: ndarray, axis: int) -> ndarray:
    return _fresh(np.take_along_axis(_plain(a), _plain(indices, np.dtype(np.int64)), axis))


def argsort(a: ndarray, kind: str) -> ndarray:
    return _fresh(np.argsort(_plain(a), kind=kind))


def searchsorted(a: ndarray, v: ndarray) -> ndarray:
    return _fresh(np.searchsorted(*_operands(a, v)))


def argmax(a: ndarray, axis: int) -> ndarray:
    return _fresh(np.argmax(_plain(a), axis))


def argmin(a: ndarray, axis: int) -> ndarray:
    return _fresh(np.argmin(_plain(a), axis))


def expand_dims(a: ndarray, axis: int) -> ndarray:
    return ndarray(np.expand_dims(_plain(a), axis))


FUNCTIONS = ("add", "absolute", "exp", "expm1", "log", "log1p", "sqrt", "tanh", "power", "maximum", "minimum", "isfinite",
             "reciprocal")  # fmt: skip


def _special(name: str) -> Any:
    def function(x: ndarray) -> ndarray:
        from scipy import special

        return _fresh(getattr(special, name)(_plain(x)).astype(x.dtype))

    return function


# --- devices ---


class CUDARuntimeError(RuntimeError):
    pass


class Device:
    def __init__(self, index: int | None = None) -> None:
        if index not in (None, 0):
            raise CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
        self.id = 0

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *args: Any) -> None:
        return None


# --- kernels ---


class RawModule:
    """Compiled by the lane: g++ behind a shim, or NVRTC and the PTX executor."""

    texts: ClassVar[set[tuple[str, ...]]] = set()

    def __init__(self, *, code: str, options: tuple[str, ...]) -> None:
        if not isinstance(code, str) or not isinstance(options, tuple):
            raise TypeError("code is a string, options a tuple")
        self.options, self._kernels = options, compile_module(code, options)
        RawModule.texts.add(options)

    def get_function(self, name: str) -> RawKernel:
        if name not in self._kernels:
            raise CUDARuntimeError(f"CUDA_ERROR_NOT_FOUND: {name}")
        return RawKernel(name, self.options, self._kernels[name])


class RawKernel:
    def __init__(self, name: str, options: tuple[str, ...], compiled: Any) -> None:
        self.name, self.options, self.compiled = name, options, compiled

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...], shared_mem: int = 0) -> None:
        for sizes in (grid, block):
            if not isinstance(sizes, tuple) or not 1 <= len(sizes) <= 3 or not all(type(n) is int for n in sizes):
                raise DoubleError(f"{self.name}: grid and block are tuples of ints; got {grid}, {block}")
        full_grid, full_block = (*grid, 1, 1)[:3], (*block, 1, 1)[:3]
        if int(np.prod(full_block)) > 1024 or max(full_grid[1:]) > 65535 or full_grid[0] >= 2**31 or shared_mem > 48 << 10:
            raise DoubleError(f"{self.name}: beyond the limits of a device; got {grid}, {block}, {shared_mem} B")
        if not isinstance(args, tuple):
            raise DoubleError(f"{self.name}: arguments are a tuple")
        _check_signature(self.name, self.compiled.parameters, args)
        launches.append((self.name, self.options, full_grid[0]))
        _run_three_times(self.name, self.compiled, max(1, full_grid[0]), full_block[0], args)


def _check_signature(name: str, parameters: Any, args: tuple[Any, ...]) -> None:
    if len(args) != len(parameters):
        raise DoubleError(f"{name}: {len(parameters)} arguments; got {len(args)}")
    for parameter, argument in zip(parameters, args, strict=True):
        if parameter.kind == "pointer":
            if not isinstance(argument, ndarray) or argument.dtype != parameter.dtype:
                raise DoubleError(f"{name}: {parameter}; got {getattr(argument, 'dtype', type(argument))}")
            if not argument._a.flags.c_contiguous:
                raise DoubleError(f"{name}: {parameter} ignores strides; got {argument.strides}")
        elif parameter.kind == "struct":
            aligned = isinstance(argument, np.ndarray) and argument.ndim == 0 and argument.dtype.fields is not None
            if not aligned or argument.dtype.itemsize != parameter.size or argument.ctypes.data % parameter.alignment:
                raise DoubleError(f"{name}: {parameter}; got {getattr(argument, 'dtype', type(argument))}")
        elif type(argument) is not parameter.dtype.type:
            raise DoubleError(f"{name}: {parameter}; got {type(argument)}")


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    return a.size > 0 and b.size > 0 and np.may_share_memory(a, b)


def _run_three_times(name: str, compiled: Any, grid: int, block: int, args: tuple[Any, ...]) -> None:
    arrays = [(p, a._a) for p, a in zip(compiled.parameters, args, strict=True) if p.kind == "pointer"]
    written = [a for p, a in arrays if not p.const]
    read = [a for p, a in arrays if p.const]
    for i, target in enumerate(written):
        if any(_overlap(target, other) for other in (*read, *written[:i])):
            raise DoubleError(f"{name}: an output overlaps another argument")
    before = [a.tobytes() for a in read]
    guards = {id(root): root for root in (_root(a) for _, a in arrays)}.values()
    results = []
    runs = list(zip(ORDERS, POISONS, strict=True))
    if sum(a.size for a in written) > LARGE:
        runs = [runs[len(launches) % len(runs)]]
    for order, poison in runs:
        for target in written:
            target.reshape(-1).view(np.uint8).fill(poison)
        compiled.run([a._a if isinstance(a, ndarray) else a for a in args], grid, block, order)
        results.append([target.tobytes() for target in written])
    if any(other != results[0] for other in results[1:]):
        raise DoubleError(f"{name}: the result depends on the order of threads, or an element was not written")
    if before != [a.tobytes() for a in read]:
        raise DoubleError(f"{name}: an input was written to")
    for root in guards:
        if (root.view(np.uint8)[:GUARD] != MARK).any() or (root.view(np.uint8)[-GUARD:] != MARK).any():
            raise DoubleError(f"{name}: written beyond an array")


# --- as modules ---


def install() -> ModuleType:
    """Put the double in the place of ``cupy`` and ``cupyx``."""
    module, cuda, runtime = ModuleType("cupy"), ModuleType("cupy.cuda"), ModuleType("cupy.cuda.runtime")
    own = (ndarray, where, empty, full, arange, asarray, array, asnumpy, ascontiguousarray, from_dlpack, dot, matmul, take,
           take_along_axis, argsort, searchsorted, argmax, argmin, expand_dims, RawModule)  # fmt: skip
    for item in own:
        setattr(module, item.__name__, item)
    for name in FUNCTIONS:
        setattr(module, name, _elementwise(name))
    runtime.CUDARuntimeError, runtime.getDeviceCount = CUDARuntimeError, lambda: 1  # type: ignore[attr-defined]
    cuda.Device, cuda.runtime, module.cuda = Device, runtime, cuda  # type: ignore[attr-defined]
    extra, scipy, special = ModuleType("cupyx"), ModuleType("cupyx.scipy"), ModuleType("cupyx.scipy.special")
    special.erf, special.erfc = _special("erf"), _special("erfc")  # type: ignore[attr-defined]
    extra.scipy, scipy.special = scipy, special  # type: ignore[attr-defined]
    for new in (module, cuda, runtime, extra, scipy, special):
        sys.modules[new.__name__] = new
    return module
