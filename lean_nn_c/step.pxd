from libc.stddef cimport size_t

# A kernel on arrays that lie at `arrays`, inputs first, then outputs; `plan` is its geometry. Returns a status.
ctypedef int (*Kernel)(const void* plan, char** arrays) noexcept nogil

cdef enum StepStatus:
    STEP_DONE = 0
    STEP_NO_MEMORY = 1
    STEP_TOO_LARGE = 2
    STEP_BAD_INDEX = 3
    STEP_BAD_BETA = 4


cdef class Step:
    cdef readonly str name
    cdef readonly tuple sizes       # bytes of each array, inputs first
    cdef readonly int outputs       # how many of them are written
    cdef readonly object keep       # what the plan points to
    cdef Kernel kernel
    cdef void* plan


cdef Step make_step(str name, Kernel kernel, const void* plan, size_t size, tuple sizes, int outputs=*, object keep=*)
cdef int check_status(str name, int status) except -1
