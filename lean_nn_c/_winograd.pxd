"""winograd.h for Cython: one fused name per transform, and the product."""

from libc.stdint cimport int64_t

from lean_nn_c._tail cimport lnn_tail
from lean_nn_c._types cimport real

cdef extern from "winograd.h" nogil:
    enum:
        LNN_BYTES
        LNN_WINO_VECTORS
        LNN_WINO_PANEL
        LNN_WINO_ABREAST
        LNN_WINO_UNITS
        LNN_WINO_LEAST
    void lnn_wino_lines_f32(const float* source, Py_ssize_t line, float* to, Py_ssize_t pitch, Py_ssize_t lines, Py_ssize_t n) noexcept
    void lnn_wino_lines_f64(const double* source, Py_ssize_t line, double* to, Py_ssize_t pitch, Py_ssize_t lines, Py_ssize_t n) noexcept
    void lnn_seconds_f32(const float* source, Py_ssize_t n, float* to) noexcept
    void lnn_seconds_f64(const double* source, Py_ssize_t n, double* to) noexcept
    void lnn_wino_read_f32(float* to, Py_ssize_t pitch, const float* source, Py_ssize_t line, Py_ssize_t rows, Py_ssize_t n,
                           const float* number) noexcept
    void lnn_wino_read_f64(double* to, Py_ssize_t pitch, const double* source, Py_ssize_t line, Py_ssize_t rows, Py_ssize_t n,
                           const double* number) noexcept
    void lnn_wino_image_f32(int side, int flat, int vectors, const float** p, Py_ssize_t at, Py_ssize_t pitch, float* out,
                            Py_ssize_t step) noexcept
    void lnn_wino_image_f64(int side, int flat, int vectors, const double** p, Py_ssize_t at, Py_ssize_t pitch, double* out,
                            Py_ssize_t step) noexcept
    void lnn_wino_weight_f32(int side, int flat, int flip, Py_ssize_t filters, const float* w, Py_ssize_t next,
                             Py_ssize_t ahead, float* out, Py_ssize_t step) noexcept
    void lnn_wino_weight_f64(int side, int flat, int flip, Py_ssize_t filters, const double* w, Py_ssize_t next,
                             Py_ssize_t ahead, double* out, Py_ssize_t step) noexcept
    void lnn_wino_output_f32(int side, int flat, int joined, const float* t, Py_ssize_t step, float bias, float** p, const int64_t* pitch,
                             const lnn_tail* tail, float* zero) noexcept
    void lnn_wino_output_f64(int side, int flat, int joined, const double* t, Py_ssize_t step, double bias, double** p, const int64_t* pitch,
                             const lnn_tail* tail, double* zero) noexcept
    void lnn_wino_end_f32(const lnn_tail* tail, const float* source, Py_ssize_t line, float* to, Py_ssize_t pitch,
                          Py_ssize_t step, Py_ssize_t lines, Py_ssize_t n, Py_ssize_t next) noexcept
    void lnn_wino_end_f64(const lnn_tail* tail, const double* source, Py_ssize_t line, double* to, Py_ssize_t pitch,
                          Py_ssize_t step, Py_ssize_t lines, Py_ssize_t n, Py_ssize_t next) noexcept
    void lnn_wino_cotangent_f32(int side, int flat, int tiles, const float** p, Py_ssize_t pitch, const float* number, float* out,
                                Py_ssize_t next, Py_ssize_t step) noexcept
    void lnn_wino_cotangent_f64(int side, int flat, int tiles, const double** p, Py_ssize_t pitch, const double* number, double* out,
                                Py_ssize_t next, Py_ssize_t step) noexcept
    void lnn_wino_filter_f32(int side, int flat, int flip, int behind, const float* u, Py_ssize_t step, int add, float** p, float* zero) noexcept
    void lnn_wino_filter_f64(int side, int flat, int flip, int behind, const double* u, Py_ssize_t step, int add, double** p, double* zero) noexcept
    void lnn_wino_product_f32(int mr, int nv, Py_ssize_t kn, const float* u, Py_ssize_t ldu, Py_ssize_t next, const float* v,
                              Py_ssize_t ldv, int add, float* out) noexcept
    void lnn_wino_product_f64(int mr, int nv, Py_ssize_t kn, const double* u, Py_ssize_t ldu, Py_ssize_t next, const double* v,
                              Py_ssize_t ldv, int add, double* out) noexcept

cdef inline void seconds(const real* source, int64_t n, real* to) noexcept nogil:
    """Every second cell."""
    if real is float:
        lnn_seconds_f32(source, n, to)
    else:
        lnn_seconds_f64(source, n, to)


