"""tail.h for Cython."""

cdef extern from "tail.h" nogil:
    enum:
        LNN_PLAIN
        LNN_RELU
        LNN_LEAKY
    ctypedef struct lnn_tail:
        size_t other
        bint adds
        int act
        double slope
