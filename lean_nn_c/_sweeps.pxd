"""strips.h for Cython: one fused name per loop."""

from libc.stdint cimport int64_t

from lean_nn_c._types cimport real

cdef extern from "strips.h" nogil:
    enum:
        LNN_PHASES
        LNN_TALL
        LNN_RUN

    ctypedef struct lnn_copies:
        int64_t rows
        int64_t* src
        int64_t* dst
        int64_t phases, plane, step, spread, pairs
        int64_t first[LNN_PHASES]
        int64_t low[LNN_PHASES]
        int64_t count[LNN_PHASES]

    ctypedef struct lnn_run:
        int64_t a, b, taps

    ctypedef struct lnn_sweep:
        int64_t terms
        int64_t* a
        int64_t* b
        int64_t runs, a_step, b_step
        lnn_run* run
        int64_t vectors
        int64_t* at
        int64_t* to
        int64_t live, to_step, width, limit
        const char* next[3]
        int64_t share[3]

    void lnn_fill_strip_f32(const lnn_copies* c, const float* source, float* strip) noexcept
    void lnn_fill_strip_f64(const lnn_copies* c, const double* source, double* strip) noexcept
    void lnn_loosen_f32(float* dst, const float* src, int64_t width, int64_t rows) noexcept
    void lnn_loosen_f64(double* dst, const double* src, int64_t width, int64_t rows) noexcept
    void lnn_sweep_rows_f32(int mr, const lnn_sweep* s, int64_t channels, const float** w, const float* strip,
                            const float* start, float* sums, bint fresh, bint final, float* out,
                            Py_ssize_t ldo) noexcept
    void lnn_sweep_rows_f64(int mr, const lnn_sweep* s, int64_t channels, const double** w, const double* strip,
                            const double* start, double* sums, bint fresh, bint final, double* out,
                            Py_ssize_t ldo) noexcept
    void lnn_gauge_f32(const lnn_sweep* s, const float* strip, const float* y, Py_ssize_t y_step, int64_t outs,
                       float* sums) noexcept
    void lnn_gauge_f64(const lnn_sweep* s, const double* strip, const double* y, Py_ssize_t y_step, int64_t outs,
                       double* sums) noexcept
    void lnn_settle_f32(const float* sums, int64_t n, float* out) noexcept
    void lnn_settle_f64(const double* sums, int64_t n, double* out) noexcept
    void lnn_fill_deep_f32(const lnn_copies* c, const float* source, int64_t cells, float* turned, float* strip) noexcept
    void lnn_sweep_deep_f32(const lnn_sweep* s, const float* w, const float* strip, const float* start, float* out) noexcept


cdef inline void fill_strip(const lnn_copies* c, const real* source, real* strip) noexcept nogil:
    if real is float:
        lnn_fill_strip_f32(c, source, strip)
    else:
        lnn_fill_strip_f64(c, source, strip)


cdef inline void loosen(real* dst, const real* src, int64_t width, int64_t rows) noexcept nogil:
    if real is float:
        lnn_loosen_f32(dst, src, width, rows)
    else:
        lnn_loosen_f64(dst, src, width, rows)


cdef inline void sweep_rows(int mr, const lnn_sweep* s, int64_t channels, const real** w, const real* strip,
                            const real* start, real* sums, bint fresh, bint final, real* out,
                            int64_t ldo) noexcept nogil:
    if real is float:
        lnn_sweep_rows_f32(mr, s, channels, w, strip, start, sums, fresh, final, out, ldo)
    else:
        lnn_sweep_rows_f64(mr, s, channels, w, strip, start, sums, fresh, final, out, ldo)


cdef inline void gauge(const lnn_sweep* s, const real* strip, const real* y, int64_t y_step, int64_t outs,
                       real* sums) noexcept nogil:
    if real is float:
        lnn_gauge_f32(s, strip, y, y_step, outs, sums)
    else:
        lnn_gauge_f64(s, strip, y, y_step, outs, sums)


cdef inline void settle(const real* sums, int64_t n, real* out) noexcept nogil:
    if real is float:
        lnn_settle_f32(sums, n, out)
    else:
        lnn_settle_f64(sums, n, out)
