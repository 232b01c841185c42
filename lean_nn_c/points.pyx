"""conv, conv_input and conv_weight by points: see _points.pxd, and _points_weight.pxd; where they pay: _points_pay.pxd.

What takes the time are tiles (gemm.pyx) and packing (taps.pyx) of the level that was chosen at import; the rest is compiled once.

Error: gamma_n, as by taps. Temporary space: less than 1 MB per thread.
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t

from lean_nn_c._geometry cimport Geometry
from lean_nn_c._openmp cimport omp_get_thread_num
from lean_nn_c._points cimport Points, open_points, points_scratch, points_unit
from lean_nn_c._points_pay cimport points_before_strips, points_lead
from lean_nn_c._points_weight cimport Sums, lists_size, open_sums, sums_size, sums_unit
from lean_nn_c._queue cimport Queue, draw, open_queue
from lean_nn_c._simd cimport SPARE_LINE, aligned
from lean_nn_c._strips cimport Kind
from lean_nn_c._tail cimport lnn_tail
from lean_nn_c._types cimport real
from lean_nn_c.step cimport give_scratch, take_scratch
from lean_nn_c.taps cimport DONE, NO_MEMORY
from lean_nn_c.threads cimport threads_for


cdef int threads_of(const Geometry* g) noexcept nogil:
    """For n*o*outs*cg*taps multiply-adds, of which a core does eight at a time."""
    return threads_for(<Py_ssize_t>min(<double>g.n * g.o * g.outs * g.cg * g.taps / 8, 1e18))


cdef double points_gain(const Geometry* g, Kind kind, int itemsize) noexcept nogil:
    return points_lead(g, kind, itemsize)


cdef double points_limit(const Geometry* g, Kind kind, int itemsize) noexcept nogil:
    return points_before_strips(g, kind, itemsize)


cdef int points_conv(const Geometry* g, bint transposed, const real* source, const real* w, const real* bias,
                     const lnn_tail* tail, real* out) noexcept nogil:
    """conv, or conv_input (`transposed`)."""
    cdef Points p
    cdef int threads = threads_of(g)
    cdef int64_t i, size
    cdef char* memory
    cdef Queue queue
    open_points(&p, g, transposed, threads, sizeof(real))
    size = points_scratch(&p, g, sizeof(real))
    memory = <char*>take_scratch(threads * size)
    if memory == NULL:
        return NO_MEMORY
    open_queue(&queue, p.chunks * g.groups * p.parts, threads)
    for i in prange(p.chunks * g.groups * p.parts, schedule="dynamic", num_threads=threads):
        points_unit(&p, g, source, w, bias, tail, out, draw(&queue, omp_get_thread_num()), memory + omp_get_thread_num() * size)
    give_scratch(memory)
    return DONE


cdef int points_conv_weight(const Geometry* g, const real* x, const real* y_bar, real* w_bar) noexcept nogil:
    cdef Sums s
    cdef int threads = threads_of(g)
    cdef int64_t i, values, lists
    cdef char* memory
    cdef Queue queue
    open_sums(&s, g, threads, sizeof(real))
    values, lists = sums_size(&s, g), lists_size(&s, g)
    memory = <char*>take_scratch((threads * values + SPARE_LINE) * sizeof(real) + threads * lists * sizeof(int64_t))
    if memory == NULL:
        return NO_MEMORY
    open_queue(&queue, g.groups * s.channels * s.outputs, threads)
    for i in prange(g.groups * s.channels * s.outputs, schedule="dynamic", num_threads=threads):
        sums_unit(&s, g, x, y_bar, w_bar, draw(&queue, omp_get_thread_num()),
                  <int64_t*>(aligned(<real*>memory) + threads * values) + omp_get_thread_num() * lists,
                  aligned(<real*>memory) + omp_get_thread_num() * values)
    give_scratch(memory)
    return DONE
