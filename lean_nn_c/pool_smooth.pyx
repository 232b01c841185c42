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
from lean_nn_c._window cimport Axis, Band, RowCursor, Windows, next_row, planes_of, start_band, start_rows
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


def smooth_max_pool(
    const real[::1] x not None,          # IN: planes × cells
    real[::1] y not None,                # OUT: planes × windows
    const int64_t[::1] axes not None, const int64_t[::1] outputs not None, const int64_t[::1] inputs not None,
    double beta,
):
    """y[p] = m + log(Σ exp(β(x̃ − m))) / β over window p, m its extreme."""
    cdef Windows w
    cdef int64_t planes = planes_of(&w, axes, outputs, inputs, x.shape[0], y.shape[0])
    if y.shape[0] == 0:
        return
    cdef const real* source = &x[0] if x.shape[0] else NULL
    with nogil:
        gather_planes(source, <const real*>NULL, &y[0], &w, planes, <real>beta)


def smooth_gather(
    const real[::1] t not None,          # IN: like x
    const real[::1] x not None,          # IN: planes × cells
    real[::1] y not None,                # OUT: planes × windows
    const int64_t[::1] axes not None, const int64_t[::1] outputs not None, const int64_t[::1] inputs not None,
    double beta,
):
    """y[p] = Σ w[p, j] t[j] over the real cells j of window p, w[p] = softmax(β x̃) on the window."""
    cdef Windows w
    cdef int64_t planes = planes_of(&w, axes, outputs, inputs, x.shape[0], y.shape[0])
    if t.shape[0] != x.shape[0]:
        raise ValueError(f"smooth_gather: kernel got {t.shape[0]} values for {x.shape[0]} cells")
    if y.shape[0] == 0:
        return
    # a plane without cells is never read, but NULL would ask for the smooth maximum
    cdef const real* source = &x[0] if x.shape[0] else &y[0]
    cdef const real* weighed = &t[0] if x.shape[0] else &y[0]
    with nogil:
        gather_planes(source, weighed, &y[0], &w, planes, <real>beta)


def smooth_scatter(
    const real[::1] g not None,          # IN: planes × windows
    const real[::1] x not None,          # IN: planes × cells
    real[::1] x_bar not None,            # OUT: like x
    const int64_t[::1] axes not None, const int64_t[::1] outputs not None, const int64_t[::1] inputs not None,
    double beta,
):
    """x_bar[j] = Σ w[p, j] g[p] over the windows p that hold cell j."""
    cdef Windows w
    cdef int64_t plane, planes = planes_of(&w, axes, outputs, inputs, x.shape[0], g.shape[0])
    if x_bar.shape[0] != x.shape[0]:
        raise ValueError(f"smooth_scatter: kernel got {x_bar.shape[0]} results for {x.shape[0]} cells")
    if x.shape[0] == 0:
        return
    cdef const real* source = &g[0] if g.shape[0] else NULL
    cdef int64_t work = planes * (w.in_cells + w.out_cells * w.box * COST)
    for plane in prange(planes, nogil=True, schedule="static", num_threads=threads_for(work)):
        scatter_plane(&x[0], source, &w, planes, plane, <real>beta, &x_bar[0] + plane * w.in_cells)
