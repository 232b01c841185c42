"""``unfold`` (im2col) and ``fold`` (col2im): windows as columns, and the transpose of that.

Layout of PyTorch's ``unfold`` for any number of spatial axes: ``(N, C·ΠK, L)``, row ``c·ΠK + k``, column p,
both row-major.
"""

from __future__ import annotations

from collections.abc import Sequence

from .container import Array, ArrayLike, as_array, zeros
from .conv import Geometry, IntLike, Padding, _geometry, _taps
from .geometry import Ints, bad, check_at_least, check_elements, flat_index, out_spatial


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
    if x.ndim != len(size) + 2:
        rule = f"input must be (batch, channels, *spatial) with {len(size) + 2} axes"
        raise bad("unfold", rule, f"shape {x.shape}", "reshape it or change the kernel")
    g = _geometry("unfold", size, stride, padding, dilation)
    n, c, spatial = x.shape[0], x.shape[1], x.shape[2:]
    shape, out = _columns_shape("unfold", (n, c), spatial, size, g)
    cols = zeros(shape)
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
    check_at_least("fold", "spatial", into, 0)
    cells = _prod(size)
    if cols.ndim != 3 or (cells > 0 and cols.shape[1] % cells):
        rule = f"columns must be (batch, channels x {cells}, windows)"
        raise bad("fold", rule, f"shape {cols.shape}", "use unfold's layout")
    n, c = cols.shape[0], cols.shape[1] // max(cells, 1)
    shape, out = _columns_shape("fold", (n, c), into, size, g)
    if cols.shape != shape:
        raise bad("fold", f"columns must have shape {shape}", cols.shape, "use unfold's layout")
    x = zeros((n, c, *into))
    for p, k, q in _taps(out, size, into, g):
        row, column = flat_index(k, size), flat_index(p, out)
        for i in range(n):
            for j in range(c):
                x[(i, j, *q)] = x[(i, j, *q)] + cols[i, j * cells + row, column]
    return x


def _columns_shape(op: str, lead: Ints, spatial: Ints, kernel: Ints, g: Geometry) -> tuple[Ints, Ints]:
    out = out_spatial(op, spatial, kernel, *g)
    shape = (lead[0], lead[1] * _prod(kernel), _prod(out))
    check_elements(op, shape)
    return shape, out


def _prod(sizes: Ints) -> int:
    product = 1
    for n in sizes:
        product *= n
    return product
