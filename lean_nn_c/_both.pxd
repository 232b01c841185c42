# A function's value and tangent as one loop of its own, where two operations of a chain would compute or read the same twice.

from cython.parallel cimport prange

from lean_nn_c._chain cimport CHAIN_TASK, chain_far
from lean_nn_c.threads cimport threads_for

cdef extern from "elementwise.h" nogil:
    ctypedef void (*lnn_both)(const void**, void*, void*, Py_ssize_t, bint) noexcept nogil

cdef enum:
    BOTH_INPUTS = 4

cdef struct BothPlan:
    lnn_both f
    int inputs                      # arguments, then the tangents of those that move
    Py_ssize_t step[BOTH_INPUTS]    # bytes from a cell of each to the next; 0: one number for all
    bint fetches                    # whether it fetches ahead of use, where arrays are large
    Py_ssize_t item, cells, cost


cdef inline void both_task(const BothPlan* p, char** at, bint far, Py_ssize_t first, Py_ssize_t cells) noexcept nogil:
    cdef const void* inputs[BOTH_INPUTS]
    cdef char** outputs = at + p.inputs
    cdef int k
    for k in range(p.inputs):
        inputs[k] = at[k] + first * p.step[k]
    p.f(inputs, outputs[0] + first * p.item, outputs[1] + first * p.item, cells, far)


cdef inline void both_run(const BothPlan* p, char** at) noexcept nogil:
    """Arguments and tangents ↦ value and tangent."""
    cdef Py_ssize_t i, tasks = (p.cells + CHAIN_TASK - 1) // CHAIN_TASK
    cdef int threads = threads_for(p.cells * p.cost)
    cdef bint far = p.fetches and chain_far((p.inputs + 2) * p.item * p.cells, threads)
    if threads == 1 or tasks == 1:
        both_task(p, at, far, 0, p.cells)
        return
    for i in prange(tasks, num_threads=threads, schedule="static"):
        both_task(p, at, far, i * CHAIN_TASK, min(<Py_ssize_t>CHAIN_TASK, p.cells - i * CHAIN_TASK))
