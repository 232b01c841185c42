from lean_nn_c._geometry cimport Geometry
from lean_nn_c._simd cimport lnn_tail
from lean_nn_c._types cimport real

cdef enum Status:
    DONE = 0
    NO_MEMORY = 1
    SPOILT = 3          # something in the result is not finite and must be computed by another algorithm
    UNSUITED = 2        # the planes would be far larger than image and output: take another algorithm

cdef int taps_conv(const Geometry* g, bint transposed, const real* source, const real* w, const real* bias,
                   const lnn_tail* tail, real* out) noexcept nogil
cdef int panelled_conv(const Geometry* g, bint transposed, const real* source, const real* packed, const real* bias,
                       const lnn_tail* tail, real* out) noexcept nogil
cdef void panelled_pack(const Geometry* g, bint transposed, const real* w, real* packed) noexcept nogil
cdef double affordable(const Geometry* g) noexcept nogil
cdef double taps_left(const Geometry* g, bint transposed) noexcept nogil
