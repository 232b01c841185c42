"""conv_weight by points: vectors of outputs, cells of the image one by one (as _points.pxd, which see).

    w_bar[o, c, tap] = sum over samples n and output cells p of  y_bar[n, o, p] * x[n, c, p*s + tap*d - pad]

The terms are output cells. y_bar is turned, a strip of outputs, a block of cells; the rows of a tile are six channels of the
image, read where they lie: for a term of a tap, a channel's place plus an offset. Of a tap only those cells are listed that
read a real cell: no zero is ever multiplied, and nothing of the image is copied.

A block is several small samples together, or a piece of a large one, at most CELLS cells; blocks are added in order, pieces one
after the other, and for each all samples: the bits depend on the geometry alone. A thread owns some outputs, channels and taps
of w_bar. Memory per thread: the lists, 16 bytes per tap and cell of a block (at most TAPS taps), the sums, at most ROOM bytes
(or those of six channels), and a turned block.
"""

from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stdint cimport int64_t

from lean_nn_c._columns cimport MAX_TILE
from lean_nn_c._geometry cimport MAX_RANK, Geometry, ceil_div, clip
from lean_nn_c._openmp cimport omp_get_thread_num
from lean_nn_c._points cimport CELLS, ROOM, in_panels, threads_of
from lean_nn_c._queue cimport Queue, draw, open_queue
from lean_nn_c._simd cimport LNN_ROWS, SPARE_LINE, aligned, whole_lines
from lean_nn_c._types cimport real
from lean_nn_c.gemm cimport Ahead, points_product
from lean_nn_c.step cimport give_scratch, take_scratch
from lean_nn_c.taps cimport DONE, NO_MEMORY, Level, level, pack_columns, turn_rows

cdef enum:
    LISTING = 5             # vectors of products that take as long as listing a cell for a tap,
    TURNING = 6             # and as turning a vector


cdef struct Sums:
    int64_t lanes, vectors      # outputs of a vector, vectors of a strip
    int64_t width, strips       # outputs of a strip, and strips of a group
    int64_t together, pieces    # samples of a block, or pieces of one
    int64_t block               # cells of a block, at most
    int64_t channels, outputs   # parts of the channels, parts of the strips,
    int64_t taps                # and of the taps
    int64_t abreast             # channels whose part of the image, a block, stays in the second-level cache for all taps


cdef inline int64_t units_of(const Sums* s, const Geometry* g) noexcept nogil:
    return g.groups * s.channels * s.outputs * s.taps


