"""Convolution as its definition says, tap by tap, over real cells only; unfold and fold walk the same cells.

For one kernel cell k the output cells that read inside the image form a box: per axis  0 <= p*s + k*d - pad < S. The
walk visits that box row by row. No padding cell is ever multiplied, so a weight or a cotangent that is infinite
meets no zero: this is the algorithm for such values, and for geometries whose planes would be too large.

Every sum is one chain in row-major order of (channel, tap), or of rows for conv_weight. Error: gamma_n, as in taps.
Each thread owns whole planes of what it writes.
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.string cimport memset

from lean_nn_c._geometry cimport MAX_RANK, Geometry, ceil_div, clip
from lean_nn_c._simd cimport dots
from lean_nn_c._types cimport real
from lean_nn_c.threads cimport threads_for

cdef enum Op:
    GATHER      # y += w x
    SCATTER     # x += w y
    DOT         # *sum += x . y
    COPY        # y = x
    ADD         # x += y


cdef inline void row(Op op, int64_t count, int64_t step, real w, real* x, real* y, real* sum) noexcept nogil:
    cdef int64_t i
    cdef real total = 0
    cdef const real* left = x
    cdef const real* right = y
    if op == GATHER:
        for i in range(count):
            y[i] += w * x[i * step]
    elif op == SCATTER:
        for i in range(count):
            x[i * step] += w * y[i]
    elif op == COPY:
        for i in range(count):
            y[i] = x[i * step]
    elif op == ADD:
        for i in range(count):
            x[i * step] += y[i]
    elif step == 1:
        dots(1, 1, count, &left, &right, True, sum, 0, 0)
    else:
        for i in range(count):
            total += x[i * step] * y[i]
        sum[0] += total


cdef void walk(Op op, const Geometry* g, int64_t tap, real w, real* x, real* y, real* sum) noexcept nogil:
    """`op` on every row of the box of one tap; x is an image plane, y an output plane."""
    cdef int64_t low[MAX_RANK]
    cdef int64_t high[MAX_RANK]
    cdef int64_t at[MAX_RANK]
    cdef int64_t shift[MAX_RANK]
    cdef int64_t k, size_x = 1, size_y = 1, rows = 1, from_x, from_y
    cdef int64_t step_x[MAX_RANK]
    cdef int64_t step_y[MAX_RANK]
    cdef int i, last = g.rank - 1
    for i in range(last, -1, -1):
        k = tap % g.ker[i]
        tap //= g.ker[i]
        shift[i] = k * g.dil[i] - g.pad[i]
        low[i] = clip(ceil_div(-shift[i], g.stride[i]), 0, g.out[i])
        high[i] = clip(ceil_div(g.inp[i] - shift[i], g.stride[i]), low[i], g.out[i])
        step_x[i], step_y[i] = size_x, size_y
        size_x *= g.inp[i]
        size_y *= g.out[i]
        at[i] = low[i]
        if i < last:
            rows *= high[i] - low[i]
    if high[last] == low[last]:
        return
    while rows > 0:
        from_x = from_y = 0
        for i in range(last + 1):
            from_x += (at[i] * g.stride[i] + shift[i]) * step_x[i]
            from_y += at[i] * step_y[i]
        row(op, high[last] - low[last], g.stride[last], w, x + from_x, y + from_y, sum)
        rows -= 1
        for i in range(last - 1, -1, -1):
            at[i] += 1
            if at[i] < high[i]:
                break
            at[i] = low[i]


cdef int threads_of(const Geometry* g, double planes) noexcept nogil:
    return threads_for(<Py_ssize_t>min(planes * g.outs * g.taps, 1e18))


cdef void conv_plane(const Geometry* g, const real* x, const real* w, const real* b, real* y,
                     int64_t unit) noexcept nogil:
    cdef int64_t n = unit // g.o, o = unit % g.o, group = o // g.og, c, tap, i
    cdef real* out = y + unit * g.outs
    for i in range(g.outs):
        out[i] = b[o] if b != NULL else 0
    for c in range(g.cg):
        for tap in range(g.taps):
            walk(GATHER, g, tap, w[(o * g.cg + c) * g.taps + tap],
                 <real*>x + (n * g.c + group * g.cg + c) * g.cells, out, NULL)


cdef void direct_conv(const Geometry* g, const real* x, const real* w, const real* b, real* y) noexcept nogil:
    cdef int64_t unit
    for unit in prange(g.n * g.o, schedule="dynamic", num_threads=threads_of(g, <double>g.n * g.o * g.cg)):
        conv_plane(g, x, w, b, y, unit)


cdef void conv_input_plane(const Geometry* g, const real* y_bar, const real* w, real* x_bar,
                           int64_t unit) noexcept nogil:
    cdef int64_t n = unit // g.c, c = unit % g.c, group = c // g.cg, i, o, tap
    cdef real* out = x_bar + unit * g.cells
    memset(out, 0, g.cells * sizeof(real))
    for i in range(g.og):
        o = group * g.og + i
        for tap in range(g.taps):
            walk(SCATTER, g, tap, w[(o * g.cg + c % g.cg) * g.taps + tap], out,
                 <real*>y_bar + (n * g.o + o) * g.outs, NULL)


cdef void direct_conv_input(const Geometry* g, const real* y_bar, const real* w, real* x_bar) noexcept nogil:
    cdef int64_t unit
    for unit in prange(g.n * g.c, schedule="dynamic", num_threads=threads_of(g, <double>g.n * g.c * g.og)):
        conv_input_plane(g, y_bar, w, x_bar, unit)


cdef void conv_weight_plane(const Geometry* g, const real* x, const real* y_bar, real* w_bar,
                            int64_t unit) noexcept nogil:
    cdef int64_t o = unit // g.cg, c = o // g.og * g.cg + unit % g.cg, n, tap
    cdef real sum
    for tap in range(g.taps):
        sum = 0
        for n in range(g.n):
            walk(DOT, g, tap, <real>0, <real*>x + (n * g.c + c) * g.cells, <real*>y_bar + (n * g.o + o) * g.outs, &sum)
        w_bar[unit * g.taps + tap] = sum


cdef void direct_conv_weight(const Geometry* g, const real* x, const real* y_bar, real* w_bar) noexcept nogil:
    cdef int64_t unit
    for unit in prange(g.o * g.cg, schedule="dynamic", num_threads=threads_of(g, <double>g.n * g.o * g.cg)):
        conv_weight_plane(g, x, y_bar, w_bar, unit)


cdef void unfold_plane(const Geometry* g, const real* x, real* cols, int64_t unit) noexcept nogil:
    cdef int64_t tap
    memset(cols + unit * g.taps * g.outs, 0, g.taps * g.outs * sizeof(real))
    for tap in range(g.taps):
        walk(COPY, g, tap, <real>0, <real*>x + unit * g.cells, cols + (unit * g.taps + tap) * g.outs, NULL)


cdef void direct_unfold(const Geometry* g, const real* x, real* cols) noexcept nogil:
    """cols[n, c, tap, p] = x~[n, c, p*s + tap*d - pad]."""
    cdef int64_t unit
    for unit in prange(g.n * g.c, schedule="dynamic", num_threads=threads_of(g, <double>g.n * g.c)):
        unfold_plane(g, x, cols, unit)


cdef void fold_plane(const Geometry* g, const real* cols, real* x_bar, int64_t unit) noexcept nogil:
    cdef int64_t tap
    memset(x_bar + unit * g.cells, 0, g.cells * sizeof(real))
    for tap in range(g.taps):
        walk(ADD, g, tap, <real>0, x_bar + unit * g.cells, <real*>cols + (unit * g.taps + tap) * g.outs, NULL)


cdef void direct_fold(const Geometry* g, const real* cols, real* x_bar) noexcept nogil:
    """x_bar[n, c, cell] = sum of cols[n, c, tap, p] over the (tap, p) that read the cell, taps in order."""
    cdef int64_t unit
    for unit in prange(g.n * g.c, schedule="dynamic", num_threads=threads_of(g, <double>g.n * g.c)):
        fold_plane(g, cols, x_bar, unit)
