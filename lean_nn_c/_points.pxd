"""conv and conv_input by points: vectors of results, cells of the source one by one.

Here the register tile is turned round. Its vectors run along the results (output channels), so the weight is what is packed,
term after term; its six rows are six cells of the result, and the cell of the source that a row reads for a term is one
number, which may lie anywhere: for any rank, stride and dilation it is the place of the row plus an offset of the term. So
nothing of the source is copied, neither into planes nor into strips. And rows that meet the same padding (_bands.pxd, every
axis cut) have terms of their own: no zero is ever multiplied. A tile reads from as many lines as there are channels and rows of
the kernel, too many for the machine to guess: of a source that no cache keeps they are called in during the tile before.

A chunk is some samples, or some lines of one along the first axis, as far as ROOM suffices, or one line. For each block of channels
the weight is packed once, some strips of results; then class after class the terms are listed, and every strip meets the
rows of the class, six at a time. The sums lie in rows, one per cell, until all blocks are added; then they are turned and go
to the result along its lines, whatever class they are of.

What takes the time are tiles (gemm.pyx) and packing (taps.pyx) of the level that was chosen at import; the rest is compiled once.

Blocks are added in order and depend on the geometry alone, as do the terms of a class: so do the bits. Error: gamma_n, as by
taps. Memory per thread: less than 1 MB, with vectors of any width: the sums and a strip of the weight, at most ROOM bytes each, or the
sums of one strip of a line of LINE cells, and lists of 16 bytes per cell, 24 per term.
"""

from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from lean_nn_c._bands cimport Boxes, next_columns
from lean_nn_c._columns cimport MAX_TILE, Columns, cells_of
from lean_nn_c._geometry cimport MAX_RANK, Geometry, ceil_div, clip
from lean_nn_c._openmp cimport omp_get_thread_num
from lean_nn_c._packed cimport FAR
from lean_nn_c._phases cimport residues
from lean_nn_c._planes cimport Planes, reach
from lean_nn_c._queue cimport Queue, draw, open_queue
from lean_nn_c._simd cimport LNN_ROWS, LNN_WIDE, whole_lines
from lean_nn_c._tail cimport lnn_tail
from lean_nn_c._taps cimport Taps, fill_tables
from lean_nn_c._types cimport real
from lean_nn_c.gemm cimport Ahead, points_product
from lean_nn_c.step cimport give_scratch, take_scratch
from lean_nn_c.taps cimport DONE, NO_MEMORY, Level, end_row, level, pack_columns
from lean_nn_c.threads cimport threads_for

cdef enum:
    TERMS = 192             # of a block, at most: a strip of the weight leaves room in the first-level cache
    LEAST = 96              # cells that pay for packing the weight
    PACKING = 5             # cells whose products take as long as packing a strip of the weight,
    LISTING = 16            # and as listing terms
    LINE = 2048             # cells of one line, at most
    RESIDUES = 8            # of the stride that share a block, at most
    ROOM = 262144           # bytes of a chunk's sums
    NEAR = 16               # cells of a cache line, or two
    STRIPS = 8              # of results that are computed together, at most
    CELLS = 256             # conv_weight: cells of a block, likewise
    TAPS = 64               # and taps whose cells are listed


cdef struct Points:
    bint transposed
    Planes source               # as it lies: only its pitches count
    int64_t channels, rows      # that are summed over; results, of a group
    int64_t inner, cells        # cells of a channel of the source, and of the result
    int64_t lines, line         # cells of the first axis of the result, and how many there are in one
    int64_t together, blocks    # channels of a block
    int64_t lanes, vectors      # results of a vector, vectors of a strip
    int64_t width, strips       # results of a strip, and strips
    int64_t samples, height     # of a chunk: samples, or lines of one
    int64_t chunks, parts       # of all samples; of the strips


cdef inline void as_it_lies(Planes* p, const Geometry* g, bint transposed) noexcept nogil:
    """The source with its own pitches; neighbouring outputs of conv lie a stride apart (as in _patches.pxd)."""
    cdef int i
    cdef int64_t pitch = 1
    p.rank, p.direct, p.patches, p.cells = g.rank, True, not transposed, NULL
    for i in range(g.rank - 1, -1, -1):
        p.phases[i], p.q[i] = 1, 1
        p.pitch[i] = pitch * (1 if transposed else g.stride[i])
        pitch *= g.out[i] if transposed else g.inp[i]
    p.plane = p.channel = pitch


