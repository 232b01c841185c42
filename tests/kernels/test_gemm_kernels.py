"""The matrix product against NumPy's in float64, within gamma_k |a| |b|."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lean_nn_c import gemm, threads

SIZES = st.one_of(st.integers(0, 9), st.integers(10, 70), st.sampled_from([96, 193, 257, 300]))


def matmul(a, b, c, *sizes):
    """The kernel on flat arrays."""
    gemm.step(a.dtype == np.float64, a.size, b.size, *sizes)(a, b, c)


def product(a, b, ta=False, tb=False):
    """matmul through the kernel with NumPy's broadcasting of batch axes."""
    m, k = (a.shape[-1], a.shape[-2]) if ta else a.shape[-2:]
    n = b.shape[-2] if tb else b.shape[-1]
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    c = np.full((*batch, m, n), np.nan, a.dtype)
    steps = []
    for array in (a, b):
        wide = np.broadcast_to(array, (*batch, *array.shape[-2:]))
        steps.append(tuple(abs(s) // array.itemsize for s in wide.strides[:-2]))
    matmul(a.reshape(-1), b.reshape(-1), c.reshape(-1), m, n, k, ta, tb, batch, *steps)
    return c


def check(a, b, ta, tb):
    got = product(a, b, ta, tb)
    left, right = (
        np.swapaxes(x, -1, -2).astype(float) if t else x.astype(float) for x, t in ((a, ta), (b, tb))
    )
    k = left.shape[-1]
    u = np.finfo(a.dtype).eps / 2
    np.testing.assert_array_less(abs(got - left @ right), (k + 1) * u * (abs(left) @ abs(right)) + 1e-300)


@given(SIZES, SIZES, SIZES, st.booleans(), st.booleans(), st.sampled_from([np.float32, np.float64]))
@settings(max_examples=300, deadline=None)
def test_product(m, n, k, ta, tb, dtype):
    rng = np.random.default_rng(m * 7 + n)
    a = rng.standard_normal((k, m) if ta else (m, k)).astype(dtype)
    b = rng.standard_normal((n, k) if tb else (k, n)).astype(dtype)
    check(a, b, ta, tb)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize(
    "size",
    [
        (7, 33, 5),  # the least rows that are packed: panels of three and four
        (193, 17, 257),  # one row more than a block of float32 holds, one column more than a strip, one term more
        (97, 130, 513),
        (6, 65, 40),  # few rows, a part of a tile at the end
        (13, 7, 1100),  # few columns, more terms than a block of dot products
        (1, 29, 1030),
        (31, 1, 1030),
        (8, 8, 1),
        (13, 1101, 3),  # few terms: more strips than go together, a part of one at the end
        (200, 1031, 16),
    ],
)
def test_edges_of_blocks(size, ta, tb, dtype):
    m, n, k = size
    rng = np.random.default_rng(m)
    a = rng.standard_normal((k, m) if ta else (m, k)).astype(dtype)
    b = rng.standard_normal((n, k) if tb else (k, n)).astype(dtype)
    check(a, b, ta, tb)


def test_whole_numbers_are_exact():
    """Every packed value meets its partner: sums of small integers have one right answer."""
    rng = np.random.default_rng(0)
    for m, n, k in ((50, 70, 300), (200, 33, 31), (9, 100, 600)):
        a, b = rng.integers(-4, 5, (m, k)).astype(np.float32), rng.integers(-4, 5, (k, n)).astype(np.float32)
        for ta, tb in ((False, False), (True, False), (False, True), (True, True)):
            left, right = np.ascontiguousarray(a.T if ta else a), np.ascontiguousarray(b.T if tb else b)
            np.testing.assert_array_equal(product(left, right, ta, tb), a @ b)


@pytest.mark.parametrize(
    "shapes", [((3,), (3,)), ((3,), ()), ((), (4,)), ((2, 1), (1, 3)), ((0,), (1,)), ((5, 1, 2), (4, 1))]
)
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("n", [4, 1])
def test_batches_broadcast(shapes, ta, tb, n):
    rng = np.random.default_rng(3)
    a = rng.standard_normal((*shapes[0], *((7, 5) if ta else (5, 7))))
    b = rng.standard_normal((*shapes[1], *((n, 7) if tb else (7, n))))
    check(a, b, ta, tb)


@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("size", [(2, 400, 300), (200, 210, 300), (400, 3, 300), (400, 1, 300), (300, 900, 5)])
def test_same_bits_for_any_number_of_threads(size, ta, tb):
    m, n, k = size
    rng = np.random.default_rng(5)
    a = rng.standard_normal((k, m) if ta else (m, k)).astype(np.float32)
    b = rng.standard_normal((n, k) if tb else (k, n)).astype(np.float32)
    before = threads.get_num_threads()
    try:
        results = []
        for count in (1, 2, 5):
            threads.set_num_threads(count)
            results.append(product(a, b, ta, tb).tobytes())
    finally:
        threads.set_num_threads(before)
    assert len(set(results)) == 1


def test_infinities_and_nan_stay_in_their_rows():
    a, b = np.ones((9, 20)), np.ones((20, 19))
    a[3, 4], b[5, 6] = np.inf, np.nan
    c = product(a, b)
    assert np.isinf(c[3, :6]).all() and np.isnan(c[:, 6]).all()
    assert np.isfinite(np.delete(np.delete(c, 3, 0), 6, 1)).all()


def test_refuses_what_does_not_fit():
    a, b, c = np.zeros(6), np.zeros(6), np.zeros(4)
    matmul(a, b, c, 2, 2, 3, False, False, (), (), ())
    for sizes in ((2, 2, 4), (2, 3, 3), (-1, 2, 3)):
        with pytest.raises(ValueError, match="lean_nn_c"):
            matmul(a, b, c, *sizes, False, False, (), (), ())
    with pytest.raises(ValueError, match="lean_nn_c"):
        matmul(a, b, np.zeros(8), 2, 2, 3, False, False, (2,), (6,), (0,))
