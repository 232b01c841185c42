"""conv_weight on the planes of conv: rows are (channel, tap), columns output channels, the sum is over cells.

    w_bar[o, (c, tap)] = sum over samples n and output cells p of  planes[n, c, off(tap) + j(p)] * y_bar[n, o, p]

In the tile of simd.h the row pointers are planes + c*channel + off(tap), the table aoff is j(p), and B is y_bar with
its channels turned to the inside, one tile's width at a time. Sums over p run in blocks of CELLS; block sums are
added in order of (n, p). Each thread owns the part of w_bar it writes and walks all samples, so nothing is reduced
across threads and the bits do not depend on their number. Where a group has fewer outputs than half a vector
(depthwise layers), columns would be wasted: there each w_bar[o, c, tap] is a dot product along the planes.

Error: |w^ - w| <= gamma_n sum |x||y_bar| with n = samples * output cells.
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from lean_nn_c._columns cimport MAX_TILE
from lean_nn_c._geometry cimport MAX_RANK, Geometry
from lean_nn_c._openmp cimport omp_get_thread_num
from lean_nn_c._planes cimport Planes, fill_channel, period, planes_of_image
from lean_nn_c._simd cimport LNN_ROWS, dots, lanes, lnn_vectors, tile, turn
from lean_nn_c._types cimport real
from lean_nn_c.taps cimport DONE, NO_MEMORY, UNSUITED, affordable
from lean_nn_c.threads cimport threads_for

cdef enum:
    CELLS = 256             # output cells of a partial sum
    ROWS = 768              # most rows of w_bar, turned, that one unit holds
    SPARE = 524288          # bytes per thread that small planes of several samples may take together


cdef void cell_offsets(const Geometry* g, const Planes* p, int64_t first, int64_t count, int64_t* a) noexcept nogil:
    """Plane index of output cells first .. first+count."""
    cdef int64_t at[MAX_RANK]
    cdef int64_t rest = first, offset = 0, i
    cdef int axis
    for axis in range(g.rank - 1, -1, -1):
        at[axis] = rest % g.out[axis]
        rest //= g.out[axis]
        offset += at[axis] * p.pitch[axis]
    for i in range(count):
        a[i] = offset
        for axis in range(g.rank - 1, -1, -1):
            at[axis] += 1
            offset += p.pitch[axis]
            if at[axis] < g.out[axis]:
                break
            offset -= at[axis] * p.pitch[axis]
            at[axis] = 0


cdef int64_t row_offset(const Geometry* g, const Planes* p, int64_t row) noexcept nogil:
    """Plane offset of (channel, tap) = row of a group."""
    cdef int64_t rest = row % g.taps, offset = row // g.taps * p.channel, phase = p.plane, k
    cdef int axis
    for axis in range(g.rank - 1, -1, -1):
        k = rest % g.ker[axis]
        rest //= g.ker[axis]
        offset += (k % period(g.stride[axis], g.dil[axis])) * phase
        offset += (k * g.dil[axis] // g.stride[axis]) * p.pitch[axis]
        phase *= p.phases[axis]
    return offset


cdef void blank(real* rows, int64_t count, int64_t width, int64_t used) noexcept nogil:
    """Zero the columns from `used` on: channels there are not."""
    cdef int64_t i
    if used < width:
        for i in range(count):
            memset(rows + i * width + used, 0, (width - used) * sizeof(real))


cdef void unit(const Geometry* g, const Planes* p, const real* planes, const real* y_bar, int64_t samples, real* w_bar,
               bint fresh, int64_t first, int64_t rows, int64_t channels, int vectors, real* scratch) noexcept nogil:
    """Rows first.. of `channels` columns: bring w_bar in turned (zeros if fresh), add all samples, put it back."""
    cdef int64_t width = vectors * lanes(scratch), lda = g.cg * g.taps, n, part, cell, count, i, panel, m
    cdef int64_t panels = (rows + LNN_ROWS - 1) // LNN_ROWS
    cdef real* sums = scratch
    cdef real* b = sums + ROWS * width
    cdef int64_t* aoff = <int64_t*>(b + CELLS * width)
    cdef int64_t* boff = aoff + CELLS
    cdef int64_t* roff = boff + CELLS
    cdef const real* row[LNN_ROWS]
    cdef int mr
    for i in range(CELLS):
        boff[i] = i * width
    for i in range(rows):
        roff[i] = row_offset(g, p, first + i)
    if fresh:
        memset(sums, 0, rows * width * sizeof(real))
    else:
        turn(<const real*>w_bar + first, lda, channels, rows, sums, width)
        blank(sums, rows, width, channels)
    blank(b, CELLS, width, channels)
    for n in range(samples):
        for part in range((g.outs + CELLS - 1) // CELLS):
            cell = part * CELLS
            count = min(<int64_t>CELLS, g.outs - cell)
            cell_offsets(g, p, cell, count, aoff)
            turn(y_bar + n * g.o * g.outs + cell, g.outs, channels, count, b, width)
            for panel in range(panels):
                m = rows * panel // panels
                mr = <int>(rows * (panel + 1) // panels - m)
                for i in range(mr):
                    row[i] = planes + n * g.c * p.channel + roff[m + i]
                tile(mr, vectors, count, row, aoff, <const real*>b, boff, <const real*>NULL, True,
                     sums + m * width, width)
    turn(<const real*>sums, width, rows, channels, w_bar + first, lda)


cdef void run(const Geometry* g, const Planes* p, const real* planes, const real* y_bar, int64_t samples, real* w_bar,
              bint fresh, real* scratch, int64_t scratch_size, int threads) noexcept nogil:
    cdef int64_t m = g.cg * g.taps, per_vector = lanes(scratch)
    cdef int64_t full = lnn_vectors(LNN_ROWS) * per_vector, columns = (g.og + full - 1) // full
    cdef int64_t rows = min(m, <int64_t>ROWS), blocks, units, i
    while g.groups * columns * ((m + rows - 1) // rows) < 3 * threads and rows > 12 and threads > 1:
        rows = max((rows + 1) // 2, 12)
    blocks = (m + rows - 1) // rows
    units = g.groups * columns * blocks
    for i in prange(units, schedule="dynamic", num_threads=threads):
        one(g, p, planes, y_bar, samples, w_bar, fresh, i, blocks, rows, columns, full,
            scratch + omp_get_thread_num() * scratch_size)


cdef void one(const Geometry* g, const Planes* p, const real* planes, const real* y_bar, int64_t samples, real* w_bar,
              bint fresh, int64_t index, int64_t blocks, int64_t rows, int64_t columns, int64_t full,
              real* scratch) noexcept nogil:
    cdef int64_t block = index % blocks, column = index // blocks % columns, group = index // (blocks * columns)
    cdef int64_t o = group * g.og + column * full, channels = min(full, g.og - column * full)
    cdef int vectors = <int>((channels + lanes(scratch) - 1) // lanes(scratch))
    unit(g, p, planes + group * g.cg * p.channel, y_bar + o * g.outs, samples, w_bar + o * g.cg * g.taps,
         fresh, block * rows, min(rows, g.cg * g.taps - block * rows), channels, vectors, scratch)


# --- few output channels per group: dot products along the planes ---


cdef void channel(const Geometry* g, const Planes* p, const Planes* q, const int64_t* off, const real* x,
                  const real* y_bar, real* w_bar, int64_t c, real* scratch) noexcept nogil:
    """w_bar[o, c] for the outputs o of channel c's group: all samples in order, twelve taps at a time."""
    cdef const real* row[12]
    cdef const real* image
    cdef const real* cotangent
    cdef int64_t n, i, o, tap, length = 1, group = c // g.cg
    cdef int rows, axis
    for axis in range(g.rank):
        length += (g.out[axis] - 1) * p.pitch[axis]
    for n in range(g.n):
        image = x + (n * g.c + c) * g.cells
        if not p.direct:
            fill_channel(p, image, scratch)
            image = scratch
        for i in range(g.og):
            o = group * g.og + i
            cotangent = y_bar + (n * g.o + o) * g.outs
            if not q.direct:
                fill_channel(q, cotangent, scratch + p.channel)
                cotangent = scratch + p.channel
            for tap in range(0, g.taps, 12):
                rows = <int>min(<int64_t>12, g.taps - tap)
                for axis in range(rows):
                    row[axis] = image + off[tap + axis]
                dots(rows, 1, length, row, &cotangent, n > 0, w_bar + (o * g.cg + c % g.cg) * g.taps + tap, 1, 0)


