"""Where strips (_strips.pxd) are ahead of taps."""

from libc.stdint cimport int64_t

from lean_nn_c._geometry cimport Geometry, ceil_div, cells_read
from lean_nn_c._patches cimport patches_pay
from lean_nn_c._simd cimport LNN_BYTES
from lean_nn_c._strips cimport CONV, CONV_INPUT, CONV_WEIGHT, Kind
from lean_nn_c.gemm cimport FEW
from lean_nn_c.taps cimport taps_left


cdef inline int64_t outputs(const Geometry* g) noexcept nogil:
    """To how many outputs of a group conv_weight pays by strips: more where vectors are full, windows strided, Winograd's
    algorithm far. From 300 timings of 1 to 32 channels on rows of 5 to 112, in both types: 1.1 to 2.5 times as fast."""
    cdef int64_t row = g.out[g.rank - 1]
    if row < 7 or g.outs < 48:
        return 4
    if g.stride[g.rank - 1] > 1:
        return 24 if row >= 14 else 12
    if row < 14:
        return 5
    return 32 if g.cg * g.taps <= 27 else 9 if g.cg <= 9 else 7


cdef inline double lead(const Geometry* g, int itemsize) noexcept nogil:
    """How many times as fast as by taps conv is by strips: more than once where the image is read once or twice only, strided
    or by few rows; at most 1.05 with few channels, where the estimate is too good, and less where rows are many (61 timings with 64
    outputs or more: taps are 1.16 to 1.4 times as fast).

    Strips are filled more cheaply than planes and not packed, but have vectors that overlap, and lists to make. Costs in
    multiply-adds, per sample and channel, fitted to 6,000 timings in float, one thread, of 1 to 3 axes, kernels of 1 to 7
    cells (15 on one axis), strides 1 to 3, dilation 1 and 2, 4 to 147 channels, 1 to 32 samples. On strided layers the choice
    makes conv 1.05 to 1.16 times as fast in the mean, where always the faster one would 1.09 to 1.2; in double the same.
    Vectors of 16 bytes are behind by a fifth (13 layers). Of 176 more layers the choice was 2.8 per cent slower than the faster.
    """
    cdef int lanes = LNN_BYTES // itemsize, i, last = g.rank - 1
    cdef double product = itemsize / 4.0, cells = cells_read(g), phases = 1, strides = 1, lines, strips, taps
    for i in range(g.rank):
        phases *= min(g.ker[i], g.stride[i])
        strides *= g.stride[i]
    if g.n * g.outs == 0 or (g.taps == 1 and strides == 1):
        return 1
    lines = g.outs // g.out[last]
    strips = ((0.9 if LNN_BYTES >= 32 else 1.2) * product * g.og * g.taps * lines * ceil_div(g.out[last], lanes) * lanes
              + (20 if g.stride[last] > 2 else 10) * cells + 20 * lines * phases + 500.0 * g.taps / (g.n * g.groups))
    taps = product * g.og * g.taps * g.outs * taps_left(g, False) + 20 * lines * g.taps + 30 * cells
    if g.og > 40 and g.out[last] >= 12 and g.cg > 4:        # many rows, no short lines: packing does not show
        return 0.8 * taps / strips
    if g.cg <= 4:
        return min(taps / strips, 1.05) * (0.75 if g.og >= 64 else 1)
    return min(taps / strips, 4.0)


cdef inline bint pay(const Geometry* g, Kind kind, int itemsize) noexcept nogil:
    """Whether strips beat taps.

    Measured on one core in both types: 1 to 512 channels per group to either side, kernels of 2 to 11 cells a side,
    strides 1 to 8, rows of 5 to 224, 1 to 3 axes. Few channels to sum over (4; 8 where both sides of many groups are as
    narrow) are ahead where vectors are not mostly empty, few to sum into only on larger planes. conv_input of eight channels
    or fewer is ahead on any plane, unless sums are very long or many products by taps are left out. Spreading y_bar costs
    its stride: many of its channels do not pay, up to four do at any stride (1.1 to 9 times as fast, depthwise layers 3 to 8
    times), and twelve where windows hardly overlap: there, by taps, every residue's few terms are packed and spread (1.3
    times as fast in the mean, up to 5).
    """
    cdef int last = g.rank - 1
    cdef int64_t terms = g.og if kind == CONV_INPUT else g.cg, rows = g.cg if kind == CONV_INPUT else g.og
    cdef double ahead = lead(g, itemsize) if kind == CONV else 1
    if kind != CONV_INPUT and g.og >= FEW and patches_pay(g, itemsize):
        return False
    if ahead > 1:
        return True
    if g.taps == 1:                 # of which conv_input, strided, is mostly zeros: written once (1.7 to 5 times as fast)
        return kind == CONV_INPUT and g.stride[last] > 1 and g.og <= 4
    if kind == CONV_WEIGHT:
        return g.og <= outputs(g)
    if kind == CONV_INPUT and g.stride[last] > 1:
        return g.og <= (12 if g.ker[last] <= g.stride[last] + 1 else 4)
    if terms <= 4 or (g.groups > 1 and terms <= 8 and rows <= 8):
        return ahead > 0.8
    if kind == CONV_INPUT and rows <= 8 and terms * g.taps <= 4096 and taps_left(g, True) > 0.7:
        return True
    return rows <= 4 and (g.cells if kind == CONV_INPUT else g.outs) >= 512
