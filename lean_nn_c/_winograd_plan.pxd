"""What Winograd's core computes, axis by axis, and where its tiles lie.

The core knows tiles of m x m outputs, filters of r x r cells, 3 or 5, and sums over channels. Many
more convolutions than those with 3 x 3 or 5 x 5 kernels are such sums, if channels and rows may be virtual. On one axis:

- A kernel of more than r cells is cut into blocks of r; (block, channel) is a virtual channel, whose
  source begins r cells later: 7 x 7 takes nine blocks of 3 x 3, 16 multiplications per output instead of 49. Cells that
  the last block lacks are zeros of the filter.
- Dilation d: outputs p = d*j + b read cells of the same residue. Each b < d is an image of its own.
- Stride s of conv: tap k = s*e + r reads cell s*(p + e) + r - pad. Each residue r < s is a virtual channel with taps e.
- Stride s of conv_input: outputs u = s*j + a gather from y_bar[j + q - e], where u + pad = s*(j + q) + r, k = s*e + r.
  Each a < s is a virtual row of outputs, one in s cells; all of them read the same tiles of y_bar.
- An axis before the last two has blocks of one cell and tiles of one output: no points, only virtual channels.
- Where the others have one tap, the last may be the only axis with points ("flat"): 3 taps take 1.5 multiplications per output,
  5 take 2.25. (Taps of the others would be virtual channels; so they are where stride and dilation leave no other way.)
- If there is one axis alone, nine taps k = 3*k1 + k0 are a 3 x 3 filter: tile cell (i1, i0) is cell 3*i1 + i0 of the
  line, which gives 13 outputs 3*j1 + j0 from 36 multiplications: 2.8 per output instead of 9.

So the axis has `blocks` of `len` taps, a table of which tap of the kernel stands where (for each virtual row), and
source cell  in_step*(j + i) + sub + shift[block],  result cell  out_step*j + sub + phase.

Not every product is needed. At the point 0 a filter's value is its first cell, at oo its last: where a block lacks the
cell, the products there are zero and left out. (A block that lacks two has the others in the middle and leaves out both.) And the
outputs y_1 and y_2 of a tile do not depend on 0 and oo, nor y_0 to y_2 on oo: see A^T. So where a line ends with one or two
outputs of a tile, the tile begins one cell earlier, where these are y_1 and y_2, and four points do, or five for three. Such
tiles are units of their own: the image has up to four zones (inner tiles, those at the right, at the bottom, the corner), if
that takes less than a single one, which fills its units better. 14 x 14 outputs with 3 x 3 kernels take 0.84 of the
products.
"""

from libc.stdint cimport int64_t

from lean_nn_c._geometry cimport Geometry, ceil_div, clip
from lean_nn_c._head cimport Head
from lean_nn_c._tail cimport lnn_tail
from lean_nn_c._winograd cimport LNN_WINO_VECTORS

cdef enum:
    ENOUGH_CHANNELS = 16        # of a block, to leave out products that it alone does not need
    MAX_WIDTH = 32              # tiles of a unit, at most (64-byte vectors of floats)
    MAX_REACH = 6               # cells by which a patch is longer, so that the next blocks find theirs in it
    MAX_PITCH = (8 + MAX_REACH) * 32 + 8    # cells of a row of patches
    MAX_LINES = 8 + MAX_REACH
    MAX_CELLS = 25              # of a filter
    MAX_BLOCKS = 6              # of one axis
    MAX_PHASES = 3
    MAX_TAPS = 54               # MAX_BLOCKS blocks of nine


cdef struct Points:             # of one axis that are needed, low <= i < high
    int low, high


cdef struct Span:               # tiles of one axis that need the same points
    int64_t tiles, start        # of one image; the first one's first output
    int64_t lead                # outputs of a tile before the first that is wanted
    Points points


cdef struct Axis:
    int64_t in_size, out_size
    int64_t m, len              # outputs of a tile; taps of a block
    int64_t tiles               # of one image
    int64_t in_step, out_step, subs, phases, blocks
    int64_t shift[MAX_BLOCKS]
    int64_t family[MAX_BLOCKS]  # the first of the blocks that read the same patch
    int64_t offset[MAX_BLOCKS]  # from its first cell
    int64_t reach               # the largest of them
    Points points[MAX_BLOCKS]
    int tap[MAX_PHASES][MAX_TAPS]       # cell of the kernel, or -1; a block's after the other's


