"""The steps of winograd.pyx: its matrices' places, the three transforms, the product, and what joins them."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from lean_nn_c._head cimport Head, head_numbers
from lean_nn_c._simd cimport lanes
from lean_nn_c._tail cimport tail_arrays
from lean_nn_c._types cimport real
from lean_nn_c._winograd cimport (
    LNN_WINO_PANEL, LNN_WINO_VECTORS, abreast, copy, end_lines, image, output, product, read, seconds, weight,
)
from lean_nn_c._winograd_plan cimport (
    MAX_BLOCKS, MAX_CELLS, MAX_LINES, MAX_PITCH, MAX_WIDTH, Plan, Points, Tiles, Zone, blocks_apart, cells_left, cut, filter_cells,
    patch_pitch, patch_size, place_tiles, tiles_of, zone_of,
)

cdef enum:
    BLOCK = 64              # channels of a partial sum
    PANELS = 4              # panels of rows worked on together: with a block of U they stay in the second-level cache
    LIMIT = 6291456         # values of U made at a time when there are many units; of what threads make for themselves
    PAD = 16                # values between the points' matrices, lest they all fall into the same cache sets


# --- sizes: U[panel][block][point][6 rows][depth], V[block][point][channel][width], T[point][rows][width] ---


cdef inline int64_t blocks_of(const Plan* p) noexcept nogil:
    return max((p.channels + BLOCK - 1) // BLOCK, 1)


cdef inline int64_t terms_of(const Plan* p, int64_t block) noexcept nogil:
    return min(<int64_t>BLOCK, p.channels - block * BLOCK)


cdef inline int64_t panels_of(const Plan* p) noexcept nogil:
    return (p.rows + LNN_WINO_PANEL - 1) // LNN_WINO_PANEL


cdef inline int64_t row_of(const Plan* p, int64_t panel) noexcept nogil:
    """The first row of a panel: rows are spread evenly, so no panel is nearly empty."""
    return p.rows * panel // max(panels_of(p), 1)


cdef inline int64_t depth_of(const Plan* p) noexcept nogil:
    return min(<int64_t>BLOCK, (p.channels + MAX_WIDTH // 2 - 1) // (MAX_WIDTH // 2) * (MAX_WIDTH // 2))


cdef inline int64_t u_step(const Plan* p) noexcept nogil:
    return LNN_WINO_PANEL * depth_of(p) + PAD


cdef inline int64_t u_size(const Plan* p) noexcept nogil:
    return p.points * u_step(p)


cdef inline int64_t panels_at_once(const Plan* p) noexcept nogil:
    return min(max(LIMIT // (blocks_of(p) * u_size(p)), PANELS), panels_of(p))


cdef inline int64_t deep_u(const Plan* p, bint packed) noexcept nogil:
    """Values of U that a thread makes: none where all of it was made beforehand."""
    return 0 if packed else PANELS * u_size(p)


cdef inline int64_t v_step(int64_t channels, int64_t row) noexcept nogil:
    """Between the points, if each has so many channels, `row` apart."""
    return channels * row + PAD


cdef inline int64_t v_block(const Plan* p, int64_t block, int64_t row) noexcept nogil:
    return block * p.points * v_step(BLOCK, row)


cdef inline int64_t v_size(const Plan* p) noexcept nogil:
    """Of one unit by itself: channels a unit's width apart."""
    return v_block(p, blocks_of(p) - 1, p.width) + p.points * v_step(terms_of(p, blocks_of(p) - 1), p.width)


cdef inline int64_t t_step(const Plan* p) noexcept nogil:
    return PANELS * LNN_WINO_PANEL * p.width + PAD


cdef inline int64_t t_size(const Plan* p) noexcept nogil:
    return p.points * t_step(p)


# --- the three transforms and the product ---


cdef inline void copy_lines(const real* source, int64_t line, int64_t step, int64_t lines, int64_t count, real* to,
                            int64_t pitch, int64_t to_step) noexcept nogil:
    """Short lines, from or to every step-th cell."""
    cdef int64_t i, k
    if step == 1 and to_step == 1:
        copy(source, line, to, pitch, lines, count)
        return
    for i in range(lines):
        if step == 2 and to_step == 1:
            seconds(source + i * line, count, to + i * pitch)
        else:
            for k in range(count):
                to[i * pitch + k * to_step] = source[i * line + k * step]


