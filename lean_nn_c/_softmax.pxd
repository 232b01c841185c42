"""exp of shifted rows and columns: what logsumexp, softmax and log_softmax share.

Each works on a line of `rows` values, either contiguous or `columns` lines side by side. The shift is the line's
maximum, so no exp overflows and at least one term is 1. A NaN in a line makes all its results NaN.
"""

from lean_nn_c._sums cimport CHUNK, COLUMNS, GROUP, chunk_sum
from lean_nn_c._types cimport real

cdef extern from "vmath.h" nogil:
    float lnn_vexp_f32(float)
    double lnn_vexp_f64(double)
    float lnn_vlog_f32(float)
    double lnn_vlog_f64(double)

cdef extern from "<math.h>" nogil:
    int isinf(double)

ctypedef enum Kind:
    LOGSUMEXP
    SOFTMAX
    LOG_SOFTMAX


cdef inline real exp_(real x) noexcept nogil:
    if real is float:
        return lnn_vexp_f32(x)
    else:
        return lnn_vexp_f64(x)


cdef inline real log_(real x) noexcept nogil:
    if real is float:
        return lnn_vlog_f32(x)
    else:
        return lnn_vlog_f64(x)


cdef inline real row_max(const real* x, Py_ssize_t n) noexcept nogil:
    """The maximum; NaN if there is one."""
    cdef real lane[32]
    cdef Py_ssize_t i = 0, k, width = 16
    if n < 32:
        lane[0] = x[0]
        for i in range(n):
            lane[0] = x[i] if x[i] > lane[0] or x[i] != x[i] else lane[0]
        return lane[0]
    for k in range(32):
        lane[k] = x[k]
    while i < n:
        if i + 32 > n:
            i = n - 32
        for k in range(32):
            lane[k] = lane[k] if lane[k] >= x[i + k] or lane[k] != lane[k] else x[i + k]
        i += 32
    while width > 0:
        for k in range(width):
            lane[k] = lane[k] if lane[k] >= lane[k + width] or lane[k] != lane[k] else lane[k + width]
        width //= 2
    return lane[0]


cdef inline void one_line(Kind kind, const real* x, real* y, Py_ssize_t n) noexcept nogil:
    """One contiguous line; y is the line's result, a single value for LOGSUMEXP."""
    cdef real buffer[CHUNK]
    cdef real shift = row_max(x, n), total = 0
    cdef Py_ssize_t block, i, k, size
    if kind == LOGSUMEXP and isinf(shift):
        y[0] = shift
        return
    for block in range((n + CHUNK - 1) // CHUNK):
        i = block * CHUNK
        size = min(<Py_ssize_t>CHUNK, n - i)
        for k in range(size):
            buffer[k] = exp_(x[i + k] - shift)
        if kind == SOFTMAX:     # by way of the buffer, which the compiler knows not to overlap with x
            for k in range(size):
                y[i + k] = buffer[k]
        total += chunk_sum(<const real*>buffer, size)
    if kind == LOGSUMEXP:
        y[0] = shift + log_(total)
    elif kind == SOFTMAX:
        for i in range(n):
            y[i] = y[i] / total
    else:
        total = log_(total)
        for i in range(n):
            y[i] = (x[i] - shift) - total


cdef inline void some_lines(Kind kind, const real* x, real* y, Py_ssize_t rows, Py_ssize_t pitch, int columns) noexcept nogil:
    """`columns` lines side by side, `pitch` apart from row to row."""
    cdef real shift[COLUMNS]
    cdef real total[COLUMNS]
    cdef real group[COLUMNS]
    cdef real e
    cdef Py_ssize_t r, block, first
    cdef int k
    for k in range(columns):
        shift[k] = x[k]
        total[k] = 0
    for r in range(1, rows):
        for k in range(columns):
            e = x[r * pitch + k]
            shift[k] = shift[k] if shift[k] >= e or shift[k] != shift[k] else e
    for block in range((rows + GROUP - 1) // GROUP):
        first = block * GROUP
        for k in range(columns):
            group[k] = 0
        for r in range(first, min(rows, first + GROUP)):
            for k in range(columns):
                e = exp_(x[r * pitch + k] - shift[k])
                group[k] += e
                if kind == SOFTMAX:
                    y[r * pitch + k] = e
        for k in range(columns):
            total[k] += group[k]
    if kind == LOGSUMEXP:
        for k in range(columns):
            y[k] = shift[k] if isinf(shift[k]) else shift[k] + log_(total[k])
        return
    if kind == LOG_SOFTMAX:
        for k in range(columns):
            total[k] = log_(total[k])
    for r in range(rows):
        for k in range(columns):
            if kind == SOFTMAX:
                y[r * pitch + k] = y[r * pitch + k] / total[k]
            else:
                y[r * pitch + k] = (x[r * pitch + k] - shift[k]) - total[k]
