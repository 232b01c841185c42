"""Windows of any rank: tables per axis, and cursors over the rows of a window's box.

A kernel is N-D outside and 1-D inside: a cursor walks the rows (all axes but the last) that a window covers, the
kernel walks the last axis. `RowCursor` goes from an output row to the input rows under it, `CoverCursor` from an
input row to the output rows above it. A `Band` is a run of output rows that differ in place only, a `Cover` one of
input rows.
"""

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t

cdef extern from "pool_window.h" nogil:
    ctypedef struct Axis "lnn_axis":
        int64_t size
        int64_t outputs
        int64_t step
        int64_t stride
        int64_t start
        int64_t kernel
        int64_t pitch
        int64_t out_pitch
        int64_t inside_low
        int64_t inside_high
        const int64_t* first
        const int64_t* count
        const int64_t* divisor
        const int64_t* begin
        const int64_t* low
        const int64_t* high
    ctypedef struct Band "lnn_band":
        const Axis* axis
        int64_t p0, p1
        const int64_t* rows
        int64_t n_rows
        int64_t run, advance, places
        int64_t wrap, height
        int64_t before, after
        int64_t room
        int want
        int64_t apart
    ctypedef struct Cover "lnn_cover":
        const Axis* axis
        int64_t j0, j1
        const int64_t* rows
        int64_t n_rows
        bint even
        int64_t run, advance, pitch
        int64_t copies, copy
        bint ordered
        int64_t after, room
    void lnn_inside(Axis*)

cdef enum:
    MAX_RANK = 64        # NumPy has no more axes
    AXIS_FIELDS = 6
    MANY = 1 << 20       # an estimate of work need not be larger


cdef struct Windows:
    int rank
    int64_t in_rows, out_rows        # product of all axes but the last
    int64_t in_cells, out_cells
    int64_t box                      # cells of the largest window, for estimates of work
    Axis axis[MAX_RANK]


cdef struct Table:                   # packed numbers
    const int64_t* at
    int64_t length


cdef struct RowCursor:
    int64_t left                     # rows not yet visited, this one included
    int64_t offset                   # of this row in the input plane
    int64_t divisor, count           # products over the outer axes
    int64_t counts[MAX_RANK]
    int64_t at[MAX_RANK]


cdef struct CoverCursor:
    bint valid
    int64_t offset                   # of this row in the output plane
    int64_t divisor, count           # products over the outer axes
    int64_t cell[MAX_RANK]
    int64_t at[MAX_RANK]


cdef inline size_t unused(const Windows* w) noexcept nogil:
    """Bytes at the end of `w` behind its last axis."""
    return (MAX_RANK - w.rank) * sizeof(Axis)


cdef inline Table table_of(object values) except *:
    """Where the numbers of an int64 array lie, for as long as somebody keeps it. (A memoryview would say the same, and bring 43 kB
    of its machinery into the wheel.)"""
    cdef Py_buffer view
    cdef Table t
    PyObject_GetBuffer(values, &view, PyBUF_FORMAT | PyBUF_ND)      # without strides: C-contiguous, or a BufferError
    t.at, t.length = <const int64_t*>view.buf, view.len // <Py_ssize_t>sizeof(int64_t)
    cdef bint sound = (view.ndim == 1 and view.itemsize == sizeof(int64_t) and view.format != NULL
                       and view.format[0] in (c"l", c"q") and view.format[1] == 0)
    PyBuffer_Release(&view)
    if not sound:
        raise ValueError("pooling kernel: tables are arrays of int64 with one axis")
    return t


