"""The three contractions of  sum w[o, c, k] * x~[n, c, p*s + k*d - pad] * y[n, o, p]  as steps; unfold and fold.

The geometry comes as tuples of one length, the spatial rank. `pad` is the padding before each axis; the padding after it
shows only in `out`. Results are written, never added.

The algorithm: "depthwise" (_depthwise.pxd) for groups of one channel with small planes; "winograd" (winograd.pyx) where it pays
and the precision is "fast"; "strips" (direct.pyx) where a group has few channels or reads its image once or twice only; "spread"
(_spread.pxd), which multiplies first and adds then, for conv_input of few channels from many outputs; else "points" (_points.pxd,
_points_weight.pxd), which read real cells where they lie, or "taps" (taps.pyx, taps_weight.pyx), on padded planes, whichever an
estimate says (_points_pay.pxd); unless
another is asked for. Planes that would be far larger than image and output, and a padding zero that has met an infinite or
NaN factor, which shows as a NaN in the result, leave it to "direct" (direct.pyx), which multiplies real cells only. An algorithm
that is asked for is tried where "auto" would not; what it cannot do, "direct" does. "im2col" is unfold and a matrix product,
made by the caller.

This module chooses, and lists points: it is compiled once, and calls the kernels of the level that was chosen at import.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from lean_nn_c._conv_choice cimport (
    AUTO, DEPTHWISE, DIRECT, POINTS, SPREAD, STRIPS, TAPS, WINOGRAD, Pair, Plan, by_spread, by_taps, by_winograd, choose, final,
    in_panels, told, trust,
)
from lean_nn_c._depthwise_plan cimport depthwise_conv, depthwise_weight
from lean_nn_c._geometry cimport Geometry, read_geometry, refuse
from lean_nn_c._head cimport HEADS, Head, read_head
from lean_nn_c._points cimport points_conv
from lean_nn_c._points_weight cimport points_conv_weight
from lean_nn_c._pointwise cimport weight_panels
from lean_nn_c._spread cimport spread_conv_input
from lean_nn_c._strips cimport CONV_INPUT, CONV_WEIGHT
from lean_nn_c._tail cimport aim_tail, lnn_tail, tail_arrays
from lean_nn_c._types cimport real
from lean_nn_c._winners_plan cimport set_winners, winners_pay
from lean_nn_c.direct cimport (
    all_finite, direct_conv, direct_conv_weight, direct_fold, direct_unfold, strips_conv, strips_conv_weight,
)
from lean_nn_c.step cimport (
    STEP_DONE, STEP_NO_MEMORY, STEP_TOO_LARGE, Kernel, give_scratch, make_step, probing, read_tail, take_scratch,
)
from lean_nn_c.taps cimport DONE, SPOILT, UNSUITED, panelled_conv, panelled_pack, taps_conv
from lean_nn_c.taps_weight cimport taps_conv_weight, winners_conv_input, winners_conv_weight, winners_lanes
from lean_nn_c.winograd cimport (
    winograd_both, winograd_conv, winograd_conv_both, winograd_conv_weight, winograd_pack, winograd_packed, winograd_read,
    winograd_reads, winograd_tile,
)

ALGORITHMS = {
    "auto": AUTO, "taps": TAPS, "points": POINTS, "winograd": WINOGRAD, "strips": STRIPS, "depthwise": DEPTHWISE,
    "spread": SPREAD, "direct": DIRECT,
}


cdef bint spoilt(const real* result, Py_ssize_t n, const real* factor, Py_ssize_t m) noexcept nogil:
    """Whether padding zeros may have met non-finite values of `factor`; the smaller array is looked at first."""
    if m < n:
        return not all_finite(factor, m) and not all_finite(result, n)
    return not all_finite(result, n) and not all_finite(factor, m)


# --- the contractions ---


cdef int conv(const Plan* p, bint transposed, const real* source, const real* w, const real* b, const real* packed,
              const lnn_tail* tail, real* out) noexcept nogil:
    """conv        y[n, o, p] = b[o] + sum_{c, k} x~[n, c, p*s + k*d - pad] * w[o, c, k]

    conv_input (`transposed`)
                x_bar[n, c, u] = b[c] + sum over o, p, k with p*s + k*d - pad = u of y_bar[n, o, p] * w[o, c, k]
    """
    cdef const Geometry* g = &p.g
    cdef int64_t results = g.n * (g.c * g.cells if transposed else g.o * g.outs), weights = g.o * g.cg * g.taps
    cdef int status = UNSUITED
    cdef bint empty = transposed and (weights == 0 or g.n * g.o * g.outs == 0)
    if results == 0:
        return STEP_DONE
    if transposed and not empty and by_spread(p):
        return told(spread_conv_input(g, source, w, b, tail, out))
    if p.alone and (probing() or all_finite(w, weights)):
        status = depthwise_conv(g, transposed, source, w, b, tail, out)
    if not final(status) and p.few and not empty and (transposed or not by_winograd(p)):
        status = strips_conv(g, transposed, source, w, b, tail, out)
    if not final(status) and not empty and by_winograd(p) and not p.panelled:
        status = winograd_conv(g, transposed, p.tile, source, w, packed, b, tail, NULL, out)
    if not final(status) and not empty and p.panelled:      # nothing is padded: no zero meets what is not finite
        status = panelled_conv(g, transposed, source, packed, b, tail, out)
    if not final(status) and not empty and p.points:
        status = points_conv(g, transposed, source, w, b, tail, out)
    if not final(status) and not empty and by_taps(p):
        status = taps_conv(g, transposed, source, w, b, tail, out)
        if status == UNSUITED and p.by == TAPS:
            return STEP_TOO_LARGE
        if status == DONE and not probing() and spoilt(<const real*>out, results, w, weights):
            status = UNSUITED
    if final(status):
        return told(status)
    if probing():
        return STEP_NO_MEMORY
    direct_conv(g, transposed, source, w, b, tail, out)
    return STEP_DONE


cdef int conv_weight(const Plan* p, const real* x, const real* y_bar, real* w_bar) noexcept nogil:
    """w_bar[o, c, k] = sum_{n, p} x~[n, c, p*s + k*d - pad] * y_bar[n, o, p]"""
    cdef const Geometry* g = &p.g
    cdef int64_t results = g.o * g.cg * g.taps, cells = g.n * g.c * g.cells, outs = g.n * g.o * g.outs
    cdef int status = UNSUITED
    if results == 0 or cells == 0 or outs == 0:
        memset(w_bar, 0, results * sizeof(real))
        return STEP_DONE
    if p.alone:
        status = depthwise_weight(g, x, y_bar, w_bar)
        if status == DONE and not probing() and not all_finite(<const real*>w_bar, results):
            status = SPOILT
    if not final(status) and p.few:
        status = strips_conv_weight(g, x, y_bar, w_bar)
    if not final(status) and by_winograd(p):
        status = winograd_conv_weight(g, p.tile, x, y_bar, w_bar)
    if not final(status) and p.points:
        status = points_conv_weight(g, x, y_bar, w_bar)
    if not final(status) and by_taps(p):
        status = taps_conv_weight(g, x, y_bar, w_bar)
        if status == UNSUITED and p.by == TAPS:
            return STEP_TOO_LARGE
        if status == DONE and not probing() and (spoilt(<const real*>w_bar, results, y_bar, outs)
                               or spoilt(<const real*>w_bar, results, x, cells)):
            status = UNSUITED
    if final(status):
        return told(status)
    if probing():
        return STEP_NO_MEMORY
    direct_conv_weight(g, x, y_bar, w_bar)
    return STEP_DONE


cdef const real* read_image(const Geometry* g, const Head* head, const real* x) noexcept nogil:
    """The image that a head makes, in scratch; NULL: no memory."""
    cdef real* image = <real*>take_scratch(g.n * g.c * g.cells * sizeof(real))
    if image != NULL:
        winograd_read(g, head, x, image)
    return image


cdef int conv_headed(const Plan* p, const Head* head, const real* x, const real* w, const real* b, const real* packed,
                     const lnn_tail* tail, real* y) noexcept nogil:
    """conv of an image that is made as it is read; at once only where Winograd's algorithm cannot take it."""
    cdef int status = UNSUITED
    cdef const real* image
    if by_winograd(p):
        status = winograd_conv(&p.g, False, p.tile, x, w, packed, b, tail, head, y)
    if final(status):
        return told(status)
    image = read_image(&p.g, head, x)
    status = conv(p, False, image, w, b, packed, tail, y) if image != NULL else STEP_NO_MEMORY
    give_scratch(<void*>image)
    return status


