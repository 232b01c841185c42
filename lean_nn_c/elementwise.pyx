"""Elementwise kernels: as steps (chains, broadcasts, updates), and by name, ``unary`` and ``binary``, for the engine's lane.

The arithmetic is in ``elementwise_scalar.h``, one definition per operator. Here: look-up by dtype,
broadcasting, threads. A kernel is called for arrays of a few elements millions of times, hence NumPy's
C interface and not memoryviews, and no GIL release for small work.

Large arrays are cut into fixed blocks, so an element is computed by the same instructions whatever the
number of threads.
"""

cimport numpy as cnp
from cython.parallel cimport prange

from lean_nn_c._both cimport BothPlan, both_run, lnn_both
from lean_nn_c._broadcast cimport BLOCK, MAX_AXES, Job, plan_job, run_job
from lean_nn_c._chain cimport (
    CHAIN, CHAIN_FEW, CHAIN_INPUTS, CHAIN_OPS, CHAIN_OUT, CHAIN_OUTPUTS, CHAIN_PLACES, CHAIN_TASK, CHAIN_TEMPS, ChainOp,
    ChainPlan, ChainView, chain_ahead, chain_move, chain_open, chain_run, lnn_binary, lnn_chain_walk, lnn_unary, lnn_where,
)
from lean_nn_c._lines cimport lnn_row_sum_f32, lnn_row_sum_f64
from lean_nn_c._update cimport ADAGRAD, ADAM, MAX_NUMBERS, MOMENTUM, PLAIN, RMSPROP, UpdatePlan, lnn_update, number, numbers_of, update_block
from lean_nn_c.step cimport STEP_BAD_COUNT, STEP_DONE, STEP_NO_MEMORY, give_scratch, make_step, take_scratch
from lean_nn_c.threads cimport threads_for

from lean_nn_c.build_info import foresees

cnp.import_array()

cdef bint FORESEES = foresees()

cdef extern from "elementwise.h" nogil:
    ctypedef struct lnn_unary_entry:
        const char* name
        int cost
        lnn_unary f32, f64
    ctypedef struct lnn_binary_entry:
        const char* name
        int cost
        lnn_binary f32, f64
    ctypedef struct lnn_both_entry:
        const char* name
        int cost, inputs
        lnn_both f32, f64
    ctypedef struct lnn_update_entry:
        const char* name
        int slots
        lnn_update f32, f64
    ctypedef struct lnn_triple_entry:
        const char* name
        int cost
        lnn_where f32, f64
    const lnn_both_entry* lnn_both_table
    const lnn_triple_entry* lnn_triple_table
    const lnn_update_entry* lnn_update_table
    const lnn_unary_entry* lnn_unary_table
    const lnn_binary_entry* lnn_binary_table
    const lnn_binary_entry* lnn_compare_table

cdef extern from "numpy/arrayobject.h":
    bint PyArray_IS_C_CONTIGUOUS(cnp.ndarray)
    bint PyArray_ISWRITEABLE(cnp.ndarray)
    bint PyArray_SAMESHAPE(cnp.ndarray, cnp.ndarray)

cdef enum:
    KEEP_GIL = 8192     # work below which giving the GIL up costs more than it gives
    UPDATE_COST = 8     # of an update's element, in additions
    TOTAL_LINE = 512    # cells of a chain that are summed at a time
    TOTAL_LINES = 16    # CHAIN_TASK / TOTAL_LINE

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


cdef void pair_blocks(lnn_binary f, const char* a, const char* b, char* y, Py_ssize_t item, Py_ssize_t n, int a_step, int b_step,
                      int threads, double p0, double p1) noexcept nogil:
    cdef Py_ssize_t block, at, blocks = (n + BLOCK - 1) // BLOCK
    if threads == 1:
        for block in range(blocks):
            at = block * BLOCK * item
            f(a + at * a_step, b + at * b_step, y + at, min(BLOCK, n - block * BLOCK), a_step, b_step, p0, p1)
        return
    for block in prange(blocks, num_threads=threads, schedule="static"):
        f(a + block * BLOCK * item * a_step, b + block * BLOCK * item * b_step, y + block * BLOCK * item,
          min(BLOCK, n - block * BLOCK), a_step, b_step, p0, p1)


