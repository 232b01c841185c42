"""conv_weight on the planes of conv: rows are (channel, tap), columns output channels, the sum is over cells.

    w_bar[o, (c, tap)] = sum over samples n and output cells p of  planes[n, c, off(tap) + j(p)] * y_bar[n, o, p]

In the tile of simd.h the row pointers are planes + c*channel + off(tap), the table aoff is j(p), and B is y_bar with
its channels turned to the inside, one tile's width at a time. Sums over p run in blocks of CELLS; block sums are
added in order of (n, p). Each thread owns the part of w_bar it writes and walks all samples, so nothing is reduced
across threads and the bits do not depend on their number.

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
from lean_nn_c._simd cimport LNN_ROWS, lanes, lnn_vectors, tile
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


cdef void turn(const real* y_bar, int64_t ld, int64_t cells, int64_t channels, int64_t width, real* b) noexcept nogil:
    """b[i*width + o] = y_bar[o*ld + i], zero for the channels there are not."""
    cdef int64_t i, o
    for o in range(channels):
        for i in range(cells):
            b[i * width + o] = y_bar[o * ld + i]
    for o in range(channels, width):
        for i in range(cells):
            b[i * width + o] = 0


cdef void unit(const Geometry* g, const Planes* p, const real* planes, const real* y_bar, int64_t samples, real* w_bar,
               int64_t first, int64_t rows, int64_t channels, int vectors, real* scratch) noexcept nogil:
    """Rows first.. of `channels` columns: bring w_bar in turned, add all samples, put it back."""
    cdef int64_t width = vectors * lanes(scratch), lda = g.cg * g.taps, n, part, cell, count, i, o, panel, m
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
        for o in range(channels):
            sums[i * width + o] = w_bar[o * lda + first + i]
        for o in range(channels, width):
            sums[i * width + o] = 0
    for n in range(samples):
        for part in range((g.outs + CELLS - 1) // CELLS):
            cell = part * CELLS
            count = min(<int64_t>CELLS, g.outs - cell)
            cell_offsets(g, p, cell, count, aoff)
            turn(y_bar + n * g.o * g.outs + cell, g.outs, count, channels, width, b)
            for panel in range(panels):
                m = rows * panel // panels
                mr = <int>(rows * (panel + 1) // panels - m)
                for i in range(mr):
                    row[i] = planes + n * g.c * p.channel + roff[m + i]
                tile(mr, vectors, count, row, aoff, <const real*>b, boff, <const real*>NULL, True,
                     sums + m * width, width)
    for i in range(rows):
        for o in range(channels):
            w_bar[o * lda + first + i] = sums[i * width + o]


cdef void run(const Geometry* g, const Planes* p, const real* planes, const real* y_bar, int64_t samples, real* w_bar,
              real* scratch, int64_t scratch_size, int threads) noexcept nogil:
    cdef int64_t m = g.cg * g.taps, per_vector = lanes(scratch)
    cdef int64_t full = lnn_vectors(LNN_ROWS) * per_vector, columns = (g.og + full - 1) // full
    cdef int64_t rows = min(m, <int64_t>ROWS), blocks, units, i
    while g.groups * columns * ((m + rows - 1) // rows) < 3 * threads and rows > 12 and threads > 1:
        rows = max((rows + 1) // 2, 12)
    blocks = (m + rows - 1) // rows
    units = g.groups * columns * blocks
    for i in prange(units, schedule="dynamic", num_threads=threads):
        one(g, p, planes, y_bar, samples, w_bar, i, blocks, rows, columns, full,
            scratch + omp_get_thread_num() * scratch_size)


cdef void one(const Geometry* g, const Planes* p, const real* planes, const real* y_bar, int64_t samples, real* w_bar,
              int64_t index, int64_t blocks, int64_t rows, int64_t columns, int64_t full, real* scratch) noexcept nogil:
    cdef int64_t block = index % blocks, column = index // blocks % columns, group = index // (blocks * columns)
    cdef int64_t o = group * g.og + column * full, channels = min(full, g.og - column * full)
    cdef int vectors = <int>((channels + lanes(scratch) - 1) // lanes(scratch))
    unit(g, p, planes + group * g.cg * p.channel, y_bar + o * g.outs, samples, w_bar + o * g.cg * g.taps,
         block * rows, min(rows, g.cg * g.taps - block * rows), channels, vectors, scratch)


cdef int taps_conv_weight(const Geometry* g, const real* x, const real* y_bar, real* w_bar) noexcept nogil:
    cdef Planes p
    cdef real* planes = NULL
    cdef real* scratch
    cdef int64_t at = 0, samples = g.n, i, width = lnn_vectors(LNN_ROWS) * lanes(x)
    cdef int64_t scratch_size = (ROWS + CELLS) * width + (2 * CELLS + ROWS) * sizeof(int64_t) // sizeof(real)
    cdef int threads = threads_for(<Py_ssize_t>min(<double>g.n * g.o * g.outs * g.cg * g.taps / 8, 1e18))
    if planes_of_image(&p, g, sizeof(real)) * g.c > affordable(g):
        return UNSUITED
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
    memset(w_bar, 0, g.o * g.cg * g.taps * sizeof(real))
    while at < g.n:
        samples = min(samples, g.n - at)
        if not p.direct:
            for i in prange(samples * g.c, schedule="static", num_threads=threads):
                fill_channel(&p, x + (at * g.c + i) * g.cells, planes + i * p.channel)
        run(g, &p, x + at * g.c * g.cells if p.direct else <const real*>planes, y_bar + at * g.o * g.outs, samples,
            w_bar, scratch, scratch_size, threads)
        at += samples
    free(planes)
    free(scratch)
    return DONE
