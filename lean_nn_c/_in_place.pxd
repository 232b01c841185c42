"""A tap product of few rows: the planes are read where they lie, a tile of columns shifted by one offset per tap."""

from libc.stdint cimport int64_t
from libc.string cimport memcpy

from lean_nn_c._columns cimport MAX_TILE, Columns, Spot, locate
from lean_nn_c._simd cimport LNN_ROWS, lanes
from lean_nn_c._taps cimport Block, Taps, block_at
from lean_nn_c._types cimport real
from lean_nn_c.gemm cimport Panels, panels_of, rows_product


cdef inline void store(const Spot* s, int rows, const real* part, int64_t ldp, int64_t step, bint add,
                real* out, int64_t ldo) noexcept nogil:
    """Copy a tile's segments to their places."""
    cdef int m, i
    cdef int64_t j
    cdef real* to
    cdef const real* source
    for m in range(rows):
        for i in range(s.segments):
            to = out + m * ldo + s.segment[i].dest
            source = part + m * ldp + s.segment[i].column
            if step == 1 and not add:
                memcpy(to, source, s.segment[i].length * sizeof(real))
            elif add:
                for j in range(s.segment[i].length):
                    to[j * step] += source[j]
            else:
                for j in range(s.segment[i].length):
                    to[j * step] = source[j]


cdef inline void in_place(const Columns* c, const Taps* t, int m, const real* a, int64_t lda, const real* planes,
                   const real* bias, real* out, int64_t ldo, int64_t first, int64_t stop) noexcept nogil:
    """All rows of tiles first..stop of one sample and group."""
    cdef real part[LNN_ROWS * MAX_TILE]
    cdef Panels rows = panels_of(m)
    cdef Spot s
    cdef Block k
    cdef int64_t block, index
    cdef int per_vector = lanes(a)
    for block in range(t.blocks):
        k = block_at(t, block)
        for index in range(first, stop):
            locate(c, index, per_vector, &s)
            if s.whole:
                rows_product(&rows, k.terms, a + k.a, lda, t.a + k.first, planes + s.base + k.b, t.b + k.first,
                             bias if block == 0 else NULL, block > 0, out + s.segment[0].dest, ldo, s.vectors * per_vector)
            else:
                rows_product(&rows, k.terms, a + k.a, lda, t.a + k.first, planes + s.base + k.b, t.b + k.first,
                             bias if block == 0 else NULL, False, &part[0], MAX_TILE, s.vectors * per_vector)
                store(&s, m, &part[0], MAX_TILE, c.step[c.rank - 1], block > 0, out, ldo)
