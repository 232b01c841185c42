"""Elementwise kernels, by name: ``unary``, ``binary``, ``compare``, ``where``, and ``update`` for optimisers.

The arithmetic is in ``elementwise_scalar.h``, one definition per operator. Here: look-up by dtype,
broadcasting, threads. A kernel is called for arrays of a few elements millions of times, hence NumPy's
C interface and not memoryviews, and no GIL release for small work.

Large arrays are cut into fixed blocks, so an element is computed by the same instructions whatever the
number of threads.
"""

cimport numpy as cnp
from cython.parallel cimport prange
from libc.stdint cimport uint8_t

from lean_nn_c._arrays cimport need, single
from lean_nn_c._chain cimport CHAIN_INPUTS, CHAIN_OPS, CHAIN_OUT, CHAIN_TEMPS, ChainOp, ChainPlan, chain_run
from lean_nn_c.step cimport make_step
from lean_nn_c.threads cimport threads_for

cnp.import_array()

cdef extern from "elementwise.h" nogil:
    ctypedef void (*lnn_unary)(const void*, void*, Py_ssize_t, double, double) noexcept nogil
    ctypedef void (*lnn_binary)(const void*, const void*, void*, Py_ssize_t, int, int, double, double) noexcept nogil
    ctypedef void (*lnn_where)(const uint8_t*, const void*, const void*, void*, Py_ssize_t, int, int, int) noexcept nogil
    ctypedef struct lnn_unary_entry:
        const char* name
        int cost
        lnn_unary f32
        lnn_unary f64
    ctypedef struct lnn_binary_entry:
        const char* name
        int cost
        lnn_binary f32
        lnn_binary f64
    ctypedef void (*lnn_update)(const void**, void**, const double*, Py_ssize_t) noexcept nogil
    ctypedef struct lnn_update_entry:
        const char* name
        int slots
        lnn_update f32
        lnn_update f64
    const lnn_update_entry* lnn_update_table
    const lnn_unary_entry* lnn_unary_table
    const lnn_binary_entry* lnn_binary_table
    const lnn_binary_entry* lnn_compare_table
    void lnn_where_loop_f32(const uint8_t*, const void*, const void*, void*, Py_ssize_t, int, int, int) noexcept nogil
    void lnn_where_loop_f64(const uint8_t*, const void*, const void*, void*, Py_ssize_t, int, int, int) noexcept nogil

cdef extern from "numpy/arrayobject.h":
    bint PyArray_IS_C_CONTIGUOUS(cnp.ndarray)
    bint PyArray_ISWRITEABLE(cnp.ndarray)
    bint PyArray_SAMESHAPE(cnp.ndarray, cnp.ndarray)

cdef enum:
    BLOCK = 4096        # elements per task, fixed: the split must not depend on the number of threads
    KEEP_GIL = 8192     # work below which giving the GIL up costs more than it gives
    MAX_AXES = 64       # NumPy's limit
    MAX_ARRAYS = 5      # of an update: parameter, gradient, three slots
    MAX_NUMBERS = 9     # of an update
    UPDATE_COST = 8     # of an update's element, in additions

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
    int axes                    # outer axes, the last one fastest
    Py_ssize_t inner
    Py_ssize_t rows
    int inner_step[3]
    Py_ssize_t dim[MAX_AXES]
    Py_ssize_t step[3][MAX_AXES]


cdef int check(cnp.ndarray x, cnp.ndarray out, int out_type) except -1:
    """Refuse what would read or write out of bounds; the backend never passes it."""
    if not PyArray_IS_C_CONTIGUOUS(x) or not PyArray_IS_C_CONTIGUOUS(out) or not PyArray_ISWRITEABLE(out):
        raise ValueError("elementwise kernel: arrays must be C-contiguous and out writeable; use numpy.ascontiguousarray")
    if cnp.PyArray_TYPE(out) != out_type:
        raise TypeError(f"elementwise kernel: operands are {x.dtype}, which does not go with out of {out.dtype}")
    return 0


