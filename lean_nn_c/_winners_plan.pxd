"""How winners are summed up (_winners.pxd): the sizes, from the geometry and the length of a vector; and whether it pays."""

from libc.stdint cimport int64_t

from lean_nn_c._geometry cimport MAX_RANK, Geometry, covers_cells

cdef enum:                  # as in winners.h, whose loops they are for:
    AT_LEAST = 5            # rows of one vector that are summed together,
    AT_MOST = 9             # or so many;
    SHORT = 4               # vectors of a row that is alone,
    LONG = 12               # at most
    BAND = 256              # windows at a time, at most
    FIRST_LEVEL = 20480     # bytes of planes, or of a weight's rows, that are met again and again
    WEIGHT = 1048576        # bytes of the weight in rows, at most


cdef struct Winners:
    int64_t size[MAX_RANK]      # of the padded plane
    int64_t each, blocks        # channels of a cell; blocks of them in a group
    int64_t plane               # values of a block's, and what a row may reach behind it
    int64_t lines               # kernel rows
    int64_t parts, width        # rows along one, and their values
    int64_t lanes               # of a vector
    int64_t real_rows, rows     # (block, kernel row, part); rounded up to whole runs
    int together                # rows of one vector that are summed together; 1: rows of several
    int64_t band                # windows at a time
    int64_t outputs             # output channels at a time (conv_input)


cdef inline int64_t up(int64_t a, int64_t b) noexcept nogil:
    """a / b, rounded up."""
    return (a + b - 1) // b


cdef inline void narrow(Winners* s, const Geometry* g, int64_t lanes) noexcept nogil:
    """Rows of one vector, within one channel."""
    cdef int64_t row = g.ker[g.rank - 1]
    s.each, s.blocks, s.parts, s.width = 1, g.cg, up(row, lanes), lanes
    s.real_rows = s.blocks * s.lines * s.parts
    s.together = (AT_LEAST if up(s.real_rows, AT_LEAST) * AT_LEAST < up(s.real_rows, AT_MOST) * AT_MOST
                  else AT_MOST)
    s.rows = up(s.real_rows, s.together) * s.together


cdef inline void wide(Winners* s, const Geometry* g, int64_t lanes) noexcept nogil:
    """Rows of several vectors, of as many channels as they hold."""
    cdef int64_t row = g.ker[g.rank - 1], most = max(<int64_t>1, LONG * lanes // row)
    s.blocks = up(g.cg, most)
    s.each = up(g.cg, s.blocks)
    s.parts = up(row * s.each, LONG * lanes)
    s.width = max(up(row * s.each, s.parts * lanes), <int64_t>SHORT) * lanes
    s.rows = s.real_rows = s.blocks * s.lines * s.parts
    s.together = 1


cdef inline bint set_winners(Winners* s, const Geometry* g, bint transposed, int64_t lanes) noexcept nogil:
    """The sizes; False where the planes are too large, or kernel rows are no neighbours."""
    cdef int i, last = g.rank - 1
    cdef int64_t cells = 1, vectors
    if g.dil[last] != 1 or <double>g.cg * g.taps > 1e9:
        return False
    for i in range(g.rank):
        s.size[i] = covers_cells(g, i)
        if <double>cells * s.size[i] * (g.cg + lanes) > 1e9:
            return False
        cells *= s.size[i]
    s.lines, s.lanes = g.taps // g.ker[last], lanes
    narrow(s, g, lanes)
    vectors = s.rows
    wide(s, g, lanes)
    if vectors * lanes <= s.rows * s.width and not transposed:
        narrow(s, g, lanes)
    s.plane = cells * s.each + s.parts * s.width
    s.band = max(<int64_t>BAND // 8, min(<int64_t>BAND, <int64_t>(BAND * (<double>FIRST_LEVEL / (4 * s.plane)))))
    s.outputs = min(g.og, max(<int64_t>16, FIRST_LEVEL // (4 * s.width)))
    return True


# --- when it pays ---

cdef inline double cost_at(const Winners* s, const Geometry* g, int64_t windows, bint transposed) noexcept nogil:
    """Nanoseconds, by the fit of `winners_pay`."""
    cdef double vectors = s.width // s.lanes, samples = <double>g.n * g.groups
    cdef double winners = <double>g.n * g.o * windows, runs, planes = samples * s.blocks * s.plane
    if transposed:
        runs = samples * up(g.og, s.outputs) * g.outs * s.rows
        return (winners * (0.27 * vectors * s.rows + 3.5) + 1.1 * planes + 1.7 * g.o * s.rows * s.width
                + runs * (0.4 + min(1.0, winners * s.rows / runs) * (4.9 + 0.12 * vectors)))
    runs = <double>g.n * g.o * up(windows, s.band) * s.rows
    return (winners * ((0.22 * vectors + (0.45 if s.together == 1 else 0.15)) * s.rows + 0.5 * s.blocks)
            + runs * (1.2 + 1.6 * vectors) + planes)


cdef inline double cost_of_all(const Geometry* g, bint transposed) noexcept nogil:
    """The same of taps with vectors of eight, y_bar being spread."""
    cdef double outs = <double>g.n * g.o * g.outs, weights = <double>g.o * g.cg * g.taps, terms = outs * g.cg * g.taps
    cdef double line = 1.0 / g.out[g.rank - 1], planes = <double>g.n * g.c * g.cells
    if transposed:
        return (terms * (0.0245 + 0.1 / max(g.cg, <int64_t>4) + 0.034 * line + (0.0144 if g.stride[g.rank - 1] > 1 else 0))
                + 0.05 * outs + 0.5 * weights)
    return terms * (0.0203 + 0.28 / max(g.og, <int64_t>4) + 0.036 * line) + 0.11 * planes + 0.39 * outs + 0.2 * weights


cdef inline bint winners_pay(const Winners* s, const Geometry* g, int64_t windows, bint transposed, double gain) noexcept nogil:
    """Whether looking winners up beats multiplying all outputs by an algorithm that is `gain` times as fast as taps.

    Fitted to 3,000 timings, one thread: 1 to 128 channels, kernels of 1 to 7 cells, one to three axes, windows of 2 and 3 cells.
    Vectors of 16 are counted as two of eight, which they are on Zen 4, where alone they were tried.
    Both costs are of a slower machine: on this one 1,800 timings of 3 to 7 cells choose best by these factors, 4 and 3 per cent behind
    always the faster one. Where it says yes, conv_weight is 1.3 and conv_input 1.4 times as fast in the mean.
    """
    if windows == 0 or g.n * g.o * g.cells == 0 or g.taps == 1 or transposed and 4.0 * g.o * s.rows * s.width > WEIGHT:
        return False
    return (1.1 if transposed else 0.8) * gain * cost_at(s, g, windows, transposed) < cost_of_all(g, transposed) * 8 / min(s.lanes, 8)