def _binary(int index):
    cdef lnn_binary f32 = lnn_binary_table[index].f32
    cdef lnn_binary f64 = lnn_binary_table[index].f64
    cdef int cost = lnn_binary_table[index].cost

    def kernel(cnp.ndarray a not None, cnp.ndarray b not None, cnp.ndarray out not None,
               double p0=0.0, double p1=0.0):
        cdef int a_step, b_step, type_num = cnp.PyArray_TYPE(a)
        cdef Py_ssize_t item = 4 if type_num == cnp.NPY_FLOAT32 else 8
        cdef Py_ssize_t n = cnp.PyArray_SIZE(out)
        cdef const char* one = <const char*>cnp.PyArray_DATA(a)
        cdef const char* other = <const char*>cnp.PyArray_DATA(b)
        cdef char* dst = <char*>cnp.PyArray_DATA(out)
        cdef lnn_binary f = f32 if type_num == cnp.NPY_FLOAT32 else f64
        if type_num != cnp.NPY_FLOAT32 and type_num != cnp.NPY_FLOAT64:
            wrong_type(a)
        if cnp.PyArray_TYPE(b) != type_num:
            raise TypeError(f"elementwise kernel: operands must have one dtype; got {a.dtype} and {b.dtype}")
        check(a, out, type_num)
        check(b, out, type_num)
        a_step, b_step = PyArray_SAMESHAPE(a, out), PyArray_SAMESHAPE(b, out)
        if not ((a_step or cnp.PyArray_NDIM(a) == 0) and (b_step or cnp.PyArray_NDIM(b) == 0)):
            raise ValueError(f"elementwise kernel: operands have out's shape or none; got {(<object>a).shape} and "
                             f"{(<object>b).shape} for {(<object>out).shape}; use broadcast_step")
        if n * cost < KEEP_GIL and n <= BLOCK:
            f(one, other, dst, n, a_step, b_step, p0, p1)
            return
        with nogil:
            pair_blocks(f, one, other, dst, item, n, a_step, b_step, threads_for(n * cost), p0, p1)

    return kernel


# ---------------------------------------------------------------------------------------------- updates


cdef int run_update(const void* plan, char** at) noexcept nogil:
    """Parameter, gradient, slots, rate, count ↦ parameter, slots."""
    cdef const UpdatePlan* p = <const UpdatePlan*>plan
    cdef int rate = p.slots + 2
    cdef double count = number(at[rate + 1], p.wide_count)
    cdef double c[MAX_NUMBERS]
    cdef Py_ssize_t block, blocks = (p.n + BLOCK - 1) // BLOCK
    cdef int threads = threads_for(p.n * UPDATE_COST)
    if not count >= 1:
        return STEP_BAD_COUNT
    numbers_of(p, number(at[rate], p.wide_rate), count, c)
    if threads == 1:
        for block in range(blocks):
            update_block(p.f, <const char**>at, at + rate + 2, c, p.slots, p.item, p.n, block)
        return STEP_DONE
    for block in prange(blocks, num_threads=threads, schedule="static"):
        update_block(p.f, <const char**>at, at + rate + 2, c, p.slots, p.item, p.n, block)
    return STEP_DONE


FAMILIES = {"plain": PLAIN, "momentum": MOMENTUM, "adam": ADAM, "rmsprop": RMSPROP, "adagrad": ADAGRAD}


cdef int read_given(UpdatePlan* p, str family, tuple given) except -1:
    cdef int i
    if len(given) > MAX_NUMBERS:
        raise ValueError(f"update: at most {MAX_NUMBERS} numbers; got {given}")
    p.family = FAMILIES[family]
    for i in range(MAX_NUMBERS):
        p.given[i] = given[i] if i < len(given) else 0.0
    return 0


def update_numbers(str family, tuple given, double rate, double count):
    """The numbers of a rule in the order of elementwise_update.h, those that it does not have 0."""
    cdef UpdatePlan p
    cdef double c[MAX_NUMBERS]
    cdef int i
    read_given(&p, family, given)
    for i in range(MAX_NUMBERS):
        c[i] = 0.0
    numbers_of(&p, rate, count, c)
    return tuple([c[i] for i in range(MAX_NUMBERS)])


