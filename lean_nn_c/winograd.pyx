"""Winograd's convolution: 3 x 3 kernels, stride 1, with 2.25 or 4 times fewer multiplications, 5 x 5 with 4.9, lines of 3 or 5 taps
with 2 or 2.2; others as sums.

One dimension. Weights g_0, ..., g_{r-1} and n = m + r - 1 cells d give m outputs y_i = sum_k d_{i+k} g_k, by rm multiplications.
Take any q_0, ..., q_{m-1} as the coefficients of a polynomial, and g as those of another. Their product s = q g has the
n coefficients s_j = sum_{i+k=j} q_i g_k, so  sum_j d_j s_j = sum_i q_i y_i:  for fixed g, correlation (d to y)
is the transpose of multiplication (q to s). And a product of polynomials needs no more multiplications than it has
coefficients: evaluate both at n points, multiply, interpolate. One of the points may be infinity, where the value
of a polynomial is its leading coefficient. With M the product of (x - p_i) over the others, Lagrange's formula reads

    s(x) = sum_i q(p_i) g(p_i) / N_i * M_i(x) + q(oo) g(oo) M(x),      M_i = M / (x - p_i),  N_i = M_i(p_i).

Transposed, evaluation of q becomes the last step and interpolation the first:  y = A^T [(G g) * (B^T d)]  with

    A^T  column i    1, p_i, ..., p_i^{m-1}             (at oo: 0, ..., 0, 1)
    G    row i       (1, p_i, ..., p_i^{r-1}) / N_i     (at oo: 0, ..., 0, 1)
    B^T  row i       the coefficients of M_i            (at oo: of M).

Points. m = 2, r = 3: 0, +-1, oo. m = 4, r = 3: 0, +-5/8, +-3/2, oo. Rounding errors are magnified by the sizes of A, B and G, which
grow with the spread of the points' powers: p beside about 1/p keeps them balanced, and pairs +-p share their even and
odd parts, which makes a transform of six values twelve multiply-adds. A and B are exact in binary. On normal data the
rms error is about 2 times the classical kernel's, where the textbook's 0, +-1, +-2 has 4.6.

m = 4, r = 5: seven real points beside oo, 0, +-1/2, +-1, +-2, would have 8 to 12. But 0, +-5/8, +-3/2, +-i, oo have 1.1 to 1.8, since
no power of i grows. There the values of real polynomials are complex numbers, conjugate at i and -i: one complex product serves
both, and takes three real ones, of the real parts, of the imaginary parts, and of both sums. That is bilinear in q and g like any other
point, so A, G and B have nine rows instead of eight (winograd_points.h), and all that follows holds.

Two dimensions. The same along rows and columns: Y = A^T [(G g G^T) * (B^T d B)] A, i.e. S = 36 multiplications instead of 144 with m = 4,
16 instead of 36 with m = 2, 81 instead of 400 with r = 5; or along rows alone ("flat"), 6 instead of 12, 9 instead of 20. The sum over
channels commutes with A^T, so that each of the S points xi is a matrix product of its own,

    T_xi[row, tile] = sum_channel U_xi[row, channel] V_xi[channel, tile],       U = G g G^T,  V = B^T d B.

conv_input is the same with the filters turned by half a turn, rows and channels exchanged and r - 1 - pad cells of padding.
conv_weight is the transpose in g: _winograd_weight.pxd. Other kernels, strides, dilations and one or three axes become
sums over virtual channels, or virtual rows, of such filters: _winograd_plan.pxd. C and O below count these.

Error. With C channels summed and a prime for absolute values of all entries,

    |y^ - y| <= gamma_k A'^T [ sum_channel (G' g' G'^T) * (B'^T d' B') ] A',        k = min(C, 64) + C/20 + 32,

a bound by the whole tile, where the classical kernel's is by the terms of that output alone: if values inside a tile
differ by 1/u in size, the small outputs are lost. `set_precision("exact")` turns the algorithm off. An infinity or
NaN spreads over its tile, hence the status SPOILT, upon which conv.pyx takes another algorithm.

Order. Tiles are taken by units (two vectors of lanes), channels by blocks of 64, rows of U by panels of six. Blocks, and
the runs of channels in a block between which products are left out (_winograd_plan.pxd), are added in order, so the bits
depend on the geometry alone. With many units ("wide") all threads need U, and a thread takes a unit or two, whose V stays in
its cache. With few ("deep") all threads need V, and a thread takes panels and makes their U just before it is used: in the
cache, where it stays. What all need each makes for itself where that costs little (_winograd_cost.pxd), else they make it
together; that is dear to the other threads, so if U is the smaller of the two, fewer units are called many.

Temporary memory, in values, of one group with C channels and O rows; L is 16 floats or 8 doubles with AVX2, twice that with
AVX-512, where 4 stands for the 8:

    wide    S C O for U, but at most LIMIT (or four panels); per thread 2 S L (C + 24)
    deep    8 S L C for V, but at most LIMIT / 2 (or S L C); per thread S (24 min(C, 64) + 8 L 24)

each plus about 1 in 100 between the matrices: for 256 channels of floats at most 24 + 1.3 MB, and 4.7 + 0.7 MB. Threads that
make U or V for themselves have one each, of LIMIT together at most.
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.string cimport memset

from lean_nn_c._geometry cimport Geometry
from lean_nn_c._head cimport Head
from lean_nn_c._openmp cimport omp_get_thread_num
from lean_nn_c._queue cimport Queue, draw, open_queue
from lean_nn_c._simd cimport SPARE_LINE, aligned, lanes, whole_lines
from lean_nn_c._tail cimport lnn_tail
from lean_nn_c._types cimport real
from lean_nn_c._winograd cimport LNN_BYTES, LNN_WINO_UNITS, LNN_WINO_VECTORS
from lean_nn_c._winograd_both cimport both_gradients, serves_both
from lean_nn_c._winograd_cost cimport Costs, apart, common, costs, gain_of, weight_gain_of
from lean_nn_c._winograd_plan cimport Plan, Zone, set_plan, tiles_of, units_left, zone_of
from lean_nn_c._winograd_steps cimport (
    BLOCK, LIMIT, PAD, PANELS, blocks_of, deep_u, finish, make_u, make_v, panels_at_once, panels_of, read_planes, t_size,
    t_step, u_size, v_size, v_step,
)
from lean_nn_c._winograd_weight cimport (
    CHAIN, ROWS, add_shares, columns_of_threads, make_q, make_w, parts_of, q_step, strips_of, sum_tiles, units_at_once, vectors_of,
)
from lean_nn_c.step cimport give_scratch, take_scratch
from lean_nn_c.taps cimport DONE, NO_MEMORY, SPOILT
from lean_nn_c.threads cimport threads_for

cdef enum:
    CHUNK = 16              # channels whose V one thread makes at a time
    NEAR = 65536            # values of a U that stays in the cache: then a few units are many, each V being used at once


# --- one copy in the module of what is long and called in several places ---


cdef bint planned(Plan* p, const Geometry* g, bint transposed, int tile, int64_t width) noexcept nogil:
    return set_plan(p, g, transposed, tile, width)


cdef void image_tiles(const Plan* p, int64_t unit, int64_t low, int64_t high, int64_t first, int64_t stop, int64_t per,
                      const real* x, real* v, int64_t row) noexcept nogil:
    make_v(p, unit, low, high, first, stop, per, x, v, row)


cdef void filter_panel(const Plan* p, int64_t panel, int64_t block, const real* w, real* u) noexcept nogil:
    make_u(p, panel, block, w, u)


# --- conv and conv_input ---


cdef void pack(const Plan* p, int64_t first, int64_t stop, const real* w, real* u, int threads) noexcept nogil:
    """U of panels first..stop."""
    cdef int64_t i, blocks = blocks_of(p)
    for i in prange((stop - first) * blocks, schedule="dynamic", num_threads=threads):
        filter_panel(p, first + i // blocks, i % blocks, w, u + i * u_size(p))


cdef bint wide_units(const Plan* p, int64_t unit, int64_t units, int64_t first, int64_t stop, const real* x,
                     const real* u, const real* b, real* y, real* space) noexcept nogil:
    """Panels first..stop, whose U is at `u`, of some units; V and T are in `space`."""
    cdef int64_t i, panel = first
    cdef bint spoilt = False
    for i in range(units):
        image_tiles(p, unit + i, 0, p.true_channels, 0, p.channels, BLOCK, x, space + i * v_size(p), p.width)
    while panel < stop:
        spoilt |= finish(p, unit, units, panel, min(panel + PANELS, stop), <const real*>NULL,
                         u + (panel - first) * blocks_of(p) * u_size(p), <real*>NULL, <const real*>space,
                         v_size(p), p.width, space + units * v_size(p), b, y)
        panel += PANELS
    return spoilt


cdef int64_t share_of_zones(const Plan* p, int64_t item, int64_t together, int threads) noexcept nogil:
    """The item that stands in this place of the queue, so that every thread has its share of each zone: whole samples. A zone's results
    are cells here and there in lines of the cache, which would go from one core to the other."""
    cdef int64_t first, count, low, high, thread
    cdef int k
    for thread in range(threads if p.zones > 1 else 0):
        for k in range(p.zones):
            first = (p.zone[k].unit + together - 1) // together
            count = ((p.zone[k + 1].unit if k + 1 < p.zones else p.units) + together - 1) // together - first
            low, high = count * thread // threads, count * (thread + 1) // threads
            if item < high - low:
                return first + low + item
            item -= high - low
    return item


cdef bint wide_turn(const Plan* p, Queue* queue, int thread, int threads, int64_t together, int64_t first, int64_t stop, const real* x,
                    const real* w, real* own, const real* u, const real* b, real* y, real* space) noexcept nogil:
    """What one thread does: U of panels first..stop, if it is to be its own, and units."""
    cdef int64_t blocks = blocks_of(p), item = draw(queue, thread), i
    cdef bint spoilt = False
    for i in range((stop - first) * blocks if own != NULL and item >= 0 else 0):
        filter_panel(p, first + i // blocks, i % blocks, w, own + i * u_size(p))
    while item >= 0:
        item = share_of_zones(p, item, together, threads)
        spoilt |= wide_units(p, item * together, min(together, p.units - item * together), first, stop, x,
                             u if own == NULL else <const real*>own, b, y, space)
        item = draw(queue, thread)
    return spoilt


cdef int wide(const Plan* p, const real* x, const real* w, const real* packed, const real* b, real* y,
              int threads) noexcept nogil:
    """Threads take units."""
    cdef int64_t first = 0, stop, i, together = 2 if p.units >= 8 * threads else 1
    cdef int64_t panel_size = blocks_of(p) * u_size(p), made = 0 if packed != NULL else panels_at_once(p) * panel_size
    cdef Costs c = costs(p, False)
    cdef bint own = 0 < threads * made <= LIMIT and apart(c.filters, c.product * p.width * p.work, threads)
    cdef int64_t shared = 0 if own else made, alone = made - shared
    cdef int64_t per_thread = whole_lines(alone + together * (v_size(p) + t_size(p)))
    cdef real* memory = <real*>take_scratch((shared + threads * per_thread + SPARE_LINE) * sizeof(real))
    cdef real* u = aligned(memory)
    cdef real* space = u + shared
    cdef int64_t spoilt = 0
    cdef Queue queue
    if memory == NULL:
        return NO_MEMORY
    while first < panels_of(p):
        stop = min(first + panels_at_once(p), panels_of(p))
        if shared:
            pack(p, first, stop, w, u, threads)
        open_queue(&queue, (p.units + together - 1) // together, threads)
        for i in prange(threads, schedule="static", chunksize=1, num_threads=threads):
            spoilt += wide_turn(p, &queue, <int>i, threads, together, first, stop, x, w,
                                space + i * per_thread if own else NULL,
                                <const real*>u if packed == NULL else packed + first * panel_size, b, y,
                                space + i * per_thread + alone)
        first = stop
    give_scratch(memory)
    return SPOILT if spoilt else DONE


cdef bint deep_panels(const Plan* p, int64_t unit, int64_t units, int64_t first, int64_t stop, const real* w,
                      const real* packed, const real* v, const real* b, real* y, real* space) noexcept nogil:
    """Panels first..stop of some units, whose V is at `v`; U and T are in `space`."""
    cdef int64_t panel = first, panel_size = blocks_of(p) * u_size(p)
    cdef bint spoilt = False
    while panel < stop:
        spoilt |= finish(p, unit, units, panel, min(panel + PANELS, stop), w,
                         packed + panel * panel_size if packed != NULL else NULL, space, v, v_size(p), p.width,
                         space + deep_u(p, packed != NULL), b, y)
        panel += PANELS
    return spoilt


cdef bint deep_turn(const Plan* p, Queue* queue, int thread, int64_t unit, int64_t units, int64_t pieces, int64_t parts,
                    const real* x, real* own, const real* v, const real* w, const real* packed, const real* b, real* y,
                    real* space) noexcept nogil:
    """What one thread does: V of the units, if it is to be its own, and pieces of the panels for parts of the units."""
    cdef int64_t panels = panels_of(p), item = draw(queue, thread), i, low, high
    cdef bint spoilt = False
    for i in range(units if own != NULL and item >= 0 else 0):
        image_tiles(p, unit + i, 0, p.true_channels, 0, p.channels, BLOCK, x, own + i * v_size(p), p.width)
    while item >= 0:
        i, low, high = item // parts, item % parts * units // parts, (item % parts + 1) * units // parts
        spoilt |= deep_panels(p, unit + low, high - low, i * panels // pieces, (i + 1) * panels // pieces, w, packed,
                              (v if own == NULL else <const real*>own) + low * v_size(p), b, y, space)
        item = draw(queue, thread)
    return spoilt


cdef int deep(const Plan* p, const real* x, const real* w, const real* packed, const real* b, real* y,
              int threads) noexcept nogil:
    """Threads take panels."""
    cdef int64_t most = min(p.units, min(<int64_t>LNN_WINO_UNITS, max(LIMIT // 2 // v_size(p), <int64_t>1)))
    cdef int64_t chunks = (p.true_channels + CHUNK - 1) // CHUNK
    cdef int64_t panels = panels_of(p), made = most * v_size(p)
    cdef int64_t pieces = min((panels + PANELS * threads - 1) // (PANELS * threads) * threads, panels)
    cdef Costs c = costs(p, packed != NULL)
    cdef bint own = threads * made <= LIMIT and apart(c.image * p.width * p.points * p.units,
                                                      p.rows * (c.product * p.width * p.work + c.filters), threads)
    cdef int64_t shared = 0 if own else made, alone = made - shared
    cdef int64_t per_thread = whole_lines(alone + deep_u(p, packed != NULL) + most * t_size(p))
    cdef int64_t unit = 0, units, parts, i, spoilt = 0
    cdef real* memory = <real*>take_scratch((shared + threads * per_thread + SPARE_LINE) * sizeof(real))
    cdef real* v = aligned(memory)
    cdef real* space = v + shared
    cdef Queue queue
    if memory == NULL:
        return NO_MEMORY
    while unit < p.units:
        units = min(most, p.units - unit)
        for i in prange(0 if own else units * chunks, schedule="dynamic", num_threads=threads):
            image_tiles(p, unit + i // chunks, i % chunks * CHUNK, min(i % chunks * CHUNK + CHUNK, p.true_channels), 0,
                        p.channels, BLOCK, x, v + i // chunks * v_size(p), p.width)
        parts = min(units, (2 * threads + pieces - 1) // pieces) if threads > 1 else 1
        open_queue(&queue, pieces * parts, threads)
        for i in prange(threads, schedule="static", chunksize=1, num_threads=threads):
            spoilt += deep_turn(p, &queue, <int>i, unit, units, pieces, parts, x,
                                space + i * per_thread if own else NULL, <const real*>v, w, packed, b, y,
                                space + i * per_thread + alone)
        unit += units
    give_scratch(memory)
    return SPOILT if spoilt else DONE


# --- conv_weight: _winograd_weight.pxd has the steps ---


cdef bint way_back(const Plan* p, int64_t first, int64_t stop, int64_t strip, const real* du, int64_t du_step, bint add,
                   real* w_bar) noexcept nogil:
    return make_w(p, first, stop, strip, du, du_step, add, w_bar)


cdef bint weight_part(const Plan* p, int64_t first, int64_t stop, const real* x, const real* y_bar, real* w_bar,
                      real* space) noexcept nogil:
    """w_bar of units first..stop, where channels are few: V and Q of CHAIN tiles at a time, and all of dU, in `space`."""
    cdef int64_t at_once = max(CHAIN // p.width, <int64_t>1), pitch = at_once * p.width, strips = strips_of(p)
    cdef int64_t v_next = v_step(p.channels, pitch), q_step = pitch * p.width + PAD, du_step = p.channels * p.width + PAD
    cdef real* q = space + p.points * v_next
    cdef real* du = q + strips * p.points * q_step
    cdef int64_t unit = first, units, i, strip
    cdef const Zone* zone
    cdef bint spoilt = False
    while unit < stop:
        zone = zone_of(p, unit)
        units = min(min(at_once, stop - unit), units_left(p, zone, unit))
        for i in range(units):
            image_tiles(p, unit + i, 0, p.true_channels, 0, p.channels, p.channels, x, space + i * p.width, pitch)
            for strip in range(strips):
                make_q(p, unit + i, strip, y_bar, q + strip * p.points * q_step + i * p.width * p.width, q_step)
        for strip in range(strips):
            sum_tiles(p, zone, 0, p.channels, vectors_of(p, strip, lanes(x)), tiles_of(p, zone, unit, units),
                      <const real*>space, pitch, v_next, <const real*>q + strip * p.points * q_step, q_step, unit > first,
                      du + strip * p.points * du_step, du_step)
        unit += units
    for strip in range(strips):
        spoilt |= way_back(p, 0, p.channels, strip, <const real*>du + strip * p.points * du_step, du_step, False, w_bar)
    return spoilt


cdef int narrow_group(const Plan* p, int64_t parts, const real* x, const real* y_bar, real* w_bar, int64_t weights,
                      int threads) noexcept nogil:
    """Parts of the tiles, each by one thread; their shares are added in order."""
    cdef int64_t wide = max(CHAIN, p.width), strips = strips_of(p), i, spoilt = 0, own = whole_lines(weights)
    cdef int64_t size = p.points * (p.channels * wide + PAD + strips * (wide * p.width + p.channels * p.width + 2 * PAD))
    cdef real* memory = <real*>take_scratch((threads * size + parts * own + SPARE_LINE) * sizeof(real))
    cdef real* shares = aligned(memory) + threads * size
    if memory == NULL:
        return NO_MEMORY
    for i in prange(parts, schedule="dynamic", num_threads=threads):
        spoilt += weight_part(p, p.units * i // parts, p.units * (i + 1) // parts, x, y_bar, shares + i * own,
                              aligned(memory) + omp_get_thread_num() * size)
    add_shares(parts, weights, <const real*>shares, own, w_bar)
    give_scratch(memory)
    return SPOILT if spoilt else DONE


cdef bint weight_rectangle(const Plan* p, int64_t first, int64_t stop, int64_t strip, int64_t last, const real* x,
                           const real* y_bar, real* w_bar, real* space) noexcept nogil:
    """w_bar of channels first..stop and strips strip..last: V and Q of a block of tiles, and dU of a piece, in `space`."""
    cdef int64_t most = units_at_once(p), pitch = most * p.width, v_next = v_step(stop - first, pitch)
    cdef int64_t pieces = (stop - first + ROWS - 1) // ROWS, q_all = p.points * q_step(p)
    cdef int64_t unit = 0, units, i, k, low, high
    cdef const Zone* zone
    cdef real* q = space + p.points * v_next
    cdef real* du = q + (last - strip) * q_all
    cdef bint spoilt = False
    while unit < p.units:
        zone = zone_of(p, unit)
        units = min(most, units_left(p, zone, unit))
        for i in range(units):
            image_tiles(p, unit + i, 0, p.true_channels, first, stop, stop - first, x, space + i * p.width, pitch)
            for k in range(strip, last):
                make_q(p, unit + i, k, y_bar, q + (k - strip) * q_all + i * p.width * p.width, q_step(p))
        for i in range(pieces * (last - strip)):
            k, low, high = i // pieces, (stop - first) * (i % pieces) // pieces, (stop - first) * (i % pieces + 1) // pieces
            sum_tiles(p, zone, first + low, first + high, vectors_of(p, strip + k, lanes(x)), tiles_of(p, zone, unit, units),
                      <const real*>space + low * pitch, pitch, v_next, <const real*>q + k * q_all, q_step(p), False, du,
                      t_step(p))
            spoilt |= way_back(p, first + low, first + high, strip + k, <const real*>du, t_step(p), unit > 0, w_bar)
        unit += units
    return spoilt


cdef int weight_group(const Plan* p, const real* x, const real* y_bar, real* w_bar, int threads) noexcept nogil:
    """Rectangles of w_bar, one for every thread."""
    cdef int64_t columns = columns_of_threads(p, threads), lines = threads // columns, strips = strips_of(p), i, spoilt = 0
    cdef int64_t v_most = p.points * v_step((p.channels + lines - 1) // lines, units_at_once(p) * p.width)
    cdef int64_t q_most = (strips + columns - 1) // columns * p.points * q_step(p), size = whole_lines(v_most + q_most + t_size(p))
    cdef real* memory = <real*>take_scratch((threads * size + SPARE_LINE) * sizeof(real))
    if memory == NULL:
        return NO_MEMORY
    for i in prange(threads, schedule="static", chunksize=1, num_threads=threads):
        spoilt += weight_rectangle(p, p.channels * (i // columns) // lines, p.channels * (i // columns + 1) // lines,
                                   strips * (i % columns) // columns, strips * (i % columns + 1) // columns, x, y_bar,
                                   w_bar, aligned(memory) + i * size)
    give_scratch(memory)
    return SPOILT if spoilt else DONE


cdef int work_threads(const Plan* p) noexcept nogil:
    return threads_for(<Py_ssize_t>min(<double>p.tiles * p.points * p.channels * p.rows / 8, 1e18))


cdef int run(const Plan* p, int64_t taps, const real* x, const real* w, const real* packed, const real* b,
             real* y) noexcept nogil:
    """All groups, one after the other."""
    cdef int64_t group, u_group = panels_of(p) * blocks_of(p) * u_size(p)
    cdef int status = DONE, threads = work_threads(p)
    # Many units, or as many for every thread; unless V of all of them is less than U.
    cdef bint many = (p.units >= 4 * threads or threads > 1 and p.units % threads == 0) and (
        p.units > LNN_WINO_UNITS or u_group <= NEAR or threads > 1 and u_group < p.units * v_size(p))
    for group in range(p.groups):
        status = wide(p, x, w, packed, b, y, threads) if many else deep(p, x, w, packed, b, y, threads)
        if status != DONE:
            break
        x, y = x + p.true_channels * p.in_cells, y + p.true_rows * p.out_cells
        w = w + p.true_channels * p.true_rows * taps if w != NULL else w
        packed = packed + u_group if packed != NULL else packed
        b = b + p.true_rows if b != NULL else b
    return status


cdef int winograd_tile(const Geometry* g, bint transposed, bint of_weight, int itemsize) noexcept nogil:
    """Products of a tile: 16 or 36, whichever takes fewer, or 81, or 6 or 9 of a flat one, if that costs less; 0 where the algorithm does
    not apply.

    In conv_weight (`of_weight`) lanes are channels, and the way back from dU costs about as much as six tiles. Filters of lines that
    are not the only ones cost more than flat tiles save.
    """
    cdef Plan six, other
    cdef int64_t width = 1 if of_weight else LNN_BYTES // itemsize, back = 6 if of_weight else 0
    cdef int tile = 36 if planned(&six, g, transposed, 36, width) else 0, flat
    cdef double least = six.cost if tile else 0
    if planned(&other, g, transposed, 81, width) and (tile == 0 or other.cost < least):
        tile, least = 81, other.cost
    if tile == 36 and planned(&other, g, transposed, 16, width) and other.work + back * 16 <= six.work + back * 36:
        tile, least = 16, min(other.cost, least)
    for flat in range(6, 10, 3):
        if (tile == 0 or g.taps == g.ker[g.rank - 1]) and planned(&other, g, transposed, flat, width):
            if tile == 0 or other.cost < least:
                tile, least = flat, other.cost
    return tile


cdef double winograd_gain(const Geometry* g, bint transposed, int tile, int itemsize, double lead,
                          bint packed) noexcept nogil:
    """How many times as fast as taps it is, at least 1; 0 where it is not. `lead`: so many times as fast as taps are strips, if these are
    taken, else 0."""
    cdef Plan p
    if tile == 0 or g.taps < 3 or not planned(&p, g, transposed, tile, LNN_BYTES // itemsize):
        return 0
    return gain_of(&p, g, lead, packed)


cdef double winograd_weight_gain(const Geometry* g, int tile, int itemsize) noexcept nogil:
    """The same for conv_weight."""
    cdef Plan p
    if tile == 0 or g.taps < 3 or not planned(&p, g, False, tile, LNN_BYTES // itemsize):
        return 0
    return weight_gain_of(&p, g)


cdef int winograd_conv(const Geometry* g, bint transposed, int tile, const real* source, const real* w, const real* packed,
                       const real* b, const lnn_tail* tail, const Head* head, real* out) noexcept nogil:
    """conv, or conv_input (`transposed`), from the weight, or from what winograd_pack made of it."""
    cdef Plan p
    planned(&p, g, transposed, tile, LNN_WINO_VECTORS * lanes(source))
    p.tail, p.head = tail, head
    return run(&p, g.taps, source, w, packed, b, out)


cdef int winograd_conv_weight(const Geometry* g, int tile, const real* x, const real* y_bar, real* w_bar) noexcept nogil:
    """w_bar by the transposed algorithm, group by group."""
    cdef Plan p
    cdef int64_t group, weights = g.og * g.cg * g.taps, parts
    cdef int status = DONE, threads
    planned(&p, g, False, tile, LNN_WINO_VECTORS * lanes(x))
    parts, threads = parts_of(&p, sizeof(real)), work_threads(&p)
    for group in range(g.groups):
        if parts > 1:
            status = narrow_group(&p, parts, x + group * g.cg * g.cells, y_bar + group * g.og * g.outs,
                                  w_bar + group * weights, weights, threads)
        else:
            status = weight_group(&p, x + group * g.cg * g.cells, y_bar + group * g.og * g.outs,
                                  w_bar + group * weights, threads)
        if status != DONE:
            break
    return status


# --- both gradients at once: _winograd_both.pxd ---


cdef bint winograd_both(const Geometry* g, int tile, int itemsize) noexcept nogil:
    """Whether one call computes conv_input and conv_weight."""
    cdef Plan p
    return planned(&p, g, True, tile, LNN_WINO_VECTORS * LNN_BYTES // itemsize) and serves_both(&p, itemsize)


cdef int winograd_conv_both(const Geometry* g, int tile, const real* y_bar, const real* w, const real* x,
                            const lnn_tail* tail, const Head* head, real* x_bar, real* w_bar) noexcept nogil:
    cdef Plan p
    planned(&p, g, True, tile, LNN_WINO_VECTORS * lanes(x))
    p.tail, p.head = tail, head
    return both_gradients(&p, y_bar, w, x, x_bar, w_bar, work_threads(&p))


# --- heads: _head.pxd ---


cdef bint winograd_reads(const Geometry* g) noexcept nogil:
    """Whether the image may be one that is made as it is read."""
    return common(g) and g.groups == 1


cdef void winograd_read(const Geometry* g, const Head* head, const real* x, real* image) noexcept nogil:
    """The image as an array."""
    read_planes(head, g.n * g.c, g.c, g.cells, x, image)


# --- for callers that keep the transformed weight ---


cdef int64_t winograd_packed(const Geometry* g, bint transposed, int tile) noexcept nogil:
    """Values of the whole transformed weight."""
    cdef Plan p
    planned(&p, g, transposed, tile, 1)
    return p.groups * panels_of(&p) * blocks_of(&p) * u_size(&p)


cdef void winograd_pack(const Geometry* g, bint transposed, int tile, const real* w, real* packed) noexcept nogil:
    """U = G g G^T of all groups, as winograd_conv reads it."""
    cdef Plan p
    cdef int64_t group, step
    planned(&p, g, transposed, tile, 1)
    step = panels_of(&p) * blocks_of(&p) * u_size(&p)
    memset(packed, 0, p.groups * step * sizeof(real))       # the gaps between the matrices
    for group in range(p.groups):
        pack(&p, 0, panels_of(&p), w + group * p.true_channels * p.true_rows * g.taps, packed + group * step,
             threads_for(step))
