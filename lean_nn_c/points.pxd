from lean_nn_c._geometry cimport Geometry
from lean_nn_c._strips cimport Kind
from lean_nn_c._tail cimport lnn_tail
from lean_nn_c._types cimport real

cdef double points_gain(const Geometry* g, Kind kind, int itemsize) noexcept nogil
cdef double points_limit(const Geometry* g, Kind kind, int itemsize) noexcept nogil
cdef int points_conv(const Geometry* g, bint transposed, const real* source, const real* w, const real* bias,
                     const lnn_tail* tail, real* out) noexcept nogil
cdef int points_conv_weight(const Geometry* g, const real* x, const real* y_bar, real* w_bar) noexcept nogil
