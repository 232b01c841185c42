"""Smooth max pooling: y = (1/β) log Σ exp(β x̃), and the two sums with its weights w = softmax(β x̃).

Arrays and tables as in ``pool.pyx``. A window's exponents are shifted by its extreme (the largest value for β > 0,
the smallest for β < 0), so every term is at most 1 and one of them is 1: nothing overflows, and infinite values
give the limit. Padding cells count as value 0; they take part in the extreme and in the total. ``pool_smooth.h`` has
the loops over the outputs of a block, and why terms are computed in the data's own type.

A gather (`smooth_max_pool`, `smooth_gather`) is cut into output rows, the scatter into planes: each piece is
written by one thread in a fixed order.
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t

from lean_nn_c._types cimport real
from lean_nn_c._window cimport Band, RowCursor, Windows, next_row, planes_of, start_band, start_rows, unused
from lean_nn_c.step cimport STEP_BAD_BETA, STEP_DONE, make_step
from lean_nn_c.threads cimport threads_for

cdef extern from "pool_smooth.h" nogil:
    enum:
        LNN_SOFT
        LNN_ROWS
    void lnn_soft_begin_f32(const Band*, int64_t, int64_t, float*, float*)
    void lnn_soft_begin_f64(const Band*, int64_t, int64_t, double*, double*)
    void lnn_soft_top_f32(const float*, const Band*, float, float*, float*, float*)
    void lnn_soft_top_f64(const double*, const Band*, double, double*, double*, double*)
    void lnn_soft_pad_f32(const float*, float, const float*, float*, float*)
    void lnn_soft_pad_f64(const double*, double, const double*, double*, double*)
    void lnn_soft_add_f32(const float*, const float*, const Band*, float, float*, float*, float*)
    void lnn_soft_add_f64(const double*, const double*, const Band*, double, double*, double*, double*)
    void lnn_soft_share_f32(const float*, const Band*, float, float*, float*, float*, float*)
    void lnn_soft_share_f64(const double*, const Band*, double, double*, double*, double*, double*)
    void lnn_soft_end_f32(const float*, const float*, int64_t, float, float*)
    void lnn_soft_end_f64(const double*, const double*, int64_t, double, double*)

cdef enum:
    COST = 8         # an exponential, in additions
    TOP = 0
    ADD = 1
    SHARE = 2

cdef enum:
    SMOOTH = 0       # places in NAMES
    GATHER = 1
    SCATTER = 2


cdef void pass_over(
    int what, const real* x, const real* t, const Windows* w, int64_t row, Band* band, real beta,
    real* top, real* total, real* sums, real* x_bar,
) noexcept nogil:
    """One of the three passes over all rows of the windows' box, in lists of at most LNN_ROWS."""
    cdef RowCursor rows
    cdef int64_t[LNN_ROWS] offsets
    band.rows = offsets
    start_rows(&rows, w, row)
    while rows.left > 0:
        band.n_rows = 0
        while rows.left > 0 and band.n_rows < LNN_ROWS:
            offsets[band.n_rows] = rows.offset
            band.n_rows += 1
            next_row(&rows, w)
        if real is float:
            if what == TOP:
                lnn_soft_top_f32(x, band, beta, top, total, sums)
            elif what == ADD:
                lnn_soft_add_f32(x, t, band, beta, top, total, sums)
            else:
                lnn_soft_share_f32(x, band, beta, top, total, sums, x_bar)
        else:
            if what == TOP:
                lnn_soft_top_f64(x, band, beta, top, total, sums)
            elif what == ADD:
                lnn_soft_add_f64(x, t, band, beta, top, total, sums)
            else:
                lnn_soft_share_f64(x, band, beta, top, total, sums, x_bar)


cdef void soften(
    const real* x,               # IN: the plane
    const real* t,               # IN: the plane of what is weighed, or NULL
    const Windows* w, int64_t row, Band* band, real beta,
    real* top,                   # OUT: the windows' extremes, times the sign of β
    real* total,                 # OUT: the sums of their terms
    real* sums,                  # OUT: the sums of term · t, where t is given
) noexcept nogil:
    """The band's windows of output row `row` of a plane; the three outputs have LNN_SOFT places."""
    cdef RowCursor rows
    cdef real[LNN_SOFT] padding
    start_rows(&rows, w, row)
    if real is float:
        lnn_soft_begin_f32(band, rows.divisor, rows.count, top, padding)
    else:
        lnn_soft_begin_f64(band, rows.divisor, rows.count, top, padding)
    pass_over(TOP, x, t, w, row, band, beta, top, total, sums, <real*>NULL)
    if real is float:
        lnn_soft_pad_f32(padding, beta, top, total, sums)
    else:
        lnn_soft_pad_f64(padding, beta, top, total, sums)
    pass_over(ADD, x, t, w, row, band, beta, top, total, sums, <real*>NULL)


cdef void divide(const real* a, const real* b, int64_t n, real* to) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        to[i] = a[i] / b[i]


