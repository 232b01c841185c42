from libc.stdint cimport int64_t

from lean_nn_c._geometry cimport Geometry
from lean_nn_c._types cimport real

cdef int taps_conv_weight(const Geometry* g, const real* x, const real* y_bar, real* w_bar) noexcept nogil
cdef bint winners_pay(const Geometry* g, int64_t windows) noexcept nogil
cdef int winners_conv_weight(const Geometry* g, int64_t windows, const float* x, const float* y_bar, const int64_t* idx,
                             float* w_bar) noexcept nogil
