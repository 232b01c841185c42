"""Moving values by index, dropout and cast, as steps: gather, scatter_add, take, take_transpose and those by plane.

Data are (outer, n, inner); an index counts along n. Every index is checked before any value moves, so a wrong one is
STEP_BAD_INDEX and nothing is read or written outside. A transpose adds in row-major order of the indices, each
output by one thread, so the bits do not depend on the number of threads.
"""

from cython.parallel cimport prange
from libc.math cimport ceil
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from lean_nn_c._indices cimport inside
from lean_nn_c._types cimport real
from lean_nn_c.step cimport STEP_BAD_INDEX, STEP_DONE, Kernel, make_step
from lean_nn_c.threads cimport threads_for

cdef extern from "looks.h" nogil:
    void lnn_gather_f32(const float*, const int64_t*, float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, int64_t, Py_ssize_t, Py_ssize_t)
    void lnn_gather_f64(const double*, const int64_t*, double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, int64_t, Py_ssize_t, Py_ssize_t)
    void lnn_take_f32(const float*, const int64_t*, float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t)
    void lnn_take_f64(const double*, const int64_t*, double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t)
    void lnn_scatter_f32(const float*, const int64_t*, float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, int64_t)
    void lnn_scatter_f64(const double*, const int64_t*, double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, int64_t)
    void lnn_untake_f32(const float*, const int64_t*, float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t)
    void lnn_untake_f64(const double*, const int64_t*, double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t)
    void lnn_drop_f32(const float*, float*, Py_ssize_t, Py_ssize_t, uint64_t, uint64_t, float)
    void lnn_drop_f64(const double*, double*, Py_ssize_t, Py_ssize_t, uint64_t, uint64_t, double)

cdef enum:
    COLUMNS = 64        # inner elements per task of a transpose
    BLOCK = 4096
    PIECE = 65536       # elements that a thread clears at a time

cdef struct Plan:
    Py_ssize_t outer, n, k, inner
    int64_t skip                # an index that means "none", or NOTHING
    double p                    # of dropout

cdef int64_t NOTHING = -(<int64_t>1 << 62)      # no index that passed the check has this value: nothing is skipped


# --------------------------------------------------------------------------------------- gather, scatter


cdef inline void look_rows(const real* x, const int64_t* idx, real* y, const Plan* p, bint take, Py_ssize_t first,
                           Py_ssize_t end) noexcept nogil:
    if take:
        if real is float:
            lnn_take_f32(x, idx, y, p.n, p.k, p.inner, first, end)
        else:
            lnn_take_f64(x, idx, y, p.n, p.k, p.inner, first, end)
    elif real is float:
        lnn_gather_f32(x, idx, y, p.n, p.k, p.inner, p.skip, first, end)
    else:
        lnn_gather_f64(x, idx, y, p.n, p.k, p.inner, p.skip, first, end)


