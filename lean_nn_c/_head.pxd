"""What may be done to a layer's image as it is read: x stands for relu(batch norm of x), which nobody writes down."""

from libc.stdint cimport int64_t

from lean_nn_c._types cimport real


cdef enum:
    HEADS = 4           # arrays of a head


cdef struct Head:       # one number per channel each
    const void* mean
    const void* rstd
    const void* w
    const void* b


cdef inline void read_head(Head* head, char** at) noexcept nogil:
    """From the arrays of a step."""
    head.mean, head.rstd, head.w, head.b = at[0], at[1], at[2], at[3]


cdef inline void head_numbers(const Head* head, int64_t channel, int64_t step, real* number) noexcept nogil:
    """(mean, scale, shift) of a channel, `step` apart."""
    number[0] = (<const real*>head.mean)[channel]
    number[step] = (<const real*>head.w)[channel] * (<const real*>head.rstd)[channel]
    number[2 * step] = (<const real*>head.b)[channel]
