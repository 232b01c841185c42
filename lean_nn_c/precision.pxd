cdef bint is_fast() noexcept nogil
