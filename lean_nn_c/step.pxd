from libc.stddef cimport size_t

# A kernel on arrays that lie at `arrays`: inputs, outputs, scratch; `plan` is its geometry. Returns a status.
ctypedef int (*Kernel)(const void* plan, char** arrays) noexcept nogil
# Bytes of scratch that a kernel takes on so many threads.
ctypedef Py_ssize_t (*Room)(const void* plan, int threads) noexcept nogil

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
    cdef Room room                  # NULL: no scratch
    cdef void* plan


cdef Step make_step(str name, Kernel kernel, const void* plan, size_t size, tuple sizes, int outputs=*, object keep=*,
                    Room room=*, object blame=*)
cdef int fail(Step step, int status, tuple arrays) except -1
