"""A kernel with everything but its data: geometry read and checked once, then run any number of times without Python.

Every kernel but the elementwise ones is called this way, eagerly and by compiled programs: the record's ``step`` slot gives
a `Step`, a C function and its own copy of a plan. Running it takes pointers, no GIL, and makes no Python object.

A kernel returns a status; `blame` looks at the arrays again for the words of the error.

**Scratch.** Kernels get it from `take_scratch` (and give it back), on the thread that called them. That is the calling program's own
*bench*, one stretch of memory that all its kernels use in turn, and otherwise the heap. How much a kernel takes is known by
asking it: while a step is *probed*, `take_scratch` counts and refuses, so the kernel returns before it has touched an
array. Whatever a kernel does before it has taken its last piece therefore asks `probing()` if it looks at data; a piece
that is not the last is taken by `hold_scratch`, which does not refuse.
"""

cimport numpy as cnp
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from lean_nn_c._geometry cimport refuse
from lean_nn_c._heap cimport heap_give, heap_take
from lean_nn_c._tail cimport LNN_GATE, LNN_LEAKY, LNN_PLAIN, LNN_RELU, lnn_tail
from lean_nn_c.threads cimport narrow_threads, threads_now

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    bint PyArray_IS_C_CONTIGUOUS(cnp.ndarray)
    bint PyArray_ISWRITEABLE(cnp.ndarray)
    bint PyArray_ISALIGNED(cnp.ndarray)

cdef enum:
    MOST = 256      # arrays of a step that is called from Python
    LINE = 64       # bytes: pieces of scratch begin at lines, and a line before each says how long it is

cdef extern from *:
    """
    typedef struct { char *base; size_t limit, top, peak; int pieces, strays, probing; } lnn_bench;
    static __thread lnn_bench lnn_own;      /* this thread's */
    """
    ctypedef struct lnn_bench:
        char* base
        size_t limit, top, peak
        int pieces, strays, probing
    lnn_bench lnn_own


cdef void open_bench(char* base, size_t limit) noexcept nogil:
    """From now on this thread's kernels take their scratch from `limit` bytes at `base` (NULL: from the heap)."""
    global lnn_own
    lnn_own.base, lnn_own.limit, lnn_own.top, lnn_own.pieces = base, limit, 0, 0


cdef bint probing() noexcept nogil:
    """Whether the kernel is only asked how much scratch it takes."""
    return lnn_own.probing


cdef void* take_scratch(size_t size) noexcept nogil:
    """Scratch, or NULL where there is none, and while the step is probed."""
    if lnn_own.probing:
        count(size)
        return NULL
    return hold_scratch(size)


cdef void count(size_t size) noexcept nogil:
    global lnn_own
    lnn_own.top += (size + 2 * LINE - 1) // LINE * LINE
    lnn_own.peak = max(lnn_own.peak, lnn_own.top)


cdef size_t counted() noexcept nogil:
    """How much scratch a probed kernel has asked for."""
    return lnn_own.top


cdef void count_from(size_t top) noexcept nogil:
    """While the step is probed: what is asked for next takes the place of what was, since `counted` gave `top`."""
    global lnn_own
    if lnn_own.probing:
        lnn_own.top = top


cdef void* hold_scratch(size_t size) noexcept nogil:
    """Scratch, or NULL where there is none."""
    global lnn_own
    cdef size_t whole = (size + 2 * LINE - 1) // LINE * LINE
    cdef bint on_bench = not lnn_own.probing and lnn_own.base != NULL and lnn_own.top + whole <= lnn_own.limit
    cdef char* piece
    if on_bench:
        piece = lnn_own.base + lnn_own.top
        lnn_own.pieces += 1
        count(size)
    else:
        piece = heap_take(whole)
        lnn_own.strays += 1
        if lnn_own.probing:
            count(size)
        if piece == NULL:
            return NULL
    (<size_t*>piece)[0] = whole if on_bench else 0
    return piece + LINE


cdef void give_scratch(void* at) noexcept nogil:
    """Give back what `take_scratch` or `hold_scratch` gave. The bench is used as a stack; what is given back out of turn waits for the rest."""
    global lnn_own
    cdef char* piece
    if at == NULL:
        return
    piece = <char*>at - LINE
    if (<size_t*>piece)[0] == 0:
        heap_give(piece)
        return
    lnn_own.pieces -= 1
    if lnn_own.pieces == 0:
        lnn_own.top = 0
    elif piece + (<size_t*>piece)[0] == lnn_own.base + lnn_own.top:
        lnn_own.top = piece - lnn_own.base


