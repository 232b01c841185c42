from libc.stdint cimport int64_t

from lean_nn_c._geometry cimport Geometry
from lean_nn_c._types cimport real
from lean_nn_c._winners_plan cimport Winners

cdef int taps_conv_weight(const Geometry* g, const real* x, const real* y_bar, real* w_bar) noexcept nogil
cdef int64_t winners_lanes() noexcept nogil
cdef int winners_conv_weight(const Winners* s, const Geometry* g, int64_t windows, const float* x, const float* y_bar,
                             const int64_t* idx, float* w_bar) noexcept nogil
cdef int winners_conv_input(const Winners* s, const Geometry* g, int64_t windows, const float* y_bar, const int64_t* idx,
                            const float* w, float* x_bar) noexcept nogil
