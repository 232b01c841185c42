"""Every primitive runs from C: there is a step for each, it equals the eager kernel, and what it refuses leaves no trace."""

from __future__ import annotations

import gc
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lean_nn as ln
import lean_nn.functional as F
from lean_nn.ops import elementwise as ops
from lean_nn.ops import optim
from lean_nn.ops.smooth_pool import smooth_max_pool
from lean_nn.primitive import Aval, registry
from lean_nn.window import strided
from lean_nn_c import conv as conv_kernels
from lean_nn_c import elementwise, gemm
from lean_nn_c.executor import FRAMES
from lean_nn_c.step import Step

ONES = np.ones(3, np.float32)


def test_every_primitive_with_a_kernel_has_a_step():
    missing = [name for name, prim in registry.items() if prim.view is None and prim.step is None]
    assert not missing


def test_a_program_is_steps_only():
    """Loss, gradients, batch norm, dropout, an embedding and an update: nothing that would call Python."""

    def step(w, table, i, x, t):
        def loss(w):
            h = F.batch_norm(F.take(table, i, 0) @ w + x, None, None, training=True)
            return F.cross_entropy(F.dropout(h, 0.5, seed=3).astype("float64").astype("float32"), t)

        value, grad = ln.value_and_grad(loss)(w)
        return optim.sgd(w, grad, np.array(0.1), np.array(1.0), weight_decay=0.0, maximize=False), value

    w, table, i = np.ones((4, 3), np.float32), np.ones((5, 4), np.float32), np.array([0, 4])
    program = ln.compile(step, w, table, i, np.ones((2, 3), np.float32), np.array([0, 2]), inplace=0)
    assert all(type(one) is Step for one in program._executor.steps)
    names = {one.name for one in program._executor.steps}
    assert {"take", "normalize", "dropout", "cast", "cross_entropy", "sgd_update"} <= names


def test_a_call_enters_python_once():
    """While a program runs, no Python function is called: the interpreter's own hook would see it."""
    program = ln.compile(lambda x, i: F.softmax(F.take(x, i, 0).max(1)[0] * 2, 0).sum(), (9, 4), np.zeros(3, np.int64))
    inputs = [np.ones((9, 4), np.float32), np.array([1, 2, 8])]
    outputs = [np.empty((), np.float32)]
    program._executor.run(inputs, outputs)
    seen = []
    gc.disable()
    sys.setprofile(lambda frame, event, argument: seen.append(event))
    try:
        program._executor.run(inputs, outputs)
    finally:
        sys.setprofile(None)
        gc.enable()
    assert outputs[0] == 1
    assert "call" not in seen  # a Python function would be one; setprofile itself is a c_call


# --- elementwise operations on operands that repeat in any way ---


@st.composite
def broadcasts(draw):
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=5)))
    parts = []
    for _ in range(3):
        part = tuple(n if draw(st.booleans()) else 1 for n in shape)
        parts.append(part[draw(st.integers(0, len(shape))) :])
    return parts


@settings(max_examples=150, deadline=None)
@given(broadcasts(), st.sampled_from([np.float32, np.float64]))
def test_any_broadcast_has_a_step(shapes, dtype):
    rng = np.random.default_rng(0)
    a, b, c = (np.array(rng.standard_normal(shape), dtype) for shape in shapes)
    for prim, arrays, want in [
        (ops.sub, (a, b), a - b),
        (ops.greater, (a, b), a > b),
        (ops.where, (a > 0, b, c), np.where(a > 0, b, c)),
    ]:
        arrays, want = [np.asarray(x) for x in arrays], np.asarray(want)
        got = np.empty(want.shape, want.dtype)
        avals = [Aval(x.shape, x.dtype) for x in arrays]
        prim.step(*avals, out=(Aval(got.shape, got.dtype),))(*arrays, got)
        np.testing.assert_array_equal(got, want)
    items = (a.itemsize,) * 3
    out = np.empty(np.broadcast_shapes(a.shape, b.shape), dtype)
    elementwise.broadcast_step("mul", (a.shape, b.shape), out.shape, items, 0.0, 0.0, dtype is np.float64)(a, b, out)
    np.testing.assert_array_equal(out, a * b)


def test_broadcasts_that_are_none_are_refused():
    for name, shapes, out, words in [
        ("exp", ((2,),), (2,), "takes 1 operands"),
        ("add", ((2,), (3,)), (2,), "an operand has 3 on axis 0"),
        ("add", ((2, 2), (2,)), (2,), "fewer axes"),
        ("nothing", ((2,), (2,)), (2,), "got 'nothing'"),
        ("add", ((2**40, 2**40), (1,)), (2**40, 2**40), "fit into memory"),
    ]:
        with pytest.raises(ValueError, match=words):
            elementwise.broadcast_step(name, shapes, out, (4,) * (len(shapes) + 1), 0.0, 0.0, False)


# --- refusals: clear, and nothing has changed ---


def test_a_bad_index_is_named_as_in_eager_code():
    program = ln.compile(lambda x, i: F.take(x, i, 0) * 2, (3,), np.zeros(2, np.int64))
    for run in (program, lambda x, i: F.take(ln.tensor(x), i, 0)):
        with pytest.raises(IndexError, match="take: indices are 0 … 2 on an axis of 3; got 9 at flat position 1"):
            run(ONES, np.array([0, 9]))


def test_a_bad_beta_is_named_as_in_eager_code():
    window = strided("smooth_max_pool", 1, 2)
    program = ln.compile(lambda x, beta: smooth_max_pool(x, beta, window=window), (1, 1, 4), np.array(1, np.float32))
    x = np.ones((1, 1, 4), np.float32)
    assert program(x, np.array(2, np.float32)).shape == (1, 1, 2)
    with pytest.raises(ValueError, match="beta must be finite and not 0; got 0.0"):
        program(x, np.array(0, np.float32))


