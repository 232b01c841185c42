"""The three contractions of  sum w[o, c, k] * x~[n, c, p*s + k*d - pad] * y[n, o, p],  one call each; unfold and fold.

Arrays are flat; the geometry comes as tuples of one length, the spatial rank. `pad` is the padding before each
axis; the padding after it shows only in `out`. Results are written, never added.

The algorithm: "strips" (direct.pyx) where a group has few channels; "winograd" (winograd.pyx) where
it pays and the precision is "fast"; else "taps"
(taps.pyx, taps_weight.pyx) unless another is asked for, or its planes would be far larger than image and output, or a
padding zero has met an infinite or NaN factor, which shows as a NaN in the result: then "direct" (direct.pyx), which
multiplies real cells only. "im2col" is unfold and a matrix product, made by the caller.
"""

from libc.stdint cimport int64_t

from lean_nn_c._geometry cimport Geometry, check_lengths, read_geometry, refuse
from lean_nn_c._simd cimport all_finite, lanes
from lean_nn_c._strips cimport CONV, CONV_INPUT, CONV_WEIGHT, Kind
from lean_nn_c._types cimport real
from lean_nn_c.direct cimport (
    direct_conv, direct_conv_input, direct_conv_weight, direct_fold, direct_unfold, strips_conv, strips_conv_input,
    strips_conv_weight, strips_pay,
)
from lean_nn_c.precision cimport is_fast
from lean_nn_c.taps cimport DONE, NO_MEMORY, UNSUITED, taps_conv, taps_conv_input
from lean_nn_c.taps_weight cimport taps_conv_weight
from lean_nn_c.winograd cimport (
    winograd_conv, winograd_conv_input, winograd_conv_weight, winograd_pays, winograd_tile, winograd_weight_pays,
    winograd_weight_tile,
)

ALGORITHMS = ("auto", "taps", "winograd", "strips", "direct")


cdef bint wants_direct(str algorithm) except -1:
    """Whether nothing but direct.pyx may be used."""
    if algorithm not in ALGORITHMS:
        raise ValueError(f"conv: unknown algorithm; got {algorithm!r}; choose from {ALGORITHMS}")
    return algorithm in ("direct", "strips")


cdef bint wants_strips(const Geometry* g, Kind kind, str algorithm) except -1:
    return algorithm == "strips" or (algorithm == "auto" and strips_pay(g, kind))


cdef int tile_size(const Geometry* g, int m, bint pays, str algorithm) except -1:
    """Whether Winograd's algorithm is to be used, as the size m of its tiles; 0: not."""
    if algorithm == "winograd":
        if m == 0:
            raise ValueError(
                "conv: winograd needs 3 x 3 kernels on two axes, stride 1, dilation 1; got kernel "
                f"{tuple([g.ker[i] for i in range(g.rank)])}, stride {tuple([g.stride[i] for i in range(g.rank)])}, "
                f"dilation {tuple([g.dil[i] for i in range(g.rank)])}; use algorithm='auto'"
            )
        return m
    return m if algorithm == "auto" and is_fast() and pays else 0


cdef bint settled(int status, str algorithm) except -1:
    """Whether the result stands; otherwise the caller takes the next algorithm."""
    if status == NO_MEMORY:
        raise MemoryError("conv: no memory for temporary planes; use smaller batches or images")
    if status == UNSUITED and algorithm == "taps":
        raise MemoryError("conv: the padded planes would be far larger than image and output; use algorithm='auto'")
    return status == DONE


cdef bint spoilt(const real* result, Py_ssize_t n, const real* factor, Py_ssize_t m) noexcept nogil:
    """Whether padding zeros may have met non-finite values of `factor`; the smaller array is looked at first."""
    if m < n:
        return not all_finite(factor, m) and not all_finite(result, n)
    return not all_finite(result, n) and not all_finite(factor, m)


