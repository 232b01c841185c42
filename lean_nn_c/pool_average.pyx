"""Average pooling and its transpose.

Arrays and tables as in ``pool.pyx``. A window's divisor is the product over the axes of a table: all cells inside
the padded input (`PADDED`), the real ones (`REAL`), or one given number (`GIVEN`).

Both directions gather: a thread owns what it writes, sums run in row-major order of the cells (of the windows), so
the bits do not depend on the number of threads. With n terms in a sum, |ŷ − y| ≤ γₙ₊₂ · Σ|terms| / divisor.
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from lean_nn_c._types cimport real
from lean_nn_c._window cimport (
    Axis, Band, CoverCursor, RowCursor, Windows, list_rows, next_cover, next_row, planes_of, seek, start_band,
    start_cover, start_rows, whole,
)
from lean_nn_c.threads cimport threads_for

cdef extern from "pool_rows.h" nogil:
    enum:
        LNN_BYTES
        LNN_CELLS
        LNN_ROWS
    bint lnn_tiles_fit(const Axis*, int64_t)
    bint lnn_spread_fits(const Axis*)
    float lnn_sum_all_f32(const float*, int64_t)
    double lnn_sum_all_f64(const double*, int64_t)
    void lnn_average_band_f32(const float*, const Band*, float, const int64_t*, float*)
    void lnn_average_band_f64(const double*, const Band*, double, const int64_t*, double*)
    void lnn_spread_row_f32(
        const float*, const int64_t*, const float*, int64_t, const Axis*, const int64_t*, int64_t, int64_t, float*)
    void lnn_spread_row_f64(
        const double*, const int64_t*, const double*, int64_t, const Axis*, const int64_t*, int64_t, int64_t,
        double*)

cdef enum:
    BLOCK = 4096         # outputs of a long row that one thread computes at a time
    GROUP = 1024         # outputs (cells, for the transpose) of several short rows, likewise
    PADDED = 0
    REAL = 1
    GIVEN = 2


cdef struct Divisor:
    int kind
    double given


cdef inline const int64_t* inner_table(const Axis* axis, Divisor by) noexcept nogil:
    if by.kind == GIVEN:
        return NULL
    return axis.count if by.kind == REAL else axis.divisor


cdef inline double outer_divisor(int64_t padded, int64_t count, Divisor by) noexcept nogil:
    if by.kind == GIVEN:
        return by.given
    return <double>max(1, count if by.kind == REAL else padded)


# --- forward -----------------------------------------------------------------------------------------------------


cdef void average_cells(
    const real* x,               # IN: the plane
    const Windows* w,
    RowCursor* rows,             # IN: at the first row of the box
    int64_t p0, int64_t p1, Divisor by,
    real* y,                     # OUT: the output row
) noexcept nogil:
    """Any geometry: row by row of the box, each output's cells in order."""
    cdef const Axis* axis = &w.axis[w.rank - 1]
    cdef const int64_t* inner = inner_table(axis, by)
    cdef real outer = <real>outer_divisor(rows.divisor, rows.count, by)
    cdef int64_t p, j
    cdef const real* cell
    cdef real total
    for p in range(p0, p1):
        y[p] = 0
    while rows.left > 0:
        for p in range(p0, p1):
            cell = x + rows.offset + axis.first[p]
            total = y[p]
            for j in range(axis.count[p]):
                total = total + cell[j * axis.step]
            y[p] = total
        next_row(rows, w)
    for p in range(p0, p1):
        y[p] = y[p] / (outer * <real>(max(1, inner[p]) if inner != NULL else 1))


cdef void average_rows(
    const real* x, const Windows* w, int64_t planes, bint tiled, int64_t row, int64_t end, int64_t p0, int64_t p1,
    Divisor by, real* y,
) noexcept nogil:
    """Outputs `p0` to `p1` of the output rows `row` to `end`, counted over all planes."""
    cdef RowCursor rows
    cdef int64_t[LNN_ROWS] offsets
    cdef Band band
    cdef const Axis* axis = &w.axis[w.rank - 1]
    cdef const real* plane
    cdef double outer
    while row < end:
        start_rows(&rows, w, row % w.out_rows)
        plane = x + row // w.out_rows * w.in_cells
        if tiled and 0 < rows.left <= LNN_ROWS:
            outer = outer_divisor(rows.divisor, rows.count, by)
            start_band(&band, w, planes, row, end, p0, p1)
            band.rows, band.n_rows = offsets, list_rows(&rows, w, offsets, LNN_ROWS)
            if real is float:
                lnn_average_band_f32(plane, &band, <float>outer, inner_table(axis, by), y + row * axis.outputs)
            else:
                lnn_average_band_f64(plane, &band, outer, inner_table(axis, by), y + row * axis.outputs)
            row += band.run
        else:
            average_cells(plane, w, &rows, p0, p1, by, y + row * axis.outputs)
            row += 1


