"""Padded planes, split by stride phase: where every kernel cell is a constant offset.

Output cell p of an axis reads, for kernel cell k, the padded cell  u = p*s + k*d.  Write  k*d = s*e + r
with 0 <= r < s; then u = s*(p + e) + r: cell p + e of the plane that holds every s-th cell from r on. So with
planes[c][r][q] = x~[c, s*q + r - pad] and q running over Q = P + max e cells per axis, output j (a flat index
with the planes' pitch) needs planes[c][r(k)][j + e(k)], and a kernel cell ("tap") is nothing but the offset
of (r, e), whatever the rank, stride and dilation. Residues repeat with period s/gcd(s, d) in k: only the
planes that some tap reads exist.

conv_input reads the output's cotangent the same way: x_bar[u - pad] with u = s*q + r gets w[k]*y_bar[q - e(k)] from
the taps of residue r: one stride-1 product per residue, over one zero-padded plane of y_bar.

When stride is 1 and nothing is padded, the image is its own plane and nothing is copied.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from lean_nn_c._geometry cimport MAX_RANK, Geometry, ceil_div, clip, floor_div
from lean_nn_c._types cimport real


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


cdef inline double measure(Planes* p, int itemsize) noexcept nogil:
    """Set pitches and sizes; returns the cells of one channel (as a float: it may be too many)."""
    cdef int i
    cdef double total = 1
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
        last = (g.pad[i] + g.inp[i] - 1) // g.stride[i]
        p.size[i] = g.out[i]
        p.step[i] = p.phases[i] = p.dil[i] = 1
        p.shift[i] = reach(g, i) - first
        p.q[i] = last - first + reach(g, i) + 1
        if p.shift[i] != 0 or p.q[i] != g.out[i]:
            p.direct = False
    return measure(p, itemsize)


cdef inline void fill_row(const real* src, int64_t size, int64_t step, int64_t first, int64_t q,
                          real* dst) noexcept nogil:
    """dst[i] = src[first + step*i] where that cell exists, else 0."""
    cdef int64_t i, low = clip(ceil_div(-first, step), 0, q), high = clip(ceil_div(size - first, step), low, q)
    memset(dst, 0, low * sizeof(real))
    memset(dst + high, 0, (q - high) * sizeof(real))
    if low == high:
        return
    if step == 1:
        memcpy(dst + low, src + first + low, (high - low) * sizeof(real))
    elif step == 2:                 # a constant step lets the compiler use vectors
        for i in range(low, high):
            dst[i] = src[first + 2 * i]
    else:
        for i in range(low, high):
            dst[i] = src[first + step * i]


cdef inline void fill_channel(const Planes* p, const real* src, real* dst) noexcept nogil:
    """All phases of one channel, then zeros up to the next channel."""
    cdef int64_t at[MAX_RANK]           # plane coordinates of the row
    cdef int64_t phase[MAX_RANK]
    cdef int64_t u, offset, scale, rows = 1, phases = 1, row, k
    cdef int i, last = p.rank - 1
    cdef bint inside
    for i in range(p.rank):
        phase[i] = 0
        phases *= p.phases[i]
    if p.q[last] == 0 or p.plane == 0:
        rows = 0
    else:
        rows = p.plane // p.q[last]
    for k in range(phases):
        for i in range(p.rank):
            at[i] = 0
        for row in range(rows):
            offset, scale, inside = 0, p.size[last], True
            for i in range(last - 1, -1, -1):
                u = p.step[i] * at[i] + phase[i] * p.dil[i] % p.step[i] - p.shift[i]
                inside = inside and 0 <= u < p.size[i]
                offset += u * scale
                scale *= p.size[i]
            if inside:
                fill_row(src + offset, p.size[last], p.step[last],
                         phase[last] * p.dil[last] % p.step[last] - p.shift[last], p.q[last], dst)
            else:
                memset(dst, 0, p.q[last] * sizeof(real))
            dst += p.q[last]
            for i in range(last - 1, -1, -1):
                at[i] += 1
                if at[i] < p.q[i]:
                    break
                at[i] = 0
        for i in range(last, -1, -1):
            phase[i] += 1
            if phase[i] < p.phases[i]:
                break
            phase[i] = 0
    memset(dst, 0, (p.channel - phases * p.plane) * sizeof(real))