cdef int dots_conv_weight(const Geometry* g, const Planes* p, const real* x, const real* y_bar, real* w_bar,
                          int threads) noexcept nogil:
    """y_bar goes on planes of the image's pitch, zero between its rows; then every tap is one long dot product."""
    cdef Planes q = p[0]
    cdef int64_t i, scratch_size
    cdef int64_t* off
    cdef real* scratch
    cdef int axis
    q.direct = True
    for axis in range(g.rank):
        q.size[axis] = g.out[axis]
        q.step[axis] = q.phases[axis] = q.dil[axis] = 1
        q.shift[axis] = 0
        if p.q[axis] != g.out[axis]:
            q.direct = False
    q.channel = q.plane
    scratch_size = p.channel + q.channel
    off = <int64_t*>malloc(g.taps * sizeof(int64_t))
    scratch = <real*>malloc(threads * scratch_size * sizeof(real))
    if off == NULL or scratch == NULL:
        free(off)
        free(scratch)
        return NO_MEMORY
    for i in range(g.taps):
        off[i] = row_offset(g, p, i)
    for i in prange(g.c, schedule="dynamic", num_threads=threads):
        channel(g, p, &q, off, x, y_bar, w_bar, i, scratch + omp_get_thread_num() * scratch_size)
    free(off)
    free(scratch)
    return DONE


