"""What Winograd's convolution costs, in terms of a sum by taps: whether it pays, and what threads make for themselves."""

from libc.stdint cimport int64_t

from lean_nn_c._geometry cimport Geometry
from lean_nn_c._simd cimport LNN_BYTES
from lean_nn_c._winograd_plan cimport Plan


cdef struct Costs:      # in terms of a sum by taps
    double product      # a term of the tiles' products
    double image        # a tile's transform, per channel and point; twice as much where its cells are more than two apart
    double result       # and per row
    double filters      # a filter's of 3 x 3 cells, or 3; of 5 x 5, or 5, more by its points
    double few          # by taps: of a term, divided by the rows (or 4)
    double line         # the same, divided by the outputs of a line
    double plane        # of a cell of the source
    double stride       # of a term, where strides are more than 1


cdef inline Costs costs(const Plan* p, bint packed) noexcept nogil:
    """Of conv and conv_input; `packed`: from filters that are transformed already.

    On a line the transforms take less: thirteen results of a tile are neighbours, nine taps a filter as it lies. Fitted to 3,500
    timings of 3 to 15 taps, 8 to 256 channels, 1 to 16 samples of 64 to 8192 cells: 7 and 9 taps are 1.3 and 1.7 times as fast as by taps.
    Flat tiles: to 9,000 of 2 to 7 taps, 3 to 256 channels, one thread, float; choices are 1 per cent behind the better of the two (3 taps, 64
    channels on both sides: 1.4 times as fast, 5 taps, 128: 1.3).
    """
    cdef Costs c = [1.2, 7 if p.line else 12, 7.6 if p.line else 19, 0 if packed else 380 if p.line else 630, 3, 2.5, 0 if p.flip else 20,
                    0.4 if p.flip else 0]
    if p.flat and p.flip:
        c = [0.9, 17, 16, 0 if packed else 130, 2.3, 0.2, 0, 0]
    elif p.flat:
        c = [1.15, 25, 15, 0 if packed else 120, 5.7, 0.5, 10, 0]
    # V leaves the caches, and few rows read it too seldom (5³ from 376 channels to 14 on 5³: taps are six times as fast).
    cdef double values = <double>p.points * p.channels * p.width
    c.image *= min(max(values / 1048576, 1.0), 4.0) ** 2
    return c


cdef inline Costs weight_costs(const Plan* p) noexcept nogil:
    """Of conv_weight."""
    cdef Costs c = [1.44, 18, 9.4, 268, 13, 0.6, 10, 0.1]
    if p.flat:
        return [1.44, 31, 9.5, 80, 10, 0.2, 6, 0]
    c.image *= min(max(p.points * p.channels / 5000.0, 1.0), 4.0) * (1.4 if p.x.in_step == 2 else 1)   # V leaves the caches
    return c


cdef inline bint common(const Geometry* g) noexcept nogil:
    """A 3 x 3 kernel with stride 1 and dilation 1."""
    return (g.rank == 2 and g.ker[0] == g.ker[1] == 3 and g.stride[0] == g.stride[1] == 1
            and g.dil[0] == g.dil[1] == 1)


cdef inline double faster(const Plan* p, const Geometry* g, const Costs* c) noexcept nogil:
    """How many times as fast as by taps one group is.

    The costs were fitted to 4,000 timings, one thread, float: kernels of 2 to 9 cells, stride 1 and 2, dilation 1 and 2, 4 to
    128 channels, 1 to 16 samples of 7 x 7 to 39 x 39. Of those it takes, the ratio's mean is 1.25 to 1.35; its choices
    are 2 (conv, conv_input) and 4 per cent (conv_weight) slower than always the faster one.
    """
    cdef double pairs = <double>p.channels * p.rows, terms = <double>g.n * g.outs * g.taps * g.cg * g.og
    cdef bint strided = g.stride[g.rank - 1] > 1
    cdef double transforms = ((2 if p.x.in_step > 2 else 1) * c.image * p.channels
                              + (1.5 if p.x.out_step > 1 or p.line else 1) * c.result * p.rows)
    cdef double cost = p.width * (p.work * c.product * pairs + <double>p.units * p.points * transforms)
    cost += c.filters * max(p.points / (6.0 if p.flat else 36.0), 1.0) * pairs
    cdef double taps = (terms * (1 + c.few / max(p.true_rows, <int64_t>4) + c.line / p.x.out_size + (c.stride if strided else 0))
                        + c.plane * g.n * p.true_channels * p.in_cells + 10 * <double>g.taps * g.cg * g.og)
    if LNN_BYTES == 64 and p.flat:          # from 34 lines on Zen 5
        taps *= 1.1
    return taps / cost


cdef inline double gain_of(const Plan* p, const Geometry* g, double lead, bint packed) noexcept nogil:
    """How many times as fast as taps conv or conv_input is, at least 1; 0 where it is not: the transforms must be few beside the
    products they save.

    `lead`: whether it is faster than strips, so many times as fast as taps (0: no strips). Of first layers with three channels
    7 x 7 with stride 2 and 11 x 11 with stride 4 are (1.3 and 1.8 times as fast as strips), 5 x 5 and 3 x 3 are not, and
    dilated kernels take turns. `packed`: the filters are transformed already (one image of 32 channels, 5 x 5 to 64: 1.6
    times as fast as taps).

    3 x 3 kernels were measured in float with 1 and 8 samples of 3 x 3 to 56 x 56 cells: with 8 channels on both sides
    it is 1.1 (7 x 7) to 2.2 times as fast, with 64 1.4 to 3; below 8 channels or 7 x 7 outputs the two take turns.
    """
    cdef Costs c = costs(p, packed)
    cdef double gain = faster(p, g, &c)
    if common(g):
        return max(1.0, gain) if min(g.cg, g.og) >= 8 and g.n * p.out_cells >= 49 else 0
    if gain < (1.09 * max(lead, 1.05) if lead > 0 else 1.1) or (lead > 0 and g.cg <= 4 and p.x.subs > 1):
        return 0
    return gain


cdef inline double weight_gain_of(const Plan* p, const Geometry* g) noexcept nogil:
    """The same for conv_weight.

    3 x 3 kernels were measured in both types with 1 and 8 samples of 4 x 4 to 56 x 56 cells: with 8 channels on both
    sides it is 1.0 to 2.2 times as fast, with 64 1.4 to 2.9; with 3 or 4 on one side the two take turns. The way back from
    so few tiles as a single 7 x 7 has costs more than they save (0.8 to 1.0 times as fast).
    """
    cdef Costs c = weight_costs(p)
    cdef double gain = faster(p, g, &c)
    if common(g):
        return max(1.0, gain) if min(g.cg, g.og) >= 8 and g.n * g.outs >= 80 else 0
    if LNN_BYTES == 64 and not p.flat:      # of points, its rival, threads gain less
        gain *= 1.1
    return gain if gain > 1.1 else 0


cdef inline bint apart(double made, double rest, int threads) noexcept nogil:
    """Whether every thread makes all of U, or of V, itself.

    Made together it would be less work, but what another core has written costs ten times as much to read (_queue.pxd), more
    where a host puts the two on different chips. There 7 x 7 on 64 x 28 x 28 by two threads takes 1.10 ms with V of their own, 1.67 with a
    common one (3 x 3 on 28 x 28, 128 to 32 channels: 0.17 and 0.35); in calm minutes 1.10 and 1.01.
    """
    return threads > 1 and (threads - 1) * made < 0.4 * rest
