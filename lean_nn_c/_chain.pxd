# Several elementwise operations as one loop. The arrays are cut into segments of at most CHAIN cells; all operations run on one
# segment, whose intermediate values stay in the first-level cache, before the next is looked at. Each operation is
# the same compiled loop that runs alone, so the bits are the same.
#
# An input has the output's shape ("full"), or repeats: cell i of the output reads cell (i / inner) % count of it. inner = 1
# is a row vector, count = 1 a single number, a number per channel has inner = H·W. A segment never crosses a place
# where such an input changes its value (inner > 1) or starts again (inner = 1), so within it every input has step 0 or 1.
# Where such places are less than CHAIN_NEAR apart, the calls would cost more than the arithmetic: the inputs that repeat are
# then spelt out, a line at a time, and a segment crosses as many places as it likes.
#
# Arrays that no cache holds arrive late: each operation reads and writes other arrays than the one before it, and the machine, which
# foresees what is read in order, must find the order again in every segment. So each operation first asks for what the
# next one is the first to see. Segments are short then, as only so many requests may be under way: value and tangent of relu
# take 0.9 of two relus with 768 bytes at a time, 1.0 with 512, and 1.1 to 1.25 where nothing is fetched; a product's,
# which have six arrays, 0.8, and 1.3 with 1536. Each thread has requests of its own under way: of 32 MB two threads get theirs
# in time, and short segments would cost a fifth. And four arrays are foreseen where more is computed than relu does: value and
# tangent of hardswish take 0.8 of two where nothing is fetched, and 1.1 where it is. So are arrays that are only read: value
# and tangents of a loss of two arrays take 0.7 of three losses, and 0.95 where they are fetched. All this was measured on Zen 3 and
# Zen 4; Zen 5 foresees any four arrays (relu 0.8 of two where nothing is fetched, 1.0 where it is), and six no better than these.
#
# Segments are shorter where nothing is fetched and an operation is heavy: exp's take 0.9 of the time with 256 cells at a time. Of
# light ones they are not: 1/x, at least a number and hardswish take 1.1 of it.
#
# Temporaries lie side by side, as long as a segment: 8 kB apart, value and tangents of a loss of two arrays took 8 % longer (by
# trial: that they fell on the same lines of the first-level cache is a guess).

from cython.parallel cimport prange

from lean_nn_c.threads cimport threads_for

cdef extern from "elementwise.h" nogil:
    ctypedef void (*lnn_unary)(const void*, void*, Py_ssize_t, double, double) noexcept nogil
    ctypedef void (*lnn_binary)(const void*, const void*, void*, Py_ssize_t, int, int, double, double) noexcept nogil
    ctypedef void (*lnn_where)(const void*, const void*, const void*, void*, Py_ssize_t, int, int, int) noexcept nogil
    enum:
        SPELL_OVER "LNN_SPELL_OVER"
    enum:
        CHAIN_PLACES "LNN_PLACES"
        CHAIN "LNN_TURN"            # cells of a segment at most
        CHAIN_FETCH "LNN_BURST"      # bytes of an array that are fetched at a time
    ctypedef struct ChainOp "lnn_chain_op":
        int arity
        lnn_unary unary
        lnn_binary binary
        lnn_where where
        double p0
        double p1
        int src[3]
        int dst
        int fetches
        int fetch[4]
    ctypedef struct ChainView "lnn_chain_view":
        char* at[CHAIN_PLACES]
        Py_ssize_t move[CHAIN_PLACES]
        int step[CHAIN_PLACES]
    void lnn_chain_walk(const ChainOp*, int, const ChainView*, Py_ssize_t, Py_ssize_t, bint)
    void lnn_spell(const char*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, char*)

cdef enum:
    CHAIN_NEAR = 128        # cells of a segment at least, where inputs are not spelt out
    CHAIN_LINE = 256        # cells of a segment where they are, at least; more where few of them are
    CHAIN_TASK = 8192       # cells of a task: fixed, so that the split does not depend on the number of threads
    CHAIN_SHORT = 256       # cells of a segment of arrays that no cache holds, where nothing is fetched and an operation is heavy
    CHAIN_HEAVY = 8         # additions per cell that make it so
    CHAIN_FAR = 25165824    # bytes of all arrays per thread from which on they are fetched ahead of use: more than caches keep
    CHAIN_FEW = 4           # arrays that are foreseen where a cell's arithmetic leaves the time for it; fewer always are
    CHAIN_LIGHT = 4         # additions per cell that do not
    CHAIN_INPUTS = 16
    CHAIN_TEMPS = 6
    CHAIN_OPS = 32

