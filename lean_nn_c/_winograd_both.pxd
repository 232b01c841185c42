"""conv_input and conv_weight together, for a layer whose channels are few: one transform of y_bar serves both.

conv_input multiplies U = G w G^T (w turned by half a turn) by V = B^T y_bar B, for tiles of x_bar. Pairing its result with x is
the same trilinear form from which _winograd_weight.pxd leaves out the filter,

    sum x * x_bar = sum_xi (A x A^T)_xi (G w G^T)_xi (B^T y_bar B)_xi,

so w_bar = G^T [ sum_t Q[c, t] * V[o, t] ] G, turned, with Q = A x A^T of the very tiles that x_bar has. By itself conv_weight
transforms patches of x and tiles of y_bar; here patches of y_bar are at hand, and tiles of x take the least work of all. The plan
is conv_input's, so its "channels" are those of y_bar, its "rows" those of x. Tiles are cut into parts as in conv_weight's narrow
way, and the bits depend on the geometry alone. The bounds are those of conv_input and of conv_weight.

Temporary memory: conv_weight's, U, and T of the tiles at hand.
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t

from lean_nn_c._queue cimport Queue, draw, open_queue
from lean_nn_c._simd cimport SPARE_LINE, aligned, lanes, whole_lines
from lean_nn_c._types cimport real
from lean_nn_c._winograd_plan cimport Plan, Zone, tiles_of, units_left, zone_of
from lean_nn_c._winograd_steps cimport PAD, PANELS, blocks_of, finish, make_u, make_v, panels_of, t_size, u_size, v_step
from lean_nn_c._winograd_weight cimport CHAIN, add_shares, make_q, make_w, parts_of, strips_of, sum_tiles, vectors_of
from lean_nn_c.step cimport give_scratch, take_scratch
from lean_nn_c.taps cimport DONE, NO_MEMORY, SPOILT


cdef enum:
    NEAR = 524288               # bytes of a core's second-level cache


cdef struct Desk:               # of one thread, in values from its start: V, Q, dU and T of `units` at a time, U
    int64_t units, pitch
    int64_t v_next, q_next, du_next
    int64_t q, du, t, u, size


cdef inline void set_desk(const Plan* p, int itemsize, Desk* d) noexcept nogil:
    """As many units as conv_weight sums at once, or a single one, if it is that which stays near the core."""
    lay_desk(p, max(CHAIN // p.width, <int64_t>1), d)
    if d.size * itemsize > NEAR:
        lay_desk(p, 1, d)
        if d.size * itemsize > NEAR:
            lay_desk(p, max(CHAIN // p.width, <int64_t>1), d)


cdef inline void lay_desk(const Plan* p, int64_t units, Desk* d) noexcept nogil:
    cdef int64_t strips = strips_of(p)
    d.units = units
    d.pitch = d.units * p.width
    d.v_next, d.q_next, d.du_next = v_step(p.channels, d.pitch), d.pitch * p.width + PAD, p.channels * p.width + PAD
    d.q = p.points * d.v_next
    d.du = d.q + strips * p.points * d.q_next
    d.t = d.du + strips * p.points * d.du_next
    d.u = whole_lines(d.t + d.units * t_size(p))
    d.size = whole_lines(d.u + panels_of(p) * u_size(p))


cdef inline bint serves_both(const Plan* p, int itemsize) noexcept nogil:
    """Whether the parts hold what they need near a core: few channels, filters as they lie."""
    return p.plain and p.groups == 1 and blocks_of(p) == 1 and parts_of(p, itemsize) > 0


cdef inline bint both_part(const Plan* p, const Desk* d, int64_t first, int64_t stop, const real* y_bar, const real* x,
                           real* x_bar, real* w_bar, real* desk) noexcept nogil:
    """x_bar of units first..stop, and their share of w_bar. Returns whether some value is not finite."""
    cdef int64_t unit = first, units, i, strip, panel
    cdef const Zone* zone
    cdef bint spoilt = False
    while unit < stop:
        zone = zone_of(p, unit)
        units = min(min(d.units, stop - unit), units_left(p, zone, unit))
        for i in range(units):
            make_v(p, unit + i, 0, p.true_channels, 0, p.channels, p.channels, y_bar, desk + i * p.width, d.pitch)
        panel = 0
        while panel < panels_of(p):
            spoilt |= finish(p, unit, units, panel, min(panel + PANELS, panels_of(p)), <const real*>NULL,
                             <const real*>desk + d.u + panel * u_size(p), <real*>NULL, <const real*>desk, p.width,
                             d.pitch, desk + d.t, <const real*>NULL, x_bar)
            panel += PANELS
        for strip in range(strips_of(p)):
            for i in range(units):
                make_q(p, unit + i, strip, x, desk + d.q + strip * p.points * d.q_next + i * p.width * p.width, d.q_next)
            sum_tiles(p, zone, 0, p.channels, vectors_of(p, strip, lanes(x)), tiles_of(p, zone, unit, units),
                      <const real*>desk, d.pitch, d.v_next, <const real*>desk + d.q + strip * p.points * d.q_next,
                      d.q_next, unit > first, desk + d.du + strip * p.points * d.du_next, d.du_next)
        unit += units
    for strip in range(strips_of(p)):
        spoilt |= make_w(p, 0, p.channels, strip, <const real*>desk + d.du + strip * p.points * d.du_next, d.du_next,
                         False, w_bar)
    return spoilt


cdef inline bint both_turn(const Plan* p, const Desk* d, Queue* queue, int thread, int64_t parts, const real* y_bar,
                           const real* w, const real* x, real* x_bar, real* shares, int64_t own, real* desk) noexcept nogil:
    """What one thread does: its own U, and parts."""
    cdef int64_t part = draw(queue, thread), panel
    cdef bint spoilt = False
    for panel in range(panels_of(p) if part >= 0 else 0):
        make_u(p, panel, 0, w, desk + d.u + panel * u_size(p))
    while part >= 0:
        spoilt |= both_part(p, d, p.units * part // parts, p.units * (part + 1) // parts, y_bar, x, x_bar,
                            shares + part * own, desk)
        part = draw(queue, thread)
    return spoilt


cdef inline int both_gradients(const Plan* p, const real* y_bar, const real* w, const real* x, real* x_bar, real* w_bar,
                               int threads) noexcept nogil:
    """Parts of the tiles, each by one thread; their shares of w_bar are added in order."""
    cdef int64_t weights = p.true_channels * p.true_rows * p.cells, own = whole_lines(weights), i, spoilt = 0
    cdef int64_t parts = parts_of(p, sizeof(real))
    cdef real* memory
    cdef real* shares
    cdef Queue queue
    cdef Desk d
    set_desk(p, sizeof(real), &d)
    memory = <real*>take_scratch((threads * d.size + parts * own + SPARE_LINE) * sizeof(real))
    if memory == NULL:
        return NO_MEMORY
    shares = aligned(memory) + threads * d.size
    open_queue(&queue, parts, threads)
    for i in prange(threads, schedule="static", chunksize=1, num_threads=threads):
        spoilt += both_turn(p, &d, &queue, <int>i, parts, y_bar, w, x, x_bar, shares, own, aligned(memory) + i * d.size)
    add_shares(parts, weights, <const real*>shares, own, w_bar)
    give_scratch(memory)
    return SPOILT if spoilt else DONE
