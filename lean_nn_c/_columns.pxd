"""The columns of a tap product: output cells, as strips to be packed or as runs that are also runs of plane cells.

Packed, a strip is any run of output cells in their own order, brought together from pieces of plane rows (`cut`, `bring`).

In place, output cells are numbered with the planes' pitch, so that neighbours in a row are neighbours in memory and a
whole tile of columns shifts by one offset per tap. Between two rows lie a few cells that are no outputs ("garbage
columns"): they are computed and not stored. Flattening more axes makes longer runs but more garbage; `choose_runs`
weighs the two.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy

from lean_nn_c._geometry cimport MAX_RANK
from lean_nn_c._simd cimport piece
from lean_nn_c._types cimport real

cdef enum:
    MAX_TILE = 128          # columns of the widest tile: 8 vectors of 16 floats


cdef struct Columns:
    int rank
    int inner                   # axes inner..rank-1 are flattened into one run
    int64_t count[MAX_RANK]     # output cells per axis
    int64_t q[MAX_RANK]         # plane cells per axis
    int64_t pitch[MAX_RANK]
    int64_t step[MAX_RANK]      # distance in the output array of neighbours on an axis
    int64_t base, dest          # plane index and output index of the first cell
    int64_t length              # columns of a run, garbage included
    int64_t per_run, tiles      # tiles of a run, of all runs
    int64_t width               # columns of a full tile
    bint direct                 # nothing may be read past the end of a run


cdef struct Segment:
    int64_t dest
    int64_t column, length


cdef struct Spot:               # one tile
    int64_t base
    int vectors, segments
    bint whole                  # one segment, the full width, unit step: store straight from the registers
    Segment segment[MAX_TILE]


cdef struct Piece:
    int64_t base, dest          # plane index, output index
    int64_t column, length


cdef struct Strip:              # some output cells in order: where they are read and where they go
    int pieces
    Piece piece[MAX_TILE]


cdef inline int64_t cells_of(const Columns* c) noexcept nogil:
    cdef int i
    cdef int64_t cells = 1
    for i in range(c.rank):
        cells *= c.count[i]
    return cells


cdef inline bint is_dense(const Columns* c) noexcept nogil:
    """Whether the cells are neighbours in the output array, too."""
    cdef int i
    cdef int64_t step = 1
    for i in range(c.rank - 1, -1, -1):
        if c.step[i] != step and c.count[i] > 1:
            return False
        step *= c.count[i]
    return True


cdef inline void across_samples(Columns* c, int64_t samples, int64_t pitch, int64_t step) noexcept nogil:
    """Let strips run on from one sample to the next: one more axis, outside."""
    cdef int i
    for i in range(c.rank, 0, -1):
        c.count[i], c.pitch[i], c.step[i] = c.count[i - 1], c.pitch[i - 1], c.step[i - 1]
    c.count[0], c.pitch[0], c.step[0] = samples, pitch, step
    c.rank += 1


cdef inline void cut(const Columns* c, int64_t first, int64_t columns, Strip* s) noexcept nogil:
    """Cells first .. first+columns."""
    cdef int64_t at[MAX_RANK]
    cdef int64_t rest = first, column = 0, base, dest, room
    cdef int i, last = c.rank - 1
    cdef Piece* before
    for i in range(last, -1, -1):
        at[i] = rest % c.count[i]
        rest //= c.count[i]
    s.pieces = 0
    while column < columns:
        base, dest = c.base, c.dest
        for i in range(c.rank):
            base += at[i] * c.pitch[i]
            dest += at[i] * c.step[i]
        room = min(c.count[last] - at[last], columns - column)
        before = &s.piece[max(s.pieces - 1, 0)]
        if s.pieces and before.base + before.length == base and before.dest + before.length * c.step[last] == dest:
            before.length += room           # a row that begins where the one before ends
        else:
            s.piece[s.pieces].base, s.piece[s.pieces].dest = base, dest
            s.piece[s.pieces].column, s.piece[s.pieces].length = column, room
            s.pieces += 1
        column += room
        at[last] = 0
        for i in range(last - 1, -1, -1):
            at[i] += 1
            if at[i] < c.count[i]:
                break
            at[i] = 0


cdef inline void bring(const Strip* s, const int64_t* off, int64_t terms, const real* planes, int64_t width,
                       real* strip) noexcept nogil:
    """Some terms of a strip, brought together from the planes."""
    cdef int i
    for i in range(s.pieces):
        piece(planes + s.piece[i].base, off, terms, s.piece[i].length, width, strip + s.piece[i].column)


cdef inline void join(const Columns* c, Strip* s) noexcept nogil:
    """Pieces that are neighbours in the output array become one: only where they go counts from now on."""
    cdef int i, kept = 0
    if c.step[c.rank - 1] != 1:
        return
    for i in range(1, s.pieces):
        if s.piece[i].dest == s.piece[kept].dest + s.piece[kept].length:
            s.piece[kept].length += s.piece[i].length
        else:
            kept += 1
            s.piece[kept] = s.piece[i]
    s.pieces = kept + 1


cdef inline void spread(const Columns* c, const Strip* s, int64_t rows, const real* sums, int64_t lds,
                        real* out, int64_t ldo) noexcept nogil:
    """Sums of a strip to their places."""
    cdef int64_t m, j, step = c.step[c.rank - 1]
    cdef int i
    cdef const real* source
    cdef real* to
    for m in range(rows):
        for i in range(s.pieces):
            source, to = sums + m * lds + s.piece[i].column, out + m * ldo + s.piece[i].dest
            if step == 1:
                memcpy(to, source, s.piece[i].length * sizeof(real))
            elif step == 2:                 # a constant step lets the compiler do better
                for j in range(s.piece[i].length):
                    to[2 * j] = source[j]
            else:
                for j in range(s.piece[i].length):
                    to[step * j] = source[j]


cdef inline double tile_cost(int64_t vectors, int64_t rows, int64_t terms) noexcept nogil:
    """Half cycles of one tile: two multiply-adds start per cycle, eight must be under way; and a call."""
    return <double>terms * max(rows * vectors, 8) + 120 if vectors else 0


cdef inline void choose_runs(Columns* c, int64_t width, int64_t lanes, int64_t rows, int64_t terms) noexcept nogil:
    """Flatten as many axes as makes the tiles cheapest."""
    cdef int i, last = c.rank - 1
    cdef int64_t runs = 1, length = 1, rest
    cdef double cost, least = -1
    c.width = width
    for i in range(c.rank):
        runs *= c.count[i]
    for i in range(last, -1, -1):
        length += (c.count[i] - 1) * c.pitch[i]
        runs //= c.count[i]
        rest = (length % width + lanes - 1) // lanes
        cost = length // width * tile_cost(width // lanes, rows, terms) + tile_cost(rest, rows, terms)
        if i < last:        # tiles that straddle two rows are stored piece by piece
            cost += (length // c.q[last] + 1) * rows * 40.0
        if least < 0 or runs * cost < least:
            least = runs * cost
            c.inner = i
            c.length = length
            c.per_run = (length + width - 1) // width
            c.tiles = runs * c.per_run


cdef inline void locate(const Columns* c, int64_t index, int lanes, Spot* s) noexcept nogil:
    """Where tile `index` reads and which of its columns go where."""
    cdef int64_t run = index // c.per_run, start = (index % c.per_run) * c.width, dest = c.dest
    cdef int64_t stop = min(start + c.width, c.length), j, rest, at, place, room
    cdef int i, last = c.rank - 1
    cdef bint inside
    s.base = c.base
    for i in range(c.inner - 1, -1, -1):
        at = run % c.count[i]
        run //= c.count[i]
        s.base += at * c.pitch[i]
        dest += at * c.step[i]
    s.vectors = <int>((stop - start + lanes - 1) // lanes)
    j = start
    if c.direct and start + s.vectors * lanes > c.length:
        start = c.length - s.vectors * lanes            # step back instead of reading past the end
    s.base += start
    s.segments = 0
    while j < stop:
        rest, place, inside = j, dest, True
        for i in range(c.inner, last + 1):
            at = rest // c.pitch[i]
            rest -= at * c.pitch[i]
            place += at * c.step[i]
            inside = inside and at < c.count[i]
        room = min(c.count[last] - at, stop - j)        # `at` is now the place in the row
        if inside:
            s.segment[s.segments].dest = place
            s.segment[s.segments].column = j - start
            s.segment[s.segments].length = room
            s.segments += 1
        j += max(room, 1) if inside else c.q[last] - at
    s.whole = (s.segments == 1 and s.segment[0].column == 0 and s.segment[0].length == s.vectors * lanes
               and c.step[last] == 1)
