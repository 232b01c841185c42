"""conv and conv_input as products over taps (see _planes.pxd, _columns.pxd, simd.h).

With the planes in place both are one matrix product over k = (channel, tap),
out[m, j] = sum_k A[m, k] * planes[off[k] + j]:

=============  ========================  ============================  ===========================================
contraction    rows m                    A[m, (channel, tap)]          output classes
=============  ========================  ============================  ===========================================
conv           output channels           w[m, channel, tap]            one
conv_input     input channels            w[channel, m, tap]            one per residue of the stride that has taps
=============  ========================  ============================  ===========================================

Neither the weight nor the image is packed. k runs in blocks of whole channels (_taps.pxd); the blocks' partial
sums are added in order, so the bits of an output depend on the geometry alone. Threads own tiles of outputs.

Error: |y^ - y| <= gamma_n sum |x||w| with n = terms + 1 (the bias).
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from lean_nn_c._columns cimport MAX_TILE, Columns, Spot, choose_runs, locate
from lean_nn_c._geometry cimport MAX_RANK, Geometry
from lean_nn_c._planes cimport Planes, fill_channel, planes_of_image, planes_of_output
from lean_nn_c._openmp cimport omp_get_thread_num
from lean_nn_c._simd cimport LNN_ROWS, lanes, lnn_vectors, tile
from lean_nn_c._taps cimport (
    Block, Taps, block_at, columns_of_image, columns_of_output, covers, fill_tables, next_residue, one_class,
    split_terms, table_length, taps_of_residue,
)
from lean_nn_c._types cimport real
from lean_nn_c.gemm cimport Product, multiply
from lean_nn_c.threads cimport threads_for

cdef enum:
    ROWS = 96               # rows of A worked on together: ROWS x BLOCK values stay in the second-level cache
    PRIVATE = 131072        # bytes of a group's planes that a thread fills for itself
    SPARE = 524288          # bytes per thread that small planes of several samples may take together


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
            if step == 1 and not add:
                memcpy(to, source, s.segment[i].length * sizeof(real))
            elif add:
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


cdef bint open_class(const Geometry* g, const Planes* p, const int64_t* residue, int64_t m, int64_t width, Columns* c,
                     Taps* t) noexcept nogil:
    """Columns and tables of one class: all of conv (residue NULL), or one residue of conv_input; False: no cells."""
    if residue == NULL:
        columns_of_output(c, g, p)
        t.count = g.taps
    else:
        if not columns_of_image(c, g, p, residue):
            return False
        t.count = taps_of_residue(g, residue)
    choose_runs(c, width, lanes_of(width, m), min(m, <int64_t>LNN_ROWS), t.count * t.channels)
    split_terms(t)
    if t.a != NULL:
        fill_tables(t, g, p, residue)
    return True


cdef bint runs_fit(const Geometry* g, const Planes* p, bint transposed, int64_t m, int64_t width,
                   Taps t) noexcept nogil:
    """Whether every class has runs of at least one tile: then the source may serve as its own plane."""
    cdef int64_t residue[MAX_RANK]
    cdef Columns c
    t.a = NULL
    memset(&residue[0], 0, sizeof(residue))
    while True:
        if open_class(g, p, &residue[0] if transposed else NULL, m, width, &c, &t) and c.length < width:
            return False
        if not transposed or not next_residue(g, &residue[0]):
            return True


cdef int64_t lanes_of(int64_t width, int64_t m) noexcept nogil:
    return width // lnn_vectors(m)


cdef void own_planes(const Columns* c, const Taps* t, const Planes* p, int64_t channels, int64_t cells, int64_t groups,
                     int64_t m, const real* source, const real* a, int64_t a_group, int64_t lda, const real* bias,
                     real* out, int64_t ldo, int64_t image, real* planes) noexcept nogil:
    """One sample's group, on planes of the thread's own: small ones are read while they are in its cache."""
    cdef int64_t i, row = 0, group = image % groups
    for i in range(channels):
        fill_channel(p, source + (image * channels + i) * cells, planes + i * p.channel)
    memset(planes + channels * p.channel, 0, MAX_TILE * sizeof(real))
    while row < m:
        work(c, t, a + group * a_group, lda, <const real*>planes, bias + group * m if bias != NULL else NULL,
             out + image * m * ldo, ldo, row, min(m, row + ROWS), 0, c.tiles)
        row += ROWS


cdef bint is_pointwise(const Geometry* g) noexcept nogil:
    """One tap, unstrided, nothing padded."""
    cdef int i
    for i in range(g.rank):
        if g.ker[i] != 1 or g.stride[i] != 1 or g.pad[i] != 0 or g.out[i] != g.inp[i]:
            return False
    return True


cdef int pointwise(const Geometry* g, bint transposed, const real* source, const real* w, const real* bias,
                   real* out) noexcept nogil:
    """One tap on the image as it lies is a matrix product per sample and group."""
    cdef Product p
    p.m, p.k, p.n = g.cg if transposed else g.og, g.og if transposed else g.cg, g.cells
    p.a_row, p.a_col = 1 if transposed else g.cg, g.cg if transposed else 1
    p.b_row, p.b_col = g.cells, 1
    p.rank, p.batch = 2, g.n * g.groups
    p.size[0], p.size[1] = g.n, g.groups
    p.a_step[0], p.a_step[1] = 0, g.og * g.cg
    p.b_step[0], p.b_step[1] = p.k * g.groups * g.cells, p.k * g.cells
    p.bias_step[0], p.bias_step[1] = 0, g.og
    return multiply(&p, w, source, bias, out)


cdef int contract(const Geometry* g, bint transposed, const real* source, const real* w, const real* bias,
                  real* out) noexcept nogil:
    """out[n, m] = bias[m] + sum over channels and taps of w * planes[n, channel, off(tap) + j], class by class."""
    cdef Planes p
    cdef Columns c
    cdef Taps t
    cdef int64_t residue[MAX_RANK]
    cdef real* planes = NULL
    cdef int threads = threads_of(g)
    cdef int64_t m = g.cg if transposed else g.og, channels = g.o if transposed else g.c
    cdef int64_t cells = g.outs if transposed else g.cells, ldo = g.cells if transposed else g.outs
    cdef int64_t lda = g.taps if transposed else g.cg * g.taps, a_group = g.og * g.cg * g.taps
    cdef int64_t width = lnn_vectors(m) * lanes(source), samples = g.n, at = 0, per_group, spare, i
    cdef bint private
    cdef double size = planes_of_output(&p, g, sizeof(real)) if transposed else planes_of_image(&p, g, sizeof(real))
    if size * channels > affordable(g):
        return UNSUITED
    if is_pointwise(g) and g.cg and g.og:
        return pointwise(g, transposed, source, w, bias, out)
    t.channels = per_group = channels // g.groups
    t.a_channel = g.cg * g.taps if transposed else g.taps
    t.b_channel = p.channel
    p.direct = p.direct and runs_fit(g, &p, transposed, m, width, t)
    t.a = <int64_t*>malloc(2 * table_length(g.taps) * sizeof(int64_t))
    if t.a == NULL:
        return NO_MEMORY
    t.b = t.a + table_length(g.taps)
    private = (not p.direct and per_group * p.channel * <int64_t>sizeof(real) <= PRIVATE
               and g.n * g.groups >= 2 * threads and (not transposed or one_class(g)))
    if not p.direct:
        samples = g.n if private else samples_at_once(g.n, channels * p.channel * sizeof(real), threads)
        spare = (threads * (per_group * p.channel + MAX_TILE) if private else samples * channels * p.channel + MAX_TILE)
        planes = <real*>malloc(spare * sizeof(real))
        if planes == NULL:
            free(t.a)
            return NO_MEMORY
        memset(planes + spare - MAX_TILE, 0, MAX_TILE * sizeof(real))
    if transposed and not covers(g):
        memset(out, 0, g.n * g.c * g.cells * sizeof(real))
    if private:
        memset(&residue[0], 0, sizeof(residue))
        if open_class(g, &p, &residue[0] if transposed else NULL, m, width, &c, &t):
            for i in prange(g.n * g.groups, schedule="dynamic", num_threads=threads):
                own_planes(&c, &t, &p, per_group, cells, g.groups, m, source, w, a_group, lda, bias, out, ldo, i,
                           planes + omp_get_thread_num() * (per_group * p.channel + MAX_TILE))
        at = g.n
    while at < g.n:
        samples = min(samples, g.n - at)
        if not p.direct:
            for i in prange(samples * channels, schedule="static", num_threads=threads):
                fill_channel(&p, source + (at * channels + i) * cells, planes + i * p.channel)
        memset(&residue[0], 0, sizeof(residue))
        while True:
            if open_class(g, &p, &residue[0] if transposed else NULL, m, width, &c, &t):
                run_class(&c, &t, samples, g.groups, m, w, a_group, lda, source if p.direct else <const real*>planes,
                          per_group * p.channel, bias, out + at * g.groups * m * ldo, ldo, threads)
            if not transposed or not next_residue(g, &residue[0]):
                break
        at += samples
    free(planes)
    free(t.a)
    return DONE


cdef int taps_conv(const Geometry* g, const real* x, const real* w, const real* b, real* y) noexcept nogil:
    """y[n, o] = b[o] + sum w[o, c, tap] planes[n, c, off(tap) + j]."""
    return contract(g, False, x, w, b, y)


cdef int taps_conv_input(const Geometry* g, const real* y_bar, const real* w, real* x_bar) noexcept nogil:
    """x_bar[n, c, s*q + r - pad] = sum over o and the taps of residue r of w[o, c, tap] y_bar[n, o, q - e(tap)]."""
    return contract(g, True, y_bar, w, <const real*>NULL, x_bar)
