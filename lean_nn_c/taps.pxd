from libc.stdint cimport int64_t

from lean_nn_c._geometry cimport Geometry
from lean_nn_c._planes cimport Cells, Planes
from lean_nn_c._strips cimport Kind
from lean_nn_c._tail cimport lnn_tail
from lean_nn_c._types cimport real

cdef enum Status:
    DONE = 0
    NO_MEMORY = 1
    SPOILT = 3          # something in the result is not finite and must be computed by another algorithm
    UNSUITED = 2        # the planes would be far larger than image and output: take another algorithm

cdef int taps_conv(const Geometry* g, bint transposed, const real* source, const real* w, const real* bias,
                   const lnn_tail* tail, real* out) noexcept nogil
cdef int points_conv(const Geometry* g, bint transposed, const real* source, const real* w, const real* bias,
                     const lnn_tail* tail, real* out) noexcept nogil
cdef double points_gain(const Geometry* g, Kind kind, int itemsize) noexcept nogil
cdef double points_limit(const Geometry* g, Kind kind, int itemsize) noexcept nogil
cdef int panelled_conv(const Geometry* g, bint transposed, const real* source, const real* packed, const real* bias,
                       const lnn_tail* tail, real* out) noexcept nogil
cdef void panelled_pack(const Geometry* g, bint transposed, const real* w, real* packed) noexcept nogil
cdef double affordable(const Geometry* g) noexcept nogil
cdef double taps_left(const Geometry* g, bint transposed) noexcept nogil
cdef void channel_planes(const Planes* p, const real* src, real* dst) noexcept nogil
cdef void pack_columns(const real* src, const int64_t* off, int nv, const int64_t* run, const int64_t* length, int64_t runs,
                       real* dst) noexcept nogil
cdef void pack_piece(const real* src, const int64_t* off, int64_t kn, int64_t length, int64_t width, real* dst) noexcept nogil
cdef void cells_of_planes(Planes* p, Cells* c, int64_t channels) noexcept nogil
