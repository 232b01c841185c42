"""Max pooling and the gather and scatter that carry its derivatives.

``max_pool``, ``gather_at`` and ``scatter_add_at`` take flat C-contiguous arrays of whole planes (one plane per
sample and channel) and the packed tables of ``lean_nn/window.py``; outputs are written, never allocated.

Work is cut into fixed pieces, a few output rows or `BLOCK` outputs of a long one (a plane for the scatter), each
computed by one thread, so the bits do not depend on the number of threads.
"""

from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stdint cimport INT32_MAX, int64_t

from lean_nn_c._types cimport real
from lean_nn_c._window cimport (
    Axis, Band, RowCursor, Windows, list_rows, next_row, planes_of, start_band, start_rows, unused,
    whole,
)
from lean_nn_c.step cimport STEP_DONE, make_step
from lean_nn_c.threads cimport threads_for

cdef extern from "pool_rows.h" nogil:
    enum:
        LNN_ROWS
        LNN_BYTES
    bint lnn_tiles_fit(const Axis*, int64_t)
    int64_t lnn_max_all_f32(const float*, int64_t)
    int64_t lnn_max_all_f64(const double*, int64_t)
    void lnn_max_band_f32(const float*, const Band*, float*, int64_t*)
    void lnn_max_band_f64(const double*, const Band*, double*, int64_t*)

cdef enum:
    BLOCK = 4096                 # outputs of a long row that one thread computes at a time
    GROUP = 1024                 # outputs of several short rows, likewise


cdef void max_cells(
    const real* x,               # IN: the plane
    const Windows* w,
    RowCursor* rows,             # IN: at the first row of the box
    int64_t p0, int64_t p1,
    real* y,                     # OUT: the output row
    int64_t* idx,                # OUT: the same, or NULL
) noexcept nogil:
    """Any geometry: row by row of the box, each output's cells in order; the first maximum or NaN stays."""
    cdef const Axis* axis = &w.axis[w.rank - 1]
    cdef int64_t p, j, cell, base
    cdef real v
    for p in range(p0, p1):
        y[p] = -INFINITY if rows.left and axis.count[p] else 0
        if idx != NULL:
            idx[p] = rows.offset + axis.first[p] if rows.left and axis.count[p] else -1
    while rows.left > 0:
        base = rows.offset
        for p in range(p0, p1):
            cell = base + axis.first[p]
            for j in range(axis.count[p]):
                v = x[cell]
                if not (y[p] >= v) and y[p] == y[p]:
                    y[p] = v
                    if idx != NULL:
                        idx[p] = cell
                cell += axis.step
        next_row(rows, w)


cdef void max_rows(
    const real* x, const Windows* w, int64_t planes, bint tiled, int64_t row, int64_t end, int64_t p0, int64_t p1,
    real* y, int64_t* idx,
) noexcept nogil:
    """Outputs `p0` to `p1` of the output rows `row` to `end`, counted over all planes."""
    cdef RowCursor rows
    cdef int64_t[LNN_ROWS] offsets
    cdef Band band
    cdef const real* plane
    cdef real* values
    cdef int64_t* places
    while row < end:
        start_rows(&rows, w, row % w.out_rows)
        plane = x + row // w.out_rows * w.in_cells
        values = y + row * w.axis[w.rank - 1].outputs
        places = idx + row * w.axis[w.rank - 1].outputs if idx != NULL else NULL
        if tiled and 0 < rows.left <= LNN_ROWS:
            start_band(&band, w, planes, row, end, p0, p1)
            band.rows, band.n_rows = offsets, list_rows(&rows, w, offsets, LNN_ROWS)
            if real is float:
                lnn_max_band_f32(plane, &band, values, places)
            else:
                lnn_max_band_f64(plane, &band, values, places)
            row += band.run
        else:
            max_cells(plane, w, &rows, p0, p1, values, places)
            row += 1


cdef void max_whole(const real* x, int64_t cells, real* y, int64_t* idx) noexcept nogil:
    cdef int64_t at
    if real is float:
        at = lnn_max_all_f32(x, cells)
    else:
        at = lnn_max_all_f64(x, cells)
    y[0] = x[at]
    if idx != NULL:
        idx[0] = at