cdef inline real sum_whole(const real* x, int64_t cells) noexcept nogil:
    if real is float:
        return lnn_sum_all_f32(x, cells)
    else:
        return lnn_sum_all_f64(x, cells)


cdef inline double whole_divisor(const Windows* w, Divisor by) noexcept nogil:
    return by.given if by.kind == GIVEN else <double>w.in_cells


cdef void average_planes(const real* x, real* y, const Windows* w, int64_t planes, Divisor by) noexcept nogil:
    cdef int64_t outputs = w.axis[w.rank - 1].outputs
    cdef int64_t blocks = (outputs + BLOCK - 1) // BLOCK
    cdef int64_t rows = planes * w.out_rows
    cdef int64_t group = max(1, GROUP // outputs), groups = (rows + group - 1) // group
    cdef bint tiled = lnn_tiles_fit(&w.axis[w.rank - 1], LNN_BYTES // sizeof(real))
    cdef int threads = threads_for(rows * outputs * w.box)
    cdef int64_t unit, p0
    cdef real divisor
    if whole(w):
        divisor = <real>whole_divisor(w, by)
        for unit in prange(planes, schedule="static", num_threads=threads):
            y[unit] = sum_whole(x + unit * w.in_cells, w.in_cells) / divisor
    elif blocks == 1:
        for unit in prange(groups, schedule="static", num_threads=threads):
            average_rows(x, w, planes, tiled, unit * group, min((unit + 1) * group, rows), 0, outputs, by, y)
    else:
        for unit in prange(rows * blocks, schedule="static", num_threads=threads):
            p0 = unit % blocks * BLOCK
            average_rows(
                x, w, planes, tiled, unit // blocks, unit // blocks + 1, p0, min(p0 + BLOCK, outputs), by, y)


def avg_pool(
    const real[::1] x not None,          # IN: planes × cells
    real[::1] y not None,                # OUT: planes × windows
    const int64_t[::1] axes not None, const int64_t[::1] outputs not None, const int64_t[::1] inputs not None,
    int kind, double given,
):
    """y[p] = Σ window p / divisor[p]; 0 where the window has no cell."""
    cdef Windows w
    cdef Divisor by
    by.kind, by.given = kind, given
    cdef int64_t planes = planes_of(&w, axes, outputs, inputs, x.shape[0], y.shape[0])
    if y.shape[0] == 0:
        return
    cdef const real* source = &x[0] if x.shape[0] else NULL
    with nogil:
        average_planes(source, &y[0], &w, planes, by)


# --- transpose ---------------------------------------------------------------------------------------------------


cdef void spread_cells(
    const real* y_bar,           # IN: the plane
    const Windows* w,
    CoverCursor* rows,           # IN: at the first output row above
    int64_t j0, int64_t j1, Divisor by,
    real* x_bar,                 # OUT: the input row
) noexcept nogil:
    """Any geometry: output row by output row above the cell, each row's windows in order."""
    cdef const Axis* axis = &w.axis[w.rank - 1]
    cdef const int64_t* inner = inner_table(axis, by)
    cdef real outer, total
    cdef int64_t j, p
    for j in range(j0, j1):
        x_bar[j] = 0
    while rows.valid:
        outer = <real>outer_divisor(rows.divisor, rows.count, by)
        for j in range(j0, j1):
            total = x_bar[j]
            p = seek(axis, j, axis.low[j])
            while p < axis.high[j]:
                total = total + y_bar[rows.offset + p] / (outer * <real>(max(1, inner[p]) if inner != NULL else 1))
                p = seek(axis, j, p + 1)
            x_bar[j] = total
        next_cover(rows, w)


cdef int64_t list_cover(CoverCursor* c, const Windows* w, Divisor by, int64_t* offsets, real* outer) noexcept nogil:
    """Output rows above, with their divisors; −1 where they are more than `LNN_ROWS`."""
    cdef int64_t n = 0
    while c.valid:
        if n == LNN_ROWS:
            return -1
        offsets[n] = c.offset
        outer[n] = <real>outer_divisor(c.divisor, c.count, by)
        n += 1
        next_cover(c, w)
    return n


cdef void spread_piece(
    const real* y_bar, const Windows* w, bint tiled, int64_t row, int64_t j0, int64_t j1, Divisor by, real* x_bar,
) noexcept nogil:
    """Cells `j0` to `j1` of one input row."""
    cdef CoverCursor rows
    cdef int64_t[LNN_ROWS] offsets
    cdef int64_t n = -1
    cdef real[LNN_ROWS] outer
    cdef const Axis* axis = &w.axis[w.rank - 1]
    cdef const int64_t* inner = inner_table(axis, by)
    start_cover(&rows, w, row)
    if tiled:
        n = list_cover(&rows, w, by, offsets, outer)
    if n < 0:
        start_cover(&rows, w, row)
        spread_cells(y_bar, w, &rows, j0, j1, by, x_bar)
    elif real is float:
        lnn_spread_row_f32(y_bar, offsets, outer, n, axis, inner, j0, j1, x_bar)
    else:
        lnn_spread_row_f64(y_bar, offsets, outer, n, axis, inner, j0, j1, x_bar)


cdef inline bint same_windows(const Windows* w, int64_t r) noexcept nogil:
    """Whether rows r − 1 and r of a plane lie under the same windows: neighbours on the last outer axis that do."""
    cdef const Axis* axis
    cdef int64_t j
    if w.rank < 2 or r == 0:
        return False
    axis = &w.axis[w.rank - 2]
    j = r % axis.size
    return (
        j > 0 and axis.step == 1 and axis.low[j] == axis.low[j - 1] and axis.high[j] == axis.high[j - 1])


cdef void spread_rows(
    const real* y_bar, const Windows* w, bint tiled, int64_t row, int64_t end, Divisor by, real* x_bar,
) noexcept nogil:
    """Whole input rows `row` to `end`, counted over all planes."""
    cdef int64_t size = w.axis[w.rank - 1].size, plane = row // w.in_rows, r = row - plane * w.in_rows, begin = row
    while row < end:
        if row > begin and same_windows(w, r):
            memcpy(x_bar + row * size, x_bar + (row - 1) * size, size * sizeof(real))
        else:
            spread_piece(y_bar + plane * w.out_cells, w, tiled, r, 0, size, by, x_bar + row * size)
        row += 1
        r += 1
        if r == w.in_rows:
            r = 0
            plane += 1


cdef void fill(real value, int64_t n, real* x_bar) noexcept nogil:
    cdef int64_t j
    for j in range(n):
        x_bar[j] = value


cdef void spread_planes(const real* y_bar, real* x_bar, const Windows* w, int64_t planes, Divisor by) noexcept nogil:
    cdef int64_t size = w.axis[w.rank - 1].size
    cdef int64_t blocks = (size + LNN_CELLS - 1) // LNN_CELLS
    cdef int64_t rows = planes * w.in_rows
    cdef int64_t group = max(1, GROUP // size), groups = (rows + group - 1) // group
    cdef bint tiled = lnn_spread_fits(&w.axis[w.rank - 1])
    cdef int threads = threads_for(planes * (w.out_cells * w.box + w.in_cells))
    cdef int64_t unit, row, j0
    cdef real divisor
    if whole(w):
        divisor = <real>whole_divisor(w, by)
        for unit in prange(planes, schedule="static", num_threads=threads):
            fill(y_bar[unit] / divisor, w.in_cells, x_bar + unit * w.in_cells)
    elif blocks == 1:
        for unit in prange(groups, schedule="static", num_threads=threads):
            spread_rows(y_bar, w, tiled, unit * group, min((unit + 1) * group, rows), by, x_bar)
    else:
        for unit in prange(rows * blocks, schedule="static", num_threads=threads):
            row = unit // blocks
            j0 = unit % blocks * LNN_CELLS
            spread_piece(
                y_bar + row // w.in_rows * w.out_cells, w, tiled, row % w.in_rows, j0,
                min(j0 + LNN_CELLS, size), by, x_bar + row * size)


def avg_pool_transpose(
    const real[::1] y_bar not None,      # IN: planes × windows
    real[::1] x_bar not None,            # OUT: planes × cells
    const int64_t[::1] axes not None, const int64_t[::1] outputs not None, const int64_t[::1] inputs not None,
    int kind, double given,
):
    """x_bar[j] = Σ y_bar[p] / divisor[p] over the windows p that hold cell j."""
    cdef Windows w
    cdef Divisor by
    by.kind, by.given = kind, given
    cdef int64_t planes = planes_of(&w, axes, outputs, inputs, x_bar.shape[0], y_bar.shape[0])
    if x_bar.shape[0] == 0:
        return
    cdef const real* source = &y_bar[0] if y_bar.shape[0] else NULL
    with nogil:
        spread_planes(source, &x_bar[0], &w, planes, by)