def update_step(str rule, bint wide, Py_ssize_t n, bint wide_rate, bint wide_count, str family, tuple given):
    """The update called `rule` of elementwise_update.h on n elements; `given` are the numbers of its family, decay first."""
    cdef UpdatePlan p
    cdef const lnn_update_entry* entry = lnn_update_table
    cdef bytes wanted = rule.encode("ascii")
    while entry.name != NULL and entry.name != wanted:
        entry += 1
    if entry.name == NULL or not 0 <= n < 1e18:
        raise ValueError(f"update: a rule of elementwise_update.h on an array; got {rule!r} on {n} elements")
    read_given(&p, family, given)
    p.f, p.slots = entry.f64 if wide else entry.f32, entry.slots
    p.wide_rate, p.wide_count, p.item, p.n = wide_rate, wide_count, 8 if wide else 4, n
    slots = p.slots

    def blame(*arrays):
        return ValueError(f"{rule}_update: steps are counted from 1; got {float(arrays[slots + 3])}; count before updating")

    numbers = (8 if wide_rate else 4, 8 if wide_count else 4)
    sizes = (p.item * n,) * (p.slots + 2) + numbers + (p.item * n,) * (p.slots + 1)
    return make_step(rule + "_update", run_update, &p, sizeof(p), sizes, slots + 1, None, False, blame)


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
    cdef const lnn_triple_entry* three = lnn_triple_table
    cdef bytes wanted = name.encode("ascii")
    cdef int cost
    while three.name != NULL:
        if three.name == wanted:
            op.arity, op.where = 3, three.f64 if wide else three.f32
            return three.cost
        three += 1
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


cdef tuple read_chain(ChainPlan* p, Py_ssize_t cells, list inputs, list ops, list items, bint wide, int outputs, bint summed=False):
    """Fill in the plan; returns the bytes of inputs and outputs, which stay in the cache where they are only summed."""
    cdef int i, k, cost, readable = CHAIN_OUT     # places below are inputs and temporaries, and outputs that have been written
    if len(inputs) > CHAIN_INPUTS or len(ops) > CHAIN_OPS or len(items) != CHAIN_PLACES or not 1 <= outputs <= CHAIN_OUTPUTS:
        raise ValueError(f"chain: at most {CHAIN_INPUTS} inputs and {CHAIN_OPS} operations; got {len(inputs)} and {len(ops)}")
    p.inputs, p.ops, p.cells, p.cost, p.segment = len(inputs), len(ops), cells, 0, max(cells, <Py_ssize_t>1)
    p.outputs, p.heaviest = outputs, 0
    for i in range(CHAIN_PLACES):
        p.item[i] = items[i]
    sizes = []
    for i in range(p.inputs):
        p.inner[i], p.count[i] = inputs[i]
        sizes.append((cells if p.inner[i] == 0 else p.count[i]) * p.item[i])
        if p.inner[i] and p.count[i] > 1:
            p.segment = min(p.segment, p.count[i] if p.inner[i] == 1 else p.inner[i])
    for i in range(outputs):
        sizes.append(cells * p.item[CHAIN_OUT + i])
    for i in range(p.ops):
        op, sources, p.op[i].dst, p.op[i].p0, p.op[i].p1 = ops[i]
        cost = chain_op(&p.op[i], op, wide)
        p.cost, p.heaviest = p.cost + cost, max(p.heaviest, <Py_ssize_t>cost)
        if len(sources) != p.op[i].arity or not CHAIN_INPUTS <= p.op[i].dst < CHAIN_OUT + outputs:
            raise ValueError(f"chain: {op} takes {p.op[i].arity} operands and writes a temporary; got {sources}")
        for k in range(p.op[i].arity):
            p.op[i].src[k] = sources[k]
            if not 0 <= p.op[i].src[k] < readable or CHAIN_INPUTS > p.op[i].src[k] >= p.inputs:
                raise ValueError(f"chain: places are inputs and temporaries; got {sources}")
        if p.op[i].dst == readable:
            readable += 1
    chain_ahead(p, summed, FORESEES)
    return tuple(sizes)


