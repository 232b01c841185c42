"""The sizes of a matrix product, checked, the shapes in which it is quicker, lines called in, tiles that are cut, and rows' ends."""

from libc.stdint cimport int64_t
from libc.string cimport memcpy

from lean_nn_c._geometry cimport MAX_RANK, refuse
from lean_nn_c._simd cimport finish, lnn_prefetch
from lean_nn_c._tail cimport LNN_PLAIN, lnn_tail
from lean_nn_c._types cimport real
from lean_nn_c.gemm cimport Ahead, Product


cdef inline double span(const Product* p, bint left) noexcept nogil:
    """Values from the first to the last that the product reads of one operand."""
    cdef double last = <double>(p.m if left else p.n) * p.k
    cdef int i
    for i in range(p.rank):
        last += <double>(p.size[i] - 1) * (p.a_step[i] if left else p.b_step[i])
    return last


cdef inline int read_product(Product* p, int64_t m, int64_t n, int64_t k, bint ta, bint tb, tuple batch, tuple a_step,
                             tuple b_step) except -1:
    cdef int i
    cdef double total = 1
    if len(batch) > MAX_RANK or not len(batch) == len(a_step) == len(b_step) or m < 0 or n < 0 or k < 0:
        refuse("batch tuples differ in length, or a size is negative")
    p.m, p.n, p.k, p.rank, p.batch = m, n, k, <int>len(batch), 1
    p.a_row, p.a_col = 1 if ta else k, m if ta else 1
    p.b_row, p.b_col, p.packed, p.panelled, p.turned = 1 if tb else n, k if tb else 1, False, False, False
    for i in range(p.rank):
        p.size[i], p.a_step[i], p.b_step[i], p.bias_step[i] = batch[i], a_step[i], b_step[i], 0
        if p.size[i] < 0 or p.a_step[i] < 0 or p.b_step[i] < 0:
            refuse("a batch size or stride is negative")
        total *= p.size[i]
        if total > 4e18:
            refuse("sizes overflow")
        p.batch *= p.size[i]
    return 0


cdef inline void merge_rows(Product* p, bint ta) noexcept nogil:
    """One b for a dense batch of row-major a is one taller product."""
    cdef int i
    cdef int64_t dense = p.m * p.k
    if ta:
        return
    for i in range(p.rank - 1, -1, -1):
        if p.size[i] != 1 and (p.b_step[i] != 0 or p.a_step[i] != dense):
            return
        dense *= p.size[i]
    p.m *= p.batch
    p.batch = 1
    p.rank = 0


cdef inline void exchange(Product* p) noexcept nogil:
    """The turned product, c' = op(b)' op(a)': where c has one column, that is then a row in the same place."""
    cdef int64_t step[MAX_RANK]
    p.turned = True
    p.m, p.n = p.n, p.m
    p.a_row, p.a_col, p.b_row, p.b_col = p.b_col, p.b_row, p.a_col, p.a_row
    memcpy(&step[0], &p.a_step[0], sizeof(step))
    memcpy(&p.a_step[0], &p.b_step[0], sizeof(step))
    memcpy(&p.b_step[0], &step[0], sizeof(step))


cdef inline void call_in(const Ahead* ahead, int64_t part, int64_t parts) noexcept nogil:
    """Part `part` of `parts` of the cache lines that will be wanted next."""
    cdef int64_t row
    cdef const char* place
    cdef const char* end
    for row in range(ahead.rows * part // parts, ahead.rows * (part + 1) // parts):
        place = ahead.place + (row if ahead.off == NULL else ahead.off[row]) * ahead.step
        end = place + ahead.length
        place -= <size_t>place % 64
        while place < end:
            lnn_prefetch(place)
            place += 64


cdef inline void take(const real* part, int64_t ldp, int rows, int64_t columns, bint add, real* c, int64_t ldc) noexcept nogil:
    """The columns of a tile that exist."""
    cdef int m
    cdef int64_t j
    for m in range(rows):
        for j in range(columns):
            c[m * ldc + j] = part[m * ldp + j] + (c[m * ldc + j] if add else 0)


cdef inline void end_rows(const Product* p, real* c, int64_t m0, int64_t m1, int64_t first, int64_t stop) noexcept nogil:
    """What follows the sums c[m0:m1, first:stop], which are still in the cache."""
    cdef lnn_tail bias
    cdef real* row
    cdef int64_t m, i
    cdef bint whole = p.column_bias == NULL and stop - first == p.n     # then rows are one line: short ones cost their calls
    bias.adds, bias.act, bias.slope = True, LNN_PLAIN, 0
    for m in range(m0, min(m1, m0 + 1) if whole else m1):
        row = c + m * p.n + first
        for i in range(stop - first if p.column_bias != NULL and p.turned else 0):     # one value for all, and rare
            bias.other = <size_t>p.column_bias - <size_t>(row + i)
            finish(&bias, row + i, 1)
        if p.column_bias != NULL and not p.turned:
            bias.other = <size_t>(<const real*>p.column_bias + first) - <size_t>row
            finish(&bias, row, stop - first)
        finish(p.tail, row, (m1 - m0) * p.n if whole else stop - first)
