"""Average pooling and its transpose.

Arrays and tables as in ``pool.pyx``. A window's divisor is the product over the axes of a table: all cells inside
the padded input (`PADDED`), the real ones (`REAL`), or one given number (`GIVEN`).

Both directions gather: a thread owns what it writes. The order of a sum depends on the geometry alone, not on threads
nor on the machine, and ``kernels.cu`` follows it:

* A plane that is one window is summed in 32 bytes' worth of interleaved parts, then part by part, then the rest.
* Where the windows of the last axis are alike, a window of at most `LNN_ROWS` rows is summed column by column, then the
  columns. So are the windows that hold a cell: a column of them that has one divisor is divided once.
* All others are summed in row-major order.

With n terms in a sum, |ŷ − y| ≤ γₙ₊₂ · Σ|terms| / divisor.
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t

from lean_nn_c._types cimport real
from lean_nn_c._window cimport (
    Axis, Band, Cover, CoverCursor, RowCursor, Windows, filled, list_rows, next_cover, next_row, planes_of,
    seek, start_band, start_cover, start_rows, unused, whole,
)
from lean_nn_c.step cimport STEP_DONE, make_step
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
    void lnn_average_each_f32(const float*, const Band*, int64_t, int64_t, float, const int64_t*, float*)
    void lnn_average_each_f64(const double*, const Band*, int64_t, int64_t, double, const int64_t*, double*)
    void lnn_average_band_f32(const float*, const Band*, float, const int64_t*, float*)
    void lnn_average_band_f64(const double*, const Band*, double, const int64_t*, double*)
    ctypedef struct Phases "lnn_phases":
        pass
    void lnn_find_phases(const Axis*, Phases*)
    float lnn_share_of_f32(const float*, const Cover*, const float*, const int64_t*, int64_t)
    double lnn_share_of_f64(const double*, const Cover*, const double*, const int64_t*, int64_t)
    void lnn_spread_cover_f32(const float*, const Cover*, const Phases*, const float*, const int64_t*, float*)
    void lnn_spread_cover_f64(const double*, const Cover*, const Phases*, const double*, const int64_t*, double*)

cdef enum:
    BLOCK = 4096         # outputs of a long row that one thread computes at a time
    GROUP = 1024         # outputs of several short rows, likewise
    CELLS = 4096         # cells of several short rows, for the transpose
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


cdef inline bint alike(const Axis* axis) noexcept nogil:
    return axis.stride >= 1 and axis.outputs >= 2


# --- forward -----------------------------------------------------------------------------------------------------


cdef void average_cells(
    const real* x,               # IN: the plane
    const Windows* w,
    RowCursor* rows,             # IN: at the first row of the box
    int64_t p0, int64_t p1, Divisor by,
    real* y,                     # OUT: the output row
) noexcept nogil:
    """Row by row of the box, each output's cells in order."""
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


cdef void average_band(
    const real* x, Band* band, bint tiled, real outer, const int64_t* inner, real* y
) noexcept nogil:
    """Outputs of a band, column by column of their windows; without tiles its first row alone."""
    if not tiled:
        band.run = 1
    if real is float:
        if tiled:
            lnn_average_band_f32(x, band, outer, inner, y)
        else:
            lnn_average_each_f32(x, band, band.p0, band.p1 - band.p0, outer, inner, y + band.p0)
    else:
        if tiled:
            lnn_average_band_f64(x, band, outer, inner, y)
        else:
            lnn_average_each_f64(x, band, band.p0, band.p1 - band.p0, outer, inner, y + band.p0)


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
        if alike(axis) and 0 < rows.left <= LNN_ROWS:
            outer = outer_divisor(rows.divisor, rows.count, by)
            start_band(&band, w, planes, row, end, p0, p1)
            band.rows, band.n_rows = offsets, list_rows(&rows, w, offsets, LNN_ROWS)
            average_band(plane, &band, tiled, <real>outer, inner_table(axis, by), y + row * axis.outputs)
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


# --- transpose ---------------------------------------------------------------------------------------------------


cdef void spread_cells(
    const real* y_bar,           # IN: the plane
    const Windows* w,
    CoverCursor* rows,           # IN: at the first output row above
    int64_t j0, int64_t j1, Divisor by,
    real* x_bar,                 # OUT: the input row
) noexcept nogil:
    """Output row by output row above the cell, each row's windows in order."""
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


cdef void spread_columns(
    const real* y_bar, const Cover* cover, const real* outer, const int64_t* inner, real* x_bar
) noexcept nogil:
    """A row of a cover where `phases` are too many: cell by cell, the shares of its windows in order."""
    cdef const Axis* axis = cover.axis
    cdef int64_t j, p
    for j in range(cover.j0, cover.j1):
        x_bar[j] = 0
        p = seek(axis, j, axis.low[j])
        while cover.n_rows and p < axis.high[j]:
            if real is float:
                x_bar[j] += lnn_share_of_f32(y_bar, cover, outer, inner, p)
            else:
                x_bar[j] += lnn_share_of_f64(y_bar, cover, outer, inner, p)
            p = seek(axis, j, p + 1)