cdef void max_planes(const real* x, real* y, int64_t* idx, const Windows* w, int64_t planes) noexcept nogil:
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
            max_whole(x + unit * w.in_cells, w.in_cells, y + unit, idx + unit if idx != NULL else NULL)
    elif blocks == 1:
        for unit in prange(groups, schedule="static", num_threads=threads):
            max_rows(x, w, planes, tiled, unit * group, min((unit + 1) * group, rows), 0, outputs, y, idx)
    else:
        for unit in prange(rows * blocks, schedule="static", num_threads=threads):
            p0 = unit % blocks * BLOCK
            max_rows(
                x, w, planes, tiled, unit // blocks, unit // blocks + 1, p0, min(p0 + BLOCK, outputs), y, idx)


cdef struct Plan:
    int64_t planes, windows
    bint places                          # whether the winners are wanted
    Windows w                            # last: a step keeps only the axes there are


cdef int run(const void* plan, char** at, real unused) noexcept nogil:
    cdef const Plan* p = <const Plan*>plan
    if p.windows:
        max_planes(<const real*>at[0], <real*>at[1], <int64_t*>at[2] if p.places else NULL, &p.w, p.planes)
    return STEP_DONE


cdef int run_f32(const void* plan, char** at) noexcept nogil:
    return run(plan, at, <float>0)


cdef int run_f64(const void* plan, char** at) noexcept nogil:
    return run(plan, at, <double>0)


def max_step(
    bint wide, bint places, int64_t cells, int64_t windows,
    const int64_t[::1] axes not None, const int64_t[::1] outputs not None, const int64_t[::1] inputs not None,
):
    """x ↦ y[, idx]: y[p] = max of window p, idx[p] = its first place in the plane; 0 and −1 where it has no cell.

    `cells` and `windows` are the lengths of x and of y, all planes together.
    """
    cdef Plan p
    cdef int item = 8 if wide else 4
    p.planes = planes_of(&p.w, axes, outputs, inputs, cells, windows)
    p.windows, p.places = windows, places
    cdef tuple sizes = (item * cells, item * windows)
    if places:
        sizes += (8 * windows,)
    return make_step("max_pool", run_f64 if wide else run_f32, &p, sizeof(p) - unused(&p.w), sizes, 2 if places else 1,
                     (axes, outputs, inputs))


# --- gather and scatter by winner --------------------------------------------------------------------------------


cdef int64_t gather_block(
    const real* x, const int64_t* idx, real* y, int64_t cells, int64_t n
) noexcept nogil:
    """Returns the number of indices that are neither −1 nor in the plane."""
    cdef int64_t i, at, wrong = 0
    for i in range(n):
        at = idx[i]
        if 0 <= at < cells:
            y[i] = x[at]
        else:
            y[i] = 0
            wrong += at != -1
    return wrong


cdef int64_t scatter_plane(
    const real* y_bar, const int64_t* idx, real* x_bar, int64_t cells, int64_t n
) noexcept nogil:
    cdef int64_t i, at, wrong = 0
    for i in range(cells):
        x_bar[i] = 0
    for i in range(n):
        at = idx[i]
        if 0 <= at < cells:
            x_bar[at] += y_bar[i]
        else:
            wrong += at != -1
    return wrong


def gather_at(
    const real[::1] x not None,          # IN: planes × cells
    const int64_t[::1] idx not None,     # IN: planes × n
    real[::1] y not None,                # OUT: like idx
    int64_t planes,
):
    """y[i] = x[idx[i]] plane by plane, 0 where idx is −1."""
    cdef int64_t cells, n, blocks, unit, start, at, wrong = 0
    cells, n = per_plane("gather_at", planes, x.shape[0], idx.shape[0], y.shape[0])
    if n == 0 or planes == 0:
        return
    blocks = (n + BLOCK - 1) // BLOCK
    cdef const real* source = &x[0] if cells else NULL
    for unit in prange(
        planes * blocks, nogil=True, schedule="static", num_threads=threads_for(planes * n)
    ):
        start = unit % blocks * BLOCK
        at = unit // blocks * n + start
        wrong += gather_block(
            source + unit // blocks * cells, &idx[0] + at, &y[0] + at, cells, min(n - start, BLOCK))
    refuse("gather_at", wrong, idx, cells)


def scatter_add_at(
    const real[::1] y_bar not None,      # IN: planes × n
    const int64_t[::1] idx not None,     # IN: like y_bar
    real[::1] x_bar not None,            # OUT: planes × cells
    int64_t planes,
):
    """x_bar[j] = Σ y_bar[i] over idx[i] = j, in ascending i; −1 gives to nobody."""
    cdef int64_t cells, n, plane, wrong = 0
    cells, n = per_plane("scatter_add_at", planes, x_bar.shape[0], idx.shape[0], y_bar.shape[0])
    cdef real* target = &x_bar[0] if x_bar.shape[0] else NULL
    cdef const real* source = &y_bar[0] if n else NULL
    cdef const int64_t* places = &idx[0] if n else NULL
    for plane in prange(planes, nogil=True, schedule="static", num_threads=threads_for(planes * (n + cells))):
        wrong += scatter_plane(source + plane * n, places + plane * n, target + plane * cells, cells, n)
    refuse("scatter_add_at", wrong, idx, cells)


cdef tuple per_plane(str op, int64_t planes, int64_t cells, int64_t n, int64_t values):
    if planes < 0 or n != values or (planes and (cells % planes or n % planes)) or (not planes and (cells or n)):
        raise ValueError(f"{op}: kernel got {cells} cells, {n} indices and {values} values for {planes} planes")
    planes = max(planes, 1)
    return cells // planes, n // planes


cdef int refuse(str op, int64_t wrong, const int64_t[::1] idx, int64_t cells) except -1:
    """The specification's words for an index that is neither −1 nor in the plane."""
    if wrong:
        raise IndexError(
            f"{op}: indices must be in [-1, {cells}); got [{min(idx)}, {max(idx)}]; use this input's")
    return 0
