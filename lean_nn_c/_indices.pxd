"""Indices that kernels are given, checked before any value moves."""

from libc.stdint cimport int64_t

cdef inline bint inside(const int64_t* idx, Py_ssize_t count, Py_ssize_t n, int64_t skip, bint skips) noexcept nogil:
    """Whether every index is in 0 … n−1, or `skip` where there is such a one."""
    cdef Py_ssize_t i, outside = 0
    for i in range(count):
        outside += (idx[i] < 0 or idx[i] >= n) and not (skips and idx[i] == skip)
    return outside == 0
