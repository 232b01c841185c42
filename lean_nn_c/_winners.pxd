"""conv_weight where y_bar is zero but at the winners of a max pooling.

    w_bar[o, c, k] = sum over n and windows p of  g[n, o, p] * x~[n, c, idx(n, o, p)*s + k*d - pad]

Spreading g over an array of the output's size and multiplying all its cells is windows / outs useful work. Here each
winner is looked up: x is copied with its padding into a *plane*, in which output cell q reads from `place[q]` on, and the
taps of a kernel row (dilation 1 on the last axis) are neighbours: a vector of them at the winner's place times g, added to
a vector of sums, is all there is to do (winners.h). So a *row* is (channel, kernel row, part of it as long as a vector).

A thread takes some output channels and walks all samples, filling a plane of its own for each; a sample's share of a sum is
added as a whole. What a thread gets never decides how: the bits depend on the geometry alone. Error: gamma_n, n = samples *
windows. Memory: a padded plane of a group's channels per thread, a vector per row, and four bytes per output cell.

Zeros that are not multiplied make no NaN of an infinite x, and padding zeros that are, make one of an infinite g: the
caller looks for both, and takes the long way. In float32 alone: what is computed in doubles is rarely in a hurry.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from lean_nn_c._geometry cimport MAX_RANK, Geometry
from lean_nn_c._simd cimport LNN_BYTES

cdef extern from "winners.h" nogil:
    enum:
        LNN_AT_LEAST
        LNN_AT_MOST
    void lnn_at(int rows, const float* plane, const int32_t* place, const int64_t* off, int64_t n, const float* g,
                const int64_t* idx, float* sums) noexcept


cdef struct Winners:
    int64_t size[MAX_RANK]      # of the padded plane
    int64_t plane               # cells of a channel's, and what a vector may read behind it
    int64_t per_vector, parts   # cells of a vector; vectors along a kernel row
    int64_t real_rows, rows     # (channel, kernel row, part); rounded up to whole runs
    int together                # rows of a run


cdef inline bint set_winners(Winners* s, const Geometry* g) noexcept nogil:
    """The sizes; False where the plane is too large, or kernel rows are no neighbours."""
    cdef int i, last = g.rank - 1
    s.plane, s.per_vector = 1, LNN_BYTES // 4
    for i in range(g.rank):
        s.size[i] = (g.out[i] - 1) * g.stride[i] + (g.ker[i] - 1) * g.dil[i] + 1
        if <double>s.plane * s.size[i] * g.cg > 1e9:
            return False
        s.plane *= s.size[i]
    s.plane += s.per_vector
    s.parts = (g.ker[last] + s.per_vector - 1) // s.per_vector
    s.real_rows = g.cg * (g.taps // g.ker[last]) * s.parts
    s.together = LNN_AT_LEAST if runs(s, LNN_AT_LEAST) * LNN_AT_LEAST < runs(s, LNN_AT_MOST) * LNN_AT_MOST else LNN_AT_MOST
    s.rows = runs(s, s.together) * s.together
    return g.dil[last] == 1


cdef inline int64_t runs(const Winners* s, int together) noexcept nogil:
    return (s.real_rows + together - 1) // together


cdef inline void list_places(const Winners* s, const Geometry* g, int32_t* place) noexcept nogil:
    """Where each output cell begins to read, in the plane of its channel."""
    cdef int64_t row, rest, pitch, at
    cdef int axis, last = g.rank - 1
    for row in range(g.outs // g.out[last]):
        rest, pitch, at = row, s.size[last], 0
        for axis in range(last - 1, -1, -1):
            at += rest % g.out[axis] * g.stride[axis] * pitch
            rest //= g.out[axis]
            pitch *= s.size[axis]
        for rest in range(g.out[last]):
            place[row * g.out[last] + rest] = <int32_t>(at + rest * g.stride[last])


cdef inline void list_rows(const Winners* s, const Geometry* g, int64_t* off) noexcept nogil:
    """Where each row lies beside an output's first cell; rows there are not repeat the first."""
    cdef int64_t i, rest, pitch
    cdef int axis
    for i in range(s.rows):
        rest, pitch = i // s.parts, s.size[g.rank - 1]
        off[i] = i % s.parts * s.per_vector
        for axis in range(g.rank - 2, -1, -1):
            off[i] += rest % g.ker[axis] * g.dil[axis] * pitch
            rest //= g.ker[axis]
            pitch *= s.size[axis]
        off[i] = off[i] + rest * s.plane if i < s.real_rows else 0


cdef inline void fill_plane(const Winners* s, const Geometry* g, const float* x, float* plane) noexcept nogil:
    """The real cells of one channel; the padding is zero already."""
    cdef int64_t row, rest, pitch, at, u, last = g.rank - 1
    cdef int64_t count = min(g.inp[last], s.size[last] - g.pad[last])
    cdef int axis
    cdef bint inside
    for row in range(g.cells // g.inp[last] if count > 0 else 0):
        rest, pitch, at, inside = row, s.size[last], g.pad[last], True
        for axis in range(g.rank - 2, -1, -1):
            u = rest % g.inp[axis] + g.pad[axis]
            rest //= g.inp[axis]
            inside = inside and u < s.size[axis]
            at += u * pitch
            pitch *= s.size[axis]
        if inside:
            memcpy(plane + at, x + row * g.inp[last], count * sizeof(float))


cdef inline void add_winners(const Winners* s, const float* plane, const int32_t* place, const int64_t* off, int64_t windows,
                             const float* g, const int64_t* idx, float* sums) noexcept nogil:
    """One plane of windows, to all rows of its output channel."""
    cdef int64_t i = 0
    while i < s.rows:
        lnn_at(s.together, plane, place, off + i, windows, g, idx, sums + i * s.per_vector)
        i += s.together


cdef inline void take_rows(const Winners* s, const Geometry* g, const float* sums, float* w_bar) noexcept nogil:
    """An output channel's sums without what lies behind the kernel rows."""
    cdef int64_t i, last = g.ker[g.rank - 1], part
    for i in range(s.real_rows):
        part = i % s.parts * s.per_vector
        memcpy(w_bar + i // s.parts * last + part, sums + i * s.per_vector, min(s.per_vector, last - part) * sizeof(float))


cdef inline void some_outputs(const Winners* s, const Geometry* g, int64_t windows, const int32_t* place, const int64_t* off,
                              const float* x, const float* y_bar, const int64_t* idx, float* w_bar, int64_t first,
                              int64_t stop, float* plane) noexcept nogil:
    """w_bar of the output channels first..stop."""
    cdef int64_t o, n, c, i, size = s.rows * s.per_vector, group
    cdef float* sums = plane + g.cg * s.plane
    memset(plane, 0, (g.cg * s.plane + (stop - first) * size) * sizeof(float))
    for n in range(g.n):
        group = -1
        for o in range(first, stop):
            if o // g.og != group:
                group = o // g.og
                for c in range(g.cg):
                    fill_plane(s, g, x + (n * g.c + group * g.cg + c) * g.cells, plane + c * s.plane)
            i = (n * g.o + o) * windows
            add_winners(s, <const float*>plane, place, off, windows, y_bar + i, idx + i, sums + (o - first) * size)
    for o in range(first, stop):
        take_rows(s, g, <const float*>sums + (o - first) * size, w_bar + o * g.cg * g.taps)