cdef inline bint read_windows(Windows* w, Table axes, Table outputs, Table inputs) noexcept nogil:
    """Fill `w` from packed tables; False when their lengths do not fit together."""
    cdef int d = <int>(axes.length // AXIS_FIELDS), a
    cdef int64_t o = 0, i = 0
    cdef Axis* axis
    if d < 1 or d > MAX_RANK or axes.length != d * AXIS_FIELDS:
        return False
    for a in range(d):
        axis = &w.axis[a]
        axis.size, axis.outputs = axes.at[a * AXIS_FIELDS], axes.at[a * AXIS_FIELDS + 1]
        axis.step, axis.stride = axes.at[a * AXIS_FIELDS + 2], axes.at[a * AXIS_FIELDS + 3]
        axis.start, axis.kernel = axes.at[a * AXIS_FIELDS + 4], axes.at[a * AXIS_FIELDS + 5]
        if axis.size < 0 or axis.outputs < 0 or axis.step < 1:
            return False
        if o + 4 * axis.outputs > outputs.length or i + 2 * axis.size > inputs.length:
            return False
        axis.first = outputs.at + o
        axis.count = axis.first + axis.outputs
        axis.divisor = axis.count + axis.outputs
        axis.begin = axis.divisor + axis.outputs
        axis.low = inputs.at + i
        axis.high = axis.low + axis.size
        o += 4 * axis.outputs
        i += 2 * axis.size
        lnn_inside(axis)
    measure(w, d)
    return o == outputs.length and i == inputs.length


cdef inline void measure(Windows* w, int d) noexcept nogil:
    """Pitches and products of sizes."""
    cdef int a
    w.rank, w.in_cells, w.out_cells, w.box = d, 1, 1, 1
    for a in range(d - 1, -1, -1):
        w.axis[a].pitch, w.axis[a].out_pitch = w.in_cells, w.out_cells
        w.in_cells *= w.axis[a].size
        w.out_cells *= w.axis[a].outputs
        w.box = min(w.box * min(w.axis[a].kernel, MANY), MANY)
    w.in_rows = w.out_rows = 1
    for a in range(d - 1):
        w.in_rows *= w.axis[a].size
        w.out_rows *= w.axis[a].outputs


cdef inline void start_rows(RowCursor* c, const Windows* w, int64_t row) noexcept nogil:
    """The first input row under output row `row` of a plane."""
    cdef int a
    cdef int64_t p
    c.left, c.offset, c.divisor = 1, 0, 1
    for a in range(w.rank - 2, -1, -1):
        p = row
        if a:  # divisions are slow, and most windows have two axes
            row = p // w.axis[a].outputs
            p -= row * w.axis[a].outputs
        c.at[a] = 0
        c.counts[a] = w.axis[a].count[p]
        c.left *= c.counts[a]
        c.divisor *= w.axis[a].divisor[p]
        c.offset += w.axis[a].first[p] * w.axis[a].pitch
    c.count = c.left


cdef inline void next_row(RowCursor* c, const Windows* w) noexcept nogil:
    """Row-major: the last outer axis moves first."""
    cdef int a = w.rank - 2
    cdef int64_t jump
    c.left -= 1
    while a >= 0:
        jump = w.axis[a].step * w.axis[a].pitch
        c.at[a] += 1
        c.offset += jump
        if c.at[a] < c.counts[a]:
            return
        c.offset -= c.counts[a] * jump
        c.at[a] = 0
        a -= 1


cdef inline int64_t list_rows(RowCursor* c, const Windows* w, int64_t* offsets, int64_t room) noexcept nogil:
    """Write the rows' offsets, from the first on; how many there are, or −1 where `room` is too small for them."""
    cdef int64_t n = c.left, i, jump
    if n > room:
        return -1
    if w.rank == 2:
        jump = w.axis[0].step * w.axis[0].pitch
        for i in range(n):
            offsets[i] = c.offset + i * jump
        return n
    for i in range(n):
        offsets[i] = c.offset
        next_row(c, w)
    return n


cdef inline void start_band(
    Band* band, const Windows* w, int64_t planes, int64_t row, int64_t end, int64_t p0, int64_t p1
) noexcept nogil:
    """Outputs `p0` to `p1` of output row `row` (counted over all planes) and of those before `end` that are alike."""
    cdef int64_t plane = row // w.out_rows, p = row - plane * w.out_rows
    cdef const Axis* above = &w.axis[max(w.rank - 2, 0)]
    band.axis = &w.axis[w.rank - 1]
    band.p0, band.p1 = p0, p1
    band.before, band.after = plane * w.in_cells, (planes - plane) * w.in_cells
    band.room = (end - row - 1) * band.axis.outputs + p1
    band.height, band.wrap = w.out_rows, w.out_rows - p
    if w.rank == 1:
        band.run, band.advance, band.places = end - row, w.in_cells, 0
        return
    p %= above.outputs
    band.run, band.advance, band.places = 1, above.stride * above.pitch, above.stride * above.pitch
    if above.inside_low <= p < above.inside_high:
        band.run = min(above.inside_high - p, end - row)
        if filled(w):
            band.run = end - row


cdef inline bint filled(const Windows* w) noexcept nogil:
    """Whether the rows' windows fill a plane of two axes: the next plane's rows then go on at the same distance."""
    cdef const Axis* above = &w.axis[0]
    return (
        w.rank == 2 and above.inside_low == 0 and above.inside_high == above.outputs
        and above.outputs * above.stride == above.size)


cdef inline bint whole(const Windows* w) noexcept nogil:
    """Whether there is one window and it is the whole plane."""
    cdef int a
    for a in range(w.rank):
        if w.axis[a].outputs != 1 or w.axis[a].count[0] != w.axis[a].size or w.axis[a].divisor[0] != w.axis[a].size:
            return False
    return w.in_cells > 0


cdef inline int64_t seek(const Axis* axis, int64_t cell, int64_t p) noexcept nogil:
    """The first window from `p` on that holds `cell`, or its upper bound."""
    if axis.step == 1:  # divisions are slow
        return p
    while p < axis.high[cell] and (cell - axis.begin[p]) % axis.step:
        p += 1
    return p


cdef inline bint same_windows(const Axis* axis, int64_t i, int64_t j) noexcept nogil:
    """Whether cells i and j have the same windows, so far as that is known."""
    return axis.step == 1 and axis.low[i] == axis.low[j] and axis.high[i] == axis.high[j]


cdef inline void start_cover(CoverCursor* c, const Windows* w, int64_t row) noexcept nogil:
    """The first output row above input row `row` of a plane."""
    cdef int a
    c.valid = True
    for a in range(w.rank - 2, -1, -1):
        c.cell[a] = row
        if a:
            row = c.cell[a] // w.axis[a].size
            c.cell[a] -= row * w.axis[a].size
        c.at[a] = seek(&w.axis[a], c.cell[a], w.axis[a].low[c.cell[a]])
        if c.at[a] >= w.axis[a].high[c.cell[a]]:
            c.valid = False
    place(c, w)


cdef inline void place(CoverCursor* c, const Windows* w) noexcept nogil:
    cdef int a
    c.offset, c.divisor, c.count = 0, 1, 1
    if c.valid:
        for a in range(w.rank - 1):
            c.offset += c.at[a] * w.axis[a].out_pitch
            c.divisor *= w.axis[a].divisor[c.at[a]]
            c.count *= w.axis[a].count[c.at[a]]


cdef inline void next_cover(CoverCursor* c, const Windows* w) noexcept nogil:
    """Row-major in the output rows; `valid` is False after the last."""
    cdef int a = w.rank - 2
    while a >= 0:
        c.at[a] = seek(&w.axis[a], c.cell[a], c.at[a] + 1)
        if c.at[a] < w.axis[a].high[c.cell[a]]:
            place(c, w)
            return
        c.at[a] = seek(&w.axis[a], c.cell[a], w.axis[a].low[c.cell[a]])
        a -= 1
    c.valid = False


cdef inline int64_t planes_of(
    Windows* w, object axes, object outputs, object inputs, int64_t cells, int64_t windows,
) except -1:
    """The number of planes; refuses tables that do not fit the arrays, so nothing is read out of bounds."""
    cdef bint sound = read_windows(w, table_of(axes), table_of(outputs), table_of(inputs))
    cdef int64_t planes = 0
    if sound and w.out_cells:
        planes = windows // w.out_cells
    elif sound and w.in_cells:
        planes = cells // w.in_cells
    if not sound or planes * w.in_cells != cells or planes * w.out_cells != windows:
        raise ValueError(f"pooling kernel: tables do not fit {cells} cells and {windows} windows")
    return planes