cdef bint list_cover(
    CoverCursor* c, const Windows* w, Divisor by, Cover* cover, int64_t* rows, real* outer
) noexcept nogil:
    """Output rows above, with their divisors; False where they are more than `LNN_ROWS`."""
    cover.n_rows, cover.even, cover.rows = 0, True, rows
    while c.valid:
        if cover.n_rows == LNN_ROWS:
            return False
        rows[cover.n_rows] = c.offset
        outer[cover.n_rows] = <real>outer_divisor(c.divisor, c.count, by)
        cover.even = cover.even and outer[cover.n_rows] == outer[0]
        cover.n_rows += 1
        next_cover(c, w)
    return True


cdef inline bint same_windows(const Axis* axis, int64_t i, int64_t j) noexcept nogil:
    return axis.step == 1 and axis.low[i] == axis.low[j] and axis.high[i] == axis.high[j]


cdef int64_t alike_rows(const Windows* w, int64_t r, int64_t most) noexcept nogil:
    """How many of the rows r, r + stride, … of a plane (at most `most`) lie under windows one further each."""
    cdef const Axis* axis = &w.axis[w.rank - 2]
    cdef int64_t j = r % axis.size, t = 1
    if filled(w):
        return most
    if axis.low[j] < axis.inside_low:
        return 1
    while t < most and axis.low[j + t * axis.stride] == axis.low[j] + t and (
        axis.high[j + t * axis.stride] == axis.high[j] + t <= axis.inside_high
    ):
        t += 1
    return t


cdef void spread_alike(
    const real* y_bar, const Windows* w, const Phases* phases, int64_t row, Cover* cover, Divisor by, real* x_bar,
) noexcept nogil:
    """The rows of a cover of which all but the output rows above is known; y_bar and x_bar are the whole arrays."""
    cdef CoverCursor rows
    cdef int64_t[LNN_ROWS] offsets
    cdef real[LNN_ROWS] outer
    cdef const Axis* axis = &w.axis[w.rank - 1]
    cdef const int64_t* inner = inner_table(axis, by)
    cdef const real* plane = y_bar + row // w.in_rows * w.out_cells
    cdef real* to = x_bar + row * axis.size
    cdef int64_t t, c
    start_cover(&rows, w, row % w.in_rows)
    if not (alike(axis) and list_cover(&rows, w, by, cover, offsets, outer)):
        for t in range(cover.run):
            for c in range(cover.copies):
                start_cover(&rows, w, row % w.in_rows)
                spread_cells(
                    plane + t * cover.advance, w, &rows, cover.j0, cover.j1, by, to + t * cover.pitch + c * cover.copy)
    elif phases == NULL:
        for t in range(cover.run):
            for c in range(cover.copies):
                spread_columns(plane + t * cover.advance, cover, outer, inner, to + t * cover.pitch + c * cover.copy)
    elif real is float:
        lnn_spread_cover_f32(plane, cover, phases, outer, inner, to + cover.j0)
    else:
        lnn_spread_cover_f64(plane, cover, phases, outer, inner, to + cover.j0)


