"""A plane in each lane: what the average and the maximum share. Small planes are turned whole, of others every row when it
is read."""

from libc.stdint cimport int64_t

from lean_nn_c._window cimport MANY, Axis, RowCursor, Windows, next_row

cdef extern from "pool_rows.h" nogil:
    enum:
        LNN_BYTES
        LNN_CAP
        LNN_ROWS
    bint lnn_tiles_fit(const Axis*, int64_t)
    bint lnn_spread_fits(const Axis*)
    ctypedef struct Room "lnn_room":
        char at[1]
    ctypedef struct Lanes "lnn_lanes":
        const char* source "from"
        int64_t pitch, lanes
        bint far
        const Room* held
        Room* row
        Room* batch
cdef enum:
    CELLS = 4096         # numbers of several rows that one thread computes at a time
    FAR = 16777216       # bytes of an array that no cache holds


cdef inline bint small(const Windows* w) noexcept nogil:
    return w.in_cells <= LNN_CAP and w.out_cells <= LNN_CAP


cdef inline bint far_away(const Windows* w, int64_t planes, int64_t item, bint transposed) noexcept nogil:
    """Whether what is read lies in no cache."""
    return planes * (w.out_cells if transposed else w.in_cells) > FAR // item


# How the work is cut: some rows of as many planes as there are lanes; of long rows a part.
cdef struct Cut:
    int64_t lanes, rows, length, some, blocks, groups
    bint far


cdef inline Cut cut_lanes(int64_t item, const Windows* w, int64_t planes, bint transposed) noexcept nogil:
    cdef Cut c
    cdef const Axis* axis = &w.axis[w.rank - 1]
    c.lanes = LNN_BYTES // item
    c.far = far_away(w, planes, item, transposed)
    c.rows = w.in_rows if transposed else w.out_rows
    c.length = axis.size if transposed else axis.outputs
    c.some = c.rows if small(w) else min(c.rows, max(1, CELLS // c.length))
    c.blocks, c.groups = (c.length + LNN_CAP - 1) // LNN_CAP, (c.rows + c.some - 1) // c.some
    return c


cdef inline bint lanes_needed(const Windows* w, int64_t lanes, bint transposed) noexcept nogil:
    """Whether the kernels along a row do not fit: no like windows, or too many rows or cells for them."""
    cdef const Axis* axis = &w.axis[w.rank - 1]
    cdef int64_t most = 1, here, j
    cdef int a
    for a in range(w.rank - 1):
        here = 0
        for j in range(w.axis[a].size if transposed else w.axis[a].outputs):
            here = max(here, w.axis[a].high[j] - w.axis[a].low[j] if transposed else w.axis[a].count[j])
            if not transposed and w.axis[a].count[j] == 0:     # windows without a cell
                return True
        most = min(most * here, MANY)
    if most > LNN_ROWS or axis.stride < 1 or axis.outputs < 2:
        return True
    return not (lnn_spread_fits(axis) if transposed else lnn_tiles_fit(axis, lanes))


cdef inline void reach(const Axis* axis, int64_t p0, int64_t p1, int64_t* low, int64_t* high) noexcept nogil:
    """The cells of windows `p0` to `p1` are from `low` to below `high`."""
    cdef int64_t p
    low[0], high[0] = axis.size, 0
    for p in range(p0, p1):
        if axis.count[p]:
            low[0] = min(low[0], axis.first[p])
            high[0] = max(high[0], axis.first[p] + (axis.count[p] - 1) * axis.step + 1)


cdef inline int64_t some_rows(RowCursor* c, const Windows* w, int64_t* offsets) noexcept nogil:
    """The next rows' offsets, at most `LNN_ROWS`; how many they are."""
    cdef int64_t n = 0
    while n < LNN_ROWS and c.left > 0:
        offsets[n] = c.offset
        n += 1
        next_row(c, w)
    return n