def conv(
    const real[::1] x,      # IN  n*c*spatial
    const real[::1] w,      # IN  o*(c/groups)*kernel
    const real[::1] b,      # IN  o, or None
    real[::1] y,            # OUT n*o*out
    int64_t n, int64_t c, int64_t o, int64_t groups,
    tuple spatial, tuple kernel, tuple out, tuple stride, tuple pad, tuple dilation, str algorithm="auto",
):
    """y[n, o, p] = b[o] + sum_{c, k} x~[n, c, p*s + k*d - pad] * w[o, c, k]"""
    cdef Geometry g
    cdef int m, status = UNSUITED
    cdef bint direct = wants_direct(algorithm)
    cdef const real* bias = NULL
    cdef const real* image = NULL
    cdef const real* weight = NULL
    read_geometry(&g, n, c, o, groups, spatial, kernel, out, stride, pad, dilation)
    check_lengths(&g, x.shape[0], w.shape[0], y.shape[0])
    if b is not None and b.shape[0] != o:
        refuse("bias length differs from the output channels")
    if y.shape[0] == 0:
        return
    if b is not None:
        bias = &b[0]
    if x.shape[0]:
        image = &x[0]
    if w.shape[0]:
        weight = &w[0]
    if wants_strips(&g, CONV, algorithm):
        with nogil:
            status = strips_conv(&g, image, weight, bias, &y[0])
        if settled(status, algorithm):
            return
    m = tile_size(&g, winograd_tile(&g, False, lanes(image)), winograd_pays(&g, False), algorithm)
    if m:
        with nogil:
            status = winograd_conv(&g, m, image, weight, <const real*>NULL, bias, &y[0])
        if settled(status, algorithm):
            return
    if not direct:
        with nogil:
            status = taps_conv(&g, image, weight, bias, &y[0])
            if status == 0 and spoilt(<const real*>&y[0], y.shape[0], weight, w.shape[0]):
                direct_conv(&g, image, weight, bias, &y[0])
    if direct or not settled(status, algorithm):
        with nogil:
            direct_conv(&g, image, weight, bias, &y[0])


def conv_input(
    const real[::1] y_bar,  # IN  n*o*out
    const real[::1] w,      # IN  o*(c/groups)*kernel
    real[::1] x_bar,        # OUT n*c*spatial
    int64_t n, int64_t c, int64_t o, int64_t groups,
    tuple spatial, tuple kernel, tuple out, tuple stride, tuple pad, tuple dilation, str algorithm="auto",
):
    """x_bar[n, c, u] = sum over o, p, k with p*s + k*d - pad = u of y_bar[n, o, p] * w[o, c, k]"""
    cdef Geometry g
    cdef int m, status = UNSUITED
    cdef bint direct = wants_direct(algorithm)
    cdef const real* cotangent = NULL
    cdef const real* weight = NULL
    read_geometry(&g, n, c, o, groups, spatial, kernel, out, stride, pad, dilation)
    check_lengths(&g, x_bar.shape[0], w.shape[0], y_bar.shape[0])
    if x_bar.shape[0] == 0:
        return
    if y_bar.shape[0] == 0 or w.shape[0] == 0:
        x_bar[:] = 0
        return
    cotangent, weight = &y_bar[0], &w[0]
    if wants_strips(&g, CONV_INPUT, algorithm):
        with nogil:
            status = strips_conv_input(&g, cotangent, weight, &x_bar[0])
        if settled(status, algorithm):
            return
    m = tile_size(&g, winograd_tile(&g, True, lanes(cotangent)), winograd_pays(&g, True), algorithm)
    if m:
        with nogil:
            status = winograd_conv_input(&g, m, cotangent, weight, <const real*>NULL, &x_bar[0])
        if settled(status, algorithm):
            return
    if not direct:
        with nogil:
            status = taps_conv_input(&g, cotangent, weight, &x_bar[0])
            if status == 0 and spoilt(<const real*>&x_bar[0], x_bar.shape[0], weight, w.shape[0]):
                direct_conv_input(&g, cotangent, weight, &x_bar[0])
    if direct or not settled(status, algorithm):
        with nogil:
            direct_conv_input(&g, cotangent, weight, &x_bar[0])


