cimport numpy as cnp


cdef class Block:
    cdef void* start
    cdef size_t size


cdef object empty_array(int rank, cnp.npy_intp* dims, int kind)
