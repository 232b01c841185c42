"""Channels that go alone, straight from the image: beside products of real cells, at the ends of arrays, with infinities."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lean_nn import threads
from lean_nn.config import config
from lean_nn_c import conv

DTYPES = (np.float32, np.float64)
LEVEL = config()["isa"]["chosen"]
TAKES_PART = LEVEL in ("x86_64_v3", "x86_64_v4")  # others' vectors are too short for this algorithm
# n, c, o, groups, spatial, kernel, out, stride, pad, dilation: as the kernels take them
CALLS = [
    (2, 5, 5, 5, (7, 7), (3, 3), (7, 7), (1, 1), (1, 1), (1, 1)),  # two rows to a vector of 16
    (3, 4, 4, 4, (14, 14), (3, 3), (14, 14), (1, 1), (1, 1), (1, 1)),  # a vector has what its neighbours see
    (2, 3, 3, 3, (28, 30), (3, 3), (28, 30), (1, 1), (1, 1), (1, 1)),  # blocks that overlap
    (1, 4, 8, 4, (9, 11), (3, 3), (9, 11), (1, 1), (1, 1), (1, 1)),  # two outputs of a channel
    (2, 3, 3, 3, (13, 15), (5, 4), (9, 14), (1, 1), (0, 1), (1, 1)),  # other kernels
    (2, 3, 3, 3, (20, 12), (3, 3), (8, 8), (2, 1), (0, 0), (2, 2)),  # a stride, dilation
    (2, 3, 3, 3, (5, 6, 5), (3, 3, 3), (5, 6, 5), (1, 1, 1), (1, 1, 1), (1, 1, 1)),  # three axes
    (1, 2, 2, 2, (2, 3), (3, 3), (2, 3), (1, 1), (1, 1), (1, 1)),  # fewer rows than go together
    (2, 2, 2, 2, (1, 1), (7, 7), (1, 1), (1, 1), (3, 3), (1, 1)),
    (1, 2, 2, 2, (4, 5), (3, 3), (12, 13), (1, 1), (5, 5), (1, 1)),  # windows wholly in the padding
    (1, 1, 1, 1, (40, 70), (3, 3), (40, 70), (1, 1), (1, 1), (1, 1)),
]


def arrays(call, dtype, seed=0, draw=None):
    n, c, o, _, spatial, size, out = call[:7]
    rng = np.random.default_rng(seed)
    draw = draw or (lambda k: rng.integers(-3, 4, k))
    sizes = n * c * np.prod(spatial), o * np.prod(size), n * o * np.prod(out)
    return [draw(int(k)).astype(dtype) for k in sizes]


def results(call, x, w, y, algorithm, count=1, act=""):
    """conv, conv_input and conv_weight; what is written into begins as NaN."""
    found = []
    for name, first, second, like in (("conv", x, w, y), ("conv_input", y, w, x), ("conv_weight", x, y, w)):
        step = conv.step(name, x.dtype == np.float64, False, *call, algorithm, act=act if name != "conv_weight" else "")
        found.append(np.full_like(like, np.nan))
        with threads.num_threads(count):
            step(first, second, found[-1])
            taken, strays = step.measure(first, second, found[-1].copy())
            assert taken <= step.scratch(count)
        assert strays == 0 or not np.isfinite(found[-1]).all()
    return found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_sums_of_small_integers_are_exact(call, dtype):
    x, w, y = arrays(call, dtype)
    want = results(call, x, w, y, "direct")
    for count in (1, 2, 3):
        for got, right in zip(results(call, x, w, y, "depthwise", count), want, strict=True):
            np.testing.assert_array_equal(got, right)
    for got, right in zip(results(call, x, w, y, "depthwise", 1, "relu")[:2], want[:2], strict=True):
        np.testing.assert_array_equal(got, np.maximum(right, 0))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_any_depthwise_layer(data):
    def draw(low, high):
        return data.draw(st.integers(low, high))

    rank = draw(2, 3)
    axes = []
    for axis in range(rank):
        k, d, s = draw(1, 5), draw(1, 2), draw(1, 2) if axis < rank - 1 else 1
        before, after = draw(0, d * (k - 1) + 1), draw(0, d * (k - 1) + 1)
        size = max(draw(1, 40 if rank == 2 else 9), d * (k - 1) + 1 - before - after, 1)
        axes.append((size, k, (size + before + after - d * (k - 1) - 1) // s + 1, s, before, d))
    c, more = draw(1, 3), draw(1, 2)
    call = (draw(1, 3), c, c * more, c, *zip(*axes, strict=True))
    x, w, y = arrays(call, data.draw(st.sampled_from(DTYPES)))
    for got, right in zip(results(call, x, w, y, "depthwise", draw(1, 2)), results(call, x, w, y, "direct"), strict=True):
        np.testing.assert_array_equal(got, right)


def guarded(values, at_end):
    """The same numbers where a page that nobody may touch begins or ends."""
    page = mmap.PAGESIZE
    room = -(-values.nbytes // page) * page
    block = mmap.mmap(-1, room + 2 * page, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    whole = np.frombuffer(block, np.uint8)
    libc = ctypes.CDLL(None)
    for edge in (0, page + room):
        assert libc.mprotect(whole[edge:].ctypes.data_as(ctypes.c_void_p), page, 0) == 0
    first = page + (room - values.nbytes if at_end else 0)
    view = whole[first : first + values.nbytes].view(values.dtype)
    view[:] = values
    return view


@pytest.mark.skipif(not hasattr(mmap, "PROT_READ"), reason="pages that nobody may touch are asked for as on Linux")
@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_nothing_beside_the_arrays_is_read_or_written(call, at_end):
    x, w, y = arrays(call, np.float32)
    want = results(call, x, w, y, "direct")
    kept = [guarded(a, at_end) for a in (x, w, y)]
    for name, first, second, right in zip(("conv", "conv_input", "conv_weight"), (0, 2, 0), (1, 1, 2), want, strict=True):
        out = guarded(np.zeros_like(right), at_end)
        conv.step(name, False, False, *call, "depthwise")(kept[first], kept[second], out)
        np.testing.assert_array_equal(out, right)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("call", CALLS[:6], ids=str)
def test_infinities_meet_no_padding(call, dtype):
    rng = np.random.default_rng(0)
    for spoilt in range(3):
        some = arrays(call, dtype, draw=rng.standard_normal)
        some[spoilt][[0, -1]] = np.inf, np.nan
        with np.errstate(invalid="ignore"):
            found = zip(results(call, *some, "depthwise"), results(call, *some, "direct"), strict=True)
        for got, right in found:
            np.testing.assert_array_equal(np.isnan(got), np.isnan(right))
            np.testing.assert_array_equal(np.isposinf(got), np.isposinf(right))


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_it_is_this_algorithm_that_ran(call):
    """By the scratch it takes: a plan, which no other algorithm has."""
    for name in ("conv", "conv_input", "conv_weight"):
        if name != "conv_input" or (call[1] == call[2] and max(call[7]) == 1):
            own = conv.step(name, False, False, *call, "depthwise").scratch(1)
            assert (own >= 2**17) == TAKES_PART
            assert own <= 2**20


def test_auto_takes_small_planes():
    """Where it was measured to be ahead; of planes far from the cache conv_weight is not, and nor are longer kernels."""

    def chosen(name, n, c, size, k=3):
        call = (n, c, c, c, (size, size), (k, k), (size, size), (1, 1), (k // 2, k // 2), (1, 1))
        auto, own = (conv.step(name, False, False, *call, by).scratch(1) for by in ("auto", "depthwise"))
        return TAKES_PART and auto == own

    wide = LEVEL == "x86_64_v4"
    for name in ("conv", "conv_input"):
        assert [chosen(name, 32, 128, size) for size in (6, 7, 14, 28)] == [False, TAKES_PART, TAKES_PART, wide]
        assert not chosen(name, 32, 32, 56) and not chosen(name, 1, 96, 14, 5)
    assert [chosen("conv_weight", 32, 128, size) for size in (7, 14, 28)] == [False, wide, TAKES_PART]
    assert not chosen("conv_weight", 32, 32, 112)
