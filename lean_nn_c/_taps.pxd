"""The terms of a tap product, and the classes of its outputs.

A term is a (channel, tap) pair: an offset in the weight and one in the planes. Terms are summed in blocks of whole
channels, BLOCK terms or fewer, so that one table of offsets serves every block. conv has one class of outputs;
conv_input has one per residue of the stride that some tap has. _bands.pxd cuts them further.
"""

from libc.stdint cimport int64_t

from lean_nn_c._columns cimport Columns
from lean_nn_c._geometry cimport Geometry, ceil_div, floor_div
from lean_nn_c._planes cimport Planes, period, reach, tap_step

cdef enum:
    BLOCK = 384             # terms of a partial sum, at most
    ABREAST = 16            # terms that conv_input packs for all panels in turn: they lie far apart in the weight, and their
                            # rows side by side, so that each line of it comes into the cache once


cdef struct Taps:
    int64_t count               # taps per channel
    int64_t channels            # channels summed over
    int64_t together            # channels of a block (0: a block is a part of one channel's taps)
    int64_t blocks
    int64_t a_channel, b_channel
    bint patches                # _patches.pxd
    int64_t* a                  # offsets of one block in A and in the planes
    int64_t* b


cdef struct Block:
    int64_t terms, a, b, first


cdef inline Block block_at(const Taps* t, int64_t index) noexcept nogil:
    cdef Block k
    cdef int64_t parts, channel
    k.first = 0
    if t.together:
        channel = index * t.together
        k.terms = min(t.together, t.channels - channel) * t.count
    else:
        parts = (t.count + BLOCK - 1) // BLOCK
        channel = index // parts
        k.first = (index % parts) * BLOCK
        k.terms = min(<int64_t>BLOCK, t.count - k.first)
    k.a = channel * t.a_channel
    k.b = channel * t.b_channel
    return k


cdef inline void split_terms(Taps* t) noexcept nogil:
    """How the sum over (channel, tap) is cut into blocks; independent of the number of threads."""
    t.together = BLOCK // t.count
    if t.together:
        t.blocks = max((t.channels + t.together - 1) // t.together, 1)
        t.together = max((t.channels + t.blocks - 1) // t.blocks, 1)        # blocks of about one size
    else:
        t.blocks = t.channels * ((t.count + BLOCK - 1) // BLOCK)
    t.blocks = max(t.blocks, 1)         # no channels at all: one empty block writes the bias


cdef inline int64_t table_length(int64_t taps) noexcept nogil:
    return max(<int64_t>BLOCK, taps)


cdef inline void fill_tables(Taps* t, const Geometry* g, const Planes* p, const int64_t* residue, const int64_t* low,
                             const int64_t* high, int64_t size) noexcept nogil:
    """Offsets of every (channel, tap) of a block: of all taps (residue NULL) or those of one residue of conv_input, the ones
    from `low` to `high` on each axis. Neighbours in the weight are `size` apart."""
    cdef int64_t count = 1, phase_size = p.plane, tap, k, a, b, channel
    cdef int i
    t.a[0] = t.b[0] = 0
    for i in range(g.rank - 1, -1, -1):         # what there is of inner axes, once more for every tap of this one, the first last
        for k in range(high[i] - 1, low[i] - 1, -1):
            if residue == NULL:
                a, b = k, tap_step(g, p, i, k, phase_size)
            else:
                a = residue[i] + k * period(g.stride[i], g.dil[i])
                b = -(a * g.dil[i] // g.stride[i]) * p.pitch[i]
            for tap in range(count):
                t.a[(k - low[i]) * count + tap] = t.a[tap] + a * size
                t.b[(k - low[i]) * count + tap] = t.b[tap] + b
        count *= high[i] - low[i]
        size *= g.ker[i]
        phase_size *= p.phases[i]
    for channel in range(1, t.together):
        for tap in range(t.count):
            t.a[channel * t.count + tap] = channel * t.a_channel + t.a[tap]
            t.b[channel * t.count + tap] = channel * t.b_channel + t.b[tap]


cdef inline void columns_of_output(Columns* c, const Geometry* g, const Planes* p) noexcept nogil:
    cdef int i
    cdef int64_t step = 1
    c.rank, c.base, c.dest, c.direct = g.rank, 0, 0, p.direct
    for i in range(g.rank - 1, -1, -1):
        c.count[i], c.q[i], c.pitch[i], c.step[i] = g.out[i], p.q[i], p.pitch[i], step
        step *= g.out[i]


cdef inline bint columns_of_image(Columns* c, const Geometry* g, const Planes* p,
                                  const int64_t* residue) noexcept nogil:
    """The image cells u with u + pad of the given residues; False when there are none."""
    cdef int i
    cdef int64_t step = 1, r, low, high
    c.rank, c.base, c.dest, c.direct = g.rank, 0, 0, p.direct
    for i in range(g.rank - 1, -1, -1):
        r = residue[i] * g.dil[i] % g.stride[i]
        low = ceil_div(g.pad[i] - r, g.stride[i])
        high = floor_div(g.pad[i] + g.inp[i] - 1 - r, g.stride[i])
        if high < low:
            return False
        c.count[i], c.q[i], c.pitch[i] = high - low + 1, p.q[i], p.pitch[i]
        c.step[i] = step * g.stride[i]
        c.base += (low - g.pad[i] // g.stride[i] + reach(g, i)) * p.pitch[i]
        c.dest += (g.stride[i] * low + r - g.pad[i]) * step
        step *= g.inp[i]
    return True


cdef inline bint next_residue(const Geometry* g, int64_t* residue) noexcept nogil:
    cdef int i
    for i in range(g.rank - 1, -1, -1):
        residue[i] += 1
        if residue[i] < min(g.ker[i], period(g.stride[i], g.dil[i])):
            return True
        residue[i] = 0
    return False


cdef inline bint covers(const Geometry* g) noexcept nogil:
    """Whether every residue of the stride has a tap, so that conv_input writes every cell."""
    cdef int i
    for i in range(g.rank):
        if min(g.ker[i], period(g.stride[i], g.dil[i])) < g.stride[i]:
            return False
    return True
