"""conv and conv_input as products over taps (see _planes.pxd, _columns.pxd, simd.h).

With the planes in place both are one matrix product over k = (channel, tap),
out[m, j] = sum_k A[m, k] * planes[off[k] + j]:

=============  ========================  ============================  ===========================================
contraction    rows m                    A[m, (channel, tap)]          output classes
=============  ========================  ============================  ===========================================
conv           output channels           w[m, channel, tap]            one
conv_input     input channels            w[channel, m, tap]            one per residue of the stride that has taps
=============  ========================  ============================  ===========================================

Neither the weight nor the image is packed. k runs in blocks of whole channels (about BLOCK terms); the blocks' partial
sums are added in order, so the bits of an output depend on the geometry alone. Threads own tiles of outputs.

Error: |y^ - y| <= gamma_n sum |x||w| with n = terms + 1 (the bias).
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from lean_nn_c._columns cimport MAX_TILE, Columns, Spot, choose_runs, locate
from lean_nn_c._geometry cimport MAX_RANK, Geometry, ceil_div, floor_div
from lean_nn_c._planes cimport Planes, fill_channel, period, planes_of_image, planes_of_output, reach
from lean_nn_c._simd cimport LNN_ROWS, lanes, lnn_vectors, tile
from lean_nn_c._types cimport real
from lean_nn_c.threads cimport threads_for

cdef enum:
    BLOCK = 640             # terms of a partial sum, about
    ROWS = 96               # rows of A worked on together: ROWS x BLOCK values stay in the second-level cache
    SPARE = 524288          # bytes per thread that small planes of several samples may take together


cdef struct Taps:
    int64_t count               # taps per channel
    int64_t channels            # channels summed over
    int64_t together            # channels of a block (0: a block is a part of one channel's taps)
    int64_t blocks
    int64_t a_channel, b_channel
    int64_t* a                  # offsets of one block in A and in the planes
    int64_t* b


cdef struct Block:
    int64_t terms, a, b, first


cdef Block block_at(const Taps* t, int64_t index) noexcept nogil:
    cdef Block k
    cdef int64_t parts, channel
    k.first = 0
    if t.together:
        channel = index * t.together
        k.terms = min(t.together, t.channels - channel) * t.count
    else:
        parts = (t.count + BLOCK - 1) // BLOCK
        channel = index // parts
        k.first = (index % parts) * BLOCK
        k.terms = min(<int64_t>BLOCK, t.count - k.first)
    k.a = channel * t.a_channel
    k.b = channel * t.b_channel
    return k


cdef void split_terms(Taps* t) noexcept nogil:
    """How the sum over (channel, tap) is cut into blocks; independent of the number of threads."""
    t.together = BLOCK // t.count
    if t.together:
        t.blocks = max((t.channels + t.together - 1) // t.together, 1)
        t.together = max((t.channels + t.blocks - 1) // t.blocks, 1)        # blocks of about one size
    else:
        t.blocks = t.channels * ((t.count + BLOCK - 1) // BLOCK)
    t.blocks = max(t.blocks, 1)         # no channels at all: one empty block writes the bias


cdef int64_t table_length(int64_t taps) noexcept nogil:
    return max(<int64_t>BLOCK, taps)


cdef void fill_tables(Taps* t, const Geometry* g, const Planes* p, const int64_t* residue) noexcept nogil:
    """Offsets of every (channel, tap) of a block: the taps of one residue of conv_input, or all (NULL)."""
    cdef int64_t tap, rest, at, k, a, b, size, phase_size, channel
    cdef int i
    for tap in range(t.count):
        rest, a, b, size, phase_size = tap, 0, 0, 1, p.plane
        for i in range(g.rank - 1, -1, -1):
            if residue == NULL:
                k = rest % g.ker[i]
                rest //= g.ker[i]
                b += (k % period(g.stride[i], g.dil[i])) * phase_size + (k * g.dil[i] // g.stride[i]) * p.pitch[i]
            else:
                at = (g.ker[i] - residue[i] - 1) // period(g.stride[i], g.dil[i]) + 1
                k = residue[i] + (rest % at) * period(g.stride[i], g.dil[i])
                rest //= at
                b -= (k * g.dil[i] // g.stride[i]) * p.pitch[i]
            a += k * size
            size *= g.ker[i]
            phase_size *= p.phases[i]
        for channel in range(max(t.together, 1)):
            t.a[channel * t.count + tap] = channel * t.a_channel + a
            t.b[channel * t.count + tap] = channel * t.b_channel + b


cdef void columns_of_output(Columns* c, const Geometry* g, const Planes* p) noexcept nogil:
    cdef int i
    cdef int64_t step = 1
    c.rank, c.base, c.dest, c.direct = g.rank, 0, 0, p.direct
    for i in range(g.rank - 1, -1, -1):
        c.count[i], c.q[i], c.pitch[i], c.step[i] = g.out[i], p.q[i], p.pitch[i], step
        step *= g.out[i]


cdef bint columns_of_image(Columns* c, const Geometry* g, const Planes* p, const int64_t* residue) noexcept nogil:
    """The image cells u with u + pad of the given residues; False when there are none."""
    cdef int i
    cdef int64_t step = 1, r, low, high
    c.rank, c.base, c.dest, c.direct = g.rank, 0, 0, p.direct
    for i in range(g.rank - 1, -1, -1):
        r = residue[i] * g.dil[i] % g.stride[i]
        low = ceil_div(g.pad[i] - r, g.stride[i])
        high = floor_div(g.pad[i] + g.inp[i] - 1 - r, g.stride[i])
        if high < low:
            return False
        c.count[i], c.q[i], c.pitch[i] = high - low + 1, p.q[i], p.pitch[i]
        c.step[i] = step * g.stride[i]
        c.base += (low - g.pad[i] // g.stride[i] + reach(g, i)) * p.pitch[i]
        c.dest += (g.stride[i] * low + r - g.pad[i]) * step
        step *= g.inp[i]
    return True


cdef int64_t taps_of_residue(const Geometry* g, const int64_t* residue) noexcept nogil:
    cdef int i
    cdef int64_t count = 1
    for i in range(g.rank):
        count *= (g.ker[i] - residue[i] - 1) // period(g.stride[i], g.dil[i]) + 1
    return count


cdef bint next_residue(const Geometry* g, int64_t* residue) noexcept nogil:
    cdef int i
    for i in range(g.rank - 1, -1, -1):
        residue[i] += 1
        if residue[i] < min(g.ker[i], period(g.stride[i], g.dil[i])):
            return True
        residue[i] = 0
    return False


cdef void store(const Spot* s, int rows, const real* part, int64_t ldp, int64_t step, bint add,
                real* out, int64_t ldo) noexcept nogil:
    """Copy a tile's segments to their places."""
    cdef int m, i
    cdef int64_t j
    cdef real* to
    cdef const real* source
    for m in range(rows):
        for i in range(s.segments):
            to = out + m * ldo + s.segment[i].dest
            source = part + m * ldp + s.segment[i].column
            if add:
                for j in range(s.segment[i].length):
                    to[j * step] += source[j]
            else:
                for j in range(s.segment[i].length):
                    to[j * step] = source[j]


