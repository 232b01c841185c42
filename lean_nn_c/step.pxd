from libc.stddef cimport size_t

# A kernel on arrays that lie at `arrays`, inputs first, then outputs; `plan` is its geometry. Returns a status.
ctypedef int (*Kernel)(const void* plan, char** arrays) noexcept nogil

cdef enum:
    DONE = 0
    NO_MEMORY = 1
    BAD_INDEX = 2
    BAD_BETA = 3


cdef class Step:
    cdef readonly str name
    cdef readonly int operands
    cdef Kernel kernel
    cdef void* plan


cdef Step make_step(str name, Kernel kernel, const void* plan, size_t size, int operands)
cdef int check_status(str name, int status) except -1
