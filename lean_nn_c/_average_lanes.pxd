"""Averages and their transpose where rows are short or windows irregular: planes side by side, one in each lane.

Small planes are turned into lanes whole, of others every row when it is read. Sums have the order that
``pool_average.pyx`` promises: all rows of a window first and then its columns, or row after row.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from lean_nn_c._divisor cimport Divisor, inner_table, outer_divisor
from lean_nn_c._lanes cimport Cut, Lanes, Room, reach, small, some_rows
from lean_nn_c._window cimport (
    Axis, CoverCursor, RowCursor, Windows, next_cover, same_windows, start_cover, start_rows,
)

cdef extern from "pool_rows.h" nogil:
    enum:
        LNN_BYTES
        LNN_CAP
        LNN_ROWS
    ctypedef struct Kind "lnn_lanes_kind":
        int64_t item
        void (*turn_in "in")(const void*, int64_t, int64_t, int64_t, bint, void*) noexcept nogil
        void (*turn_out "out")(const void*, int64_t, int64_t, void*, int64_t) noexcept nogil
        void (*sum)(
            const Lanes*, const Axis*, const int64_t*, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, void*
        ) noexcept nogil
        void (*divide)(int64_t, int64_t, double, const int64_t*, void*) noexcept nogil
        void (*spread)(
            const Lanes*, const Axis*, const int64_t*, const double*, int64_t, int64_t, int, const int64_t*, int64_t,
            int64_t, void*
        ) noexcept nogil
    const Kind* lnn_lanes_kinds


# Lanes that are at work: some planes of one array, and the same of the other.
cdef struct Work:
    const Kind* kind
    const Windows* w
    Divisor by
    int64_t lanes
    bint far
    const char* source
    char* result


cdef inline bint alike(const Axis* axis) noexcept nogil:
    return axis.stride >= 1 and axis.outputs >= 2


cdef inline double as_real(double value, const Kind* kind) noexcept nogil:
    return value if kind.item == 8 else <double><float>value


cdef inline void sum_lanes(const Work* k, const Lanes* s, int64_t row, int64_t p0, int64_t p1, char* to) noexcept nogil:
    """Outputs `p0` to `p1` of an output row."""
    cdef const Axis* axis = &k.w.axis[k.w.rank - 1]
    cdef int64_t[LNN_ROWS] offsets
    cdef RowCursor rows
    cdef int64_t n, batch, low, high
    reach(axis, p0, p1, &low, &high)
    start_rows(&rows, k.w, row)
    batch = rows.left if alike(axis) and rows.left <= LNN_ROWS else 1
    memset(to, 0, (p1 - p0) * LNN_BYTES)
    while rows.left > 0:
        n = some_rows(&rows, k.w, offsets)
        k.kind.sum(s, axis, offsets, n, batch, p0, p1, low, high, to)
    k.kind.divide(p0, p1, outer_divisor(rows.divisor, rows.count, k.by), inner_table(axis, k.by), to)


cdef inline void spread_lanes(
    const Work* k, const Lanes* s, CoverCursor* above, int64_t j0, int64_t j1, char* to
) noexcept nogil:
    """Cells `j0` to `j1` of an input row."""
    cdef const Axis* axis = &k.w.axis[k.w.rank - 1]
    cdef int64_t[LNN_ROWS] offsets
    cdef double[LNN_ROWS] outer
    cdef bint even, first = True
    cdef int64_t n, batch = 1
    memset(to, 0, (j1 - j0) * LNN_BYTES)
    while above.valid:
        n, even = 0, True
        while n < LNN_ROWS and above.valid:
            offsets[n] = above.offset
            outer[n] = as_real(outer_divisor(above.divisor, above.count, k.by), k.kind)
            even = even and outer[n] == outer[0]
            n += 1
            next_cover(above, k.w)
        if first and alike(axis) and not above.valid:
            batch = n
        first = False
        k.kind.spread(
            s, axis, offsets, outer, n, batch, even or batch == 1, inner_table(axis, k.by), j0, j1, to)


cdef inline int64_t same_row(const Windows* w, const CoverCursor* above) noexcept nogil:
    """How many rows before this one is one under the same windows; 0 if none is known."""
    cdef int a
    for a in range(w.rank - 2, -1, -1):
        if above.cell[a] and same_windows(&w.axis[a], above.cell[a] - 1, above.cell[a]):
            return w.axis[a].pitch // w.axis[w.rank - 1].size
    return 0


cdef inline void average_lanes(const Work* k, int64_t row, int64_t end, int64_t p0, int64_t p1) noexcept nogil:
    """Outputs `p0` to `p1` of the output rows `row` to `end`."""
    cdef Room held, cells, columns, sums
    cdef const Windows* w = k.w
    cdef int64_t outputs = w.axis[w.rank - 1].outputs
    cdef Lanes s = Lanes(k.source, w.in_cells, k.lanes, k.far, NULL, &cells, &columns)
    if small(w):
        s.held = &held
        k.kind.turn_in(k.source, w.in_cells, k.lanes, w.in_cells, k.far, held.at)
    for row in range(row, end):
        if s.held:
            sum_lanes(k, &s, row, p0, p1, sums.at + row * outputs * LNN_BYTES)
        else:
            sum_lanes(k, &s, row, p0, p1, sums.at)
            k.kind.turn_out(sums.at, p1 - p0, k.lanes, k.result + (row * outputs + p0) * k.kind.item, w.out_cells)
    if s.held:
        k.kind.turn_out(sums.at, w.out_cells, k.lanes, k.result, w.out_cells)


cdef inline void transpose_lanes(const Work* k, int64_t row, int64_t end, int64_t j0, int64_t j1) noexcept nogil:
    """Cells `j0` to `j1` of the input rows `row` to `end`. Rows under the same windows are copied."""
    cdef Room held, windows, shares, cells
    cdef CoverCursor above
    cdef const Windows* w = k.w
    cdef int64_t size = w.axis[w.rank - 1].size, first = row, back, l
    cdef Lanes s = Lanes(k.source, w.out_cells, k.lanes, k.far, NULL, &windows, &shares)
    cdef char* to
    if small(w):
        s.held = &held
        k.kind.turn_in(k.source, w.out_cells, k.lanes, w.out_cells, k.far, held.at)
    for row in range(row, end):
        start_cover(&above, w, row)
        back = same_row(w, &above)
        if back > row - first:
            back = 0
        to = cells.at + (row * size * LNN_BYTES if s.held else 0)
        if back and s.held:
            memcpy(to, to - back * size * LNN_BYTES, size * LNN_BYTES)
        elif back:
            for l in range(k.lanes):
                to = k.result + (l * w.in_cells + row * size + j0) * k.kind.item
                memcpy(to, to - back * size * k.kind.item, (j1 - j0) * k.kind.item)
        else:
            spread_lanes(k, &s, &above, j0, j1, to)
            if not s.held:
                k.kind.turn_out(to, j1 - j0, k.lanes, k.result + (row * size + j0) * k.kind.item, w.in_cells)
    if s.held:
        k.kind.turn_out(cells.at, w.in_cells, k.lanes, k.result, w.in_cells)


cdef inline void lanes_unit(
    const Kind* kind, const Windows* w, Divisor by, bint transposed, const Cut* c, int64_t planes, int64_t unit,
    const char* source, char* result,
) noexcept nogil:
    """Piece number `unit`."""
    cdef int64_t start = unit % c.blocks * LNN_CAP, row = unit // c.blocks % c.groups * c.some
    cdef int64_t end = min(row + c.some, c.rows), stop = min(start + LNN_CAP, c.length)
    cdef int64_t plane = unit // c.blocks // c.groups * c.lanes
    cdef int64_t given = w.out_cells if transposed else w.in_cells, made = w.in_cells if transposed else w.out_cells
    cdef Work k = Work(
        kind, w, by, min(c.lanes, planes - plane), c.far, source + plane * given * kind.item, result + plane * made * kind.item)
    if transposed:
        transpose_lanes(&k, row, end, start, stop)
    else:
        average_lanes(&k, row, end, start, stop)
