"""What lines.h offers: sums and extremes of lines, and the softmax family in tasks."""

from libc.stdint cimport int64_t

cdef extern from "lines.h" nogil:
    enum:
        COLUMNS "LNN_COLUMNS"
    enum:
        LOGSUMEXP "LNN_LOGSUMEXP"
        SOFTMAX "LNN_SOFTMAX"
        LOG_SOFTMAX "LNN_LOG_SOFTMAX"
        SOFT_SLOPE "LNN_SOFT_SLOPE"
        UNLOG "LNN_UNLOG"
        EXPECT "LNN_EXPECT"
        CROSS "LNN_CROSS"
        CROSS_BACK "LNN_CROSS_BACK"
        NLL "LNN_NLL"
        NLL_BACK "LNN_NLL_BACK"
    ctypedef struct lnn_lines:
        Py_ssize_t n, inner
        int kind, one
        double smooth, count
        int64_t ignore
        const void* x
        const void* t
        const void* g
        const void* even
        const int64_t* idx
        void* y
        void* dot
    float lnn_row_sum_f32(const float*, Py_ssize_t)
    double lnn_row_sum_f64(const double*, Py_ssize_t)
    void lnn_column_sum_f32(const float*, Py_ssize_t, Py_ssize_t, int, float*)
    void lnn_column_sum_f64(const double*, Py_ssize_t, Py_ssize_t, int, double*)
    void lnn_row_sums_f32(const float*, float*, Py_ssize_t, Py_ssize_t)
    void lnn_row_sums_f64(const double*, double*, Py_ssize_t, Py_ssize_t)
    void lnn_row_extremes_f32(const float*, float*, int64_t*, Py_ssize_t, Py_ssize_t, int)
    void lnn_row_extremes_f64(const double*, double*, int64_t*, Py_ssize_t, Py_ssize_t, int)
    void lnn_extreme_f32(const float*, float*, int64_t*, Py_ssize_t, Py_ssize_t, int, int)
    void lnn_extreme_f64(const double*, double*, int64_t*, Py_ssize_t, Py_ssize_t, int, int)
    ctypedef void (*lnn_soft_run)(const lnn_lines*, Py_ssize_t, Py_ssize_t) noexcept nogil
    Py_ssize_t lnn_counted(const int64_t*, Py_ssize_t, int64_t)
    void lnn_nll_f32(const lnn_lines*, Py_ssize_t, Py_ssize_t)
    void lnn_nll_f64(const lnn_lines*, Py_ssize_t, Py_ssize_t)
    Py_ssize_t lnn_soft_tasks(const lnn_lines*, Py_ssize_t)
    void lnn_soft_task_f32(const lnn_lines*, Py_ssize_t, Py_ssize_t)
    void lnn_soft_task_f64(const lnn_lines*, Py_ssize_t, Py_ssize_t)
