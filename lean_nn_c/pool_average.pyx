"""Average pooling and its transpose.

Arrays and tables as in ``pool.pyx``. A window's divisor is the product over the axes of a table: all cells inside
the padded input (`PADDED`), the real ones (`REAL`), or one given number (`GIVEN`).

Both directions gather: a thread owns what it writes. The order of a sum depends on the geometry alone, not on threads
nor on the machine, and ``kernels.cu`` follows it:

* A plane that is one window is summed in 32 bytes' worth of interleaved parts, then part by part, then the rest.
* Where the windows of the last axis are alike, a window of at most `LNN_ROWS` rows is summed column by column, then the
  columns. So are the windows that hold a cell: a column of them that has one divisor is divided once.
* All others are summed in row-major order.

Long rows of like windows take registers along the row (``pool_rows.h``); short rows, windows far apart and irregular
ones take a plane in each lane (``_lanes.pxd``). The bits are the same.

With n terms in a sum, |ŷ − y| ≤ γₙ₊₂ · Σ|terms| / divisor.
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t

from lean_nn_c._average_lanes cimport Kind, lanes_unit, lnn_lanes_kinds
from lean_nn_c._divisor cimport GIVEN, Divisor, inner_table, outer_divisor
from lean_nn_c._lanes cimport CELLS, Cut, cut_lanes, far_away, lanes_needed
from lean_nn_c._types cimport real
from lean_nn_c._window cimport (
    MANY, Axis, Band, Cover, CoverCursor, RowCursor, Windows, filled, list_rows, next_cover, planes_of, same_windows,
    start_band, start_cover, start_rows, unused, whole,
)
from lean_nn_c.step cimport STEP_DONE, make_step
from lean_nn_c.threads cimport threads_for

cdef extern from "pool_rows.h" nogil:
    enum:
        LNN_BYTES
        LNN_CELLS
        LNN_ROWS
    void lnn_average_whole_f32(const float*, int64_t, int64_t, float, float*)
    void lnn_average_whole_f64(const double*, int64_t, int64_t, double, double*)
    void lnn_fill_f32(float, int64_t, float*)
    void lnn_fill_f64(double, int64_t, double*)
    void lnn_average_band_f32(const float*, const Band*, float, const int64_t*, float*)
    void lnn_average_band_f64(const double*, const Band*, double, const int64_t*, double*)
    ctypedef struct Phases "lnn_phases":
        pass
    void lnn_find_phases(const Axis*, Phases*)
    void lnn_spread_cover_f32(const float*, const Cover*, const Phases*, const float*, const int64_t*, float*)
    void lnn_spread_cover_f64(const double*, const Cover*, const Phases*, const double*, const int64_t*, double*)

cdef enum:
    BLOCK = 4096         # outputs of a long row that one thread computes at a time
    GROUP = 1024         # outputs of several short rows, likewise


# --- forward -----------------------------------------------------------------------------------------------------


cdef void average_rows(
    const real* x, const Windows* w, int64_t planes, int64_t row, int64_t end, int64_t p0, int64_t p1,
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
        outer = outer_divisor(rows.divisor, rows.count, by)
        start_band(&band, w, planes, row, end, p0, p1)
        band.rows, band.n_rows = offsets, list_rows(&rows, w, offsets, LNN_ROWS)
        if real is float:
            lnn_average_band_f32(plane, &band, <float>outer, inner_table(axis, by), y + row * axis.outputs)
        else:
            lnn_average_band_f64(plane, &band, outer, inner_table(axis, by), y + row * axis.outputs)
        row += band.run


cdef inline double whole_divisor(const Windows* w, Divisor by) noexcept nogil:
    return by.given if by.kind == GIVEN else <double>w.in_cells


cdef void average_whole(
    const real* x, const Windows* w, int64_t plane, int64_t end, Divisor by, real* y
) noexcept nogil:
    cdef double divisor = whole_divisor(w, by)
    if real is float:
        lnn_average_whole_f32(x + plane * w.in_cells, w.in_cells, end - plane, <float>divisor, y + plane)
    else:
        lnn_average_whole_f64(x + plane * w.in_cells, w.in_cells, end - plane, divisor, y + plane)


cdef void average_planes(const real* x, real* y, const Windows* w, int64_t planes, Divisor by) noexcept nogil:
    cdef int64_t outputs = w.axis[w.rank - 1].outputs
    cdef int64_t blocks = (outputs + BLOCK - 1) // BLOCK
    cdef int64_t rows = planes * w.out_rows
    cdef int64_t group = max(1, GROUP // outputs), groups = (rows + group - 1) // group
    cdef int threads = threads_for(rows * outputs * w.box)
    cdef int64_t unit, p0
    if whole(w):
        for unit in prange((planes + 3) // 4, schedule="static", num_threads=threads):
            average_whole(x, w, 4 * unit, min(planes, 4 * unit + 4), by, y)
    elif blocks == 1:
        for unit in prange(groups, schedule="static", num_threads=threads):
            average_rows(x, w, planes, unit * group, min((unit + 1) * group, rows), 0, outputs, by, y)
    else:
        for unit in prange(rows * blocks, schedule="static", num_threads=threads):
            p0 = unit % blocks * BLOCK
            average_rows(x, w, planes, unit // blocks, unit // blocks + 1, p0, min(p0 + BLOCK, outputs), by, y)


# --- transpose ---------------------------------------------------------------------------------------------------


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


cdef void list_cover(
    CoverCursor* c, const Windows* w, Divisor by, Cover* cover, int64_t* rows, real* outer
) noexcept nogil:
    """Output rows above, with their divisors."""
    cover.n_rows, cover.even, cover.rows = 0, True, rows
    while c.valid:
        rows[cover.n_rows] = c.offset
        outer[cover.n_rows] = <real>outer_divisor(c.divisor, c.count, by)
        cover.even = cover.even and outer[cover.n_rows] == outer[0]
        cover.n_rows += 1
        next_cover(c, w)


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
    start_cover(&rows, w, row % w.in_rows)
    list_cover(&rows, w, by, cover, offsets, outer)
    if real is float:
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
    if real is float:
        lnn_fill_f32(value, n, x_bar)
    else:
        lnn_fill_f64(value, n, x_bar)


cdef void spread_planes(const real* y_bar, real* x_bar, const Windows* w, int64_t planes, Divisor by) noexcept nogil:
    cdef const Axis* axis = &w.axis[w.rank - 1]
    cdef int64_t size = axis.size, stride = max(axis.stride, 1)
    cdef int64_t block = max(LNN_CELLS // stride, 1) * stride, blocks = (size + block - 1) // block
    cdef int64_t rows = planes * w.in_rows, deep = max(w.axis[max(w.rank - 2, 0)].stride, 1)
    cdef int64_t group = (max(1, CELLS // size) + deep - 1) // deep * deep, groups = (rows + group - 1) // group
    cdef int threads = threads_for(planes * (w.out_cells * w.box + w.in_cells))
    cdef int64_t unit, j0
    cdef real divisor
    cdef Phases phases
    if whole(w):
        divisor = <real>whole_divisor(w, by)
        for unit in prange(planes, schedule="static", num_threads=threads):
            fill(y_bar[unit] / divisor, w.in_cells, x_bar + unit * w.in_cells)
        return
    lnn_find_phases(axis, &phases)
    if blocks == 1:
        for unit in prange(groups, schedule="static", num_threads=threads):
            spread_rows(y_bar, w, &phases, planes, unit * group, min((unit + 1) * group, rows), 0, size, by, x_bar)
    else:
        for unit in prange(rows * blocks, schedule="static", num_threads=threads):
            j0 = unit % blocks * block
            spread_rows(
                y_bar, w, &phases, planes, unit // blocks, unit // blocks + 1, j0, min(j0 + block, size), by, x_bar)


# --- lanes: rows too short or windows too irregular for the registers along a row ---


cdef int64_t short_row(const Windows* w, int64_t lanes, bint transposed, bint far) noexcept nogil:
    """Registers that a row may be long and still be better off in lanes: measured. (Of windows three cells or more apart registers
    along a row are loaded cell by cell, and what comes next is called in for lanes alone.)"""
    cdef const Axis* axis = &w.axis[w.rank - 1]
    cdef bint edges = axis.inside_low > 0 or axis.inside_high < axis.outputs
    if transposed and axis.stride == axis.kernel == 2 and axis.step == 1 and not edges and axis.start == 0:
        return 0 if w.rank == 2 else 2      # shares are written twice there: lnn_double_rows
    if transposed:
        return MANY if axis.stride > 2 or axis.kernel <= axis.stride == 2 else 6
    if axis.stride > 2:
        if far or lanes >= 8:
            return MANY
        return 8 if edges else MANY if axis.outputs + (3 if axis.kernel < 16 else 2) <= lanes else 2
    if edges:
        return 4 if w.rank == 2 else 2
    return 0 if w.rank == 2 else 1


cdef bint lanes_suit(const Windows* w, int64_t planes, int64_t item, bint transposed) noexcept nogil:
    cdef int64_t lanes = LNN_BYTES // item
    if whole(w):
        return False
    if lanes_needed(w, lanes, transposed):
        return True
    return w.rank > 1 and 2 * planes >= lanes and w.axis[w.rank - 1].size <= lanes * short_row(
        w, lanes, transposed, far_away(w, planes, item, transposed))


cdef void lanes_planes(
    const char* source, char* result, const Windows* w, int64_t planes, Divisor by, bint wide, bint transposed
) noexcept nogil:
    cdef const Kind* kind = &lnn_lanes_kinds[wide]
    cdef Cut cut = cut_lanes(kind.item, w, planes, transposed)
    cdef int64_t units = (planes + cut.lanes - 1) // cut.lanes * cut.groups * cut.blocks, unit
    cdef int threads = threads_for(planes * (w.out_cells * w.box + w.in_cells))
    for unit in prange(units, schedule="static", num_threads=threads):
        lanes_unit(kind, w, by, transposed, &cut, planes, unit, source, result)


# --- as steps ----------------------------------------------------------------------------------------------------


cdef struct Plan:
    Divisor by
    int64_t planes, cells, windows
    bint lanes
    Windows w                            # last: a step keeps only the axes there are


cdef int average(const void* plan, char** at, real unused) noexcept nogil:
    """y[p] = Σ window p / divisor[p]; 0 where the window has no cell."""
    cdef const Plan* p = <const Plan*>plan
    if p.windows and p.lanes:
        lanes_planes(at[0], at[1], &p.w, p.planes, p.by, sizeof(real) == 8, False)
    elif p.windows:
        average_planes(<const real*>at[0], <real*>at[1], &p.w, p.planes, p.by)
    return STEP_DONE


cdef int spread(const void* plan, char** at, real unused) noexcept nogil:
    """x_bar[j] = Σ y_bar[p] / divisor[p] over the windows p that hold cell j."""
    cdef const Plan* p = <const Plan*>plan
    if p.cells and p.lanes:
        lanes_planes(at[0], at[1], &p.w, p.planes, p.by, sizeof(real) == 8, True)
    elif p.cells:
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
    bint wide, bint transposed, int64_t cells, int64_t windows, axes, outputs, inputs,
    int kind, double given,
):
    """x ↦ y, or with `transposed` y_bar ↦ x_bar; `cells` and `windows` are the lengths of x and of y."""
    cdef Plan p
    cdef int item = 8 if wide else 4
    p.by.kind, p.by.given = kind, given
    p.planes = planes_of(&p.w, axes, outputs, inputs, cells, windows)
    p.cells, p.windows = cells, windows
    p.lanes = lanes_suit(&p.w, p.planes, item, transposed)
    if transposed:
        return make_step("avg_pool_transpose", spread_f64 if wide else spread_f32, &p, sizeof(p) - unused(&p.w),
                         (item * windows, item * cells), 1, (axes, outputs, inputs))
    return make_step("avg_pool", average_f64 if wide else average_f32, &p, sizeof(p) - unused(&p.w),
                     (item * cells, item * windows), 1, (axes, outputs, inputs))
