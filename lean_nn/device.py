"""Where data lies: in host memory, or on a device whose library of arrays has joined.

NumPy's arrays are the CPU's. Another library joins by registering its array type once (`register`), and may be asked
for by the name of its device: "cuda" opens ``lean_nn.backend.cuda``, which imports CuPy. Nothing is moved unasked:
operations on arrays of two devices are an error.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple, Protocol

import numpy as np

__all__ = ["CPU", "Device", "common_device", "device_of", "full", "is_foreign", "move", "parse", "register", "to_host"]


class Device(NamedTuple):
    """A kind of device, and which of them."""

    kind: str
    number: int | None = None

    def __str__(self) -> str:
        return self.kind if self.number is None else f"{self.kind}:{self.number}"


CPU = Device("cpu")
OPENERS = {"cuda": "lean_nn.backend.cuda"}  # the module that joins a library, by kind of device
ROOTS = {"cupy": "cuda"}  # and the kind of device by the package whose arrays turn up


class Arrays(Protocol):
    """What a library of arrays can do."""

    def device_of(self, array: Any) -> Device: ...
    def check(self, device: Device) -> Device: ...
    def from_host(self, array: Any, device: Device) -> Any: ...
    def to_host(self, array: Any) -> np.ndarray[Any, Any]: ...
    def across(self, array: Any, device: Device) -> Any: ...
    def full(self, shape: tuple[int, ...], value: Any, dtype: np.dtype[Any], device: Device) -> Any: ...
    def contiguous(self, array: Any) -> Any: ...
    def from_dlpack(self, source: Any) -> Any: ...


_libraries: dict[type, Arrays] = {}
_kinds: dict[str, Arrays] = {}


def register(array_type: type, library: Arrays, kind: str = "cuda") -> None:
    """Let arrays of this type be data of Tensors."""
    _libraries[array_type] = _kinds[kind] = library


def library(kind: str) -> Arrays:
    """The library of a kind of device, opened when it is first asked for."""
    if kind not in _kinds:
        import_module(OPENERS[kind])
    return _kinds[kind]


def is_foreign(value: Any) -> bool:
    """Whether `value` is an array of a library other than NumPy; one that can join does so now."""
    if type(value) is np.ndarray:  # as nearly all are
        return False
    if type(value) in _libraries:
        return True
    root = type(value).__module__.partition(".")[0]
    if root in ROOTS and hasattr(value, "dtype") and hasattr(value, "shape"):
        library(ROOTS[root])
        return type(value) in _libraries
    return False


def holds_numbers(array: Any) -> bool:
    """Whether `array` is data and no placeholder of a traced function."""
    return type(array) is np.ndarray or type(array) in _libraries


def device_of(array: Any) -> Device:
    """Where `array` lies."""
    found = _libraries.get(type(array))
    return CPU if found is None else found.device_of(array)


def common_device(op: str, arrays: tuple[Any, ...]) -> Device:
    """The one device on which all `arrays` lie, or `op`'s error."""
    found = dict.fromkeys(device_of(a) for a in arrays)
    if len(found) > 1:
        raise TypeError(f"{op}: arguments on one device are needed; got {', '.join(map(str, found))}; "
                        f"move one with .cuda() or .cpu()")
    return next(iter(found))


def parse(name: Any) -> Device:
    """"cpu", "cuda" or "cuda:1" as a `Device` that is there."""
    if name is None or name == CPU:
        return CPU
    kind, colon, number = str(name).partition(":")
    if kind == "cpu" and not colon:
        return CPU
    if kind not in OPENERS or (colon and not number.isdigit()):
        raise ValueError(f"device: 'cpu', 'cuda' or 'cuda:0' (a number) are known; got {str(name)!r}; choose one of them")
    return library(kind).check(Device(kind, int(number) if colon else None))


def move(array: Any, device: Device) -> Any:
    """`array` on `device`: itself where it lies there, else a copy."""
    here = device_of(array)
    if here == device:
        return array
    if here == CPU:
        if array.dtype.hasobject:
            raise TypeError(f"{device.kind}: float32, float64, int64 or bool data is needed; got exact objects; "
                            f"convert with .astype('float64')")
        return library(device.kind).from_host(array, device)
    if device == CPU:
        return to_host(array)
    return library(device.kind).across(array, device)


def to_host(array: Any) -> Any:
    """`array` in host memory; a NumPy array as it is."""
    found = _libraries.get(type(array))
    return array if found is None else found.to_host(array)


def contiguous(array: Any) -> Any:
    """A foreign array, copied if it is strided."""
    return array if array.flags.c_contiguous else _libraries[type(array)].contiguous(array)


def full(shape: tuple[int, ...], value: Any, dtype: Any, device: Device) -> Any:
    """A new array of one value."""
    if device == CPU:
        return np.full(shape, value, dtype)
    return library(device.kind).full(shape, value, dtype, device)
