"""conv_weight on the planes of conv: rows are output channels, columns (channel, tap), the sum is over cells.

    w_bar[o, (c, tap)] = sum over samples n and output cells p of  y_bar[n, o, p] * planes[n, c, off(tap) + j(p)]

y_bar is packed into panels and the planes into strips, as in gemm.pyx: both run along the sum, so both are turned in
registers, the planes run by run of neighbouring cells. The sum runs in blocks of about CELLS cells: parts of a sample,
or several small samples together. Block sums are added in order. Each thread owns the part of w_bar it writes and walks
all samples, so nothing is reduced across threads and the bits do not depend on their number. A small w_bar has too few
parts for that: there block i goes to share i mod SHARES, a w_bar of its own, and the shares are added in order; which blocks
and shares there are depends on the geometry alone. Where a group has few outputs (depthwise layers) a panel would be
wasted: there each w_bar[o, c, tap] is a dot product along the planes.

Error: |w^ - w| <= gamma_n sum |x||y_bar| with n = samples * output cells. Temporary space: padded planes of one sample
per thread (or SPARE bytes of smaller ones), and less than 0.5 MB per thread.
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from lean_nn_c._columns cimport MAX_TILE
from lean_nn_c._geometry cimport MAX_RANK, Geometry
from lean_nn_c._openmp cimport omp_get_thread_num
from lean_nn_c._planes cimport Cells, Planes, fill_channel, list_cells, period, planes_of_image
from lean_nn_c._simd cimport LNN_FULL, LNN_ROWS, SPARE_LINE, aligned, columns_of, dots, lanes, whole_lines
from lean_nn_c._types cimport real
from lean_nn_c.gemm cimport FEW, PANEL_BYTES, Ahead, Split, pack_rows, panels_size, split_work, strip_product
from lean_nn_c.step cimport give_scratch, take_scratch
from lean_nn_c.taps cimport DONE, NO_MEMORY, UNSUITED, affordable
from lean_nn_c.threads cimport threads_for

cdef enum:
    CELLS = 256             # output cells of a partial sum, at most
    SPARE = 524288          # bytes per thread that small planes of several samples may take together
    SHARES = 8              # of the sums, where w_bar
    SMALL = 8192            # has at most so many values


cdef struct Runs:               # the cells of one partial sum, as runs of neighbours in the planes
    int64_t count, terms
    int64_t start[CELLS]
    int64_t length[CELLS]


cdef int64_t tap_offset(const Geometry* g, const Planes* p, int64_t tap) noexcept nogil:
    """Plane offset of a tap."""
    cdef int64_t rest = tap, offset = 0, phase = p.plane, k
    cdef int axis
    for axis in range(g.rank - 1, -1, -1):
        k = rest % g.ker[axis]
        rest //= g.ker[axis]
        offset += (k % period(g.stride[axis], g.dil[axis])) * phase
        offset += (k * g.dil[axis] // g.stride[axis]) * p.pitch[axis]
        phase *= p.phases[axis]
    return offset


cdef void add_runs(const Geometry* g, const Planes* p, int64_t base, int64_t first, int64_t count,
                   Runs* r) noexcept nogil:
    """Append output cells first .. first+count of the sample whose planes begin at `base`."""
    cdef int64_t at[MAX_RANK]
    cdef int64_t rest = first, offset, room
    cdef int axis, last = g.rank - 1
    for axis in range(last, -1, -1):
        at[axis] = rest % g.out[axis]
        rest //= g.out[axis]
    r.terms += count
    while count > 0:
        offset = base
        for axis in range(g.rank):
            offset += at[axis] * p.pitch[axis]
        room = min(g.out[last] - at[last], count)
        if r.count and r.start[r.count - 1] + r.length[r.count - 1] == offset:
            r.length[r.count - 1] += room
        else:
            r.start[r.count], r.length[r.count] = offset, room
            r.count += 1
        count -= room
        at[last] = 0
        for axis in range(last - 1, -1, -1):
            at[axis] += 1
            if at[axis] < g.out[axis]:
                break
            at[axis] = 0


cdef void pack_strip(const Geometry* g, const Planes* p, const int64_t* taps, const Runs* r, const real* planes,
                     int64_t first, int64_t columns, int vectors, real* strip) noexcept nogil:
    """Columns first .. first+columns of one partial sum."""
    cdef int64_t off[MAX_TILE]
    cdef int64_t channel = first // g.taps, tap = first % g.taps, j
    for j in range(vectors * lanes(planes)):
        off[j] = channel * p.channel + taps[tap]
        if j + 1 < columns:             # columns there are not repeat the last one
            tap += 1
            if tap == g.taps:
                tap = 0
                channel += 1
    columns_of(planes, &off[0], vectors, &r.start[0], &r.length[0], r.count, strip)


cdef int64_t parts_of(const Geometry* g) noexcept nogil:
    """Partial sums of a sample."""
    return max((g.outs + CELLS - 1) // CELLS, 1)


cdef int64_t samples_of(const Geometry* g) noexcept nogil:
    """Samples of a partial sum."""
    return max(CELLS // max(g.outs, 1), 1)


cdef int64_t shares_of(const Geometry* g) noexcept nogil:
    cdef int64_t blocks = (g.n + samples_of(g) - 1) // samples_of(g) * parts_of(g)
    return min(<int64_t>SHARES, blocks // 2) if g.o * g.cg * g.taps <= SMALL and blocks >= 4 else 1


cdef void unit(const Geometry* g, const Planes* p, const int64_t* taps, const real* planes, const real* y_bar,
               int64_t samples, real* w_bar, int64_t before, int64_t share, int64_t shares, int64_t m0, int64_t m1,
               int64_t first, int64_t stop, real* scratch) noexcept nogil:
    """Rows m0..m1 and strips first..stop of one group's w_bar: add all samples, or a share of their partial sums, of
    which there were `before` in earlier samples."""
    cdef int64_t parts = parts_of(g), together = samples_of(g)
    cdef int64_t width = LNN_FULL * lanes(planes), ldw = g.cg * g.taps, block, n, i, part, cell, count, t, columns
    cdef real* strip = scratch + panels_size(m1 - m0, CELLS)
    cdef int vectors
    cdef Runs r
    cdef Ahead ahead
    ahead.rows = 0
    for block in range((samples + together - 1) // together):
        n = block * together
        for part in range(parts):
            if (before + block * parts + part) % shares != share:
                continue
            cell = g.outs * part // parts
            count = g.outs * (part + 1) // parts - cell
            r.count = r.terms = 0
            for i in range(n, min(n + together, samples)):
                add_runs(g, p, i * g.c * p.channel, cell, count, &r)
            for i in range(n, min(n + together, samples)):
                pack_rows(y_bar + (i * g.o + m0) * g.outs + cell, g.outs, 1, m1 - m0, count, r.terms,
                          scratch + (i - n) * count * LNN_ROWS)
            for t in range(first, stop):
                columns = min(width, ldw - t * width)
                vectors = <int>((columns + lanes(planes) - 1) // lanes(planes))
                pack_strip(g, p, taps, &r, planes, t * width, columns, vectors, strip)
                strip_product(m1 - m0, r.terms, <const real*>scratch, <const real*>strip, <const real*>NULL,
                              before + block * parts + part >= shares, w_bar + m0 * ldw + t * width, ldw, columns,
                              &ahead)


cdef void run(const Geometry* g, const Planes* p, const int64_t* taps, const real* planes, const real* y_bar,
              int64_t samples, real* w_bar, int64_t before, int64_t shares, Split s, real* scratch,
              int64_t scratch_size, int threads) noexcept nogil:
    cdef int64_t units = shares * g.groups * s.m * s.t, i
    for i in prange(units, schedule="dynamic", num_threads=threads):
        one(g, p, taps, planes, y_bar, samples, w_bar, before, shares, i, s,
            scratch + omp_get_thread_num() * scratch_size)


cdef void one(const Geometry* g, const Planes* p, const int64_t* taps, const real* planes, const real* y_bar,
              int64_t samples, real* w_bar, int64_t before, int64_t shares, int64_t index, Split s,
              real* scratch) noexcept nogil:
    cdef int64_t part_t = index % s.t, part_m = index // s.t % s.m, group = index // (s.t * s.m) % g.groups
    cdef int64_t width = LNN_FULL * lanes(planes), strips = (g.cg * g.taps + width - 1) // width
    cdef int64_t share = index // (s.t * s.m * g.groups)
    unit(g, p, taps, planes + group * g.cg * p.channel, y_bar + group * g.og * g.outs, samples,
         w_bar + (share * g.o + group * g.og) * g.cg * g.taps, before, share, shares, g.og * part_m // s.m,
         g.og * (part_m + 1) // s.m, strips * part_t // s.t, strips * (part_t + 1) // s.t, scratch)


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
    q.direct, q.cells = True, NULL
    for axis in range(g.rank):
        q.size[axis] = g.out[axis]
        q.step[axis] = q.phases[axis] = q.dil[axis] = 1
        q.shift[axis] = 0
        if p.q[axis] != g.out[axis]:
            q.direct = False
    q.channel = q.plane
    scratch_size = p.channel + q.channel
    off = <int64_t*>malloc(g.taps * sizeof(int64_t))
    scratch = <real*>take_scratch(threads * scratch_size * sizeof(real))
    if off == NULL or scratch == NULL:
        free(off)
        give_scratch(scratch)
        return NO_MEMORY
    for i in range(g.taps):
        off[i] = tap_offset(g, p, i)
    for i in prange(g.c, schedule="dynamic", num_threads=threads):
        channel(g, p, &q, off, x, y_bar, w_bar, i, scratch + omp_get_thread_num() * scratch_size)
    free(off)
    give_scratch(scratch)
    return DONE


cdef int64_t samples_at_once(const Geometry* g, int64_t sample_bytes, int threads) noexcept nogil:
    """Samples whose planes are held together: whole partial sums, so that the bits do not depend on the threads."""
    cdef int64_t together = samples_of(g)
    cdef int64_t samples = max(<int64_t>threads, threads * <int64_t>SPARE // max(sample_bytes, 1))
    return max(min(g.n, max(samples // together, 1) * together), 1)


cdef int taps_conv_weight(const Geometry* g, const real* x, const real* y_bar, real* w_bar) noexcept nogil:
    cdef Planes p
    cdef Cells cells
    cdef Split s
    cdef real* planes = NULL
    cdef real* memory
    cdef real* sums = w_bar
    cdef int64_t* taps
    cdef int64_t at = 0, samples = g.n, i, width = LNN_FULL * lanes(x), scratch_size
    cdef int64_t shares = shares_of(g), weights = g.o * g.cg * g.taps
    cdef int threads = threads_for(<Py_ssize_t>min(<double>g.n * g.o * g.outs * g.cg * g.taps / 8, 1e18))
    if planes_of_image(&p, g, sizeof(real)) * g.c > affordable(g):
        return UNSUITED
    list_cells(&p, &cells, g.n * g.c)
    if g.og < FEW:
        return dots_conv_weight(g, &p, x, y_bar, w_bar, threads)
    s = split_work(g.groups, g.og, PANEL_BYTES // <int64_t>sizeof(real), 24, (g.cg * g.taps + width - 1) // width,
                   1 << 30, threads if shares == 1 else 1)
    scratch_size = whole_lines(panels_size((g.og + s.m - 1) // s.m, CELLS) + CELLS * width)
    if not p.direct:
        samples = samples_at_once(g, g.c * p.channel * sizeof(real), threads)
        planes = <real*>take_scratch((samples * g.c * p.channel + MAX_TILE) * sizeof(real))
    memory = <real*>take_scratch((threads * scratch_size + SPARE_LINE + shares * weights) * sizeof(real))
    taps = <int64_t*>malloc(g.taps * sizeof(int64_t))
    if memory == NULL or taps == NULL or (planes == NULL and not p.direct):
        at = g.n
    else:
        for i in range(g.taps):
            taps[i] = tap_offset(g, &p, i)
        if shares > 1:
            sums = aligned(memory) + threads * scratch_size
    while at < g.n:
        samples = min(samples, g.n - at)
        if not p.direct:
            for i in prange(samples * g.c, schedule="static", num_threads=threads):
                fill_channel(&p, x + (at * g.c + i) * g.cells, planes + i * p.channel)
        run(g, &p, taps, x + at * g.c * g.cells if p.direct else <const real*>planes, y_bar + at * g.o * g.outs,
            samples, sums, at // samples_of(g) * parts_of(g), shares, s, aligned(memory), scratch_size, threads)
        at += samples
    if sums != w_bar:
        for i in range(weights):
            w_bar[i] = sums[i]
        for i in range(weights, shares * weights):
            w_bar[i % weights] += sums[i]
    i = NO_MEMORY if memory == NULL or taps == NULL or (planes == NULL and not p.direct) else DONE
    give_scratch(planes)
    give_scratch(memory)
    free(taps)
    return <int>i
