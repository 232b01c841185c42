"""Copies of boxes against NumPy: turned, turned round, padded, joined, cut, at every size around a piece and a tile."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import lean_nn as ln
from lean_nn import functional as F

DTYPES = ["float32", "float64", "int64", "bool"]


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return (np.arange(int(np.prod(shape))).reshape(shape) * 7 % 251).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 5, 7), (16, 1, 33), (20, 17, 4), (2, 65, 66), (1, 4, 300)])
def test_every_permutation(dtype: str, shape: tuple[int, ...]) -> None:
    x = numbers(shape, dtype)
    for axes in permutations(range(3)):
        for threads in (1, 2):
            with ln.num_threads(threads):
                np.testing.assert_array_equal(F.transpose(ln.tensor(x), axes).numpy(), x.transpose(axes))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 63, 64, 65, 100])
def test_rows_of_every_length(dtype: str, n: int) -> None:
    x = numbers((9, n), dtype)
    box = ln.tensor(x)
    np.testing.assert_array_equal(F.flip(box, (1,)).numpy(), x[:, ::-1])
    np.testing.assert_array_equal(F.concat([box, box], 1).numpy(), np.concatenate([x, x], 1))
    for value in (0.0, -0.0, 2.5):
        padded = F.pad(box, (1, 2), value=value).numpy()
        expected = np.pad(x, ((0, 0), (1, 2)), constant_values=value)
        np.testing.assert_array_equal(padded, expected)
        np.testing.assert_array_equal(np.signbit(padded), np.signbit(expected))
    np.testing.assert_array_equal(box[:, 1:].numpy(), x[:, 1:])
    np.testing.assert_array_equal(box[::2, ::3].numpy(), x[::2, ::3])
    np.testing.assert_array_equal((box * 0 + ln.tensor(x[:, :1])).numpy(), np.broadcast_to(x[:, :1], x.shape))
