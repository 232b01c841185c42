"""Copies between strided places: what transpose, slice, concat, pad, flip and broadcasting come down to.

A *move* copies the cells of a box: cell (i, j, …) of the source, at ``from + i·s_i + j·s_j + …``, to ``to + i·d_i + …``. Axes are
sorted by the target's distances and merged where both sides run on, so that most moves end as a few long `memcpy`s.
The rest is a loop over the two innermost axes (``boxes.h``); where the source runs fastest along the outer of the two (a
transpose) it goes by tiles, so that every cache line that is fetched is used up.

A step is a list of moves, after setting the target to one value if the moves do not cover it.
"""

from cython.parallel cimport prange
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free

from lean_nn_c.step cimport STEP_DONE, make_step
from lean_nn_c.threads cimport threads_for

cdef enum:
    AXES = 16           # after merging: far above what arrays have
    PIECES = 64         # the outermost axis is cut into at most so many parts, whatever the number of threads

cdef extern from "boxes.h" nogil:
    void lnn_plane(int, const char*, char*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t)
    void lnn_fill(int, char*, Py_ssize_t, uint64_t)

cdef struct Move:
    int source          # number of the operand
    int rank
    Py_ssize_t begin, to                # bytes
    Py_ssize_t size[AXES]               # innermost first
    Py_ssize_t source_step[AXES]        # bytes
    Py_ssize_t target_step[AXES]

cdef struct Plan:
    int target          # number of the operand that is written
    int item            # bytes of a cell: 1, 4 or 8
    bint fills
    uint64_t fill       # the bytes of the value
    Py_ssize_t cells    # of the target
    Py_ssize_t moved    # cells that the moves copy
    int moves
    Move move[1]        # as many as `moves`


cdef void some(const Move* m, int item, const char* src, char* dst, int axis, Py_ssize_t first, Py_ssize_t stop) noexcept nogil:
    """Cells first..stop of `axis`, and all of the axes inside it."""
    cdef Py_ssize_t i
    if axis <= 1:
        lnn_plane(item, src + first * m.source_step[1], dst + first * m.target_step[1], m.size[0], stop - first, m.source_step[0],
                  m.source_step[1], m.target_step[0], m.target_step[1])
        return
    for i in range(first, stop):
        some(m, item, src + i * m.source_step[axis], dst + i * m.target_step[axis], axis - 1, 0, m.size[axis - 1])


cdef void one_move(const Move* m, int item, const char* src, char* dst, int threads) noexcept nogil:
    cdef int top = m.rank - 1 if m.rank > 2 else 1
    cdef Py_ssize_t n = m.size[top], pieces = min(n, <Py_ssize_t>PIECES), i
    if threads == 1:
        some(m, item, src + m.begin, dst + m.to, top, 0, n)
        return
    for i in prange(pieces, num_threads=threads, schedule="static"):
        some(m, item, src + m.begin, dst + m.to, top, i * n // pieces, (i + 1) * n // pieces)


cdef void fill(const Plan* p, char* dst, int threads) noexcept nogil:
    cdef Py_ssize_t i, n = p.cells
    if threads == 1:
        lnn_fill(p.item, dst, n, p.fill)
        return
    for i in prange(PIECES, num_threads=threads, schedule="static"):
        lnn_fill(p.item, dst + i * n // PIECES * p.item, (i + 1) * n // PIECES - i * n // PIECES, p.fill)


cdef int run(const void* plan, char** arrays) noexcept nogil:
    cdef const Plan* p = <const Plan*>plan
    cdef char* dst = arrays[p.target]
    cdef int k
    if p.fills:
        fill(p, dst, threads_for(p.cells))
    for k in range(p.moves):
        one_move(&p.move[k], p.item, arrays[p.move[k].source], dst, threads_for(p.moved))
    return STEP_DONE


cdef int read_move(Move* m, int source, Py_ssize_t begin, Py_ssize_t to, axes) except -1:
    """`axes`: (size, source step, target step) in bytes each, innermost first; axes that run on are merged."""
    cdef int k
    m.source, m.begin, m.to, m.rank = source, begin, to, 0
    for size, source_step, target_step in axes:
        k = m.rank - 1
        if size == 1:
            continue
        if k >= 0 and source_step == m.source_step[k] * m.size[k] and target_step == m.target_step[k] * m.size[k]:
            m.size[k] *= size
            continue
        if m.rank == AXES:
            raise ValueError(f"move: at most {AXES} axes that do not merge; got more; reshape the array first")
        m.size[m.rank], m.source_step[m.rank], m.target_step[m.rank] = size, source_step, target_step
        m.rank += 1
    for k in range(m.rank, 2):
        m.size[k] = 1
        m.source_step[k] = m.target_step[k] = 0
    return 0


def move_step(str name, tuple sources, int item, Py_ssize_t cells, list moves, fill=None):
    """A step that copies boxes of cells.

    Parameters
    ----------
    sources : cells of each array that is read; the one behind them is written
    item : bytes of a cell, 1, 4 or 8
    cells : of the target
    moves : (number of the source, first byte there, first byte of the target, [(size, source step, target step), …])
        per box, steps in bytes, the target's fastest axis first; boxes lie inside the arrays (the caller's shapes say so)
    fill : the bytes of the value that the target has outside of the boxes; None where they cover it
    """
    cdef size_t size = sizeof(Plan) + max(len(moves), 1) * sizeof(Move)
    cdef Plan* p = <Plan*>calloc(1, size)
    cdef int i
    if p == NULL:
        raise MemoryError()
    try:
        if item != 1 and item != 4 and item != 8:
            raise ValueError(f"move: cells of 1, 4 or 8 bytes; got {item}")
        p.item, p.cells, p.moves, p.fills = item, cells, 0, fill is not None
        p.target = len(sources)
        p.fill = 0 if fill is None else int.from_bytes(fill, "little")
        for source, begin, to, axes in moves:
            count = 1
            for axis in axes:
                count *= axis[0]
            if not 0 <= source < len(sources):
                raise ValueError(f"move: sources are numbered 0 to {len(sources) - 1}; got {source}")
            if count == 0:
                continue
            read_move(&p.move[p.moves], source, begin, to, axes)
            p.moved += count
            p.moves += 1
        return make_step(name, run, p, size, tuple([item * n for n in (*sources, cells)]))
    finally:
        free(p)
