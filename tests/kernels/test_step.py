"""Steps: what moves numbers against NumPy, and what every step refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lean_nn.backend import cpu_move
from lean_nn.primitive import Aval
from lean_nn.threads import num_threads
from lean_nn_c import gemm
from lean_nn_c.move import move_step

DTYPES = st.sampled_from([np.float32, np.float64, np.int64, np.bool_])
SHAPES = st.lists(st.integers(0, 7), min_size=0, max_size=5).map(tuple)


def numbers(shape, dtype):
    return np.random.default_rng(0).integers(0, 2 if dtype is np.bool_ else 100, shape).astype(dtype)


def ran(make, x, want, **params):
    """The step's output on arrays (one or a list of them), from memory full of ones."""
    sources = x if isinstance(x, list) else [x]
    out = np.ones(want.shape, want.dtype)
    avals = [Aval(a.shape, a.dtype) for a in sources]
    make(*avals, out=(Aval(out.shape, out.dtype),), **params)(*sources, out)
    np.testing.assert_array_equal(out, want)


@given(SHAPES, DTYPES, st.data())
@settings(max_examples=200, deadline=None)
def test_transpose_flip_and_broadcast(shape, dtype, data):
    x = numbers(shape, dtype)
    axes = tuple(data.draw(st.permutations(range(x.ndim))))
    ran(cpu_move.transpose, x, np.array(x.transpose(axes)), axes=axes)
    turned = tuple(data.draw(st.sets(st.integers(0, x.ndim - 1)))) if x.ndim else ()
    ran(cpu_move.flip, x, np.array(np.flip(x, turned)), axes=turned)
    flat = numbers(tuple(n if data.draw(st.booleans()) else 1 for n in shape), dtype)
    wide = (*data.draw(st.sampled_from([(), (2,), (3, 1)])), *shape)
    ran(cpu_move.broadcast_to, flat, np.array(np.broadcast_to(flat, wide)), shape=wide)


@given(SHAPES.filter(bool), DTYPES, st.data())
@settings(max_examples=200, deadline=None)
def test_slice_pad_and_concat(shape, dtype, data):
    x = numbers(shape, dtype)
    start, size, step = [], [], []
    for n in shape:
        by = data.draw(st.sampled_from([1, 2, -1, -3]))
        count = data.draw(st.integers(0, (n + abs(by) - 1) // abs(by)))
        start.append(0 if by > 0 else max(n - 1, 0))
        size.append(count)
        step.append(by)
    cells = tuple(slice(a, None, by) for a, by in zip(start, step, strict=True))
    part = np.array(x[cells][tuple(slice(0, n) for n in size)])
    geometry = {"start": tuple(start), "step": tuple(step)}
    ran(cpu_move.slice, x, part, size=tuple(size), **geometry)
    back = np.zeros_like(x)
    back[cells][tuple(slice(0, n) for n in size)] = part
    ran(cpu_move.unslice, part, back, shape=shape, **geometry)
    pads = tuple(data.draw(st.tuples(st.integers(0, 2), st.integers(0, 2))) for _ in shape)
    ran(cpu_move.pad, x, np.pad(x, pads, constant_values=1), padding=pads, value=1)
    axis = data.draw(st.integers(0, x.ndim - 1))
    none = np.take(x, [], axis)
    ran(cpu_move.concat, [x, none, x], np.concatenate([x, none, x], axis), axis=axis)


def test_large_moves_have_the_same_bits_on_any_number_of_threads():
    x = np.random.default_rng(1).standard_normal((37, 5, 61, 53)).astype(np.float32)
    want = np.array(x.transpose(3, 0, 2, 1))
    for n in (1, 2, 3):
        with num_threads(n):
            ran(cpu_move.transpose, x, want, axes=(3, 0, 2, 1))


def test_a_step_refuses_arrays_that_do_not_fit():
    step = gemm.step(True, 6, 6, 2, 2, 3, False, False, (), (), ())
    a, b, c = np.ones((2, 3)), np.ones((3, 2)), np.empty((2, 2))
    step(a, b, c)
    assert (c == 3).all()
    for bad in ((a, b), (a, b, np.empty(5)), (a, b.astype(np.float32), c), (a, np.ones((4, 3))[::2], c)):
        with pytest.raises(ValueError, match="lean_nn_c"):
            step(*bad)
    c.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        step(a, b, c)
    with pytest.raises(TypeError):
        step(a, b, "c")


def test_a_move_refuses_what_it_does_not_know():
    with pytest.raises(ValueError, match="1, 4 or 8"):
        move_step("x", (1,), 2, 1, [])
    with pytest.raises(ValueError, match="sources"):
        move_step("x", (1,), 4, 1, [(1, 0, 0, [(1, 4, 4)])])
