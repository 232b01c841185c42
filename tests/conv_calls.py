"""The convolution kernels called on flat arrays, outputs last."""

from __future__ import annotations

import numpy as np

from lean_nn_c import conv as kernels


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
