"""The strips of conv_weight: columns are (channel, tap), terms are output cells, in runs of neighbours on the planes."""

from libc.stdint cimport int64_t
from libc.stdlib cimport malloc

from lean_nn_c._columns cimport MAX_TILE
from lean_nn_c._geometry cimport MAX_RANK, Geometry
from lean_nn_c._patches cimport NEAR
from lean_nn_c._planes cimport Planes, tap_step
from lean_nn_c._simd cimport lanes, lnn_prefetch
from lean_nn_c._types cimport real
from lean_nn_c.taps cimport pack_columns, pack_piece

cdef enum:
    CELLS = 256             # output cells of a partial sum, at most


cdef struct Runs:               # the cells of one partial sum, as runs of neighbours in the planes
    int64_t count, terms
    int64_t start[CELLS]
    int64_t length[CELLS]


cdef inline int64_t* tap_offsets(const Geometry* g, const Planes* p) noexcept nogil:
    """Plane offsets of all taps, to be freed; NULL: no memory."""
    cdef int64_t* taps = <int64_t*>malloc(g.taps * sizeof(int64_t))
    cdef int64_t i
    for i in range(g.taps if taps != NULL else 0):
        taps[i] = tap_offset(g, p, i)
    return taps


cdef inline int64_t tap_offset(const Geometry* g, const Planes* p, int64_t tap) noexcept nogil:
    """Plane offset of a tap."""
    cdef int64_t rest = tap, offset = 0, phase = p.plane, k
    cdef int axis
    for axis in range(g.rank - 1, -1, -1):
        k = rest % g.ker[axis]
        rest //= g.ker[axis]
        offset += tap_step(g, p, axis, k, phase)
        phase *= p.phases[axis]
    return offset


cdef inline void add_runs(const Geometry* g, const Planes* p, int64_t base, int64_t first, int64_t count,
                   Runs* r) noexcept nogil:
    """Append output cells first .. first+count of the sample whose planes begin at `base`."""
    cdef int64_t at[MAX_RANK]
    cdef int64_t rest = first, offset, room
    cdef int axis, last = g.rank - 1
    for axis in range(last, -1, -1):
        at[axis] = rest % g.out[axis]
        rest //= g.out[axis]
    r.terms += count
    while count > 0:
        offset = base
        for axis in range(g.rank):
            offset += at[axis] * p.pitch[axis]
        room = min(g.out[last] - at[last], 1 if p.patches else count)
        if r.count and r.start[r.count - 1] + r.length[r.count - 1] == offset:
            r.length[r.count - 1] += room
        else:
            r.start[r.count], r.length[r.count] = offset, room
            r.count += 1
        count -= room
        at[last] += room - 1
        for axis in range(last, -1, -1):
            at[axis] += 1
            if at[axis] < g.out[axis]:
                break
            at[axis] = 0


cdef inline void bring_rows(const int64_t* columns, int64_t count, const int64_t* windows, int64_t terms, const real* image,
                            int64_t width, real* strip, int64_t ahead) noexcept nogil:
    """strip[k*width + j] = image[windows[k] + columns[j]]: columns that are neighbours together. What lies so far `ahead`, if not
    0, is called in."""
    cdef int64_t j = 0, k, length
    while j < count:
        length = 1
        while j + length < count and columns[j + length] == columns[j] + length:
            length += 1
        for k in range(terms if ahead else 0):
            lnn_prefetch(image + columns[j] + windows[k] + ahead)
        pack_piece(image + columns[j], windows, terms, length, width, strip + j)
        j += length


cdef inline void pack_strip(const Geometry* g, const Planes* p, const int64_t* taps, const Runs* r, const real* planes,
                     int64_t first, int64_t columns, int vectors, real* strip) noexcept nogil:
    """Columns first .. first+columns of one partial sum."""
    cdef int64_t off[MAX_TILE]
    cdef int64_t channel = first // g.taps, tap = first % g.taps, next = first + columns, j, ahead = 0
    for j in range(vectors * lanes(planes)):
        off[j] = channel * p.channel + taps[tap]
        if j + 1 < columns:             # columns there are not repeat the last one
            tap += 1
            if tap == g.taps:
                tap = 0
                channel += 1
    if p.patches:
        if g.cg * g.cells * <int64_t>sizeof(real) > NEAR:
            ahead = next // g.taps * p.channel + taps[next % g.taps] - off[0]
        bring_rows(&off[0], vectors * lanes(planes), &r.start[0], r.terms, planes, vectors * lanes(planes), strip, ahead)
    else:
        pack_columns(planes, &off[0], vectors, &r.start[0], &r.length[0], r.count, strip)
