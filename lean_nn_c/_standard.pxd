"""Standardisation of one group, x seen as (A, G, B): statistics per g over A and B, in two passes.

With n = A·B and m(v) the mean over the group::

    forward     z = (x − μ)·r,  μ = m(x),  r = 1/√(m((x − μ)²) + ε)
    tangent     ż = r·(t − m(t) − z·m(z·t)),  μ̇ = m(t),  ṙ = −r²·m(z·t)
    transpose   x̄ = r·(g − m(g) − z·m(z·g)) + ḡ_μ/n − r²·z·ḡ_r/n

Chunks are summed as in `_sums`, then added up in double.
"""

from lean_nn_c._sums cimport CHUNK, chunk_sum
from lean_nn_c._types cimport real

cdef extern from "<math.h>" nogil:
    double sqrt(double)


cdef inline double sum_chunk_product(const real* a, const real* b, Py_ssize_t n) noexcept nogil:
    cdef real buffer[CHUNK]
    cdef Py_ssize_t i
    for i in range(n):
        buffer[i] = a[i] * b[i]
    return chunk_sum(<const real*>buffer, n)


cdef inline double sum_chunk_square(const real* x, real centre, Py_ssize_t n) noexcept nogil:
    cdef real buffer[CHUNK]
    cdef Py_ssize_t i
    for i in range(n):
        buffer[i] = (x[i] - centre) * (x[i] - centre)
    return chunk_sum(<const real*>buffer, n)


cdef inline double group_sum(const real* x, Py_ssize_t A, Py_ssize_t pitch, Py_ssize_t B) noexcept nogil:
    cdef double total = 0
    cdef Py_ssize_t a, i, block, blocks = (B + CHUNK - 1) // CHUNK
    for a in range(A):
        for block in range(blocks):
            i = block * CHUNK
            total += chunk_sum(x + a * pitch + i, min(<Py_ssize_t>CHUNK, B - i))
    return total


cdef inline double group_square(const real* x, real centre, Py_ssize_t A, Py_ssize_t pitch, Py_ssize_t B) noexcept nogil:
    cdef double total = 0
    cdef Py_ssize_t a, i, block, blocks = (B + CHUNK - 1) // CHUNK
    for a in range(A):
        for block in range(blocks):
            i = block * CHUNK
            total += sum_chunk_square(x + a * pitch + i, centre, min(<Py_ssize_t>CHUNK, B - i))
    return total


cdef inline double group_product(const real* x, const real* z, Py_ssize_t A, Py_ssize_t pitch, Py_ssize_t B) noexcept nogil:
    cdef double total = 0
    cdef Py_ssize_t a, i, at, block, blocks = (B + CHUNK - 1) // CHUNK
    for a in range(A):
        for block in range(blocks):
            i = block * CHUNK
            at = a * pitch + i
            total += sum_chunk_product(x + at, z + at, min(<Py_ssize_t>CHUNK, B - i))
    return total


cdef inline void standardize_group(const real* x, real* z, real* mean, real* rstd, double eps,
                                   Py_ssize_t A, Py_ssize_t pitch, Py_ssize_t B) noexcept nogil:
    cdef double n = <double>(A * B)
    cdef Py_ssize_t a, i
    cdef real m = <real>(group_sum(x, A, pitch, B) / n)
    cdef real r = <real>(1.0 / sqrt(group_square(x, m, A, pitch, B) / n + eps))
    mean[0] = m
    rstd[0] = r
    for a in range(A):
        for i in range(a * pitch, a * pitch + B):
            z[i] = (x[i] - m) * r


cdef inline void tangent_group(const real* t, const real* z, real rstd, real* z_dot, real* mean_dot, real* rstd_dot,
                               Py_ssize_t A, Py_ssize_t pitch, Py_ssize_t B) noexcept nogil:
    cdef double n = <double>(A * B)
    cdef Py_ssize_t a, i
    cdef real m = <real>(group_sum(t, A, pitch, B) / n)
    cdef real s = <real>(group_product(t, z, A, pitch, B) / n)
    mean_dot[0] = m
    rstd_dot[0] = -rstd * rstd * s
    for a in range(A):
        for i in range(a * pitch, a * pitch + B):
            z_dot[i] = rstd * (t[i] - m - z[i] * s)


cdef inline void transpose_group(const real* g, real g_mean, real g_rstd, const real* z, real rstd, real* x_bar,
                                 Py_ssize_t A, Py_ssize_t pitch, Py_ssize_t B) noexcept nogil:
    cdef double n = <double>(A * B)
    cdef Py_ssize_t a, i
    cdef double m = group_sum(g, A, pitch, B) / n
    cdef double s = group_product(g, z, A, pitch, B) / n
    # x̄ = r·g + shift + z·slope, the last two constant over the group
    cdef real shift = <real>(g_mean / n - rstd * m)
    cdef real slope = <real>(-rstd * s - <double>rstd * rstd * g_rstd / n)
    for a in range(A):
        for i in range(a * pitch, a * pitch + B):
            x_bar[i] = rstd * g[i] + shift + z[i] * slope
