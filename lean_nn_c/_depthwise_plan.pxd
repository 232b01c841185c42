"""The plan of _depthwise.pxd, and who computes which planes. Compiled once; the level that was chosen at import computes."""

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from lean_nn_c._depthwise cimport (
    LNN_DEPTH_ANY, LNN_DEPTH_OWN, LNN_DEPTH_RUN, LNN_DEPTH_SHARED, LNN_DEPTH_SLID, Depthwise, Kind, Listed, Place, column,
)
from lean_nn_c._geometry cimport MAX_RANK, Geometry
from lean_nn_c._openmp cimport omp_get_thread_num
from lean_nn_c._queue cimport Queue, draw, open_queue
from lean_nn_c._simd cimport SPARE_LINE, aligned
from lean_nn_c._tail cimport lnn_tail
from lean_nn_c._types cimport real
from lean_nn_c.step cimport give_scratch, take_scratch
from lean_nn_c.taps cimport DONE, NO_MEMORY, depthwise_plane, depthwise_sums, depthwise_total, end_row, level, threads_of

cdef enum:
    NARROW = 32         # bytes of the shortest vectors for which this is compiled
    PLAN = 131072       # bytes of places, masks and lists
    PLANE = 131072      # bytes of a plane
    ROOM = 4096         # bytes beside a plane that vectors may read
    SUMS = 65536        # bytes of a part's sums, if it is not a single plane's
    FAR = 16777216      # bytes of image and results that no cache holds
    LARGE = 8192        # bytes of a plane,
    PAGE = 4096         # and of a page: caches foresee nothing across its end
    STRIP_ROWS = 8      # rows that strips take at a time (strips.h, LNN_TALL)
    SHARES = 8          # parts of the planes per thread
    STREAMS = 2         # and of conv_weight's channels, which are read side by side


