# An optimiser's update of some elements, and the numbers that its rule takes (elementwise_update.h).

from libc.math cimport pow, sqrt

from lean_nn_c._broadcast cimport BLOCK

cdef extern from "elementwise.h" nogil:
    ctypedef void (*lnn_update)(const void**, void**, const double*, Py_ssize_t) noexcept nogil

cdef enum:
    MAX_ARRAYS = 5      # of an update: parameter, gradient, three slots
    MAX_NUMBERS = 9     # of an update
    PLAIN = 0           # families of updates
    MOMENTUM = 1
    ADAM = 2
    RMSPROP = 3
    ADAGRAD = 4


cdef inline void update_block(lnn_update f, const char** src, char** dst, const double* numbers, int slots, Py_ssize_t item,
                       Py_ssize_t n, Py_ssize_t block) noexcept nogil:
    cdef const void* read[MAX_ARRAYS]
    cdef void* write[MAX_ARRAYS]
    cdef int k
    for k in range(slots + 2):
        read[k] = src[k] + block * BLOCK * item
    for k in range(slots + 1):
        write[k] = dst[k] + block * BLOCK * item
    f(read, write, numbers, min(BLOCK, n - block * BLOCK))


cdef struct UpdatePlan:
    lnn_update f
    int slots
    int family
    bint wide_rate, wide_count          # the types of the two numbers
    Py_ssize_t item, n
    double given[MAX_NUMBERS]           # weight decay, direction, and what the family has besides


cdef inline double number(const char* at, bint wide) noexcept nogil:
    return (<const double*>at)[0] if wide else (<const float*>at)[0]


cdef inline void numbers_of(const UpdatePlan* p, double rate, double count, double* c) noexcept nogil:
    """The numbers of a rule in the order of elementwise_update.h, worked out in double."""
    cdef const double* q = p.given
    c[0], c[1], c[2] = rate, q[0], q[1]
    if p.family == MOMENTUM:        # momentum, dampening, nesterov
        c[3], c[4], c[5] = q[2], 1.0 if count == 1 else 1.0 - q[3], q[4]
    elif p.family == ADAM:          # β₁, β₂, ε, whether the decay is decoupled
        c[0] = rate / (1.0 - pow(q[2], count))
        c[1] = 0.0 if q[5] != 0 else q[0]
        c[3] = 1.0 - rate * q[0] if q[5] != 0 else 1.0
        c[4], c[5], c[6], c[7], c[8] = 1.0 - q[2], q[3], 1.0 - q[3], 1.0 / sqrt(1.0 - pow(q[3], count)), q[4]
    elif p.family == RMSPROP:       # α, ε, momentum
        c[3], c[4], c[5], c[6] = q[2], 1.0 - q[2], q[3], q[4]
    elif p.family == ADAGRAD:       # ε, decay of the rate
        c[0], c[3] = rate / (1.0 + (count - 1.0) * q[3]), q[2]