cdef inline void copy(const real* source, int64_t line, real* to, int64_t pitch, int64_t lines, int64_t n) noexcept nogil:
    """Lines of n neighbours, `pitch` apart from others `line` apart."""
    if real is float:
        lnn_wino_lines_f32(source, line, to, pitch, lines, n)
    else:
        lnn_wino_lines_f64(source, line, to, pitch, lines, n)


cdef inline void read(real* to, int64_t pitch, const real* source, int64_t line, int64_t rows, int64_t n,
                      const real* number) noexcept nogil:
    """relu(batch norm) of rows of n neighbours, by a channel's three numbers."""
    if real is float:
        lnn_wino_read_f32(to, pitch, source, line, rows, n, number)
    else:
        lnn_wino_read_f64(to, pitch, source, line, rows, n, number)


cdef inline void image(int side, bint flat, int vectors, const real** p, int64_t at, int64_t pitch, real* out,
                       int64_t step) noexcept nogil:
    """out[xi*step + lane] = (B^T d B)[xi] of the tile at p[lane] + at, or (B^T d)[xi] (`flat`, as below)."""
    if real is float:
        lnn_wino_image_f32(side, flat, vectors, p, at, pitch, out, step)
    else:
        lnn_wino_image_f64(side, flat, vectors, p, at, pitch, out, step)


cdef inline void weight(int side, bint flat, bint flip, int64_t filters, const real* w, int64_t next, int64_t ahead,
                        real* out, int64_t step) noexcept nogil:
    """out[xi*step + k] = (G g G^T)[xi] of the filter at w + k*next; whole vectors are written."""
    if real is float:
        lnn_wino_weight_f32(side, flat, flip, filters, w, next, ahead, out, step)
    else:
        lnn_wino_weight_f64(side, flat, flip, filters, w, next, ahead, out, step)


cdef inline void output(int side, bint flat, bint joined, const real* t, int64_t step, real bias, real** p, const int64_t* pitch,
                        const lnn_tail* tail, real* zero) noexcept nogil:
    """The outputs A^T t A + bias of every lane and their tail, to p[lane]; `joined`: quarters of a vector's tiles lie
    side by side. `zero` stays zero if the sums are finite."""
    if real is float:
        lnn_wino_output_f32(side, flat, joined, t, step, bias, p, pitch, tail, zero)
    else:
        lnn_wino_output_f64(side, flat, joined, t, step, bias, p, pitch, tail, zero)


cdef inline void end_lines(const lnn_tail* tail, const real* source, int64_t line, real* to, int64_t pitch, int64_t step,
                           int64_t lines, int64_t n, int64_t next) noexcept nogil:
    """Lines of n neighbours on their way to cells of an output, `step` apart, by its tail; `next` cells on, others will follow."""
    if real is float:
        lnn_wino_end_f32(tail, source, line, to, pitch, step, lines, n, next)
    else:
        lnn_wino_end_f64(tail, source, line, to, pitch, step, lines, n, next)


cdef inline void cotangent(int side, bint flat, int tiles, const real** p, int64_t pitch, const real* number, real* out, int64_t next,
                           int64_t step) noexcept nogil:
    """out[xi*step + lane] = (A g A^T)[xi] of the cells of neighbouring tiles, the first at p[lane], or of relu(batch norm)
    of them; `next` apart."""
    if real is float:
        lnn_wino_cotangent_f32(side, flat, tiles, p, pitch, number, out, next, step)
    else:
        lnn_wino_cotangent_f64(side, flat, tiles, p, pitch, number, out, next, step)


cdef inline void filters(int side, bint flat, bint flip, bint behind, const real* u, int64_t step, bint add, real** p, real* zero) noexcept nogil:
    """The cells of a filter (+)= G^T u G of every lane, at p[lane], or turned; `zero` stays zero if all are finite."""
    if real is float:
        lnn_wino_filter_f32(side, flat, flip, behind, u, step, add, p, zero)
    else:
        lnn_wino_filter_f64(side, flat, flip, behind, u, step, add, p, zero)


cdef inline bint abreast(int vectors, const int64_t* row, int64_t panels) noexcept nogil:
    """Whether two of the panels that are left, which begin at these rows, go together: `product` takes twelve rows, or up to six."""
    return vectors < LNN_WINO_ABREAST and panels > 1 and row[2] - row[0] == 2 * LNN_WINO_PANEL


cdef inline void product(int rows, int vectors, int64_t terms, const real* u, int64_t ldu, int64_t next, const real* v, int64_t ldv,
                         bint add, real* out) noexcept nogil:
    """out[r, lane] (+)= sum_k u[r, k] v[k, lane]; a second panel of rows is `next` from the first."""
    if real is float:
        lnn_wino_product_f32(rows, vectors, terms, u, ldu, next, v, ldv, add, out)
    else:
        lnn_wino_product_f64(rows, vectors, terms, u, ldu, next, v, ldv, add, out)
