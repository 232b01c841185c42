"""What an average divides by: the product over the axes of a table, or one given number."""

from libc.stdint cimport int64_t

from lean_nn_c._window cimport Axis

cdef enum:
    PADDED = 0           # all cells inside the padded input
    REAL = 1             # the real ones
    GIVEN = 2


cdef struct Divisor:
    int kind
    double given


cdef inline const int64_t* inner_table(const Axis* axis, Divisor by) noexcept nogil:
    if by.kind == GIVEN:
        return NULL
    return axis.count if by.kind == REAL else axis.divisor


cdef inline double outer_divisor(int64_t padded, int64_t count, Divisor by) noexcept nogil:
    if by.kind == GIVEN:
        return by.given
    return <double>max(1, count if by.kind == REAL else padded)
