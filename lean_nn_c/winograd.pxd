from libc.stdint cimport int64_t

from lean_nn_c._geometry cimport Geometry
from lean_nn_c._head cimport Head
from lean_nn_c._tail cimport lnn_tail
from lean_nn_c._types cimport real

cdef int winograd_tile(const Geometry* g, bint transposed, bint of_weight, int itemsize) noexcept nogil
cdef double winograd_gain(const Geometry* g, bint transposed, int tile, int itemsize, double lead,
                          bint packed) noexcept nogil
cdef double winograd_weight_gain(const Geometry* g, int tile, int itemsize) noexcept nogil
cdef int winograd_conv(const Geometry* g, bint transposed, int tile, const real* source, const real* w, const real* packed,
                       const real* b, const lnn_tail* tail, const Head* head, real* out) noexcept nogil
cdef int winograd_conv_weight(const Geometry* g, int tile, const real* x, const real* y_bar, real* w_bar) noexcept nogil
cdef bint winograd_both(const Geometry* g, int tile, int itemsize) noexcept nogil
cdef int winograd_conv_both(const Geometry* g, int tile, const real* y_bar, const real* w, const real* x,
                            const lnn_tail* tail, const Head* head, real* x_bar, real* w_bar) noexcept nogil
cdef bint winograd_reads(const Geometry* g) noexcept nogil
cdef void winograd_read(const Geometry* g, const Head* head, const real* x, real* image) noexcept nogil
cdef int64_t winograd_packed(const Geometry* g, bint transposed, int tile) noexcept nogil
cdef void winograd_pack(const Geometry* g, bint transposed, int tile, const real* w, real* packed) noexcept nogil
