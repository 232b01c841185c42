"""Which algorithm computes a convolution: what conv.pyx knows of one, and what the geometry alone decides."""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t

from lean_nn_c._depthwise_plan cimport depthwise_suits
from lean_nn_c._geometry cimport Geometry
from lean_nn_c._points_pay cimport planes_before_strips, points_before_strips, points_lead, spread_lead
from lean_nn_c._pointwise cimport weight_packs
from lean_nn_c._spread cimport spread_suits
from lean_nn_c._strips cimport CONV, CONV_INPUT, CONV_WEIGHT, Kind
from lean_nn_c._tail cimport lnn_tail
from lean_nn_c._winners_plan cimport Winners
from lean_nn_c._winograd_cost cimport common
from lean_nn_c.direct cimport strips_lead, strips_pay
from lean_nn_c.precision cimport is_fast
from lean_nn_c.step cimport STEP_DONE, STEP_NO_MEMORY
from lean_nn_c.taps cimport DONE, NO_MEMORY, taps_left
from lean_nn_c.winograd cimport winograd_gain, winograd_tile, winograd_weight_gain

cdef enum Algorithm:
    AUTO
    TAPS
    POINTS
    WINOGRAD
    STRIPS
    DEPTHWISE
    SPREAD
    DIRECT


cdef struct Plan:
    Geometry g
    Algorithm by
    bint bias           # there is one (for `pack`: it is conv_input's weight)
    lnn_tail tail
    int tile            # products of Winograd's tiles; 0: it does not apply
    bint alone          # whether channels go alone, straight from the image: decided once, as is
    bint few            # whether strips are taken,
    bint points         # whether points are taken rather than planes,
    double ahead        # how many times as fast these are, by estimate, or 1,
    double gain         # and how many times as fast as the faster of them Winograd's algorithm is; 0: it is not
    double spread       # conv_input: how many times as fast as strips, if these are taken, or planes spread products are
    bint packed         # a transformed weight comes with the arrays,
    bint panelled       # or one in panels
    bint headed         # the image is made as it is read
    int64_t windows     # of a pooling, on a plane of outputs,
    Winners at          # and how its winners are summed


cdef struct Pair:       # of the gradients of one layer
    Plan input
    Plan weight


cdef inline bint by_strips(const Plan* p, Kind kind, int itemsize) noexcept nogil:
    return p.by == STRIPS or (p.by == AUTO and strips_pay(&p.g, kind, itemsize) and not planes_before_strips(&p.g, kind, itemsize)
                              and p.ahead < max(points_before_strips(&p.g, kind, itemsize),
                                                strips_lead(&p.g, itemsize) / 1.3 if kind == CONV else 0))


cdef inline double trust(const Geometry* g, Kind kind, int tile) noexcept nogil:
    """How far what is said of Winograd's algorithm holds, beside planes and points of today: fitted to 2,000 timings of layers that
    are not plain and, with nine products per axis, to 1,300 of 4 to 10 taps (choices 5, 7 and 4 per cent behind the best)."""
    cdef int i, last = g.rank - 1
    cdef double share = 1.4
    cdef int64_t longest = 1
    if common(g):
        return 1
    if kind == CONV_WEIGHT and g.dil[last] > 1 and (tile < 16 or (tile < 81 and g.rank > 1)):      # far too much (370 layers)
        return 0.6 if tile < 16 else 0.5
    if tile < 16:
        return 0.7 if kind == CONV_INPUT and g.stride[last] > 1 else 1
    if kind != CONV_INPUT:
        return 0.83 if tile < 81 else 1.1 if kind == CONV else 1
    for i in range(g.rank):
        longest = max(longest, g.ker[i])
    if g.rank != 2:
        share *= 0.74
    if g.stride[last] > 1:
        share *= 0.82
    if g.dil[last] > 1:
        share *= 0.82
    return share * 0.61 if longest == 2 else share


cdef inline void choose(Plan* p, str name, int itemsize):
    """What the geometry alone decides."""
    cdef const Geometry* g = &p.g
    cdef bint transposed = name == "conv_input"
    cdef Kind kind = CONV_WEIGHT if name == "conv_weight" else CONV_INPUT if transposed else CONV
    cdef double left = 1
    p.ahead = points_lead(g, kind, itemsize)
    p.points = p.ahead > 0 and (p.by == POINTS or (p.by == AUTO and p.ahead > 1))
    p.alone = (p.by == AUTO or p.by == DEPTHWISE) and depthwise_suits(g, transposed, kind == CONV_WEIGHT, p.by == AUTO, itemsize)
    p.few = by_strips(p, kind, itemsize)
    if not transposed or (p.by == SPREAD and (g.rank == 0 or not spread_suits(g, itemsize))):
        p.spread = 0
    else:
        p.spread = INFINITY if p.by == SPREAD else spread_lead(g, p.few, itemsize)
    p.ahead = max(p.ahead, 1.0)
    p.tile = winograd_tile(g, transposed, kind == CONV_WEIGHT, itemsize)
    if kind == CONV_WEIGHT:
        p.gain = winograd_weight_gain(g, p.tile, itemsize)
    else:
        p.gain = winograd_gain(g, transposed, p.tile, itemsize, strips_lead(g, itemsize) if p.few and not transposed else 0, p.packed)
        left = taps_left(g, transposed) if p.ahead == 1 else 1
    if not p.few:
        left /= p.ahead
    p.gain *= left * trust(g, kind, p.tile)
    # Of plain 3 x 3 layers the estimate says too little (640 of them: 3 to 5 per cent behind the best).
    if p.gain < (0.9 if common(g) and kind != CONV_WEIGHT else 1):
        p.gain = 0


cdef inline bint by_winograd(const Plan* p) noexcept nogil:
    return p.tile != 0 and (p.by == WINOGRAD or (p.by == AUTO and p.gain > 0 and is_fast()))


cdef inline bint by_spread(const Plan* p) noexcept nogil:
    """Whether conv_input is by spread products. Of strided layers with few channels planes cost more than the estimate says."""
    cdef double rest = 1.2
    if not p.few and by_winograd(p):
        rest = 1.1 * p.ahead * p.gain
    elif not p.few and p.ahead > 1:
        rest = p.ahead
    elif not p.few and p.g.stride[p.g.rank - 1] > 1 and p.g.cg <= 32:
        rest = 0.85
    return p.spread > 0 if p.by == SPREAD else p.by == AUTO and p.spread > rest


cdef inline bint by_taps(const Plan* p) noexcept nogil:
    return p.by == AUTO or p.by == TAPS or p.by == WINOGRAD


cdef inline bint in_panels(const Plan* p, bint transposed) noexcept nogil:
    """Whether a packed weight is one in panels: of a layer with one tap, which has nothing to gain from Winograd's tiles."""
    return by_taps(p) and p.by != WINOGRAD and not p.few and weight_packs(&p.g, transposed)


cdef inline bint final(int status) noexcept nogil:
    """Whether no other algorithm is to be tried: the result stands, or there is no memory."""
    return status == DONE or status == NO_MEMORY


cdef inline int told(int status) noexcept nogil:
    return STEP_DONE if status == DONE else STEP_NO_MEMORY