cdef void look_all(const real* x, const int64_t* idx, real* y, const Plan* p, bint take) noexcept nogil:
    """gather, or `take`: rows of the output in blocks, each by one thread."""
    cdef Py_ssize_t rows = p.outer * p.k, each = max(<Py_ssize_t>1, BLOCK // max(p.inner, <Py_ssize_t>1)), task
    cdef int threads = threads_for(rows * p.inner)
    if threads == 1 and rows:
        look_rows(x, idx, y, p, take, 0, rows)
        return
    for task in prange((rows + each - 1) // each, num_threads=threads, schedule="static"):
        look_rows(x, idx, y, p, take, task * each, min(rows, (task + 1) * each))


cdef void clear(real* x, Py_ssize_t n, int threads) noexcept nogil:
    cdef Py_ssize_t piece
    if threads == 1:
        memset(x, 0, n * sizeof(real))
        return
    for piece in prange((n + PIECE - 1) // PIECE, num_threads=threads, schedule="static"):
        memset(x + piece * PIECE, 0, min(n - piece * PIECE, <Py_ssize_t>PIECE) * sizeof(real))


cdef inline void scatter_one(const real* g, const int64_t* idx, real* x, Py_ssize_t k, Py_ssize_t inner,
                             Py_ssize_t begin, Py_ssize_t end, int64_t skip) noexcept nogil:
    """Columns begin … end of one outer index."""
    if real is float:
        lnn_scatter_f32(g, idx, x, k, inner, begin, end, skip)
    else:
        lnn_scatter_f64(g, idx, x, k, inner, begin, end, skip)


cdef void scatter_all(const real* g, const int64_t* idx, real* x, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t k,
                      Py_ssize_t inner, int64_t skip) noexcept nogil:
    cdef Py_ssize_t blocks = (inner + COLUMNS - 1) // COLUMNS
    cdef Py_ssize_t task, o, begin
    cdef int threads = threads_for(outer * (n + k) * inner)
    clear(x, outer * n * inner, threads)
    for task in prange(outer * blocks, num_threads=threads, schedule="static"):
        o = task // blocks
        begin = (task % blocks) * COLUMNS
        scatter_one(g + o * k * inner, idx + o * k * inner, x + o * n * inner, k, inner, begin,
                    min(inner, begin + COLUMNS), skip)


cdef int run_gather(const void* plan, char** at, real unused) noexcept nogil:
    cdef const Plan* p = <const Plan*>plan
    if not inside(<const int64_t*>at[1], p.outer * p.k * p.inner, p.n, p.skip, p.skip != NOTHING):
        return STEP_BAD_INDEX
    look_all(<const real*>at[0], <const int64_t*>at[1], <real*>at[2], p, False)
    return STEP_DONE


cdef int run_scatter(const void* plan, char** at, real unused) noexcept nogil:
    cdef const Plan* p = <const Plan*>plan
    if not inside(<const int64_t*>at[1], p.outer * p.k * p.inner, p.n, p.skip, p.skip != NOTHING):
        return STEP_BAD_INDEX
    scatter_all(<const real*>at[0], <const int64_t*>at[1], <real*>at[2], p.outer, p.n, p.k, p.inner, p.skip)
    return STEP_DONE


# ------------------------------------------------------------------------------------------------- take


cdef inline void untake_one(const real* g, const int64_t* idx, real* x, Py_ssize_t k, Py_ssize_t inner,
                            Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    if real is float:
        lnn_untake_f32(g, idx, x, k, inner, begin, end)
    else:
        lnn_untake_f64(g, idx, x, k, inner, begin, end)


cdef void untake_all(const real* g, const int64_t* idx, real* x, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t k,
                     Py_ssize_t inner) noexcept nogil:
    cdef Py_ssize_t blocks = (inner + COLUMNS - 1) // COLUMNS
    cdef Py_ssize_t task, o, begin
    cdef int threads = threads_for(outer * (n + k) * inner)
    clear(x, outer * n * inner, threads)
    for task in prange(outer * blocks, num_threads=threads, schedule="static"):
        o = task // blocks
        begin = (task % blocks) * COLUMNS
        untake_one(g + o * k * inner, idx, x + o * n * inner, k, inner, begin, min(inner, begin + COLUMNS))


cdef int run_take(const void* plan, char** at, real unused) noexcept nogil:
    cdef const Plan* p = <const Plan*>plan
    if not inside(<const int64_t*>at[1], p.k, p.n, 0, False):
        return STEP_BAD_INDEX
    look_all(<const real*>at[0], <const int64_t*>at[1], <real*>at[2], p, True)
    return STEP_DONE


cdef int run_untake(const void* plan, char** at, real unused) noexcept nogil:
    cdef const Plan* p = <const Plan*>plan
    if not inside(<const int64_t*>at[1], p.k, p.n, 0, False):
        return STEP_BAD_INDEX
    untake_all(<const real*>at[0], <const int64_t*>at[1], <real*>at[2], p.outer, p.n, p.k, p.inner)
    return STEP_DONE


# --------------------------------------------------------------------------------------------- by plane
# outer planes of n cells, k indices in each; −1 reads 0 and adds nothing


cdef Py_ssize_t gather_block(const real* x, const int64_t* idx, real* y, Py_ssize_t cells, Py_ssize_t count) noexcept nogil:
    """Returns the number of indices that are neither −1 nor in the plane."""
    cdef Py_ssize_t i, wrong = 0
    for i in range(count):
        if 0 <= idx[i] < cells:
            y[i] = x[idx[i]]
        else:
            y[i] = 0
            wrong += idx[i] != -1
    return wrong


cdef Py_ssize_t scatter_plane(const real* y_bar, const int64_t* idx, real* x_bar, Py_ssize_t cells,
                              Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i, wrong = 0
    memset(x_bar, 0, cells * sizeof(real))
    for i in range(count):
        if 0 <= idx[i] < cells:
            x_bar[idx[i]] += y_bar[i]
        else:
            wrong += idx[i] != -1
    return wrong


cdef int run_gather_at(const void* plan, char** at, real unused) noexcept nogil:
    cdef const Plan* p = <const Plan*>plan
    cdef Py_ssize_t blocks = (p.k + BLOCK - 1) // BLOCK, unit, first, start, wrong = 0
    cdef const int64_t* idx = <const int64_t*>at[1]
    for unit in prange(p.outer * blocks, schedule="static", num_threads=threads_for(p.outer * p.k)):
        start = unit % blocks * BLOCK
        first = unit // blocks * p.k + start
        wrong += gather_block(<const real*>at[0] + unit // blocks * p.n, idx + first, <real*>at[2] + first, p.n,
                              min(p.k - start, <Py_ssize_t>BLOCK))
    return STEP_BAD_INDEX if wrong else STEP_DONE


cdef int run_scatter_at(const void* plan, char** at, real unused) noexcept nogil:
    cdef const Plan* p = <const Plan*>plan
    cdef Py_ssize_t plane, wrong = 0
    cdef const int64_t* idx = <const int64_t*>at[1]
    for plane in prange(p.outer, schedule="static", num_threads=threads_for(p.outer * (p.n + p.k))):
        wrong += scatter_plane(<const real*>at[0] + plane * p.k, idx + plane * p.k, <real*>at[2] + plane * p.n, p.n, p.k)
    return STEP_BAD_INDEX if wrong else STEP_DONE


# ---------------------------------------------------------------------------------------------- dropout


cdef inline void drop(const real* x, real* y, Py_ssize_t first, Py_ssize_t end, uint64_t seed, uint64_t least, real keep) noexcept nogil:
    if real is float:
        lnn_drop_f32(x, y, first, end, seed, least, keep)
    else:
        lnn_drop_f64(x, y, first, end, seed, least, keep)


cdef void dropout_all(const real* x, real* y, Py_ssize_t n, uint64_t seed, double p) noexcept nogil:
    """The i-th element stays where the i-th number of the sequence `seed`, in [0, 1), is not below p."""
    cdef Py_ssize_t block
    cdef real keep = <real>(1.0 - p)
    cdef uint64_t least = <uint64_t>ceil(p * 9007199254740992.0)    # 2⁵³: numbers of 53 bits
    cdef int threads = threads_for(n * 4)
    if threads == 1:
        drop(x, y, 0, n, seed, least, keep)
        return
    for block in prange((n + BLOCK - 1) // BLOCK, num_threads=threads, schedule="static"):
        drop(x, y, block * BLOCK, min(n, (block + 1) * BLOCK), seed, least, keep)


cdef int run_dropout(const void* plan, char** at, real unused) noexcept nogil:
    cdef const Plan* p = <const Plan*>plan
    dropout_all(<const real*>at[0], <real*>at[2], p.n, <uint64_t>(<const int64_t*>at[1])[0], p.p)
    return STEP_DONE


# ------------------------------------------------------------------------------------------------- cast


cdef int widen(const void* plan, char** at) noexcept nogil:
    cdef Py_ssize_t i, n = (<const Plan*>plan).n
    cdef const float* x = <const float*>at[0]
    cdef double* y = <double*>at[1]
    for i in prange(n, num_threads=threads_for(n), schedule="static"):
        y[i] = x[i]
    return STEP_DONE


cdef int narrow(const void* plan, char** at) noexcept nogil:
    """Beyond float32's range is infinity, as IEEE says."""
    cdef Py_ssize_t i, n = (<const Plan*>plan).n
    cdef const double* x = <const double*>at[0]
    cdef float* y = <float*>at[1]
    for i in prange(n, num_threads=threads_for(n), schedule="static"):
        y[i] = <float>x[i]
    return STEP_DONE


def cast_step(bint wide, Py_ssize_t n):
    """x ↦ x in the other type; `wide` where x is float64."""
    cdef Plan p = Plan(1, n, 0, 1, 0, 0)
    if not 0 <= n < 1e18:
        raise ValueError(f"cast: sizes are not negative and fit into memory; got {n}")
    return make_step("cast", narrow if wide else widen, &p, sizeof(p), (8 * n, 4 * n) if wide else (4 * n, 8 * n))


# ------------------------------------------------------------------------------------------------ steps
# A wrapper per type is all that a function pointer needs.


cdef int gather_f32(const void* plan, char** at) noexcept nogil:
    return run_gather(plan, at, <float>0)


cdef int gather_f64(const void* plan, char** at) noexcept nogil:
    return run_gather(plan, at, <double>0)


cdef int scatter_f32(const void* plan, char** at) noexcept nogil:
    return run_scatter(plan, at, <float>0)


cdef int scatter_f64(const void* plan, char** at) noexcept nogil:
    return run_scatter(plan, at, <double>0)


cdef int take_f32(const void* plan, char** at) noexcept nogil:
    return run_take(plan, at, <float>0)


cdef int take_f64(const void* plan, char** at) noexcept nogil:
    return run_take(plan, at, <double>0)


cdef int untake_f32(const void* plan, char** at) noexcept nogil:
    return run_untake(plan, at, <float>0)


cdef int untake_f64(const void* plan, char** at) noexcept nogil:
    return run_untake(plan, at, <double>0)


cdef int gather_at_f32(const void* plan, char** at) noexcept nogil:
    return run_gather_at(plan, at, <float>0)


cdef int gather_at_f64(const void* plan, char** at) noexcept nogil:
    return run_gather_at(plan, at, <double>0)


cdef int scatter_at_f32(const void* plan, char** at) noexcept nogil:
    return run_scatter_at(plan, at, <float>0)


cdef int scatter_at_f64(const void* plan, char** at) noexcept nogil:
    return run_scatter_at(plan, at, <double>0)


cdef int dropout_f32(const void* plan, char** at) noexcept nogil:
    return run_dropout(plan, at, <float>0)


cdef int dropout_f64(const void* plan, char** at) noexcept nogil:
    return run_dropout(plan, at, <double>0)


cdef Kernel kernel_of(str which, bint wide) except NULL:
    if which == "gather":
        return gather_f64 if wide else gather_f32
    if which == "scatter_add":
        return scatter_f64 if wide else scatter_f32
    if which == "take":
        return take_f64 if wide else take_f32
    if which == "take_transpose":
        return untake_f64 if wide else untake_f32
    if which == "gather_at":
        return gather_at_f64 if wide else gather_at_f32
    if which == "scatter_add_at":
        return scatter_at_f64 if wide else scatter_at_f32
    raise ValueError(f"index kernel: gather, scatter_add, take, take_transpose, gather_at or scatter_add_at; got {which!r}")


def index_step(str name, str which, bint wide, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t k, Py_ssize_t inner, ignore=None):
    """(data, idx) ↦ y; where idx is `ignore`, nothing is read or added. `name` is for messages.

    ==============  =======================================================  ==========  =========
    which           y                                                        data        idx
    ==============  =======================================================  ==========  =========
    gather          y[o, j, i] = x[o, idx[o, j, i], i]                       (o, n, i)   (o, k, i)
    scatter_add     y[o, r, i] = Σ x[o, j, i] over idx[o, j, i] = r          (o, k, i)   (o, k, i)
    take            y[o, j, i] = x[o, idx[j], i]                             (o, n, i)   (k,)
    take_transpose  y[o, r, i] = Σ x[o, j, i] over idx[j] = r                (o, k, i)   (k,)
    gather_at       y[o, j] = x[o, idx[o, j]], 0 where that is −1            (o, n)      (o, k)
    scatter_add_at  y[o, r] = Σ x[o, j] over idx[o, j] = r                   (o, k)      (o, k)
    ==============  =======================================================  ==========  =========
    """
    cdef Plan p = Plan(outer, n, k, inner, NOTHING if ignore is None else ignore, 0)
    cdef int item = 8 if wide else 4
    if outer < 0 or n < 0 or k < 0 or inner < 0 or <double>outer * max(n, k) * inner > 1e18:
        raise ValueError(f"{name}: sizes are not negative and fit into memory; got {(outer, n, k, inner)}")
    many, few = item * outer * n * inner, item * outer * k * inner
    positions = 8 * k if which in ("take", "take_transpose") else 8 * outer * k * inner
    reads = which in ("gather", "take", "gather_at")
    return make_step(name, kernel_of(which, wide), &p, sizeof(p), (many if reads else few, positions, few if reads else many),
                     1, None, False, lambda x, idx, y: blame(name, which, idx, n, ignore))


def blame(str name, str which, idx, Py_ssize_t n, ignore):
    """The error for the first index that lies outside."""
    flat = idx.reshape(-1)
    if which in ("gather_at", "scatter_add_at"):
        return IndexError(f"{name}: indices must be in [-1, {n}); got [{flat.min()}, {flat.max()}]; use this input's")
    wrong = (flat < 0) | (flat >= n)
    if ignore is not None:
        wrong &= flat != ignore
    at = int(wrong.argmax())
    return IndexError(f"{name}: indices are 0 … {n - 1} on an axis of {n}; got {flat[at]} at flat position {at}; "
                      f"correct the index")


def dropout_step(bint wide, Py_ssize_t n, double p):
    """(x, seed) ↦ y: y[i] = x[i]/(1 − p) where the i-th number of the sequence `seed` (int64) is at least p, else 0."""
    cdef Plan plan = Plan(1, n, 0, 1, 0, p)
    cdef int item = 8 if wide else 4
    if not 0 <= n < 1e18:
        raise ValueError(f"dropout: sizes are not negative and fit into memory; got {n}")
    return make_step("dropout", dropout_f64 if wide else dropout_f32, &plan, sizeof(plan), (item * n, 8, item * n))
