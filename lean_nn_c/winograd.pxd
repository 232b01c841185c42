from lean_nn_c._geometry cimport Geometry
from lean_nn_c._types cimport real

cdef int winograd_tile(const Geometry* g, bint transposed, int per_vector) noexcept nogil
cdef bint winograd_pays(const Geometry* g, bint transposed, int m, int per_vector, bint few) noexcept nogil
cdef int winograd_weight_tile(const Geometry* g) noexcept nogil
cdef bint winograd_weight_pays(const Geometry* g, int m) noexcept nogil
cdef int winograd_conv(const Geometry* g, int m, const real* x, const real* w, const real* packed, const real* b,
                       real* y) noexcept nogil
cdef int winograd_conv_input(const Geometry* g, int m, const real* y_bar, const real* w, const real* packed,
                             real* x_bar) noexcept nogil
cdef int winograd_conv_weight(const Geometry* g, int m, const real* x, const real* y_bar, real* w_bar) noexcept nogil