cdef int wrong_type(cnp.ndarray x) except -1:
    raise TypeError(f"elementwise kernel: float32 and float64 are supported; got {x.dtype}")


cdef void unary_blocks(lnn_unary f, const char* x, char* y, Py_ssize_t item, Py_ssize_t n, int threads,
                       double p0, double p1) noexcept nogil:
    cdef Py_ssize_t block, blocks = (n + BLOCK - 1) // BLOCK
    if threads == 1:
        for block in range(blocks):
            f(x + block * BLOCK * item, y + block * BLOCK * item, min(BLOCK, n - block * BLOCK), p0, p1)
        return
    for block in prange(blocks, num_threads=threads, schedule="static"):
        f(x + block * BLOCK * item, y + block * BLOCK * item, min(BLOCK, n - block * BLOCK), p0, p1)


def _unary(int index):
    cdef lnn_unary f32 = lnn_unary_table[index].f32
    cdef lnn_unary f64 = lnn_unary_table[index].f64
    cdef int cost = lnn_unary_table[index].cost

    def kernel(cnp.ndarray x not None, cnp.ndarray out not None, double p0=0.0, double p1=0.0):
        cdef int type_num = cnp.PyArray_TYPE(x)
        cdef Py_ssize_t n = cnp.PyArray_SIZE(x)
        cdef const char* src = <const char*>cnp.PyArray_DATA(x)
        cdef char* dst = <char*>cnp.PyArray_DATA(out)
        cdef lnn_unary f = f32 if type_num == cnp.NPY_FLOAT32 else f64
        cdef Py_ssize_t item = 4 if type_num == cnp.NPY_FLOAT32 else 8
        if type_num != cnp.NPY_FLOAT32 and type_num != cnp.NPY_FLOAT64:
            wrong_type(x)
        check(x, out, type_num)
        if cnp.PyArray_SIZE(out) != n:
            raise ValueError(f"elementwise kernel: {n} elements do not fill out of {cnp.PyArray_SIZE(out)}")
        if n * cost < KEEP_GIL and n <= BLOCK:
            f(src, dst, n, p0, p1)
            return
        with nogil:
            unary_blocks(f, src, dst, item, n, threads_for(n * cost), p0, p1)

    return kernel


cdef int plan(Job* job, cnp.ndarray out) except -1:
    """Merge the axes of the broadcast into rows and outer axes."""
    cdef int k, axis, own, nd = cnp.PyArray_NDIM(out)
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
        n = cnp.PyArray_DIM(out, axis)
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


cdef void split_inner(Job* job) noexcept nogil:
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


cdef inline void call(const Job* job, const Py_ssize_t* at, Py_ssize_t first, Py_ssize_t dst, Py_ssize_t n) noexcept nogil:
    """Elements first … first + n of the row whose operands begin at `at` and whose output begins at `dst`."""
    cdef const char* a = job.src[0] + (at[0] + first * job.inner_step[0]) * job.src_item[0]
    cdef const char* b = job.src[1] + (at[1] + first * job.inner_step[1]) * job.src_item[1]
    cdef const char* c
    cdef char* y = job.dst + (dst + first) * job.dst_item
    if job.operands == 2:
        job.pair(a, b, y, n, job.inner_step[0], job.inner_step[1], job.p0, job.p1)
        return
    c = job.src[2] + (at[2] + first * job.inner_step[2]) * job.src_item[2]
    job.choose(<const uint8_t*>a, b, c, y, n, job.inner_step[0], job.inner_step[1], job.inner_step[2])


