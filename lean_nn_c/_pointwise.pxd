"""Convolution with one tap on the image as it lies: matrix products of weight and image.

The weight is the left factor, which each thread packs into panels for every sample: with 7 x 7 cells that takes a tenth to a fifth
of the time, with 14 x 14 a twentieth. A weight that does not change is packed once (`pack_weight`).
"""

from libc.stdint cimport int64_t

from lean_nn_c._geometry cimport Geometry
from lean_nn_c._simd cimport LNN_ROWS
from lean_nn_c._tail cimport lnn_tail
from lean_nn_c._types cimport real
from lean_nn_c.gemm cimport FEW, Product, multiply, pack_rows, panels_of, set_blocks

cdef enum:
    LEAST_CELLS = 8         # fewer are dot products, which read the weight as it lies
    MOST_CELLS = 256        # more use a packed weight so often that packing it does not count


cdef inline bint is_pointwise(const Geometry* g) noexcept nogil:
    """One tap, unstrided, nothing padded."""
    cdef int i
    for i in range(g.rank):
        if g.ker[i] != 1 or g.stride[i] != 1 or g.pad[i] != 0 or g.out[i] != g.inp[i]:
            return False
    return True


cdef inline bint weight_packs(const Geometry* g, bint transposed) noexcept nogil:
    """Whether a packed weight is worth having, for one sample."""
    cdef int64_t m = g.cg if transposed else g.og
    return g.n == 1 and g.groups == 1 and m >= FEW and g.c > 0 and LEAST_CELLS <= g.cells <= MOST_CELLS and is_pointwise(g)


cdef inline int64_t weight_panels(const Geometry* g, bint transposed) noexcept nogil:
    """Values of the packed weight."""
    return panels_of(g.cg if transposed else g.og).count * LNN_ROWS * (g.og if transposed else g.cg)


cdef inline void pack_weight(const Geometry* g, bint transposed, const real* w, real* packed) noexcept nogil:
    """The panels of all rows, block of terms after block."""
    cdef Product p
    cdef int64_t part, k, terms, count
    p.m, p.k = g.cg if transposed else g.og, g.og if transposed else g.cg
    p.a_row, p.a_col = 1 if transposed else g.cg, g.cg if transposed else 1
    set_blocks(&p, <real>0)
    count = panels_of(p.m).count
    for part in range(p.blocks):
        k = p.k * part // p.blocks
        terms = p.k * (part + 1) // p.blocks - k
        pack_rows(w + k * p.a_col, p.a_row, p.a_col, p.m, terms, terms, packed + k * count * LNN_ROWS)


cdef inline int pointwise(const Geometry* g, bint transposed, bint packed, const real* source, const real* w,
                          const real* bias, const lnn_tail* tail, real* out) noexcept nogil:
    """One tap on the image as it lies is a matrix product per sample and group; w is `packed`, or as it is."""
    cdef Product p
    p.panelled = packed
    p.m, p.k, p.n = g.cg if transposed else g.og, g.og if transposed else g.cg, g.cells
    p.a_row, p.a_col = 1 if transposed else g.cg, g.cg if transposed else 1
    p.b_row, p.b_col = g.cells, 1
    p.rank, p.batch = 2, g.n * g.groups
    p.size[0], p.size[1] = g.n, g.groups
    p.a_step[0], p.a_step[1] = 0, g.og * g.cg
    p.b_step[0], p.b_step[1] = p.k * g.groups * g.cells, p.k * g.cells
    p.bias_step[0], p.bias_step[1] = 0, p.m
    p.column_bias, p.tail = NULL, tail
    return multiply(&p, w, source, bias, out)
