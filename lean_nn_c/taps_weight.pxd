from lean_nn_c._geometry cimport Geometry
from lean_nn_c._types cimport real

cdef int taps_conv_weight(const Geometry* g, const real* x, const real* y_bar, real* w_bar) noexcept nogil
