cdef int threads_for(Py_ssize_t work) noexcept nogil
cdef int threads_now() noexcept nogil
cdef int narrow_threads(int n) noexcept nogil