cdef struct Zone:
    int64_t unit, tiles         # its first unit; all its tiles
    Span y, x


cdef struct Plan:
    int side                    # products of an axis: 4, 6 or 9, by which the transforms are chosen
    bint flat                   # only the last axis has points
    int lines                   # products of the axis before it: side, or 1
    int m, len                  # outputs of a tile and taps of a filter per axis: 2 and 3, 4 and 3, 4 and 5
    int points                  # of a tile
    int cells                   # of a filter
    bint flip                   # a plain filter is read turned by half a turn
    bint plain                  # filters are as they lie in memory
    bint line                   # one axis alone, whose blocks are 3 x 3 filters
    Axis z, y, x
    int64_t n, groups
    int64_t true_channels, true_rows    # of one group
    int64_t channels, rows      # virtual: (block, channel), summed over; (phase, row), produced
    int64_t in_cells, out_cells # of one channel
    Zone zone[4]
    int zones
    int64_t tiles, units
    int64_t width               # tiles of a unit
    double work                 # products of a virtual channel and row, in units
    double cost                 # of everything, in products
    int64_t w_row, w_channel, w_y, w_z  # steps of the weight
    const lnn_tail* tail        # what follows every output's sum, or NULL
    const Head* head            # what the image is made by as it is read, or NULL


cdef struct Run:                # neighbouring tiles, which read one patch
    int64_t source, place       # first cell: in the image (of channel 0), in the row of patches
    int64_t rows, columns       # cells that exist


cdef struct Tiles:              # of one unit
    int count, vectors, runs
    Run run[MAX_WIDTH]
    int64_t cell[MAX_WIDTH]     # a tile's place in the row of patches
    bint whole                  # no tile reads padding, so that they may be read where they lie,
    int64_t from_image[MAX_WIDTH]       # in the image (of channel 0)
    int64_t lead_y, lead_x      # lines and columns of a tile before the first that is wanted
    int64_t dest[MAX_WIDTH]     # of that, in the output (of row 0)
    int64_t left_z[MAX_WIDTH]   # cells from there to the edge
    int64_t left_y[MAX_WIDTH]
    int64_t left_x[MAX_WIDTH]


# --- one axis ---


cdef inline int64_t first_tap(const Axis* a, int64_t block, int64_t taps) noexcept nogil:
    """Where a block begins, if its axis has so many taps: the last ones stand in its middle, if they leave both ends free."""
    return a.len * block - (1 if in_tiles(a) and taps - a.len * block <= a.len - 2 else 0)


cdef inline bint in_tiles(const Axis* a) noexcept nogil:
    """Whether the axis has points of its own; others have one output, or (a single axis) share them."""
    return a.len == 3 or a.len == 5


cdef inline bint forward_axis(Axis* a, const Geometry* g, int i) noexcept nogil:
    """Of conv and conv_weight. Returns whether the tables hold it."""
    cdef int64_t ker = g.ker[i], s = g.stride[i], d = g.dil[i], r, block, taps, first
    cdef int64_t residues = s if a.len > 1 else 1, gap = s if residues > 1 else d
    cdef int k
    if residues > 1 and d > 1:
        return False
    a.in_size, a.out_size, a.phases, a.blocks = g.inp[i], g.out[i], 1, 0
    a.out_step = a.subs = d if a.len > 1 and s == 1 else 1
    a.in_step = d if a.len > 1 and s == 1 else s
    for r in range(min(residues, ker)):
        taps = ceil_div(ker - r, residues)
        for block in range(ceil_div(taps, a.len)):
            if a.blocks == MAX_BLOCKS:
                return False
            first = first_tap(a, block, taps)
            a.shift[a.blocks] = gap * first + r - g.pad[i]
            for k in range(a.len):
                a.tap[0][a.blocks * a.len + k] = cell_of(residues * (first + k) + r, ker) if first + k >= a.len * block else -1
            a.blocks += 1
    return True


cdef inline int cell_of(int64_t k, int64_t ker) noexcept nogil:
    return <int>k if 0 <= k < ker else -1