cdef inline void open_points(Points* p, const Geometry* g, bint transposed, int threads, int itemsize) noexcept nogil:
    cdef int64_t classes = min(residues(g), <int64_t>RESIDUES) if transposed else 1, some, most
    cdef Level l = level()
    p.transposed = transposed
    as_it_lies(&p.source, g, transposed)
    p.channels, p.rows, p.inner, p.cells, p.lines = g.cg, g.og, g.cells, g.outs, g.out[0]
    if transposed:
        p.channels, p.rows, p.inner, p.cells, p.lines = g.og, g.cg, g.outs, g.cells, g.inp[0]
    p.line = p.cells // p.lines
    p.blocks = max((p.channels * g.taps + TERMS * classes - 1) // (TERMS * classes), <int64_t>1)
    p.lanes, p.vectors = l.bytes // itemsize, l.vectors
    p.width = p.vectors * p.lanes
    p.together = clip(ROOM // (g.taps * p.width * itemsize), 1, (p.channels + p.blocks - 1) // p.blocks)
    p.blocks = (p.channels + p.together - 1) // p.together
    p.strips = (p.rows + p.width - 1) // p.width
    most = ROOM // (p.together * g.taps * p.width * itemsize)       # strips whose weight fits
    most = min(most, ROOM // (p.line * p.width * itemsize))         # and the sums of a line
    most = clip(p.strips, 1, clip(most, 1, STRIPS))
    some = ROOM // (most * p.width * itemsize)
    if p.strips > 1:                # a block of the source is read again
        some = min(some, ROOM * p.cells // (p.inner * p.together * itemsize))
    some = max(some, <int64_t>LEAST)
    p.parts = (p.strips + most - 1) // most
    cut_chunks(p, g, some)
    if threads > 1:
        share_out(p, g, some, threads)


cdef inline void cut_chunks(Points* p, const Geometry* g, int64_t some) noexcept nogil:
    """Chunks of `some` cells, about."""
    p.samples = clip(some // p.cells, 1, g.n)
    p.height = p.lines if p.samples > 1 else clip(some // p.line, 1, p.lines)
    p.chunks = (g.n + p.samples - 1) // p.samples * ((p.lines + p.height - 1) // p.height)


cdef inline void share_out(Points* p, const Geometry* g, int64_t some, int threads) noexcept nogil:
    """More chunks, or more parts of the strips, until all threads are busy to the end: but every chunk packs the weight, and every
    part lists the terms."""
    cdef Points q = p[0]
    cdef int64_t pieces, parts, units
    cdef double cost, best = INFINITY
    for pieces in range(3):
        cut_chunks(&q, g, clip(ceil_div(g.n * p.cells, max(pieces * threads, 1)), 1, some))
        for parts in range(q.parts, min(p.strips, q.parts + 4 * threads) + 1):
            units = g.groups * q.chunks * parts
            cost = <double>ceil_div(units, threads) * (ceil_div(p.strips, parts) * (q.samples * q.height * p.line + PACKING) + LISTING)
            if cost < best:
                best, p.samples, p.height, p.chunks, p.parts = cost, q.samples, q.height, q.chunks, parts


cdef inline int64_t strips_at_once(const Points* p) noexcept nogil:
    return (p.strips + p.parts - 1) // p.parts


cdef inline int64_t list_length(const Points* p) noexcept nogil:
    """Cells of a chunk, and some more that a last vector has."""
    return p.samples * p.height * p.line + LNN_WIDE * p.width


cdef inline int64_t points_scratch(const Points* p, const Geometry* g, int itemsize) noexcept nogil:
    """Bytes that a thread needs."""
    return whole_lines(((p.samples * p.height * p.line + p.together * g.taps) * strips_at_once(p) + LNN_WIDE) * p.width) * itemsize + (
        2 * list_length(p) + 3 * p.together * g.taps) * <int64_t>sizeof(int64_t)


cdef inline void pack_strips(const Points* p, const Geometry* g, const real* w, int64_t channels, int64_t first, int64_t stop,
                             real* out) noexcept nogil:
    """Of a block of channels, strips first..stop: out[strip][term][result]. Results that there are not repeat the last one."""
    cdef int64_t off[MAX_TILE]
    cdef int64_t run[TERMS]
    cdef int64_t length[TERMS]
    cdef int64_t row = g.taps if p.transposed else g.cg * g.taps, i, j, strip, live_rows, runs = 1
    run[0], length[0] = 0, channels * g.taps
    if p.transposed:                # terms of one channel are neighbours
        runs = channels
        for i in range(channels):
            run[i], length[i] = i * g.cg * g.taps, g.taps
    for strip in range(first, stop):
        live_rows = min(p.rows - strip * p.width, p.width)
        for j in range(p.width):
            off[j] = (strip * p.width + min(j, live_rows - 1)) * row
        pack_columns(w, &off[0], <int>p.vectors, &run[0], &length[0], runs, out)
        out += channels * g.taps * p.width


cdef inline void within(const Points* p, int64_t first, int64_t height, Columns* c) noexcept nogil:
    """Of the cells of a class, those on lines first .. first+height."""
    cdef int64_t top = c.dest // p.line, step = c.step[0] // p.line
    cdef int64_t low = clip(ceil_div(first - top, step), 0, c.count[0]), high = clip(ceil_div(first + height - top, step), low, c.count[0])
    c.base += low * c.pitch[0]
    c.dest += low * c.step[0] - first * p.line
    c.count[0] = high - low


cdef inline void list_points(const Points* p, const Columns* c, int64_t samples, int64_t next_source, int64_t next_result,
                             int64_t first, int64_t* at, int64_t* place) noexcept nogil:
    """Where the rows of a class, the ones from `first` on, read, and where the chunk's cells find their rows."""
    cdef int64_t i[MAX_RANK]
    cdef int64_t sample, cells = cells_of(c), j, k, base, dest
    cdef int axis, last = c.rank - 1
    for sample in range(samples):
        memset(&i[0], 0, sizeof(i))
        for k in range(cells // c.count[last]):
            base, dest = c.base + sample * next_source, c.dest + sample * next_result
            for axis in range(last):
                base += i[axis] * c.pitch[axis]
                dest += i[axis] * c.step[axis]
            for j in range(c.count[last]):
                at[first + j] = base + j * c.pitch[last]
                place[dest + j * c.step[last]] = (first + j) * p.width
            first += c.count[last]
            for axis in range(last - 1, -1, -1):
                i[axis] += 1
                if i[axis] < c.count[axis]:
                    break
                i[axis] = 0


cdef inline void shift_base(const Points* p, const Geometry* g, Columns* c) noexcept nogil:
    """From padded planes, as columns count, to the source as it lies."""
    cdef int i
    for i in range(g.rank):
        if p.transposed:
            c.base -= (reach(g, i) - g.pad[i] // g.stride[i]) * c.pitch[i]
        else:
            c.base -= g.pad[i] * (c.pitch[i] // g.stride[i])


cdef inline void write_strip(const Points* p, const real* sums, const int64_t* place, int64_t count, int64_t results,
                             int64_t cells, const real* bias, const lnn_tail* tail, real* out, int64_t next_sample) noexcept nogil:
    """The sums of one strip, `count` cells of which each sample has `cells`, to their lines."""
    cdef real part[MAX_TILE * 64]
    cdef int64_t width = LNN_WIDE * p.lanes, run = 0, i, j, k, first = 0, length, m, sample, cell
    cdef real* to
    while first < count:
        pack_columns(sums, place + first, LNN_WIDE, &run, &results, 1, &part[0])
        j = 0
        while j < min(width, count - first):
            sample, cell = (first + j) // cells, (first + j) % cells
            length = min(min(width, count - first) - j, cells - cell)
            for m in range(results):
                to = out + sample * next_sample + m * p.cells + cell
                if bias != NULL:
                    for k in range(length):
                        to[k] = part[m * width + j + k] + bias[m]
                else:
                    memcpy(to, &part[m * width + j], length * sizeof(real))
                if tail != NULL:
                    end_row(tail, to, length)
            j += length
        first += width


cdef inline int64_t list_lines(const Taps* t, int64_t* near) noexcept nogil:
    """Of terms that are near each other in the source the last one; returns how many there are."""
    cdef int64_t i, terms = t.together * t.count, lines = 0
    for i in range(terms):
        if i + 1 == terms or not -NEAR < t.b[i + 1] - t.b[i] < NEAR:
            near[lines] = t.b[i]
            lines += 1
    return lines


cdef inline void points_unit(const Points* p, const Geometry* g, const real* source, const real* w, const real* bias,
                             const lnn_tail* tail, real* out, int64_t index, char* scratch) noexcept nogil:
    """Some strips of results of one chunk of a group."""
    cdef int64_t part = index % p.parts, group = index // p.parts % g.groups, chunk = index // (p.parts * g.groups)
    cdef int64_t bands = (p.lines + p.height - 1) // p.height, n = chunk // bands * p.samples, top = chunk % bands * p.height
    cdef int64_t samples = min(p.samples, g.n - n), height = min(p.height, p.lines - top), cells = height * p.line
    cdef int64_t strip0 = p.strips * part // p.parts, strip1 = p.strips * (part + 1) // p.parts
    cdef int64_t block, channel, i, strip, first, count, next_sum = samples * cells * p.width, m
    cdef int64_t* at = <int64_t*>scratch
    cdef int64_t* place = at + list_length(p)
    cdef int64_t* near
    cdef real* sums
    cdef real* packed
    cdef Boxes b
    cdef Columns c
    cdef Taps t
    cdef Ahead ahead
    cdef bint far = g.n * g.groups * p.channels * p.inner * <int64_t>sizeof(real) > FAR
    t.a = place + list_length(p)
    t.b = t.a + p.together * g.taps
    near = t.b + p.together * g.taps
    ahead.off, ahead.step, ahead.length = near, sizeof(real), 1
    sums = <real*>(near + p.together * g.taps)
    packed = sums + strips_at_once(p) * next_sum
    t.a_channel, t.b_channel, t.patches = g.taps * p.width, p.inner, not p.transposed
    source += (n * g.groups + group) * p.channels * p.inner
    w += group * g.og * g.cg * g.taps
    for block in range(p.blocks):
        channel = block * p.together
        t.together = min(p.together, p.channels - channel)
        pack_strips(p, g, w + channel * (g.cg if p.transposed else 1) * g.taps, t.together, strip0, strip1, packed)
        memset(&b, 0, sizeof(b))
        first = 0
        while next_columns(g, &p.source, p.transposed, 0, &b, &c, &t):
            within(p, top, height, &c)
            count = cells_of(&c) * samples
            if count == 0:
                continue
            if block == 0:
                shift_base(p, g, &c)
                list_points(p, &c, samples, g.groups * p.channels * p.inner, cells, first, at, place)
            fill_tables(&t, g, &p.source, &b.residue[0] if p.transposed else NULL, &b.low[0], &b.high[0], p.width)
            ahead.rows = list_lines(&t, near) if far else 0
            for strip in range(strip1 - strip0):
                m = min(p.rows - (strip0 + strip) * p.width, p.width)
                points_product(<int>((m + p.lanes - 1) // p.lanes), t.together * t.count, source + channel * p.inner, at + first,
                               count, t.b, <const real*>packed + strip * t.together * g.taps * p.width, t.a, block > 0,
                               sums + strip * next_sum + first * p.width, p.width, &ahead)
                ahead.rows = 0          # further strips find them in the cache
            first += count
    for i in range(LNN_WIDE * p.lanes):        # cells that there are not
        place[first + i] = place[first - 1]
    for strip in range(strip0, strip1):
        m = group * p.rows + strip * p.width
        write_strip(p, <const real*>sums + (strip - strip0) * next_sum, place, first, min(p.rows - strip * p.width, p.width), cells,
                    bias + m if bias != NULL else NULL, tail,
                    out + (n * g.groups * p.rows + m) * p.cells + top * p.line, g.groups * p.rows * p.cells)


cdef inline double in_panels(int64_t rows) noexcept nogil:
    """Rows that take as long as so many do: six at a time, or four that are missing."""
    cdef int64_t count = ceil_div(rows, LNN_ROWS)
    return max(rows, 4 * count)


cdef inline int threads_of(const Geometry* g) noexcept nogil:
    """For n*o*outs*cg*taps multiply-adds, of which a core does eight at a time."""
    return threads_for(<Py_ssize_t>min(<double>g.n * g.o * g.outs * g.cg * g.taps / 8, 1e18))


cdef inline int points_conv(const Geometry* g, bint transposed, const real* source, const real* w, const real* bias,
                            const lnn_tail* tail, real* out) noexcept nogil:
    """conv, or conv_input (`transposed`)."""
    cdef Points p
    cdef int threads = threads_of(g)
    cdef int64_t i, size
    cdef char* memory
    cdef Queue queue
    open_points(&p, g, transposed, threads, sizeof(real))
    size = points_scratch(&p, g, sizeof(real))
    memory = <char*>take_scratch(threads * size)
    if memory == NULL:
        return NO_MEMORY
    open_queue(&queue, p.chunks * g.groups * p.parts, threads)
    for i in prange(p.chunks * g.groups * p.parts, schedule="dynamic", num_threads=threads):
        points_unit(&p, g, source, w, bias, tail, out, draw(&queue, omp_get_thread_num()), memory + omp_get_thread_num() * size)
    give_scratch(memory)
    return DONE
