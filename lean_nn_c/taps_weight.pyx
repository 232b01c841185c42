"""conv_weight on the planes of conv: rows are output channels, columns (channel, tap), the sum is over cells.

    w_bar[o, (c, tap)] = sum over samples n and output cells p of  y_bar[n, o, p] * planes[n, c, off(tap) + j(p)]

y_bar is packed into panels and the planes into strips, as in gemm.pyx: both run along the sum, so both are turned in
registers, the planes run by run of neighbouring cells. Panels pay where they meet many strips; with few, rows of y_bar are
read where they lie (1 x 1 of 64 channels to 64 or 256: 1.15 times as fast, and the same bits, so that it does not matter how
many strips a thread has). The sum runs in blocks of about CELLS cells: parts of a sample, or several small samples together.
Block sums are added in order. Each thread owns the part of w_bar it writes and walks all samples, so nothing is reduced
across threads and the bits do not depend on their number.

A small w_bar has too few parts for that, and each part would pack all of y_bar, or read planes that another core filled. There
the sum is cut: into pieces (a few small samples, or a band of a large one), and the pieces into shares, ranges of them, each
with a w_bar of its own; a thread fills planes for one piece at a time, for itself alone, and the shares are added in order.
Which pieces and shares there are depends on the geometry alone. On one core that is no slower; on two, 7 x 7 stride 2 from 3
channels to 64 takes 0.70 of the time, 4 x 4 x 4 stride 2 from 8 to 16 takes 0.67.

Where a group has four outputs or fewer (depthwise layers) a panel would be wasted: there each w_bar[o, c, tap] is a dot
product along the planes. With one tap, and few channels on either side, tiles of dot products along the image itself.

Error: |w^ - w| <= gamma_n sum |x||y_bar| with n = samples * output cells. Temporary space: padded planes of one sample
per thread (or SPARE bytes of smaller ones), and less than 0.5 MB per thread; SUMS bytes for shares.
"""

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from lean_nn_c._cells cimport CELLS, Runs, add_runs, pack_strip, tap_offsets
from lean_nn_c._columns cimport MAX_TILE
from lean_nn_c._geometry cimport Geometry
from lean_nn_c._openmp cimport omp_get_thread_num
from lean_nn_c._patches cimport patches_of_image, patches_pay
from lean_nn_c._planes cimport Cells, Planes, planes_of_image, reach
from lean_nn_c._pointwise cimport is_pointwise
from lean_nn_c._queue cimport Queue, draw, open_queue
from lean_nn_c._simd cimport LNN_FULL, LNN_ROWS, SPARE_LINE, aligned, lanes, whole_lines
from lean_nn_c._types cimport real
from lean_nn_c._winners cimport Sorted, list_places, list_rows, move_rows, some_blocks, some_outputs
from lean_nn_c._winners_plan cimport Winners, up
from lean_nn_c.gemm cimport (
    FEW, PANEL_BYTES, Ahead, Panels, Split, dot_products, pack_rows, panels_of, panels_size, row_offsets, rows_product,
    slim_product, split_work,
)
from lean_nn_c.step cimport give_scratch, probing, take_scratch
from lean_nn_c.taps cimport DONE, NO_MEMORY, UNSUITED, affordable, cells_of_planes, channel_planes
from lean_nn_c.threads cimport threads_for

cdef enum:
    PACKED = 14             # strips that packed rows of y_bar pay for; with fewer they are read where they lie
    SPARE = 524288          # bytes per thread that small planes of several samples may take together
    SMALL = 98304           # bytes of a w_bar whose sum is cut into shares, at most
    SHARES = 8              # (a power of two), as far as
    SUMS = 327680           # bytes are room for them
    DOTS_ROWS = 4           # outputs and
    DOTS_COLUMNS = 3        # channels of a tile of dot products,
    LONG = 64               # and cells that pay for it
    AT_ONCE = 2048          # values that a thread adds up
    BAND = 196608           # bytes of a piece's planes, about: they stay in the second-level cache


