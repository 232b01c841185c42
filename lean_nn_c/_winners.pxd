"""conv_weight and conv_input where y_bar is zero but at the winners of a max pooling.

    w_bar[o, c, k]   = sum over n and windows p of  g[n, o, p] * x~[n, c, idx(n, o, p)*s + k*d - pad]
    x_bar[n, c, u]   = sum over o, k and windows p with idx(n, o, p)*s + k*d - pad = u of  g[n, o, p] * w[o, c, k]

Spreading g over an array of the output's size and multiplying all its cells is windows / outs useful work: a quarter, behind
windows of 2 x 2, which is no more than Winograd's products, without his transforms. Here each winner is looked up.

**Planes.** The image, or its gradient, lies in a padded *plane* whose cells hold `each` channels of a group, neighbours in
memory; a group has `blocks` of them. Output cell q begins at `place[q]`. The taps of a kernel row (dilation 1 on the last
axis) are neighbours too, so that what a winner meets of a block along a kernel row is one run of each * taps values: a *row*,
as long as a few vectors. Of one or a few channels a row is one vector, and several rows are summed together (winners.h).

**conv_weight.** The rows of output channel o are sums over its winners of g times the run at the winner's place. A thread
takes some output channels and walks all samples, filling planes of its own for each; windows are taken by BAND, so that
the cells they meet stay in the first-level cache. **conv_input.** The weight lies in rows as well, and the winners
are sorted by their cells, since some output channels have won in each: a cell's sum over those of g times their runs is
added to the plane at its place. The output channels are taken by as many as the first-level cache holds the rows of; a thread
takes samples, or some of their blocks.

What a thread gets never decides how: the bits depend on the geometry alone. Error: gamma_n, n = samples * windows and
channels * taps. Memory per thread: the padded planes of a group's channels, and the sums or the sorted winners; for
conv_input, the weight in rows, at most WEIGHT bytes.

Zeros that are not multiplied make no NaN of an infinite factor, and padding zeros that are, make one of an infinite g: the
caller looks for both, and takes the long way. In float32 alone: what is computed in doubles is rarely in a hurry.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from lean_nn_c._geometry cimport Geometry
from lean_nn_c._winners_plan cimport BAND, Winners

cdef extern from "winners.h" nogil:
    void lnn_at(int rows, const float* src, const int32_t* place, const int64_t* off, int64_t n, const float* g,
                const int64_t* idx, float* sums) noexcept
    void lnn_along(int vectors, const float* src, int64_t n, const float* g, const int32_t* at, float* sums) noexcept


cdef inline void list_places(const Winners* s, const Geometry* g, int32_t* place) noexcept nogil:
    """Where each output cell begins, in a plane."""
    cdef int64_t row, rest, pitch, at
    cdef int axis, last = g.rank - 1
    for row in range(g.outs // g.out[last]):
        rest, pitch, at = row, s.size[last], 0
        for axis in range(last - 1, -1, -1):
            at += rest % g.out[axis] * g.stride[axis] * pitch
            rest //= g.out[axis]
            pitch *= s.size[axis]
        for rest in range(g.out[last]):
            place[row * g.out[last] + rest] = <int32_t>((at + rest * g.stride[last]) * s.each)


cdef inline void list_rows(const Winners* s, const Geometry* g, int64_t* off) noexcept nogil:
    """Where each row lies beside an output's first cell; rows there are not repeat the first."""
    cdef int64_t i, rest, pitch, at
    cdef int axis
    for i in range(s.rows):
        rest, pitch, at = i // s.parts, s.size[g.rank - 1], 0
        for axis in range(g.rank - 2, -1, -1):
            at += rest % g.ker[axis] * g.dil[axis] * pitch
            rest //= g.ker[axis]
            pitch *= s.size[axis]
        off[i] = rest * s.plane + at * s.each + i % s.parts * s.width if i < s.real_rows else 0