def chain_step(str name, Py_ssize_t cells, list inputs, list ops, list items, bint wide, int outputs=1):
    """Elementwise operations on `cells` cells as one step.

    Parameters
    ----------
    inputs : (inner, count) per input, see _chain.pxd; (0, 0) where it has the output's shape
    ops : (name, places read, place written, p0, p1) per operation, in order; outputs begin at CHAIN_OUT
    items : bytes of a cell of every place
    wide : float64 (else float32)
    """
    cdef ChainPlan p
    return make_step(name, run_chain, &p, sizeof(p), read_chain(&p, cells, inputs, ops, items, wide, outputs), outputs)


# ------------------------------------------------------------------------------- value and tangent at once


cdef int run_both(const void* plan, char** at) noexcept nogil:
    both_run(<const BothPlan*>plan, at)
    return STEP_DONE


def both_step(str name, Py_ssize_t cells, tuple full, bint wide):
    """`name` of arguments and what becomes of their tangents, in one loop; None where there is none.

    `full` says of the arguments, then of the tangents, whether each has a number for every cell, or one for all.
    """
    cdef BothPlan p
    cdef const lnn_both_entry* entry = lnn_both_table
    cdef bytes wanted = name.encode("ascii")
    cdef int k
    while entry.name != NULL and entry.name != wanted:
        entry += 1
    if entry.name == NULL or len(full) != entry.inputs or not 0 <= cells < 1e18:
        return None
    p.f, p.inputs, p.item, p.cells, p.cost = entry.f64 if wide else entry.f32, entry.inputs, 8 if wide else 4, cells, entry.cost
    p.fetches = sum(full) + 2 > CHAIN_FEW or not FORESEES
    for k in range(p.inputs):
        p.step[k] = p.item if full[k] else 0
    return make_step(name, run_both, &p, sizeof(p), (*[p.item * (cells if whole else 1) for whole in full], *[cells * p.item] * 2), 2)


# ------------------------------------------------------------------------------------ the sums of a chain
#
# Its outputs are summed and not written: TOTAL_LINE cells at a time, then the lines of a task, then the tasks, each in the
# order of lines.h. Inputs have the outputs' shape.


cdef struct TotalPlan:
    double count[CHAIN_OUTPUTS]     # what each sum is divided by
    bint wide
    ChainPlan chain


cdef void put_sum(bint wide, const char* x, Py_ssize_t n, double count, char* to, Py_ssize_t cell) noexcept nogil:
    if wide:
        (<double*>to)[cell] = lnn_row_sum_f64(<const double*>x, n) / count
    else:
        (<float*>to)[cell] = <float>(lnn_row_sum_f32(<const float*>x, n) / count)


cdef void total_task(const TotalPlan* p, char** arrays, Py_ssize_t task, char** sums) noexcept nogil:
    cdef const ChainPlan* c = &p.chain
    cdef char temps[CHAIN_TEMPS * CHAIN * 8]
    cdef char line[CHAIN_OUTPUTS][TOTAL_LINE * 8]
    cdef char lines[CHAIN_OUTPUTS][TOTAL_LINES * 8]
    cdef ChainView view
    cdef Py_ssize_t first = task * CHAIN_TASK, stop = min(c.cells, first + CHAIN_TASK), n
    cdef int k, found = 0
    chain_open(c, arrays, temps, TOTAL_LINE, first, &view)
    while first < stop:
        n = min(stop - first, <Py_ssize_t>TOTAL_LINE)
        for k in range(c.outputs):
            view.at[CHAIN_OUT + k] = line[k]
        lnn_chain_walk(c.op, c.ops, &view, n, TOTAL_LINE, False)
        chain_move(c, &view, n)
        for k in range(c.outputs):
            put_sum(p.wide, line[k], n, 1, lines[k], found)
        first, found = first + n, found + 1
    for k in range(c.outputs):
        put_sum(p.wide, lines[k], found, 1, sums[k], task)


cdef int run_total(const void* plan, char** arrays) noexcept nogil:
    cdef const TotalPlan* p = <const TotalPlan*>plan
    cdef Py_ssize_t i, tasks = (p.chain.cells + CHAIN_TASK - 1) // CHAIN_TASK
    cdef int k, threads = threads_for(p.chain.cells * p.chain.cost)
    cdef char* sums[CHAIN_OUTPUTS]
    sums[0] = <char*>take_scratch(max(tasks, <Py_ssize_t>1) * 8 * CHAIN_OUTPUTS)
    if sums[0] == NULL:
        return STEP_NO_MEMORY
    sums[1] = sums[0] + tasks * 8
    if threads == 1:
        for i in range(tasks):
            total_task(p, arrays, i, sums)
    else:
        for i in prange(tasks, num_threads=threads, schedule="static"):
            total_task(p, arrays, i, sums)
    for k in range(p.chain.outputs):
        put_sum(p.wide, sums[k], tasks, p.count[k], arrays[p.chain.inputs + k], 0)
    give_scratch(sums[0])
    return STEP_DONE


