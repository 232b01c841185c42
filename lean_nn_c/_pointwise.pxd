"""Convolution with one tap on the image as it lies: matrix products of weight and image."""

from libc.stdint cimport int64_t

from lean_nn_c._geometry cimport Geometry
from lean_nn_c._simd cimport lnn_tail
from lean_nn_c._types cimport real
from lean_nn_c.gemm cimport Product, multiply


cdef inline bint is_pointwise(const Geometry* g) noexcept nogil:
    """One tap, unstrided, nothing padded."""
    cdef int i
    for i in range(g.rank):
        if g.ker[i] != 1 or g.stride[i] != 1 or g.pad[i] != 0 or g.out[i] != g.inp[i]:
            return False
    return True


cdef inline int pointwise(const Geometry* g, bint transposed, const real* source, const real* w, const real* bias,
                          const lnn_tail* tail, real* out) noexcept nogil:
    """One tap on the image as it lies is a matrix product per sample and group."""
    cdef Product p
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