cdef void spread_rows(
    const real* y_bar, const Windows* w, const Phases* phases, int64_t planes, int64_t row, int64_t end,
    int64_t j0, int64_t j1, Divisor by, real* x_bar,
) noexcept nogil:
    """Cells `j0` to `j1` of the input rows `row` to `end`, counted over all planes."""
    cdef const Axis* axis = &w.axis[w.rank - 1]
    cdef const Axis* above = &w.axis[max(w.rank - 2, 0)]
    cdef int64_t stride, left, run, f, j
    cdef Cover cover
    cover.axis, cover.j0, cover.j1, cover.copy = axis, j0, j1, axis.size
    while row < end:
        if w.rank == 1:
            cover.run, cover.advance, cover.pitch = end - row, w.out_cells, axis.size
            cover.copies, cover.ordered = 1, True
            cover.after, cover.room = (planes - row) * w.out_cells, (end - row - 1) * axis.size + j1 - j0
            spread_alike(y_bar, w, phases, row, &cover, by, x_bar)
            return
        j = row % above.size
        left = end - row if filled(w) else min(end - row, above.size - j)
        stride = above.stride if above.step == 1 and 0 < above.stride <= left else 1
        run = left // stride if stride == above.stride and above.step == 1 else 1
        for f in range(stride):
            run = min(run, alike_rows(w, row % w.in_rows + f, run)) if run > 1 else run
        cover.advance, cover.pitch, cover.run = above.out_pitch, stride * axis.size, run
        f = 0
        while f < stride:
            cover.copies = 1
            while f + cover.copies < stride and same_windows(
                above, (j + f) % above.size, (j + f + cover.copies) % above.size
            ):
                cover.copies += 1
            cover.ordered = cover.copies == stride
            cover.after = (planes - (row + f) // w.in_rows) * w.out_cells
            cover.room = (end - row - f - 1) * axis.size + j1 - j0
            spread_alike(y_bar, w, phases, row + f, &cover, by, x_bar)
            f += cover.copies
        row += stride * run


cdef void fill(real value, int64_t n, real* x_bar) noexcept nogil:
    cdef int64_t j
    for j in range(n):
        x_bar[j] = value


cdef void spread_planes(const real* y_bar, real* x_bar, const Windows* w, int64_t planes, Divisor by) noexcept nogil:
    cdef const Axis* axis = &w.axis[w.rank - 1]
    cdef int64_t size = axis.size, stride = max(axis.stride, 1)
    cdef int64_t block = max(LNN_CELLS // stride, 1) * stride, blocks = (size + block - 1) // block
    cdef int64_t rows = planes * w.in_rows, deep = max(w.axis[max(w.rank - 2, 0)].stride, 1)
    cdef int64_t group = (max(1, CELLS // size) + deep - 1) // deep * deep, groups = (rows + group - 1) // group
    cdef int threads = threads_for(planes * (w.out_cells * w.box + w.in_cells))
    cdef int64_t unit, j0
    cdef real divisor
    cdef Phases table
    cdef const Phases* phases = NULL
    if whole(w):
        divisor = <real>whole_divisor(w, by)
        for unit in prange(planes, schedule="static", num_threads=threads):
            fill(y_bar[unit] / divisor, w.in_cells, x_bar + unit * w.in_cells)
        return
    if lnn_spread_fits(axis):
        lnn_find_phases(axis, &table)
        phases = &table
    if blocks == 1:
        for unit in prange(groups, schedule="static", num_threads=threads):
            spread_rows(y_bar, w, phases, planes, unit * group, min((unit + 1) * group, rows), 0, size, by, x_bar)
    else:
        for unit in prange(rows * blocks, schedule="static", num_threads=threads):
            j0 = unit % blocks * block
            spread_rows(
                y_bar, w, phases, planes, unit // blocks, unit // blocks + 1, j0, min(j0 + block, size), by, x_bar)


# --- as steps ----------------------------------------------------------------------------------------------------


cdef struct Plan:
    Divisor by
    int64_t planes, cells, windows
    Windows w                            # last: a step keeps only the axes there are


cdef int average(const void* plan, char** at, real unused) noexcept nogil:
    """y[p] = Σ window p / divisor[p]; 0 where the window has no cell."""
    cdef const Plan* p = <const Plan*>plan
    if p.windows:
        average_planes(<const real*>at[0], <real*>at[1], &p.w, p.planes, p.by)
    return STEP_DONE


cdef int spread(const void* plan, char** at, real unused) noexcept nogil:
    """x_bar[j] = Σ y_bar[p] / divisor[p] over the windows p that hold cell j."""
    cdef const Plan* p = <const Plan*>plan
    if p.cells:
        spread_planes(<const real*>at[0], <real*>at[1], &p.w, p.planes, p.by)
    return STEP_DONE


cdef int average_f32(const void* plan, char** at) noexcept nogil:
    return average(plan, at, <float>0)


cdef int average_f64(const void* plan, char** at) noexcept nogil:
    return average(plan, at, <double>0)


cdef int spread_f32(const void* plan, char** at) noexcept nogil:
    return spread(plan, at, <float>0)


cdef int spread_f64(const void* plan, char** at) noexcept nogil:
    return spread(plan, at, <double>0)


def average_step(
    bint wide, bint transposed, int64_t cells, int64_t windows,
    const int64_t[::1] axes not None, const int64_t[::1] outputs not None, const int64_t[::1] inputs not None,
    int kind, double given,
):
    """x ↦ y, or with `transposed` y_bar ↦ x_bar; `cells` and `windows` are the lengths of x and of y."""
    cdef Plan p
    cdef int item = 8 if wide else 4
    p.by.kind, p.by.given = kind, given
    p.planes = planes_of(&p.w, axes, outputs, inputs, cells, windows)
    p.cells, p.windows = cells, windows
    if transposed:
        return make_step("avg_pool_transpose", spread_f64 if wide else spread_f32, &p, sizeof(p) - unused(&p.w),
                         (item * windows, item * cells), 1, (axes, outputs, inputs))
    return make_step("avg_pool", average_f64 if wide else average_f32, &p, sizeof(p) - unused(&p.w),
                     (item * cells, item * windows), 1, (axes, outputs, inputs))
