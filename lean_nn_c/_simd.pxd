"""simd.h for Cython: one fused name per tile."""

from libc.stdint cimport int64_t, uint16_t

from lean_nn_c._tail cimport lnn_tail
from lean_nn_c._types cimport real

cdef enum:
    SPARE_LINE = 16         # values in a cache line, at most


cdef extern from "simd.h" nogil:
    enum:
        LNN_BYTES
        LNN_ROWS
        LNN_TALLEST
        LNN_WIDE
        LNN_FULL
        LNN_LONG_ROW
    void lnn_prefetch(const void* place) noexcept
    int lnn_vectors(int64_t m) noexcept
    void lnn_tile_f32(int mr, int nv, Py_ssize_t kn, const float** arow, const int64_t* aoff, const float* b,
                      const int64_t* boff, const float* start, int add, float* out, Py_ssize_t ldo) noexcept
    void lnn_tile_f64(int mr, int nv, Py_ssize_t kn, const double** arow, const int64_t* aoff, const double* b,
                      const int64_t* boff, const double* start, int add, double* out, Py_ssize_t ldo) noexcept
    void lnn_dots_f32(int mr, int nr, Py_ssize_t kn, const float** arow, const float** brow, int add,
                      float* out, Py_ssize_t ldo, Py_ssize_t ldn) noexcept
    void lnn_dots_f64(int mr, int nr, Py_ssize_t kn, const double** arow, const double** brow, int add,
                      double* out, Py_ssize_t ldo, Py_ssize_t ldn) noexcept
    void lnn_turn_f32(const float* src, Py_ssize_t lds, Py_ssize_t rows, Py_ssize_t cols, float* dst,
                      Py_ssize_t ldd) noexcept
    void lnn_turn_f64(const double* src, Py_ssize_t lds, Py_ssize_t rows, Py_ssize_t cols, double* dst,
                      Py_ssize_t ldd) noexcept
    void lnn_strips_f32(const float* src, Py_ssize_t lds, Py_ssize_t rows, int strips, float* dst) noexcept
    void lnn_strips_f64(const double* src, Py_ssize_t lds, Py_ssize_t rows, int strips, double* dst) noexcept
    void lnn_panel_f32(int mr, int nv, Py_ssize_t kn, const float* a, const float* b, const float* start, int add,
                       float* out, Py_ssize_t ldo) noexcept
    void lnn_panel_f64(int mr, int nv, Py_ssize_t kn, const double* a, const double* b, const double* start, int add,
                       double* out, Py_ssize_t ldo) noexcept
    void lnn_rows_f32(const float* src, Py_ssize_t row, int rows, Py_ssize_t kn, float* dst) noexcept
    void lnn_rows_f64(const double* src, Py_ssize_t row, int rows, Py_ssize_t kn, double* dst) noexcept
    void lnn_lines_f32(const float* src, Py_ssize_t step, int rows, Py_ssize_t kn, float* dst) noexcept
    void lnn_lines_f64(const double* src, Py_ssize_t step, int rows, Py_ssize_t kn, double* dst) noexcept
    void lnn_gather_f32(const float* src, Py_ssize_t row, int rows, const int64_t* off, Py_ssize_t kn,
                        float* dst) noexcept
    void lnn_gather_f64(const double* src, Py_ssize_t row, int rows, const int64_t* off, Py_ssize_t kn,
                        double* dst) noexcept
    void lnn_columns_f32(const float* src, const int64_t* off, int nv, const int64_t* run, const int64_t* length,
                         Py_ssize_t runs, float* dst) noexcept
    void lnn_columns_f64(const double* src, const int64_t* off, int nv, const int64_t* run, const int64_t* length,
                         Py_ssize_t runs, double* dst) noexcept
    void lnn_runs_f32(const float* src, const uint16_t* source, const uint16_t* to, Py_ssize_t n, Py_ssize_t run,
                      int step, float* dst) noexcept
    void lnn_runs_f64(const double* src, const uint16_t* source, const uint16_t* to, Py_ssize_t n, Py_ssize_t run,
                      int step, double* dst) noexcept
    void lnn_zip_f32(const float* src, Py_ssize_t lds, Py_ssize_t next, Py_ssize_t rows, Py_ssize_t n, float* out,
                     Py_ssize_t ldo) noexcept
    void lnn_zip_f64(const double* src, Py_ssize_t lds, Py_ssize_t next, Py_ssize_t rows, Py_ssize_t n, double* out,
                     Py_ssize_t ldo) noexcept
    void lnn_unzip_f32(const float* src, Py_ssize_t step, Py_ssize_t n, float* dst, Py_ssize_t plane) noexcept
    void lnn_unzip_f64(const double* src, Py_ssize_t step, Py_ssize_t n, double* dst, Py_ssize_t plane) noexcept
    void lnn_piece_f32(const float* src, const int64_t* off, Py_ssize_t kn, Py_ssize_t length, Py_ssize_t width,
                       float* dst) noexcept
    void lnn_piece_f64(const double* src, const int64_t* off, Py_ssize_t kn, Py_ssize_t length, Py_ssize_t width,
                       double* dst) noexcept
    void lnn_finish_f32(const lnn_tail* t, float* out, Py_ssize_t n) noexcept
    void lnn_finish_f64(const lnn_tail* t, double* out, Py_ssize_t n) noexcept
    int lnn_finite_f32(const float* x, Py_ssize_t n) noexcept
    int lnn_finite_f64(const double* x, Py_ssize_t n) noexcept


