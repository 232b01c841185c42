"""The sizes of one convolution as a C struct, checked so that no kernel can leave its arrays."""

from libc.stdint cimport int64_t

cdef enum:
    MAX_RANK = 64          # NumPy's own limit


cdef struct Geometry:
    int rank               # spatial axes; 0 is read as one axis of length 1
    int64_t n, c, o, groups
    int64_t cg, og         # channels of one group
    int64_t inp[MAX_RANK]
    int64_t ker[MAX_RANK]
    int64_t out[MAX_RANK]
    int64_t stride[MAX_RANK]
    int64_t pad[MAX_RANK]  # before; what is after follows from `out`
    int64_t dil[MAX_RANK]
    int64_t cells, taps, outs    # products of inp, ker, out


cdef inline int64_t floor_div(int64_t a, int64_t b) noexcept nogil:
    """floor(a / b) for b > 0 (cdivision truncates)."""
    return a // b if a >= 0 else -((-a + b - 1) // b)


cdef inline int64_t ceil_div(int64_t a, int64_t b) noexcept nogil:
    """ceil(a / b) for b > 0."""
    return -floor_div(-a, b)


cdef inline int64_t clip(int64_t a, int64_t low, int64_t high) noexcept nogil:
    return low if a < low else high if a > high else a


cdef inline int64_t covers_cells(const Geometry* g, int i) noexcept nogil:
    """Cells from the first to the last of all windows on an axis."""
    return (g.out[i] - 1) * g.stride[i] + (g.ker[i] - 1) * g.dil[i] + 1


cdef inline double cells_read(const Geometry* g) noexcept nogil:
    """About so many cells of a channel a window reads: a stride may leave some out."""
    cdef double cells = 1
    cdef int i
    for i in range(g.rank):
        cells *= <double>g.inp[i] * min(g.ker[i], g.stride[i]) / g.stride[i]
    return cells


cdef inline int refuse(object what) except -1:
    raise ValueError(f"lean_nn_c: {what}; kernels take what `abstract` has checked")


cdef inline int read_geometry(Geometry* g, int64_t n, int64_t c, int64_t o, int64_t groups, tuple spatial,
                              tuple kernel, tuple out, tuple stride, tuple pad, tuple dilation) except -1:
    cdef int i, rank = <int>len(spatial)
    cdef double reach, cells = 1, taps = 1, outs = 1
    if rank > MAX_RANK or not (len(kernel) == len(out) == len(stride) == len(pad) == len(dilation) == rank):
        refuse("geometry tuples differ in length")
    if groups < 1 or n < 0 or c < 0 or o < 0 or c % groups or o % groups:
        refuse("channels do not divide into groups")
    g.rank, g.n, g.c, g.o, g.groups = max(rank, 1), n, c, o, groups
    g.cg, g.og = c // groups, o // groups
    g.cells = g.taps = g.outs = 1
    g.inp[0] = g.ker[0] = g.out[0] = g.stride[0] = g.dil[0] = 1
    g.pad[0] = 0
    for i in range(rank):
        g.inp[i], g.ker[i], g.out[i] = spatial[i], kernel[i], out[i]
        g.stride[i], g.pad[i], g.dil[i] = stride[i], pad[i], dilation[i]
        if g.inp[i] < 0 or g.ker[i] < 1 or g.out[i] < 0 or g.stride[i] < 1 or g.dil[i] < 1 or g.pad[i] < 0:
            refuse("a size is out of range")
        reach = (<double>g.out[i] * g.stride[i] + <double>g.ker[i] * g.dil[i] + g.pad[i] + g.inp[i] + g.stride[i])
        cells, taps, outs = cells * g.inp[i], taps * g.ker[i], outs * g.out[i]
        if reach > 4e18 or cells > 4e18 or taps > 4e18 or outs > 4e18:
            refuse("sizes overflow")
        g.cells *= g.inp[i]
        g.taps *= g.ker[i]
        g.outs *= g.out[i]
    return 0