cdef int conv_both(const Pair* p, const real* y_bar, const real* w, const real* x, const lnn_tail* tail, const Head* head,
                   real* x_bar, real* w_bar) noexcept nogil:
    """conv_input and conv_weight."""
    cdef int status = UNSUITED
    cdef const real* image = x
    if by_winograd(&p.input) and by_winograd(&p.weight):
        status = winograd_conv_both(&p.input.g, p.input.tile, y_bar, w, x, tail, head, x_bar, w_bar)
    if final(status):
        return told(status)
    status = conv(&p.input, True, y_bar, w, <const real*>NULL, <const real*>NULL, tail, x_bar)
    if head != NULL:
        image = read_image(&p.input.g, head, x)
    if status == STEP_DONE:
        status = conv_weight(&p.weight, image, y_bar, w_bar) if image != NULL else STEP_NO_MEMORY
    give_scratch(<void*>image if head != NULL else NULL)
    return status


cdef float* spread_out(const Plan* p, const float* y_bar, const int64_t* idx) noexcept nogil:
    """y_bar in an array of the output's size, scratch; NULL: no memory."""
    cdef int64_t i, outs = p.g.n * p.g.o * p.g.outs
    cdef float* spread = <float*>take_scratch(outs * sizeof(float))
    if spread != NULL:
        memset(spread, 0, outs * sizeof(float))
        for i in range(p.g.n * p.g.o * p.windows):
            spread[i // p.windows * p.g.outs + idx[i]] += y_bar[i]
    return spread


cdef int conv_at(const Plan* p, bint transposed, const float* factor, const float* y_bar, const int64_t* idx,
                 float* result) noexcept nogil:
    """conv_weight (the factor is x), or conv_input (`transposed`; it is w), of y_bar spread to the cells `idx`.

    Where values are not finite, it is spread, and multiplied whole.
    """
    cdef const Geometry* g = &p.g
    cdef int64_t image = g.n * g.c * g.cells, weights = g.o * g.cg * g.taps
    cdef int status
    cdef float* spread
    if probing() or all_finite(factor, weights if transposed else image):
        status = (winners_conv_input(&p.at, g, p.windows, y_bar, idx, factor, result) if transposed else
                  winners_conv_weight(&p.at, g, p.windows, factor, y_bar, idx, result))
        if status != DONE or all_finite(<const float*>result, image if transposed else weights):
            return told(status)
    spread = spread_out(p, y_bar, idx)
    if spread == NULL:
        return STEP_NO_MEMORY
    if transposed:
        direct_conv(g, True, <const float*>spread, factor, <const float*>NULL, NULL, result)
    else:
        direct_conv_weight(g, factor, <const float*>spread, result)
    give_scratch(spread)
    return STEP_DONE


# --- as steps: untyped pointers in, the element type chosen once ---


cdef int run_conv(const void* plan, bint transposed, char** at, real unused) noexcept nogil:
    """Arrays: source, w[, b][, what the tail adds][, its gate][, packed][, the head's four], result."""
    cdef const Plan* p = <const Plan*>plan
    cdef lnn_tail tail = p.tail
    cdef int b = 2, other = b + p.bias, packed = other + tail_arrays(&tail), heads = packed + p.packed
    cdef int out = heads + (HEADS if p.headed else 0)
    cdef bint ends = aim_tail(&tail, at, other, out) and not probing()
    cdef Head head
    if p.headed:
        read_head(&head, at + heads)
        return conv_headed(p, &head, <const real*>at[0], <const real*>at[1], <const real*>at[b] if p.bias else NULL,
                           <const real*>at[packed] if p.packed else NULL, &tail if ends else NULL, <real*>at[out])
    return conv(p, transposed, <const real*>at[0], <const real*>at[1], <const real*>at[b] if p.bias else NULL,
                <const real*>at[packed] if p.packed else NULL, &tail if ends else NULL,
                <real*>at[out])


cdef int conv_f32(const void* plan, char** at) noexcept nogil:
    return run_conv(plan, False, at, <float>0)


cdef int conv_f64(const void* plan, char** at) noexcept nogil:
    return run_conv(plan, False, at, <double>0)


cdef int conv_input_f32(const void* plan, char** at) noexcept nogil:
    return run_conv(plan, True, at, <float>0)


cdef int conv_input_f64(const void* plan, char** at) noexcept nogil:
    return run_conv(plan, True, at, <double>0)


cdef int conv_weight_f32(const void* plan, char** at) noexcept nogil:
    return conv_weight(<const Plan*>plan, <const float*>at[0], <const float*>at[1], <float*>at[2])


cdef int conv_weight_f64(const void* plan, char** at) noexcept nogil:
    return conv_weight(<const Plan*>plan, <const double*>at[0], <const double*>at[1], <double*>at[2])


cdef int run_both(const void* plan, char** at, real unused) noexcept nogil:
    """Arrays: y_bar, w, x[, what the tail of x_bar adds][, its gate][, the four of x's head], x_bar, w_bar."""
    cdef const Pair* p = <const Pair*>plan
    cdef lnn_tail tail = p.input.tail
    cdef int heads = 3 + tail_arrays(&tail), out = heads + (HEADS if p.input.headed else 0)
    cdef bint ends = aim_tail(&tail, at, 3, out) and not probing()
    cdef Head head
    if p.input.headed:
        read_head(&head, at + heads)
    return conv_both(p, <const real*>at[0], <const real*>at[1], <const real*>at[2], &tail if ends else NULL,
                     &head if p.input.headed else NULL, <real*>at[out], <real*>at[out + 1])


cdef int both_f32(const void* plan, char** at) noexcept nogil:
    return run_both(plan, at, <float>0)


cdef int both_f64(const void* plan, char** at) noexcept nogil:
    return run_both(plan, at, <double>0)


cdef int conv_weight_at(const void* plan, char** at) noexcept nogil:
    return conv_at(<const Plan*>plan, False, <const float*>at[0], <const float*>at[1], <const int64_t*>at[2], <float*>at[3])


cdef int conv_input_at(const void* plan, char** at) noexcept nogil:
    return conv_at(<const Plan*>plan, True, <const float*>at[2], <const float*>at[0], <const int64_t*>at[1], <float*>at[3])


cdef int unfold(const Plan* p, const real* x, real* cols) noexcept nogil:
    """cols[n, (c, k), p] = x~[n, c, p*s + k*d - pad]"""
    cdef int64_t results = p.g.n * p.g.c * p.g.taps * p.g.outs
    if results == 0 or p.g.cells == 0:
        memset(cols, 0, results * sizeof(real))
    else:
        direct_unfold(&p.g, x, cols)
    return STEP_DONE


cdef int fold(const Plan* p, const real* cols, real* x_bar) noexcept nogil:
    """x_bar[n, c, u] = sum over k, p with p*s + k*d - pad = u of cols[n, (c, k), p]"""
    cdef int64_t results = p.g.n * p.g.c * p.g.cells
    if results == 0 or p.g.outs == 0:
        memset(x_bar, 0, results * sizeof(real))
    else:
        direct_fold(&p.g, cols, False, x_bar)
    return STEP_DONE


cdef int unfold_f32(const void* plan, char** at) noexcept nogil:
    return unfold(<const Plan*>plan, <const float*>at[0], <float*>at[1])


cdef int unfold_f64(const void* plan, char** at) noexcept nogil:
    return unfold(<const Plan*>plan, <const double*>at[0], <double*>at[1])


cdef int fold_f32(const void* plan, char** at) noexcept nogil:
    return fold(<const Plan*>plan, <const float*>at[0], <float*>at[1])


cdef int fold_f64(const void* plan, char** at) noexcept nogil:
    return fold(<const Plan*>plan, <const double*>at[0], <double*>at[1])


cdef int check_winograd(const Geometry* g, str name) except -1:
    if winograd_tile(g, name == "conv_input", name == "conv_weight", 1) == 0:
        raise ValueError(
            f"{name}: winograd needs at most three axes, short kernels, and stride or dilation 1 on the last; got kernel "
            f"{tuple([g.ker[i] for i in range(g.rank)])}, stride {tuple([g.stride[i] for i in range(g.rank)])}, "
            f"dilation {tuple([g.dil[i] for i in range(g.rank)])}; use algorithm='auto'"
        )
    return 0


cdef int read_plan(Plan* p, str name, bint wide, bint packed, int64_t n, int64_t c, int64_t o, int64_t groups, tuple spatial,
                   tuple kernel, tuple out, tuple stride, tuple pad, tuple dilation, str algorithm) except -1:
    if algorithm not in ALGORITHMS:
        raise ValueError(f"conv: unknown algorithm; got {algorithm!r}; choose from {tuple(ALGORITHMS)}")
    p.by, p.packed, p.panelled = ALGORITHMS[algorithm], packed, False
    read_geometry(&p.g, n, c, o, groups, spatial, kernel, out, stride, pad, dilation)
    if p.by == WINOGRAD:
        check_winograd(&p.g, name)
    check_elements(&p.g)
    choose(p, name, 8 if wide else 4)
    return 0


def step(
    str name, bint wide, bint bias, int64_t n, int64_t c, int64_t o, int64_t groups,
    tuple spatial, tuple kernel, tuple out, tuple stride, tuple pad, tuple dilation, str algorithm="auto",
    bint other=False, str act="", double slope=0, bint packed=False, bint head=False,
):
    """One of conv (x, w[, b][, other][, gate][, packed][, head], y), conv_input (y_bar, w[, b][, other][, gate][, packed], x_bar),
    conv_weight (x, y_bar, w_bar), unfold (x, cols) and fold (cols, x_bar; both with o = c) on flat arrays of float64 (`wide`) or float32.

    `other` is added to the result, then comes `act` of step.ACTS (tail.h), of which relu_gate has the array `gate`; `packed` is what
    `pack` made of the weight. With a head, the arrays mean, rstd, w and b of a batch norm, the image is relu(batch norm of x):
    for geometries that `headed` allows.
    """
    cdef Plan p
    cdef int item = 8 if wide else 4
    cdef Kernel run
    read_plan(&p, name, wide, packed, n, c, o, groups, spatial, kernel, out, stride, pad, dilation, algorithm)
    read_tail(&p.tail, other, act, slope, True)
    p.bias, p.headed = bias, head
    if head and not (name == "conv" and winograd_reads(&p.g)):
        refuse("no head for this geometry")
    x, w, y = item * n * c * p.g.cells, item * o * p.g.cg * p.g.taps, item * n * o * p.g.outs
    if name == "conv" or name == "conv_input":
        source, result, channels = (x, y, o) if name == "conv" else (y, x, c)
        run = (conv_f64 if wide else conv_f32) if name == "conv" else conv_input_f64 if wide else conv_input_f32
        more = [*([item * channels] if bias else []), *[result] * tail_arrays(&p.tail)]
        if packed:
            p.panelled = in_panels(&p, name == "conv_input")
            more.append(item * (weight_panels(&p.g, name == "conv_input") if p.panelled
                                else winograd_packed(&p.g, name == "conv_input", p.tile)))
        sizes = (source, w, *more, *[item * c] * (HEADS if head else 0), result)
    elif name == "conv_weight":
        run, sizes = conv_weight_f64 if wide else conv_weight_f32, (x, y, w)
    elif name == "unfold":
        run, sizes = unfold_f64 if wide else unfold_f32, (x, y * p.g.taps)
    elif name == "fold":
        run, sizes = fold_f64 if wide else fold_f32, (y * p.g.taps, x)
    else:
        raise ValueError(f"conv: unknown kernel; got {name!r}; choose from conv, conv_input, conv_weight, unfold, fold")
    return make_step(name, run, &p, sizeof(p), sizes, 1, None, "fold" not in name and min(sizes) > 0)


def winners(
    str name, int64_t windows, int64_t n, int64_t c, int64_t o, int64_t groups, tuple spatial, tuple kernel, tuple out,
    tuple stride, tuple pad, tuple dilation,
):
    """A step in float32, of conv_weight (x, y_bar, idx, w_bar) or conv_input (y_bar, idx, w, x_bar), y_bar[n, o, windows] being
    spread to the cells idx of an output plane; None where spreading it pays. Every index is inside the plane."""
    cdef Plan p
    read_plan(&p, name, False, False, n, c, o, groups, spatial, kernel, out, stride, pad, dilation, "auto")
    p.windows = windows
    transposed, gain = name == "conv_input", p.ahead if not p.few else 1.3
    if by_winograd(&p) and not p.few:       # winners_pay is fitted to what the estimate says
        gain *= p.gain / trust(&p.g, CONV_INPUT if transposed else CONV_WEIGHT, p.tile)
    if p.few and transposed and min(p.g.cg, p.g.og) <= 4 or not (set_winners(&p.at, &p.g, transposed, winners_lanes())
                                                            and winners_pay(&p.at, &p.g, windows, transposed, gain)):
        return None
    x, w, values = 4 * n * c * p.g.cells, 4 * o * p.g.cg * p.g.taps, 4 * n * o * windows
    if transposed:
        return make_step("conv_input_at", conv_input_at, &p, sizeof(p), (values, 2 * values, w, x), 1, None, True)
    return make_step("conv_weight_at", conv_weight_at, &p, sizeof(p), (x, values, 2 * values, w), 1, None, True)


def both(
    bint wide, int64_t n, int64_t c, int64_t o, int64_t groups, tuple spatial, tuple kernel, tuple out, tuple stride, tuple pad,
    tuple dilation, str algorithm="auto", bint other=False, str act="", double slope=0, bint head=False,
):
    """A step (y_bar, w, x[, other][, gate][, head], x_bar, w_bar): conv_input, with what may follow it, and conv_weight of one layer,
    whose x may have a head. None where one call has nothing to gain."""
    cdef Pair p
    cdef int item = 8 if wide else 4
    read_plan(&p.input, "conv_input", wide, False, n, c, o, groups, spatial, kernel, out, stride, pad, dilation, algorithm)
    read_plan(&p.weight, "conv_weight", wide, False, n, c, o, groups, spatial, kernel, out, stride, pad, dilation, algorithm)
    read_tail(&p.input.tail, other, act, slope, True)
    p.input.bias, p.input.headed = False, head
    x, w, y = item * n * c * p.input.g.cells, item * o * p.input.g.cg * p.input.g.taps, item * n * o * p.input.g.outs
    if (min(x, w, y) == 0 or p.input.few or by_spread(&p.input) or p.weight.few or not by_winograd(&p.input)
            or not by_winograd(&p.weight) or p.input.tile != p.weight.tile or head and not winograd_reads(&p.input.g)
            or not winograd_both(&p.input.g, p.input.tile, item)):
        return None
    return make_step("conv_both", both_f64 if wide else both_f32, &p, sizeof(p),
                     (y, w, x, *[x] * tail_arrays(&p.input.tail), *[item * c] * (HEADS if head else 0), x, w), 2, None, True)


def headed(
    bint wide, int64_t n, int64_t c, int64_t o, int64_t groups, tuple spatial, tuple kernel, tuple out, tuple stride, tuple pad,
    tuple dilation, str algorithm="auto",
):
    """Whether `step` of a conv takes a head: Winograd's algorithm reads the image of a plain layer as it is made."""
    cdef Plan p
    read_plan(&p, "conv", wide, False, n, c, o, groups, spatial, kernel, out, stride, pad, dilation, algorithm)
    return min(n, c, o, p.g.cells, p.g.outs) > 0 and by_winograd(&p) and winograd_reads(&p.g)


def pack(
    str name, bint wide, int64_t n, int64_t c, int64_t o, int64_t groups,
    tuple spatial, tuple kernel, tuple out, tuple stride, tuple pad, tuple dilation, str algorithm="auto",
):
    """A step (w, packed): what `step` with `packed` takes; None where an algorithm that reads the weight as it is wins."""
    cdef Plan p
    cdef int item = 8 if wide else 4
    cdef int64_t values
    read_plan(&p, name, wide, True, n, c, o, groups, spatial, kernel, out, stride, pad, dilation, algorithm)
    p.bias = name == "conv_input"
    p.panelled = in_panels(&p, p.bias)
    if o * p.g.cg * p.g.taps == 0 or not (p.panelled or by_winograd(&p)) or (p.bias and (p.few or by_spread(&p))):
        return None
    values = weight_panels(&p.g, p.bias) if p.panelled else winograd_packed(&p.g, p.bias, p.tile)
    return make_step("pack", pack_f64 if wide else pack_f32, &p, sizeof(p), (item * o * p.g.cg * p.g.taps, item * values))


cdef int pack_f32(const void* plan, char** at) noexcept nogil:
    cdef const Plan* p = <const Plan*>plan
    if p.panelled:
        panelled_pack(&p.g, p.bias, <const float*>at[0], <float*>at[1])
    else:
        winograd_pack(&p.g, p.bias, p.tile, <const float*>at[0], <float*>at[1])
    return STEP_DONE


cdef int pack_f64(const void* plan, char** at) noexcept nogil:
    cdef const Plan* p = <const Plan*>plan
    if p.panelled:
        panelled_pack(&p.g, p.bias, <const double*>at[0], <double*>at[1])
    else:
        winograd_pack(&p.g, p.bias, p.tile, <const double*>at[0], <double*>at[1])
    return STEP_DONE


cdef int check_elements(const Geometry* g) except -1:
    """No product of sizes wraps; compared as floats."""
    if (<double>g.n * g.c * g.cells > 1e18 or <double>g.o * g.cg * g.taps > 1e18
            or <double>g.n * max(g.o, g.c) * g.outs * g.taps > 1e18):
        refuse("sizes overflow")
    return 0