cdef inline void tile(int mr, int nv, int64_t kn, const real** arow, const int64_t* aoff, const real* b,
                      const int64_t* boff, const real* start, bint add, real* out, int64_t ldo) noexcept nogil:
    """out[m, j] = (add ? out[m, j] : start[m] or 0) + sum_k arow[m][aoff[k]] * b[boff[k] + j]."""
    if real is float:
        lnn_tile_f32(mr, nv, kn, arow, aoff, b, boff, start, add, out, ldo)
    else:
        lnn_tile_f64(mr, nv, kn, arow, aoff, b, boff, start, add, out, ldo)


cdef inline void dots(int mr, int nr, int64_t kn, const real** arow, const real** brow, bint add,
                      real* out, int64_t ldo, int64_t ldn) noexcept nogil:
    """out[m*ldo + n*ldn] (+)= sum_k arow[m][k] * brow[n][k], m < mr <= 4, n < nr <= 3 (or mr <= 9, nr = 1)."""
    if real is float:
        lnn_dots_f32(mr, nr, kn, arow, brow, add, out, ldo, ldn)
    else:
        lnn_dots_f64(mr, nr, kn, arow, brow, add, out, ldo, ldn)


cdef inline void turn(const real* src, int64_t lds, int64_t rows, int64_t cols, real* dst, int64_t ldd) noexcept nogil:
    """dst[j*ldd + i] = src[i*lds + j] for i < rows, j < cols."""
    if real is float:
        lnn_turn_f32(src, lds, rows, cols, dst, ldd)
    else:
        lnn_turn_f64(src, lds, rows, cols, dst, ldd)


cdef inline void bring(const real* src, int64_t lds, int64_t rows, int strips, real* dst) noexcept nogil:
    """dst[strip][row][LNN_FULL vectors] from rows of neighbouring strips, lds apart."""
    if real is float:
        lnn_strips_f32(src, lds, rows, strips, dst)
    else:
        lnn_strips_f64(src, lds, rows, strips, dst)


cdef inline void panel(int mr, int nv, int64_t kn, const real* a, const real* b, const real* start, bint add,
                       real* out, int64_t ldo) noexcept nogil:
    """out[m, j] = (add ? out[m, j] : start[m] or 0) + sum_k a[k*LNN_ROWS + m] * b[k*nv*lanes + j], mr >= 3."""
    if real is float:
        lnn_panel_f32(mr, nv, kn, a, b, start, add, out, ldo)
    else:
        lnn_panel_f64(mr, nv, kn, a, b, start, add, out, ldo)


