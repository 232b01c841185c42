"""conv_weight by Winograd's algorithm: the steps of one block of tiles.

Leaving out g instead of q in  sum_i q_i y_i = sum_xi (A q)_xi (G g)_xi (B^T d)_xi  (winograd.pyx) gives the cotangent
of the filter, and with the sums over tiles t and samples inside the transform,

    w_bar[o, c] = G^T [ sum_t Q[o, t] * V[c, t] ] G,        Q = A q A^T,  V = B^T d B:

at each point xi a product dU_xi[c, o] = sum_t V_xi[c, t] Q_xi[t, o]. Rows are input channels, lanes output channels:
so V is made with lanes that are tiles, as everywhere, and Q with lanes that are output channels.

Threads share nothing but the arrays: what one core has just written is dear to another, which on a processor of several
chips may wait for it longer than for its own sums (measured: two threads as slow as one, for seconds on end, while V
and Q were made by all threads for all). With few channels ("narrow") all of dU stays near the core beside V and Q of a
few tiles. The tiles are cut into parts, at most PARTS; a thread takes a part, walks through it with its own V, Q and
dU, and turns dU into a w_bar of the part's own. These are added in order. Otherwise, and where there are tiles for one
part only, a thread takes a rectangle of w_bar, channels by strips a unit wide, and for one block of tiles after the
other makes the V and Q that it needs (which others make too), then dU of a few rows and a strip at a time, and turns
that into w_bar while it is in the cache; the next block's share is added there. Parts and blocks depend on the geometry
alone, and so do the bits.

Error, in the notation of winograd.pyx, with t tiles in all and sums over CHAIN of them at a time:

    |w^ - w| <= gamma_k G'^T [ sum_t (A' q' A'^T) * (B'^T d' B') ] G',      k = min(t, 32) + t/32 + 32,

in practice 1.3 to 4.4 times the classical kernel's in rms, most where samples are so small that its sums are short.

Temporary memory, in values, of one group with C and O channels: per thread S K (C' + O') for V and Q, where C' x O' is its
rectangle, with O rounded up to units, and K = 64 to 256 the tiles of a block (so many that S K (C + O) stays below half a
million values, but at least 64), and 24 S L for dU: at most 4.8 + 0.06 MB for 256 channels of floats, 9.6 + 0.06 for 512.
Narrow: NARROW bytes per thread (MUCH, where there are parts for FORCE threads), and the parts' own w_bar, PARTS times the
result.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from lean_nn_c._head cimport head_numbers
from lean_nn_c._simd cimport lanes
from lean_nn_c._types cimport real
from lean_nn_c._winograd cimport LNN_WINO_ABREAST, LNN_WINO_LEAST, LNN_WINO_PANEL, cotangent, filters, product, read
from lean_nn_c._winograd_plan cimport MAX_CELLS, MAX_WIDTH, Plan, Tiles, Zone, cells_left, filter_cells, place_tiles
from lean_nn_c._winograd_steps cimport PAD, PANELS, Pieces, copy_lines, list_pieces, next_run

cdef enum:
    FEWEST = 64             # tiles of a block, unless there are fewer; enough to make the way back cheap
    MOST = 256              # and at most
    SHARED = 524288         # values of V and Q of a block, if that leaves FEWEST tiles
    CHAIN = 32              # tiles of a partial sum
    PARTS = 16              # of the tiles, where channels are few
    ENOUGH = 128            # tiles of a part that make the way back cheap: fewer only for the sake of FORCE threads
    FORCE = 8
    NARROW = 2097152        # bytes of V and Q of CHAIN tiles and of dU, at most, where channels are few
    MUCH = 8388608
    ROWS = PANELS * LNN_WINO_PANEL      # rows of dU that one thread holds


cdef inline int64_t units_at_once(const Plan* p) noexcept nogil:
    """Units of a block."""
    cdef int64_t tiles = SHARED // max(p.points * (p.channels + p.rows), 1)
    tiles = max(min(tiles, <int64_t>MOST), <int64_t>FEWEST)
    return min((tiles + p.width - 1) // p.width, p.units)


cdef inline int64_t strips_of(const Plan* p) noexcept nogil:
    """Strips of output channels, a unit wide."""
    return (p.rows + p.width - 1) // p.width


cdef inline int vectors_of(const Plan* p, int64_t strip, int per_vector) noexcept nogil:
    """Vectors that hold the channels of a strip."""
    return <int>((min(p.width, p.rows - strip * p.width) + per_vector - 1) // per_vector)


# --- V[point][channel][tile], Q[strip][point][tile][width] ---


cdef inline int64_t q_step(const Plan* p) noexcept nogil:
    return units_at_once(p) * p.width * p.width + PAD


cdef inline void bring_tile(const Plan* p, const real* y_bar, int64_t lines, int64_t columns, int64_t lead,
                            const real* headed, real* tile) noexcept nogil:
    """A tile that hangs over the edge, or whose cells are not neighbours, with zeros where it has none."""
    cdef int64_t i, part, step = p.x.out_step
    memset(tile, 0, 16 * sizeof(real))
    tile += lead
    if p.line:          # 13 cells as three lines of three and one of four: each once
        for i in range(4):
            part = min(columns - 3 * i, <int64_t>3 if i < 3 else <int64_t>4)
            if part > 0:
                copy_lines(y_bar + 3 * i * step, 0, step, 1, part, tile + 4 * i, 0, 1)
        return
    if headed != NULL:
        read(tile, 4, y_bar, p.x.out_size, lines, columns, headed)
        return
    copy_lines(y_bar, p.y.out_step * p.x.out_size, step, lines, columns, tile, 4, 1)


cdef inline int64_t parts_of(const Plan* p, int itemsize) noexcept nogil:
    """Parts of the tiles, each with sums of its own; 0: there are too many channels for that.

    A power of two, so that two or four threads have equal shares.
    """
    cdef double wide = strips_of(p) * p.width, tiles = CHAIN + p.width
    cdef double size = p.points * (tiles * (p.channels + wide) + p.channels * wide) * itemsize
    cdef int64_t parts = PARTS
    while parts > max(p.units // LNN_WINO_LEAST, <int64_t>1):
        parts //= 2
    if size > (MUCH if parts >= FORCE else NARROW):
        return 0
    while parts > max(p.tiles // ENOUGH, <int64_t>FORCE):
        parts //= 2
    return parts


cdef inline void add_shares(int64_t parts, int64_t weights, const real* shares, int64_t own, real* w_bar) noexcept nogil:
    """The parts' own w_bar, `own` values apart, in order."""
    cdef int64_t i, k
    for k in range(weights):
        w_bar[k] = shares[k]
    for i in range(1, parts):
        for k in range(weights):
            w_bar[k] += shares[i * own + k]


