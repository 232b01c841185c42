"""The classes of a tap product's outputs, cut into boxes that meet the same padding.

A class is all of conv, or one residue of conv_input (_planes.pxd). Near the border some taps of a cell meet nothing but
padding: on an axis of few cells and many taps most products are with zeros (11 taps padded by 5 on 5 cells: 30 of 55). The
taps that meet a real cell are a range, whose ends move one way along the axis. So an axis is cut into bands of cells with one
range, and a box, a band on every axis, is a class of its own, with fewer terms. An axis that is not cut has one band, with
the taps that any of its cells needs: taps that meet padding only are never terms.

A cell for which there is no such tap keeps one, which reads zeros.
"""

from libc.stdint cimport int64_t
from libc.math cimport ceil
from libc.string cimport memset

from lean_nn_c._columns cimport Columns, choose_runs
from lean_nn_c._geometry cimport MAX_RANK, Geometry, ceil_div, clip, floor_div
from lean_nn_c._planes cimport Planes, period
from lean_nn_c._simd cimport LNN_ROWS, lnn_vectors
from lean_nn_c._taps cimport Taps, columns_of_image, columns_of_output, fill_tables, next_residue, split_terms

cdef enum:
    PACKING = 32            # columns whose products take as long as packing the weight for a class
    WORTH = 6               # per cent of the products that must go, at least


cdef struct Boxes:
    int64_t residue[MAX_RANK]
    int64_t count[MAX_RANK]     # cells of the class
    int64_t at[MAX_RANK]        # of the box: its first cell, and the one behind its last
    int64_t end[MAX_RANK]
    int64_t low[MAX_RANK]       # its taps, of those of the class
    int64_t high[MAX_RANK]
    bint cut[MAX_RANK]
    int moved                   # axes before this one have the band they had
    bint open                   # the first class has begun