def test_steps_are_counted_from_one():
    p, g = np.ones(2), np.ones(2)
    with pytest.raises(ValueError, match="sgd_update: steps are counted from 1; got 0"):
        optim.sgd(p, g, np.array(0.1), np.array(0.0), weight_decay=0.0, maximize=False)


def test_a_refusal_leaves_the_state_as_it_was():
    """An update that stands before the node that refuses is not seen either."""

    def step(w, v, x, i):
        new = w * 2.0 + x
        read = F.take(x, i, 0).sum()  # may refuse, after w's new value is known
        return new, v + read, read

    w, v = ONES.copy(), ONES.copy()
    program = ln.compile(step, w, v, ONES, np.zeros(2, np.int64), inplace=(0, 1))
    with pytest.raises(IndexError):
        program(ONES, np.array([0, 3]))
    assert w.tolist() == v.tolist() == [1, 1, 1]
    assert program(ONES, np.array([0, 2])) == 2
    assert w.tolist() == v.tolist() == [3, 3, 3]


# --- frames ---


def test_no_more_frames_than_said_however_many_threads_wait():
    program = ln.compile(lambda x: (x @ x).sum(), (48, 48))
    x = np.ones((48, 48), np.float32)
    wrong: list[float] = []

    def work() -> None:
        for _ in range(40):
            value = float(program(x))
            if value != 48**3:
                wrong.append(value)

    threads = [threading.Thread(target=work) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert program._executor.made <= FRAMES


def test_the_number_of_threads_may_change_between_calls():
    program = ln.compile(lambda x: F.conv2d(x, np.ones((8, 4, 3, 3), np.float32), padding=1).sum(), (2, 4, 20, 20))
    x = np.random.default_rng(0).standard_normal((2, 4, 20, 20)).astype(np.float32)
    found = set()
    for n in (1, 3, 2, 7, 1):
        with ln.num_threads(n):
            found.add(program(x).tobytes())
    assert len(found) == 1


# --- scratch ---


@pytest.mark.parametrize("threads", [1, 3])
def test_scratch_is_known_beforehand(threads):
    """What a probed kernel says is what it takes: no piece of a run has to come from elsewhere, and all is used."""
    rng = np.random.default_rng(0)
    geometries = [
        (n, c, o, groups, size, kernel, stride, pad, dilation)
        for n, c, o, groups in [(1, 3, 8, 1), (3, 16, 16, 1), (2, 8, 8, 8), (1, 64, 32, 1), (5, 6, 12, 2)]
        for size, kernel, stride, pad, dilation in [
            ((20, 21), (3, 3), (1, 1), (1, 1), (1, 1)),
            ((19, 24), (5, 5), (2, 2), (2, 2), (1, 1)),
            ((12, 12), (1, 1), (1, 1), (0, 0), (1, 1)),
            ((17, 13), (3, 3), (2, 1), (0, 1), (2, 1)),
            ((9, 8, 7), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
            ((40,), (7,), (3,), (3,), (1,)),
            ((6, 6), (2, 2), (3, 3), (0, 0), (1, 1)),
        ]
    ]
    geometries += [  # folded, in parts of which the first is not the largest
        (32, 32, 64, 1, (4, 7), (5, 7), (1, 1), (4, 0), (1, 1)),
        (5, 32, 64, 2, (20, 14), (5, 7), (1, 2), (0, 3), (1, 2)),
    ]
    taken = 0
    with ln.num_threads(threads):
        for n, c, o, groups, size, kernel, stride, pad, dilation in geometries:
            out = tuple((s + 2 * p - d * (k - 1) - 1) // t + 1
                        for s, k, t, p, d in zip(size, kernel, stride, pad, dilation, strict=True))  # fmt: skip
            x, w, y = (n, c, *size), (o, c // groups, *kernel), (n, o, *out)
            arrays = {"conv": (x, w, y), "conv_input": (y, w, x), "conv_weight": (x, y, w)}
            for dtype in (np.float32, np.float64):
                for name, shapes in arrays.items():
                    for by in ("auto", "taps"):
                        step = conv_kernels.step(name, dtype is np.float64, False, n, c, o, groups, size, kernel, out, stride,
                                                 pad, dilation, by)  # fmt: skip
                        data = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
                        said, (used, strays) = step.scratch(threads), step.measure(*data)
                        assert strays == 0 and used <= said <= 2 * used, (name, by, x, w, stride)
                        taken += used
    assert taken


def test_products_and_sums_say_their_scratch():
    for shape in [(1, 1), (70, 33), (300, 200)]:
        a, b, c = (np.ones(s) for s in ((shape[0], 90), (90, shape[1]), shape))
        step = gemm.step(True, a.size, b.size, *shape, 90, False, False, (), (), ())
        for threads in (1, 2):
            with ln.num_threads(threads):
                assert step.measure(a, b, c) == (step.scratch(threads), 0)
    x, out = np.ones((3, 9000, 5), np.float32), np.empty((9000,), np.float32)
    step = registry["sum"].step(Aval(x.shape, x.dtype), out=(Aval(out.shape, out.dtype),), axes=(0, 2), keepdims=False)
    assert step.measure(x, out) == (step.scratch(1), 0)


def test_memory_counts_scratch():
    program = ln.compile(lambda x: F.conv2d(x, np.ones((32, 32, 3, 3), np.float32), padding=1), (1, 32, 40, 40))
    with ln.num_threads(1):
        one = program.memory
    with ln.num_threads(4):
        four = program.memory
    assert 0 < one.scratch < four.scratch and four.peak - one.peak == four.scratch - one.scratch
    assert one.peak == one.weights + one.arena + one.outputs + one.scratch
