from libc.stdint cimport int64_t

from lean_nn_c._depthwise cimport Depthwise, Listed
from lean_nn_c._geometry cimport Geometry
from lean_nn_c._planes cimport Cells, Planes
from lean_nn_c._sweeps cimport lnn_sweep
from lean_nn_c._tail cimport lnn_tail
from lean_nn_c._types cimport real

cdef enum Status:
    DONE = 0
    NO_MEMORY = 1
    SPOILT = 3          # something in the result is not finite and must be computed by another algorithm
    UNSUITED = 2        # the planes would be far larger than image and output: take another algorithm

cdef struct Level:          # that was chosen at import
    int bytes               # of a vector
    int vectors             # of a tile of six rows

cdef int taps_conv(const Geometry* g, bint transposed, const real* source, const real* w, const real* bias,
                   const lnn_tail* tail, real* out) noexcept nogil
cdef int panelled_conv(const Geometry* g, bint transposed, const real* source, const real* packed, const real* bias,
                       const lnn_tail* tail, real* out) noexcept nogil
cdef void panelled_pack(const Geometry* g, bint transposed, const real* w, real* packed) noexcept nogil
cdef void depthwise_plane(const Depthwise* s, const Listed* p, const real* plane, const real* w, int64_t w_step, real start,
                          real* out) noexcept nogil
cdef void depthwise_sums(const Depthwise* s, const Listed* p, const real* plane, const real* y_bar, real* sums) noexcept nogil
cdef void depthwise_total(const real* sums, int64_t n, real* w_bar) noexcept nogil
cdef int threads_of(const Geometry* g) noexcept nogil
cdef double affordable(const Geometry* g) noexcept nogil
cdef double taps_left(const Geometry* g, bint transposed) noexcept nogil
cdef void channel_planes(const Planes* p, const real* src, real* dst) noexcept nogil
cdef void pack_columns(const real* src, const int64_t* off, int nv, const int64_t* run, const int64_t* length, int64_t runs,
                       real* dst) noexcept nogil
cdef void pack_piece(const real* src, const int64_t* off, int64_t kn, int64_t length, int64_t width, real* dst) noexcept nogil
cdef void cells_of_planes(Planes* p, Cells* c, int64_t channels) noexcept nogil
cdef void turn_rows(const real* src, int64_t lds, int64_t rows, int64_t cols, real* dst, int64_t ldd) noexcept nogil
cdef void end_row(const lnn_tail* tail, real* out, int64_t n) noexcept nogil
cdef Level level() noexcept nogil
cdef void wide_rows(int mr, const lnn_sweep* s, int64_t channels, const real** w, const real* strip, const real* start,
                    real* sums, bint fresh, bint final, real* out, int64_t ldo) noexcept nogil
