"""What standard.h offers: standardisation of groups and its slopes, in phases of tasks; and how a step runs them."""

from cython.parallel cimport prange

from lean_nn_c._types cimport real
from lean_nn_c.step cimport STEP_DONE, STEP_NO_MEMORY, give_scratch, take_scratch
from lean_nn_c.threads cimport threads_for

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


cdef inline void* pick(char** at, int number) noexcept nogil:
    return at[number] if number >= 0 else NULL


cdef inline void run_tasks(lnn_standard_run f, const lnn_standard* job, int phase, Py_ssize_t tasks, int threads) noexcept nogil:
    cdef Py_ssize_t task
    if threads == 1:
        for task in range(tasks):
            f(job, phase, task)
        return
    for task in prange(tasks, num_threads=threads, schedule="static"):
        f(job, phase, task)


# Where each array of a job stands among the step's: its number, or −1 where there is none.
cdef struct StandardPlan:
    lnn_standard job
    double empty                # what `first` and `second` are where a group has no element
    int x, t, mean, rstd, w, b, g_mean, g_rstd, y, first, second, v, w_dot, b_dot, y_dot, first_dot, second_dot


cdef inline void fill_empty(void* to, Py_ssize_t n, double value, real unused) noexcept nogil:
    cdef Py_ssize_t i
    if to != NULL:
        for i in range(n):
            (<real*>to)[i] = <real>value


cdef inline int run_standard(const void* plan, char** at, real unused) noexcept nogil:
    cdef const StandardPlan* p = <const StandardPlan*>plan
    cdef lnn_standard job = p.job
    cdef lnn_standard_run f
    cdef size_t scratch
    cdef Py_ssize_t numbers
    cdef int phase = 0, threads = threads_for(job.A * job.G * job.B * 4)
    job.x, job.t, job.mean, job.rstd = pick(at, p.x), pick(at, p.t), pick(at, p.mean), pick(at, p.rstd)
    job.w, job.b, job.g_mean, job.g_rstd = pick(at, p.w), pick(at, p.b), pick(at, p.g_mean), pick(at, p.g_rstd)
    job.y, job.first, job.second = pick(at, p.y), pick(at, p.first), pick(at, p.second)
    job.v, job.w_dot, job.b_dot = pick(at, p.v), pick(at, p.w_dot), pick(at, p.b_dot)
    job.y_dot, job.first_dot, job.second_dot = pick(at, p.y_dot), pick(at, p.first_dot), pick(at, p.second_dot)
    if job.A * job.G * job.B == 0:
        numbers = job.W if job.W and job.t != NULL and not job.tangents else job.G
        fill_empty(job.first, numbers, p.empty, unused)
        fill_empty(job.second, numbers, p.empty, unused)
        fill_empty(job.first_dot, numbers, p.empty, unused)
        fill_empty(job.second_dot, numbers, p.empty, unused)
        return STEP_DONE
    scratch = lnn_standard_plan(&job, sizeof(real))
    if scratch:
        job.scratch = take_scratch(scratch)
        if job.scratch == NULL:
            return STEP_NO_MEMORY
    if real is float:
        f = lnn_standard_task_f32
    else:
        f = lnn_standard_task_f64
    while lnn_standard_tasks(&job, phase):
        run_tasks(f, &job, phase, lnn_standard_tasks(&job, phase), threads)
        phase += 1
    if scratch:
        give_scratch(job.scratch)
    return STEP_DONE


cdef inline int standard_f32(const void* plan, char** at) noexcept nogil:
    return run_standard(plan, at, <float>0)


cdef inline int standard_f64(const void* plan, char** at) noexcept nogil:
    return run_standard(plan, at, <double>0)