cdef void some_rows(const Job* job, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
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
        call(job, at, 0, row * job.inner, job.inner)
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
    call(job, at, index * BLOCK, 0, min(BLOCK, job.inner - index * BLOCK))


cdef void run(const Job* job, int threads) noexcept nogil:
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


cdef void operand(Job* job, int k, cnp.ndarray x, Py_ssize_t item):
    job.src[k] = <const char*>cnp.PyArray_DATA(x)
    job.src_item[k] = item
    job.shape[k] = cnp.PyArray_DIMS(x)
    job.ndim[k] = cnp.PyArray_NDIM(x)


cdef int launch(Job* job, cnp.ndarray out, Py_ssize_t out_item, int cost) except -1:
    """The general case: plan the broadcast, then run it."""
    cdef Py_ssize_t work = cnp.PyArray_SIZE(out) * cost
    job.dst = <char*>cnp.PyArray_DATA(out)
    job.dst_item = out_item
    plan(job, out)
    if work < KEEP_GIL:
        run(job, 1)
        return 0
    with nogil:
        run(job, threads_for(work))
    return 0


def _pair(int index, bint compares):
    cdef const lnn_binary_entry* entry = &lnn_compare_table[index] if compares else &lnn_binary_table[index]
    cdef lnn_binary f32 = entry.f32
    cdef lnn_binary f64 = entry.f64
    cdef int cost = entry.cost

    def kernel(cnp.ndarray a not None, cnp.ndarray b not None, cnp.ndarray out not None,
               double p0=0.0, double p1=0.0):
        cdef Job job
        cdef int a_step, b_step, type_num = cnp.PyArray_TYPE(a)
        cdef Py_ssize_t item = 4 if type_num == cnp.NPY_FLOAT32 else 8
        cdef Py_ssize_t n = cnp.PyArray_SIZE(out)
        job.pair = f32 if type_num == cnp.NPY_FLOAT32 else f64
        if type_num != cnp.NPY_FLOAT32 and type_num != cnp.NPY_FLOAT64:
            wrong_type(a)
        if cnp.PyArray_TYPE(b) != type_num:
            raise TypeError(f"elementwise kernel: operands must have one dtype; got {a.dtype} and {b.dtype}")
        check(a, out, cnp.NPY_BOOL if compares else type_num)
        check(b, out, cnp.PyArray_TYPE(out))
        # the plain cases of small arrays skip the planning
        if n * cost < KEEP_GIL and n <= BLOCK:
            a_step, b_step = PyArray_SAMESHAPE(a, out), PyArray_SAMESHAPE(b, out)
            if (a_step or cnp.PyArray_NDIM(a) == 0) and (b_step or cnp.PyArray_NDIM(b) == 0) and (a_step or b_step):
                job.pair(cnp.PyArray_DATA(a), cnp.PyArray_DATA(b), cnp.PyArray_DATA(out), n, a_step, b_step, p0, p1)
                return
        job.operands = 2
        job.p0 = p0
        job.p1 = p1
        operand(&job, 0, a, item)
        operand(&job, 1, b, item)
        launch(&job, out, 1 if compares else item, cost)

    return kernel


def where(cnp.ndarray condition not None, cnp.ndarray a not None, cnp.ndarray b not None, cnp.ndarray out not None):
    """out = a where condition, else b; the three broadcast to out's shape."""
    cdef Job job
    cdef int type_num = cnp.PyArray_TYPE(a)
    cdef Py_ssize_t item = 4 if type_num == cnp.NPY_FLOAT32 else 8
    if type_num != cnp.NPY_FLOAT32 and type_num != cnp.NPY_FLOAT64:
        wrong_type(a)
    if cnp.PyArray_TYPE(b) != type_num or cnp.PyArray_TYPE(condition) != cnp.NPY_BOOL:
        raise TypeError(f"where kernel: needs bool and two arrays of one dtype; got {condition.dtype}, {a.dtype}, {b.dtype}")
    check(a, out, type_num)
    check(b, out, type_num)
    check(condition, out, type_num)
    job.choose = lnn_where_loop_f32 if type_num == cnp.NPY_FLOAT32 else lnn_where_loop_f64
    job.operands = 3
    operand(&job, 0, condition, 1)
    operand(&job, 1, a, item)
    operand(&job, 2, b, item)
    launch(&job, out, item, 1)


# ---------------------------------------------------------------------------------------------- updates


cdef void update_block(lnn_update f, const char** src, char** dst, const double* numbers, int slots, Py_ssize_t item,
                       Py_ssize_t n, Py_ssize_t block) noexcept nogil:
    cdef const void* read[MAX_ARRAYS]
    cdef void* write[MAX_ARRAYS]
    cdef int k
    for k in range(slots + 2):
        read[k] = src[k] + block * BLOCK * item
    for k in range(slots + 1):
        write[k] = dst[k] + block * BLOCK * item
    f(read, write, numbers, min(BLOCK, n - block * BLOCK))


cdef void update_blocks(lnn_update f, const char** src, char** dst, const double* numbers, int slots, Py_ssize_t item,
                        Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t block, blocks = (n + BLOCK - 1) // BLOCK
    cdef int threads = threads_for(n * UPDATE_COST)
    if threads == 1:
        for block in range(blocks):
            update_block(f, src, dst, numbers, slots, item, n, block)
        return
    for block in prange(blocks, num_threads=threads, schedule="static"):
        update_block(f, src, dst, numbers, slots, item, n, block)


def _update(int index):
    cdef lnn_update f32 = lnn_update_table[index].f32
    cdef lnn_update f64 = lnn_update_table[index].f64
    cdef int slots = lnn_update_table[index].slots

    def kernel(tuple arrays not None, tuple outs not None, tuple numbers not None):
        cdef const char* src[MAX_ARRAYS]
        cdef char* dst[MAX_ARRAYS]
        cdef double c[MAX_NUMBERS]
        cdef cnp.ndarray array
        cdef int k, kind
        cdef Py_ssize_t n
        if len(arrays) != slots + 2 or len(outs) != slots + 1 or len(numbers) > MAX_NUMBERS:
            raise ValueError(f"update kernel: {slots + 2} arrays and {slots + 1} outputs are needed; "
                             f"got {len(arrays)} and {len(outs)}")
        array = arrays[0]
        n, kind = cnp.PyArray_SIZE(array), cnp.PyArray_TYPE(array)
        single(array)
        for k in range(slots + 2):
            array = arrays[k]
            need(array, kind, n, False)
            src[k] = <const char*>cnp.PyArray_DATA(array)
        for k in range(slots + 1):
            array = outs[k]
            need(array, kind, n, True)
            dst[k] = <char*>cnp.PyArray_DATA(array)
        for k in range(MAX_NUMBERS):
            c[k] = numbers[k] if k < len(numbers) else 0.0
        if n * UPDATE_COST < KEEP_GIL:
            update_blocks(f32 if kind == cnp.NPY_FLOAT32 else f64, src, dst, c, slots,
                          4 if kind == cnp.NPY_FLOAT32 else 8, n)
            return
        with nogil:
            update_blocks(f32 if kind == cnp.NPY_FLOAT32 else f64, src, dst, c, slots,
                          4 if kind == cnp.NPY_FLOAT32 else 8, n)

    return kernel


# ----------------------------------------------------------------------------------------------- chains


cdef int chain_pair(ChainOp* op, const lnn_binary_entry* entry, bytes name, bint wide) noexcept:
    """The loop called `name` in a table of binary ones; returns its cost, 0 if there is none."""
    while entry.name != NULL:
        if entry.name == name:
            op.arity, op.binary = 2, entry.f64 if wide else entry.f32
            return entry.cost
        entry += 1
    return 0


cdef int chain_op(ChainOp* op, str name, bint wide) except -1:
    """The loop called `name`; returns its cost."""
    cdef const lnn_unary_entry* entry = lnn_unary_table
    cdef bytes wanted = name.encode("ascii")
    cdef int cost
    if name == "where":
        op.arity, op.where = 3, lnn_where_loop_f64 if wide else lnn_where_loop_f32
        return 1
    while entry.name != NULL:
        if entry.name == wanted:
            op.arity, op.unary = 1, entry.f64 if wide else entry.f32
            return entry.cost
        entry += 1
    cost = chain_pair(op, lnn_binary_table, wanted, wide) or chain_pair(op, lnn_compare_table, wanted, wide)
    if cost == 0:
        raise ValueError(f"chain: an elementwise kernel; got {name!r}; see the tables of elementwise.h")
    return cost


cdef int run_chain(const void* plan, char** arrays) noexcept nogil:
    chain_run(<const ChainPlan*>plan, arrays)
    return 0


def chain_step(str name, Py_ssize_t cells, list inputs, list ops, list items, bint wide):
    """Elementwise operations on `cells` cells as one step.

    Parameters
    ----------
    inputs : (inner, count) per input, see _chain.pxd; (0, 0) where it has the output's shape
    ops : (name, places read, place written, p0, p1) per operation, in order; the last one writes CHAIN_OUT
    items : bytes of a cell of every place
    wide : float64 (else float32)
    """
    cdef ChainPlan p
    cdef int i, k
    if len(inputs) > CHAIN_INPUTS or len(ops) > CHAIN_OPS or len(items) != CHAIN_OUT + 1:
        raise ValueError(f"chain: at most {CHAIN_INPUTS} inputs and {CHAIN_OPS} operations; got {len(inputs)} and {len(ops)}")
    p.inputs, p.ops, p.cells, p.cost, p.segment = len(inputs), len(ops), cells, 0, max(cells, <Py_ssize_t>1)
    for i in range(CHAIN_OUT + 1):
        p.item[i] = items[i]
    sizes = []
    for i in range(p.inputs):
        p.inner[i], p.count[i] = inputs[i]
        sizes.append((cells if p.inner[i] == 0 else p.count[i]) * p.item[i])
        if p.inner[i] and p.count[i] > 1:
            p.segment = min(p.segment, p.count[i] if p.inner[i] == 1 else p.inner[i])
    sizes.append(cells * p.item[<int>CHAIN_OUT])
    for i in range(p.ops):
        op, sources, p.op[i].dst, p.op[i].p0, p.op[i].p1 = ops[i]
        p.cost += chain_op(&p.op[i], op, wide)
        if len(sources) != p.op[i].arity or not CHAIN_INPUTS <= p.op[i].dst <= CHAIN_OUT:
            raise ValueError(f"chain: {op} takes {p.op[i].arity} operands and writes a temporary; got {sources}")
        for k in range(p.op[i].arity):
            p.op[i].src[k] = sources[k]
            if not 0 <= p.op[i].src[k] < CHAIN_OUT or CHAIN_INPUTS > p.op[i].src[k] >= p.inputs:
                raise ValueError(f"chain: places are inputs and temporaries; got {sources}")
    return make_step(name, run_chain, &p, sizeof(p), tuple(sizes))


CHAIN_LIMITS = (CHAIN_INPUTS, CHAIN_TEMPS, CHAIN_OPS)


def _table():
    unary, binary, compare, update = {}, {}, {}, {}
    cdef int i = 0
    while lnn_unary_table[i].name != NULL:
        unary[lnn_unary_table[i].name.decode("ascii")] = _unary(i)
        i += 1
    i = 0
    while lnn_binary_table[i].name != NULL:
        binary[lnn_binary_table[i].name.decode("ascii")] = _pair(i, False)
        i += 1
    i = 0
    while lnn_compare_table[i].name != NULL:
        compare[lnn_compare_table[i].name.decode("ascii")] = _pair(i, True)
        i += 1
    i = 0
    while lnn_update_table[i].name != NULL:
        update[lnn_update_table[i].name.decode("ascii")] = _update(i)
        i += 1
    return unary, binary, compare, update


unary, binary, compare, update = _table()