cdef inline void open_sums(Sums* s, const Geometry* g, int threads, int itemsize) noexcept nogil:
    cdef int64_t most, some
    cdef Level l = level()
    s.lanes, s.vectors = l.bytes // itemsize, l.vectors
    s.width = s.vectors * s.lanes
    s.strips = (g.og + s.width - 1) // s.width
    s.together, s.pieces = clip(CELLS // g.outs, 1, g.n), (g.outs + CELLS - 1) // CELLS
    s.block = s.together * ((g.outs + s.pieces - 1) // s.pieces)
    most = clip(ROOM // (g.taps * s.width * itemsize), LNN_ROWS, g.cg)      # channels of one strip
    some = clip(ROOM // (most * g.taps * s.width * itemsize), 1, s.strips)   # strips
    s.channels, s.outputs = (g.cg + most - 1) // most, (s.strips + some - 1) // some
    s.abreast = max(ROOM * s.pieces // (s.together * g.cells * itemsize) // LNN_ROWS, <int64_t>1) * LNN_ROWS
    s.taps = 1
    if threads > 1:
        share_sums(s, g, threads)


cdef inline void share_sums(Sums* s, const Geometry* g, int threads) noexcept nogil:
    """More parts, until all threads are busy to the end: but each lists the cells of its taps, and turns its outputs."""
    cdef Sums q = s[0], found = s[0]
    cdef int64_t taps, strips, parts
    cdef double cost, best = INFINITY
    for q.taps in range(1, min(g.taps, <int64_t>(2 * threads)) + 1):
        for q.outputs in range(s.outputs, min(q.strips, s.outputs + 2 * threads) + 1):
            for parts in range(3):
                q.channels = min(s.channels * max(parts * threads, 1), g.cg)
                taps, strips = ceil_div(g.taps, q.taps), ceil_div(q.strips, q.outputs)
                cost = <double>ceil_div(units_of(&q, g), threads) * (
                    taps * (strips * q.vectors * in_panels(ceil_div(g.cg, q.channels)) + LISTING) + strips * q.vectors * TURNING)
                if cost < best:
                    best, found = cost, q
    s[0] = found


cdef inline int64_t sums_size(const Sums* s, const Geometry* g) noexcept nogil:
    """Values of a thread's sums and of a turned block."""
    return whole_lines(((s.strips + s.outputs - 1) // s.outputs * ((g.cg + s.channels - 1) // s.channels) * g.taps + s.block) * s.width)


cdef inline int64_t lists_size(const Sums* s, const Geometry* g) noexcept nogil:
    return (2 * s.block + 1) * g.taps + g.cg


cdef inline int64_t list_tap(const Geometry* g, int64_t tap, int64_t first, int64_t stop, int64_t width, int64_t* a,
                             int64_t* b) noexcept nogil:
    """Of cells first..stop of a sample, those for which a tap is inside the image: where it reads, and their rows; returns how
    many they are."""
    cdef int64_t low[MAX_RANK]
    cdef int64_t high[MAX_RANK]
    cdef int64_t at[MAX_RANK]
    cdef int64_t shift[MAX_RANK]
    cdef int64_t rest = first, place = first, count = 0, base, size, j, end
    cdef int i, last = g.rank - 1
    cdef bint inside
    for i in range(last, -1, -1):
        shift[i] = tap % g.ker[i] * g.dil[i] - g.pad[i]
        tap //= g.ker[i]
        low[i] = clip(ceil_div(-shift[i], g.stride[i]), 0, g.out[i])
        high[i] = clip(ceil_div(g.inp[i] - shift[i], g.stride[i]), low[i], g.out[i])
        at[i] = rest % g.out[i]
        rest //= g.out[i]
    while place < stop:
        base, size, inside = 0, 1, True
        for i in range(last, -1, -1):
            base += ((at[i] if i < last else 0) * g.stride[i] + shift[i]) * size
            size *= g.inp[i]
            inside = inside and (i == last or low[i] <= at[i] < high[i])
        end = min(g.out[last], at[last] + stop - place)
        if inside:
            for j in range(max(at[last], low[last]), min(end, high[last])):
                a[count] = base + j * g.stride[last]
                b[count] = (place - first + j - at[last]) * width
                count += 1
        place += end - at[last]
        at[last] = 0
        for i in range(last - 1, -1, -1):
            at[i] += 1
            if at[i] < g.out[i]:
                break
            at[i] = 0
    return count


cdef inline void list_block(const Sums* s, const Geometry* g, int64_t tap0, int64_t tap1, int64_t first, int64_t stop,
                            int64_t* counts, int64_t* lists) noexcept nogil:
    """The terms of some taps in cells first..stop of as many samples as a block has, sample by sample."""
    cdef int64_t tap, sample, i, count
    cdef int64_t* a
    cdef int64_t* b
    for tap in range(tap0, tap1):
        a = lists + 2 * tap * s.block
        b = a + s.block
        count = counts[tap] = list_tap(g, tap, first, stop, s.width, a, b)
        for sample in range(1, s.together):
            for i in range(count):
                a[sample * count + i] = a[i] + sample * g.c * g.cells
                b[sample * count + i] = b[i] + sample * (stop - first) * s.width


cdef inline void turn_block(const Sums* s, const Geometry* g, const real* y_bar, int64_t outputs, int64_t samples, int64_t cells,
                            real* strip) noexcept nogil:
    """strip[(sample, cell)][output]; outputs that there are not repeat the last one."""
    cdef int64_t off[MAX_TILE]
    cdef int64_t run[CELLS]
    cdef int64_t length[CELLS]
    cdef int64_t i
    for i in range(s.width):
        off[i] = min(i, outputs - 1) * g.outs
    for i in range(samples):
        run[i], length[i] = i * g.o * g.outs, cells
    pack_columns(y_bar, &off[0], <int>s.vectors, &run[0], &length[0], samples, strip)


cdef inline void sums_unit(const Sums* s, const Geometry* g, const real* x, const real* y_bar, real* w_bar, int64_t index,
                           int64_t* lists, real* sums) noexcept nogil:
    """Some strips, channels and taps of one group's w_bar: all samples."""
    cdef int64_t part_t = index % s.taps, part_c = index // s.taps % s.channels, part_o = index // (s.taps * s.channels) % s.outputs
    cdef int64_t group = index // (s.taps * s.channels * s.outputs), tap0 = g.taps * part_t // s.taps
    cdef int64_t tap1 = g.taps * (part_t + 1) // s.taps, taps = tap1 - tap0
    cdef int64_t c0 = g.cg * part_c // s.channels, channels = g.cg * (part_c + 1) // s.channels - c0
    cdef int64_t strip0 = s.strips * part_o // s.outputs, strip1 = s.strips * (part_o + 1) // s.outputs
    cdef int64_t next_strip = channels * taps * s.width, piece, first, stop, strip, n, c, tap, i, outputs, samples
    cdef int64_t runs = 1 if s.taps == 1 else channels         # of neighbours in w_bar
    cdef int64_t* at = lists + 2 * s.block * g.taps
    cdef int64_t* counts = at + g.cg
    cdef Ahead ahead
    cdef real* turned = sums + (strip1 - strip0) * next_strip
    ahead.rows = 0
    x += (group * g.cg + c0) * g.cells
    for i in range(channels):
        at[i] = i * g.cells
    for piece in range(s.pieces):
        first, stop = g.outs * piece // s.pieces, g.outs * (piece + 1) // s.pieces
        list_block(s, g, tap0, tap1, first, stop, counts, lists)
        n = 0
        while n < g.n:
            samples = min(s.together, g.n - n)
            for strip in range(strip0, strip1):
                outputs = min(g.og - strip * s.width, s.width)
                turn_block(s, g, y_bar + (n * g.o + group * g.og + strip * s.width) * g.outs + first, outputs, samples,
                           stop - first, turned)
                c = 0
                while c < channels:
                    for tap in range(tap0, tap1):
                        points_product(<int>((outputs + s.lanes - 1) // s.lanes), counts[tap] * samples, x + n * g.c * g.cells,
                                       at + c, min(s.abreast, channels - c), lists + 2 * tap * s.block, <const real*>turned,
                                       lists + (2 * tap + 1) * s.block, piece + n > 0,
                                       sums + (strip - strip0) * next_strip + (c * taps + tap - tap0) * s.width, taps * s.width, &ahead)
                    c += s.abreast
            n += samples
    for strip in range(strip0, strip1):
        for i in range(runs):
            turn_rows(<const real*>sums + (strip - strip0) * next_strip + i * taps * s.width, s.width, channels // runs * taps,
                      min(g.og - strip * s.width, s.width),
                      w_bar + ((group * g.og + strip * s.width) * g.cg + c0 + i) * g.taps + tap0, g.cg * g.taps)


cdef inline int points_conv_weight(const Geometry* g, const real* x, const real* y_bar, real* w_bar) noexcept nogil:
    cdef Sums s
    cdef int threads = threads_of(g)
    cdef int64_t i, values, lists
    cdef char* memory
    cdef Queue queue
    open_sums(&s, g, threads, sizeof(real))
    values, lists = sums_size(&s, g), lists_size(&s, g)
    memory = <char*>take_scratch((threads * values + SPARE_LINE) * sizeof(real) + threads * lists * sizeof(int64_t))
    if memory == NULL:
        return NO_MEMORY
    open_queue(&queue, units_of(&s, g), threads)
    for i in prange(units_of(&s, g), schedule="dynamic", num_threads=threads):
        sums_unit(&s, g, x, y_bar, w_bar, draw(&queue, omp_get_thread_num()),
                  <int64_t*>(aligned(<real*>memory) + threads * values) + omp_get_thread_num() * lists,
                  aligned(<real*>memory) + omp_get_thread_num() * values)
    give_scratch(memory)
    return DONE
