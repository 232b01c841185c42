# Several elementwise operations as one loop. The arrays are cut into segments of at most CHAIN cells; all operations run on one
# segment, whose intermediate values stay in the first-level cache, before the next is looked at. Each operation is
# the same compiled loop that runs alone, so the bits are the same.
#
# An input has the output's shape ("full"), or repeats: cell i of the output reads cell (i / inner) % count of it. inner = 1
# is a row vector, count = 1 a single number, a number per channel has inner = H·W. A segment never crosses a place
# where such an input changes its value (inner > 1) or starts again (inner = 1), so within it every input has step 0 or 1.
# Where such places are less than CHAIN_NEAR apart, the calls would cost more than the arithmetic: the inputs that repeat are
# then spelt out, a line at a time, and a segment crosses as many places as it likes.

from cython.parallel cimport prange

from lean_nn_c.threads cimport threads_for

cdef extern from "elementwise.h" nogil:
    ctypedef void (*lnn_unary)(const void*, void*, Py_ssize_t, double, double) noexcept nogil
    ctypedef void (*lnn_binary)(const void*, const void*, void*, Py_ssize_t, int, int, double, double) noexcept nogil
    ctypedef void (*lnn_where)(const void*, const void*, const void*, void*, Py_ssize_t, int, int, int) noexcept nogil
    enum:
        SPELL_OVER "LNN_SPELL_OVER"
    void lnn_spell(const char*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, char*)

cdef enum:
    CHAIN = 1024            # cells of a segment at most
    CHAIN_NEAR = 128        # cells of a segment at least, where inputs are not spelt out
    CHAIN_LINE = 256        # cells of a segment where they are, at least; more where few of them are
    CHAIN_TASK = 8192       # cells of a task: fixed, so that the split does not depend on the number of threads
    CHAIN_INPUTS = 16
    CHAIN_TEMPS = 6
    CHAIN_OPS = 32

# A place is an input (0 to CHAIN_INPUTS - 1), a temporary (from CHAIN_INPUTS on) or an output (from CHAIN_OUT on). What one
# operation wrote into an output the next ones may read: a function's tangent is often computed from its value.
cdef enum:
    CHAIN_OUT = 22          # CHAIN_INPUTS + CHAIN_TEMPS
    CHAIN_OUTPUTS = 2
    CHAIN_PLACES = 24       # CHAIN_OUT + CHAIN_OUTPUTS

cdef struct ChainOp:
    int arity
    lnn_unary unary
    lnn_binary binary
    lnn_where where
    double p0
    double p1
    int src[3]
    int dst

cdef struct ChainPlan:
    int inputs
    int outputs
    int ops
    Py_ssize_t cells
    Py_ssize_t cost                     # of one cell, in additions
    Py_ssize_t segment                  # cells between two places where an input changes or starts again
    Py_ssize_t item[CHAIN_PLACES]       # bytes of a cell of each place
    Py_ssize_t inner[CHAIN_INPUTS]      # 0: full
    Py_ssize_t count[CHAIN_INPUTS]
    ChainOp op[CHAIN_OPS]


# Where a task is: the cell of each input that repeats, and the cells until that changes or starts again.
cdef struct ChainPlace:
    Py_ssize_t cell[CHAIN_INPUTS]
    Py_ssize_t left[CHAIN_INPUTS]
    char* line[CHAIN_INPUTS]            # where it is spelt out