cdef void gather_row(
    const real* x,               # IN: the planes
    const real* t,               # IN: the planes of what is weighed, or NULL: the smooth maximum itself
    const Windows* w, int64_t planes, int64_t row, real beta,
    real* y,                     # OUT: the output row
) noexcept nogil:
    cdef int64_t outputs = w.axis[w.rank - 1].outputs, p, i, at = row // w.out_rows * w.in_cells
    cdef real[LNN_SOFT] top, total, sums
    cdef Band band
    for i in range((outputs + LNN_SOFT - 1) // LNN_SOFT):
        p = i * LNN_SOFT
        start_band(&band, w, planes, row, row + 1, p, min(outputs, p + LNN_SOFT))
        soften(x + at, t + at if t != NULL else NULL, w, row % w.out_rows, &band, beta, top, total, sums)
        if t != NULL:
            divide(sums, total, band.p1 - p, y + p)
        elif real is float:
            lnn_soft_end_f32(top, total, band.p1 - p, beta, y + p)
        else:
            lnn_soft_end_f64(top, total, band.p1 - p, beta, y + p)


cdef void gather_planes(
    const real* x, const real* t, real* y, const Windows* w, int64_t planes, real beta
) noexcept nogil:
    cdef int64_t outputs = w.axis[w.rank - 1].outputs, rows = planes * w.out_rows, row
    for row in prange(rows, schedule="static", num_threads=threads_for(rows * outputs * w.box * COST)):
        gather_row(x, t, w, planes, row, beta, y + row * outputs)


cdef void scatter_plane(
    const real* x,               # IN: the planes
    const real* g,               # IN: the planes of what is shared out
    const Windows* w, int64_t planes, int64_t plane, real beta,
    real* x_bar,                 # OUT: the plane
) noexcept nogil:
    """Output rows in order, blocks of windows in order, cell by cell of their boxes."""
    cdef int64_t outputs = w.axis[w.rank - 1].outputs, row, p, i, at
    cdef real[LNN_SOFT] top, total, share
    cdef Band band
    for i in range(w.in_cells):
        x_bar[i] = 0
    x += plane * w.in_cells
    for row in range(w.out_rows):
        for i in range((outputs + LNN_SOFT - 1) // LNN_SOFT):
            p = i * LNN_SOFT
            at = plane * w.out_rows + row
            start_band(&band, w, planes, at, at + 1, p, min(outputs, p + LNN_SOFT))
            soften(x, <const real*>NULL, w, row, &band, beta, top, total, share)
            divide(g + plane * w.out_cells + row * outputs + p, total, band.p1 - p, share)
            pass_over(SHARE, x, <const real*>NULL, w, row, &band, beta, top, total, share, x_bar)


cdef void scatter_planes(
    const real* x, const real* g, real* x_bar, const Windows* w, int64_t planes, real beta
) noexcept nogil:
    cdef int64_t plane, work = planes * (w.in_cells + w.out_cells * w.box * COST)
    for plane in prange(planes, schedule="static", num_threads=threads_for(work)):
        scatter_plane(x, g, w, planes, plane, beta, x_bar + plane * w.in_cells)


cdef struct Plan:
    int64_t planes
    int64_t results             # of the output
    int which
    Windows w                   # last: a step keeps only the axes there are


cdef int run(const void* plan, char** at, real unused) noexcept nogil:
    cdef const Plan* p = <const Plan*>plan
    cdef int last = 2 if p.which == SMOOTH else 3
    cdef real beta = (<const real*>at[last - 1])[0]
    if beta == 0 or beta - beta != 0:
        return STEP_BAD_BETA
    if p.results == 0:
        return STEP_DONE
    if p.which == SMOOTH:
        gather_planes(<const real*>at[0], <const real*>NULL, <real*>at[2], &p.w, p.planes, beta)
    elif p.which == GATHER:
        gather_planes(<const real*>at[1], <const real*>at[0], <real*>at[3], &p.w, p.planes, beta)
    else:
        scatter_planes(<const real*>at[1], <const real*>at[0], <real*>at[3], &p.w, p.planes, beta)
    return STEP_DONE


cdef int run_f32(const void* plan, char** at) noexcept nogil:
    return run(plan, at, <float>0)


cdef int run_f64(const void* plan, char** at) noexcept nogil:
    return run(plan, at, <double>0)


NAMES = ("smooth_max_pool", "smooth_gather", "smooth_scatter")


def smooth_step(
    str name, bint wide, int64_t cells, int64_t windows, axes, outputs, inputs, blame,
):
    """One of the three, by name; `cells` and `windows` count all planes together, `blame` is what a bad β raises.

    ===============  =============  ================================================================================
    smooth_max_pool  x, β ↦ y       y[p] = m + log(Σ exp(β(x̃ − m))) / β over window p, m its extreme
    smooth_gather    t, x, β ↦ y    y[p] = Σ w[p, j] t[j] over the real cells j of window p, w[p] = softmax(β x̃) there
    smooth_scatter   g, x, β ↦ x̄    x̄[j] = Σ w[p, j] g[p] over the windows p that hold cell j
    ===============  =============  ================================================================================
    """
    cdef Plan p
    cdef int item = 8 if wide else 4
    p.planes = planes_of(&p.w, axes, outputs, inputs, cells, windows)
    p.which = NAMES.index(name)
    p.results = cells if p.which == SCATTER else windows
    many, few = item * cells, item * windows
    sizes = ((many, item, few), (many, many, item, few), (few, many, item, many))[p.which]
    return make_step(name, run_f64 if wide else run_f32, &p, sizeof(p) - unused(&p.w), sizes, 1, (axes, outputs, inputs),
                     False, blame)
