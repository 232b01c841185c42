"""Padded planes, split by stride phase: where every kernel cell is a constant offset.

Output cell p of an axis reads, for kernel cell k, the padded cell  u = p*s + k*d.  Write  k*d = s*e + r
with 0 <= r < s; then u = s*(p + e) + r: cell p + e of the plane that holds every s-th cell from r on. So with
planes[c][r][q] = x~[c, s*q + r - pad] and q running over Q = P + max e cells per axis, output j (a flat index
with the planes' pitch) needs planes[c][r(k)][j + e(k)], and a kernel cell ("tap") is nothing but the offset
of (r, e), whatever the rank, stride and dilation. Residues repeat with period s/gcd(s, d) in k: only the
planes that some tap reads exist.

conv_input reads the output's cotangent the same way: x_bar[u - pad] with u = s*q + r gets w[k]*y_bar[q - e(k)] from
the taps of residue r: one stride-1 product per residue, over one zero-padded plane of y_bar.

When stride is 1 and nothing is padded, the image is its own plane and nothing is copied. Else planes are filled row by
row; where rows are short, a list of the cells that are not padding, made once for all channels, says more quickly what
goes where (3 x 3 stride 3 on 14 x 14: 2.2 times as fast a convolution; 5 x 5 x 5 stride 3 on 16 x 16 x 16: 1.2 times).
Every second cell of a row is picked in registers (1 x 1 stride 2 of 16 channels, 32 x 32: conv_weight 1.46 times as fast), and
rows of larger steps that are not listed are turned as matrices, all phases together (16 x 16 stride 16: 1.1 to 1.2 times).
"""

from libc.stdint cimport int64_t, uint16_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from lean_nn_c._geometry cimport MAX_RANK, Geometry, ceil_div, clip
from lean_nn_c._simd cimport LNN_LONG_ROW, runs, unzip
from lean_nn_c._types cimport real

cdef enum:
    LISTED = 16384          # cells of a channel's planes, at most, that are listed
    SHORT = 24              # cells of a row up to which a list is quicker
    MANY = 64               # channels that pay for making one


cdef struct Cells:              # that are not padding: cell to[i] of a channel's planes is cell source[i] of the channel,
    int64_t count
    int64_t run                 # as are, of every step-th cell, so many from there on
    uint16_t to[LISTED]
    uint16_t source[LISTED]


cdef struct Planes:
    int rank
    int64_t size[MAX_RANK]      # source cells per axis
    int64_t step[MAX_RANK]      # source cell of plane cell q and phase i: step*q + residue(i) - shift
    int64_t shift[MAX_RANK]
    int64_t dil[MAX_RANK]       # residue(i) = i*dil mod step
    int64_t phases[MAX_RANK]
    int64_t q[MAX_RANK]         # plane cells per axis
    int64_t pitch[MAX_RANK]
    int64_t plane, channel      # cells of one phase; of all phases of a channel
    bint direct                 # the source serves as it is
    bint patches                # windows are read where they lie: pitches are those of neighbouring outputs (_patches.pxd)
    const Cells* cells          # the list, or NULL


cdef inline int64_t period(int64_t stride, int64_t dil) noexcept nogil:
    """Kernel cells k and k + period read the same residue."""
    cdef int64_t a = stride, b = dil, t
    while b:
        t = a % b
        a = b
        b = t
    return stride // a


cdef inline int64_t reach(const Geometry* g, int i) noexcept nogil:
    """max e: how far the last kernel cell reaches, in strides."""
    return ((g.ker[i] - 1) * g.dil[i]) // g.stride[i]