cdef size_t probe(Step step, int threads):
    """Bytes that the kernel takes on so many threads."""
    global lnn_own
    cdef char* at[MOST]
    cdef lnn_bench before = lnn_own
    cdef size_t most
    cdef int i, count = min(len(step.sizes), MOST), own
    if not step.takes:
        return 0
    for i in range(count):
        at[i] = <char*>step.plan        # never looked at
    lnn_own = lnn_bench(NULL, 0, 0, 0, 0, 0, 1)
    own = narrow_threads(threads)
    step.kernel(step.plan, at)
    narrow_threads(own)
    most, lnn_own = lnn_own.peak, before
    return most


cdef class Step:
    """One kernel with its plan. Calling it with arrays (inputs, then outputs) runs it."""

    def __dealloc__(self):
        free(self.plan)

    def __repr__(self):
        return f"<step {self.name} on {len(self.sizes)} arrays>"

    def __call__(self, *arrays):
        cdef char* at[MOST]
        cdef cnp.ndarray array
        cdef Py_ssize_t i, count = len(self.sizes)
        cdef int status
        if len(arrays) != count or count > MOST:
            raise ValueError(f"lean_nn_c: {self.name} takes {count} arrays; got {len(arrays)}; pass inputs, then outputs")
        for i in range(count):
            array = arrays[i]
            if not PyArray_IS_C_CONTIGUOUS(array) or not PyArray_ISALIGNED(array):
                raise ValueError(f"lean_nn_c: {self.name} takes C-contiguous arrays; use numpy.ascontiguousarray")
            if cnp.PyArray_NBYTES(array) != <Py_ssize_t>self.sizes[i]:
                raise ValueError(f"lean_nn_c: array {i} of {self.name} has {self.sizes[i]} bytes; got {array.nbytes}; "
                                 f"kernels take what `abstract` has checked")
            if i >= count - self.outputs and not PyArray_ISWRITEABLE(array):
                raise ValueError(f"lean_nn_c: array {i} of {self.name} is written; got a read-only one; copy it first")
            at[i] = <char*>cnp.PyArray_DATA(array)
        with nogil:
            status = self.kernel(self.plan, at)
        if status != STEP_DONE:
            fail(self, status, arrays)

    def scratch(self, int threads):
        """Bytes of scratch that the kernel takes on so many threads, for data without infinities or NaN."""
        return probe(self, threads)

    def measure(self, *arrays):
        """Run, with as much scratch as `scratch` says; returns (bytes that were taken of it, pieces that did not fit)."""
        global lnn_own
        cdef size_t room = probe(self, threads_now())
        cdef char* base = <char*>malloc(max(room, <size_t>1))
        if base == NULL:
            raise MemoryError()
        open_bench(base, room)
        lnn_own.peak, lnn_own.strays = 0, 0
        try:
            self(*arrays)
            return lnn_own.peak, lnn_own.strays
        finally:
            open_bench(NULL, 0)
            free(base)


cdef Step make_step(str name, Kernel kernel, const void* plan, size_t size, tuple sizes, int outputs=1, object keep=None,
                    bint takes=False, object blame=None):
    """A step on arrays of `sizes` bytes, the last `outputs` of which it writes, with its own copy of the plan.

    `takes` says that the kernel takes scratch.
    """
    cdef Step step = Step.__new__(Step)
    step.name, step.kernel, step.sizes, step.outputs, step.keep = name, kernel, sizes, outputs, keep
    step.takes, step.blame = takes, blame
    step.plan = malloc(max(size, <size_t>1))
    if step.plan == NULL:
        raise MemoryError()
    memcpy(step.plan, plan, size)
    return step


ACTS = {"": LNN_PLAIN, "relu": LNN_RELU, "leaky_relu": LNN_LEAKY, "relu_gate": LNN_GATE}


cdef int read_tail(lnn_tail* tail, bint other, str act, double slope, bint gates=False) except -1:
    """What products and convolutions do to a result at last (tail.h); `gates`: whether the kernel is given arrays of gates."""
    if act not in ACTS or (ACTS[act] == LNN_GATE and not gates):
        refuse(f"unknown activation {act!r}")
    tail.other, tail.gate, tail.adds, tail.act, tail.slope = 0, 0, other, ACTS[act], slope
    return 0


cdef int fail(Step step, int status, tuple arrays) except -1:
    """Raise what a kernel's status stands for; `arrays` are those it was given."""
    if status == STEP_NO_MEMORY:
        raise MemoryError(f"{step.name}: no memory for temporary values; use smaller batches or images")
    if status == STEP_TOO_LARGE:
        raise MemoryError(f"{step.name}: the padded planes would be far larger than image and output; use algorithm='auto'")
    if step.blame is not None:
        raise step.blame(*arrays)
    raise RuntimeError(f"{step.name}: the kernel failed with status {status}")
