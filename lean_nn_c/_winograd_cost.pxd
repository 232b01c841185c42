"""What Winograd's convolution costs, in terms of a sum by taps: whether it pays, and what threads make for themselves."""

from libc.stdint cimport int64_t

from lean_nn_c._geometry cimport Geometry
from lean_nn_c._winograd_plan cimport Plan


cdef struct Costs:      # in terms of a sum by taps
    double product      # a term of the tiles' products
    double image        # a tile's transform, per channel and point; twice as much where its cells are more than two apart
    double result       # and per row
    double filters      # a filter's of 3 x 3 cells; of 5 x 5 more by its points
    double few          # by taps: of a term, divided by the rows (or 4)
    double line         # the same, divided by the outputs of a line
    double plane        # of a cell of the source
    double stride       # of a term, where strides are more than 1


cdef inline Costs costs(bint transposed, bint packed, bint line) noexcept nogil:
    """Of conv and conv_input; `packed`: from filters that are transformed already.

    On a line the transforms take less: thirteen results of a tile are neighbours, nine taps a filter as it lies. Fitted to 3,500
    timings of 3 to 15 taps, 8 to 256 channels, 1 to 16 samples of 64 to 8192 cells: 7 and 9 taps are 1.3 and 1.7 times as fast as by taps.
    """
    return [1.2, 7 if line else 12, 7.6 if line else 19, 0 if packed else 380 if line else 630, 3, 2.5, 0 if transposed else 20,
            0.4 if transposed else 0]


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
    cost += c.filters * max(p.points / 36.0, 1.0) * pairs
    cdef double taps = (terms * (1 + c.few / max(p.true_rows, <int64_t>4) + c.line / p.x.out_size + (c.stride if strided else 0))
                        + c.plane * g.n * p.true_channels * p.in_cells + 10 * <double>g.taps * g.cg * g.og)
    return taps / cost


cdef inline bint apart(double made, double rest, int threads) noexcept nogil:
    """Whether every thread makes all of U, or of V, itself.

    Made together it would be less work, but what another core has written costs ten times as much to read (_queue.pxd), more
    where a host puts the two on different chips: 7 x 7 on 64 x 28 x 28 then gained 1.25 by a second thread, not 1.8.
    """
    return threads > 1 and (threads - 1) * made < 0.15 * rest
