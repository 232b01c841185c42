"""Moving values by index, and dropout: gather, scatter_add, take, take_transpose.

Data are (outer, n, inner); an index counts along n. Every index is checked before any value moves, so a wrong one
raises IndexError and nothing is read or written outside. A transpose adds in row-major order of the indices, each
output by one thread, so the bits do not depend on the number of threads.
"""

cimport numpy as cnp
from cython.parallel cimport prange
from libc.stdint cimport int64_t, uint64_t

from lean_nn_c._arrays cimport need, single
from lean_nn_c._types cimport real
from lean_nn_c.threads cimport threads_for

cnp.import_array()

cdef enum:
    COLUMNS = 64        # inner elements per task of a transpose
    BLOCK = 4096


cdef Py_ssize_t first_outside(const int64_t* idx, Py_ssize_t count, Py_ssize_t n, bint skips, int64_t skip) noexcept nogil:
    """Where the first index outside 0 … n−1 (and not `skip`) stands, or −1."""
    cdef Py_ssize_t i
    for i in range(count):
        if (idx[i] < 0 or idx[i] >= n) and not (skips and idx[i] == skip):
            return i
    return -1


cdef const int64_t* indices(str op, cnp.ndarray idx, Py_ssize_t count, Py_ssize_t n, object ignore=None) except NULL:
    """The index array's data, every entry checked."""
    cdef Py_ssize_t bad
    cdef bint skips = ignore is not None
    cdef int64_t skip = ignore if skips else 0
    need(idx, cnp.NPY_INT64, count, False)
    cdef const int64_t* at = <const int64_t*>cnp.PyArray_DATA(idx)
    with nogil:
        bad = first_outside(at, count, n, skips, skip)
    if bad >= 0:
        raise IndexError(f"{op}: indices are 0 … {n - 1} on an axis of {n}; got {at[bad]} at flat position {bad}; "
                         f"correct the index")
    return at


# --------------------------------------------------------------------------------------- gather, scatter

cdef int64_t NOTHING = -(<int64_t>1 << 62)      # no index that passed the check has this value: nothing is skipped