cdef inline int64_t tap_step(const Geometry* g, const Planes* p, int i, int64_t k, int64_t phase) noexcept nogil:
    """How far tap k of an axis lies from its first, on planes of an image; `phase` is the distance of the axis's phases."""
    if p.patches:
        return k * g.dil[i] * (p.pitch[i] // g.stride[i])
    return k % period(g.stride[i], g.dil[i]) * phase + k * g.dil[i] // g.stride[i] * p.pitch[i]


cdef inline double measure(Planes* p, int itemsize) noexcept nogil:
    """Set pitches and sizes; returns the cells of one channel (as a float: it may be too many)."""
    cdef int i
    cdef double total = 1
    p.cells, p.patches = NULL, False
    for i in range(p.rank):
        total *= <double>p.q[i] * <double>p.phases[i]
    if total > 1e15:
        return total
    p.plane = p.channel = 1
    for i in range(p.rank - 1, -1, -1):
        p.pitch[i] = p.plane
        p.plane *= p.q[i]
        p.channel *= p.phases[i]
    p.channel *= p.plane
    # channels a power of two apart would all fall into the same cache sets
    if not p.direct and p.channel * itemsize % 1024 == 0:
        p.channel += 64 // itemsize
    return total


cdef inline double planes_of_image(Planes* p, const Geometry* g, int itemsize) noexcept nogil:
    cdef int i
    p.rank = g.rank
    p.direct = True
    for i in range(g.rank):
        p.size[i] = g.inp[i]
        p.step[i] = g.stride[i]
        p.shift[i] = g.pad[i]
        p.dil[i] = g.dil[i]
        p.phases[i] = min(g.ker[i], period(g.stride[i], g.dil[i]))
        p.q[i] = g.out[i] + reach(g, i)
        if g.stride[i] != 1 or g.pad[i] != 0 or p.q[i] != g.inp[i]:
            p.direct = False
    return measure(p, itemsize)


cdef inline double planes_of_output(Planes* p, const Geometry* g, int itemsize) noexcept nogil:
    cdef int i
    cdef int64_t first, last
    p.rank = g.rank
    p.direct = True
    for i in range(g.rank):
        first = g.pad[i] // g.stride[i]
        last = (g.inp[i] - 1) // g.stride[i] + (g.stride[i] - 1 + g.pad[i]) // g.stride[i]     # as _phases.pxd reads
        p.size[i] = g.out[i]
        p.step[i] = p.phases[i] = p.dil[i] = 1
        p.shift[i] = reach(g, i) - first
        p.q[i] = last - first + reach(g, i) + 1
        if p.shift[i] != 0 or p.q[i] != g.out[i]:
            p.direct = False
    return measure(p, itemsize)


cdef inline void fill_row(const real* src, int64_t step, int64_t low, int64_t high, int64_t q,
                          real* dst) noexcept nogil:
    """dst[i] = src[step*i] for low <= i < high, else 0."""
    cdef uint16_t here = 0
    cdef int64_t i
    for i in range(low):
        dst[i] = 0
    if step == 1 and high - low > 32:
        memcpy(dst + low, src + low, (high - low) * sizeof(real))
    elif step == 1:                 # short rows: a call would cost more than the copy
        for i in range(low, high):
            dst[i] = src[i]
    elif step == 2:
        runs(src + 2 * low, &here, &here, 1, high - low, 2, dst + low)
    else:
        for i in range(low, high):
            dst[i] = src[step * i]
    for i in range(high, q):
        dst[i] = 0


cdef inline bint splits(const Planes* p) noexcept nogil:
    """Whether the phases of a row are filled together: where all its cells, and these are many, are in some phase."""
    cdef int last = p.rank - 1
    return p.step[last] > 2 and p.phases[last] == p.step[last] and p.dil[last] == 1 and p.q[last] * p.step[last] >= LNN_LONG_ROW


cdef inline void split_row(const Planes* p, const real* src, int64_t low, int64_t high, real* dst) noexcept nogil:
    """All phases of a row, of which cells low .. high are real in each."""
    cdef int last = p.rank - 1
    cdef int64_t step = p.step[last], q = p.q[last], f, i, at, cell
    unzip(src + step * low - p.shift[last], step, high - low, dst + low, p.plane)
    for i in range(low + q - high):                 # what is before and behind them
        at = i if i < low else i - low + high
        for f in range(step):
            cell = step * at + f - p.shift[last]
            dst[f * p.plane + at] = src[cell] if 0 <= cell < p.size[last] else 0


cdef inline void fill_phase(const Planes* p, const int64_t* phase, const real* src, real* dst) noexcept nogil:
    """One phase of one channel, or all of the last axis, row by row."""
    cdef int64_t at[MAX_RANK]           # source coordinates of the row
    cdef int64_t start[MAX_RANK]
    cdef int64_t stride[MAX_RANK]
    cdef int64_t offset = 0, scale, row, first, low, high, rows
    cdef int i, outside = 0, last = p.rank - 1
    cdef bint split = splits(p)
    first = phase[last] * p.dil[last] % p.step[last] - p.shift[last]
    low = clip(ceil_div(-first, p.step[last]), 0, p.q[last])
    high = clip(ceil_div(p.size[last] - first - (p.step[last] - 1 if split else 0), p.step[last]), low, p.q[last])
    rows = p.plane // p.q[last]
    scale = p.size[last]
    for i in range(last - 1, -1, -1):
        start[i] = at[i] = phase[i] * p.dil[i] % p.step[i] - p.shift[i]
        stride[i] = scale
        offset += at[i] * scale
        scale *= p.size[i]
        outside += not 0 <= at[i] < p.size[i]
    for row in range(rows):
        if outside:
            for i in range(<int>p.step[last] if split else 1):
                memset(dst + i * p.plane, 0, p.q[last] * sizeof(real))
        elif split:
            split_row(p, src + offset, low, high, dst)
        else:
            fill_row(src + offset + first, p.step[last], low, high, p.q[last], dst)
        dst += p.q[last]
        for i in range(last - 1, -1, -1):
            outside -= not 0 <= at[i] < p.size[i]
            at[i] += p.step[i]
            offset += p.step[i] * stride[i]
            if at[i] < start[i] + p.step[i] * p.q[i]:
                outside += not 0 <= at[i] < p.size[i]
                break
            offset -= (at[i] - start[i]) * stride[i]
            at[i] = start[i]
            outside += not 0 <= at[i] < p.size[i]


cdef inline int64_t run_at(const Planes* p, const double* numbers, int64_t first) noexcept nogil:
    """Cells from one of the planes' on, in its row, that are not padding; of rows with steps above two, at most one."""
    cdef int last = p.rank - 1
    cdef int64_t length = 0, most = p.q[last] - first % p.q[last] if p.step[last] <= 2 else 1
    while length < most and numbers[first + length] != 0:
        length += 1
    return length


cdef inline int64_t shortest_run(const Planes* p, const double* numbers) noexcept nogil:
    cdef int64_t i = 0, length, least = p.q[p.rank - 1]
    while i < p.channel:
        length = run_at(p, numbers, i)
        if length:
            least = min(least, length)
        i += max(length, <int64_t>1)
    return least


cdef inline void list_cells(Planes* p, Cells* c, int64_t channels) noexcept nogil:
    """Make the list where it pays: it is what the rows make of a channel that counts its cells."""
    cdef int64_t i, count = 1, length, k
    cdef double number = 0
    cdef double* numbers
    cdef int last = p.rank - 1
    for i in range(p.rank):
        count = min(count * p.size[i], <int64_t>65536)
    if p.direct or channels < MANY or count > 65535 or p.channel > LISTED or p.q[last] > SHORT:
        return
    numbers = <double*>malloc((count + p.channel) * sizeof(double))
    if numbers == NULL:             # then row by row
        return
    for i in range(count):
        number += 1
        numbers[i] = number
    fill_rows(p, <const double*>numbers, numbers + count)
    c.run = shortest_run(p, <const double*>numbers + count)
    c.count = i = 0
    while i < p.channel:
        length = run_at(p, <const double*>numbers + count, i)
        for k in range((length + c.run - 1) // c.run):
            c.to[c.count] = <uint16_t>(i + min(k * c.run, length - c.run))      # a longer run's last piece overlaps
            c.source[c.count] = <uint16_t>(numbers[count + c.to[c.count]] - 1)
            c.count += 1
        i += max(length, <int64_t>1)
    p.cells = c
    free(numbers)


cdef inline void fill_channel(const Planes* p, const real* src, real* dst) noexcept nogil:
    """All phases of one channel, then zeros up to the next channel."""
    cdef int64_t i
    if p.cells != NULL:
        memset(dst, 0, p.channel * sizeof(real))
        if p.cells.run == 1:
            for i in range(p.cells.count):
                dst[p.cells.to[i]] = src[p.cells.source[i]]
        else:
            runs(src, p.cells.source, p.cells.to, p.cells.count, p.cells.run, <int>p.step[p.rank - 1], dst)
    else:
        fill_rows(p, src, dst)


cdef inline void fill_rows(const Planes* p, const real* src, real* dst) noexcept nogil:
    cdef int64_t phase[MAX_RANK]
    cdef int64_t phases = 1, k = 0, together = p.phases[p.rank - 1] if splits(p) else 1
    cdef int i
    for i in range(p.rank):
        phase[i] = 0
        phases *= p.phases[i]
    while k < phases and p.plane:
        fill_phase(p, &phase[0], src, dst + k * p.plane)
        k += together
        phase[p.rank - 1] += together - 1
        for i in range(p.rank - 1, -1, -1):
            phase[i] += 1
            if phase[i] < p.phases[i]:
                break
            phase[i] = 0
    memset(dst + phases * p.plane, 0, (p.channel - phases * p.plane) * sizeof(real))
