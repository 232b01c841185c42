"""Depthwise convolution straight from the image: every group has one channel, and small planes are not copied.

The sums of a plane are  y[p] = sum_k w[k] * x~[p*s + k*d - pad],  with vectors of neighbouring results p of one row (depthwise.h).
On the last axis the stride is 1: then what a kernel cell meets is such a vector of x as well, and the lanes beyond the
plane's edge are known beforehand: they are masked. On the other axes windows may stride and dilate as they like.

Rows     Results' rows are covered by *blocks*: vectors side by side, the last of which overlaps the one before. A row shorter than
         a vector spills into the rows below, which are stored later, and never beyond the plane. Where two or more rows are not
         longer than a vector, and image and results equally wide, it takes these *together*: 14 of 16 lanes for 7 x 7.
Places   Where a row of the image lies depends on a result's coordinates and a kernel cell's, but only on their sum p*s + k*d
         per axis. So these sums are numbered row by row (`span` of them per axis), and the plan lists once for each
         where its row begins, and its masks: most have the one for rows inside, or, in the padding, the one that is empty.
conv_input   is the same of y_bar with the kernel turned round, if no axis has a stride: read w from its end, and pad d*(k - 1) - pad.
conv_weight  meets the same places: w_bar[k] = sum_p y_bar[p] * x~[p*s + k*d - pad] in a vector per k, over samples, rows and
         blocks, added up in the end. A mask switches off what blocks have in common.

A vector at the edge of a plane reads its neighbour's cells before they are masked. At the array's ends nothing may be read, so the
first planes and the last are copied to a place with room around them.

A lane that is switched off is a zero, and meets a weight: the caller sees to it that those are finite (for conv_weight: looks at
the result). Each sum is one chain over the kernel (for conv_weight, lanes of such chains added as a tree): its bits depend on
neither tiles nor threads. Error: gamma_n, as by taps.

Where it is ahead of strips, and of channels side by side, was measured: _depthwise_plan.pxd, `ahead`.

Memory: a plan of at most PLAN bytes, and per thread two planes of at most PLANE bytes with their room (and SUMS for conv_weight).
"""

from libc.stdint cimport int64_t

from lean_nn_c._geometry cimport MAX_RANK, Geometry
from lean_nn_c._types cimport real

cdef extern from "depthwise.h" nogil:
    enum:
        LNN_DEPTH_RUN
        LNN_DEPTH_TILE
    ctypedef struct Place "lnn_place":
        int64_t at
        const char* mask
    ctypedef enum Kind "lnn_depth_kind":
        LNN_DEPTH_ANY
        LNN_DEPTH_SHARED
        LNN_DEPTH_SLID
        LNN_DEPTH_OWN
    ctypedef struct Depth "lnn_depth":
        int64_t columns, column_step, rows
        const int64_t* row
        const int64_t* run
        int64_t step, shared
        Kind kind
    void lnn_depth_tile_f32(const Depth* d, int n, const float* plane, const Place* at, const float* w, Py_ssize_t w_step, float start,
                            float* out, Py_ssize_t down, Py_ssize_t left)
    void lnn_depth_tile_f64(const Depth* d, int n, const double* plane, const Place* at, const double* w, Py_ssize_t w_step,
                            double start, double* out, Py_ssize_t down, Py_ssize_t left)
    void lnn_depth_weight_f32(const Depth* d, const float* plane, const Place* at, const float* y_bar, const Place* y_at,
                              Py_ssize_t count, float* sums)
    void lnn_depth_weight_f64(const Depth* d, const double* plane, const Place* at, const double* y_bar, const Place* y_at,
                              Py_ssize_t count, double* sums)
    void lnn_depth_total_f32(const float* sums, Py_ssize_t n, float* w_bar)
    void lnn_depth_total_f64(const double* sums, Py_ssize_t n, double* w_bar)


# A geometry as this algorithm sees it, and the sizes of its plan.
cdef struct Depthwise:
    Geometry g                  # conv's; of conv_input the one that has the same sums
    int item, bytes             # of a number, of a vector
    int64_t lanes
    int64_t width, blocks       # of a row of results
    int64_t together            # rows in one vector
    int64_t height              # of a column of results: vectors
    int64_t slices              # of results: such columns in a plane
    int64_t span[MAX_RANK]      # sums of coordinates, per axis before the last
    int64_t places              # in all, per block
    int64_t groups              # of masks, per block, at most
    int64_t before, behind      # cells beside a plane that are read


# The plan, in memory of its own.
cdef struct Listed:
    Depth d
    Place* place            # of the image, [block, sum of coordinates]
    Place* own              # of results: [block, row]
    int64_t* slice          # where a column of results begins among the places
    char* mask


cdef inline int64_t column(const Depthwise* s, int64_t block) noexcept nogil:
    """Where a block begins in a row: the last one ends with it."""
    return max(min(block * s.lanes, s.width - s.lanes), <int64_t>0)


cdef inline int tile_of(int64_t left, int64_t above, Kind kind) noexcept nogil:
    """The rows of the next tile, of `left`: 7, 4 or 1, more than are left where those above may be computed again."""
    if kind != LNN_DEPTH_ANY and (left >= LNN_DEPTH_TILE and left != 8 or left > 4 and left + above >= LNN_DEPTH_TILE):
        return LNN_DEPTH_TILE
    return 4 if left >= 4 or (left > 1 and left + above >= 4) else 1


cdef inline void depth_plane(const Depthwise* s, const Listed* p, const real* plane, const real* w, int64_t w_step, real start,
                             real* out) noexcept nogil:
    """The results of one plane."""
    cdef int64_t slice, row, block, down = s.together * s.width, offset
    cdef const Place* place
    cdef int n
    for slice in range(s.slices):
        row = 0
        while row < s.height:
            n = tile_of(s.height - row, row, p.d.kind)
            row = min(row, s.height - n)
            for block in range(s.blocks):
                place = p.place + block * s.places + p.slice[slice] + row * p.d.step
                offset = slice * s.g.out[s.g.rank - 2] * s.width + row * down + column(s, block)
                if real is float:
                    lnn_depth_tile_f32(&p.d, n, plane, place, w, w_step, start, out + offset, down, s.g.outs - offset)
                else:
                    lnn_depth_tile_f64(&p.d, n, plane, place, w, w_step, start, out + offset, down, s.g.outs - offset)
            row += n


cdef inline void depth_sums(const Depthwise* s, const Listed* p, const real* plane, const real* y_bar, real* sums) noexcept nogil:
    """What one plane adds to a vector of sums per kernel cell."""
    cdef int64_t slice, block
    cdef const real* y
    cdef const Place* place
    cdef const Place* own
    for slice in range(s.slices):
        y = y_bar + slice * s.g.out[s.g.rank - 2] * s.width
        for block in range(s.blocks):
            place, own = p.place + block * s.places + p.slice[slice], p.own + block * s.height
            if real is float:
                lnn_depth_weight_f32(&p.d, plane, place, y, own, s.height, sums)
            else:
                lnn_depth_weight_f64(&p.d, plane, place, y, own, s.height, sums)


cdef inline void depth_total(const real* sums, int64_t n, real* w_bar) noexcept nogil:
    """n such vectors, each added up."""
    if real is float:
        lnn_depth_total_f32(sums, n, w_bar)
    else:
        lnn_depth_total_f64(sums, n, w_bar)
