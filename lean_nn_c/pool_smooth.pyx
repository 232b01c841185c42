"""Smooth max pooling: y = (1/β) log Σ exp(β x̃), and the two sums with its weights w = softmax(β x̃).

Arrays and tables as in ``pool.pyx``. A window's exponents are shifted by its extreme (the largest value for β > 0,
the smallest for β < 0), so every term is at most 1 and one of them is 1: nothing overflows, and infinite values
give the limit. Padding cells count as value 0; they take part in the extreme and in the total. Terms are computed
and summed in double for both number types.

A gather (`smooth_max_pool`, `smooth_gather`) is cut into output rows, the scatter into planes: each piece is
written by one thread in a fixed order.
"""

from cython.parallel cimport prange
from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int64_t

from lean_nn_c._types cimport real
from lean_nn_c._window cimport Axis, RowCursor, Windows, next_row, planes_of, start_rows
from lean_nn_c.threads cimport threads_for

cdef enum:
    COST = 40        # an exponential, in additions


cdef struct Soft:
    double extreme, total


cdef inline double term(double v, double extreme, double beta) noexcept nogil:
    # equal values first: inf − inf is not a number, yet its term is exp(0)
    return 1.0 if v == extreme else exp(beta * (v - extreme))


cdef inline Soft soften(
    const real* x, const Windows* w, RowCursor* rows, int64_t row, int64_t p, double beta
) noexcept nogil:
    """The extreme of window `p` of output row `row`, and the sum of its terms."""
    cdef const Axis* axis = &w.axis[w.rank - 1]
    cdef int64_t j, padding
    cdef const real* cell
    cdef double v
    cdef Soft s
    start_rows(rows, w, row)
    padding = rows.divisor * axis.divisor[p] - rows.count * axis.count[p]
    s.extreme = 0 if padding else -INFINITY if beta > 0 else INFINITY
    while rows.left > 0:
        cell = x + rows.offset + axis.first[p]
        for j in range(axis.count[p]):
            v = cell[j * axis.step]
            if (v > s.extreme) if beta > 0 else (v < s.extreme):
                s.extreme = v
        next_row(rows, w)
    s.total = padding * term(0, s.extreme, beta) if padding else 0
    start_rows(rows, w, row)
    while rows.left > 0:
        cell = x + rows.offset + axis.first[p]
        for j in range(axis.count[p]):
            s.total += term(cell[j * axis.step], s.extreme, beta)
        next_row(rows, w)
    return s


cdef void gather_row(
    const real* x,               # IN: the plane
    const real* t,               # IN: the plane of what is weighed, or NULL: the smooth maximum itself
    const Windows* w, int64_t row, double beta,
    real* y,                     # OUT: the output row
) noexcept nogil:
    cdef const Axis* axis = &w.axis[w.rank - 1]
    cdef RowCursor rows
    cdef int64_t p, j, at
    cdef double total
    cdef Soft s
    for p in range(axis.outputs):
        s = soften(x, w, &rows, row, p, beta)
        if t == NULL:
            y[p] = <real>(s.extreme + log(s.total) / beta)
            continue
        total = 0
        start_rows(&rows, w, row)
        while rows.left > 0:
            at = rows.offset + axis.first[p]
            for j in range(axis.count[p]):
                total += term(x[at], s.extreme, beta) * t[at]
                at += axis.step
            next_row(&rows, w)
        y[p] = <real>(total / s.total)


cdef void gather_planes(
    const real* x, const real* t, real* y, const Windows* w, int64_t planes, double beta
) noexcept nogil:
    cdef int64_t outputs = w.axis[w.rank - 1].outputs, rows = planes * w.out_rows, row, at
    for row in prange(rows, schedule="static", num_threads=threads_for(rows * outputs * w.box * COST)):
        at = row // w.out_rows * w.in_cells
        gather_row(x + at, t + at if t != NULL else NULL, w, row % w.out_rows, beta, y + row * outputs)


cdef void scatter_plane(
    const real* x,               # IN: the plane
    const real* g,               # IN: the plane of what is shared out
    const Windows* w, double beta,
    real* x_bar,                 # OUT: the plane
) noexcept nogil:
    """Windows in row-major order; each adds to its cells."""
    cdef const Axis* axis = &w.axis[w.rank - 1]
    cdef RowCursor rows
    cdef int64_t row, p, j, at
    cdef double share
    cdef Soft s
    for j in range(w.in_cells):
        x_bar[j] = 0
    for row in range(w.out_rows):
        for p in range(axis.outputs):
            s = soften(x, w, &rows, row, p, beta)
            share = g[row * axis.outputs + p] / s.total
            start_rows(&rows, w, row)
            while rows.left > 0:
                at = rows.offset + axis.first[p]
                for j in range(axis.count[p]):
                    x_bar[at] += <real>(term(x[at], s.extreme, beta) * share)
                    at += axis.step
                next_row(&rows, w)


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
        gather_planes(source, <const real*>NULL, &y[0], &w, planes, beta)


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
        gather_planes(source, weighed, &y[0], &w, planes, beta)


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
        scatter_plane(
            &x[0] + plane * w.in_cells, source + plane * w.out_cells, &w, beta, &x_bar[0] + plane * w.in_cells)
