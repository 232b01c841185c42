"""``unfold`` (im2col) and ``fold`` (col2im): windows as columns, and the transpose of that.

Layout of PyTorch's ``unfold`` for any number of spatial axes: ``(N, C·ΠK, L)``, row ``c·ΠK + k``, column p,
both row-major.
"""

from __future__ import annotations

from collections.abc import Sequence

from .container import Array, ArrayLike, as_array, zeros
from .convolution import IntLike, Padding, _geometry, _taps
from .geometry import Ints, Pairs, bad, check_at_least, check_elements, flat_index, out_spatial


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
                cols[i, j * _prod(size) + row, column] = x[(i, j, *q)]
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
    n, c, cells = x.shape[0], x.shape[1], _prod(size)
    out = out_spatial("fold", into, size, *g)
    for p, k, q in _taps(out, size, into, g):
        row, column = flat_index(k, size), flat_index(p, out)
        for i in range(n):
            for j in range(c):
                x[(i, j, *q)] = x[(i, j, *q)] + cols[i, j * cells + row, column]
    return x


def unfold_shape(op: str, x_shape: Ints, kernel: Ints, stride: Ints, pads: Pairs, dilation: Ints) -> Ints:
    """``(N, C·ΠK, L)``: shape of ``unfold(x[N,C,*S]; kernel=K)``, or its error."""
    if len(x_shape) != len(kernel) + 2:
        rule = f"input must be (batch, channels, *spatial) with {len(kernel) + 2} axes"
        raise bad(op, rule, f"shape {x_shape}", "reshape it or change the kernel")
    out = out_spatial(op, x_shape[2:], kernel, stride, pads, dilation)
    shape = (x_shape[0], x_shape[1] * _prod(kernel), _prod(out))
    check_elements(op, shape)
    return shape


def fold_shape(
    op: str, cols_shape: Ints, spatial: Ints, kernel: Ints, stride: Ints, pads: Pairs, dilation: Ints
) -> Ints:
    """``(N, C, *S)``: shape of ``fold(cols[N,C·ΠK,L]; spatial=S, kernel=K)``, or its error."""
    check_at_least(op, "spatial", spatial, 0)
    cells = _prod(kernel)
    if len(cols_shape) != 3 or (cells > 0 and cols_shape[1] % cells):
        rule = f"columns must be (batch, channels x {cells}, windows)"
        raise bad(op, rule, f"shape {cols_shape}", "use unfold's layout")
    shape = (cols_shape[0], cols_shape[1] // max(cells, 1), *spatial)
    expected = unfold_shape(op, shape, kernel, stride, pads, dilation)
    if cols_shape != expected:
        raise bad(op, f"columns must have shape {expected}", cols_shape, "use unfold's layout")
    check_elements(op, shape)
    return shape


def _prod(sizes: Ints) -> int:
    product = 1
    for n in sizes:
        product *= n
    return product
