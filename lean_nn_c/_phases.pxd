"""conv_input on strided axes: the residues of the stride as rows of one product, or as products of one packed strip.

Cell u of x_bar gets w[k]*y_bar[f] from the taps k with s*f + k = u + pad. Of cells u = s*q + r - lead, those of a residue r
read the same places around q, and those of all residues few more. A strip of such places is packed once for all residues,
and its sums are neighbours in x_bar: s of them in turn from s rows. With lead 0, q counts the image's own cells, and each
residue is multiplied by those places alone that it reads: in order, in runs of which its taps are neighbours. Where rows are
few, or kernels multiples of the stride, the residues are rows of one product, row (c, r), with a zero where there is no tap; a
lead of pad mod s then gives all residues the same places, and kernels that are multiples of the stride no zeros.
Axes with stride 1 have one residue, dilation included.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from lean_nn_c._columns cimport MAX_TILE, Columns, Strip, bring, cells_of, cut
from lean_nn_c._geometry cimport MAX_RANK, Geometry
from lean_nn_c._planes cimport Planes, reach
from lean_nn_c._queue cimport Queue, draw, holds
from lean_nn_c._simd cimport LNN_ROWS, gather, lanes, zip_rows
from lean_nn_c._taps cimport ABREAST, BLOCK, Block, Taps, block_at
from lean_nn_c._types cimport real
from lean_nn_c.gemm cimport FEW, Ahead, Panels, Split, first_row, panels_of, panels_size, rows_in, strip_product

cdef enum:
    MOST = 16               # residues


cdef struct Phases:
    int64_t residues
    int64_t sets                # of residues that one product computes: each alone, or all
    int64_t places
    int64_t* off                # of the places in the planes
    int64_t* tap                # that a residue has for a place, -1: none


cdef struct Run:                # of places
    int64_t first, end


cdef inline int64_t residues(const Geometry* g) noexcept nogil:
    cdef int i
    cdef int64_t count = 1
    for i in range(g.rank):
        count *= g.stride[i]
    return count


cdef inline bint mixed(const Geometry* g) noexcept nogil:
    """Whether residues are rows of one product: where rows are few otherwise, or there are no zeros."""
    cdef int i
    cdef bint whole = True
    for i in range(g.rank):
        whole = whole and g.ker[i] % g.stride[i] == 0
    return whole or g.cg < FEW


cdef inline int64_t lead(const Geometry* g, int i) noexcept nogil:
    return g.pad[i] % g.stride[i] if mixed(g) else 0


cdef inline int64_t top(const Geometry* g, int i) noexcept nogil:
    """The last output that cell q = 0 of some residue reads; place v is v before it."""
    return (g.stride[i] - 1 + g.pad[i] - lead(g, i)) // g.stride[i]


cdef inline int64_t tap_of(const Geometry* g, int i, int64_t r, int64_t v) noexcept nogil:
    """The tap by which residue r reads place v; it may be none."""
    return (v - top(g, i)) * g.stride[i] + r + g.pad[i] - lead(g, i)


cdef inline int64_t span(const Geometry* g, int i) noexcept nogil:
    """Places on an axis."""
    cdef int64_t v = g.ker[i] // g.stride[i]
    while tap_of(g, i, 0, v) < g.ker[i]:        # the first residue reads the furthest
        v += 1
    return v


cdef inline int64_t places_of(const Geometry* g) noexcept nogil:
    cdef int i
    cdef int64_t count = 1
    for i in range(g.rank):
        count = min(count * span(g, i), <int64_t>(BLOCK + 1))
    return count


cdef inline bint phases_pay(const Geometry* g) noexcept nogil:
    """Unless residues that are rows of one product have mostly zeros.

    Measured: 3 x 3 stride 2, 16 to 64 channels: 1.3 to 1.7 times as fast as residue by residue; 7 x 7 stride 2, 3 channels, a
    quarter zeros: conv_input in float64 twice as fast.
    """
    cdef int i
    cdef double rows = residues(g), zeros = 1
    if rows == 1 or rows > MOST or rows * g.cg < FEW or places_of(g) > BLOCK:
        return False
    for i in range(g.rank):
        if g.stride[i] > 1 and (g.dil[i] != 1 or g.ker[i] < g.stride[i]):
            return False
        zeros *= <double>g.ker[i] / (span(g, i) * g.stride[i])
    return not mixed(g) or zeros > 0.5


cdef inline void open_phases(const Geometry* g, const Planes* p, Columns* c, Phases* f) noexcept nogil:
    """Columns (all q), the places' offsets, and their taps."""
    cdef int64_t index, rest, tap, size, k, offset, r
    cdef int i
    c.rank, c.base, c.dest, c.direct = g.rank, 0, 0, p.direct
    for i in range(g.rank):
        c.count[i] = (g.inp[i] + lead(g, i) - 1) // g.stride[i] + 1
        c.pitch[i], c.step[i] = p.pitch[i], 0
        c.base += (top(g, i) + reach(g, i) - g.pad[i] // g.stride[i]) * p.pitch[i]
    for index in range(f.residues * f.places):
        r, rest, tap, size, offset = index // f.places, index % f.places, 0, 1, 0
        for i in range(g.rank - 1, -1, -1):
            k = tap_of(g, i, r % g.stride[i], rest % span(g, i))
            offset -= rest % span(g, i) * (g.dil[i] if g.stride[i] == 1 else 1) * p.pitch[i]
            rest //= span(g, i)
            r //= g.stride[i]
            tap = tap + k * size if 0 <= k < g.ker[i] and tap >= 0 else -1
            size *= g.ker[i]
        f.tap[index] = tap
        if index < f.places:
            f.off[index] = offset


cdef inline bint next_run(const Phases* f, int64_t set, Run* run) noexcept nogil:
    """The next places that the residues of a set read; False: that was the last. The first follows on zeros."""
    cdef const int64_t* tap = f.tap + set * f.places
    run.first = run.end
    if f.sets == 1:
        run.end = f.places
    else:
        while run.first < f.places and tap[run.first] < 0:
            run.first += 1
        run.end = run.first
        while run.end < f.places and tap[run.end] >= 0:
            run.end += 1
    return run.first < run.end


cdef inline int64_t phase_panels(const Geometry* g, const Phases* f, const Taps* t, int64_t channels) noexcept nogil:
    """Values in the panels of so many channels, one block of terms."""
    return panels_size(channels * f.residues // f.sets, t.together * (f.places if f.sets == 1 else g.taps))


cdef inline void pack_phases(const Geometry* g, const Phases* f, const Taps* t, const Block* k, const real* w,
                             int64_t channels, real* out) noexcept nogil:
    """The weight's rows of `channels` channels, one block of terms, as panels: set by set, run by run, place by place; of a few
    terms at a time, and of a panel's rows, which are neighbours, all sets."""
    cdef int64_t summed = k.terms // f.places, first = 0, set, panel, v, length
    cdef Panels p = panels_of(channels * f.residues // f.sets)
    cdef Run run
    cdef real* to
    w += k.a
    while first < summed:
        length = min(<int64_t>ABREAST, summed - first)
        for panel in range(p.count):
            to = out + first * LNN_ROWS
            if f.sets == 1:
                pack_mixed(g, f, t, w, first_row(&p, panel), rows_in(&p, panel), length,
                           to + panel * f.places * summed * LNN_ROWS, summed * LNN_ROWS)
                continue
            for set in range(f.sets):
                run.end = 0
                while next_run(f, set, &run):
                    to += panel * (run.end - run.first) * summed * LNN_ROWS
                    for v in range(run.first, run.end):
                        gather(w + first_row(&p, panel) * g.taps + f.tap[set * f.places + v], g.taps, rows_in(&p, panel), t.a,
                               length, to)
                        to += summed * LNN_ROWS
                    to += (p.count - panel - 1) * (run.end - run.first) * summed * LNN_ROWS
        first += length
        w += length * t.a_channel


cdef inline void pack_mixed(const Geometry* g, const Phases* f, const Taps* t, const real* w, int64_t first, int mr,
                            int64_t length, real* out, int64_t next_place) noexcept nogil:
    """Rows (channel, residue) from `first` on, of a few terms: all that they have of one kernel together, for kernels are far
    apart."""
    cdef int64_t off[LNN_ROWS * BLOCK]
    cdef int64_t row, tap, v, i
    cdef real* to
    for row in range(first, first + mr):
        for v in range(f.places):
            tap = f.tap[row % f.residues * f.places + v]
            off[v * LNN_ROWS + row - first] = row // f.residues * g.taps + tap if tap >= 0 else -1
    for i in range(length):
        to = out + i * LNN_ROWS
        for v in range(f.places):
            for row in range(mr):
                to[row] = w[off[v * LNN_ROWS + row]] if off[v * LNN_ROWS + row] >= 0 else 0
            to += next_place
        w += t.a_channel


cdef inline void interleave(const real* sums, int64_t lds, int64_t length, int64_t rows, real* out) noexcept nogil:
    """out[rows*j + r] = sums[r*lds + j]."""
    cdef int64_t j, r
    if rows == 1:
        memcpy(out, sums, length * sizeof(real))
    else:
        for r in range(rows):
            for j in range(length):
                out[rows * j + r] = sums[r * lds + j]


cdef inline void spread_row(const real* sums, int64_t lds, int64_t length, int64_t rows, int64_t first, int64_t size,
                            real* out) noexcept nogil:
    """Interleave to out[first ..], of which only 0 .. size exists."""
    cdef real part[MOST * MAX_TILE]
    cdef int64_t low = max(-first, <int64_t>0), high = min(length * rows, size - first)
    if low == 0 and high == length * rows:
        interleave(sums, lds, length, rows, out + first)
    elif low < high:
        interleave(sums, lds, length, rows, &part[0])
        memcpy(out + first + low, &part[low], (high - low) * sizeof(real))


cdef inline void spread_pairs(const real* sums, int64_t next_channel, int64_t next_residue, int64_t length, int64_t channels,
                              int64_t first, int64_t size, real* out, int64_t cells) noexcept nogil:
    """Two residues of a row in turn, in all channels; the first cell may be before the image, the last one behind it."""
    cdef int64_t channel, low = first < 0, high = length - (first + 2 * length > size)
    for channel in range(channels if low else 0):
        out[channel * cells] = sums[channel * next_channel + next_residue]
    for channel in range(channels if high < length else 0):
        out[channel * cells + size - 1] = sums[channel * next_channel + high]
    zip_rows(sums + low, next_channel, next_residue, channels, high - low, out + first + 2 * low, cells)


cdef inline void spread_phases(const Geometry* g, const Phases* f, const Columns* c, int64_t column, int64_t columns,
                               int64_t channels, const real* sums, int64_t lds, real* out) noexcept nogil:
    """Sums of cells column .. column+columns, as rows of the sets, to their places in `channels` image planes; cells may run on
    from sample to sample."""
    cdef int64_t at[MAX_RANK]
    cdef int64_t rest = column, done = 0, length, outer, r, u, offset, size, channel, first
    cdef const real* source
    cdef int64_t next_channel = lds * (f.residues // f.sets), next_residue = lds if f.sets == 1 else lds * channels
    cdef int i, last = g.rank - 1
    cdef bint inside
    for i in range(last, -1, -1):
        at[i] = rest % c.count[c.rank - g.rank + i]
        rest //= c.count[c.rank - g.rank + i]
    out += rest * g.c * g.cells
    while done < columns:
        length = min(c.count[c.rank - 1] - at[last], columns - done)
        for outer in range(f.residues // g.stride[last]):
            r, offset, size, inside = outer, 0, g.inp[last], True
            for i in range(last - 1, -1, -1):
                u = at[i] * g.stride[i] + r % g.stride[i] - lead(g, i)
                r //= g.stride[i]
                inside = inside and 0 <= u < g.inp[i]
                offset += u * size
                size *= g.inp[i]
            if not inside:
                continue
            source, first = sums + outer * g.stride[last] * next_residue + done, at[last] * g.stride[last] - lead(g, last)
            if g.stride[last] == 2:
                spread_pairs(source, next_channel, next_residue, length, channels, first, g.inp[last], out + offset, g.cells)
            else:
                for channel in range(channels):
                    spread_row(source + channel * next_channel, next_residue, length, g.stride[last], first, g.inp[last],
                               out + channel * g.cells + offset)
        done += length
        at[last] = 0
        for i in range(last - 1, -2, -1):
            if i < 0:
                out += g.c * g.cells
                break
            at[i] += 1
            if at[i] < c.count[c.rank - g.rank + i]:
                break
            at[i] = 0


cdef inline void phased(const Geometry* g, const Phases* f, const Columns* c, const Taps* t, const real* w, const real* planes,
                        int64_t p_sample, const real* bias, real* out, int64_t c0, int64_t c1, int64_t first, int64_t stop,
                        bint held, real* scratch) noexcept nogil:
    """conv_input for channels c0..c1 of a group, strips first..stop, all residues of the stride; `held` as in _packed.pxd."""
    cdef int64_t m = (c1 - c0) * f.residues // f.sets, cells = cells_of(c), strips = (cells + c.width - 1) // c.width
    cdef int64_t block, index, column, columns, vectors, v, set, lds = c.width * (stop - first if t.blocks > 1 else 1)
    cdef real* strip = scratch + phase_panels(g, f, t, c1 - c0)
    cdef real* sums = strip + BLOCK * c.width
    cdef real* to
    cdef real* panels
    cdef Block k
    cdef Strip s
    cdef Run run
    cdef Ahead ahead
    cdef bint add
    ahead.rows = 0
    memset(strip, 0, BLOCK * c.width * sizeof(real))        # columns there are not
    for block in range(t.blocks):
        k = block_at(t, block)
        if not held or t.blocks > 1:
            pack_phases(g, f, t, &k, w + c0 * g.taps, c1 - c0, scratch)
        k.terms //= f.places
        for index in range(first, stop):
            column = index % strips * c.width
            columns = min(c.width, cells - column)
            vectors = (columns + lanes(w) - 1) // lanes(w) * lanes(w)
            cut(c, column, columns, &s)
            for v in range(f.places):
                bring(&s, t.b, k.terms, planes + index // strips * p_sample + k.b + f.off[v], vectors,
                      strip + v * k.terms * vectors)
            to = sums + ((index - first) * c.width if t.blocks > 1 else 0)
            panels = scratch
            for set in range(f.sets):
                run.end, add = 0, block > 0
                while next_run(f, set, &run):
                    strip_product(m, (run.end - run.first) * k.terms, <const real*>panels,
                                  <const real*>strip + run.first * k.terms * vectors, bias, add, to + set * m * lds, lds,
                                  vectors, &ahead)
                    add = True
                    panels += (m + LNN_ROWS - 1) // LNN_ROWS * LNN_ROWS * (run.end - run.first) * k.terms
            if block == t.blocks - 1:
                spread_phases(g, f, c, column, columns, c1 - c0, <const real*>to, lds,
                              out + (index // strips * g.c + c0) * g.cells)


cdef inline void phase_unit(const Geometry* g, const Phases* f, const Columns* c, const Taps* t, const real* w, const real* planes,
                            int64_t p_group, int64_t samples, const real* bias, real* out, Queue* queue, int thread,
                            Split s, real* scratch) noexcept nogil:
    """One of the parts that threads take: some strips and channels of a group."""
    cdef int64_t index = draw(queue, thread), part_t = index % s.t, part_m = index // s.t % s.m, group = index // (s.t * s.m)
    cdef int64_t strips = (cells_of(c) + c.width - 1) // c.width * samples, c0 = g.cg * part_m // s.m
    if bias != NULL:
        bias += (group * g.cg + c0) * f.residues // f.sets
    phased(g, f, c, t, w + group * g.og * g.cg * g.taps, planes + group * p_group, g.groups * p_group, bias,
           out + group * g.cg * g.cells, c0, g.cg * (part_m + 1) // s.m, strips * part_t // s.t,
           strips * (part_t + 1) // s.t, holds(queue, thread, index // s.t), scratch)
