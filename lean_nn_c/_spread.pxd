"""conv_input of few channels from many outputs: one product per sample, its rows added to their places.

    columns[(c, tap), p] = sum_o w[o, c, tap] * y_bar[n, o, p]

reads both factors as they lie: y_bar is neither padded nor packed again for every tap, which few channels would not pay for,
and no zero is multiplied. Then row (c, tap) is added to the cells of channel c that the tap reads (direct_fold). By taps that
is a sum in registers: what it costs here is shared by all outputs, so there must be many. (512 outputs of 26 x 34 to one
channel, 3 x 3 stride 2: 3 times as fast as by taps; of 10 x 10 x 10 to two, 3 x 3 x 3: 2.5 times.)

Columns are of some samples, or of some lines along the first axis of one, or some channels, as far as ROOM suffices: by the geometry
alone. For every part of the lines the weight is packed, for every part of the channels y_bar. Lines are added in order, and their
taps. Error: gamma_n, as by taps.
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t

from lean_nn_c._geometry cimport Geometry, ceil_div, clip
from lean_nn_c._tail cimport lnn_tail
from lean_nn_c._types cimport real
from lean_nn_c.direct cimport direct_fold
from lean_nn_c.gemm cimport Product, multiply
from lean_nn_c.step cimport count_from, counted, give_scratch, hold_scratch, probing
from lean_nn_c.taps cimport DONE, NO_MEMORY, end_row
from lean_nn_c.threads cimport threads_for

cdef enum:
    ROOM = 524288           # bytes of columns


cdef struct Spread:
    int64_t samples             # at once,
    int64_t height              # or lines of one,
    int64_t parts, channels     # and parts of a group's channels, and channels of a part


cdef inline bint in_lines(const Geometry* g) noexcept nogil:
    """Whether lines are parted, not channels: packing the weight again costs less than y_bar."""
    return g.outs > 4 * g.cg * g.taps


cdef inline int64_t columns_at_least(const Geometry* g, int itemsize) noexcept nogil:
    """Bytes of a channel's columns that are not parted."""
    return g.taps * g.outs * itemsize // (g.out[0] if in_lines(g) else 1)


cdef inline bint spread_suits(const Geometry* g, int itemsize) noexcept nogil:
    """Whether there is work, and the columns of a channel are not too many."""
    return g.n * g.o * g.outs > 0 and g.c * g.cells > 0 and columns_at_least(g, itemsize) <= 2 * ROOM


cdef inline void open_spread(Spread* s, const Geometry* g, int itemsize) noexcept nogil:
    cdef int64_t bytes = columns_at_least(g, itemsize)
    s.parts = ceil_div(g.cg, clip(ROOM // bytes, 1, g.cg))
    s.channels = ceil_div(g.cg, s.parts)
    s.height = clip(ROOM // (s.channels * bytes), 1, g.out[0]) if in_lines(g) else g.out[0]
    s.samples = clip(ROOM // (g.cg * g.taps * g.outs * itemsize), 1, g.n) if g.groups == 1 else 1


cdef inline void end_plane(const lnn_tail* tail, const real* bias, real* x_bar, int64_t cells) noexcept nogil:
    cdef int64_t i
    if bias != NULL:
        for i in range(cells):
            x_bar[i] += bias[0]
    if tail != NULL:
        end_row(tail, x_bar, cells)


cdef inline int spread_some(const Geometry* g, int64_t samples, int64_t channels, int64_t line, int64_t lines, const real* y_bar,
                            const real* w, const real* bias, const lnn_tail* tail, real* columns, real* x_bar) noexcept nogil:
    """Some channels of one group, or all of some samples: some lines of the outputs, from `line` on."""
    cdef Product p
    cdef Geometry some = g[0]
    cdef int64_t i
    some.n, some.c, some.out[0], some.outs = samples, channels, lines, g.outs // g.out[0] * lines
    some.pad[0] = g.pad[0] - line * g.stride[0]
    p.m, p.n, p.k = channels * g.taps, some.outs, g.og
    p.a_row, p.a_col, p.b_row, p.b_col = 1, g.cg * g.taps, g.outs, 1
    p.rank, p.batch, p.panelled, p.column_bias, p.tail = 1, samples, False, NULL, NULL
    p.size[0], p.a_step[0], p.b_step[0], p.bias_step[0] = samples, 0, g.o * g.outs, 0
    if multiply(&p, w, y_bar + g.outs // g.out[0] * line, <const real*>NULL, columns):
        return NO_MEMORY
    direct_fold(&some, <const real*>columns, line > 0, x_bar)
    if line + lines == g.out[0] and (bias != NULL or tail != NULL):
        for i in prange(samples * channels, schedule="static", num_threads=threads_for(samples * channels * g.cells)):
            end_plane(tail, bias + i % channels if bias != NULL else NULL, x_bar + i * g.cells, g.cells)
    return DONE


cdef inline int spread_conv_input(const Geometry* g, const real* y_bar, const real* w, const real* bias, const lnn_tail* tail,
                                  real* x_bar) noexcept nogil:
    cdef Spread s
    cdef int64_t n = 0, samples, i, group, first, last, line
    cdef int status = DONE
    cdef real* columns
    cdef size_t before
    open_spread(&s, g, sizeof(real))
    columns = <real*>hold_scratch(s.samples * s.channels * g.taps * (g.outs // g.out[0]) * s.height * sizeof(real))
    if columns == NULL:
        return NO_MEMORY
    before = counted()
    while n < g.n and (status == DONE or probing()):
        samples = min(s.samples, g.n - n)
        for i in range(s.parts * g.groups):
            group = i // s.parts
            first, last = group * g.cg + g.cg * (i % s.parts) // s.parts, group * g.cg + g.cg * (i % s.parts + 1) // s.parts
            line = 0
            while line < g.out[0]:
                count_from(before)              # one product after the other: the largest counts
                if status == DONE or probing():
                    status = spread_some(g, samples, last - first, line, min(s.height, g.out[0] - line),
                                         y_bar + (n * g.o + group * g.og) * g.outs, w + (group * (g.og - 1) * g.cg + first) * g.taps,
                                         bias + first if bias != NULL else NULL, tail, columns, x_bar + (n * g.c + first) * g.cells)
                line += s.height
        n += samples if not probing() else (g.n - n) // samples * samples     # to those that are left, who may take more
    give_scratch(columns)
    return status