cdef inline void move_channel(const Winners* s, const Geometry* g, float* x, float* plane, bint back) noexcept nogil:
    """The real cells of one channel, into its plane or (`back`) out of it; the padding is zero already."""
    cdef int64_t row, rest, pitch, at, u, i, last = g.rank - 1
    cdef int64_t count = max(<int64_t>0, min(g.inp[last], s.size[last] - g.pad[last]))
    cdef int axis
    cdef bint inside
    for row in range(g.cells // g.inp[last]):
        rest, pitch, at, inside = row, s.size[last], g.pad[last], True
        for axis in range(g.rank - 2, -1, -1):
            u = rest % g.inp[axis] + g.pad[axis]
            rest //= g.inp[axis]
            inside = inside and u < s.size[axis]
            at += u * pitch
            pitch *= s.size[axis]
        at *= s.each
        if not back:
            for i in range(count if inside else 0):
                plane[at + i * s.each] = x[row * g.inp[last] + i]
            continue
        for i in range(count if inside else 0):
            x[row * g.inp[last] + i] = plane[at + i * s.each]
        for i in range(count if inside else 0, g.inp[last]):
            x[row * g.inp[last] + i] = 0


# --- conv_weight ---


cdef inline void add_winners(const Winners* s, const float* planes, const int32_t* place, const int64_t* off, int64_t first,
                             int64_t stop, int64_t windows, const float* g, const int64_t* idx, float* sums) noexcept nogil:
    """Some windows of an output channel, to its rows first..stop."""
    cdef int32_t at[BAND]
    cdef int64_t i
    if s.together > 1:
        for i in range(first // s.together, stop // s.together):
            lnn_at(s.together, planes, place, off + i * s.together, windows, g, idx, sums + i * s.together * s.width)
        return
    for i in range(windows):
        at[i] = place[idx[i]]
    for i in range(first, stop):
        lnn_along(<int>(s.width // s.lanes), planes + off[i], windows, g, at, sums + i * s.width)


cdef inline void move_rows(const Winners* s, const Geometry* g, float* rows, int64_t pitch, float* w, bint back) noexcept nogil:
    """The weights of an output channel into rows that lie `pitch` apart, or (`back`) out of them."""
    cdef int64_t c, line, k, last = g.ker[g.rank - 1], i
    cdef float* row
    for c in range(g.cg):
        for line in range(s.lines):
            row = rows + (c // s.each * s.lines + line) * s.parts * pitch
            for k in range(last):
                i = k * s.each + c % s.each
                i = i // s.width * pitch + i % s.width
                if back:
                    w[(c * s.lines + line) * last + k] = row[i]
                else:
                    row[i] = w[(c * s.lines + line) * last + k]


cdef inline void some_outputs(const Winners* s, const Geometry* g, int64_t windows, const int32_t* place, const int64_t* off,
                              const float* x, const float* y_bar, const int64_t* idx, float* w_bar, int64_t first,
                              int64_t stop, float* planes) noexcept nogil:
    """w_bar of the output channels first..stop."""
    cdef int64_t o, n, c, group, begin, end, p, i, at, row, turn = s.rows if s.together > 1 else s.lines * s.parts
    cdef float* sums = planes + s.blocks * s.plane
    memset(planes, 0, (s.blocks * s.plane + (stop - first) * s.rows * s.width) * sizeof(float))
    for n in range(g.n):
        begin = first
        while begin < stop:
            group = begin // g.og
            end = min(stop, (group + 1) * g.og)
            for c in range(g.cg):
                move_channel(s, g, <float*>x + (n * g.c + group * g.cg + c) * g.cells,
                             planes + c // s.each * s.plane + c % s.each, False)
            p = 0
            while p < windows:
                for i in range(s.rows // turn):
                    row = i * turn
                    for o in range(begin, end):
                        at = (n * g.o + o) * windows + p
                        add_winners(s, planes, place, off, row, row + turn, min(s.band, windows - p), y_bar + at, idx + at,
                                    sums + (o - first) * s.rows * s.width)
                p += s.band
            begin = end
    for o in range(first, stop):
        move_rows(s, g, sums + (o - first) * s.rows * s.width, s.width, w_bar + o * g.cg * g.taps, True)


# --- conv_input ---


cdef struct Sorted:             # the winners of a sample by their cells
    int32_t* start              # of each cell's
    int32_t* at                 # rows of the output channel that won,
    float* g                    # and what it brings


cdef inline void sort_winners(const Winners* s, Sorted* by, int64_t outputs, int64_t outs, int64_t windows, const float* g,
                              const int64_t* idx) noexcept nogil:
    """By cells; those of a cell in the order of their channels."""
    cdef int64_t i, o
    cdef int32_t k
    memset(by.start, 0, (outs + 2) * sizeof(int32_t))
    for i in range(outputs * windows):
        by.start[idx[i] + 2] += 1
    for i in range(outs):
        by.start[i + 2] += by.start[i + 1]
    for o in range(outputs):
        for i in range(o * windows, (o + 1) * windows):
            k = by.start[idx[i] + 1]
            by.start[idx[i] + 1] = k + 1
            by.at[k], by.g[k] = <int32_t>(o * s.width), g[i]


cdef inline void some_blocks(const Winners* s, const Geometry* g, int64_t windows, const int32_t* place, const int64_t* off,
                             const float* y_bar, const int64_t* idx, const float* rows, float* x_bar, int64_t n,
                             int64_t group, int64_t first, int64_t stop, Sorted* by, float* planes) noexcept nogil:
    """x_bar of the blocks first..stop of a sample's group; `rows` is the group's weight, row by row, all its outputs each."""
    cdef int64_t o = 0, i, q, c, outputs
    memset(planes, 0, (stop - first) * s.plane * sizeof(float))
    while o < g.og:
        outputs = min(s.outputs, g.og - o)
        i = (n * g.o + group * g.og + o) * windows
        sort_winners(s, by, outputs, g.outs, windows, y_bar + i, idx + i)
        for i in range(first * s.lines * s.parts, stop * s.lines * s.parts):
            for q in range(g.outs):
                if by.start[q + 1] > by.start[q]:
                    lnn_along(<int>(s.width // s.lanes), rows + (i * g.og + o) * s.width, by.start[q + 1] - by.start[q],
                              by.g + by.start[q], by.at + by.start[q], planes - first * s.plane + off[i] + place[q])
        o += outputs
    for c in range(first * s.each, min(g.cg, stop * s.each)):
        move_channel(s, g, x_bar + (n * g.c + group * g.cg + c) * g.cells,
                     planes + (c // s.each - first) * s.plane + c % s.each, True)
