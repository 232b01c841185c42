"""``unfold`` (im2col) and ``fold`` (col2im): windows as columns, and the transpose of that.

Layout of PyTorch's ``unfold`` for any number of spatial axes: ``(N, C·ΠK, L)``, row ``c·ΠK + k``, column p,
both row-major.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from .container import Array, ArrayLike, as_array, zeros
from .conv_geometry import fold_shape, unfold_shape
from .convolution import IntLike, Padding, _geometry, _taps
from .geometry import flat_index, out_spatial


def unfold(
    x: ArrayLike, *, kernel: Sequence[int], stride: IntLike = 1, padding: Padding = 0, dilation: IntLike = 1
) -> Array:
    """``cols[n, (c, k), p] = x̃[n, c, p·s + k·r − before]``.

    Examples
    --------
    >>> unfold([[[1, 2, 3]]], kernel=(2,)).tolist()
    [[[1, 2], [2, 3]]]
    """
    x, size = as_array(x), tuple(kernel)
    g = _geometry("unfold", size, stride, padding, dilation)
    cols = zeros(unfold_shape("unfold", x.shape, size, *g))
    n, c, spatial = x.shape[0], x.shape[1], x.shape[2:]
    out = out_spatial("unfold", spatial, size, *g)
    for p, k, q in _taps(out, size, spatial, g):
        row, column = flat_index(k, size), flat_index(p, out)
        for i in range(n):
            for j in range(c):
                cols[i, j * prod(size) + row, column] = x[(i, j, *q)]
    return cols


def fold(
    cols: ArrayLike,
    *,
    spatial: Sequence[int],
    kernel: Sequence[int],
    stride: IntLike = 1,
    padding: Padding = 0,
    dilation: IntLike = 1,
) -> Array:
    """``x[n, c, q] = Σ cols[n, (c, k), p]`` over ``p·s + k·r − before = q``: unfold's transpose.

    Examples
    --------
    >>> fold([[[1, 2], [2, 3]]], spatial=(3,), kernel=(2,)).tolist()
    [[[1, 4, 3]]]
    """
    cols, size, into = as_array(cols), tuple(kernel), tuple(spatial)
    g = _geometry("fold", size, stride, padding, dilation)
    x = zeros(fold_shape("fold", cols.shape, into, size, *g))
    n, c, cells = x.shape[0], x.shape[1], prod(size)
    out = out_spatial("fold", into, size, *g)
    for p, k, q in _taps(out, size, into, g):
        row, column = flat_index(k, size), flat_index(p, out)
        for i in range(n):
            for j in range(c):
                x[(i, j, *q)] = x[(i, j, *q)] + cols[i, j * cells + row, column]
    return x