cdef void work(const Columns* c, const Taps* t, const real* a, int64_t lda, const real* planes, const real* bias,
               real* out, int64_t ldo, int64_t m0, int64_t m1, int64_t first, int64_t stop) noexcept nogil:
    """Rows m0..m1 of tiles first..stop of one sample and group."""
    cdef const real* rows[LNN_ROWS]
    cdef real part[LNN_ROWS * MAX_TILE]
    cdef Spot s
    cdef Block k
    cdef int64_t block, index, panel, m, panels = (m1 - m0 + LNN_ROWS - 1) // LNN_ROWS
    cdef int i, mr, per_vector = lanes(a)
    for block in range(t.blocks):
        k = block_at(t, block)
        for index in range(first, stop):
            locate(c, index, per_vector, &s)
            for panel in range(panels):
                m = m0 + (m1 - m0) * panel // panels
                mr = <int>(m0 + (m1 - m0) * (panel + 1) // panels - m)
                for i in range(mr):
                    rows[i] = a + (m + i) * lda + k.a
                if s.whole:
                    tile(mr, s.vectors, k.terms, rows, t.a + k.first, planes + s.base + k.b, t.b + k.first,
                         bias + m if bias != NULL else NULL, block > 0, out + m * ldo + s.segment[0].dest, ldo)
                else:
                    tile(mr, s.vectors, k.terms, rows, t.a + k.first, planes + s.base + k.b, t.b + k.first,
                         bias + m if bias != NULL and block == 0 else NULL, False, &part[0], MAX_TILE)
                    store(&s, mr, &part[0], MAX_TILE, c.step[c.rank - 1], block > 0, out + m * ldo, ldo)


cdef int64_t halved(int64_t amount, int64_t least) noexcept nogil:
    return max((amount + 1) // 2, least)


cdef void run_class(const Columns* c, const Taps* t, int64_t samples, int64_t groups, int64_t m, const real* a,
                    int64_t a_group, int64_t lda, const real* planes, int64_t p_group, const real* bias,
                    real* out, int64_t ldo, int threads) noexcept nogil:
    """All samples and groups of one output class. How it is split decides who computes, never what."""
    cdef int64_t rows = min(m, <int64_t>ROWS), tiles = min(c.tiles, <int64_t>16), units, unit, blocks_m, blocks_t
    cdef int64_t base = samples * groups
    while True:
        blocks_m = (m + rows - 1) // rows
        blocks_t = (c.tiles + tiles - 1) // tiles
        units = base * blocks_m * blocks_t
        if units >= 3 * threads or threads == 1 or (rows <= 12 and tiles <= 2):
            break
        if tiles > 2:
            tiles = halved(tiles, 2)
        else:
            rows = halved(rows, 12)
    for unit in prange(units, schedule="dynamic", num_threads=threads):
        work_unit(c, t, groups, m, a, a_group, lda, planes, p_group, bias, out, ldo, unit,
                  blocks_m, blocks_t, rows, tiles)


cdef void work_unit(const Columns* c, const Taps* t, int64_t groups, int64_t m, const real* a, int64_t a_group,
                    int64_t lda, const real* planes, int64_t p_group, const real* bias, real* out, int64_t ldo,
                    int64_t unit, int64_t blocks_m, int64_t blocks_t, int64_t rows, int64_t tiles) noexcept nogil:
    cdef int64_t part_t = unit % blocks_t, part_m = unit // blocks_t % blocks_m, image = unit // (blocks_t * blocks_m)
    cdef int64_t group = image % groups
    work(c, t, a + group * a_group, lda, planes + image * p_group, bias + group * m if bias != NULL else NULL,
         out + image * m * ldo, ldo, part_m * rows, min(m, (part_m + 1) * rows),
         part_t * tiles, min(c.tiles, (part_t + 1) * tiles))


cdef int64_t samples_at_once(int64_t n, int64_t sample_bytes, int threads) noexcept nogil:
    """One sample's planes per thread, or as many small ones as fit in SPARE bytes per thread."""
    return max(min(n, max(<int64_t>threads, threads * <int64_t>SPARE // max(sample_bytes, 1))), 1)


cdef int threads_of(const Geometry* g) noexcept nogil:
    """Threads for about n*o*outs*cg*taps multiply-adds, of which a core does eight at a time."""
    return threads_for(<Py_ssize_t>min(<double>g.n * g.o * g.outs * g.cg * g.taps / 8, 1e18))


cdef double affordable(const Geometry* g) noexcept nogil:
    """Plane cells per sample beyond which planes are not worth having."""
    return 16 * (<double>g.c * g.cells + <double>g.o * g.outs + <double>g.o * g.cg * g.taps) + 1e6


cdef void fill_planes(const Planes* p, const real* source, int64_t channels, int64_t cells, real* planes,
                      int threads) noexcept nogil:
    cdef int64_t i
    for i in prange(channels, schedule="static", num_threads=threads):
        fill_channel(p, source + i * cells, planes + i * p.channel)


cdef int taps_conv(const Geometry* g, const real* x, const real* w, const real* b, real* y) noexcept nogil:
    """y[n, o] = b[o] + sum w[o, c, tap] planes[n, c, off(tap) + j]."""
    cdef Planes p
    cdef Columns c
    cdef Taps t
    cdef real* planes = NULL
    cdef int64_t at, samples = g.n, width = lnn_vectors(g.og) * lanes(x)
    cdef int threads = threads_of(g)
    if planes_of_image(&p, g, sizeof(real)) * g.c > affordable(g):
        return UNSUITED
    columns_of_output(&c, g, &p)
    choose_runs(&c, width)
    if c.length < width:
        p.direct = c.direct = False
    t.count, t.channels, t.a_channel, t.b_channel = g.taps, g.cg, g.taps, p.channel
    split_terms(&t)
    t.a = <int64_t*>malloc(2 * table_length(g.taps) * sizeof(int64_t))
    if t.a == NULL:
        return NO_MEMORY
    t.b = t.a + table_length(g.taps)
    fill_tables(&t, g, &p, NULL)
    if not p.direct:
        samples = samples_at_once(g.n, g.c * p.channel * sizeof(real), threads)
        planes = <real*>malloc((samples * g.c * p.channel + MAX_TILE) * sizeof(real))
        if planes == NULL:
            free(t.a)
            return NO_MEMORY
        memset(planes + samples * g.c * p.channel, 0, MAX_TILE * sizeof(real))
    at = 0
    while at < g.n:
        samples = min(samples, g.n - at)
        if not p.direct:
            fill_planes(&p, x + at * g.c * g.cells, samples * g.c, g.cells, planes, threads)
        run_class(&c, &t, samples, g.groups, g.og, w, g.og * g.cg * g.taps, g.cg * g.taps,
                  x if p.direct else <const real*>planes, g.cg * p.channel, b,
                  y + at * g.o * g.outs, g.outs, threads)
        at += samples
    free(planes)
    free(t.a)
    return DONE


cdef bint covers(const Geometry* g) noexcept nogil:
    """Whether every residue of the stride has a tap, so that conv_input writes every cell."""
    cdef int i
    for i in range(g.rank):
        if min(g.ker[i], period(g.stride[i], g.dil[i])) < g.stride[i]:
            return False
    return True


cdef bint runs_fit(const Geometry* g, const Planes* p, int64_t width) noexcept nogil:
    """Whether every class has runs of at least one tile (then y_bar may serve as its own plane)."""
    cdef int64_t residue[MAX_RANK]
    cdef Columns c
    memset(&residue[0], 0, sizeof(residue))
    while True:
        if columns_of_image(&c, g, p, &residue[0]):
            choose_runs(&c, width)
            if c.length < width:
                return False
        if not next_residue(g, &residue[0]):
            return True


cdef int taps_conv_input(const Geometry* g, const real* y_bar, const real* w, real* x_bar) noexcept nogil:
    """x_bar[n, c, s*q + r - pad] = sum over o and the taps of residue r of w[o, c, tap] y_bar[n, o, q - e(tap)]."""
    cdef Planes p
    cdef Columns c
    cdef Taps t
    cdef int64_t residue[MAX_RANK]
    cdef real* planes = NULL
    cdef int64_t at, samples = g.n, width = lnn_vectors(g.cg) * lanes(y_bar)
    cdef int threads = threads_of(g)
    if planes_of_output(&p, g, sizeof(real)) * g.o > affordable(g):
        return UNSUITED
    p.direct = p.direct and runs_fit(g, &p, width)
    t.channels, t.a_channel, t.b_channel = g.og, g.cg * g.taps, p.channel
    t.a = <int64_t*>malloc(2 * table_length(g.taps) * sizeof(int64_t))
    if t.a == NULL:
        return NO_MEMORY
    t.b = t.a + table_length(g.taps)
    if not p.direct:
        samples = samples_at_once(g.n, g.o * p.channel * sizeof(real), threads)
        planes = <real*>malloc((samples * g.o * p.channel + MAX_TILE) * sizeof(real))
        if planes == NULL:
            free(t.a)
            return NO_MEMORY
        memset(planes + samples * g.o * p.channel, 0, MAX_TILE * sizeof(real))
    if not covers(g):
        memset(x_bar, 0, g.n * g.c * g.cells * sizeof(real))
    at = 0
    while at < g.n:
        samples = min(samples, g.n - at)
        if not p.direct:
            fill_planes(&p, y_bar + at * g.o * g.outs, samples * g.o, g.outs, planes, threads)
        memset(&residue[0], 0, sizeof(residue))
        while True:
            if columns_of_image(&c, g, &p, &residue[0]):
                choose_runs(&c, width)
                t.count = taps_of_residue(g, &residue[0])
                split_terms(&t)
                fill_tables(&t, g, &p, &residue[0])
                run_class(&c, &t, samples, g.groups, g.cg, w, g.og * g.cg * g.taps, g.taps,
                          y_bar if p.direct else <const real*>planes, g.og * p.channel, <const real*>NULL,
                          x_bar + at * g.c * g.cells, g.cells, threads)
            if not next_residue(g, &residue[0]):
                break
        at += samples
    free(planes)
    free(t.a)
    return DONE