cdef int taps_conv_weight(const Geometry* g, const real* x, const real* y_bar, real* w_bar) noexcept nogil:
    cdef Planes p
    cdef real* planes = NULL
    cdef real* scratch
    cdef int64_t at = 0, samples = g.n, i, width = lnn_vectors(LNN_ROWS) * lanes(x)
    cdef int64_t scratch_size = (ROWS + CELLS) * width + (2 * CELLS + ROWS) * sizeof(int64_t) // sizeof(real)
    cdef int threads = threads_for(<Py_ssize_t>min(<double>g.n * g.o * g.outs * g.cg * g.taps / 8, 1e18))
    if planes_of_image(&p, g, sizeof(real)) * g.c > affordable(g):
        return UNSUITED
    if 2 * g.og < lanes(x):
        return dots_conv_weight(g, &p, x, y_bar, w_bar, threads)
    scratch = <real*>malloc(threads * scratch_size * sizeof(real))
    if scratch == NULL:
        return NO_MEMORY
    if not p.direct:
        samples = max(<int64_t>threads, threads * <int64_t>SPARE // max(g.c * p.channel * <int64_t>sizeof(real), 1))
        samples = max(min(g.n, samples), 1)
        planes = <real*>malloc((samples * g.c * p.channel + MAX_TILE) * sizeof(real))
        if planes == NULL:
            free(scratch)
            return NO_MEMORY
    while at < g.n:
        samples = min(samples, g.n - at)
        if not p.direct:
            for i in prange(samples * g.c, schedule="static", num_threads=threads):
                fill_channel(&p, x + (at * g.c + i) * g.cells, planes + i * p.channel)
        run(g, &p, x + at * g.c * g.cells if p.direct else <const real*>planes, y_bar + at * g.o * g.outs, samples,
            w_bar, at == 0, scratch, scratch_size, threads)
        at += samples
    free(planes)
    free(scratch)
    return DONE
