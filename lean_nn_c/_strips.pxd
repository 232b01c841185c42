"""Strips: convolution of few channels without planes of the whole image.

Where each output has few terms, the padded planes of _planes.pxd cost as much as the arithmetic. Here the outputs are
cut along the first axis into strips of `height`, and only what one strip of one sample and group reads is copied,
padded and split by phase as _planes.pxd says (a strip is the planes of a smaller geometry), but a few kilobytes that
stay in the first-level cache. The padding is written once; further samples and groups overwrite the real cells alone.
A plan per strip lists the rows to copy (lnn_copies) and, per output class, the terms and the vectors of outputs
(lnn_sweep). strips.h computes from these lists and knows nothing of axes, strides and dilations.

conv         One class. Terms: (channel, tap) of the group.
conv_input   A strip of y_bar. On the axes before the last, one class per residue of the stride, as in _planes.pxd: only
             the taps of that residue are terms. On the last axis y_bar is spread out with stride - 1 zeros between
             its cells; then all its taps count, and neighbouring outputs are stored together.
conv_weight  A strip of x, and y_bar of a group in rows of whole vectors. A vector of sums per output and tap, over strips, samples
             and rows; three outputs share the vectors of x that are loaded.

Many channels to sum over come in chunks that fit the cache; between chunks the vectors of sums wait on the desk. Of planes
with few vectors several samples lie in one strip: a tile computes them all.

A padding zero meets every weight: the caller sees to it that those are finite (for conv_weight: looks at the result).

Memory per thread: at most 1 MB. A strip and its sums take at most LARGEST bytes each, as do y_bar's rows; usually
HANDY. The plan lists at most MOST rows, vectors and terms, of 16 to 24 bytes.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from lean_nn_c._geometry cimport MAX_RANK, Geometry, ceil_div, clip
from lean_nn_c._planes cimport Planes, period, planes_of_image, planes_of_output, reach, tap_step
from lean_nn_c._simd cimport LNN_BYTES
from lean_nn_c._sweeps cimport LNN_PHASES, LNN_RUN, LNN_TALL, lnn_copies, lnn_run, lnn_sweep
from lean_nn_c.taps cimport level

cdef enum:
    HANDY = 20480           # bytes of a strip that leave room in the first-level cache
    LARGEST = 262144        # bytes of a strip
    NEAR = 4194304          # bytes of image and result up to which caches are quick by themselves
    DEEP = 256              # cells of a plane, at most, that go into lanes
    MOST = 4096             # rows, vectors or terms of a strip
    ABREAST = 8             # most vectors of a tile


cdef enum Kind:
    CONV
    CONV_INPUT
    CONV_WEIGHT


cdef struct Strips:
    Kind kind
    int itemsize
    int64_t lanes
    bint wide                       # vectors are of the level's width, not of direct.pyx's
    int64_t size, height, count     # cells of the first axis: of the result, of a strip; strips
    int64_t rest                    # result cells per cell of the first axis (for conv_weight: cells of y_bar)
    int64_t width                   # of a row of these
    bint tall                       # tiles are tall
    int64_t deep                    # channels in the lanes of a vector that is a cell (_deep.pxd); 1: cells are numbers
    bint far                        # the planes that come next are called into the cache
    int64_t channels, chunk         # to sum over; in one strip
    int64_t together                # samples of small planes in one strip
    int64_t classes
    int64_t cells                   # of the strip, all channels, and a margin that vectors may read
    int64_t rows, vectors, terms    # room for the plan's lists
    int64_t sums                    # bytes kept between chunks of channels


cdef struct Plan:
    int64_t strip                   # the one it is for; -1: none yet
    Planes planes
    lnn_copies copies
    lnn_sweep* sweeps               # one per class
    int64_t begin, first            # where the strip's part of a result plane begins, and, about, that of a source plane
    int64_t height


cdef inline Geometry part_of(const Strips* s, const Geometry* g, int64_t strip) noexcept nogil:
    """The geometry of one strip."""
    cdef Geometry part = g[0]
    cdef int64_t begin = strip * s.height, height = min(s.height, s.size - begin)
    if s.kind == CONV_INPUT:
        part.inp[0] = height
        part.pad[0] = g.pad[0] + begin
        part.stride[g.rank - 1] = 1             # y_bar is spread out instead
    else:
        part.out[0] = height
        part.pad[0] = g.pad[0] - begin * g.stride[0]
    return part


cdef inline double measure_strip(const Strips* s, const Geometry* part, Planes* p) noexcept nogil:
    """Lay the strip out; returns the bytes of a channel."""
    cdef double cells = planes_of_output(p, part, s.itemsize) if s.kind == CONV_INPUT else planes_of_image(
        p, part, s.itemsize)
    return s.itemsize * cells


cdef inline int64_t apart(const Geometry* part, int axis) noexcept nogil:
    """Strip cells between taps of one phase: outputs as far apart share what they read."""
    return period(part.stride[axis], part.dil[axis]) * part.dil[axis] // part.stride[axis]


cdef inline bint stands(const Strips* s, const Geometry* g, const Geometry* part, const Planes* p) noexcept nogil:
    """Whether tall tiles serve: one or two rows of weights, and enough rows of results below each other."""
    cdef int axis = g.rank - 2
    cdef int64_t size
    if s.deep > 1 or s.kind == CONV_WEIGHT or g.rank < 2 or (g.cg if s.kind == CONV_INPUT else g.og) > 2:
        return False
    size = g.inp[axis] // g.stride[axis] if s.kind == CONV_INPUT else g.out[axis]
    return 2 * size >= LNN_TALL * apart(part, axis) and apart(part, axis) * p.pitch[axis] * s.itemsize <= HANDY


cdef inline bint widens(const Strips* s, const Geometry* g, int64_t lanes) noexcept nogil:
    """Whether vectors of 64 bytes pay (taps.wide_rows). They begin anywhere, so that nearly each of their loads takes two cache
    lines: where a loaded vector meets few weights, as in 3 x 3 depthwise layers and with three rows of weights, 32 bytes
    are 1.1 to 1.4 times as fast; else 64 are, 1.2 to 1.8 times (Zen 5, 190 layers). conv_weight never gains."""
    cdef int axis = g.rank - 2
    cdef int64_t row = g.inp[g.rank - 1] if s.kind == CONV_INPUT else g.out[g.rank - 1]
    if s.kind == CONV_WEIGHT or s.deep > 1 or 8 * row < 7 * lanes:
        return False
    return ceil_div(g.ker[axis], g.stride[axis]) > 3 if s.tall else (g.cg if s.kind == CONV_INPUT else g.og) != 3


cdef inline void choose_height(Strips* s, double bytes, int64_t halo, int64_t step) noexcept nogil:
    """From the bytes of a strip of height 1: as much as is handy, more where that would be mostly halo."""
    cdef double slab = bytes / (1.0 + halo)         # of a further `step` cells of height
    cdef double most = min(LARGEST / slab, <double>s.size + halo) - halo
    cdef int64_t grain = step * LNN_TALL if s.tall and s.rest == s.width else step
    cdef int64_t row = (s.width + s.lanes - 1) // s.lanes
    cdef int64_t height = <int64_t>min(max(HANDY // min(s.channels, <int64_t>4) / slab - halo, 2.0 * halo + 1), most)
    height = max(min(step * height, MOST // (s.rest // s.width * row)) // grain, <int64_t>1)
    s.count = (s.size + height * grain - 1) // (height * grain)
    s.height = grain * ((s.size + s.count * grain - 1) // (s.count * grain))
    s.count = (s.size + s.height - 1) // s.height


cdef inline int64_t depth(const Geometry* g, Kind kind, int itemsize) noexcept nogil:
    """The channels in the lanes of deep strips, where these pay, else 1: where rows would leave vectors empty."""
    cdef int last = g.rank - 1
    cdef int64_t lanes = LNN_BYTES // itemsize, row = g.inp[last] if kind == CONV_INPUT else g.out[last]
    cdef int64_t empty = (row + lanes - 1) // lanes * lanes - row
    if itemsize > 4 or g.cg > 1 or g.og > 1 or g.c % lanes or max(g.cells, g.outs) > DEEP:
        return 1
    return lanes if 5 * empty >= row or (empty and g.stride[last] > 1) or (kind == CONV_WEIGHT and row <= lanes) else 1


cdef inline bint cut(Strips* s, const Geometry* g, Kind kind, int itemsize) noexcept nogil:
    """Choose the strips' height and the channels in one; False: strips do not suit this geometry."""
    cdef Geometry part
    cdef Planes p
    cdef int i, last = g.rank - 1
    cdef double bytes, classes = 1
    s.deep = depth(g, kind, itemsize)
    itemsize *= s.deep
    s.kind, s.itemsize, s.lanes, s.wide = kind, itemsize, LNN_BYTES // itemsize, False
    s.size = g.inp[0] if kind == CONV_INPUT else g.out[0]
    s.channels = g.og if kind == CONV_INPUT else g.cg if kind == CONV else 1
    for i in range(last):
        classes *= g.stride[i] if kind == CONV_INPUT else 1
    if s.size == 0 or s.channels == 0 or g.taps > MOST or g.stride[last] > LNN_PHASES or classes > 64:
        return False
    s.classes = <int64_t>classes
    s.rest = (g.cells if kind == CONV_INPUT else g.outs) // s.size
    if s.rest == 0:
        return False
    s.height = 1
    part = part_of(s, g, 0)
    bytes = measure_strip(s, &part, &p)
    if bytes > LARGEST:
        return False
    s.width = part.inp[last] if kind == CONV_INPUT else part.out[last]
    s.tall = stands(s, g, &part, &p) and (
        g.rank > 2 or bytes * (LNN_TALL + reach(&part, 0)) <= LARGEST * (1.0 + reach(&part, 0)))
    if level().bytes > LNN_BYTES and widens(s, g, level().bytes // itemsize):
        s.wide, s.lanes = True, level().bytes // itemsize
    s.far = s.tall and s.channels == 1 and g.n * (g.c * g.cells + g.o * g.outs) > NEAR // itemsize
    choose_height(s, bytes, reach(&part, 0), part.stride[0] if kind == CONV_INPUT else 1)
    part = part_of(s, g, 0)
    bytes = measure_strip(s, &part, &p)
    if bytes > LARGEST:
        return False
    s.chunk = s.channels
    if bytes * s.channels > 3 * HANDY:
        s.chunk = min(max(<int64_t>(HANDY / bytes), <int64_t>1), s.channels)
        s.chunk = (s.channels + (s.channels + s.chunk - 1) // s.chunk - 1) // ((s.channels + s.chunk - 1) // s.chunk)
    s.width = part.inp[last] if kind == CONV_INPUT else part.out[last]
    s.terms = s.chunk * g.taps
    s.cells = s.chunk * (p.channel + 64) + 4 * s.lanes
    if s.tall:
        s.cells += LNN_TALL * apart(&part, last - 1) * p.pitch[last - 1]
    s.rows = p.channel // p.q[last] + 1
    s.vectors = s.height * s.rest // s.width * ((s.width + s.lanes - 1) // s.lanes)
    s.together, s.sums = 1, 0
    for i in range(2, 9 if s.deep == 1 and s.chunk == s.channels and s.count == 1 and kind != CONV_WEIGHT else 0):
        if g.n % i == 0 and i * s.vectors <= 4 * ABREAST and i * s.cells * itemsize <= HANDY:
            s.together = i          # the most that leave no rest
    s.cells *= s.together
    s.vectors = s.vectors * s.together + ABREAST * s.classes
    if s.chunk < s.channels:        # every vector of every row of weights; a tall tile has eight
        bytes = <double>(g.cg if kind == CONV_INPUT else g.og) * s.vectors * (LNN_TALL if s.tall else 1) * s.lanes * itemsize
        if bytes > LARGEST:
            return False
        s.sums = <int64_t>bytes
    return (s.deep == 1 or s.count == 1) and s.rows <= MOST and s.vectors <= MOST + ABREAST * s.classes and s.terms <= MOST


cdef inline void list_rows(Plan* plan, const Geometry* part, int64_t spread) noexcept nogil:
    """Which rows of a source plane have real cells, and where they go."""
    cdef const Planes* p = &plan.planes
    cdef lnn_copies* c = &plan.copies
    cdef int64_t at[MAX_RANK]           # strip coordinates of the row
    cdef int64_t phase[MAX_RANK]
    cdef int64_t u, offset, scale, dst, rows = p.plane // p.q[p.rank - 1], phases = 1, k, row, f, shift
    cdef int i, last = p.rank - 1
    cdef bint inside
    for i in range(last):
        phase[i] = 0
        phases *= p.phases[i]
    c.rows, c.phases, c.plane, c.step, c.spread = 0, p.phases[last], p.plane, p.step[last], spread
    for f in range(c.phases):
        shift = p.shift[last] - f * p.dil[last] % p.step[last]
        if spread > 1:                  # cell spread*i + shift of the strip is cell i of the source
            c.first[f] = clip(ceil_div(-shift, spread), 0, p.size[last])
            c.count[f] = clip(ceil_div(p.q[last] - shift, spread), c.first[f], p.size[last]) - c.first[f]
            c.low[f] = spread * c.first[f] + shift
        else:                           # cell i of the strip is cell step*i - shift of the source
            c.low[f] = clip(ceil_div(shift, c.step), 0, p.q[last])
            c.count[f] = clip(ceil_div(p.size[last] + shift, c.step), c.low[f], p.q[last]) - c.low[f]
            c.first[f] = c.step * c.low[f] - shift
    # the phase that begins has as many cells as the other, or one more
    f = 0 if c.phases != 2 or c.first[0] < c.first[1] else 1
    c.pairs = c.phases == 2 and c.step == 2 and c.first[1 - f] == c.first[f] + 1 and (
        0 <= c.count[f] - c.count[1 - f] <= 1)
    for k in range(phases):
        for i in range(last):
            at[i] = 0
        for row in range(rows):
            offset, scale, inside = 0, p.size[last], True
            for i in range(last - 1, -1, -1):
                u = p.step[i] * at[i] + phase[i] * p.dil[i] % p.step[i] - p.shift[i]
                inside = inside and 0 <= u < p.size[i]
                offset += u * scale
                scale *= p.size[i]
            if inside:
                c.src[c.rows] = offset
                c.dst[c.rows] = k * c.phases * p.plane + row * p.q[last]
                c.rows += 1
            for i in range(last - 1, -1, -1):
                at[i] += 1
                if at[i] < p.q[i]:
                    break
                at[i] = 0
        for i in range(last - 1, -1, -1):
            phase[i] += 1
            if phase[i] < p.phases[i]:
                break
            phase[i] = 0


cdef inline void list_row(const Strips* s, lnn_sweep* w, int64_t at, int64_t to) noexcept nogil:
    """The vectors of one row. The last one overlaps the one before, but where products are summed it meets zeros."""
    cdef int64_t vector, column, overlap
    for vector in range((w.width + s.lanes - 1) // s.lanes):
        column = vector * s.lanes
        overlap = min(max(column + s.lanes - w.width, <int64_t>0), column) if s.kind != CONV_WEIGHT else 0
        w.at[w.vectors] = (at + column - overlap) * s.deep
        w.to[w.vectors] = to + column - overlap
        w.vectors += 1


cdef inline void list_tall(const Strips* s, lnn_sweep* w, int64_t rows, int64_t distance, int64_t at, int64_t at_step,
                           int64_t to, int64_t to_step) noexcept nogil:
    """Tall tiles of `rows` rows: every `distance`-th belongs together; the last tile overlaps the one before."""
    cdef int64_t residue, count, tile, row
    w.live = max(min(<int64_t>LNN_TALL, rows // distance), <int64_t>1)
    for residue in range(min(distance, rows)):
        count = (rows - residue + distance - 1) // distance
        for tile in range((count + w.live - 1) // w.live):
            row = residue + min(tile * w.live, count - w.live) * distance
            list_row(s, w, at + row * at_step, to + row * to_step)


cdef inline void list_vectors(const Strips* s, lnn_sweep* w, int rank, const int64_t* counts, int64_t distance,
                              int64_t at, const int64_t* at_step, int64_t to, const int64_t* to_step) noexcept nogil:
    """The vectors of the rows with outer coordinates below `counts`, in row-major order."""
    cdef int64_t i[MAX_RANK]
    cdef int64_t rows = 1, row
    cdef int axis, outer = rank - 2 if s.tall else rank - 1
    w.width, w.vectors, w.live = counts[rank - 1], 0, 1 if s.tall else 0
    for axis in range(outer):
        i[axis] = 0
        rows *= counts[axis]
    if s.tall:
        w.to_step = distance * to_step[outer]
    for row in range(rows):
        if s.tall:
            list_tall(s, w, counts[outer], distance, at, at_step[outer], to, to_step[outer])
        else:
            list_row(s, w, at, to)
        for axis in range(outer - 1, -1, -1):
            i[axis] += 1
            at += at_step[axis]
            to += to_step[axis]
            if i[axis] < counts[axis]:
                break
            at -= counts[axis] * at_step[axis]
            to -= counts[axis] * to_step[axis]
            i[axis] = 0


cdef inline void list_samples(const Strips* s, lnn_sweep* w, int64_t at_step, int64_t to_step) noexcept nogil:
    """The vectors of further samples, then the last one a few times more: whole tiles are computed."""
    cdef int64_t i, one = w.vectors
    w.vectors *= s.together
    for i in range(one, w.vectors + ABREAST - 1 if one else 0):
        w.at[i] = w.at[i - one] + at_step if i < w.vectors else w.at[i - 1]
        w.to[i] = w.to[i - one] + to_step if i < w.vectors else w.to[i - 1]


cdef inline int64_t place_of(const Strips* s, const Planes* p, const Geometry* part, const int64_t* residue,
                             int64_t tap) noexcept nogil:
    """The offset of a tap in the strip; -1: it does not belong to the class of these residues."""
    cdef int64_t k, offset = 0, phase = p.plane
    cdef int i
    for i in range(part.rank - 1, -1, -1):
        k = tap % part.ker[i]
        tap //= part.ker[i]
        if s.kind == CONV_INPUT:
            if k * part.dil[i] % part.stride[i] != residue[i]:
                return -1
            offset += (reach(part, i) - k * part.dil[i] // part.stride[i]) * p.pitch[i]
        else:
            offset += tap_step(part, p, i, k, phase)
            phase *= p.phases[i]
    return offset


cdef inline void list_run(const Strips* s, const Geometry* part, int64_t channel, int64_t tap, int64_t a, int64_t b,
                          lnn_sweep* w) noexcept nogil:
    """The taps below `tap` of its phase, if it is the first: from the top of the strip down, a few at a time."""
    cdef int axis = part.rank - 2
    cdef int64_t every = period(part.stride[axis], part.dil[axis]), k = tap // part.ker[axis + 1] % part.ker[axis]
    cdef int64_t count = (part.ker[axis] - k + every - 1) // every, taken = 0
    if k >= every:
        return
    if s.kind == CONV_INPUT:            # later taps lie higher
        a -= (count - 1) * w.a_step
        b -= (count - 1) * w.b_step
    while taken < count:
        w.run[w.runs].a = a + taken * w.a_step
        w.run[w.runs].b = b + taken * w.b_step
        w.run[w.runs].taps = min(count - taken, <int64_t>LNN_RUN)
        taken += w.run[w.runs].taps
        w.runs += 1


cdef inline void list_terms(const Strips* s, const Planes* p, const Geometry* part, const int64_t* residue,
                            lnn_sweep* w) noexcept nogil:
    """Every (channel, tap) of the class, or their runs; the lengths are those of one channel."""
    cdef int64_t channel, tap, offset, weights = part.taps * (part.cg if s.kind == CONV_INPUT else 1)
    cdef int axis = part.rank - 2
    w.terms = w.runs = 0
    if s.tall:
        w.b_step = apart(part, axis) * p.pitch[axis]
        w.a_step = period(part.stride[axis], part.dil[axis]) * part.ker[axis + 1]
        if s.kind == CONV_INPUT:
            w.a_step = -w.a_step
    for channel in range(s.chunk):
        for tap in range(part.taps):
            offset = place_of(s, p, part, residue, tap)
            if offset < 0:
                continue
            if s.tall:
                list_run(s, part, channel, tap, channel * weights + tap, channel * p.channel + offset, w)
            else:
                w.a[w.terms] = channel * weights + tap
                w.b[w.terms] = (channel * p.channel + offset) * s.deep
                w.terms += 1
    w.terms, w.runs = w.terms // s.chunk, w.runs // s.chunk


cdef inline void list_class(const Strips* s, Plan* plan, const Geometry* part, const int64_t* residue,
                            lnn_sweep* w) noexcept nogil:
    """One output class: for conv_input the outer residues it has, else (residue all 0) everything."""
    cdef int64_t counts[MAX_RANK]
    cdef int64_t at_step[MAX_RANK]
    cdef int64_t to_step[MAX_RANK]
    cdef int64_t at = 0, to = 0, pitch = 1, first, size, distance
    cdef int i, last = part.rank - 1
    for i in range(last, -1, -1):
        size = part.inp[i] if s.kind == CONV_INPUT else part.out[i]
        counts[i], at_step[i], to_step[i] = size, plan.planes.pitch[i], pitch
        if s.kind == CONV_INPUT:        # cells first, first + stride, … have this residue
            first = (residue[i] - part.pad[i] % part.stride[i] + part.stride[i]) % part.stride[i]
            counts[i] = (size - first + part.stride[i] - 1) // part.stride[i] if first < size else 0
            at += ((first + part.pad[i]) // part.stride[i] - part.pad[i] // part.stride[i]) * plan.planes.pitch[i]
            to += first * pitch
            to_step[i] = pitch * part.stride[i]
        pitch *= size
    distance = apart(part, last - 1) if s.tall else 1
    list_vectors(s, w, part.rank, &counts[0], distance, at, &at_step[0], to, &to_step[0])
    list_samples(s, w, s.chunk * plan.planes.channel, (part.c if s.kind == CONV_INPUT else part.o) * s.size * s.rest)
    list_terms(s, &plan.planes, part, residue, w)
    # a vector longer than its row may spill into the next row if that is stored later
    w.limit = pitch if s.classes == 1 and distance == 1 else 0


cdef inline void make_plan(const Strips* s, const Geometry* g, int64_t strip, Plan* plan) noexcept nogil:
    """Everything for one strip. The lists of the classes lie one behind the other."""
    cdef Geometry part = part_of(s, g, strip)
    cdef int64_t residue[MAX_RANK]
    cdef int64_t k
    cdef int i
    cdef lnn_sweep* w
    cdef bint known = plan.strip >= 0 and plan.height == min(s.height, s.size - strip * s.height)
    measure_strip(s, &part, &plan.planes)
    plan.strip, plan.begin, plan.first = strip, strip * s.height * s.rest, 0
    plan.height = min(s.height, s.size - strip * s.height)
    list_rows(plan, &part, g.stride[g.rank - 1] if s.kind == CONV_INPUT else 1)
    memset(&residue[0], 0, sizeof(residue))
    for k in range(0 if known else s.classes):      # another strip of that height differs in its padding alone
        w = plan.sweeps + k
        w.share[0] = w.share[1] = w.share[2] = 0
        if k > 0:
            w.a, w.b = (w - 1).a + (w - 1).terms * s.chunk, (w - 1).b + (w - 1).terms * s.chunk
            w.run = (w - 1).run + (w - 1).runs * s.chunk
            w.at, w.to = (w - 1).at + (w - 1).vectors + ABREAST, (w - 1).to + (w - 1).vectors + ABREAST
        list_class(s, plan, &part, &residue[0], w)
        for i in range(g.rank - 2, -1, -1):
            residue[i] += 1
            if residue[i] < part.stride[i]:
                break
            residue[i] = 0
    if s.far:
        share_out(s, g.outs if s.kind == CONV_INPUT else g.cells, plan)


cdef inline void share_out(const Strips* s, int64_t source, Plan* plan) noexcept nogil:
    """What the next plane's strip reads and writes, in whole cache lines for each vector of the first class."""
    cdef lnn_sweep* w = plan.sweeps
    cdef int64_t vectors = max(w.vectors, <int64_t>1)
    plan.first = source * plan.strip * s.height // s.size
    w.share[0] = (source * plan.height * s.itemsize // (s.size * vectors) + 63) // 64 * 64
    w.share[1] = (plan.height * s.rest * s.itemsize // vectors + 63) // 64 * 64


cdef inline int64_t plan_bytes(const Strips* s) noexcept nogil:
    return (sizeof(Plan) + s.classes * sizeof(lnn_sweep)
            + (2 * s.rows + 3 * s.terms + 2 * s.vectors) * <int64_t>sizeof(int64_t))


cdef inline void open_plan(const Strips* s, Plan* plan) noexcept nogil:
    """Give the lists their places behind the plan."""
    cdef int64_t* ints
    plan.strip = -1
    plan.sweeps = <lnn_sweep*>(plan + 1)
    ints = <int64_t*>(plan.sweeps + s.classes)
    plan.copies.src, plan.copies.dst = ints, ints + s.rows
    ints += 2 * s.rows
    plan.sweeps[0].a, plan.sweeps[0].b, plan.sweeps[0].run = ints, ints + s.terms, <lnn_run*>ints
    ints += 3 * s.terms
    plan.sweeps[0].at, plan.sweeps[0].to = ints, ints + s.vectors
