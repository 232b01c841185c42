"""Products whose factors both run along k, with few rows or columns: dot products."""

from libc.stdint cimport int64_t

from lean_nn_c._simd cimport dots, turn
from lean_nn_c._types cimport real
from lean_nn_c.gemm cimport Product

cdef enum:
    LONG_BLOCK = 1024       # terms of a partial sum where vectors run along k: as many per lane and less to add up


cdef inline void dot_tile(const real* a, int64_t lda, int mr, const real* b, int64_t ldb, int nr, int64_t k, bint add,
                          real* c, int64_t ldo, int64_t ldn) noexcept nogil:
    """c[m*ldo + n*ldn] (+)= row m of a . row n of b, mr <= 6, nr <= 3."""
    cdef const real* arow[6]
    cdef const real* brow[3]
    cdef int i
    for i in range(mr):
        arow[i] = a + i * lda
    for i in range(nr):
        brow[i] = b + i * ldb
    dots(mr, nr, k, arow, brow, add, c, ldo, ldn)


cdef inline void dot_rows(const Product* p, const real* a, const real* b, real* c, int64_t m0, int64_t m1,
                          int64_t first, int64_t stop, real* scratch) noexcept nogil:
    """c[m0:m1, first:stop]; six rows (a cache set holds eight) against a single one, else four against three."""
    cdef const real* rows
    cdef int64_t k, part_k, terms, m, n, ldb
    for part_k in range((p.k + LONG_BLOCK - 1) // LONG_BLOCK):
        k = part_k * LONG_BLOCK
        terms = min(<int64_t>LONG_BLOCK, p.k - k)
        rows, ldb = b + k, p.b_col
        if p.b_row != 1:                # few columns, turned
            turn(b + k * p.b_row, p.b_row, terms, p.n, scratch, terms)
            rows, ldb = scratch, terms
        if p.m == 1:
            for n in range(first, stop, 6):
                dot_tile(rows + n * ldb, ldb, <int>min(<int64_t>6, stop - n), a + k, 0, 1, terms, k > 0, c + n, 1, 0)
        elif p.n == 1:
            for m in range(m0, m1, 6):
                dot_tile(a + m * p.a_row + k, p.a_row, <int>min(<int64_t>6, m1 - m), rows, 0, 1, terms, k > 0, c + m,
                         1, 0)
        elif m1 - m0 > stop - first:
            for m in range(m0, m1, 4):
                for n in range(first, stop, 3):
                    dot_tile(a + m * p.a_row + k, p.a_row, <int>min(<int64_t>4, m1 - m), rows + n * ldb, ldb,
                             <int>min(<int64_t>3, stop - n), terms, k > 0, c + m * p.n + n, p.n, 1)
        else:
            for n in range(first, stop, 3):
                for m in range(m0, m1, 4):
                    dot_tile(a + m * p.a_row + k, p.a_row, <int>min(<int64_t>4, m1 - m), rows + n * ldb, ldb,
                             <int>min(<int64_t>3, stop - n), terms, k > 0, c + m * p.n + n, p.n, 1)
