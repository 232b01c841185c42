"""From what users pass to what primitives take: Tensors of contiguous data in one of our dtypes.

Arrays that are contiguous, aligned and of one of our dtypes are shared, not copied; a strided array is copied
here, once, so that no kernel ever has to. Python numbers are weak (NEP 50): they take the dtype of the
Tensors they meet.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from lean_nn.device import CPU, contiguous, device_of, full, holds_numbers, is_foreign, move
from lean_nn.primitive import FLOATS, OBJECT, Aval, GraphError, Primitive
from lean_nn_c import engine

DTYPES = (*FLOATS, OBJECT, np.dtype(np.int64), np.dtype(np.bool_))
_REMEDY = {"i": "int64 (indices) or float32", "u": "int64 (indices) or float32", "f": "float32 or float64"}


def as_array(value: Any, dtype: Any = None, op: str = "tensor") -> np.ndarray[Any, Any]:
    """`value` as a contiguous array of a dtype we have, shared with the caller where it already is one."""
    foreign = not isinstance(value, np.ndarray) and is_foreign(value)
    array = value if foreign or isinstance(value, np.ndarray) else _from_python(value, op)
    if dtype is not None:
        array = array.astype(dtype, copy=False)
    if array.dtype not in DTYPES:
        remedy = _REMEDY.get(array.dtype.kind, "float32, float64 or object")
        raise TypeError(f"{op}: data of {', '.join(map(str, DTYPES))} is needed; got {array.dtype}; convert to {remedy}")
    if foreign:
        return contiguous(array)  # type: ignore[no-any-return]
    if type(array) is np.ndarray and array.flags.c_contiguous and array.flags.aligned:
        return array
    return np.array(array, order="C", copy=True, subok=False)


def _from_python(value: Any, op: str) -> np.ndarray[Any, Any]:
    """Numbers and nested sequences; Python floats become float32, as in PyTorch, and exact numbers objects."""
    if value is None or isinstance(value, (str, bytes, complex)):
        raise TypeError(f"{op}: Tensors, arrays or numbers are needed; got {type(value).__name__}; pass a Tensor")
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{op}: nested sequences of equal lengths; got ragged ones; pad them to one length") from None
    if array.dtype == np.float64 and not isinstance(value, np.generic) and not hasattr(value, "__array__"):
        return array.astype(np.float32)
    return array


def as_tensor(value: Any, dtype: Any = None, op: str = "tensor") -> Any:
    """`value` itself if it is a Tensor, else a Tensor around it."""
    if isinstance(value, engine.Box):
        return value
    return engine.wrap(as_array(value, dtype, op))


def scalar_array(value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A weak Python number as a 0-d array of `dtype`; among exact numbers a float is the fraction it stands for."""
    if dtype == OBJECT:
        if isinstance(value, float) and np.isfinite(value):
            from fractions import Fraction  # 3 ms that floats need not pay

            value = Fraction(value)
        array: np.ndarray[Any, Any] = np.empty((), OBJECT)
        array[()] = value
        return array
    if type(value) is float and abs(value) < 1e38:
        return np.array(value, dtype)
    with np.errstate(over="ignore"):  # beyond the range is infinity, as IEEE says
        return np.array(float(value) if isinstance(value, int) and abs(value) < 2**1000 else value, dtype)


def _is_weak(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, np.generic)


def to_boxes(prim: Primitive, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of `prim` as Tensors; weak numbers take the dtype of the first float or exact array there."""
    boxed = [None if _is_weak(a) else _object_or_tensor(prim, a) for a in args]
    dtypes = [box.data.dtype for box in boxed if box is not None]
    arithmetic = [d for d in dtypes if d in FLOATS or d == OBJECT]
    like = (arithmetic or [FLOATS[0]])[0]
    where = next((box for box in boxed if box is not None and device_of(box.data) != CPU), None)
    return tuple(
        engine.wrap(_number(a, like, where), engine.CONSTANT) if box is None else box for a, box in zip(args, boxed, strict=True)
    )


def _number(value: Any, dtype: np.dtype[Any], where: Any) -> Any:
    """A weak number beside the Tensor `where`, whose device it takes."""
    array = scalar_array(value, dtype)
    return array if where is None else full((), array[()], dtype, device_of(where.data))


def _object_or_tensor(prim: Primitive, value: Any) -> Any:
    """A Tensor; a lone exact number (Fraction, a user's scalar) is a 0-d array of objects."""
    if isinstance(value, numbers.Number) and not isinstance(value, (np.generic, complex, engine.Box)):
        return engine.wrap(scalar_array(value, OBJECT), engine.CONSTANT)
    return as_tensor(value, op=prim.name)


def zeros(shape: tuple[int, ...], dtype: Any, like: Any) -> Any:
    """A Tensor of zeros where `like` lies, a constant."""
    device = device_of(like.data)
    return engine.wrap(np.zeros(shape, dtype) if device == CPU else full(shape, 0, dtype, device))


def filled(shape: tuple[int, ...], value: Any, like: Any) -> Any:
    """A Tensor of one number in the dtype of `like`, where that lies; a constant."""
    dtype = like.data.dtype
    return engine.wrap(full(shape, scalar_array(value, dtype)[()], dtype, device_of(like.data)))


def zeros_like(box: Any) -> Any:
    """A Tensor of zeros like `box`, a constant."""
    return zeros(box.data.shape, box.data.dtype, box)


def ones_like(box: Any) -> Any:
    """A Tensor of ones like `box`, a constant."""
    return filled(box.data.shape, 1, box)


def as_tensor_like(value: Any, like: Any, dtype: Any = None, op: str = "tensor") -> Any:
    """`value` itself if it is a Tensor, else a Tensor around it where `like` lies."""
    if isinstance(value, engine.Box):
        return value
    return engine.wrap(move(as_array(value, dtype, op), device_of(like.data)))


def assign(op: str, target: Any, value: Any) -> None:
    """Make `target`, a Tensor or an array, hold the Tensor `value`: in place, outside of any derivative.

    While a function is traced there are no numbers to write: the Tensor takes the new data, and the tracer finds it
    changed.
    """
    if isinstance(target, engine.Box) and not holds_numbers(target.data):
        engine.rebind(target, value.data)
        return
    if not holds_numbers(value.data):
        raise GraphError(f"{op}: what a compiled function changes is one of its arguments; got an array from outside; "
                         f"pass it as an argument")
    array = target.data if isinstance(target, engine.Box) else target
    array[...] = value.data


def aval_of(box: Any) -> Aval:
    """What `abstract` sees of a Tensor."""
    return Aval(box.data.shape, box.data.dtype)
