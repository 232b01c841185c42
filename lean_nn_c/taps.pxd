from lean_nn_c._geometry cimport Geometry
from lean_nn_c._types cimport real

cdef enum Status:
    DONE = 0
    NO_MEMORY = 1
    SPOILT = 3          # something in the result is not finite and must be computed by another algorithm
    UNSUITED = 2        # the planes would be far larger than image and output: take another algorithm

cdef int taps_conv(const Geometry* g, const real* x, const real* w, const real* b, real* y) noexcept nogil
cdef int taps_conv_input(const Geometry* g, const real* y_bar, const real* w, real* x_bar) noexcept nogil
cdef double affordable(const Geometry* g) noexcept nogil
