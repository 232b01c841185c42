from lean_nn_c._geometry cimport Geometry
from lean_nn_c._strips cimport Kind
from lean_nn_c._types cimport real

cdef void direct_conv(const Geometry* g, const real* x, const real* w, const real* b, real* y) noexcept nogil
cdef void direct_conv_input(const Geometry* g, const real* y_bar, const real* w, real* x_bar) noexcept nogil
cdef void direct_conv_weight(const Geometry* g, const real* x, const real* y_bar, real* w_bar) noexcept nogil
cdef bint strips_pay(const Geometry* g, Kind kind) noexcept nogil
cdef int strips_conv(const Geometry* g, const real* x, const real* w, const real* b, real* y) noexcept nogil
cdef int strips_conv_input(const Geometry* g, const real* y_bar, const real* w, real* x_bar) noexcept nogil
cdef int strips_conv_weight(const Geometry* g, const real* x, const real* y_bar, real* w_bar) noexcept nogil
cdef void direct_unfold(const Geometry* g, const real* x, real* cols) noexcept nogil
cdef void direct_fold(const Geometry* g, const real* cols, real* x_bar) noexcept nogil
