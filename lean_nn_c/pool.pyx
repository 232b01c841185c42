"""Max pooling. (The gather and scatter that carry its derivatives are in ``index.pyx``.)

Arrays hold whole planes, one per sample and channel; the windows come as the packed tables of ``lean_nn/window.py``.

Work is cut into fixed pieces, a few output rows or `BLOCK` outputs of a long one, each computed by one thread, so the
bits do not depend on the number of threads.
"""

from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stdint cimport INT32_MAX, int64_t

from lean_nn_c._lanes cimport Cut, cut_lanes, far_away, lanes_needed
from lean_nn_c._max_lanes cimport Beside, MaxKind, further, lnn_max_kinds, max_unit
from lean_nn_c._types cimport real
from lean_nn_c._window cimport (
    MANY, Axis, Band, RowCursor, Windows, list_rows, next_row, planes_of, start_band, start_rows, unused,
    whole,
)
from lean_nn_c.step cimport STEP_DONE, make_step
from lean_nn_c.threads cimport threads_for

cdef extern from "pool_rows.h" nogil:
    enum:
        LNN_ROWS
        LNN_BYTES
    enum:
        PLACES "LNN_PLACES"
        TANGENTS "LNN_TANGENTS"
    bint lnn_tiles_fit(const Axis*, int64_t)
    int64_t lnn_max_all_f32(const float*, int64_t)
    int64_t lnn_max_all_f64(const double*, int64_t)
    void lnn_max_band_f32(const float*, Band*, float*, void*)
    void lnn_max_band_f64(const double*, Band*, double*, void*)

cdef enum:
    BLOCK = 4096                 # outputs of a long row that one thread computes at a time
    GROUP = 1024                 # outputs of several short rows, likewise


cdef inline void note(Beside beside, int64_t p, const real* x, int64_t cell) noexcept nogil:
    """Output p's window is won by cell `cell` of the plane, −1 for none."""
    if beside.want == PLACES:
        (<int64_t*>beside.at)[p] = cell
    elif beside.want:
        (<real*>beside.at)[p] = x[cell + beside.apart] if cell >= 0 else 0


cdef void max_cells(
    const real* x,               # IN: the plane
    const Windows* w,
    RowCursor* rows,             # IN: at the first row of the box
    int64_t p0, int64_t p1,
    real* y,                     # OUT: the output row
    Beside beside,               # OUT: the same
) noexcept nogil:
    """Planes too large for the others: row by row of the box, each output's cells in order; the first maximum or NaN stays."""
    cdef const Axis* axis = &w.axis[w.rank - 1]
    cdef int64_t p, j, cell, base
    cdef real v
    for p in range(p0, p1):
        y[p] = -INFINITY if rows.left and axis.count[p] else 0
        note(beside, p, x, rows.offset + axis.first[p] if rows.left and axis.count[p] else -1)
    while rows.left > 0:
        base = rows.offset
        for p in range(p0, p1):
            cell = base + axis.first[p]
            for j in range(axis.count[p]):
                v = x[cell]
                if not (y[p] >= v) and y[p] == y[p]:
                    y[p] = v
                    note(beside, p, x, cell)
                cell += axis.step
        next_row(rows, w)


cdef void max_rows(
    const real* x, const Windows* w, int64_t planes, bint tiled, int64_t row, int64_t end, int64_t p0, int64_t p1,
    real* y, Beside beside,
) noexcept nogil:
    """Outputs `p0` to `p1` of the output rows `row` to `end`, counted over all planes."""
    cdef RowCursor rows
    cdef int64_t[LNN_ROWS] offsets
    cdef Band band
    cdef const real* plane
    cdef real* values
    cdef Beside own
    while row < end:
        start_rows(&rows, w, row % w.out_rows)
        plane = x + row // w.out_rows * w.in_cells
        values = y + row * w.axis[w.rank - 1].outputs
        own = further(beside, row * w.axis[w.rank - 1].outputs)
        if tiled and 0 < rows.left <= LNN_ROWS:
            start_band(&band, w, planes, row, end, p0, p1)
            band.rows, band.n_rows = offsets, list_rows(&rows, w, offsets, LNN_ROWS)
            band.want, band.apart = own.want, own.apart
            if real is float:
                lnn_max_band_f32(plane, &band, values, own.at)
            else:
                lnn_max_band_f64(plane, &band, values, own.at)
            row += band.run
        else:
            max_cells(plane, w, &rows, p0, p1, values, own)
            row += 1


cdef void max_whole(const real* x, int64_t cells, real* y, Beside beside) noexcept nogil:
    cdef int64_t at
    if real is float:
        at = lnn_max_all_f32(x, cells)
    else:
        at = lnn_max_all_f64(x, cells)
    y[0] = x[at]
    note(beside, 0, x, at)


