"""tail.h for Cython."""

cdef extern from "tail.h" nogil:
    enum:
        LNN_PLAIN
        LNN_RELU
        LNN_LEAKY
        LNN_GATE
    ctypedef struct lnn_tail:
        size_t other, gate
        bint adds
        int act
        double slope


cdef inline int tail_arrays(const lnn_tail* tail) noexcept nogil:
    """How many arrays it reads: what is added, the gate."""
    return tail.adds + (tail.act == LNN_GATE)


cdef inline bint aim_tail(lnn_tail* tail, char** at, int first, int out) noexcept nogil:
    """Its arrays are number `first` and on, the result number `out`. Returns whether there is anything to do."""
    tail.other = <size_t>at[first] - <size_t>at[out]
    tail.gate = <size_t>at[first + tail.adds] - <size_t>at[out]
    return tail.adds or tail.act != LNN_PLAIN