cdef inline bint transposed_axis(Axis* a, const Geometry* g, int i) noexcept nogil:
    """Of conv_input; with stride 1 a turned kernel, whose first cell reads y_bar[u + pad - d*(ker - 1)]."""
    cdef int64_t ker = g.ker[i], s = g.stride[i], d = g.dil[i], low = 0, taps = ker, k, phase, first, at, last
    if s > 1 and d > 1 or s > MAX_PHASES:
        return False
    a.in_size, a.out_size, a.phases = g.out[i], g.inp[i], s
    a.in_step = a.out_step = a.subs = d if a.len > 1 else 1
    if s > 1:
        a.out_step = s
        low = g.pad[i] // s
        for phase in range(s):
            low = min(low, (phase + g.pad[i]) // s - ceil_div(ker - (phase + g.pad[i]) % s, s) + 1)
        taps = (s - 1 + g.pad[i]) // s - low + 1
    a.blocks = ceil_div(taps, a.len)
    if a.blocks > MAX_BLOCKS:
        return False
    for k in range(a.blocks * a.len):
        first = first_tap(a, k // a.len, taps)
        a.shift[k // a.len] = (low if s > 1 else g.pad[i] - d * (ker - 1)) + d * first
        at = first + k % a.len
        for phase in range(s):
            last = (phase + g.pad[i]) // s - low        # where tap r of this phase stands, before it those of larger e
            a.tap[phase][k] = cell_of(s * (last - at) + (phase + g.pad[i]) % s if s > 1 else ker - 1 - at, ker)
            if at < k // a.len * a.len:
                a.tap[phase][k] = -1
    return True


cdef inline void set_families(Axis* a) noexcept nogil:
    """Blocks whose cells are of the same residue and not far apart share a patch."""
    cdef int64_t block, first = 0, apart
    a.reach = 0
    for block in range(a.blocks):
        apart = a.shift[block] - a.shift[first]
        if not in_tiles(a) or apart % a.in_step or not 0 <= apart <= MAX_REACH * a.in_step:
            first = block
        a.family[block] = first
        a.offset[block] = (a.shift[block] - a.shift[first]) // a.in_step
        a.reach = max(a.reach, a.offset[block])


cdef inline void set_points(Axis* a, int points) noexcept nogil:
    """Which points the filters of a block need, whatever the phase."""
    cdef int64_t block, phase
    for block in range(a.blocks):
        a.points[block].low, a.points[block].high = 0, points
        if in_tiles(a):
            a.points[block].low, a.points[block].high = 1, points - 1
        for phase in range(a.phases if in_tiles(a) else 0):
            if a.tap[phase][a.len * block] >= 0:
                a.points[block].low = 0
            if a.tap[phase][a.len * block + a.len - 1] >= 0:
                a.points[block].high = points


cdef inline int set_spans(const Axis* a, int points, bint apart, Span* span) noexcept nogil:
    """One span, or two if the tiles that hang over the edge shall be taken apart and there are others. Returns how many."""
    cdef int64_t rest = ceil_div(a.out_size, a.out_step) % a.m
    cdef Span* edge = &span[0 if a.tiles == 1 else 1]
    span.tiles, span.start, span.lead, span.points.low, span.points.high = a.tiles, 0, 0, 0, points
    if not in_tiles(a) or rest == 0 or not (apart or a.tiles == 1):
        return 1
    edge.lead = 1 if a.m == 4 and rest <= 2 else 0
    edge.tiles, edge.start = 1, (a.tiles - 1) * a.m - edge.lead
    edge.points.low, edge.points.high = <int>edge.lead, points - 1
    if a.tiles == 1:
        return 1
    span.tiles = a.tiles - 1
    return 2


cdef inline bint set_axis(Axis* a, const Geometry* g, int i, bint transposed, int64_t m, int64_t len,
                          int points) noexcept nogil:
    """Axis i of the geometry, or one cell if i < 0."""
    a.m, a.len = m, len
    if i < 0:
        a.in_size = a.out_size = a.in_step = a.out_step = a.subs = a.phases = a.blocks = 1
        a.shift[0] = 0
        a.tap[0][0] = 0
    elif not (transposed_axis(a, g, i) if transposed else forward_axis(a, g, i)):
        return False
    set_families(a)
    set_points(a, points)
    a.tiles = ceil_div(ceil_div(a.out_size, a.out_step), m)
    return True


# --- the whole ---


cdef inline bint set_plan(Plan* p, const Geometry* g, bint transposed, int tile, int64_t width) noexcept nogil:
    """`tile`: the products of one, 16, 36 or 81, or flat 6 or 9. Returns whether the algorithm applies: one to three axes, stride or
    dilation 1 on each that has points."""
    cdef int last = g.rank - 1, side = tile if tile < 16 else 4 if tile == 16 else 6 if tile == 36 else 9
    p.flat, p.line, p.tail, p.head = tile < 16, g.rank == 1 and tile == 36, NULL, NULL
    if g.rank > 3 or g.rank == 1 and not (p.flat or p.line):
        return False
    p.side, p.lines, p.m, p.len = side, 1 if p.flat else side, 2 if side == 4 else 4, 5 if side == 9 else 3
    p.points, p.cells = tile, p.len if p.flat else p.len * p.len
    p.flip, p.n, p.groups, p.width = transposed, g.n, g.groups, width
    if not set_axis(&p.z, g, last - 2, transposed, 1, 1, 1):
        return False
    if not set_axis(&p.y, g, last - 1, transposed, 1 if p.line or p.flat else p.m, 1 if p.line or p.flat else p.len, p.lines):
        return False
    if not set_axis(&p.x, g, last, transposed, 13 if p.line else p.m, 9 if p.line else p.len, side):
        return False
    p.w_y = g.ker[last]
    p.w_z = g.ker[last] * g.ker[last - 1] if last > 0 else 1
    p.true_channels, p.true_rows, p.w_row, p.w_channel = g.cg, g.og, g.taps * g.cg, g.taps
    p.in_cells, p.out_cells = g.cells, g.outs
    if transposed:
        p.true_channels, p.true_rows, p.w_row, p.w_channel = g.og, g.cg, g.taps, g.taps * g.cg
        p.in_cells, p.out_cells = g.outs, g.cells
    p.channels = p.true_channels * p.z.blocks * p.y.blocks * p.x.blocks
    p.rows = p.true_rows * p.z.phases * p.y.phases * p.x.phases
    p.plain = (g.taps == p.cells and p.channels == p.true_channels and p.rows == p.true_rows
               and (p.line or g.ker[last] == p.len))
    p.tiles = p.n * p.z.tiles * p.y.subs * p.x.subs * p.y.tiles * p.x.tiles
    choose_zones(p)
    return True


cdef inline bint blocks_apart(const Plan* p) noexcept nogil:
    """Whether each block's own points are looked at."""
    return p.true_channels >= ENOUGH_CHANNELS


cdef inline int64_t needed(const Axis* a, const Span* span, bint apart) noexcept nogil:
    """Points of a span's tiles, summed over the blocks."""
    cdef int64_t block, points = 0
    for block in range(a.blocks):
        points += (min(a.points[block].high, span.points.high) - max(a.points[block].low, span.points.low) if apart
                   else span.points.high - span.points.low)
    return points


cdef inline void set_zones(Plan* p, bint apart_y, bint apart_x) noexcept nogil:
    """The zones, their units, their work and their cost."""
    cdef Span y[2]
    cdef Span x[2]
    cdef int ys = set_spans(&p.y, p.lines, apart_y, y), xs = set_spans(&p.x, p.side, apart_x, x), k
    cdef Zone* zone
    cdef int64_t units
    cdef bint apart = blocks_apart(p)
    p.zones, p.units, p.work = ys * xs, 0, 0
    for k in range(p.zones):
        zone = &p.zone[k]
        zone.y, zone.x, zone.unit = y[k // xs], x[k % xs], p.units
        zone.tiles = p.n * p.z.tiles * p.y.subs * p.x.subs * zone.y.tiles * zone.x.tiles
        units = (zone.tiles + p.width - 1) // p.width
        p.units += units
        p.work += (<double>units * needed(&p.y, &zone.y, apart) * needed(&p.x, &zone.x, apart)
                   / (p.y.blocks * p.x.blocks))
    p.cost = p.work * p.channels * p.rows + <double>p.units * p.points * (18 * p.channels + 11 * p.rows)


cdef inline void choose_zones(Plan* p) noexcept nogil:
    cdef int k, best = 0
    cdef double least = 0
    for k in range(4):
        set_zones(p, k & 1, k >> 1)
        if k == 0 or p.cost < 0.97 * least:
            best, least = k, p.cost
    set_zones(p, best & 1, best >> 1)


cdef inline const Zone* zone_of(const Plan* p, int64_t unit) noexcept nogil:
    cdef int k = p.zones - 1
    while k > 0 and unit < p.zone[k].unit:
        k -= 1
    return &p.zone[k]


cdef inline int64_t units_left(const Plan* p, const Zone* zone, int64_t unit) noexcept nogil:
    """From this one to the end of its zone."""
    return zone.unit + (zone.tiles + p.width - 1) // p.width - unit


cdef inline int64_t tiles_of(const Plan* p, const Zone* zone, int64_t unit, int64_t units) noexcept nogil:
    """Tiles of some units of a zone: the last one may not be full."""
    return min(units * p.width, zone.tiles - (unit - zone.unit) * p.width)


cdef inline void filter_cells(const Plan* p, int64_t phase, int64_t block, int64_t* cell) noexcept nogil:
    """Offsets in the kernel of the cells of a virtual row's filter in a block, or -1."""
    cdef int64_t i, j
    cdef int64_t z = p.z.tap[phase // (p.y.phases * p.x.phases)][block // (p.y.blocks * p.x.blocks)]
    cdef const int* y = &p.y.tap[phase // p.x.phases % p.y.phases][block // p.x.blocks % p.y.blocks * p.y.len]
    cdef const int* x = &p.x.tap[phase % p.x.phases][block % p.x.blocks * p.x.len]
    for i in range(1 if p.flat else p.len):
        for j in range(p.len):
            if p.line:
                cell[p.len * i + j] = x[p.len * i + j]
            elif z < 0 or y[i] < 0 or x[j] < 0:
                cell[p.len * i + j] = -1
            else:
                cell[p.len * i + j] = z * p.w_z + y[i] * p.w_y + x[j]


# --- tiles of a zone, numbered by (sample, z, residues y, x, tile y, x) ---


cdef inline int64_t patch_pitch(const Plan* p) noexcept nogil:
    """Between the lines of a tile, in the row of patches."""
    return 3 if p.line else p.width * (p.m + 4 + p.x.reach) + 8


cdef inline int64_t patch_size(const Plan* p) noexcept nogil:
    """Cells of a row of patches that any tile reads."""
    return 25 * p.width + 32 if p.line else (p.y.m + p.y.len - 1 + p.y.reach) * patch_pitch(p)


cdef inline int64_t in_row(const Zone* zone, int64_t tile, int64_t stop) noexcept nogil:
    """How many tiles from this one on, and before `stop`, are neighbours in a row."""
    return min(zone.x.tiles - tile % zone.x.tiles, stop - tile)


cdef struct Spot:               # of a tile
    int64_t sample, z, y, x     # the first output, in steps of the residues
    int64_t sub_y, sub_x


cdef inline void spot_of(const Plan* p, const Zone* zone, int64_t tile, Spot* at) noexcept nogil:
    cdef int64_t row = tile // zone.x.tiles, image = row // zone.y.tiles, layer = image // (p.y.subs * p.x.subs)
    at.x = zone.x.start + tile % zone.x.tiles * p.x.m
    at.y = zone.y.start + row % zone.y.tiles * p.y.m
    at.sub_x = image % p.x.subs
    at.sub_y = image // p.x.subs % p.y.subs
    at.z = layer % p.z.tiles
    at.sample = layer // p.z.tiles


cdef inline void count_tiles(const Plan* p, int64_t unit, Tiles* s) noexcept nogil:
    s.count = <int>tiles_of(p, zone_of(p, unit), unit, 1)
    s.vectors = <int>((s.count * LNN_WINO_VECTORS + p.width - 1) // p.width)


cdef inline void cut(const Plan* p, int64_t unit, int64_t block, Tiles* s) noexcept nogil:
    """Where the tiles of a unit come from, for the virtual channels of the blocks that share a patch, the first of which is
    `block`."""
    cdef int64_t first = 0, place = 0, begin, count, i
    cdef int64_t z, y, x, low_y, high_y, low_x, high_x, lines = p.y.m + p.y.len - 1 + p.y.reach, cells
    cdef const Zone* zone = zone_of(p, unit)
    cdef Spot at
    cdef Run* r
    count_tiles(p, unit, s)
    s.runs, s.whole = 0, p.x.in_step == p.y.in_step == 1 and not p.line
    begin = (unit - zone.unit) * p.width
    while first < s.count:
        spot_of(p, zone, begin + first, &at)
        count = in_row(zone, begin + first, begin + s.count)
        cells = count * p.x.m + p.x.len - 1 + p.x.reach
        z = at.z * p.z.in_step + p.z.shift[block // (p.y.blocks * p.x.blocks)]
        y = at.y * p.y.in_step + at.sub_y + p.y.shift[block // p.x.blocks % p.y.blocks]
        x = at.x * p.x.in_step + at.sub_x + p.x.shift[block % p.x.blocks]
        low_y = clip(ceil_div(-y, p.y.in_step), 0, lines)
        high_y = clip(ceil_div(p.y.in_size - y, p.y.in_step), low_y, lines)
        low_x = clip(ceil_div(-x, p.x.in_step), 0, cells)
        high_x = clip(ceil_div(p.x.in_size - x, p.x.in_step), low_x, cells)
        r = &s.run[s.runs]
        r.rows, r.columns, r.source, r.place = high_y - low_y, high_x - low_x, 0, 0
        if not 0 <= z < p.z.in_size or r.columns == 0:      # wholly in the padding
            r.rows = 0
        if r.rows:
            r.source = (at.sample * p.groups * p.true_channels * p.in_cells
                        + (z * p.y.in_size + y + low_y * p.y.in_step) * p.x.in_size + x + low_x * p.x.in_step)
            r.place = place + low_y * patch_pitch(p) + low_x
        # Lines are read by fours: no cell behind the channel's last.
        s.whole &= (r.rows == lines and r.columns == cells
                    and ((z * p.y.in_size + y + lines - 1) * p.x.in_size + x + cells + 2 <= p.in_cells))
        for i in range(count):
            s.cell[first + i] = place + i * p.x.m
            s.from_image[first + i] = r.source + i * p.x.m
        place += count * p.x.m + (12 if p.line else 4 + p.x.reach)
        first += count
        s.runs += 1
    for i in range(s.count, p.width):           # lanes without a tile: computed on what is there, never stored
        s.cell[i] = 0
        s.from_image[i] = s.from_image[0]


cdef inline void place_tiles(const Plan* p, int64_t unit, Tiles* s) noexcept nogil:
    """Where the results of a unit's tiles go, in row 0 and phase 0."""
    cdef int64_t i, z, y, x
    cdef const Zone* zone = zone_of(p, unit)
    cdef int64_t last = zone.x.start + (zone.x.tiles - 1) * p.x.m
    cdef Spot at
    count_tiles(p, unit, s)
    s.lead_y, s.lead_x = zone.y.lead, zone.x.lead
    for i in range(p.width):
        s.dest[i] = s.left_z[i] = s.left_y[i] = s.left_x[i] = 0
        if i >= s.count:
            continue
        if i == 0 or at.x == last:      # elsewhere the next one in the row
            spot_of(p, zone, (unit - zone.unit) * p.width + i, &at)
        else:
            at.x += p.x.m
        y = (at.y + zone.y.lead) * p.y.out_step + at.sub_y
        x = (at.x + zone.x.lead) * p.x.out_step + at.sub_x
        z = at.z * p.z.out_step
        s.left_z[i] = p.z.out_size - z
        s.left_y[i] = p.y.out_size - y
        s.left_x[i] = p.x.out_size - x
        s.dest[i] = at.sample * p.groups * p.true_rows * p.out_cells + (z * p.y.out_size + y) * p.x.out_size + x


cdef inline int64_t cells_left(const Axis* a, int64_t left, int64_t phase) noexcept nogil:
    """Outputs of a tile that exist."""
    return clip(ceil_div(left - phase, a.out_step), 0, a.m)
