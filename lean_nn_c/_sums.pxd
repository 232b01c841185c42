"""Sums in a fixed order: the bits depend on the length alone, not on threads or vector width.

A contiguous row is cut into chunks of CHUNK; a chunk is added into LANES interleaved accumulators, these are
added as a tree, and the chunks pairwise. Columns are added GROUP rows at a time, the groups pairwise.
A result therefore collects at most 31 + ⌈log₂(n/32)⌉ roundings (`reduce.roundings`), not n.
"""

from lean_nn_c._types cimport real

cdef enum:
    LANES = 32
    CHUNK = 512
    GROUP = 32
    COLUMNS = 64


cdef inline real chunk_sum(const real* x, Py_ssize_t n) noexcept nogil:
    cdef real lane[LANES]
    cdef Py_ssize_t i = 0, k
    cdef Py_ssize_t width = LANES // 2
    if n <= 8:
        lane[0] = 0
        for i in range(n):
            lane[0] += x[i]
        return lane[0]
    for k in range(LANES):
        lane[k] = 0
    while i + LANES <= n:
        for k in range(LANES):
            lane[k] += x[i + k]
        i += LANES
    for k in range(n - i):
        lane[k] += x[i + k]
    while width > 0:
        for k in range(width):
            lane[k] += lane[k + width]
        width //= 2
    return lane[0]


cdef inline Py_ssize_t half(Py_ssize_t n, Py_ssize_t unit) noexcept nogil:
    """About half of n, in whole units."""
    return ((n + unit - 1) // unit + 1) // 2 * unit


cdef inline real row_sum(const real* x, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t h
    if n <= CHUNK:
        return chunk_sum(x, n)
    h = half(n, CHUNK)
    return row_sum(x, h) + row_sum(x + h, n - h)


cdef inline void column_sum(const real* x, Py_ssize_t rows, Py_ssize_t pitch, int columns, real* acc) noexcept nogil:
    """acc[k] = Σ x[r·pitch + k] for k < columns ≤ COLUMNS."""
    cdef real rest[COLUMNS]
    cdef Py_ssize_t r, h
    cdef int k
    if rows > GROUP:
        h = half(rows, GROUP)
        column_sum(x, h, pitch, columns, acc)
        column_sum(x + h * pitch, rows - h, pitch, columns, rest)
        for k in range(columns):
            acc[k] += rest[k]
        return
    for k in range(columns):
        acc[k] = 0
    for r in range(rows):
        for k in range(columns):
            acc[k] += x[r * pitch + k]