cdef inline void rows_of(const real* src, int64_t row, int rows, int64_t kn, real* dst) noexcept nogil:
    """dst[k*LNN_ROWS + m] = src[m*row + k]."""
    if real is float:
        lnn_rows_f32(src, row, rows, kn, dst)
    else:
        lnn_rows_f64(src, row, rows, kn, dst)


cdef inline void lines(const real* src, int64_t step, int rows, int64_t kn, real* dst) noexcept nogil:
    """dst[k*LNN_ROWS + m] = src[m + k*step]."""
    if real is float:
        lnn_lines_f32(src, step, rows, kn, dst)
    else:
        lnn_lines_f64(src, step, rows, kn, dst)


cdef inline void runs(const real* src, const uint16_t* source, const uint16_t* to, int64_t n, int64_t run, int step,
                      real* dst) noexcept nogil:
    """dst[to[i] + j] = src[source[i] + step*j], runs of so many; step is 1 or 2."""
    if real is float:
        lnn_runs_f32(src, source, to, n, run, step, dst)
    else:
        lnn_runs_f64(src, source, to, n, run, step, dst)


cdef inline void zip_rows(const real* src, int64_t lds, int64_t next, int64_t rows, int64_t n, real* out,
                          int64_t ldo) noexcept nogil:
    """out[m*ldo + 2*j + r] = src[m*lds + r*next + j] for m < rows, r < 2, j < n."""
    if real is float:
        lnn_zip_f32(src, lds, next, rows, n, out, ldo)
    else:
        lnn_zip_f64(src, lds, next, rows, n, out, ldo)


cdef inline void unzip(const real* src, int64_t step, int64_t n, real* dst, int64_t plane) noexcept nogil:
    """dst[f*plane + i] = src[step*i + f] for f < step, i < n; step > 2."""
    if real is float:
        lnn_unzip_f32(src, step, n, dst, plane)
    else:
        lnn_unzip_f64(src, step, n, dst, plane)


cdef inline void gather(const real* src, int64_t row, int rows, const int64_t* off, int64_t kn,
                        real* dst) noexcept nogil:
    """dst[k*LNN_ROWS + m] = src[m*row + off[k]]."""
    if real is float:
        lnn_gather_f32(src, row, rows, off, kn, dst)
    else:
        lnn_gather_f64(src, row, rows, off, kn, dst)


cdef inline void columns_of(const real* src, const int64_t* off, int nv, const int64_t* run, const int64_t* length,
                            int64_t runs, real* dst) noexcept nogil:
    """dst[k*nv*lanes + j] = src[off[j] + run[r] + i] for i < length[r]; k counts the values of all runs."""
    if real is float:
        lnn_columns_f32(src, off, nv, run, length, runs, dst)
    else:
        lnn_columns_f64(src, off, nv, run, length, runs, dst)


cdef inline void piece(const real* src, const int64_t* off, int64_t kn, int64_t length, int64_t width,
                       real* dst) noexcept nogil:
    """dst[k*width + j] = src[off[k] + j] for j < length."""
    if real is float:
        lnn_piece_f32(src, off, kn, length, width, dst)
    else:
        lnn_piece_f64(src, off, kn, length, width, dst)


cdef inline void finish(const lnn_tail* tail, real* out, int64_t n) noexcept nogil:
    """out = act(out + other) for n neighbouring outputs (tail.h); NULL is no tail."""
    if tail == NULL:
        return
    if real is float:
        lnn_finish_f32(tail, out, n)
    else:
        lnn_finish_f64(tail, out, n)


cdef inline real* aligned(real* place) noexcept nogil:
    """The next cache line's start, fewer than SPARE_LINE values on."""
    return <real*>((<size_t>place + 63) & ~<size_t>63)


cdef inline int64_t whole_lines(int64_t count) noexcept nogil:
    """`count` values or a few more, so that what follows starts a cache line again."""
    return (count + SPARE_LINE - 1) // SPARE_LINE * SPARE_LINE


cdef inline int lanes(const real* unused) noexcept nogil:
    """Values of type `real` in one vector."""
    return LNN_BYTES // sizeof(real)