def total_step(str name, Py_ssize_t cells, int inputs, list ops, list items, bint wide, tuple counts):
    """The sums of what a chain of `inputs` inputs would write, divided by `counts`; the rest as in `chain_step`."""
    cdef TotalPlan p
    cdef int k, outputs = len(counts)
    sizes = read_chain(&p.chain, cells, [(0, 0)] * inputs, ops, items, wide, outputs, True)
    for k in range(outputs):
        p.count[k] = counts[k]
    p.wide = wide
    return make_step(name, run_total, &p, sizeof(p), (*sizes[:-outputs], *[8 if wide else 4] * outputs), outputs, None, True)


# ------------------------------------------------------------------------------------------- broadcasts


cdef int run_broadcast(const void* plan, char** at) noexcept nogil:
    cdef Job job = (<const Job*>plan)[0]
    cdef int k
    for k in range(job.operands):
        job.src[k] = at[k]
    job.dst = at[job.operands]
    run_job(&job, threads_for(job.work))
    return STEP_DONE


def broadcast_step(str name, tuple shapes, tuple out, tuple items, double p0, double p1, bint wide):
    """`name` on two operands or three, of `shapes`, broadcast to `out`; `items` are bytes of a cell, the output's last."""
    cdef Job job
    cdef ChainOp op
    cdef cnp.npy_intp sides[4][MAX_AXES]
    cdef int k, axis
    cdef double cells
    cdef int cost = chain_op(&op, name, wide)
    if op.arity < 2 or len(shapes) != op.arity or len(items) != op.arity + 1 or max(map(len, (*shapes, out))) > MAX_AXES:
        raise ValueError(f"broadcast: {name} takes {op.arity} operands of at most {MAX_AXES} axes; got {shapes}")
    sizes = []
    for k, shape in enumerate((*shapes, out)):
        cells = items[k]
        for axis in range(len(shape)):
            sides[k][axis] = shape[axis]
            cells *= sides[k][axis]
        sizes.append(<Py_ssize_t>cells)
        if min(shape, default=0) < 0 or cells > 1e18:
            raise ValueError(f"broadcast: sizes are not negative and fit into memory; got {shape}")
    job.pair, job.choose, job.operands, job.p0, job.p1 = op.binary, op.where, op.arity, p0, p1
    job.dst_item = items[op.arity]
    job.work = sizes[op.arity] // items[op.arity] * cost
    for k in range(job.operands):
        job.src_item[k], job.shape[k], job.ndim[k] = items[k], sides[k], len(shapes[k])
    plan_job(&job, len(out), sides[job.operands])
    return make_step(name, run_broadcast, &job, sizeof(job), tuple(sizes))


CHAIN_LIMITS = (CHAIN_INPUTS, CHAIN_TEMPS, CHAIN_OPS)


def _table():
    unary, binary, compare, triple, update = {}, {}, [], [], {}
    cdef int i = 0
    while lnn_unary_table[i].name != NULL:
        unary[lnn_unary_table[i].name.decode("ascii")] = _unary(i)
        i += 1
    i = 0
    while lnn_binary_table[i].name != NULL:
        binary[lnn_binary_table[i].name.decode("ascii")] = _binary(i)
        i += 1
    i = 0
    while lnn_compare_table[i].name != NULL:
        compare.append(lnn_compare_table[i].name.decode("ascii"))
        i += 1
    i = 0
    while lnn_triple_table[i].name != NULL:
        triple.append(lnn_triple_table[i].name.decode("ascii"))
        i += 1
    i = 0
    while lnn_update_table[i].name != NULL:
        update[lnn_update_table[i].name.decode("ascii")] = lnn_update_table[i].slots
        i += 1
    return unary, binary, tuple(compare), tuple(triple), update


unary, binary, compare, triple, update = _table()