cdef inline void make_v(const Plan* p, int64_t unit, int64_t low, int64_t high, int64_t first, int64_t stop, int64_t per,
                        const real* x, real* v, int64_t row) noexcept nogil:
    """V of one unit: patches of the image with zeros around, transformed.

    Of channels low..high those virtual channels that are in first..stop. V has these in blocks of `per`, inside a block by
    points and then by channels, `row` apart.
    """
    cdef real patch[MAX_LINES * MAX_PITCH]
    cdef const real* at[MAX_WIDTH]
    cdef Tiles s
    cdef real number[3]
    cdef const real* headed = <const real*>&number[0] if p.head != NULL and not p.flip else <const real*>NULL
    cdef int64_t c, i, block, pitch
    cdef bint in_place
    for block in range(p.z.blocks * p.y.blocks * p.x.blocks):
        if not leads(p, block):
            continue
        cut(p, unit, block, &s)
        in_place = s.whole and headed == NULL
        pitch = p.x.in_size if in_place else patch_pitch(p)
        if not in_place:
            memset(&patch[0], 0, patch_size(p) * sizeof(real))      # what no channel of the block writes stays zero
        for i in range(p.width):
            at[i] = x + s.from_image[i] if in_place else <const real*>&patch[0] + s.cell[i]
        for c in range(low, high):
            if headed != NULL:
                head_numbers(p.head, c, 1, &number[0])
            if not in_place:
                bring_patches(p, &s, x + c * p.in_cells, headed, &patch[0], pitch)
            transform_patches(p, &s, block, c, first, stop, per, &at[0], c * p.in_cells if in_place else 0, pitch, v, row)


cdef inline bint leads(const Plan* p, int64_t block) noexcept nogil:
    """Whether a patch begins with this block."""
    cdef int64_t x = block % p.x.blocks, y = block // p.x.blocks % p.y.blocks
    return p.x.family[x] == x and p.y.family[y] == y


cdef inline void bring_patches(const Plan* p, const Tiles* s, const real* x, const real* headed, real* patch,
                               int64_t pitch) noexcept nogil:
    cdef int64_t i
    for i in range(s.runs if headed != NULL else 0):
        read(patch + s.run[i].place, pitch, x + s.run[i].source, p.x.in_size, s.run[i].rows, s.run[i].columns, headed)
    for i in range(s.runs if headed == NULL else 0):
        copy_lines(x + s.run[i].source, p.y.in_step * p.x.in_size, p.x.in_step, s.run[i].rows, s.run[i].columns,
                   patch + s.run[i].place, pitch, 1)


cdef inline void read_planes(const Head* head, int64_t planes, int64_t channels, int64_t cells, const real* x,
                             real* image) noexcept nogil:
    """An image that has a head, as an array."""
    cdef real number[3]
    cdef int64_t i
    for i in range(planes):
        head_numbers(head, i % channels, 1, &number[0])
        read(image + i * cells, 0, x + i * cells, 0, 1, cells, <const real*>&number[0])


cdef inline void transform_patches(const Plan* p, const Tiles* s, int64_t block, int64_t channel, int64_t first,
                                   int64_t stop, int64_t per, const real** at, int64_t from_first, int64_t pitch, real* v,
                                   int64_t row) noexcept nogil:
    """For all blocks that share the patch which begins with `block`; the channel's cells are `from_first` behind those at `at`."""
    cdef int64_t left = block % p.x.blocks, top = block // p.x.blocks % p.y.blocks, y = top, x, c, part, step
    cdef real* to
    while y < p.y.blocks and p.y.family[y] == top:
        x = left
        while x < p.x.blocks and p.x.family[x] == left:
            c = (block + (y - top) * p.x.blocks + x - left) * p.true_channels + channel - first
            if 0 <= c < stop - first:
                part = c // per if c >= per else 0
                to = v + part * p.points * v_step(per, row) + (c - part * per) * row
                step = v_step(min(per, stop - first - part * per), row)
                image(p.side, p.flat, s.vectors, at, from_first + p.y.offset[y] * pitch + p.x.offset[x], pitch, to, step)
            x += 1
        y += 1