cdef void max_planes(const real* x, real* y, Beside beside, const Windows* w, int64_t planes) noexcept nogil:
    cdef int64_t outputs = w.axis[w.rank - 1].outputs
    cdef int64_t blocks = (outputs + BLOCK - 1) // BLOCK
    cdef int64_t rows = planes * w.out_rows
    cdef int64_t group = max(1, GROUP // outputs), groups = (rows + group - 1) // group
    # the row kernels count a plane's cells in 32 bits
    cdef bint tiled = w.in_cells <= INT32_MAX // 2 and lnn_tiles_fit(&w.axis[w.rank - 1], LNN_BYTES // sizeof(real))
    cdef int threads = threads_for(rows * outputs * w.box)
    cdef int64_t unit, p0
    if whole(w):
        for unit in prange(planes, schedule="static", num_threads=threads):
            max_whole(x + unit * w.in_cells, w.in_cells, y + unit, further(beside, unit))
    elif blocks == 1:
        for unit in prange(groups, schedule="static", num_threads=threads):
            max_rows(x, w, planes, tiled, unit * group, min((unit + 1) * group, rows), 0, outputs, y, beside)
    else:
        for unit in prange(rows * blocks, schedule="static", num_threads=threads):
            p0 = unit % blocks * BLOCK
            max_rows(
                x, w, planes, tiled, unit // blocks, unit // blocks + 1, p0, min(p0 + BLOCK, outputs), y, beside)


# --- lanes: rows too short or windows too irregular for the registers along a row ---


cdef void lanes_planes(
    const char* x, char* y, Beside beside, const Windows* w, int64_t planes, bint wide
) noexcept nogil:
    cdef const MaxKind* kind = &lnn_max_kinds[wide]
    cdef Cut cut = cut_lanes(kind.item, w, planes, False)
    cdef int64_t units = (planes + cut.lanes - 1) // cut.lanes * cut.groups * cut.blocks, unit
    for unit in prange(units, schedule="static", num_threads=threads_for(planes * (w.out_cells * w.box + w.in_cells))):
        max_unit(kind, w, &cut, planes, unit, x, y, beside)


cdef int64_t short_row(const Windows* w, int64_t lanes, bint far) noexcept nogil:
    """Registers that a row may be long and still be better off in lanes: measured. (Of windows three cells or more apart registers
    along a row are loaded cell by cell, and what comes next is called in for lanes alone.)"""
    cdef const Axis* axis = &w.axis[w.rank - 1]
    cdef bint edges = axis.inside_low > 0 or axis.inside_high < axis.outputs
    if axis.stride > 2 and axis.kernel < 16 and (far or lanes >= 8):
        return MANY
    if not edges:
        return MANY if axis.stride > 2 and axis.outputs + 3 <= lanes else 0
    if axis.stride > 2:
        return 5
    if axis.kernel <= axis.stride:
        return 5 if w.rank == 2 else 2
    return 3 if w.rank == 2 else 1


cdef bint lanes_suit(const Windows* w, int64_t planes, int64_t item) noexcept nogil:
    cdef int64_t lanes = LNN_BYTES // item
    if whole(w) or w.in_cells > INT32_MAX // 2:     # they count a plane's cells in 32 bits
        return False
    if lanes_needed(w, lanes, False):
        return True
    return w.rank > 1 and 2 * planes >= lanes and w.axis[w.rank - 1].size <= lanes * short_row(
        w, lanes, far_away(w, planes, item, False))


cdef struct Plan:
    int64_t planes, windows
    int want
    bint lanes
    Windows w                            # last: a step keeps only the axes there are


cdef int run(const void* plan, char** at, real unused) noexcept nogil:
    """x ↦ y[, idx], or x, t ↦ y, ẏ."""
    cdef const Plan* p = <const Plan*>plan
    cdef int y = 2 if p.want == TANGENTS else 1
    cdef Beside beside = Beside(p.want, NULL, sizeof(int64_t) if p.want == PLACES else sizeof(real), 0)
    if p.want:
        beside.at = at[y + 1]
    if p.want == TANGENTS:      # in numbers: both arrays are aligned to one
        beside.apart = (at[1] - at[0]) // <int64_t>sizeof(real)
    if p.windows and p.lanes:
        lanes_planes(at[0], at[y], beside, &p.w, p.planes, sizeof(real) == 8)
    elif p.windows:
        max_planes(<const real*>at[0], <real*>at[y], beside, &p.w, p.planes)
    return STEP_DONE


cdef int run_f32(const void* plan, char** at) noexcept nogil:
    return run(plan, at, <float>0)


cdef int run_f64(const void* plan, char** at) noexcept nogil:
    return run(plan, at, <double>0)


def max_step(
    bint wide, str beside, int64_t cells, int64_t windows, axes, outputs, inputs,
):
    """x ↦ y, y[p] = max of window p, 0 where it has no cell; `beside` it, unless that is "":

    "places": x ↦ y, idx, the first place of the maximum in the plane, −1 where there is none;
    "tangents": x, t ↦ y, ẏ, the tangent at that place, 0 where there is none.

    `cells` and `windows` are the lengths of x and of y, all planes together.
    """
    cdef Plan p
    cdef int item = 8 if wide else 4
    p.planes = planes_of(&p.w, axes, outputs, inputs, cells, windows)
    p.windows, p.want = windows, {"": 0, "places": PLACES, "tangents": TANGENTS}[beside]
    p.lanes = lanes_suit(&p.w, p.planes, item)
    cdef tuple sizes = (item * cells, item * windows)
    if p.want == PLACES:
        sizes += (8 * windows,)
    elif p.want:
        sizes = (item * cells,) + sizes + (item * windows,)
    return make_step("max_pool", run_f64 if wide else run_f32, &p, sizeof(p) - unused(&p.w), sizes, 2 if p.want else 1,
                     (axes, outputs, inputs))
