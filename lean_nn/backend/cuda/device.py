"""Arrays in and out of a CUDA device's memory: what `lean_nn.device` asks of a library of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from lean_nn.backend.cuda.library import cp
from lean_nn.device import Device


class CupyArrays:
    """CuPy as a library of arrays."""

    def device_of(self, array: Any) -> Device:
        return Device("cuda", int(array.device.id))

    def check(self, device: Device) -> Device:
        """`device`, the current one where no number is given; an error for one that is not there."""
        count = int(cp.cuda.runtime.getDeviceCount())
        if device.number is None:
            return Device("cuda", int(cp.cuda.Device().id))
        if device.number >= count:
            raise ValueError(f"cuda: devices are 0 to {count - 1}; got {device.number}; choose one of them")
        return device

    def from_host(self, array: Any, device: Device) -> Any:
        with cp.cuda.Device(device.number):
            return cp.asarray(array)

    def to_host(self, array: Any) -> np.ndarray[Any, Any]:
        return cp.asnumpy(array)  # type: ignore[no-any-return]

    def across(self, array: Any, device: Device) -> Any:
        """`array` on another device of the same kind."""
        with cp.cuda.Device(device.number):
            return cp.array(array)

    def full(self, shape: tuple[int, ...], value: Any, dtype: np.dtype[Any], device: Device) -> Any:
        with cp.cuda.Device(device.number):
            return cp.full(shape, value, dtype)

    def contiguous(self, array: Any) -> Any:
        return cp.ascontiguousarray(array)

    def from_dlpack(self, source: Any) -> Any:
        return cp.from_dlpack(source)
