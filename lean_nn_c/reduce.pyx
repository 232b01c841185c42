"""Reductions: sums over any axes, extremes, logsumexp, softmax, standardisation.

Arrays are C-contiguous, float32 or float64, and seen as (outer, n, inner), reduced over n; `standardize` sees
(A, G, B). The loops are in ``lines.h`` and ``standard.h``; here: dtype, tasks, threads.
A task is fixed by the shape and written by one thread, so the bits do not depend on the number of threads.
"""

cimport numpy as cnp
from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.string cimport memcpy

import numpy as np

from lean_nn_c._arrays cimport need, single
from lean_nn_c._types cimport real
from lean_nn_c.threads cimport threads_for

cnp.import_array()

cdef extern from "lines.h" nogil:
    enum:
        COLUMNS "LNN_COLUMNS"
    ctypedef enum Kind "lnn_soft":
        LOGSUMEXP "LNN_LOGSUMEXP"
        SOFTMAX "LNN_SOFTMAX"
        LOG_SOFTMAX "LNN_LOG_SOFTMAX"
    float lnn_row_sum_f32(const float*, Py_ssize_t)
    double lnn_row_sum_f64(const double*, Py_ssize_t)
    void lnn_column_sum_f32(const float*, Py_ssize_t, Py_ssize_t, int, float*)
    void lnn_column_sum_f64(const double*, Py_ssize_t, Py_ssize_t, int, double*)
    void lnn_soft_line_f32(Kind, const float*, float*, Py_ssize_t)
    void lnn_soft_line_f64(Kind, const double*, double*, Py_ssize_t)
    void lnn_soft_columns_f32(Kind, const float*, float*, Py_ssize_t, Py_ssize_t, int)
    void lnn_soft_columns_f64(Kind, const double*, double*, Py_ssize_t, Py_ssize_t, int)

cdef enum:
    SPLIT = 8192        # a longer sum is cut into parts of this length, which threads share
    TASK = 4096         # elements a task has at least, where lines are short
    KEEP_GIL = 8192     # work below which giving the GIL up costs more than it gives
    EXP_COST = 8        # one exp in additions
    MAX_AXES = 64


