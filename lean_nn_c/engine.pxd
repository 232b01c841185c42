from libc.stdint cimport int64_t, uint64_t


cdef class Primitive:
    cdef readonly str name
    cdef readonly object abstract, spec, cpu, jvp, vjp, accuracy, lane, view, step, dual
    cdef public object cuda  # filled when a CUDA device is first asked for
    cdef readonly tuple linear, differentiable_out, pointwise
    cdef readonly bint saves_output, checks_values
    cdef readonly dict plans, duals
    cdef readonly Py_ssize_t outputs


cdef class Trace:
    cdef public int level
    cdef public bint live
    cdef readonly list moving       # weak references to the values that have tangents


cdef class Node:
    cdef readonly int64_t id
    cdef readonly Primitive prim
    cdef readonly tuple inputs
    cdef readonly dict params
    cdef readonly tuple saved
    cdef readonly tuple avals
    cdef readonly uint64_t mask


cdef class Box:
    cdef readonly object data
    cdef readonly Node node
    cdef readonly Py_ssize_t index
    cdef readonly uint64_t mask
    cdef public dict tangents
    cdef public object grad
    cdef object __weakref__


cdef Box new_box(object data)
cdef uint64_t watching(uint64_t mask) noexcept