cdef inline void make_u(const Plan* p, int64_t panel, int64_t block, const real* w, real* u) noexcept nogil:
    """U of one panel and block of channels."""
    cdef real filters[MAX_CELLS * BLOCK]
    cdef int64_t row, first = row_of(p, panel), ahead = p.w_row * (LNN_WINO_PANEL if p.flip else 1)
    for row in range(first, row_of(p, panel + 1)):
        if p.plain:
            weight(p.side, p.flat, p.flip, terms_of(p, block), w + row * p.w_row + block * BLOCK * p.w_channel, p.w_channel,
                   ahead, u + (row - first) * depth_of(p), u_step(p))
        else:
            gather_filters(p, row, block * BLOCK, terms_of(p, block), w, &filters[0])
            weight(p.side, p.flat, False, terms_of(p, block), <const real*>&filters[0], p.cells, 0, u + (row - first) * depth_of(p),
                   u_step(p))


cdef inline void gather_filters(const Plan* p, int64_t row, int64_t first, int64_t count, const real* w,
                                real* filters) noexcept nogil:
    """The filters of a virtual row and some virtual channels, with zeros where the kernel has no cell."""
    cdef int64_t cell[MAX_CELLS]
    cdef int64_t c, block = -1, phase = row // p.true_rows, k
    w += (row - phase * p.true_rows) * p.w_row
    for c in range(first, first + count):
        if block != c // p.true_channels:
            block = c // p.true_channels
            filter_cells(p, phase, block, &cell[0])
        for k in range(p.cells):
            filters[k] = w[(c - block * p.true_channels) * p.w_channel + cell[k]] if cell[k] >= 0 else 0
        filters += p.cells


cdef struct Piece:              # neighbouring virtual channels that need the same points
    int64_t low, stop
    Points y, x


cdef struct Pieces:
    int count
    Piece piece[MAX_BLOCKS * MAX_BLOCKS * MAX_BLOCKS]