def roundings(n):
    """How many roundings a sum of `n` terms along one axis collects at most: the n of its γₙ."""
    if n <= SPLIT:
        return min(max(n - 1, 0), 31 + max(0, (max(n, 1) - 1) // 32).bit_length())
    return roundings(SPLIT) + roundings(-(-n // SPLIT))


def sum_roundings(tuple shape, tuple axes):
    """The same for `sum` over `axes` of `shape`: adjacent axes are summed as one, others one after another."""
    total, run = 0, 1
    for axis, n in enumerate(shape):
        if axis in axes:
            run *= n
        else:
            total, run = total + roundings(run), 1
    return total + roundings(run)


cdef int extents(Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner) except -1:
    if outer < 0 or n < 0 or inner < 0:
        raise ValueError(f"reduce kernel: sizes must not be negative; got ({outer}, {n}, {inner})")
    return 0


# -------------------------------------------------------------------------------------------------- sum


cdef inline void sum_task(const real* x, real* y, Py_ssize_t n, Py_ssize_t inner, Py_ssize_t parts, Py_ssize_t task,
                          Py_ssize_t blocks) noexcept nogil:
    """One block of columns (or the row) of one part of one outer index."""
    cdef Py_ssize_t block = task % blocks
    cdef Py_ssize_t line = task // blocks       # outer · parts + part
    cdef Py_ssize_t part = line % parts
    cdef Py_ssize_t rows = min(<Py_ssize_t>SPLIT, n - part * SPLIT)
    cdef const real* src = x + ((line // parts) * n + part * SPLIT) * inner + block * COLUMNS
    cdef real* dst = y + line * inner + block * COLUMNS
    cdef int columns = <int>min(<Py_ssize_t>COLUMNS, inner - block * COLUMNS)
    if real is float:
        if inner == 1:
            dst[0] = lnn_row_sum_f32(src, rows)
        else:
            lnn_column_sum_f32(src, rows, inner, columns, dst)
    else:
        if inner == 1:
            dst[0] = lnn_row_sum_f64(src, rows)
        else:
            lnn_column_sum_f64(src, rows, inner, columns, dst)


cdef void sum_parts(const real* x, real* y, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner, Py_ssize_t parts) noexcept nogil:
    """y[o, p, i] = Σ x[o, r, i] over the rows r of part p."""
    cdef Py_ssize_t blocks = (inner + COLUMNS - 1) // COLUMNS
    cdef Py_ssize_t tasks = outer * parts * blocks
    cdef Py_ssize_t size = min(n, <Py_ssize_t>SPLIT) * min(inner, <Py_ssize_t>COLUMNS)
    cdef Py_ssize_t each = max(<Py_ssize_t>1, TASK // max(size, <Py_ssize_t>1))
    cdef Py_ssize_t bundle, task, bundles = (tasks + each - 1) // each
    cdef int threads = threads_for(outer * n * inner)
    if threads == 1:
        for task in range(tasks):
            sum_task(x, y, n, inner, parts, task, blocks)
        return
    for bundle in prange(bundles, num_threads=threads, schedule="static"):
        for task in range(bundle * each, min(tasks, (bundle + 1) * each)):
            sum_task(x, y, n, inner, parts, task, blocks)


cdef object sum_pass(cnp.ndarray x, cnp.ndarray out, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner):
    """Σ over the middle axis of (outer, n, inner); `out` None: into a new array, which is returned."""
    cdef Py_ssize_t parts = max(<Py_ssize_t>1, (n + SPLIT - 1) // SPLIT)
    cdef cnp.ndarray y
    cdef int kind = cnp.PyArray_TYPE(x)
    y = np.empty(outer * parts * inner, x.dtype) if out is None or parts > 1 else out
    cdef const void* src = cnp.PyArray_DATA(x)
    cdef void* dst = cnp.PyArray_DATA(y)
    if outer * n * inner < KEEP_GIL:
        if kind == cnp.NPY_FLOAT32:
            sum_parts(<const float*>src, <float*>dst, outer, n, inner, parts)
        else:
            sum_parts(<const double*>src, <double*>dst, outer, n, inner, parts)
    else:
        with nogil:
            if kind == cnp.NPY_FLOAT32:
                sum_parts(<const float*>src, <float*>dst, outer, n, inner, parts)
            else:
                sum_parts(<const double*>src, <double*>dst, outer, n, inner, parts)
    return sum_pass(y, out, outer, parts, inner) if parts > 1 else y


def sum(cnp.ndarray x not None, cnp.ndarray out not None, tuple axes):
    """out = Σ x over `axes` (not negative). Adjacent axes are one; the innermost go first."""
    cdef Py_ssize_t size[MAX_AXES]
    cdef bint reduced[MAX_AXES]
    cdef int axis, nd = cnp.PyArray_NDIM(x), groups = 0, left = 0, k
    cdef Py_ssize_t outer, inner, kept = 1
    single(x)
    for axis in range(nd):
        if cnp.PyArray_DIM(x, axis) == 1:
            continue
        if groups and reduced[groups - 1] == (axis in axes):
            size[groups - 1] *= cnp.PyArray_DIM(x, axis)
        else:
            reduced[groups] = axis in axes
            size[groups] = cnp.PyArray_DIM(x, axis)
            left += reduced[groups]
            groups += 1
    for k in range(groups):
        if not reduced[k]:
            kept *= size[k]
    need(x, cnp.PyArray_TYPE(x), cnp.PyArray_SIZE(x), False)
    need(out, cnp.PyArray_TYPE(x), kept, True)
    if left == 0:
        memcpy(cnp.PyArray_DATA(out), cnp.PyArray_DATA(x), cnp.PyArray_NBYTES(x))
        return
    if cnp.PyArray_SIZE(x) == 0:
        out.fill(0)
        return
    inner = 1
    for k in range(groups - 1, -1, -1):
        if not reduced[k]:
            inner *= size[k]
            continue
        outer = cnp.PyArray_SIZE(x) // (size[k] * inner)
        left -= 1
        x = sum_pass(x, None if left else out, outer, size[k], inner)


# ---------------------------------------------------------------------------------------------- extremes


cdef inline bint beats(real a, real b, bint least) noexcept nogil:
    """Whether a takes the place of b: strictly better, or the first NaN."""
    return (a < b if least else a > b) or (a != a and b == b)


cdef inline void extreme_lines(const real* x, real* y, int64_t* idx, Py_ssize_t n, Py_ssize_t inner, int columns,
                               bint least) noexcept nogil:
    cdef Py_ssize_t r
    cdef int k
    cdef bint better
    for k in range(columns):
        y[k] = x[k]
        idx[k] = 0
    for r in range(1, n):
        for k in range(columns):
            better = beats(x[r * inner + k], y[k], least)
            y[k] = x[r * inner + k] if better else y[k]
            idx[k] = r if better else idx[k]


cdef inline void extreme_task(const real* x, real* y, int64_t* idx, Py_ssize_t n, Py_ssize_t inner, Py_ssize_t task,
                              Py_ssize_t blocks, bint least) noexcept nogil:
    cdef Py_ssize_t first = (task % blocks) * COLUMNS
    cdef Py_ssize_t at = (task // blocks) * n * inner + first
    cdef Py_ssize_t out = (task // blocks) * inner + first
    cdef int columns = <int>min(<Py_ssize_t>COLUMNS, inner - first)
    if least:
        extreme_lines(x + at, y + out, idx + out, n, inner, columns, True)
    else:
        extreme_lines(x + at, y + out, idx + out, n, inner, columns, False)


cdef void extreme_all(const real* x, real* y, int64_t* idx, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner,
                      bint least) noexcept nogil:
    cdef Py_ssize_t task, blocks = (inner + COLUMNS - 1) // COLUMNS
    cdef int threads = threads_for(outer * n * inner)
    if threads == 1:    # without entering OpenMP, which costs more than a small reduction
        for task in range(outer * blocks):
            extreme_task(x, y, idx, n, inner, task, blocks, least)
        return
    for task in prange(outer * blocks, num_threads=threads, schedule="static"):
        extreme_task(x, y, idx, n, inner, task, blocks, least)


def extreme(cnp.ndarray x not None, cnp.ndarray y not None, cnp.ndarray idx not None, Py_ssize_t outer, Py_ssize_t n,
            Py_ssize_t inner, bint least):
    """(y, idx) = the minimum (`least`) or maximum over n and the first index that has it; the first NaN wins."""
    cdef bint f32 = single(x)
    extents(outer, n, inner)
    need(x, cnp.PyArray_TYPE(x), outer * n * inner, False)
    need(y, cnp.PyArray_TYPE(x), outer * inner, True)
    need(idx, cnp.NPY_INT64, outer * inner, True)
    if n == 0 and outer * inner:
        raise ValueError("reduce kernel: an extreme of nothing has no value")
    if outer * inner == 0:
        return
    cdef const void* src = cnp.PyArray_DATA(x)
    cdef void* dst = cnp.PyArray_DATA(y)
    cdef int64_t* at = <int64_t*>cnp.PyArray_DATA(idx)
    with nogil:
        if f32:
            extreme_all(<const float*>src, <float*>dst, at, outer, n, inner, least)
        else:
            extreme_all(<const double*>src, <double*>dst, at, outer, n, inner, least)


# ----------------------------------------------------------------------------------------------- softmax


cdef inline void soft_task(Kind kind, const real* x, real* y, Py_ssize_t n, Py_ssize_t inner, Py_ssize_t task,
                           Py_ssize_t blocks) noexcept nogil:
    cdef Py_ssize_t first = (task % blocks) * COLUMNS
    cdef Py_ssize_t at = (task // blocks) * n * inner + first
    cdef Py_ssize_t out = (task // blocks) * inner + first if kind == LOGSUMEXP else at
    cdef int columns = <int>min(<Py_ssize_t>COLUMNS, inner - first)
    if real is float:
        if inner == 1:
            lnn_soft_line_f32(kind, x + at, y + out, n)
        else:
            lnn_soft_columns_f32(kind, x + at, y + out, n, inner, columns)
    else:
        if inner == 1:
            lnn_soft_line_f64(kind, x + at, y + out, n)
        else:
            lnn_soft_columns_f64(kind, x + at, y + out, n, inner, columns)


cdef void soft_all(Kind kind, const real* x, real* y, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner) noexcept nogil:
    cdef Py_ssize_t task, blocks = (inner + COLUMNS - 1) // COLUMNS
    cdef int threads = threads_for(outer * n * inner * EXP_COST)
    if threads == 1:
        for task in range(outer * blocks):
            soft_task(kind, x, y, n, inner, task, blocks)
        return
    for task in prange(outer * blocks, num_threads=threads, schedule="static"):
        soft_task(kind, x, y, n, inner, task, blocks)


cdef int soft(Kind kind, cnp.ndarray x, cnp.ndarray out, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner) except -1:
    cdef bint f32 = single(x)
    extents(outer, n, inner)
    need(x, cnp.PyArray_TYPE(x), outer * n * inner, False)
    need(out, cnp.PyArray_TYPE(x), outer * inner if kind == LOGSUMEXP else outer * n * inner, True)
    cdef const void* src = cnp.PyArray_DATA(x)
    cdef void* dst = cnp.PyArray_DATA(out)
    if n == 0 or outer == 0 or inner == 0:
        out.fill(-np.inf)       # log of an empty sum; the others have no element then
        return 0
    with nogil:
        if f32:
            soft_all(kind, <const float*>src, <float*>dst, outer, n, inner)
        else:
            soft_all(kind, <const double*>src, <double*>dst, outer, n, inner)
    return 0


def logsumexp(cnp.ndarray x not None, cnp.ndarray out not None, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner):
    """out = log Σ exp(x) over n."""
    soft(LOGSUMEXP, x, out, outer, n, inner)


def softmax(cnp.ndarray x not None, cnp.ndarray out not None, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner):
    """out = exp(x) / Σ exp(x) over n."""
    soft(SOFTMAX, x, out, outer, n, inner)


def log_softmax(cnp.ndarray x not None, cnp.ndarray out not None, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner):
    """out = x − log Σ exp(x) over n."""
    soft(LOG_SOFTMAX, x, out, outer, n, inner)


# ------------------------------------------------------------------------------------------- standardise


cdef extern from "standard.h" nogil:
    ctypedef struct lnn_standard:
        Py_ssize_t A, G, B
        double eps
        const void* x
        const void* t
        const void* mean
        const void* rstd
        const void* w
        const void* b
        const void* g_mean
        const void* g_rstd
        void* y
        void* first
        void* second
        int tangents
    ctypedef void (*lnn_standard_unit)(const lnn_standard*, Py_ssize_t) noexcept nogil
    Py_ssize_t lnn_standard_units(Py_ssize_t, Py_ssize_t)
    void lnn_standardize_f32(const lnn_standard*, Py_ssize_t)
    void lnn_standardize_f64(const lnn_standard*, Py_ssize_t)
    void lnn_slope_f32(const lnn_standard*, Py_ssize_t)
    void lnn_slope_f64(const lnn_standard*, Py_ssize_t)


cdef void* pointer(cnp.ndarray x, int kind, Py_ssize_t size, bint writes) except? NULL:
    """The data of `x`, checked; NULL for None."""
    if x is None:
        return NULL
    need(x, kind, size, writes)
    return cnp.PyArray_DATA(x)


cdef void run_units(lnn_standard_unit f, const lnn_standard* job, Py_ssize_t work) noexcept nogil:
    cdef Py_ssize_t unit, units = lnn_standard_units(job.G, job.B)
    cdef int threads = threads_for(work)
    if threads == 1:
        for unit in range(units):
            f(job, unit)
        return
    for unit in prange(units, num_threads=threads, schedule="static"):
        f(job, unit)


cdef int launch(lnn_standard_unit f, lnn_standard* job) except -1:
    cdef Py_ssize_t work = job.A * job.G * job.B * 4
    if work == 0:
        return 0
    if work < KEEP_GIL:
        run_units(f, job, work)
        return 0
    with nogil:
        run_units(f, job, work)
    return 0


def standardize(cnp.ndarray x not None, cnp.ndarray w, cnp.ndarray b, cnp.ndarray y not None, cnp.ndarray mean not None,
                cnp.ndarray rstd not None, Py_ssize_t A, Py_ssize_t G, Py_ssize_t B, double eps):
    """y = w·(x − mean)·rstd + b per g of (A, G, B), rstd = 1/√(variance + eps); w and b may be None."""
    cdef lnn_standard job
    cdef bint f32 = single(x)
    cdef int kind = cnp.PyArray_TYPE(x)
    cdef Py_ssize_t size = A * G * B
    extents(A, G, B)
    job.A, job.G, job.B, job.eps = A, G, B, eps
    job.x, job.y = pointer(x, kind, size, False), pointer(y, kind, size, True)
    job.w, job.b = pointer(w, kind, G, False), pointer(b, kind, G, False)
    job.first, job.second = pointer(mean, kind, G, True), pointer(rstd, kind, G, True)
    if A * B == 0:
        mean.fill(np.nan)
        rstd.fill(np.nan)
    launch(lnn_standardize_f32 if f32 else lnn_standardize_f64, &job)


def standardize_slope(cnp.ndarray t not None, cnp.ndarray x not None, cnp.ndarray mean, cnp.ndarray rstd not None,
                      cnp.ndarray w, cnp.ndarray g_mean, cnp.ndarray g_rstd, cnp.ndarray out not None, cnp.ndarray first,
                      cnp.ndarray second, bint tangents, Py_ssize_t A, Py_ssize_t G, Py_ssize_t B):
    """out = w·rstd·(t − m(t) − z·m(z·t)) + (g_mean − g_rstd·rstd²·z)/n, z = (x − mean)·rstd, or x where mean is None.

    w, g_mean and g_rstd may be None. first and second, unless None: Σ t and Σ t·z per group, or with `tangents`
    m(t) and −rstd²·m(z·t).
    """
    cdef lnn_standard job
    cdef bint f32 = single(t)
    cdef int kind = cnp.PyArray_TYPE(t)
    cdef Py_ssize_t size = A * G * B
    extents(A, G, B)
    job.A, job.G, job.B, job.eps, job.tangents = A, G, B, 0, tangents
    job.t, job.x, job.y = pointer(t, kind, size, False), pointer(x, kind, size, False), pointer(out, kind, size, True)
    job.mean, job.rstd, job.w = pointer(mean, kind, G, False), pointer(rstd, kind, G, False), pointer(w, kind, G, False)
    job.g_mean, job.g_rstd = pointer(g_mean, kind, G, False), pointer(g_rstd, kind, G, False)
    job.first, job.second = pointer(first, kind, G, True), pointer(second, kind, G, True)
    if A * B == 0:
        for sums in (first, second):
            if sums is not None:
                sums.fill(np.nan if tangents else 0)
    launch(lnn_slope_f32 if f32 else lnn_slope_f64, &job)
