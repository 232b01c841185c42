"""The maximum where rows are short or windows irregular; see ``_lanes.pxd``."""

from libc.stdint cimport int64_t

from lean_nn_c._lanes cimport Cut, Lanes, Room, reach, small, some_rows
from lean_nn_c._window cimport Axis, RowCursor, Windows, start_rows

cdef extern from "pool_rows.h" nogil:
    enum:
        LNN_BYTES
        LNN_CAP
        LNN_ROWS
    ctypedef struct MaxKind "lnn_max_kind":
        int64_t item
        void (*turn_in "in")(const void*, int64_t, int64_t, int64_t, bint, void*) noexcept nogil
        void (*turn_out "out")(const void*, int64_t, int64_t, void*, int64_t) noexcept nogil
        void (*none)(const Axis*, int64_t, int64_t, int64_t, void*, void*) noexcept nogil
        void (*max)(
            const Lanes*, const Axis*, const int64_t*, int64_t, int64_t, int64_t, int64_t, int64_t, int, void*, void*
        ) noexcept nogil
        void (*beside)(const Lanes*, const void*, int64_t, int, int64_t, void*, int64_t) noexcept nogil
    const MaxKind* lnn_max_kinds


# What goes beside the maxima: nothing, their places in the plane (int64), or the tangents of the winning cells.
cdef struct Beside:
    int want
    char* at            # that of output 0 of the row (or plane) in question
    int64_t item        # bytes of one
    int64_t apart       # numbers from a cell to its tangent


cdef inline Beside further(Beside beside, int64_t outputs) noexcept nogil:
    if beside.want:
        beside.at += outputs * beside.item
    return beside


cdef inline void max_row(
    const MaxKind* kind, const Windows* w, const Lanes* s, int64_t row, int64_t p0, int64_t p1, int want, char* best,
    char* places,
) noexcept nogil:
    """Outputs `p0` to `p1` of an output row."""
    cdef const Axis* axis = &w.axis[w.rank - 1]
    cdef int64_t[LNN_ROWS] offsets
    cdef RowCursor rows
    cdef int64_t n, low, high
    reach(axis, p0, p1, &low, &high)
    start_rows(&rows, w, row)
    kind.none(axis, rows.offset if rows.left > 0 else -1, p0, p1, best, places)
    while rows.left > 0:
        n = some_rows(&rows, w, offsets)
        kind.max(s, axis, offsets, n, p0, p1, low, high, want, best, places)


cdef inline void max_lanes(
    const MaxKind* kind, const Windows* w, int64_t lanes, bint far, int64_t row, int64_t end, int64_t p0, int64_t p1,
    const char* x, char* y, Beside beside,
) noexcept nogil:
    """Outputs `p0` to `p1` of the output rows `row` to `end` of some planes."""
    cdef Room held, cells, best, places
    cdef int64_t outputs = w.axis[w.rank - 1].outputs, some = end - row, n
    cdef Lanes s = Lanes(x, w.in_cells, lanes, far, NULL, &cells, NULL)
    if small(w):
        s.held = &held
        kind.turn_in(x, w.in_cells, lanes, w.in_cells, far, held.at)
        for row in range(some):
            n = row * outputs * LNN_BYTES
            max_row(kind, w, &s, row, p0, p1, beside.want, best.at + n, places.at + n)
        put_lanes(kind, w, &s, best.at, places.at, w.out_cells, 0, y, beside)
        return
    for row in range(row, end):
        max_row(kind, w, &s, row, p0, p1, beside.want, best.at, places.at)
        put_lanes(kind, w, &s, best.at, places.at, p1 - p0, row * outputs + p0, y, beside)


cdef inline void put_lanes(
    const MaxKind* kind, const Windows* w, const Lanes* s, const char* best, const char* places, int64_t n, int64_t at,
    char* y, Beside beside,
) noexcept nogil:
    """n maxima of every plane, from output `at` on, and what goes beside them."""
    kind.turn_out(best, n, s.lanes, y + at * kind.item, w.out_cells)
    if beside.want:
        kind.beside(s, places, n, beside.want, beside.apart, beside.at + at * beside.item, w.out_cells)


cdef inline void max_unit(
    const MaxKind* kind, const Windows* w, const Cut* c, int64_t planes, int64_t unit, const char* x, char* y,
    Beside beside,
) noexcept nogil:
    """Piece number `unit`."""
    cdef int64_t start = unit % c.blocks * LNN_CAP, row = unit // c.blocks % c.groups * c.some
    cdef int64_t plane = unit // c.blocks // c.groups * c.lanes
    max_lanes(
        kind, w, min(c.lanes, planes - plane), c.far, row, min(row + c.some, c.rows), start, min(start + LNN_CAP, c.length),
        x + plane * w.in_cells * kind.item, y + plane * w.out_cells * kind.item, further(beside, plane * w.out_cells))
