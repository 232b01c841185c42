cdef int threads_for(Py_ssize_t work) noexcept nogil
