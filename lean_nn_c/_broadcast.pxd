# Elementwise operations on operands that are broadcast in any way: axes are merged as far as all operands allow, the fastest
# becomes the row, the others are counted by an odometer. (Where every operand repeats simply, `_chain.pxd` does better.)

cimport numpy as cnp
from cython.parallel cimport prange

from lean_nn_c._chain cimport lnn_binary, lnn_where

cdef enum:
    BLOCK = 4096        # elements per task, fixed: the split must not depend on the number of threads
    MAX_AXES = 64       # NumPy's limit

# One broadcast loop: `rows` contiguous rows of `inner` outputs; an operand's step along a row is 0 or 1,
# because operands are C-contiguous and broadcast at most. The outer axes are counted by an odometer.
cdef struct Job:
    lnn_binary pair             # used when there are two operands,
    lnn_where choose            # and this one when there are three
    int operands
    const char* src[3]
    Py_ssize_t src_item[3]
    const cnp.npy_intp* shape[3]
    int ndim[3]
    char* dst
    Py_ssize_t dst_item
    double p0
    double p1
    Py_ssize_t work             # for the number of threads
    int axes                    # outer axes, the last one fastest
    Py_ssize_t inner
    Py_ssize_t rows
    int inner_step[3]
    Py_ssize_t dim[MAX_AXES]
    Py_ssize_t step[3][MAX_AXES]


cdef inline int plan_job(Job* job, int nd, const cnp.npy_intp* out) except -1:
    """Merge the axes of the broadcast to `out`, a shape of `nd` axes, into rows and outer axes."""
    cdef int k, axis, own
    cdef bint merges
    cdef Py_ssize_t n, size
    cdef Py_ssize_t run[3]      # elements of operand k inside the axes seen so far
    cdef Py_ssize_t step[3]
    job.axes = 0
    for k in range(job.operands):
        run[k] = 1
        if job.ndim[k] > nd:
            raise ValueError("elementwise kernel: out has fewer axes than an operand")
    for axis in range(nd - 1, -1, -1):
        n = out[axis]
        merges = job.axes > 0
        for k in range(job.operands):
            own = axis - nd + job.ndim[k]
            size = job.shape[k][own] if own >= 0 else 1
            if size != n and size != 1:
                raise ValueError(f"elementwise kernel: an operand has {size} on axis {axis}, out has {n}")
            step[k] = 0 if size == 1 else run[k]
            run[k] *= size
            merges = merges and step[k] == job.step[k][job.axes - 1] * job.dim[job.axes - 1]
        if n == 1:
            continue
        if merges:
            job.dim[job.axes - 1] *= n
            continue
        job.dim[job.axes] = n
        for k in range(job.operands):
            job.step[k][job.axes] = step[k]
        job.axes += 1
    split_inner(job)
    return 0


cdef inline void split_inner(Job* job) noexcept nogil:
    """Axis 0 (the fastest: they were found from the end) becomes the row; the rest stay as the odometer."""
    cdef int k, axis
    job.inner = 1
    job.rows = 1
    for k in range(job.operands):
        job.inner_step[k] = 0
    if job.axes == 0:
        return
    job.inner = job.dim[0]
    for k in range(job.operands):
        job.inner_step[k] = <int>job.step[k][0]
    job.axes -= 1
    for axis in range(job.axes):
        job.dim[axis] = job.dim[axis + 1]
        job.rows *= job.dim[axis]
        for k in range(job.operands):
            job.step[k][axis] = job.step[k][axis + 1]


cdef inline void call_row(const Job* job, const Py_ssize_t* at, Py_ssize_t first, Py_ssize_t dst, Py_ssize_t n) noexcept nogil:
    """Elements first … first + n of the row whose operands begin at `at` and whose output begins at `dst`."""
    cdef const char* a = job.src[0] + (at[0] + first * job.inner_step[0]) * job.src_item[0]
    cdef const char* b = job.src[1] + (at[1] + first * job.inner_step[1]) * job.src_item[1]
    cdef const char* c
    cdef char* y = job.dst + (dst + first) * job.dst_item
    if job.operands == 2:
        job.pair(a, b, y, n, job.inner_step[0], job.inner_step[1], job.p0, job.p1)
        return
    c = job.src[2] + (at[2] + first * job.inner_step[2]) * job.src_item[2]
    job.choose(a, b, c, y, n, job.inner_step[0], job.inner_step[1], job.inner_step[2])


cdef inline void some_rows(const Job* job, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t at[3]
    cdef Py_ssize_t counter[MAX_AXES]
    cdef Py_ssize_t row, rest = begin
    cdef int k, axis
    at[0] = at[1] = at[2] = 0
    for axis in range(job.axes):
        counter[axis] = rest % job.dim[axis]
        rest //= job.dim[axis]
        for k in range(job.operands):
            at[k] += counter[axis] * job.step[k][axis]
    for row in range(begin, end):
        call_row(job, at, 0, row * job.inner, job.inner)
        for axis in range(job.axes):
            counter[axis] += 1
            for k in range(job.operands):
                at[k] += job.step[k][axis]
            if counter[axis] < job.dim[axis]:
                break
            counter[axis] = 0
            for k in range(job.operands):
                at[k] -= job.dim[axis] * job.step[k][axis]


cdef inline void task(const Job* job, Py_ssize_t index, Py_ssize_t rows_each, Py_ssize_t blocks) noexcept nogil:
    """Task `index`: `rows_each` whole rows, or one block of the single long row."""
    cdef Py_ssize_t at[3]
    if blocks == 0:
        some_rows(job, index * rows_each, min(job.rows, (index + 1) * rows_each))
        return
    at[0] = at[1] = at[2] = 0
    call_row(job, at, index * BLOCK, 0, min(BLOCK, job.inner - index * BLOCK))


cdef inline void run_job(const Job* job, int threads) noexcept nogil:
    cdef Py_ssize_t blocks = (job.inner + BLOCK - 1) // BLOCK if job.rows == 1 else 0
    cdef Py_ssize_t rows_each = max(1, BLOCK // job.inner) if job.inner else 1
    cdef Py_ssize_t index, tasks
    if job.inner == 0 or job.rows == 0:
        return
    tasks = blocks if blocks else (job.rows + rows_each - 1) // rows_each
    if threads == 1:
        for index in range(tasks):
            task(job, index, rows_each, blocks)
        return
    for index in prange(tasks, num_threads=threads, schedule="static"):
        task(job, index, rows_each, blocks)