def conv_weight(
    const real[::1] x,      # IN  n*c*spatial
    const real[::1] y_bar,  # IN  n*o*out
    real[::1] w_bar,        # OUT o*(c/groups)*kernel
    int64_t n, int64_t c, int64_t o, int64_t groups,
    tuple spatial, tuple kernel, tuple out, tuple stride, tuple pad, tuple dilation, str algorithm="auto",
):
    """w_bar[o, c, k] = sum_{n, p} x~[n, c, p*s + k*d - pad] * y_bar[n, o, p]"""
    cdef Geometry g
    cdef int m, status = UNSUITED
    cdef bint direct = wants_direct(algorithm)
    cdef const real* image = NULL
    cdef const real* cotangent = NULL
    read_geometry(&g, n, c, o, groups, spatial, kernel, out, stride, pad, dilation)
    check_lengths(&g, x.shape[0], w_bar.shape[0], y_bar.shape[0])
    if w_bar.shape[0] == 0:
        return
    if x.shape[0] == 0 or y_bar.shape[0] == 0:
        w_bar[:] = 0
        return
    image, cotangent = &x[0], &y_bar[0]
    if wants_strips(&g, CONV_WEIGHT, algorithm):
        with nogil:
            status = strips_conv_weight(&g, image, cotangent, &w_bar[0])
        if settled(status, algorithm):
            return
    m = tile_size(&g, winograd_weight_tile(&g), winograd_weight_pays(&g), algorithm)
    if m:
        with nogil:
            status = winograd_conv_weight(&g, m, image, cotangent, &w_bar[0])
        if settled(status, algorithm):
            return
    if not direct:
        with nogil:
            status = taps_conv_weight(&g, image, cotangent, &w_bar[0])
            if status == 0 and (spoilt(<const real*>&w_bar[0], w_bar.shape[0], cotangent, y_bar.shape[0])
                                or spoilt(<const real*>&w_bar[0], w_bar.shape[0], image, x.shape[0])):
                direct_conv_weight(&g, image, cotangent, &w_bar[0])
    if direct or not settled(status, algorithm):
        with nogil:
            direct_conv_weight(&g, image, cotangent, &w_bar[0])


def unfold(
    const real[::1] x,      # IN  n*c*spatial
    real[::1] cols,         # OUT n*c*kernel*out
    int64_t n, int64_t c, tuple spatial, tuple kernel, tuple out, tuple stride, tuple pad, tuple dilation,
):
    """cols[n, (c, k), p] = x~[n, c, p*s + k*d - pad]"""
    cdef Geometry g
    read_geometry(&g, n, c, c, 1, spatial, kernel, out, stride, pad, dilation)
    check_columns(&g, x.shape[0], cols.shape[0])
    if cols.shape[0] == 0:
        return
    if x.shape[0] == 0:
        cols[:] = 0
        return
    with nogil:
        direct_unfold(&g, &x[0], &cols[0])


def fold(
    const real[::1] cols,   # IN  n*c*kernel*out
    real[::1] x_bar,        # OUT n*c*spatial
    int64_t n, int64_t c, tuple spatial, tuple kernel, tuple out, tuple stride, tuple pad, tuple dilation,
):
    """x_bar[n, c, u] = sum over k, p with p*s + k*d - pad = u of cols[n, (c, k), p]"""
    cdef Geometry g
    read_geometry(&g, n, c, c, 1, spatial, kernel, out, stride, pad, dilation)
    check_columns(&g, x_bar.shape[0], cols.shape[0])
    if x_bar.shape[0] == 0:
        return
    if cols.shape[0] == 0:
        x_bar[:] = 0
        return
    with nogil:
        direct_fold(&g, &cols[0], &x_bar[0])


cdef int check_columns(const Geometry* g, Py_ssize_t x, Py_ssize_t cols) except -1:
    cdef double total = <double>g.n * g.c * g.taps * g.outs
    if (total > 4e18 or <double>g.n * g.c * g.cells > 4e18 or x != g.n * g.c * g.cells
            or cols != g.n * g.c * g.taps * g.outs):
        refuse("array lengths do not match the geometry")
    return 0
