from libc.stddef cimport size_t

from lean_nn_c._tail cimport lnn_tail

# A kernel on arrays that lie at `arrays`, inputs first, then outputs; `plan` is its geometry. Returns a status.
ctypedef int (*Kernel)(const void* plan, char** arrays) noexcept nogil

cdef enum StepStatus:
    STEP_DONE = 0
    STEP_NO_MEMORY = 1
    STEP_TOO_LARGE = 2
    STEP_BAD_INDEX = 3      # these three are explained by the step's `blame`
    STEP_BAD_BETA = 4
    STEP_BAD_COUNT = 5


cdef class Step:
    cdef readonly str name
    cdef readonly tuple sizes       # bytes of each array, inputs first
    cdef readonly int outputs       # how many of them are written
    cdef readonly object keep       # what the plan points to
    cdef readonly object blame      # arrays ↦ the exception for a value that the kernel refuses, or None
    cdef Kernel kernel
    cdef bint takes                 # whether the kernel takes scratch
    cdef void* plan


cdef Step make_step(str name, Kernel kernel, const void* plan, size_t size, tuple sizes, int outputs=*, object keep=*,
                    bint takes=*, object blame=*)
cdef int read_tail(lnn_tail* tail, bint other, str act, double slope, bint gates=*) except -1
cdef int fail(Step step, int status, tuple arrays) except -1
cdef size_t probe(Step step, int threads)

# scratch; the module's text says how kernels use it
cdef void open_bench(char* base, size_t limit) noexcept nogil
cdef bint probing() noexcept nogil
cdef void* take_scratch(size_t size) noexcept nogil
cdef size_t counted() noexcept nogil
cdef void count_from(size_t top) noexcept nogil
cdef void* hold_scratch(size_t size) noexcept nogil
cdef void give_scratch(void* at) noexcept nogil
