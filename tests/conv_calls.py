"""The convolution kernels called on flat arrays, outputs last."""

from __future__ import annotations

import numpy as np

from lean_nn_c import conv as kernels
from lean_nn_c import threads


def conv(x, w, b, y, *rest):
    arrays = (x, w, y) if b is None else (x, w, b, y)
    kernels.step("conv", y.dtype == np.float64, b is not None, *rest)(*arrays)


def conv_input(y_bar, w, x_bar, *rest, b=None):
    arrays = (y_bar, w, x_bar) if b is None else (y_bar, w, b, x_bar)
    kernels.step("conv_input", w.dtype == np.float64, b is not None, *rest)(*arrays)


def conv_weight(x, y_bar, w_bar, *rest):
    kernels.step("conv_weight", x.dtype == np.float64, False, *rest)(x, y_bar, w_bar)


def unfold(x, cols, n, c, *sizes):
    kernels.step("unfold", x.dtype == np.float64, False, n, c, c, 1, *sizes)(x, cols)


def fold(cols, x_bar, n, c, *sizes):
    kernels.step("fold", cols.dtype == np.float64, False, n, c, c, 1, *sizes)(cols, x_bar)


def three(x, w, y, b, b_bar, call, count):
    """conv (bias b), conv_input (bias b_bar) and conv_weight of a layer on `count` threads, none with more scratch than said."""
    got = [np.full(a.shape, np.nan, a.dtype) for a in (y, x, w)]
    before = threads.get_num_threads()
    threads.set_num_threads(count)
    try:
        conv(x, w, b, got[0], *call)
        conv_input(y, w, got[1], *call, b=b_bar)
        conv_weight(x, y, got[2], *call)
        for name, arrays in (("conv", (x, w, got[0])), ("conv_input", (y, w, got[1])), ("conv_weight", (x, y, got[2]))):
            step = kernels.step(name, x.dtype == np.float64, False, *call)
            taken, strays = step.measure(*(a.copy() for a in arrays))
            assert taken <= step.scratch(count) and strays == 0
    finally:
        threads.set_num_threads(before)
    return got