cdef inline bint live(const Geometry* g, int i, const int64_t* residue, int64_t cell, int64_t* low,
                      int64_t* high) noexcept nogil:
    """The taps low..high that meet a real cell, and whether there are any; else it is one that meets padding."""
    cdef bint some
    cdef int64_t taps = g.ker[i], first, every
    if residue == NULL:
        first = g.pad[i] - cell * g.stride[i]
        low[0], high[0] = ceil_div(first, g.dil[i]), ceil_div(first + g.inp[i], g.dil[i])
    else:                       # as columns_of_image counts cells, and fill_tables taps
        every = period(g.stride[i], g.dil[i])
        taps = (taps - residue[i] - 1) // every + 1
        first = (ceil_div(g.pad[i] - residue[i] * g.dil[i] % g.stride[i], g.stride[i]) + cell
                 - residue[i] * g.dil[i] // g.stride[i])
        every = every * g.dil[i] // g.stride[i]
        low[0], high[0] = floor_div(first - g.out[i], every) + 1, floor_div(first, every) + 1
    some = max(low[0], <int64_t>0) < min(high[0], taps)
    low[0] = clip(low[0], 0, taps - 1)
    high[0] = clip(high[0], low[0] + 1, taps)
    return some


cdef inline void open_band(const Geometry* g, Boxes* b, int i, const int64_t* residue) noexcept nogil:
    """From cell at[i] on: where it ends, and its taps."""
    cdef int64_t low, high, middle, stop = b.count[i]
    live(g, i, residue, b.at[i], &b.low[i], &b.high[i])
    b.end[i] = b.at[i] + 1
    while b.cut[i] and b.end[i] < stop:         # the ends of the range move one way
        middle = (b.end[i] + stop) // 2
        live(g, i, residue, middle, &low, &high)
        if low == b.low[i] and high == b.high[i]:
            b.end[i] = middle + 1
        else:
            stop = middle
    if not b.cut[i]:
        b.end[i] = b.count[i]
        live(g, i, residue, b.count[i] - 1, &low, &high)
        b.low[i], b.high[i] = min(low, b.low[i]), max(high, b.high[i])


cdef inline double band_cost(double columns, double classes, double m, double run, double terms) noexcept nogil:
    """Of the columns of all samples: the products, packing and spreading runs of so many columns, and packing the weight."""
    cdef double width = 16, cost = m * terms + 20 / min(run, width) * terms
    if classes > 1:
        cost += 128 / min(run, width) * m
    return ((columns / classes / width + 0.5) * width * cost + PACKING * m * terms) * classes


cdef inline double cut_axes(const Geometry* g, const int64_t* residue, int64_t m, Boxes* b) noexcept nogil:
    """Decide which axes are cut, by the geometry alone; returns the share of the products that are left.

    At the ends of an axis, taps come in one after another: what is missing there is about a triangle.
    """
    cdef double columns = g.n, terms = g.cg if residue == NULL else g.og, classes = 1, left = 1
    cdef double run, bands, share, lost, before, step, fewer, cells
    cdef int64_t low, high, taps
    cdef int i, end, last = g.rank - 1
    for i in range(g.rank):
        b.cut[i], b.at[i] = False, 0
        open_band(g, b, i, residue)
        columns *= b.count[i]
        terms *= b.high[i] - b.low[i]
    for i in range(g.rank):
        taps, lost, bands = b.high[i] - b.low[i], 0, 1
        step = <double>g.stride[i] / g.dil[i] if residue == NULL else 1
        for end in range(2):
            live(g, i, residue, (b.count[i] - 1) * end, &low, &high)
            fewer = taps - (high - low)
            cells = min(ceil(fewer / step), <double>b.count[i])
            lost += cells * (fewer - step * (cells - 1) / 2)
            bands += cells
        share = max(1 - lost / (<double>taps * b.count[i]), 1.0 / taps)
        bands = min(bands, <double>b.count[i])
        run = b.count[last]
        before = band_cost(columns, classes, m, run, terms)
        if i == last:
            run /= bands
        b.cut[i] = share <= 1 - WORTH / 100.0 and band_cost(columns, classes * bands, m, run, terms * share) < before
        if b.cut[i]:
            classes *= bands
            terms *= share
            left *= share
    return left


cdef inline bint next_box(const Geometry* g, bint transposed, Boxes* b) noexcept nogil:
    """False: that was the last. The one before the first has no cells."""
    cdef int i
    for i in range(g.rank - 1, -1, -1):
        b.at[i] = b.end[i]
        b.moved = i
        if b.at[i] < b.count[i]:
            return True
        b.at[i] = 0
    if not b.open:
        b.open = True
        return True
    return transposed and next_residue(g, &b.residue[0])


cdef inline bint next_columns(const Geometry* g, const Planes* p, bint transposed, int64_t m, Boxes* b, Columns* c,
                              Taps* t) noexcept nogil:
    """Columns of the next box that has cells, and how many taps it has; False: that was the last. The first follows on all
    zeros. With no rows (m = 0) every axis is cut."""
    cdef const int64_t* residue = &b.residue[0] if transposed else NULL
    cdef bint fresh = True
    cdef int i
    while True:
        if not next_box(g, transposed, b):
            return False
        if not transposed:
            columns_of_output(c, g, p)
            break
        if columns_of_image(c, g, p, residue):
            break
        memset(&b.count[0], 0, sizeof(b.count))
    for i in range(g.rank):
        b.count[i] = c.count[i]
        b.cut[i] = b.cut[i] or m == 0
        fresh = fresh and b.at[i] == 0
    if fresh and m:
        cut_axes(g, residue, m, b)
    t.count = 1
    for i in range(g.rank):
        if i >= b.moved:
            open_band(g, b, i, residue)
        t.count *= b.high[i] - b.low[i]
        c.count[i] = b.end[i] - b.at[i]
        c.base += b.at[i] * c.pitch[i]
        c.dest += b.at[i] * c.step[i]
    return True


cdef inline bint next_class(const Geometry* g, const Planes* p, bint transposed, int64_t m, int64_t width, Boxes* b, Columns* c,
                            Taps* t) noexcept nogil:
    """Columns and tables of the next box that has cells."""
    if not next_columns(g, p, transposed, m, b, c, t):
        return False
    choose_runs(c, width, width // lnn_vectors(m), min(m, <int64_t>LNN_ROWS), t.count * t.channels)
    split_terms(t)
    if t.a != NULL:
        fill_tables(t, g, p, &b.residue[0] if transposed else NULL, &b.low[0], &b.high[0], 1)
    return True


cdef inline bint runs_fit(const Geometry* g, const Planes* p, bint transposed, int64_t m, int64_t width, Taps t) noexcept nogil:
    """Whether every class has runs of at least one tile: then the source may serve as its own plane."""
    cdef Boxes b
    cdef Columns c
    t.a = NULL
    memset(&b, 0, sizeof(b))
    while next_class(g, p, transposed, m, width, &b, &c, &t):
        if c.length < width:
            return False
    return True


cdef inline double share_left(const Geometry* g, bint transposed) noexcept nogil:
    """The share of the products that are left, of the first class."""
    cdef Boxes b
    cdef int i
    memset(&b, 0, sizeof(b))
    for i in range(g.rank):
        b.count[i] = ceil_div(g.inp[i], g.stride[i]) if transposed else g.out[i]
    return cut_axes(g, &b.residue[0] if transposed else NULL, g.cg if transposed else g.og, &b)
