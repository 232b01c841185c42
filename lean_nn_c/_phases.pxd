"""conv_input on strided axes: the residues of the stride as rows of one product.

Cell u of x_bar with u + pad = s*q + r gets w[k]*y_bar[q - e] from the taps k = s*e + r: one product over (output
channel, e) per residue r (see _planes.pxd). All residues read the same cells q - e, so they can be rows of a single
product, row (c, r), with a zero where s*e + r is no tap. A strip of cells q is then packed once for all residues, and its
sums are neighbours in x_bar: s of them in turn from s rows. Kernels that are multiples of the stride give no zeros.
Axes with stride 1 have one residue and e = k, dilation included.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy

from lean_nn_c._columns cimport MAX_TILE, Columns
from lean_nn_c._geometry cimport MAX_RANK, Geometry
from lean_nn_c._planes cimport Planes, reach
from lean_nn_c._simd cimport LNN_ROWS
from lean_nn_c._taps cimport ABREAST, Block, Taps
from lean_nn_c._types cimport real
from lean_nn_c.gemm cimport FEW, Panels, first_row, panels_of, rows_in

cdef enum:
    MOST = 16               # residues


cdef inline int64_t residues(const Geometry* g) noexcept nogil:
    cdef int i
    cdef int64_t count = 1
    for i in range(g.rank):
        count *= g.stride[i]
    return count


cdef inline int64_t steps(const Geometry* g, int i) noexcept nogil:
    """Values of e on an axis."""
    return (g.ker[i] + g.stride[i] - 1) // g.stride[i]


cdef inline int64_t terms_per_channel(const Geometry* g) noexcept nogil:
    cdef int i
    cdef int64_t count = 1
    for i in range(g.rank):
        count *= steps(g, i)
    return count


cdef inline bint phases_pay(const Geometry* g) noexcept nogil:
    """Hardly any zeros among the weights; or so few rows otherwise that even half of them zeros is less to do.

    Measured: 4 x 4 stride 2, 32 channels, no zeros: 0.85 to 1.05 of PyTorch's speed; 7 x 7 stride 2, 3 channels, a
    quarter zeros: conv_input in float64 twice as fast. The bounds between are estimates from the panels' heights.
    """
    cdef int i
    cdef double rows = residues(g), zeros = 1
    if rows == 1 or rows > MOST or rows * g.cg < FEW:
        return False
    for i in range(g.rank):
        if g.stride[i] > 1 and (g.dil[i] != 1 or g.ker[i] < g.stride[i]):
            return False
        zeros *= <double>g.ker[i] / (steps(g, i) * g.stride[i])
    return zeros > 0.9 or (g.cg < FEW and zeros > 0.5)


cdef inline void open_phases(const Geometry* g, const Planes* p, Columns* c, Taps* t, int64_t* place) noexcept nogil:
    """Columns (all q), offsets of a block in the planes, and of every (residue, e) in the weight: -1 is no tap."""
    cdef int64_t index, rest, tap, size, k, offset, channel, r, e
    cdef int i
    c.rank, c.base, c.dest, c.direct = g.rank, 0, 0, p.direct
    for i in range(g.rank):
        c.count[i] = (g.pad[i] + g.inp[i] - 1) // g.stride[i] - g.pad[i] // g.stride[i] + 1
        c.pitch[i], c.step[i] = p.pitch[i], 0
        c.base += reach(g, i) * p.pitch[i]
    for index in range(residues(g) * t.count):
        r, e, tap, size, offset = index // t.count, index % t.count, 0, 1, 0
        for i in range(g.rank - 1, -1, -1):
            k = e % steps(g, i) * g.stride[i] + r % g.stride[i]
            offset -= e % steps(g, i) * (g.dil[i] if g.stride[i] == 1 else 1) * p.pitch[i]
            e //= steps(g, i)
            r //= g.stride[i]
            tap = tap + k * size if k < g.ker[i] and tap >= 0 else -1
            size *= g.ker[i]
        place[index] = tap
        if index < t.count:
            for channel in range(max(t.together, 1)):
                t.b[channel * t.count + index] = channel * t.b_channel + offset


cdef inline void pack_phases(const Geometry* g, const Taps* t, const Block* k, const int64_t* place, const real* w,
                             int64_t channels, real* out) noexcept nogil:
    """Rows (c, r) of `channels` channels, one block of terms, as panels."""
    cdef int64_t off[LNN_ROWS]          # of a panel's rows in the weight, for one e; -1: no tap
    cdef int64_t phases = residues(g), count = t.count if t.together else k.terms
    cdef int64_t summed = k.terms // count, at_once = ABREAST // count + 1, first = 0, panel, e, row, tap
    cdef int i, mr
    cdef bint neighbours
    cdef Panels p = panels_of(channels * phases)
    while first < summed:
        for panel in range(p.count):
            mr = rows_in(&p, panel)
            for e in range(count):
                neighbours = mr == LNN_ROWS
                for i in range(mr):
                    row = first_row(&p, panel) + i
                    tap = place[row % phases * t.count + k.first + e]
                    off[i] = row // phases * g.taps + tap if tap >= 0 else -1
                    neighbours = neighbours and off[i] == off[0] + i and off[0] >= 0
                pack_term(w + k.a + first * t.a_channel, t.a_channel, &off[0], mr, neighbours, min(at_once, summed - first),
                          out + (panel * k.terms + first * count + e) * LNN_ROWS, count * LNN_ROWS)
        first += at_once


cdef inline void pack_term(const real* w, int64_t step, const int64_t* off, int mr, bint neighbours, int64_t channels,
                           real* out, int64_t out_step) noexcept nogil:
    """A panel's rows of one e, for some of the channels summed over."""
    cdef int64_t channel
    cdef int i
    for channel in range(channels):
        if neighbours:
            memcpy(out, w + off[0], LNN_ROWS * sizeof(real))
        else:
            for i in range(mr):
                out[i] = w[off[i]] if off[i] >= 0 else 0
        w += step
        out += out_step


