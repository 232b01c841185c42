"""What standard.h offers: standardisation of groups and its slopes, in phases of tasks; and how a step runs them."""

from cython.parallel cimport prange

from lean_nn_c._openmp cimport omp_get_thread_num
from lean_nn_c._types cimport real
from lean_nn_c.step cimport STEP_DONE, STEP_NO_MEMORY, give_scratch, take_scratch
from lean_nn_c.threads cimport threads_for

cdef extern from "standard.h" nogil:
    enum:
        LNN_ROLES
    ctypedef struct lnn_standard:
        Py_ssize_t A, G, B
        double eps
        int tangents, relu
        Py_ssize_t S, W
        void* scratch
        const void* x
        const void* t
        const void* v
        void* first
        void* second
        void* first_dot
        void* second_dot
        double left
        int alone
    ctypedef void (*lnn_standard_run)(const lnn_standard*, int, Py_ssize_t) noexcept nogil
    void lnn_standard_set(lnn_standard*, int, void*)
    size_t lnn_standard_plan(lnn_standard*, size_t)
    Py_ssize_t lnn_standard_tasks(const lnn_standard*, int)
    void lnn_standard_task_f32(const lnn_standard*, int, Py_ssize_t)
    void lnn_standard_task_f64(const lnn_standard*, int, Py_ssize_t)


cdef inline void* pick(char** at, int number) noexcept nogil:
    return at[number] if number >= 0 else NULL


cdef inline char* further(char* at, Py_ssize_t bytes) noexcept nogil:
    return NULL if at == NULL else at + bytes


cdef inline void run_tasks(lnn_standard_run f, const lnn_standard* job, int phase, Py_ssize_t tasks, int threads) noexcept nogil:
    cdef Py_ssize_t task
    if threads == 1:
        for task in range(tasks):
            f(job, phase, task)
        return
    for task in prange(tasks, num_threads=threads, schedule="static"):
        f(job, phase, task)


cdef struct StandardPlan:
    lnn_standard job
    Py_ssize_t outer            # jobs one after another, each on its part of the arrays
    double empty                # what `first` and `second` are where a group has no element
    int number[LNN_ROLES]       # where the array of each role stands among the step's; −1 where there is none


cdef inline void fill_empty(void* to, Py_ssize_t n, double value, real unused) noexcept nogil:
    cdef Py_ssize_t i
    if to != NULL:
        for i in range(n):
            (<real*>to)[i] = <real>value


cdef inline void run_part(lnn_standard_run f, const lnn_standard* job, Py_ssize_t o, char* scratch, Py_ssize_t size, Py_ssize_t item,
                          int threads) noexcept nogil:
    """Job `o` of those one after another, in `size` bytes of scratch."""
    cdef lnn_standard own = job[0]
    cdef Py_ssize_t cells = job.A * job.G * job.B
    cdef int phase = 0
    own.scratch = scratch
    own.x, own.v = further(<char*>job.x, o * cells * item), further(<char*>job.v, o * cells * item)
    own.second, own.second_dot = further(<char*>job.second, o * job.G * item), further(<char*>job.second_dot, o * job.G * item)
    if job.alone:       # the means are nobody's result
        own.first = scratch + size - job.G * item
    while lnn_standard_tasks(&own, phase):
        run_tasks(f, &own, phase, lnn_standard_tasks(&own, phase), threads)
        phase += 1


cdef inline int run_standard(const void* plan, char** at, real unused) noexcept nogil:
    cdef const StandardPlan* p = <const StandardPlan*>plan
    cdef lnn_standard job = p.job
    cdef lnn_standard_run f
    cdef Py_ssize_t numbers, size, o, item = sizeof(real)
    cdef char* scratch = NULL
    cdef int role, crews = threads_for(p.outer * job.A * job.G * job.B * 4)     # threads that take whole jobs; 1: they share each
    for role in range(LNN_ROLES):
        lnn_standard_set(&job, role, pick(at, p.number[role]))
    if job.A * job.G * job.B == 0:
        numbers = p.outer * job.G if job.alone else job.W if job.W and job.t != NULL and not job.tangents else job.G
        fill_empty(job.first, numbers, p.empty, unused)
        fill_empty(job.second, numbers, p.empty, unused)
        fill_empty(job.first_dot, numbers, p.empty, unused)
        fill_empty(job.second_dot, numbers, p.empty, unused)
        return STEP_DONE
    if p.outer < 2 * crews:
        crews = 1
    size = (<Py_ssize_t>lnn_standard_plan(&job, sizeof(real)) + (job.G * item if job.alone else 0) + 63) // 64 * 64
    if size:
        scratch = <char*>take_scratch(crews * size)
        if scratch == NULL:
            return STEP_NO_MEMORY
    if real is float:
        f = lnn_standard_task_f32
    else:
        f = lnn_standard_task_f64
    if crews == 1:
        for o in range(p.outer):
            run_part(f, &job, o, scratch, size, item, threads_for(job.A * job.G * job.B * 4))
    else:
        for o in prange(p.outer, num_threads=crews, schedule="static"):
            run_part(f, &job, o, scratch + omp_get_thread_num() * size, size, item, 1)
    if size:
        give_scratch(scratch)
    return STEP_DONE


cdef inline int standard_f32(const void* plan, char** at) noexcept nogil:
    return run_standard(plan, at, <float>0)


cdef inline int standard_f64(const void* plan, char** at) noexcept nogil:
    return run_standard(plan, at, <double>0)