cdef inline Py_ssize_t chain_begin(const ChainPlan* p, char** arrays, Py_ssize_t first, Py_ssize_t stop, ChainPlace* now,
                                   char* lines) noexcept nogil:
    """The place of cell `first`; rows that repeat are spelt out for as long as a segment is. Returns how long that is at most."""
    cdef bint near = p.segment < CHAIN_NEAR
    cdef Py_ssize_t n = CHAIN if near or p.ops > 1 else p.cells     # one operation leaves nothing in the cache for another
    cdef int k, repeats = 0
    for k in range(p.inputs):
        repeats += p.inner[k] != 0 and p.count[k] > 1
    if near and repeats:
        n = min(n, CHAIN_INPUTS * CHAIN_LINE // repeats)
    for k in range(p.inputs):
        if p.inner[k] == 0 or p.count[k] == 1:
            continue
        now.cell[k] = first // p.inner[k] % p.count[k]
        now.left[k] = p.count[k] - now.cell[k] if p.inner[k] == 1 else p.inner[k] - first % p.inner[k]
        now.line[k] = lines
        if near:
            lines += (n + CHAIN_NEAR + SPELL_OVER) * 8
        if near and p.inner[k] == 1:
            lnn_spell(arrays[k], p.item[k], 1, p.count[k], 0, min(n, stop - first) + p.count[k], now.line[k])
    return n


cdef inline void chain_step_on(const ChainPlan* p, ChainPlace* now, Py_ssize_t n) noexcept nogil:
    """`n` cells further; where inputs are not spelt out these lie within one segment."""
    cdef Py_ssize_t over
    cdef int k
    for k in range(p.inputs):
        if p.inner[k] == 0 or p.count[k] == 1:
            continue
        if p.inner[k] == 1:
            now.cell[k] = (now.cell[k] + n) % p.count[k] if n >= now.left[k] else now.cell[k] + n
            now.left[k] = p.count[k] - now.cell[k]
            continue
        over = n - now.left[k]
        now.left[k] -= n
        if over >= 0:
            now.cell[k] = (now.cell[k] + 1 + over // p.inner[k]) % p.count[k]
            now.left[k] = p.inner[k] - over % p.inner[k]


cdef inline void chain_segment(const ChainPlan* p, char** arrays, char* temps, const ChainPlace* now, Py_ssize_t first,
                               Py_ssize_t n) noexcept nogil:
    """Cells first..first + n, which lie within one segment."""
    cdef char* at[CHAIN_PLACES]
    cdef int step[CHAIN_PLACES]
    cdef const ChainOp* op
    cdef int k
    for k in range(p.inputs):
        step[k] = 1
        if p.inner[k] == 0:
            at[k] = arrays[k] + first * p.item[k]
        elif p.count[k] == 1:
            step[k], at[k] = 0, arrays[k]
        elif p.segment >= CHAIN_NEAR:
            step[k], at[k] = p.inner[k] == 1, arrays[k] + now.cell[k] * p.item[k]
        elif p.inner[k] == 1:
            at[k] = now.line[k] + now.cell[k] * p.item[k]
        else:
            at[k] = now.line[k]
            lnn_spell(arrays[k], p.item[k], p.inner[k], p.count[k], first, n, at[k])
    for k in range(CHAIN_TEMPS):
        step[CHAIN_INPUTS + k] = 1
        at[CHAIN_INPUTS + k] = temps + k * CHAIN * 8
    for k in range(p.outputs):
        step[CHAIN_OUT + k] = 1
        at[CHAIN_OUT + k] = arrays[p.inputs + k] + first * p.item[CHAIN_OUT + k]
    for k in range(p.ops):
        op = &p.op[k]
        if op.arity == 1:
            op.unary(at[op.src[0]], at[op.dst], n, op.p0, op.p1)
        elif op.arity == 2:
            op.binary(at[op.src[0]], at[op.src[1]], at[op.dst], n, step[op.src[0]], step[op.src[1]], op.p0, op.p1)
        else:
            op.where(at[op.src[0]], at[op.src[1]], at[op.src[2]], at[op.dst], n, step[op.src[0]],
                     step[op.src[1]], step[op.src[2]])


cdef inline void chain_task(const ChainPlan* p, char** arrays, Py_ssize_t first, Py_ssize_t stop) noexcept nogil:
    cdef char temps[CHAIN_TEMPS * CHAIN * 8]
    cdef char lines[CHAIN_INPUTS * (CHAIN_LINE + CHAIN_NEAR + SPELL_OVER) * 8]
    cdef ChainPlace now
    cdef Py_ssize_t n, most = chain_begin(p, arrays, first, stop, &now, lines)
    cdef int k
    while first < stop:
        n = min(stop - first, most)
        if p.segment >= CHAIN_NEAR:
            for k in range(p.inputs):
                if p.inner[k] and p.count[k] > 1:
                    n = min(n, now.left[k])
        chain_segment(p, arrays, temps, &now, first, n)
        chain_step_on(p, &now, n)
        first += n


cdef inline void chain_run(const ChainPlan* p, char** arrays) noexcept nogil:
    cdef Py_ssize_t i, tasks = (p.cells + CHAIN_TASK - 1) // CHAIN_TASK
    cdef int threads = threads_for(p.cells * p.cost)
    if threads == 1 or tasks == 1:
        chain_task(p, arrays, 0, p.cells)
        return
    for i in prange(tasks, num_threads=threads, schedule="static"):
        chain_task(p, arrays, i * CHAIN_TASK, min(p.cells, (i + 1) * CHAIN_TASK))