cdef int64_t samples_of(const Geometry* g) noexcept nogil:
    """Samples of a partial sum."""
    return max(CELLS // max(g.outs, 1), 1)


cdef void add_block(const Geometry* g, const Planes* p, const int64_t* taps, const real* planes, int64_t p_sample,
                    int64_t samples, int64_t p_cell, int64_t cells, const real* y_bar, real* w_bar, bint add, int64_t m0,
                    int64_t m1, int64_t first, int64_t stop, real* scratch) noexcept nogil:
    """One partial sum of rows m0..m1 and strips first..stop of a group's w_bar: `cells` cells from p_cell on, of which y_bar
    begins at the first, of some samples."""
    cdef int64_t width = LNN_FULL * lanes(planes), ldw = g.cg * g.taps, i, t, columns, count
    cdef int64_t aoff[CELLS]
    cdef int64_t boff[CELLS]
    cdef bint packed = stop - first >= PACKED
    cdef Panels rows = panels_of(m1 - m0)
    cdef real* strip = scratch + panels_size(m1 - m0, CELLS)
    cdef int vectors
    cdef Runs r
    cdef Ahead ahead
    ahead.rows = r.count = r.terms = 0
    for i in range(samples):
        add_runs(g, p, i * p_sample, p_cell, cells, &r)
    for i in range(samples):
        if packed:
            pack_rows(y_bar + (i * g.o + m0) * g.outs, g.outs, 1, m1 - m0, cells, r.terms, scratch + i * cells * LNN_ROWS)
        else:
            for t in range(cells):
                aoff[i * cells + t] = i * g.o * g.outs + t
    t = first
    while t < stop:
        count = min(CELLS // max(r.terms, <int64_t>1), stop - t) if packed else 1
        for i in range(count):
            columns = min(width, ldw - (t + i) * width)
            vectors = <int>((columns + lanes(planes) - 1) // lanes(planes))
            pack_strip(g, p, taps, &r, planes, (t + i) * width, columns, vectors, strip + i * r.terms * width)
        if packed:                  # of few terms several strips at once, as in _packed.pxd
            slim_product(m1 - m0, r.terms, <const real*>scratch, <const real*>strip, (count - 1) * width + columns,
                         <const real*>NULL, add, w_bar + m0 * ldw + t * width, ldw, &ahead)
        else:
            row_offsets(&boff[0], r.terms, vectors * lanes(planes))
            rows_product(&rows, r.terms, y_bar + m0 * g.outs, g.outs, &aoff[0], <const real*>strip, &boff[0],
                         <const real*>NULL, add, w_bar + m0 * ldw + t * width, ldw, columns)
        t += count


cdef void add_cells(const Geometry* g, const Planes* p, const int64_t* taps, const real* planes, int64_t p_sample,
                    int64_t samples, int64_t p_cell, int64_t cells, const real* y_bar, real* w_bar, bint add, int64_t m0,
                    int64_t m1, int64_t first, int64_t stop, real* scratch) noexcept nogil:
    """The same for any number of cells: block after block."""
    cdef int64_t parts = max((cells + CELLS - 1) // CELLS, 1), part, cell
    for part in range(parts):
        cell = cells * part // parts
        add_block(g, p, taps, planes, p_sample, samples, p_cell + cell, cells * (part + 1) // parts - cell, y_bar + cell,
                  w_bar, add or part > 0, m0, m1, first, stop, scratch)


# --- a small w_bar: shares of the sum ---


cdef struct Pieces:             # of the sum
    int64_t shares              # each a range of pieces; 1: no pieces, all threads walk all samples
    int64_t count               # pieces
    int64_t together            # samples of a piece, or
    int64_t bands, height       # parts of a sample, along its first axis
    Planes planes               # of a piece


cdef void cut_pieces(Pieces* c, const Geometry* g, const Planes* p, int itemsize) noexcept nogil:
    """Shares and pieces as the geometry alone says."""
    cdef Geometry part = g[0]
    cdef int64_t bytes = g.cg * p.channel * itemsize, result = g.o * g.cg * g.taps * itemsize, bands
    c.together, c.bands, c.height, c.planes = samples_of(g), 1, g.out[0], p[0]
    c.shares = SHARES if result <= SMALL and (c.together == 1 or c.together * bytes <= SPARE) else 1
    while c.shares * result > SUMS and c.shares > 1:
        c.shares //= 2
    if c.together == 1:             # bands fit the cache, suffice for all shares, and are not mostly overlap
        bands = max((bytes + BAND - 1) // BAND, (2 * c.shares + g.n - 1) // g.n)
        bands = min(min(bands, g.out[0] // (1 if p.direct else 2 * reach(g, 0) + 1)), g.outs // CELLS)
        c.height = (g.out[0] + max(bands, 1) - 1) // max(bands, 1)
        c.bands = (g.out[0] + c.height - 1) // c.height
    c.count = (g.n + c.together - 1) // c.together * c.bands
    while c.shares > c.count:
        c.shares //= 2
    part.out[0] = c.height
    if not p.direct and c.bands > 1:
        planes_of_image(&c.planes, &part, itemsize)


cdef void share_of(const Geometry* g, const Pieces* c, const int64_t* taps, const real* x, const real* y_bar, real* sums,
                   int64_t index, Split s, real* scratch, int64_t planes_size) noexcept nogil:
    """One share's pieces of one group, or of some rows and strips of it, on planes of the thread's own."""
    cdef int64_t part_t = index % s.t, part_m = index // s.t % s.m, group = index // (s.t * s.m) % g.groups
    cdef int64_t share = index // (s.t * s.m * g.groups), width = LNN_FULL * lanes(x), rest = g.outs // g.out[0]
    cdef int64_t strips = (g.cg * g.taps + width - 1) // width, begin = c.count * share // c.shares, piece, n, i, row, samples
    cdef Planes p = c.planes
    for piece in range(begin, c.count * (share + 1) // c.shares):
        n, row = piece // c.bands * c.together, piece % c.bands * c.height
        samples = min(c.together, g.n - n)
        p.shift[0] = c.planes.shift[0] - row * g.stride[0]
        for i in range(0 if p.direct else samples * g.cg):
            channel_planes(&p, x + ((n + i // g.cg) * g.c + group * g.cg + i % g.cg) * g.cells, scratch + i * p.channel)
        add_cells(g, &p, taps, x + (n * g.c + group * g.cg) * g.cells if p.direct else <const real*>scratch,
                  (g.c if p.direct else g.cg) * p.channel, samples, row * rest if p.direct else 0,
                  min(c.height, g.out[0] - row) * rest, y_bar + (n * g.o + group * g.og) * g.outs + row * rest,
                  sums + (share * g.o + group * g.og) * g.cg * g.taps, piece > begin, g.og * part_m // s.m,
                  g.og * (part_m + 1) // s.m, strips * part_t // s.t, strips * (part_t + 1) // s.t, scratch + planes_size)


cdef int by_shares(const Geometry* g, const Pieces* c, const real* x, const real* y_bar, real* w_bar,
                   int threads) noexcept nogil:
    cdef int64_t width = LNN_FULL * lanes(x), weights = g.o * g.cg * g.taps, size, planes_size = 0, units, i
    cdef Split s = split_work(g.groups, g.og, PANEL_BYTES // <int64_t>sizeof(real), 24, (g.cg * g.taps + width - 1) // width,
                              1 << 30, max(threads // <int>c.shares, 1))
    cdef int64_t* taps = tap_offsets(g, &c.planes)
    cdef real* memory
    cdef real* sums
    cdef Queue queue
    if not c.planes.direct:
        planes_size = whole_lines(c.together * g.cg * c.planes.channel + MAX_TILE)
    size = planes_size + whole_lines(panels_size((g.og + s.m - 1) // s.m, CELLS) + CELLS * width)
    memory = <real*>take_scratch((threads * size + SPARE_LINE + c.shares * weights) * sizeof(real))
    if memory == NULL or taps == NULL:
        give_scratch(memory)
        free(taps)
        return NO_MEMORY
    sums = aligned(memory) + threads * size
    units = c.shares * g.groups * s.m * s.t
    open_queue(&queue, units, threads)
    for i in prange(units, schedule="dynamic", num_threads=threads):
        share_of(g, c, taps, x, y_bar, sums, draw(&queue, omp_get_thread_num()), s,
                 aligned(memory) + omp_get_thread_num() * size, planes_size)
    for i in prange((weights + AT_ONCE - 1) // AT_ONCE, schedule="static", num_threads=threads):
        add_shares(<const real*>sums + i * AT_ONCE, c.shares, weights, min(<int64_t>AT_ONCE, weights - i * AT_ONCE),
                   w_bar + i * AT_ONCE)
    give_scratch(memory)
    free(taps)
    return DONE


cdef void add_shares(const real* sums, int64_t shares, int64_t weights, int64_t count, real* w_bar) noexcept nogil:
    """Some values of w_bar: the shares' in order."""
    cdef int64_t share, i
    memcpy(w_bar, sums, count * sizeof(real))
    for share in range(1, shares):
        for i in range(count):
            w_bar[i] += sums[share * weights + i]


# --- otherwise: each thread owns a part of w_bar ---


cdef void unit(const Geometry* g, const Planes* p, const int64_t* taps, const real* planes, const real* y_bar,
               int64_t samples, real* w_bar, bint add, int64_t index, Split s, real* scratch) noexcept nogil:
    """Some rows and strips of one group's w_bar: add all samples."""
    cdef int64_t part_t = index % s.t, part_m = index // s.t % s.m, group = index // (s.t * s.m)
    cdef int64_t width = LNN_FULL * lanes(planes), strips = (g.cg * g.taps + width - 1) // width
    cdef int64_t together = samples_of(g), n = 0
    while n < samples:
        add_cells(g, p, taps, planes + (n * g.c + group * g.cg) * p.channel, g.c * p.channel, min(together, samples - n), 0,
                  g.outs, y_bar + (n * g.o + group * g.og) * g.outs, w_bar + group * g.og * g.cg * g.taps, add or n > 0,
                  g.og * part_m // s.m, g.og * (part_m + 1) // s.m, strips * part_t // s.t, strips * (part_t + 1) // s.t,
                  scratch)
        n += together


# --- few output channels per group: dot products along the planes ---


cdef void channel(const Geometry* g, const Planes* p, const Planes* q, const int64_t* off, const real* x,
                  const real* y_bar, real* w_bar, int64_t c, real* scratch) noexcept nogil:
    """w_bar[o, c] for the outputs o of channel c's group: all samples in order, nine taps at a time."""
    cdef const real* row[9]
    cdef const real* image
    cdef const real* cotangent
    cdef int64_t n, i, o, tap, length = 1, group = c // g.cg
    cdef int rows, axis
    for axis in range(g.rank):
        length += (g.out[axis] - 1) * p.pitch[axis]
    for n in range(g.n):
        image = x + (n * g.c + c) * g.cells
        if not p.direct:
            channel_planes(p, image, scratch)
            image = scratch
        for i in range(g.og):
            o = group * g.og + i
            cotangent = y_bar + (n * g.o + o) * g.outs
            if not q.direct:
                channel_planes(q, cotangent, scratch + p.channel)
                cotangent = scratch + p.channel
            for tap in range(0, g.taps, 9):
                rows = <int>min(<int64_t>9, g.taps - tap)
                for axis in range(rows):
                    row[axis] = image + off[tap + axis]
                dot_products(rows, 1, length, row, &cotangent, n > 0, w_bar + (o * g.cg + c % g.cg) * g.taps + tap, 1, 0)


cdef int dots_conv_weight(const Geometry* g, const Planes* p, const real* x, const real* y_bar, real* w_bar,
                          int threads) noexcept nogil:
    """y_bar goes on planes of the image's pitch, zero between its rows; then every tap is one long dot product."""
    cdef Planes q = p[0]
    cdef int64_t i, scratch_size
    cdef int64_t* off
    cdef real* scratch
    cdef int axis
    cdef Queue queue
    q.direct, q.cells = True, NULL
    for axis in range(g.rank):
        q.size[axis] = g.out[axis]
        q.step[axis] = q.phases[axis] = q.dil[axis] = 1
        q.shift[axis] = 0
        if p.q[axis] != g.out[axis]:
            q.direct = False
    q.channel = q.plane
    scratch_size = p.channel + q.channel
    off = tap_offsets(g, p)
    scratch = <real*>take_scratch(threads * scratch_size * sizeof(real))
    if off == NULL or scratch == NULL:
        free(off)
        give_scratch(scratch)
        return NO_MEMORY
    open_queue(&queue, g.c, threads)
    for i in prange(g.c, schedule="dynamic", num_threads=threads):
        channel(g, p, &q, off, x, y_bar, w_bar, draw(&queue, omp_get_thread_num()),
                scratch + omp_get_thread_num() * scratch_size)
    free(off)
    give_scratch(scratch)
    return DONE


# --- one tap, few channels: dot products along the image ---


cdef int by_dots(const Geometry* g, const real* x, const real* y_bar, real* w_bar, int threads) noexcept nogil:
    """Strips would be mostly empty (3 channels to 64, 32 samples of 1024 cells: 2.5 times as fast)."""
    cdef int64_t down = (g.og + DOTS_ROWS - 1) // DOTS_ROWS, across = (g.cg + DOTS_COLUMNS - 1) // DOTS_COLUMNS, i
    if probing():                   # it takes none
        return NO_MEMORY
    for i in prange(g.groups * down * across, schedule="static", num_threads=threads):
        dot_tile(g, x, y_bar, w_bar, i // (down * across), i // across % down * DOTS_ROWS, i % across * DOTS_COLUMNS)
    return DONE


cdef void dot_tile(const Geometry* g, const real* x, const real* y_bar, real* w_bar, int64_t group, int64_t o,
                   int64_t c) noexcept nogil:
    """Outputs from o and channels from c on, of a group: all samples in order."""
    cdef const real* arow[DOTS_ROWS]
    cdef const real* brow[DOTS_COLUMNS]
    cdef int64_t n, i, outputs = min(g.og - o, <int64_t>DOTS_ROWS), channels = min(g.cg - c, <int64_t>DOTS_COLUMNS)
    for n in range(g.n):
        for i in range(outputs):
            arow[i] = y_bar + (n * g.o + group * g.og + o + i) * g.cells
        for i in range(channels):
            brow[i] = x + (n * g.c + group * g.cg + c + i) * g.cells
        dot_products(<int>outputs, <int>channels, g.cells, arow, brow, n > 0, w_bar + (group * g.og + o) * g.cg + c, g.cg, 1)


cdef int64_t samples_at_once(const Geometry* g, int64_t sample_bytes, int threads) noexcept nogil:
    """Samples whose planes are held together: whole partial sums, so that the bits do not depend on the threads."""
    cdef int64_t together = samples_of(g)
    cdef int64_t samples = max(<int64_t>threads, threads * <int64_t>SPARE // max(sample_bytes, 1))
    return max(min(g.n, max(samples // together, 1) * together), 1)


cdef int taps_conv_weight(const Geometry* g, const real* x, const real* y_bar, real* w_bar) noexcept nogil:
    cdef Planes p
    cdef Cells cells
    cdef Pieces pieces
    cdef int threads = threads_for(<Py_ssize_t>min(<double>g.n * g.o * g.outs * g.cg * g.taps / 8, 1e18))
    if planes_of_image(&p, g, sizeof(real)) * g.c > affordable(g):
        return UNSUITED
    if is_pointwise(g) and (2 * g.cg <= lanes(x) or g.og <= DOTS_ROWS) and g.cells >= LONG:
        return by_dots(g, x, y_bar, w_bar, threads)
    cells_of_planes(&p, &cells, g.n * g.c)
    if g.og < 5 or (g.og < FEW and g.cg == 1 and g.outs > 400):     # panels of five rows pay, but not with few columns
        return dots_conv_weight(g, &p, x, y_bar, w_bar, threads)
    if patches_pay(g, sizeof(real)):
        patches_of_image(&p, g)
    cut_pieces(&pieces, g, &p, sizeof(real))
    if pieces.shares > 1:
        return by_shares(g, &pieces, x, y_bar, w_bar, threads)
    return by_parts(g, &p, x, y_bar, w_bar, threads)


cdef int by_parts(const Geometry* g, const Planes* p, const real* x, const real* y_bar, real* w_bar,
                  int threads) noexcept nogil:
    """Planes of a few samples at a time, filled by all threads; then every part of w_bar."""
    cdef int64_t at = 0, samples = g.n, i, width = LNN_FULL * lanes(x), size
    cdef Split s = split_work(g.groups, g.og, PANEL_BYTES // <int64_t>sizeof(real), 24, (g.cg * g.taps + width - 1) // width,
                              1 << 30, threads)
    cdef int64_t* taps = tap_offsets(g, p)
    cdef real* planes = NULL
    cdef real* memory
    cdef Queue queue
    cdef int status = NO_MEMORY
    size = whole_lines(panels_size((g.og + s.m - 1) // s.m, CELLS) + CELLS * width)
    if not p.direct:
        samples = samples_at_once(g, g.c * p.channel * sizeof(real), threads)
        planes = <real*>take_scratch((samples * g.c * p.channel + MAX_TILE) * sizeof(real))
    memory = <real*>take_scratch((threads * size + SPARE_LINE) * sizeof(real))
    if memory != NULL and taps != NULL and (planes != NULL or p.direct):
        status = DONE
    while at < g.n and status == DONE:
        samples = min(samples, g.n - at)
        if not p.direct:
            for i in prange(samples * g.c, schedule="static", num_threads=threads):
                channel_planes(p, x + (at * g.c + i) * g.cells, planes + i * p.channel)
        open_queue(&queue, g.groups * s.m * s.t, threads)
        for i in prange(g.groups * s.m * s.t, schedule="dynamic", num_threads=threads):
            unit(g, p, taps, x + at * g.c * g.cells if p.direct else <const real*>planes, y_bar + at * g.o * g.outs, samples,
                 w_bar, at > 0, draw(&queue, omp_get_thread_num()), s, aligned(memory) + omp_get_thread_num() * size)
        at += samples
    give_scratch(planes)
    give_scratch(memory)
    free(taps)
    return status


# --- y_bar zero but at the winners of a pooling (_winners.pxd) ---


cdef int64_t winners_lanes() noexcept nogil:
    """Values in a vector of the level this is compiled for."""
    return lanes(<const float*>NULL)


cdef int winners_threads(const Geometry* g, int64_t windows, int64_t parts) noexcept nogil:
    cdef double work = <double>g.n * g.o * windows * g.cg * g.taps
    return <int>min(<int64_t>threads_for(<Py_ssize_t>min(work / 8, 1e18)), parts)


cdef int winners_conv_weight(const Winners* s, const Geometry* g, int64_t windows, const float* x, const float* y_bar,
                             const int64_t* idx, float* w_bar) noexcept nogil:
    cdef int threads = winners_threads(g, windows, g.o)
    cdef int64_t i, size
    cdef char* memory
    cdef int64_t* off
    cdef int32_t* place
    size = whole_lines(s.blocks * s.plane + up(g.o, threads) * s.rows * s.width)
    memory = <char*>take_scratch((threads * size + SPARE_LINE) * sizeof(float) + s.rows * sizeof(int64_t)
                                 + g.outs * sizeof(int32_t))
    if memory == NULL:
        return NO_MEMORY
    off = <int64_t*>(aligned(<float*>memory) + threads * size)
    place = <int32_t*>(off + s.rows)
    list_places(s, g, place)
    list_rows(s, g, off)
    for i in prange(threads, schedule="static", num_threads=threads):
        some_outputs(s, g, windows, place, off, x, y_bar, idx, w_bar, g.o * i // threads, g.o * (i + 1) // threads,
                     aligned(<float*>memory) + i * size)
    give_scratch(memory)
    return DONE


cdef void blocks_of_part(const Winners* s, const Geometry* g, int64_t windows, const int32_t* place, const int64_t* off,
                         const float* y_bar, const int64_t* idx, const float* rows, float* x_bar, int64_t part,
                         int64_t shares, float* memory) noexcept nogil:
    """The part-th of `shares` shares of the blocks of each sample and group."""
    cdef Sorted by
    cdef int64_t share = part % shares, group = part // shares % g.groups
    by.g = memory + s.blocks * s.plane
    by.at = <int32_t*>(by.g + s.outputs * windows)
    by.start = by.at + s.outputs * windows
    some_blocks(s, g, windows, place, off, y_bar, idx, rows + group * s.rows * g.og * s.width, x_bar,
                part // shares // g.groups, group, s.blocks * share // shares, s.blocks * (share + 1) // shares, &by, memory)


cdef int winners_conv_input(const Winners* s, const Geometry* g, int64_t windows, const float* y_bar, const int64_t* idx,
                            const float* w, float* x_bar) noexcept nogil:
    """Threads take samples and groups, or where these are few, blocks of them."""
    cdef int threads
    cdef int64_t i, size, shares = 1, weight
    cdef char* memory
    cdef int64_t* off
    cdef int32_t* place
    cdef float* rows
    cdef float* own
    cdef Queue queue
    threads = winners_threads(g, windows, g.n * g.groups * s.blocks)
    if g.n * g.groups < 2 * threads:
        shares = s.blocks
    size = whole_lines(s.blocks * s.plane + 2 * s.outputs * windows + g.outs + 2)
    weight = whole_lines(g.o * s.rows * s.width)
    memory = <char*>take_scratch((threads * size + weight + SPARE_LINE) * sizeof(float) + s.rows * sizeof(int64_t)
                                 + g.outs * sizeof(int32_t))
    if memory == NULL:
        return NO_MEMORY
    rows = aligned(<float*>memory)
    own = rows + weight
    off = <int64_t*>(own + threads * size)
    place = <int32_t*>(off + s.rows)
    list_places(s, g, place)
    list_rows(s, g, off)
    memset(rows, 0, weight * sizeof(float))
    for i in range(g.o):
        move_rows(s, g, rows + (i // g.og * s.rows * g.og + i % g.og) * s.width, g.og * s.width,
                  <float*>w + i * g.cg * g.taps, False)
    open_queue(&queue, g.n * g.groups * shares, threads)
    for i in prange(g.n * g.groups * shares, schedule="dynamic", num_threads=threads):
        blocks_of_part(s, g, windows, place, off, y_bar, idx, rows, x_bar, draw(&queue, omp_get_thread_num()), shares,
                       own + omp_get_thread_num() * size)
    give_scratch(memory)
    return DONE