# A place is an input (0 to CHAIN_INPUTS - 1), a temporary (from CHAIN_INPUTS on) or an output (from CHAIN_OUT on). What one
# operation wrote into an output the next ones may read: a function's tangent is often computed from its value.
cdef enum:
    CHAIN_OUT = 22          # CHAIN_INPUTS + CHAIN_TEMPS
    CHAIN_OUTPUTS = 2

cdef struct ChainPlan:
    int inputs
    int outputs
    int ops
    int repeats                         # inputs that have several cells and repeat
    bint fetches                        # whether operations fetch ahead of use, where arrays are large
    Py_ssize_t bytes                    # of all arrays; 0 where one operation leaves nothing to another
    Py_ssize_t cells
    Py_ssize_t cost                     # of one cell, in additions
    Py_ssize_t heaviest                 # and of the operation that has most of it
    Py_ssize_t segment                  # cells between two places where an input changes or starts again
    Py_ssize_t item[CHAIN_PLACES]       # bytes of a cell of each place
    Py_ssize_t widest                   # the most that one has
    Py_ssize_t inner[CHAIN_INPUTS]      # 0: full
    Py_ssize_t count[CHAIN_INPUTS]
    ChainOp op[CHAIN_OPS]


# Where a task is: the cell of each input that repeats, and the cells until that changes or starts again.
cdef struct ChainPlace:
    Py_ssize_t cell[CHAIN_INPUTS]
    Py_ssize_t left[CHAIN_INPUTS]
    char* line[CHAIN_INPUTS]            # where it is spelt out


