"""What standard.h offers: standardisation of groups and its slopes, in phases of tasks."""

cdef extern from "standard.h" nogil:
    ctypedef struct lnn_standard:
        Py_ssize_t A, G, B
        double eps
        const void* x
        const void* t
        const void* mean
        const void* rstd
        const void* w
        const void* b
        const void* g_mean
        const void* g_rstd
        void* y
        void* first
        void* second
        int tangents
        Py_ssize_t S, W
        void* scratch
        const void* v
        const void* w_dot
        const void* b_dot
        void* y_dot
        void* first_dot
        void* second_dot
    ctypedef void (*lnn_standard_run)(const lnn_standard*, int, Py_ssize_t) noexcept nogil
    size_t lnn_standard_plan(lnn_standard*, size_t)
    Py_ssize_t lnn_standard_tasks(const lnn_standard*, int)
    void lnn_standard_task_f32(const lnn_standard*, int, Py_ssize_t)
    void lnn_standard_task_f64(const lnn_standard*, int, Py_ssize_t)
