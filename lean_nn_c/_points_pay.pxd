"""Where points (_points.pxd, _points_weight.pxd) are ahead of planes (taps.pyx, taps_weight.pyx).

Points multiply real cells only, but the cells of a class come in tiles of up to six, and every class lists its terms; planes
multiply padding, unless much of it (_bands.pxd), and are made, packed, and spread. Costs are in vectors of multiply-adds,
fitted to 7,900 timings in float, one thread, of 1 to 3 axes, kernels of 1 to 15 cells, strides 1 to 3, dilation 1 and 2, 3 to 512
channels, 1 to 32 samples of 16 to 12,544 cells. By the choice conv and conv_weight are 1.2 times as fast as by planes in the
mean (always the faster one: 1.22), conv_input 1.08, with strides 1.1 times.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t

from lean_nn_c._bands cimport live
from lean_nn_c._fold cimport FOLDING, fold_pays
from lean_nn_c._geometry cimport MAX_RANK, Geometry, ceil_div, cells_read
from lean_nn_c._patches cimport patches_pay
from lean_nn_c._phases cimport residues
from lean_nn_c._planes cimport period, reach
from lean_nn_c._points cimport CELLS, LINE, TAPS, Points, in_panels, open_points
from lean_nn_c._pointwise cimport is_pointwise
from lean_nn_c._simd cimport LNN_ROWS
from lean_nn_c._spread cimport spread_suits
from lean_nn_c._strips cimport CONV, CONV_INPUT, CONV_WEIGHT, Kind
from lean_nn_c._taps cimport covers
from lean_nn_c.taps cimport level, taps_left

cdef enum:
    CALL = 43500                # what a product by planes costs whatever its size


cdef struct Real:               # of the pairs of a result's cell and a tap, those that meet a real cell
    double pairs                # all,
    double classes              # and of every class the taps


cdef inline bint add_axis(const Geometry* g, int i, const int64_t* residue, int64_t cells, Real* r) noexcept nogil:
    """The cells of one axis, or residue of it; whether each has a pair. All but those near the ends have all taps."""
    cdef int64_t low, high, taps = 0, before = -1, cell = 0
    cdef int64_t edge = reach(g, i) + g.pad[i] // g.stride[i] + 2
    while cell < cells:
        if not live(g, i, residue, cell, &low, &high):
            return False
        if low != before or high - low != taps:
            r.classes += high - low
        before, taps = low, high - low
        r.pairs += taps
        if cell == edge and cells > 2 * edge + 2:
            r.pairs += <double>taps * (cells - 2 * edge - 2)
            cell = cells - edge - 2
        cell += 1
    return True


cdef inline bint real_pairs(const Geometry* g, bint transposed, Real* r) noexcept nogil:
    """Of all axes; False: some cell of the result has no pair."""
    cdef int64_t residue[MAX_RANK]
    cdef int64_t first, k
    cdef Real axis
    cdef int i
    r.pairs = r.classes = 1
    for i in range(g.rank):
        axis.pairs = axis.classes = 0
        if not transposed and not add_axis(g, i, NULL, g.out[i], &axis):
            return False
        for k in range(min(g.ker[i], period(g.stride[i], g.dil[i])) if transposed else 0):
            residue[i], first = k, k * g.dil[i] % g.stride[i] - g.pad[i]
            if not add_axis(g, i, &residue[0], ceil_div(g.inp[i] - first, g.stride[i]) - ceil_div(-first, g.stride[i]), &axis):
                return False
        r.pairs *= axis.pairs
        r.classes *= axis.classes
    return not transposed or covers(g)


cdef inline bint points_suit(const Geometry* g, Kind kind, Real* r) noexcept nogil:
    """Whether points can do it, in the memory they may take."""
    cdef int64_t line = g.cells // max(g.inp[0], 1) if kind == CONV_INPUT else g.outs // max(g.out[0], 1)
    if g.n * g.c * g.cells == 0 or g.n * g.o * g.outs == 0 or g.cg == 0 or g.og == 0:
        return False
    if kind == CONV_WEIGHT:
        real_pairs(g, False, r)
        return g.taps <= TAPS
    return line <= LINE and g.taps <= 1024 and real_pairs(g, kind == CONV_INPUT, r)


cdef inline double planes_cost(const Geometry* g, Kind kind, const Real* r, int lanes, int itemsize) noexcept nogil:
    cdef double rows = g.og, terms = g.cg, source = cells_read(g), results = g.outs, last = g.out[g.rank - 1], pairs, places
    cdef int i
    if kind == CONV_WEIGHT:
        terms = ceil_div(g.cg * g.taps, lanes) * lanes
        return (g.n * (results * (rows * terms + 5.1 * terms + 28 * terms / last + 2.9 * rows) + 6.7 * g.cg * source)
                + 3.5 * rows * terms) / lanes + 32000
    if kind == CONV_INPUT:
        rows, terms, source, results, last = g.cg, g.og, g.outs, g.cells, g.inp[g.rank - 1]
    if kind == CONV_INPUT and residues(g) > 1:
        pairs, places = min(<double>g.taps * g.outs, 2 * r.pairs), g.taps
        for i in range(g.rank):
            places *= ceil_div(g.inp[i], g.stride[i])
        places = 1.35 * places + 8 * source + 300           # and a plane is filled
        return (g.n * (terms * (0.94 * rows * pairs + places) + rows * results * (
            (5 if g.stride[g.rank - 1] <= 2 else 10) + 112 / last)) + 9 * rows * terms * g.taps) / lanes + 45000
    pairs = g.taps * results * taps_left(g, kind == CONV_INPUT)
    if kind == CONV_INPUT and fold_pays(g, itemsize):
        return (g.n * rows * g.taps * source * (terms + FOLDING) + 9 * rows * terms * g.taps) / lanes + CALL
    places = 19 * g.taps * results / last + 8 * source
    if kind == CONV and patches_pay(g, itemsize):       # there are none
        places = 0
    return (g.n * (terms * (pairs * (rows + 3.1) + places) + 3.4 * rows * results) + 9 * rows * terms * g.taps) / lanes + CALL


cdef inline double in_pairs(int64_t vectors) noexcept nogil:
    """Vectors of results that take as long as so many do: one alone has too few sums under way."""
    return vectors + 0.4 * (vectors % 2)


cdef inline double points_cost(const Geometry* g, Kind kind, const Real* r, int lanes, int itemsize) noexcept nogil:
    cdef Points p
    cdef double vectors = in_pairs(ceil_div(g.cg if kind == CONV_INPUT else g.og, lanes)), repeats
    if kind == CONV_WEIGHT:
        repeats = ceil_div(g.n, max(min(CELLS // g.outs, g.n), <int64_t>1)) * ceil_div(g.outs, CELLS)       # blocks
        return (vectors * in_panels(g.cg) * (g.n * r.pairs + g.taps * (9.5 * repeats + 1)) + 5.5 * vectors * g.n * g.outs
                + 4.7 * g.taps * (g.n * g.outs if g.outs > CELLS else min(<int64_t>CELLS, g.n * g.outs)) + 22000)
    open_points(&p, g, kind == CONV_INPUT, 1, itemsize)
    repeats = ceil_div(g.n, p.samples)
    return (vectors * p.channels * (g.n * r.pairs + 1.7 * r.classes * repeats + 5 * g.taps * p.chunks)
            + vectors * g.n * p.cells * (10 + 6 * p.blocks) + 18 * p.channels * r.classes * repeats + 22000)


cdef inline double by_width(const Geometry* g, Kind kind, int lanes) noexcept nogil:
    """What vectors of 64 bytes change: planes leave more of them empty where results are few. From 780 layers on Zen 5, of which the choices
    among all algorithms are 4 to 6 per cent behind the best."""
    cdef double terms = g.n * g.outs
    if level().bytes < 64:
        return 1
    if kind == CONV_INPUT:
        return 1.05
    if kind == CONV:
        return 1.35 if g.og < 2 * lanes else 1.05
    if <double>g.o * g.cg * g.taps > 131072:        # results in memory, not in a cache, written here and there
        return 1.12 * terms / (terms + 30)
    return 1.26 if g.og < 2 * lanes else 1.12


cdef inline double points_lead(const Geometry* g, Kind kind, int itemsize) noexcept nogil:
    """How many times as fast as by planes a contraction is by points; 0: it cannot be."""
    cdef Real r
    cdef int lanes = level().bytes // itemsize
    if not points_suit(g, kind, &r):
        return 0
    if kind == CONV_WEIGHT and is_pointwise(g) and g.groups == 1 and 32 <= g.og <= 64 and max(2 * g.og, <int64_t>128) <= g.cg <= 512:
        return 1.08                 # the image is not packed: 1.04 to 1.17, with other numbers of channels 0.65 to 1.2 (57 layers)
    if is_pointwise(g) or ((g.cg if kind == CONV_INPUT else g.og) < lanes and (g.groups > 1 or kind == CONV_INPUT)):
        return 0.1                  # a matrix product; few rows, read in place
    if kind == CONV_WEIGHT and g.groups * ceil_div(g.og, 2 * lanes) * max(g.cg // LNN_ROWS, <int64_t>1) * g.taps < 4:
        return 0.1                  # threads share outputs, channels and taps, of which there are too few
    return planes_cost(g, kind, &r, lanes, itemsize) / points_cost(g, kind, &r, lanes, itemsize) * by_width(g, kind, lanes)


cdef inline double strips_cost(const Geometry* g, int lanes) noexcept nogil:
    """conv_input of few channels by strips, without strides: fitted to 123 timings, of which it is 20 per cent off."""
    cdef double last = g.inp[g.rank - 1], vectors = g.cells / last * ceil_div(g.inp[g.rank - 1], lanes)
    return g.n * g.og * (g.taps * vectors * (g.cg + 0.24) + (11.0 * g.outs + 59.0 * g.taps) / lanes)


cdef inline double spread_lead(const Geometry* g, bint few, int itemsize) noexcept nogil:
    """How many times as fast as by planes, or by strips if these are taken (`few`), conv_input is by products that are spread
    (_spread.pxd); 0: it cannot be, or is not known.

    Fitted to 1,300 timings in float, one thread, of 1 to 128 channels from 24 to 512 outputs: its error is 13 per cent.
    """
    cdef Real r
    cdef int lanes = level().bytes // itemsize
    cdef double rows = g.cg * g.taps, each = 24 + 390.0 / max(g.out[g.rank - 1], 1), cost
    cdef double sure = 0.85 if g.groups == 1 or g.stride[g.rank - 1] == 1 else 1.15     # of strided groups planes cost less than is said
    if g.taps == 1 or g.og < 24 or g.cg > 128 or not spread_suits(g, itemsize):
        return 0
    if not points_suit(g, CONV_INPUT, &r):
        r.pairs = INFINITY
    cost = g.outs * (in_panels(g.cg * g.taps) * g.og + rows * each + 5.5 * g.og) + 18 * rows * g.og + 6.0 * g.cg * g.cells
    return (strips_cost(g, lanes) if few else of_group(g, &r, lanes, itemsize)) * lanes / (sure * g.n * cost)


cdef inline double of_group(const Geometry* g, const Real* r, int lanes, int itemsize) noexcept nogil:
    """conv_input of one group by planes: what a call costs is shared by all."""
    return planes_cost(g, CONV_INPUT, r, lanes, itemsize) - CALL * (1 - 1.0 / g.groups)


cdef inline bint planes_before_strips(const Geometry* g, Kind kind, int itemsize) noexcept nogil:
    """Whether conv_input is by planes so much faster than by strips that the estimates can tell: without strides, from many outputs. Of 90
    layers of which strips would be taken 12 were 1.2 to 6 times as fast by planes: without padding, where bands leave most products out."""
    cdef Real r
    cdef int i, lanes = level().bytes // itemsize
    if kind != CONV_INPUT or g.og < 24:
        return False
    for i in range(g.rank):
        if g.stride[i] > 1:
            return False
    if not points_suit(g, CONV_INPUT, &r):
        return False
    return of_group(g, &r, lanes, itemsize) < 0.6 * strips_cost(g, lanes)


cdef inline double points_before_strips(const Geometry* g, Kind kind, int itemsize) noexcept nogil:
    """From which lead on points are ahead of strips (_strips_pay.pxd), where these are ahead of planes: few results, which leave
    vectors of points empty, do not harm strips. From 3,300 timings. Of up to four terms per tap what is made once, the weight and the
    lists, is never paid (strips are 1.3 to 2.8 times as fast)."""
    cdef int64_t results = g.cg if kind == CONV_INPUT else g.og, lanes = level().bytes // itemsize
    cdef double width = 1 if level().bytes < 64 else 0.5 if kind == CONV_INPUT else 0.65       # as by_width
    if kind != CONV_WEIGHT and (g.og if kind == CONV_INPUT else g.cg) <= 4:
        return INFINITY
    if results < lanes:
        return width * (2 if kind == CONV_INPUT else 1.5)
    if results < 2 * lanes:
        return width * 1.2
    return width * (0.8 if kind == CONV_WEIGHT else 1)