cdef inline bint see(Depthwise* s, const Geometry* g, bint transposed, int item) noexcept nogil:
    """Look at a geometry; False: this algorithm does not suit it."""
    cdef int i, last = g.rank - 1, row = last - 1
    cdef int64_t far
    cdef double places = 1, bytes
    s.g, s.item, s.bytes = g[0], item, level().bytes
    s.lanes = s.bytes // item
    if s.bytes < NARROW or g.rank < 2 or g.cg != 1 or (transposed and g.og != 1) or g.stride[last] > 1 or min(g.cells, g.outs) == 0:
        return False
    for i in range(g.rank if transposed else 0):
        s.g.inp[i], s.g.out[i] = g.out[i], g.inp[i]
        s.g.pad[i] = g.dil[i] * (g.ker[i] - 1) - g.pad[i]
        if g.stride[i] > 1:
            return False
    if transposed:
        s.g.cells, s.g.outs = g.outs, g.cells
    s.width = s.g.out[last]
    s.together = 1
    if s.g.inp[last] == s.width and g.stride[row] == 1:
        s.together = max(min(s.lanes // s.width, s.g.out[row]), <int64_t>1)
    s.blocks = (s.width + s.lanes - 1) // s.lanes
    s.height = (s.g.out[row] + s.together - 1) // s.together
    s.slices = s.g.outs // (s.g.out[row] * s.width)
    for i in range(last):
        # one more where the last vector has rows that do not exist
        far = s.height * s.together if i == row else s.g.out[i]
        s.span[i] = (far - 1) * s.g.stride[i] + (s.g.ker[i] - 1) * s.g.dil[i] + 1
        places *= s.span[i]
    s.groups = 2 * s.together + 2
    bytes = (s.blocks * (places * sizeof(Place) + (s.groups * g.ker[last] + 2.0) * s.bytes + 2.0 * s.height * sizeof(Place))
             + (2.0 * g.taps + s.slices) * sizeof(int64_t))
    far = (g.ker[last] - 1) * g.dil[last]
    s.before = max(s.g.pad[last], <int64_t>0) + (s.together - 1) * s.width
    s.behind = far + max(s.width - s.g.inp[last] - s.g.pad[last], <int64_t>0) + s.together * s.width + s.lanes
    s.places = <int64_t>min(places, 1e9)
    return bytes <= PLAN and max(g.cells, g.outs) <= PLANE // item and max(s.before, s.behind) <= ROOM // item


cdef inline double filled(int64_t cells, int64_t grain) noexcept nogil:
    """What part of whole grains so many cells are."""
    return cells / <double>((cells + grain - 1) // grain * grain)


cdef inline bint ahead(const Depthwise* s, bint weight) noexcept nogil:
    """Whether this is ahead of strips, of windows of 3 columns with no stride or dilation; of others it is not.

    Measured on Zen 5, 1 thread, 700 layers of 3 x 3 in both types, rows of 4 to 112, 1 to 32 samples. Vectors of 64 bytes: 1.1 to 1.8
    times as fast where they are better filled than those of 32 bytes, eight rows high, by which strips go, and up to 3 where there
    are many such planes; conv_weight 1.05 to 1.5 times on rows of a vector or longer. Vectors of 32 bytes: 1.2 times on rows of 7
    and 14, and conv_weight 1.0 to 1.3. Planes from afar that are large, or whole pages, are not foreseen as well as by a copy. Of rows
    so short that a vector takes several those of 7 pay; others are left to channels side by side (_deep.pxd).
    """
    cdef int i, last = s.g.rank - 1
    cdef int64_t plane = s.g.cells * s.item
    cdef bint wide = s.bytes == 64, broad = s.item == 8
    if s.g.og > 1 or s.g.ker[last] != 3:
        return False
    for i in range(s.g.rank):
        if s.g.stride[i] > 1 or s.g.dil[i] > 1:
            return False
    if s.blocks > 1 and (plane >= LARGE or plane % PAGE == 0) and s.g.n * (s.g.c * s.g.cells + s.g.o * s.g.outs) > FAR // s.item:
        return False
    if weight:
        return s.width > (3 * s.lanes // 4 if wide else 14) and (wide or not broad)
    if s.g.rank > 2 or s.width > (64 if broad else 48):
        return False
    if not wide:
        return not broad and (s.width == 7 or s.width == 14)
    if s.together > 1:
        return s.width == 7
    return 1.15 * filled(s.width, s.lanes) >= filled(s.width, 32 // s.item) * filled(s.g.out[0], STRIP_ROWS)


cdef inline bint depthwise_suits(const Geometry* g, bint transposed, bint weight, bint best, int item) noexcept nogil:
    """Whether `depthwise_conv`, or `depthwise_weight`, computes this, and (`best`) faster than strips."""
    cdef Depthwise s
    return see(&s, g, transposed, item) and (not best or ahead(&s, weight))


cdef inline const char* mask_rows(const Depthwise* s, Listed* p, int64_t block, int64_t first) noexcept nogil:
    """Which lanes of a block see a cell, per kernel column: of the rows from `first` on, which may lie outside."""
    cdef int64_t k, lane, row, x, last = s.g.rank - 1
    cdef char* mask = p.mask
    memset(mask, 0, s.g.ker[last] * s.bytes)
    p.mask += s.g.ker[last] * s.bytes
    for k in range(s.g.ker[last]):
        for lane in range(min(s.lanes, s.together * s.width)):
            row, x = first + lane // s.width, lane % s.width + column(s, block) - s.g.pad[last] + k * s.g.dil[last]
            if 0 <= row < s.g.inp[last - 1] and 0 <= x < s.g.inp[last]:
                memset(mask + k * s.bytes + lane * s.item, 255, s.item)
    return mask


cdef inline void list_block(const Depthwise* s, Listed* p, int64_t block) noexcept nogil:
    """The places of a block of every row, and their masks: rows are inside, outside, or begin above or end below the plane."""
    cdef int64_t at[MAX_RANK]
    cdef int64_t i, axis, offset, pitch, first, row = s.g.rank - 2, rows = s.g.inp[row]
    cdef int64_t ends = max(rows - s.together + 1, <int64_t>0)
    cdef const char* outside = mask_rows(s, p, block, rows)
    cdef const char* inside = mask_rows(s, p, block, 0)
    cdef const char* partly = p.mask
    cdef int64_t size = s.g.ker[row + 1] * s.bytes
    cdef Place* place = p.place + block * s.places
    cdef bint exists
    for i in range(s.together - 1):
        mask_rows(s, p, block, i - s.together + 1)
    for i in range(s.together - 1):
        mask_rows(s, p, block, ends + i)
    memset(&at[0], 0, sizeof(at))
    for i in range(s.places):
        offset, pitch, exists = column(s, block) - s.g.pad[row + 1], s.g.inp[row + 1], True
        first = at[row] - s.g.pad[row]
        for axis in range(row, -1, -1):
            offset += (at[axis] - s.g.pad[axis]) * pitch
            pitch *= s.g.inp[axis]
            exists = exists and (-s.together if axis == row else -1) < at[axis] - s.g.pad[axis] < s.g.inp[axis]
        place[i].at = offset if exists else 0
        place[i].mask = (outside if not exists else partly + (first + s.together - 1) * size if first < 0 else
                         partly + (first - ends + s.together - 1) * size if first + s.together > rows else inside)
        for axis in range(row, -1, -1):
            at[axis] += 1
            if at[axis] < s.span[axis]:
                break
            at[axis] = 0


cdef inline void list_own(const Depthwise* s, Listed* p, int64_t block) noexcept nogil:
    """Where results lie in a column of them; a mask leaves out what another vector has, or none."""
    cdef int64_t i, lane, cells = s.g.out[s.g.rank - 2] * s.width
    cdef int64_t first = block * s.lanes - column(s, block), live = min(s.lanes, s.together * s.width)
    cdef Place* place = p.own + block * s.height
    cdef char* mask = p.mask
    memset(mask, 0, 2 * s.bytes)
    p.mask += 2 * s.bytes
    for lane in range(first, live):
        memset(mask + lane * s.item, 255, s.item)
        if (s.height - 1) * s.together * s.width + lane < cells or s.together == 1:
            memset(mask + s.bytes + lane * s.item, 255, s.item)
    for i in range(s.height):
        place[i].at, place[i].mask = i * s.together * s.width + column(s, block), mask if i + 1 < s.height else mask + s.bytes


cdef inline int64_t place_of(const Depthwise* s, int64_t index, const int64_t* sizes, const int64_t* steps, int axes) noexcept nogil:
    """The place of the sums of coordinates `index` has, an index of so many axes of these sizes, times these steps."""
    cdef int64_t place = 0, pitch = 1
    cdef int axis
    for axis in range(s.g.rank - 2, -1, -1):
        if axis < axes:
            place += index % sizes[axis] * steps[axis] * pitch
            index //= sizes[axis]
        pitch *= s.span[axis]
    return place


cdef inline Kind kind_of(const Depthwise* s, bint shared) noexcept nogil:
    """How tiles go."""
    cdef int last = s.g.rank - 1
    cdef bint nine = s.g.ker[last] == 3 and s.g.taps == 9 and s.g.ker[last - 1] == 3
    if s.bytes < 64:
        return LNN_DEPTH_SHARED if shared else LNN_DEPTH_ANY
    if nine and s.lanes == 16 and s.g.dil[last] == 1 and s.together * s.width + 2 <= s.lanes:
        return LNN_DEPTH_SLID if shared else LNN_DEPTH_OWN
    return LNN_DEPTH_SHARED if nine and shared else LNN_DEPTH_ANY


cdef inline void list_plan(const Depthwise* s, Listed* p, char* memory) noexcept nogil:
    """Everything, in PLAN bytes of memory that begin a cache line."""
    cdef int last = s.g.rank - 1
    cdef int64_t r, i, left, height = s.g.ker[last - 1]
    cdef int64_t* row
    cdef int64_t* run
    p.d.columns, p.d.column_step, p.d.rows = s.g.ker[last], s.g.dil[last], s.g.taps // s.g.ker[last]
    p.d.step = s.g.stride[last - 1] * s.together
    p.d.shared = p.d.step == s.g.dil[last - 1]
    p.d.kind = kind_of(s, p.d.shared)
    p.mask = memory
    p.place = <Place*>(memory + s.blocks * (s.groups * s.g.ker[last] + 2) * s.bytes)
    p.own = p.place + s.blocks * s.places
    row = <int64_t*>(p.own + s.blocks * s.height)
    run = row + p.d.rows
    p.d.row, p.d.run, p.slice = row, run, run + p.d.rows
    for i in range(s.blocks):
        list_block(s, p, i)
        list_own(s, p, i)
    for r in range(p.d.rows):
        row[r] = place_of(s, r, s.g.ker, s.g.dil, last)
        # rows that share places are neighbours of one column of kernel rows
        i, left = (r % height, height) if p.d.shared else (r, p.d.rows)
        run[r] = LNN_DEPTH_RUN if i // LNN_DEPTH_RUN * LNN_DEPTH_RUN + LNN_DEPTH_RUN <= left else 1
    for i in range(s.slices):
        p.slice[i] = place_of(s, i, s.g.out, s.g.stride, last - 1)


# --- planes ---


cdef inline const real* roomy(const Depthwise* s, const real* array, int64_t plane, int64_t planes, int64_t cells,
                              real* copy) noexcept nogil:
    """A plane of the array; where its neighbourhood is not all in the array, a copy with room around it."""
    if plane * cells >= s.before and (planes - plane - 1) * cells >= s.behind:
        return array + plane * cells
    memcpy(copy + s.before, array + plane * cells, cells * sizeof(real))
    return <const real*>copy + s.before


cdef inline int64_t desk_bytes(const Depthwise* s) noexcept nogil:
    """A plane of either array with its room, in whole cache lines."""
    return ((max(s.g.cells, s.g.outs) + s.before + s.behind) * s.item + 63) // 64 * 64


cdef inline real* open_desks(const Depthwise* s, Listed* p, int64_t size, int threads, const real* unused) noexcept nogil:
    """Scratch with the plan in it and, per thread, `size` bytes; NULL: there is none."""
    cdef real* memory = <real*>take_scratch(PLAN + threads * size + SPARE_LINE * sizeof(real))
    if memory != NULL:
        list_plan(s, p, <char*>aligned(memory))
    return memory


cdef inline real* desk_at(real* memory, int thread, int64_t size) noexcept nogil:
    return <real*>(<char*>aligned(memory) + PLAN + thread * size)


cdef inline void depth_planes(const Depthwise* s, const Listed* p, bint transposed, const real* source, const real* w, const real* b,
                              const lnn_tail* tail, real* out, int64_t parts, int64_t part, real* desk) noexcept nogil:
    """A part of the planes of results."""
    cdef int64_t planes = s.g.n * s.g.o, first = planes * part // parts, stop = planes * (part + 1) // parts
    cdef int64_t i, o = first % s.g.o, c = first // s.g.og      # counted, not divided: a small plane takes as long as two divisions
    cdef int64_t more = s.g.og - first % s.g.og, sources = s.g.n * s.g.c
    cdef const real* weight
    for i in range(first, stop):
        weight = w + o * s.g.taps
        depthwise_plane(s, p, roomy(s, source, c, sources, s.g.cells, desk), weight + s.g.taps - 1 if transposed else weight,
                    -1 if transposed else 1, b[o] if b != NULL else <real>0, out + i * s.g.outs)
        if tail != NULL:
            end_row(tail, out + i * s.g.outs, s.g.outs)
        o = o + 1 if o + 1 < s.g.o else 0
        more -= 1
        if more == 0:
            more = s.g.og
            c += 1


cdef inline int depthwise_conv(const Geometry* g, bint transposed, const real* source, const real* w, const real* b,
                               const lnn_tail* tail, real* out) noexcept nogil:
    """conv, or conv_input (`transposed`), of a geometry that suits."""
    cdef Depthwise s
    cdef Listed plan
    cdef int threads = threads_of(g)
    cdef int64_t i, parts
    cdef real* memory
    cdef Queue queue
    see(&s, g, transposed, sizeof(real))
    parts = min(s.g.n * s.g.o, <int64_t>(SHARES * threads if threads > 1 else 1))
    memory = open_desks(&s, &plan, desk_bytes(&s), threads, w)
    if memory == NULL:
        return NO_MEMORY
    open_queue(&queue, parts, threads)
    for i in prange(parts, schedule="dynamic", num_threads=threads):
        depth_planes(&s, &plan, transposed, source, w, b, tail, out, parts, draw(&queue, omp_get_thread_num()),
                     desk_at(memory, omp_get_thread_num(), desk_bytes(&s)))
    give_scratch(memory)
    return DONE


# --- gradients of the weight ---


cdef inline void depth_outputs(const Depthwise* s, const Listed* p, const real* x, const real* y_bar, real* w_bar, int64_t parts,
                               int64_t part, real* desk) noexcept nogil:
    """w_bar of a part of the outputs, samples in order."""
    cdef int64_t first = s.g.o * part // parts, stop = s.g.o * (part + 1) // parts
    cdef int64_t o, n, one = s.g.taps * s.lanes, plane = desk_bytes(s) // <int64_t>sizeof(real)
    cdef real* own = desk + plane
    cdef real* sums = own + plane
    memset(sums, 0, (stop - first) * one * sizeof(real))
    for n in range(s.g.n):
        for o in range(first, stop):
            depthwise_sums(s, p, roomy(s, x, n * s.g.c + o // s.g.og, s.g.n * s.g.c, s.g.cells, desk),
                       roomy(s, y_bar, n * s.g.o + o, s.g.n * s.g.o, s.g.outs, own), sums + (o - first) * one)
    depthwise_total(<const real*>sums, (stop - first) * s.g.taps, w_bar + first * s.g.taps)


cdef inline int depthwise_weight(const Geometry* g, const real* x, const real* y_bar, real* w_bar) noexcept nogil:
    """conv_weight of a geometry that suits."""
    cdef Depthwise s
    cdef Listed plan
    cdef int threads = threads_of(g)
    cdef int64_t i, parts, size, most
    cdef real* memory
    cdef Queue queue
    see(&s, g, False, sizeof(real))
    most = max(SUMS // (s.g.taps * s.bytes), <int64_t>1)
    parts = min(s.g.o, max((s.g.o + most - 1) // most, <int64_t>(STREAMS * threads if threads > 1 else 1)))
    size = 2 * desk_bytes(&s) + (s.g.o + parts - 1) // parts * s.g.taps * s.bytes
    memory = open_desks(&s, &plan, size, threads, x)
    if memory == NULL:
        return NO_MEMORY
    open_queue(&queue, parts, threads)
    for i in prange(parts, schedule="dynamic", num_threads=threads):
        depth_outputs(&s, &plan, x, y_bar, w_bar, parts, draw(&queue, omp_get_thread_num()),
                      desk_at(memory, omp_get_thread_num(), size))
    give_scratch(memory)
    return DONE