cdef inline Py_ssize_t chain_begin(const ChainPlan* p, char** arrays, bint far, Py_ssize_t first, Py_ssize_t stop, ChainPlace* now,
                                   char* lines) noexcept nogil:
    """The place of cell `first`; rows that repeat are spelt out for as long as a segment is. Returns how long that is at most."""
    cdef bint near = p.segment < CHAIN_NEAR
    cdef Py_ssize_t n = CHAIN if near or p.ops > 1 else p.cells     # one operation leaves nothing in the cache for another
    if far:
        n = CHAIN_FETCH // p.item[CHAIN_INPUTS]
    elif p.bytes >= CHAIN_FAR and p.heaviest >= CHAIN_HEAVY:
        n = CHAIN_SHORT
    cdef int k
    if near and p.repeats:
        n = min(n, CHAIN_INPUTS * CHAIN_LINE // p.repeats)
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


cdef inline void chain_ahead(ChainPlan* p, bint summed, bint foresees) noexcept:
    """Count what repeats, and find what each operation is to fetch: the arrays that the next one is the first to see, the first
    one being the next of the last. Outputs that are only summed are no arrays. `foresees`: four arrays need no fetching here."""
    cdef ChainOp* before = &p.op[p.ops - 1]
    cdef bint near[CHAIN_PLACES]
    cdef Py_ssize_t cell = 0
    cdef int i, k, place, arrays = 0
    p.repeats = p.widest = 0
    for k in range(p.inputs):
        p.repeats += p.inner[k] != 0 and p.count[k] > 1
    for k in range(CHAIN_PLACES):
        near[k] = p.item[k] == 1 or (p.inner[k] != 0 or k >= p.inputs if k < CHAIN_INPUTS else summed or k < CHAIN_OUT)
        cell += 0 if near[k] else p.item[k]
        arrays += not near[k]
        p.widest = max(p.widest, p.item[k])
    p.bytes = p.cells * cell if p.ops > 1 else 0
    p.fetches = not summed and (arrays > CHAIN_FEW or arrays == CHAIN_FEW and p.cost <= CHAIN_LIGHT and not foresees)
    for i in range(p.ops):
        before.fetches = 0
        for k in range(p.op[i].arity + 1):
            place = p.op[i].src[k] if k < p.op[i].arity else p.op[i].dst
            if not near[place]:
                before.fetch[before.fetches] = place
                before.fetches += 1
            near[place] = True
        before = &p.op[i]


cdef inline bint chain_far(Py_ssize_t bytes, int threads) noexcept nogil:
    return bytes >= <Py_ssize_t>CHAIN_FAR * threads


cdef inline void chain_open(const ChainPlan* p, char** arrays, char* temps, Py_ssize_t most, Py_ssize_t first,
                            ChainView* view) noexcept nogil:
    """Look at cell `first` of everything but what repeats; temporaries have `most` cells."""
    cdef int k
    for k in range(p.inputs):
        view.step[k] = p.inner[k] == 0
        view.move[k] = p.item[k] if p.inner[k] == 0 else 0
        view.at[k] = arrays[k] + first * view.move[k]
    for k in range(CHAIN_TEMPS):
        view.step[CHAIN_INPUTS + k], view.move[CHAIN_INPUTS + k] = 1, 0
        view.at[CHAIN_INPUTS + k] = temps + k * min(most, <Py_ssize_t>CHAIN) * p.widest
    for k in range(p.outputs):
        view.step[CHAIN_OUT + k], view.move[CHAIN_OUT + k] = 1, p.item[CHAIN_OUT + k]
        view.at[CHAIN_OUT + k] = arrays[p.inputs + k] + first * p.item[CHAIN_OUT + k]


cdef inline void chain_repeat(const ChainPlan* p, char** arrays, const ChainPlace* now, Py_ssize_t first, Py_ssize_t n,
                              ChainView* view) noexcept nogil:
    """Look at what repeats, as `n` cells from `first` on read it, which lie within one segment."""
    cdef int k
    for k in range(p.inputs):
        if p.inner[k] == 0 or p.count[k] == 1:
            continue
        view.step[k] = p.inner[k] == 1 or p.segment < CHAIN_NEAR
        view.move[k] = p.item[k] if view.step[k] else 0
        if p.segment >= CHAIN_NEAR:
            view.at[k] = arrays[k] + now.cell[k] * p.item[k]
        elif p.inner[k] == 1:
            view.at[k] = now.line[k] + now.cell[k] * p.item[k]
        else:
            view.at[k] = now.line[k]
            lnn_spell(arrays[k], p.item[k], p.inner[k], p.count[k], first, n, view.at[k])


cdef inline void chain_move(const ChainPlan* p, ChainView* view, Py_ssize_t n) noexcept nogil:
    """Look `n` cells further, but at what repeats."""
    cdef int k
    for k in range(p.inputs):
        if p.inner[k] == 0:
            view.at[k] += n * p.item[k]
    for k in range(CHAIN_OUT, CHAIN_OUT + p.outputs):
        view.at[k] += n * p.item[k]


cdef inline void chain_task(const ChainPlan* p, char** arrays, bint far, Py_ssize_t first, Py_ssize_t stop) noexcept nogil:
    cdef char temps[CHAIN_TEMPS * CHAIN * 8]
    cdef char lines[CHAIN_INPUTS * (CHAIN_LINE + CHAIN_NEAR + SPELL_OVER) * 8]
    cdef ChainPlace now
    cdef ChainView view
    cdef Py_ssize_t n, most = chain_begin(p, arrays, far, first, stop, &now, lines)
    cdef int k
    chain_open(p, arrays, temps, most, first, &view)
    while first < stop:
        n = stop - first
        if p.repeats:
            if p.segment < CHAIN_NEAR:
                n = min(n, most)
            else:
                for k in range(p.inputs):
                    if p.inner[k] and p.count[k] > 1:
                        n = min(n, now.left[k])
            chain_repeat(p, arrays, &now, first, n, &view)
            chain_step_on(p, &now, n)
        lnn_chain_walk(p.op, p.ops, &view, n, most, far)
        chain_move(p, &view, n)
        first += n


cdef inline void chain_run(const ChainPlan* p, char** arrays) noexcept nogil:
    cdef Py_ssize_t i, tasks = (p.cells + CHAIN_TASK - 1) // CHAIN_TASK
    cdef int threads = threads_for(p.cells * p.cost)
    cdef bint far = p.fetches and chain_far(p.bytes, threads)
    if threads == 1 or tasks == 1:
        chain_task(p, arrays, far, 0, p.cells)
        return
    for i in prange(tasks, num_threads=threads, schedule="static"):
        chain_task(p, arrays, far, i * CHAIN_TASK, min(p.cells, (i + 1) * CHAIN_TASK))
