cdef int threads_for(Py_ssize_t work) noexcept nogil
cdef int hold_threads(bint* held) noexcept nogil
cdef void let_threads_go(bint held) noexcept nogil