cdef void gather_all(const real* x, const int64_t* idx, real* y, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t k,
                     Py_ssize_t inner, int64_t skip) noexcept nogil:
    cdef Py_ssize_t row, i
    cdef int64_t j
    for row in prange(outer * k, num_threads=threads_for(outer * k * inner), schedule="static"):
        for i in range(inner):
            j = idx[row * inner + i]
            y[row * inner + i] = 0 if j == skip else x[((row // k) * n + j) * inner + i]


cdef inline void scatter_one(const real* g, const int64_t* idx, real* x, Py_ssize_t n, Py_ssize_t k, Py_ssize_t inner,
                             Py_ssize_t begin, Py_ssize_t end, int64_t skip) noexcept nogil:
    """Columns begin … end of one outer index."""
    cdef Py_ssize_t r, i
    for r in range(n):
        for i in range(begin, end):
            x[r * inner + i] = 0
    for r in range(k):
        for i in range(begin, end):
            if idx[r * inner + i] != skip:
                x[idx[r * inner + i] * inner + i] += g[r * inner + i]


cdef void scatter_all(const real* g, const int64_t* idx, real* x, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t k,
                      Py_ssize_t inner, int64_t skip) noexcept nogil:
    cdef Py_ssize_t blocks = (inner + COLUMNS - 1) // COLUMNS
    cdef Py_ssize_t task, o, begin
    for task in prange(outer * blocks, num_threads=threads_for(outer * (n + k) * inner), schedule="static"):
        o = task // blocks
        begin = (task % blocks) * COLUMNS
        scatter_one(g + o * k * inner, idx + o * k * inner, x + o * n * inner, n, k, inner, begin,
                    min(inner, begin + COLUMNS), skip)


def gather(cnp.ndarray x not None, cnp.ndarray idx not None, cnp.ndarray out not None, Py_ssize_t outer, Py_ssize_t n,
           Py_ssize_t k, Py_ssize_t inner, ignore=None):
    """out[o, j, i] = x[o, idx[o, j, i], i]; 0 where the index is `ignore`."""
    cdef bint f32 = single(x)
    cdef int64_t skip = NOTHING if ignore is None else ignore
    need(x, cnp.PyArray_TYPE(x), outer * n * inner, False)
    need(out, cnp.PyArray_TYPE(x), outer * k * inner, True)
    cdef const int64_t* at = indices("gather", idx, outer * k * inner, n, ignore)
    cdef const void* src = cnp.PyArray_DATA(x)
    cdef void* dst = cnp.PyArray_DATA(out)
    with nogil:
        if f32:
            gather_all(<const float*>src, at, <float*>dst, outer, n, k, inner, skip)
        else:
            gather_all(<const double*>src, at, <double*>dst, outer, n, k, inner, skip)


def scatter_add(cnp.ndarray g not None, cnp.ndarray idx not None, cnp.ndarray out not None, Py_ssize_t outer,
                Py_ssize_t n, Py_ssize_t k, Py_ssize_t inner, ignore=None):
    """out[o, r, i] = Σ g[o, j, i] over the j with idx[o, j, i] = r, in ascending j; none where it is `ignore`."""
    cdef bint f32 = single(g)
    cdef int64_t skip = NOTHING if ignore is None else ignore
    need(g, cnp.PyArray_TYPE(g), outer * k * inner, False)
    need(out, cnp.PyArray_TYPE(g), outer * n * inner, True)
    cdef const int64_t* at = indices("scatter_add", idx, outer * k * inner, n, ignore)
    cdef const void* src = cnp.PyArray_DATA(g)
    cdef void* dst = cnp.PyArray_DATA(out)
    with nogil:
        if f32:
            scatter_all(<const float*>src, at, <float*>dst, outer, n, k, inner, skip)
        else:
            scatter_all(<const double*>src, at, <double*>dst, outer, n, k, inner, skip)


# ------------------------------------------------------------------------------------------------- take


cdef void take_all(const real* x, const int64_t* idx, real* y, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t k,
                   Py_ssize_t inner) noexcept nogil:
    cdef Py_ssize_t row, i
    for row in prange(outer * k, num_threads=threads_for(outer * k * inner), schedule="static"):
        for i in range(inner):
            y[row * inner + i] = x[((row // k) * n + idx[row % k]) * inner + i]


cdef inline void untake_one(const real* g, const int64_t* idx, real* x, Py_ssize_t n, Py_ssize_t k, Py_ssize_t inner,
                            Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t r, i
    for r in range(n):
        for i in range(begin, end):
            x[r * inner + i] = 0
    for r in range(k):
        for i in range(begin, end):
            x[idx[r] * inner + i] += g[r * inner + i]


cdef void untake_all(const real* g, const int64_t* idx, real* x, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t k,
                     Py_ssize_t inner) noexcept nogil:
    cdef Py_ssize_t blocks = (inner + COLUMNS - 1) // COLUMNS
    cdef Py_ssize_t task, o, begin
    for task in prange(outer * blocks, num_threads=threads_for(outer * (n + k) * inner), schedule="static"):
        o = task // blocks
        begin = (task % blocks) * COLUMNS
        untake_one(g + o * k * inner, idx, x + o * n * inner, n, k, inner, begin, min(inner, begin + COLUMNS))


def take(cnp.ndarray x not None, cnp.ndarray idx not None, cnp.ndarray out not None, Py_ssize_t outer, Py_ssize_t n,
         Py_ssize_t k, Py_ssize_t inner):
    """out[o, j, i] = x[o, idx[j], i]."""
    cdef bint f32 = single(x)
    need(x, cnp.PyArray_TYPE(x), outer * n * inner, False)
    need(out, cnp.PyArray_TYPE(x), outer * k * inner, True)
    cdef const int64_t* at = indices("take", idx, k, n)
    cdef const void* src = cnp.PyArray_DATA(x)
    cdef void* dst = cnp.PyArray_DATA(out)
    with nogil:
        if f32:
            take_all(<const float*>src, at, <float*>dst, outer, n, k, inner)
        else:
            take_all(<const double*>src, at, <double*>dst, outer, n, k, inner)


def take_transpose(cnp.ndarray g not None, cnp.ndarray idx not None, cnp.ndarray out not None, Py_ssize_t outer,
                   Py_ssize_t n, Py_ssize_t k, Py_ssize_t inner):
    """out[o, r, i] = Σ g[o, j, i] over the j with idx[j] = r, in ascending j."""
    cdef bint f32 = single(g)
    need(g, cnp.PyArray_TYPE(g), outer * k * inner, False)
    need(out, cnp.PyArray_TYPE(g), outer * n * inner, True)
    cdef const int64_t* at = indices("take_transpose", idx, k, n)
    cdef const void* src = cnp.PyArray_DATA(g)
    cdef void* dst = cnp.PyArray_DATA(out)
    with nogil:
        if f32:
            untake_all(<const float*>src, at, <float*>dst, outer, n, k, inner)
        else:
            untake_all(<const double*>src, at, <double*>dst, outer, n, k, inner)


# ---------------------------------------------------------------------------------------------- dropout


cdef inline double uniform(uint64_t seed, uint64_t i) noexcept nogil:
    """The i-th number of the sequence `seed`, in [0, 1): SplitMix64's output function, 53 bits of it."""
    cdef uint64_t z = seed + (i + 1) * <uint64_t>0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
    z = z ^ (z >> 31)
    return <double>(z >> 11) * (1.0 / 9007199254740992.0)


cdef void dropout_all(const real* x, real* y, Py_ssize_t n, uint64_t seed, double p) noexcept nogil:
    cdef Py_ssize_t block, i
    cdef real keep = <real>(1.0 - p)
    for block in prange((n + BLOCK - 1) // BLOCK, num_threads=threads_for(n * 4), schedule="static"):
        for i in range(block * BLOCK, min(n, (block + 1) * BLOCK)):
            y[i] = x[i] / keep if uniform(seed, i) >= p else 0


def dropout(cnp.ndarray x not None, cnp.ndarray seed not None, cnp.ndarray out not None, double p):
    """out[i] = x[i]/(1 − p) where the i-th number of the sequence `seed` (int64, 0-d) is at least p, else 0."""
    cdef bint f32 = single(x)
    cdef Py_ssize_t n = cnp.PyArray_SIZE(x)
    need(x, cnp.PyArray_TYPE(x), n, False)
    need(out, cnp.PyArray_TYPE(x), n, True)
    need(seed, cnp.NPY_INT64, 1, False)
    cdef uint64_t start = <uint64_t>((<const int64_t*>cnp.PyArray_DATA(seed))[0])
    cdef const void* src = cnp.PyArray_DATA(x)
    cdef void* dst = cnp.PyArray_DATA(out)
    with nogil:
        if f32:
            dropout_all(<const float*>src, <float*>dst, n, start, p)
        else:
            dropout_all(<const double*>src, <double*>dst, n, start, p)
