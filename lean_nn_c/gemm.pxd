from libc.stdint cimport int64_t

from lean_nn_c._geometry cimport MAX_RANK
from lean_nn_c._types cimport real

cdef enum:
    FEW = 7                 # fewer rows than this are not packed
    PANEL_BYTES = 768       # of one column of the rows worked on together: their panels fit the second-level cache


cdef struct Product:
    int64_t m, n, k
    int64_t a_row, a_col, b_row, b_col      # strides of op(a) and op(b); one of each pair is 1
    int rank                                # batch axes
    int64_t batch
    int64_t size[MAX_RANK]
    int64_t a_step[MAX_RANK]
    int64_t b_step[MAX_RANK]
    int64_t bias_step[MAX_RANK]
    int64_t width                           # columns of a tile
    int64_t blocks                          # partial sums
    int64_t panels                          # scratch for a block's rows of op(a)
    bint as_dots


cdef struct Ahead:                          # cache lines to call in: `length` bytes of each of `rows` rows
    const char* place
    int64_t step, rows, length


cdef struct Split:                          # parts of the rows, parts of the tiles
    int64_t m, t


cdef int multiply(Product* p, const real* a, const real* b, const real* bias, real* c) noexcept nogil
cdef void pack_rows(const real* a, int64_t row, int64_t col, int64_t m, int64_t k, real* out) noexcept nogil
cdef void strip_product(int64_t m, int64_t k, const real* panels, const real* strip, const real* bias, bint add,
                        real* c, int64_t ldc, int64_t columns, const Ahead* ahead) noexcept nogil
cdef Split split_work(int64_t items, int64_t m, int64_t rows, int64_t least_rows, int64_t tiles, int64_t most_tiles,
                      int threads) noexcept nogil
