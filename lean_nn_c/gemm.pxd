from libc.stdint cimport int64_t

from lean_nn_c._geometry cimport MAX_RANK
from lean_nn_c._types cimport real


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
    int64_t gathered, strips                # scratch for a block's rows of op(a), and for its strips of op(b)
    bint as_dots


cdef int multiply(Product* p, const real* a, const real* b, const real* bias, real* c) noexcept nogil
