cimport numpy as cnp

cdef object empty_array(int rank, cnp.npy_intp* dims, int kind)
