"""Recycled memory: bounded, given back, never shared between living arrays."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import lean_nn as ln
import lean_nn.functional as F
from lean_nn_c import memory

MB = 1 << 20


@pytest.fixture(autouse=True)
def nothing_waiting() -> None:
    memory.release()


def test_blocks_are_reused_and_never_shared() -> None:
    first = memory.empty((300, 300), np.float32)
    first[...] = 1.0
    address = first.ctypes.data
    second = memory.empty((300, 300), np.float32)
    assert second.ctypes.data != address
    view = first[10:20]
    del first
    third = memory.empty((300, 300), np.float32)
    assert third.ctypes.data != address  # a view keeps the block alive
    assert (view == 1.0).all()
    del view
    assert memory.empty((90_000,), np.float32).ctypes.data == address


def test_small_and_object_arrays_are_numpys_own() -> None:
    before = memory.usage()
    small, objects = memory.empty((10,), np.float64), memory.empty((100_000,), object)
    assert small.base is None and objects.base is None and objects[0] is None
    assert memory.usage() == before
    assert memory.empty((), np.float32).shape == ()
    assert memory.empty((0, 10**6), np.float32).size == 0
    with pytest.raises(ValueError, match="at most 64 axes; got 65"):
        memory.empty((1,) * 65, np.float32)


def test_what_waits_is_bounded_and_released() -> None:
    arrays = [memory.empty((MB,), np.float32) for _ in range(20)]
    alive, _ = memory.usage()
    assert alive >= 80 * MB
    del arrays
    waiting = memory.usage()[1]
    assert 0 < waiting <= max(32 * MB, alive)
    for _ in range(10_000):  # smaller work: the old peak is forgotten
        memory.empty((MB,), np.uint8)
    assert memory.usage()[1] <= 33 * MB
    assert memory.release() > 0
    assert memory.usage()[1] == 0


PROGRAM = """
import lean_nn as ln, lean_nn.functional as F, numpy as np
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
rng = np.random.default_rng(0)
w = ln.tensor(rng.standard_normal((4, 3, 3, 3)).astype("float32"), requires_grad=True)
def step():
    n, h, v = rng.integers(1, 4), rng.integers(8, 96), rng.integers(8, 96)
    x = ln.tensor(rng.standard_normal((n, 3, h, v)).astype("float32"))
    w.grad = None
    F.max_pool2d(F.relu(F.conv2d(x, w, padding=1)), 2).sum().backward()
for _ in range(200):
    step()
before = resident()
for _ in range(1000):
    step()
print(resident() - before)
"""


def test_a_thousand_shapes_leave_resident_memory_flat() -> None:
    """In a process of its own: 1,000 training steps on random shapes after a warm-up of 200."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 4 * MB


SCRATCH = """
import resource
import lean_nn as ln, numpy as np
from lean_nn_c import conv
def layer(size):
    step = conv.step("conv", False, False, 1, 16, 7, 1, *[(n, n) for n in (size, 3, size, 1, 1, 1)], "taps")
    return step, [np.ones(n // 4, np.float32) for n in step.sizes]
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
ln.set_num_threads(1)
(large, arrays), (small, others) = layer(800), layer(20)
large(*arrays)
before = faults()
for _ in range(3):
    large(*arrays)
again, before = faults() - before, resident()
for _ in range(1100):
    small(*others)
print(large.scratch(1), again, before - resident())
"""


def test_a_large_piece_of_scratch_waits_for_its_next_use_but_not_for_ever() -> None:
    """Padded planes of 41 MB, in a process of its own: no page of theirs is met anew; then they are given back."""
    done = subprocess.run([sys.executable, "-c", SCRATCH], capture_output=True, text=True, check=True)
    size, again, returned = map(int, done.stdout.split())
    assert size > 33 * MB
    assert again < size // 4096 // 4
    assert returned > 30 * MB


def test_results_do_not_depend_on_what_was_in_the_block() -> None:
    poison = memory.empty((4 * MB,), np.uint8)
    poison.fill(255)
    del poison
    x = ln.tensor(np.ones((1, 8, 256, 512), np.float32))
    assert F.sum(F.relu(x)).item() == 8 * 256 * 512
