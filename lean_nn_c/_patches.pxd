"""Windows that hardly overlap, read where they lie: no planes.

With stride s the window of output p begins at cell p*s, and the cells of one of its rows are neighbours. Where nothing is
padded, such rows can be brought into strips straight from the image: those of several windows turned in registers, for conv;
as they are, for conv_weight, whose columns they are. Planes would copy the image once more, apart by phases, only to have
every strip bring phases together: that pays where windows overlap, and each phase serves many taps. (8 x 96 x 56 x 56 to 16,
4 x 4 stride 4: conv 1.5 to 2 times as fast, conv_weight 1.6; 4 x 4 x 4 stride 4, 128 channels of 11 x 11 x 11 to 8: conv_weight
2.5 times; 4 x 6 x 80 x 9 to 64, 8 x 8 stride 8: conv 3.4 times.)
"""

from libc.stdint cimport int64_t

from lean_nn_c._columns cimport Columns
from lean_nn_c._geometry cimport MAX_RANK, Geometry, covers_cells
from lean_nn_c._planes cimport Planes
from lean_nn_c._taps cimport BLOCK

cdef enum:
    NEAR = 524288               # bytes of a group's image up to which windows are not called in


cdef struct Rows:               # terms that are neighbours in the image
    int64_t count
    int64_t start[BLOCK]
    int64_t length[BLOCK]


cdef inline bint patches_pay(const Geometry* g, int itemsize) noexcept nogil:
    """Whether windows are strided, inside the image, hardly overlap, and have rows of three floats or more."""
    cdef int i, last = g.rank - 1
    cdef double read = 1
    for i in range(g.rank):
        if g.pad[i] != 0 or covers_cells(g, i) > g.inp[i]:
            return False
        read *= <double>g.ker[i] / g.stride[i]
    return g.stride[last] > 1 and g.dil[last] == 1 and g.ker[last] * itemsize >= 12 and read <= 1


cdef inline void patches_of_image(Planes* p, const Geometry* g) noexcept nogil:
    """The image as planes on which the windows of neighbouring outputs lie a stride apart."""
    cdef int i
    cdef int64_t pitch = 1
    p.rank, p.direct, p.patches, p.cells, p.channel = g.rank, True, True, NULL, g.cells
    for i in range(g.rank - 1, -1, -1):
        p.q[i], p.pitch[i] = g.out[i], g.stride[i] * pitch
        pitch *= g.inp[i]


cdef inline void rows_of_terms(const int64_t* off, int64_t terms, Rows* r) noexcept nogil:
    cdef int64_t k
    r.count = 0
    for k in range(terms):
        if k == 0 or off[k] != off[k - 1] + 1:
            r.start[r.count], r.length[r.count] = off[k], 0
            r.count += 1
        r.length[r.count - 1] += 1


cdef inline void list_windows(const Columns* c, int64_t first, int64_t count, int64_t* off) noexcept nogil:
    """Where the windows of outputs first .. first+count begin; those that there are not repeat the last one."""
    cdef int64_t at[MAX_RANK]
    cdef int64_t rest = first, index, base = c.base
    cdef int i
    for i in range(c.rank - 1, -1, -1):
        at[i] = rest % c.count[i]
        rest //= c.count[i]
        base += at[i] * c.pitch[i]
    for index in range(count):
        off[index] = base
        i = c.rank - 1
        while i >= 0 and at[i] == c.count[i] - 1:
            i -= 1
        if i < 0:
            continue
        at[i] += 1
        base += c.pitch[i]
        for i in range(i + 1, c.rank):
            base -= at[i] * c.pitch[i]
            at[i] = 0
