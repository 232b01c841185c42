from libc.stdint cimport int64_t

from lean_nn_c._geometry cimport Geometry
from lean_nn_c._strips cimport Kind
from lean_nn_c._tail cimport lnn_tail
from lean_nn_c._types cimport real

cdef bint all_finite(const real* x, int64_t n) noexcept nogil
cdef void direct_conv(const Geometry* g, bint transposed, const real* source, const real* w, const real* b,
                      const lnn_tail* tail, real* out) noexcept nogil
cdef void direct_conv_weight(const Geometry* g, const real* x, const real* y_bar, real* w_bar) noexcept nogil
cdef bint strips_pay(const Geometry* g, Kind kind, int itemsize) noexcept nogil
cdef double strips_lead(const Geometry* g, int itemsize) noexcept nogil
cdef int strips_conv(const Geometry* g, bint transposed, const real* source, const real* w, const real* b,
                     const lnn_tail* tail, real* out) noexcept nogil
cdef int strips_conv_weight(const Geometry* g, const real* x, const real* y_bar, real* w_bar) noexcept nogil
cdef void direct_unfold(const Geometry* g, const real* x, real* cols) noexcept nogil
cdef void direct_fold(const Geometry* g, const real* cols, bint add, real* x_bar) noexcept nogil