cdef inline void interleave(const real* sums, int64_t lds, int64_t length, int64_t rows, real* out) noexcept nogil:
    """out[rows*j + r] = sums[r*lds + j]."""
    cdef int64_t j, r
    cdef const real* second = sums + lds
    if rows == 1:
        memcpy(out, sums, length * sizeof(real))
    elif rows == 2:                     # a constant step lets the compiler use vectors
        for j in range(length):
            out[2 * j] = sums[j]
            out[2 * j + 1] = second[j]
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


cdef inline void spread_phases(const Geometry* g, const Columns* c, int64_t column, int64_t columns, int64_t channels,
                               const real* sums, int64_t lds, real* out) noexcept nogil:
    """Sums of cells column .. column+columns, rows (c, r), to their places in `channels` image planes."""
    cdef int64_t at[MAX_RANK]
    cdef int64_t rest = column, done = 0, length, outer, r, u, offset, size, channel, phases = residues(g)
    cdef int i, last = g.rank - 1
    cdef bint inside
    for i in range(last, -1, -1):
        at[i] = rest % c.count[i]
        rest //= c.count[i]
    while done < columns:
        length = min(c.count[last] - at[last], columns - done)
        for outer in range(phases // g.stride[last]):
            r, offset, size, inside = outer, 0, g.inp[last], True
            for i in range(last - 1, -1, -1):
                u = (at[i] + g.pad[i] // g.stride[i]) * g.stride[i] + r % g.stride[i] - g.pad[i]
                r //= g.stride[i]
                inside = inside and 0 <= u < g.inp[i]
                offset += u * size
                size *= g.inp[i]
            if inside:
                u = (at[last] + g.pad[last] // g.stride[last]) * g.stride[last] - g.pad[last]
                for channel in range(channels):
                    spread_row(sums + (channel * phases + outer * g.stride[last]) * lds + done, lds, length,
                               g.stride[last], u, g.inp[last], out + channel * g.cells + offset)
        done += length
        at[last] = 0
        for i in range(last - 1, -1, -1):
            at[i] += 1
            if at[i] < c.count[i]:
                break
            at[i] = 0