cdef inline int64_t columns_of_threads(const Plan* p, int threads) noexcept nogil:
    """Into how many ranges of strips w_bar is cut, if `threads` rectangles shall be the least work to make V and Q for."""
    cdef int64_t best = 1, columns
    for columns in range(2, min(<int64_t>threads, strips_of(p)) + 1):
        if (threads % columns == 0
                and p.channels * columns + p.rows * (threads // columns) < p.channels * best + p.rows * (threads // best)):
            best = columns
    return best


cdef inline int neighbours(const Plan* p, const Tiles* s, int tile) noexcept nogil:
    """How many tiles from this one on are whole and side by side; 0: this one hangs over the edge, or its cells are not neighbours."""
    cdef int last = tile
    if p.line or p.x.out_step > 1:
        return 0
    while (last < s.count and cells_left(&p.y, s.left_y[last], 0) == p.y.m and cells_left(&p.x, s.left_x[last], 0) == p.m
           and s.dest[last] == s.dest[tile] + p.m * (last - tile)):
        last += 1
    return last - tile


cdef inline void make_q(const Plan* p, int64_t unit, int64_t strip, const real* y_bar, real* q,
                        int64_t step) noexcept nogil:
    """Q of one strip and unit: a vector of channels at a time, whose planes often fall into the same cache sets."""
    cdef real whole[8 * MAX_WIDTH]        # sixteen cells for every lane of a vector
    cdef const real* at[MAX_WIDTH]
    cdef real number[3 * MAX_WIDTH]       # of every lane's channel, if what is read has a head
    cdef real own[3]
    cdef Tiles s
    cdef int64_t row[MAX_WIDTH]
    cdef bint headed = p.head != NULL and p.flip
    cdef int tile, inside, lane, i, per_vector = lanes(y_bar), vectors = vectors_of(p, strip, per_vector)
    place_tiles(p, unit, &s)
    for i in range(vectors):
        for lane in range(per_vector):
            row[lane] = min(strip * p.width + i * per_vector + lane, p.rows - 1)        # lanes without one repeat the last
            if headed:
                head_numbers(p.head, row[lane], per_vector, &number[lane])
        tile = 0
        while tile < s.count:
            inside = neighbours(p, &s, tile)
            for lane in range(per_vector):
                at[lane] = y_bar + row[lane] * p.out_cells + s.dest[tile]
                if not inside:
                    own[0], own[1], own[2] = number[lane], number[per_vector + lane], number[2 * per_vector + lane]
                    bring_tile(p, at[lane], cells_left(&p.y, s.left_y[tile], 0), cells_left(&p.x, s.left_x[tile], 0),
                               4 * s.lead_y + s.lead_x, &own[0] if headed else <real*>NULL, &whole[16 * lane])
                    at[lane] = &whole[16 * lane]
            cotangent(p.side, p.flat, max(inside, 1), &at[0], p.y.out_step * p.x.out_size if inside else 4,
                      <const real*>&number[0] if headed and inside else <const real*>NULL, q + tile * p.width + i * per_vector, p.width,
                      step)
            tile += max(inside, 1)


cdef inline void sum_tiles(const Plan* p, const Zone* zone, int64_t first, int64_t stop, int vectors, int64_t tiles,
                           const real* v, int64_t pitch, int64_t v_next, const real* q, int64_t q_step, bint add, real* du,
                           int64_t du_step) noexcept nogil:
    """dU of channels first..stop and one strip: sums over `tiles` of one zone.

    Channels go `pitch` apart in V, points as the steps say.
    """
    cdef Pieces pieces
    cdef int64_t low, high
    cdef int i, j, k
    cdef bint partly
    list_pieces(p, zone, first, stop, &pieces)
    partly = not_all(p, &pieces)
    for j in range(p.side):
        for i in range(p.lines):
            if partly and not add:
                memset(du, 0, (stop - first) * p.width * sizeof(real))
            k = 0
            while k < pieces.count:
                k = next_run(&pieces, k, i, j, &low, &high)
                sum_run(p, high - low, vectors, tiles, v + low * pitch, pitch, q, add or partly, du + low * p.width)
            v, q, du = v + v_next, q + q_step, du + du_step


cdef inline bint not_all(const Plan* p, const Pieces* s) noexcept nogil:
    """Whether there may be points that some of the channels do not need."""
    return s.count > 1 or (s.piece[0].y.high - s.piece[0].y.low) * (s.piece[0].x.high - s.piece[0].x.low) < p.points


cdef inline void sum_run(const Plan* p, int64_t channels, int vectors, int64_t tiles, const real* v, int64_t pitch,
                         const real* q, bint add, real* du) noexcept nogil:
    """The sums of some channels at one point, CHAIN tiles after the other."""
    cdef int64_t tile = 0, low, panels, rows
    while tile < tiles:
        low = 0
        while low < channels:
            panels = (channels - low + LNN_WINO_PANEL - 1) // LNN_WINO_PANEL
            rows = (channels - low) // panels               # evenly, so no panel is nearly empty,
            if vectors < LNN_WINO_ABREAST and channels - low >= 2 * LNN_WINO_PANEL:
                rows = 2 * LNN_WINO_PANEL                   # or two at a time
            product(<int>rows, vectors, min(<int64_t>CHAIN, tiles - tile), v + low * pitch + tile, pitch, LNN_WINO_PANEL * pitch,
                    q + tile * p.width, p.width, add or tile > 0, du + low * p.width)
            low += rows
        tile += CHAIN


cdef inline bint make_w(const Plan* p, int64_t first, int64_t stop, int64_t strip, const real* du, int64_t du_step,
                        bint add, real* w_bar) noexcept nogil:
    """w_bar of channels first..stop and one strip from dU, or added to. Returns whether some value is not finite."""
    cdef real spare[MAX_CELLS * MAX_WIDTH]      # for lanes without a row, and for virtual channels
    cdef real zero[MAX_WIDTH]
    cdef real* to[MAX_WIDTH]
    cdef Cells cells
    cdef int64_t c, row, i
    cdef int lane, per_vector = lanes(du), vectors = vectors_of(p, strip, per_vector)
    cdef bint behind = p.plain and p.w_channel == p.cells       # the next channel's filter lies behind this one's
    memset(&zero[0], 0, sizeof(zero))
    memset(&spare[0], 0, sizeof(spare))
    cells.block = -1
    for c in range(first, stop):
        if not p.plain and cells.block != c // p.true_channels:
            list_cells(p, c // p.true_channels, &cells)
        for i in range(vectors):
            row = strip * p.width + i * per_vector
            for lane in range(per_vector):
                to[lane] = (w_bar + (row + lane) * p.w_row + c * p.w_channel if p.plain and row + lane < p.rows
                            else &spare[p.cells * lane])
            filters(p.side, p.flat, p.flip, behind and c + 1 < stop, du + (c - first) * p.width + i * per_vector, du_step,
                    add and p.plain, &to[0], &zero[0])
            if not p.plain:
                spread_filters(p, &cells, row, per_vector, <const real*>&spare[0], add,
                               w_bar + (c - cells.block * p.true_channels) * p.w_channel)
    for lane in range(per_vector):
        if zero[lane] != 0:
            return True
    return False


cdef struct Cells:                  # of a block's filters that are cells of the kernel
    int64_t block
    int count
    int number[MAX_CELLS]           # in the filter
    int64_t place[MAX_CELLS]        # in the kernel


cdef inline void list_cells(const Plan* p, int64_t block, Cells* cells) noexcept nogil:
    cdef int64_t cell[MAX_CELLS]
    cdef int k
    filter_cells(p, 0, block, &cell[0])
    cells.block, cells.count = block, 0
    for k in range(p.cells):
        if cell[k] >= 0:
            cells.number[cells.count], cells.place[cells.count] = k, cell[k]
            cells.count += 1


cdef inline void spread_filters(const Plan* p, const Cells* cells, int64_t first, int count, const real* filter, bint add,
                                real* w_bar) noexcept nogil:
    """The cells of a virtual channel's filters, to where the kernels have them."""
    cdef int64_t row
    cdef int k
    for row in range(first, min(first + count, p.rows)):
        if add:
            for k in range(cells.count):
                w_bar[row * p.w_row + cells.place[k]] += filter[cells.number[k]]
        else:
            for k in range(cells.count):
                w_bar[row * p.w_row + cells.place[k]] = filter[cells.number[k]]
        filter += p.cells
