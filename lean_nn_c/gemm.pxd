from libc.stdint cimport int64_t

from lean_nn_c._geometry cimport MAX_RANK
from lean_nn_c._simd cimport LNN_ROWS, whole_lines
from lean_nn_c._tail cimport lnn_tail
from lean_nn_c._types cimport real

cdef enum:
    FEW = 7                 # fewer rows than this are not packed
    SLIM = 16               # up to so many terms writing c is what costs
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
    bint packed                             # b is its strips, one after the other
    bint panelled                           # a is its panels, one after the other
    bint turned                             # the factors have changed places, and c, one column, is one row
    const void* column_bias                 # one value per column, added to the finished sums, or NULL
    const lnn_tail* tail                    # what follows, or NULL


cdef struct Ahead:                          # cache lines to call in: `length` bytes of each of `rows` rows,
    const char* place                       # which lie `step` bytes apart, or off[row] times as many from `place`
    const int64_t* off
    int64_t step, rows, length


cdef struct Panels:                         # rows cut into panels of about one height, the higher ones first
    int64_t count, least, higher


cdef struct Split:                          # parts of the rows, parts of the tiles
    int64_t m, t


cdef inline Panels panels_of(int64_t m) noexcept nogil:
    cdef Panels p
    p.count = (m + LNN_ROWS - 1) // LNN_ROWS
    p.least = m // max(p.count, 1)
    p.higher = m - p.least * p.count
    return p


cdef inline int rows_in(const Panels* p, int64_t i) noexcept nogil:
    return <int>(p.least + (i < p.higher))


cdef inline int64_t first_row(const Panels* p, int64_t i) noexcept nogil:
    return p.least * i + min(i, p.higher)


cdef inline int64_t panel_of(const Panels* p, int64_t row) noexcept nogil:
    """The panel that begins with `row`."""
    cdef int64_t high = p.higher * (p.least + 1)
    return row // (p.least + 1) if row < high else p.higher + (row - high) // max(p.least, <int64_t>1)


cdef inline int64_t panel_at(const Product* p, int64_t k, int64_t terms, int64_t row) noexcept nogil:
    """Where the panel that begins with `row` lies among those of all rows, in the block of `terms` terms from k."""
    cdef Panels whole = panels_of(p.m)
    return (k * whole.count + terms * panel_of(&whole, row)) * LNN_ROWS


cdef inline int64_t panels_size(int64_t m, int64_t k) noexcept nogil:
    """Values in the panels of m rows."""
    return whole_lines((m + LNN_ROWS - 1) // LNN_ROWS * LNN_ROWS * k)


cdef inline int64_t whole_vectors(int64_t columns, int per_vector) noexcept nogil:
    return (columns + per_vector - 1) // per_vector * per_vector


cdef inline void row_offsets(int64_t* off, int64_t count, int64_t step) noexcept nogil:
    cdef int64_t i
    for i in range(count):
        off[i] = i * step


cdef void set_blocks(Product* p, real unused) noexcept nogil
cdef int multiply(Product* p, const real* a, const real* b, const real* bias, real* c) noexcept nogil
cdef void pack_rows(const real* a, int64_t row, int64_t col, int64_t m, int64_t k, int64_t terms,
                    real* out) noexcept nogil
cdef void strip_product(int64_t m, int64_t k, const real* panels, const real* strip, const real* bias, bint add,
                        real* c, int64_t ldc, int64_t columns, const Ahead* ahead) noexcept nogil
cdef void slim_product(int64_t m, int64_t k, const real* panels, const real* strips, int64_t columns, const real* bias,
                       bint add, real* c, int64_t ldc, Ahead* ahead) noexcept nogil
cdef void rows_product(const Panels* p, int64_t k, const real* a, int64_t row, const int64_t* aoff, const real* b,
                       const int64_t* boff, const real* start, bint add, real* c, int64_t ldc,
                       int64_t columns) noexcept nogil
cdef void points_product(int vectors, int64_t k, const real* a, const int64_t* at, int64_t count, const int64_t* aoff, const real* b,
                         const int64_t* boff, bint add, real* c, int64_t ldc, Ahead* ahead) noexcept nogil
cdef void dot_products(int mr, int nr, int64_t k, const real** arow, const real** brow, bint add, real* c, int64_t ldo,
                       int64_t ldn) noexcept nogil
cdef Split split_work(int64_t items, int64_t m, int64_t rows, int64_t least_rows, int64_t tiles, int64_t most_tiles,
                      int threads) noexcept nogil
