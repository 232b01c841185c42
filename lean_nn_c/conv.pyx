"""The three contractions of  sum w[o, c, k] * x~[n, c, p*s + k*d - pad] * y[n, o, p]  as steps; unfold and fold.

The geometry comes as tuples of one length, the spatial rank. `pad` is the padding before each axis; the padding after it
shows only in `out`. Results are written, never added.

The algorithm: "winograd" (winograd.pyx) where it pays and the precision is "fast"; "strips" (direct.pyx) where a group has
few channels; else "taps" (taps.pyx, taps_weight.pyx) unless another is asked for, or its planes would be far
larger than image and output, or a padding zero has met an infinite or NaN factor, which shows as a NaN in the result:
then "direct" (direct.pyx), which multiplies real cells only. An algorithm that is asked for is tried where "auto" would
not; what it cannot do, "direct" does. "im2col" is unfold and a matrix product, made by the caller.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from lean_nn_c._geometry cimport Geometry, read_geometry, refuse
from lean_nn_c._simd cimport all_finite, lanes
from lean_nn_c._strips cimport CONV, CONV_INPUT, CONV_WEIGHT, Kind
from lean_nn_c._types cimport real
from lean_nn_c.direct cimport (
    direct_conv, direct_conv_input, direct_conv_weight, direct_fold, direct_unfold, strips_conv, strips_conv_input,
    strips_conv_weight, strips_pay,
)
from lean_nn_c.precision cimport is_fast
from lean_nn_c.step cimport STEP_DONE, STEP_NO_MEMORY, STEP_TOO_LARGE, Kernel, make_step
from lean_nn_c.taps cimport DONE, NO_MEMORY, UNSUITED, taps_conv, taps_conv_input
from lean_nn_c.taps_weight cimport taps_conv_weight
from lean_nn_c.winograd cimport (
    winograd_conv, winograd_conv_input, winograd_conv_weight, winograd_pays, winograd_tile, winograd_weight_pays,
    winograd_weight_tile,
)

cdef enum Algorithm:
    AUTO
    TAPS
    WINOGRAD
    STRIPS
    DIRECT

ALGORITHMS = {"auto": AUTO, "taps": TAPS, "winograd": WINOGRAD, "strips": STRIPS, "direct": DIRECT}

cdef struct Plan:
    Geometry g
    Algorithm by
    bint bias


# --- which algorithm ---


cdef bint by_strips(const Plan* p, Kind kind) noexcept nogil:
    return p.by == STRIPS or (p.by == AUTO and strips_pay(&p.g, kind))


cdef bint by_winograd(const Plan* p, int m, bint pays) noexcept nogil:
    """m: the size of its tiles, 0 where it does not apply."""
    return m != 0 and (p.by == WINOGRAD or (p.by == AUTO and pays and is_fast()))


cdef bint by_taps(const Plan* p) noexcept nogil:
    return p.by != STRIPS and p.by != DIRECT


cdef bint final(int status) noexcept nogil:
    """Whether no other algorithm is to be tried: the result stands, or there is no memory."""
    return status == DONE or status == NO_MEMORY


cdef int told(int status) noexcept nogil:
    return STEP_DONE if status == DONE else STEP_NO_MEMORY


cdef bint spoilt(const real* result, Py_ssize_t n, const real* factor, Py_ssize_t m) noexcept nogil:
    """Whether padding zeros may have met non-finite values of `factor`; the smaller array is looked at first."""
    if m < n:
        return not all_finite(factor, m) and not all_finite(result, n)
    return not all_finite(result, n) and not all_finite(factor, m)


# --- the contractions ---


cdef int conv(const Plan* p, const real* x, const real* w, const real* b, real* y) noexcept nogil:
    """y[n, o, p] = b[o] + sum_{c, k} x~[n, c, p*s + k*d - pad] * w[o, c, k]"""
    cdef const Geometry* g = &p.g
    cdef int64_t results = g.n * g.o * g.outs
    cdef int status = UNSUITED, m = winograd_tile(g, False, lanes(x))
    cdef bint few = by_strips(p, CONV), winograd = by_winograd(p, m, winograd_pays(g, False, m, lanes(x), few))
    if results == 0:
        return STEP_DONE
    if few and not winograd:
        status = strips_conv(g, x, w, b, y)
    if not final(status) and winograd:
        status = winograd_conv(g, m, x, w, <const real*>NULL, b, y)
    if not final(status) and by_taps(p):
        status = taps_conv(g, x, w, b, y)
        if status == UNSUITED and p.by == TAPS:
            return STEP_TOO_LARGE
        if status == DONE and spoilt(<const real*>y, results, w, g.o * g.cg * g.taps):
            status = UNSUITED
    if final(status):
        return told(status)
    direct_conv(g, x, w, b, y)
    return STEP_DONE


cdef int conv_input(const Plan* p, const real* y_bar, const real* w, real* x_bar) noexcept nogil:
    """x_bar[n, c, u] = sum over o, p, k with p*s + k*d - pad = u of y_bar[n, o, p] * w[o, c, k]"""
    cdef const Geometry* g = &p.g
    cdef int64_t results = g.n * g.c * g.cells, weights = g.o * g.cg * g.taps
    cdef int status = UNSUITED, m = winograd_tile(g, True, lanes(y_bar))
    if results == 0 or weights == 0 or g.n * g.o * g.outs == 0:
        memset(x_bar, 0, results * sizeof(real))
        return STEP_DONE
    if by_strips(p, CONV_INPUT):
        status = strips_conv_input(g, y_bar, w, x_bar)
    if not final(status) and by_winograd(p, m, winograd_pays(g, True, m, lanes(y_bar), False)):
        status = winograd_conv_input(g, m, y_bar, w, <const real*>NULL, x_bar)
    if not final(status) and by_taps(p):
        status = taps_conv_input(g, y_bar, w, x_bar)
        if status == UNSUITED and p.by == TAPS:
            return STEP_TOO_LARGE
        if status == DONE and spoilt(<const real*>x_bar, results, w, weights):
            status = UNSUITED
    if final(status):
        return told(status)
    direct_conv_input(g, y_bar, w, x_bar)
    return STEP_DONE


cdef int conv_weight(const Plan* p, const real* x, const real* y_bar, real* w_bar) noexcept nogil:
    """w_bar[o, c, k] = sum_{n, p} x~[n, c, p*s + k*d - pad] * y_bar[n, o, p]"""
    cdef const Geometry* g = &p.g
    cdef int64_t results = g.o * g.cg * g.taps, cells = g.n * g.c * g.cells, outs = g.n * g.o * g.outs
    cdef int status = UNSUITED, m = winograd_weight_tile(g)
    if results == 0 or cells == 0 or outs == 0:
        memset(w_bar, 0, results * sizeof(real))
        return STEP_DONE
    if by_strips(p, CONV_WEIGHT):
        status = strips_conv_weight(g, x, y_bar, w_bar)
    if not final(status) and by_winograd(p, m, winograd_weight_pays(g, m)):
        status = winograd_conv_weight(g, m, x, y_bar, w_bar)
    if not final(status) and by_taps(p):
        status = taps_conv_weight(g, x, y_bar, w_bar)
        if status == UNSUITED and p.by == TAPS:
            return STEP_TOO_LARGE
        if status == DONE and (spoilt(<const real*>w_bar, results, y_bar, outs)
                               or spoilt(<const real*>w_bar, results, x, cells)):
            status = UNSUITED
    if final(status):
        return told(status)
    direct_conv_weight(g, x, y_bar, w_bar)
    return STEP_DONE


# --- as steps: untyped pointers in, the element type chosen once ---


cdef int run_conv(const void* plan, char** at, real unused) noexcept nogil:
    cdef const Plan* p = <const Plan*>plan
    if p.bias:
        return conv(p, <const real*>at[0], <const real*>at[1], <const real*>at[2], <real*>at[3])
    return conv(p, <const real*>at[0], <const real*>at[1], <const real*>NULL, <real*>at[2])


cdef int conv_f32(const void* plan, char** at) noexcept nogil:
    return run_conv(plan, at, <float>0)


cdef int conv_f64(const void* plan, char** at) noexcept nogil:
    return run_conv(plan, at, <double>0)


cdef int conv_input_f32(const void* plan, char** at) noexcept nogil:
    return conv_input(<const Plan*>plan, <const float*>at[0], <const float*>at[1], <float*>at[2])


cdef int conv_input_f64(const void* plan, char** at) noexcept nogil:
    return conv_input(<const Plan*>plan, <const double*>at[0], <const double*>at[1], <double*>at[2])


cdef int conv_weight_f32(const void* plan, char** at) noexcept nogil:
    return conv_weight(<const Plan*>plan, <const float*>at[0], <const float*>at[1], <float*>at[2])


cdef int conv_weight_f64(const void* plan, char** at) noexcept nogil:
    return conv_weight(<const Plan*>plan, <const double*>at[0], <const double*>at[1], <double*>at[2])


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
        direct_fold(&p.g, cols, x_bar)
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
    if (winograd_weight_tile(g) if name == "conv_weight" else winograd_tile(g, name == "conv_input", 1)) == 0:
        raise ValueError(
            f"{name}: winograd needs at most three axes, short kernels, and stride or dilation 1 on the last two; got kernel "
            f"{tuple([g.ker[i] for i in range(g.rank)])}, stride {tuple([g.stride[i] for i in range(g.rank)])}, "
            f"dilation {tuple([g.dil[i] for i in range(g.rank)])}; use algorithm='auto'"
        )
    return 0


def step(
    str name, bint wide, bint bias, int64_t n, int64_t c, int64_t o, int64_t groups,
    tuple spatial, tuple kernel, tuple out, tuple stride, tuple pad, tuple dilation, str algorithm="auto",
):
    """One of conv (x, w[, b], y), conv_input (y_bar, w, x_bar), conv_weight (x, y_bar, w_bar), unfold (x, cols) and
    fold (cols, x_bar; both with o = c) on flat arrays of float64 (`wide`) or float32.
    """
    cdef Plan p
    cdef int item = 8 if wide else 4
    cdef Kernel run
    if algorithm not in ALGORITHMS:
        raise ValueError(f"conv: unknown algorithm; got {algorithm!r}; choose from {tuple(ALGORITHMS)}")
    p.by, p.bias = ALGORITHMS[algorithm], bias
    read_geometry(&p.g, n, c, o, groups, spatial, kernel, out, stride, pad, dilation)
    if p.by == WINOGRAD:
        check_winograd(&p.g, name)
    check_elements(&p.g)
    x, w, y = item * n * c * p.g.cells, item * o * p.g.cg * p.g.taps, item * n * o * p.g.outs
    if name == "conv":
        run = conv_f64 if wide else conv_f32
        sizes = (x, w, item * o, y) if bias else (x, w, y)
    elif name == "conv_input":
        run, sizes = conv_input_f64 if wide else conv_input_f32, (y, w, x)
    elif name == "conv_weight":
        run, sizes = conv_weight_f64 if wide else conv_weight_f32, (x, y, w)
    elif name == "unfold":
        run, sizes = unfold_f64 if wide else unfold_f32, (x, y * p.g.taps)
    elif name == "fold":
        run, sizes = fold_f64 if wide else fold_f32, (y * p.g.taps, x)
    else:
        raise ValueError(f"conv: unknown kernel; got {name!r}; choose from conv, conv_input, conv_weight, unfold, fold")
    return make_step(name, run, &p, sizeof(p), sizes)


cdef int check_elements(const Geometry* g) except -1:
    """No product of sizes wraps; compared as floats."""
    if (<double>g.n * g.c * g.cells > 1e18 or <double>g.o * g.cg * g.taps > 1e18
            or <double>g.n * max(g.o, g.c) * g.outs * g.taps > 1e18):
        refuse("sizes overflow")
    return 0