cdef inline void list_pieces(const Plan* p, const Zone* zone, int64_t first, int64_t stop, Pieces* s) noexcept nogil:
    """Virtual channels first..stop, and the points at which they and the tiles of a zone are multiplied."""
    cdef int64_t c = first, block
    cdef Piece* piece
    s.count = 0
    while c < stop or s.count == 0:
        block = c // max(p.true_channels, 1)
        piece = &s.piece[s.count]
        piece.low, piece.stop, piece.y, piece.x = c - first, stop - first, zone.y.points, zone.x.points
        if blocks_apart(p):
            piece.stop = min((block + 1) * p.true_channels, stop) - first
            narrow(&piece.y, &p.y.points[block // p.x.blocks % p.y.blocks])
            narrow(&piece.x, &p.x.points[block % p.x.blocks])
        c = first + piece.stop
        s.count += 1


cdef inline void narrow(Points* points, const Points* others) noexcept nogil:
    points.low, points.high = max(points.low, others.low), min(points.high, others.high)


cdef inline int next_run(const Pieces* s, int k, int i, int j, int64_t* low, int64_t* stop) noexcept nogil:
    """From piece k on, the next channels that need point (i, j); none: low = stop. Returns the piece after them."""
    low[0] = stop[0] = 0
    while k < s.count:
        if s.piece[k].y.low <= i < s.piece[k].y.high and s.piece[k].x.low <= j < s.piece[k].x.high:
            if low[0] == stop[0]:
                low[0] = s.piece[k].low
            stop[0] = s.piece[k].stop
        elif low[0] < stop[0]:
            break
        k += 1
    return k


cdef inline void multiply(const Plan* p, int64_t unit, int64_t first, int64_t stop, int64_t block, const real* u,
                          int64_t u_panel, const real* v, int64_t v_row, real* t) noexcept nogil:
    """T of panels first..stop of one unit gets a block's share; channels of V are `v_row` apart."""
    cdef int64_t row[PANELS + 1]
    cdef Pieces pieces
    cdef int64_t n, some, low, high, u_next = u_step(p), v_next = v_step(terms_of(p, block), v_row), t_next = t_step(p)
    cdef int64_t depth = depth_of(p), panels = stop - first
    cdef const Zone* zone = zone_of(p, unit)
    cdef int vectors = <int>((tiles_of(p, zone, unit, 1) * LNN_WINO_VECTORS + p.width - 1) // p.width), i, j, k
    cdef bint add
    list_pieces(p, zone, block * BLOCK, block * BLOCK + terms_of(p, block), &pieces)
    for n in range(panels + 1):
        row[n] = row_of(p, first + n)
    v += v_block(p, block, v_row)
    for j in range(p.side):
        for i in range(p.lines):
            k, add = 0, block > 0
            while k < pieces.count:
                k = next_run(&pieces, k, i, j, &low, &high)
                if add and low == high:
                    break
                n = 0
                while n < panels:           # a sum of no terms is zero
                    some = 2 if abreast(vectors, &row[n], panels - n) else 1
                    product(<int>(row[n + some] - row[n]), vectors, high - low, u + n * u_panel + low, depth, u_panel,
                            v + low * v_row, v_row, add, t + (row[n] - row[0]) * p.width)
                    n += some
                add = True
            u, v, t = u + u_next, v + v_next, t + t_next


cdef struct Stretch:            # results that are neighbours along a line of the output
    int64_t lane                # of their first tile
    int64_t dest                # of its first cell, from Places.offset
    int64_t lines, columns


cdef struct Places:             # of the tiles in one vector, for the rows of one phase
    int64_t phase
    int64_t offset              # first cell of the phase's row 0, in the output of one sample and group
    int64_t dest[MAX_WIDTH]     # of a tile, from there, or in the vector's own lines
    int64_t pitch[MAX_WIDTH]
    bint joined                 # quarters of the vector's tiles lie side by side
    bint detour                 # all take it by way of lines of the vector's own, from which
    int stretches               # these are copied
    Stretch stretch[MAX_WIDTH]


cdef inline bint has_partners(const Plan* p) noexcept nogil:
    """Whether the tail reads other arrays, which an activation alone does not."""
    return p.tail != NULL and tail_arrays(p.tail) > 0


cdef inline int64_t own_cell(const Plan* p, int per_vector, int64_t lane, int64_t line) noexcept nogil:
    """Where a line of a tile is in the vector's own lines: tiles side by side, but thirteen cells of a single axis each apart."""
    return 16 * lane + 3 * line if p.line else p.m * (per_vector * line + lane)


cdef inline void place_phase(const Plan* p, const Tiles* s, int64_t phase, int k, int per_vector,
                             Places* at) noexcept nogil:
    """Where lanes k.. write. If tiles hang over the edge, or their cells are not neighbours, all take a detour."""
    cdef int64_t phase_x = phase % p.x.phases, phase_y = phase // p.x.phases % p.y.phases
    cdef int64_t phase_z = phase // (p.x.phases * p.y.phases), lines, columns
    cdef int lane
    cdef Stretch* last = NULL
    at.phase, at.detour, at.stretches = phase, p.x.out_step != 1, 0
    at.offset = phase_x + (phase_z * p.y.out_size + phase_y) * p.x.out_size
    for lane in range(per_vector):
        lines = (cells_left(&p.y, s.left_y[k + lane], phase_y) if cells_left(&p.z, s.left_z[k + lane], phase_z) else 0)
        columns = cells_left(&p.x, s.left_x[k + lane], phase_x)
        at.detour |= lines != p.y.m or columns != p.x.m
        at.dest[lane], at.pitch[lane] = s.dest[k + lane], 3 if p.line else p.y.out_step * p.x.out_size
        if lines == 0 or columns == 0:
            last = NULL
        elif (last != NULL and not p.line and last.columns == p.m * (lane - last.lane) and last.lines == lines
                and s.dest[k + lane] == last.dest + last.columns * p.x.out_step):
            last.columns += columns
        else:
            last = &at.stretch[at.stretches]
            last.lane, last.dest, last.lines, last.columns = lane, s.dest[k + lane], lines, columns
            at.stretches += 1
    for lane in range(per_vector if at.detour else 0):
        at.dest[lane], at.pitch[lane] = own_cell(p, per_vector, lane, 0), own_cell(p, per_vector, 0, 1)
    at.joined = p.m == 4 and per_vector >= 4        # tiles ascend, so the distance from the first to the last says it
    for lane in range(4 if at.joined else 0):
        at.joined &= at.dest[(lane + 1) * (per_vector // 4) - 1] - at.dest[lane * (per_vector // 4)] == per_vector - 4


cdef inline void copy_stretches(const Plan* p, const Tiles* s, const Places* at, int per_vector, const real* own, bint ends,
                                real* place) noexcept nogil:
    """From the vector's own lines to the output; `ends`: by the tail."""
    cdef int64_t pitch = own_cell(p, per_vector, 0, 1), line = p.y.out_step * p.x.out_size
    cdef int k
    cdef const Stretch* part
    cdef const real* here
    cdef real* there
    for k in range(at.stretches):
        part = &at.stretch[k]
        here, there = own + own_cell(p, per_vector, part.lane, s.lead_y) + s.lead_x, place + part.dest
        if ends:
            end_lines(p.tail, here, pitch, there, line, p.x.out_step, part.lines, part.columns, p.out_cells)
        else:
            copy_lines(here, pitch, 1, part.lines, part.columns, there, line, p.x.out_step)


cdef inline bint make_y(const Plan* p, int64_t unit, int64_t first, int64_t stop, const real* t, const real* b,
                        real* y) noexcept nogil:
    """The outputs of rows first..stop of one unit. Returns whether some sum is not finite."""
    cdef real own[8 * MAX_WIDTH]        # sixteen cells for every lane of a vector
    cdef real zero[MAX_WIDTH]
    cdef real* to[MAX_WIDTH]
    cdef Tiles s
    cdef Places places[LNN_WINO_VECTORS]
    cdef Places* at
    cdef real* place
    cdef int64_t row
    cdef int vector, lane, per_vector = lanes(t)
    cdef bint apart
    place_tiles(p, unit, &s)
    memset(&zero[0], 0, sizeof(zero))
    for vector in range(s.vectors):
        places[vector].phase = -1
    for row in range(first, stop):          # T of a row is in lines that its vectors share
        for vector in range(s.vectors):
            at = &places[vector]
            if at.phase < 0 or row >= (at.phase + 1) * p.true_rows:
                place_phase(p, &s, row // p.true_rows, vector * per_vector, per_vector, at)
            apart = at.detour and has_partners(p)
            place = y + at.offset + (row - at.phase * p.true_rows) * p.out_cells
            for lane in range(per_vector):
                to[lane] = (&own[0] if at.detour else place) + at.dest[lane]
            output(p.side, p.flat, at.joined, t + (row - first) * p.width + vector * per_vector, t_step(p),
                   b[row - at.phase * p.true_rows] if b != NULL else <real>0, &to[0], &at.pitch[0],
                   NULL if apart else p.tail, &zero[0])
            if at.detour:
                copy_stretches(p, &s, at, per_vector, <const real*>&own[0], apart, place)
    for lane in range(per_vector):
        if zero[lane] != 0:
            return True
    return False


cdef inline bint finish(const Plan* p, int64_t unit, int64_t units, int64_t first, int64_t stop, const real* w,
                        const real* packed, real* own_u, const real* v, int64_t v_unit, int64_t v_row, real* t,
                        const real* b, real* y) noexcept nogil:
    """Panels first..stop of some units, whose V is there, units and channels as far apart as said; their U is at `packed`,
    or made in `own_u`.

    Returns whether some output is not finite.
    """
    cdef bint spoilt = False
    cdef int64_t block, panel, i, u_panel = u_size(p) * (blocks_of(p) if packed != NULL else 1)
    cdef const real* u
    for block in range(blocks_of(p)):
        if packed != NULL:
            u = packed + block * u_size(p)
        else:
            u = own_u
            for panel in range(first, stop):
                make_u(p, panel, block, w, own_u + (panel - first) * u_panel)
        for i in range(units):
            multiply(p, unit + i, first, stop, block, u, u_panel, v + i * v_unit, v_row, t + i * t_size(p))
    for i in range(units):
        spoilt |= make_y(p, unit + i, row_of(p, first), row_of(p, stop), t + i * t_size(p), b, y)
    return spoilt
