"""conv and conv_input as products over taps (see _planes.pxd, _columns.pxd, simd.h).

With the planes in place both are one matrix product over k = (channel, tap),
out[m, j] = sum_k A[m, k] * planes[off[k] + j]:

=============  ========================  ============================  =============================================
contraction    rows m                    A[m, (channel, tap)]          output classes
=============  ========================  ============================  =============================================
conv           output channels           w[m, channel, tap]            one
conv_input     input channels            w[channel, m, tap]            one per residue of the stride that has taps,
                                                                       or all at once (_phases.pxd), or windows (_fold.pxd)
=============  ========================  ============================  =============================================

_points.pxd turns the product round, and needs no planes.

Where much of what a class would multiply is padding, it is cut into bands with fewer taps (_bands.pxd).

With many rows the weight is packed into panels and the planes strip by strip, as in gemm.pyx: a strip of at most BLOCK
terms stays in the first-level cache, is read aligned, and holds output cells only. With few rows (grouped layers)
packing would cost more than it saves: the planes are read where they lie (_in_place.pxd).

k runs in blocks of whole channels (_taps.pxd); the blocks' partial sums are added in order, so the bits of an output
depend on the geometry alone. Threads own tiles of outputs. Where the cells of a class are strided in the output, a
thread collects its sums first and spreads them once.

Error: |y^ - y| <= gamma_n sum |x||w| with n = terms + 1 (the bias). Temporary space: padded planes of one sample per
thread (or SPARE bytes of smaller ones, ROOM bytes of samples with few outputs), and less than 0.5 MB per thread.
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from lean_nn_c._bands cimport Boxes, next_class, runs_fit, share_left
from lean_nn_c._columns cimport MAX_TILE, Columns, across_samples, cells_of, is_dense
from lean_nn_c._depthwise cimport Depthwise, Listed, depth_plane, depth_sums, depth_total
from lean_nn_c._fold cimport fold_pays, folded
from lean_nn_c._geometry cimport MAX_RANK, Geometry
from lean_nn_c._in_place cimport in_place
from lean_nn_c._packed cimport packed, scratch_of
from lean_nn_c._patches cimport patches_of_image, patches_pay
from lean_nn_c._planes cimport Cells, Planes, fill_channel, list_cells, planes_of_image, planes_of_output
from lean_nn_c._openmp cimport omp_get_thread_num
from lean_nn_c._phases cimport Phases, mixed, open_phases, phase_panels, phase_unit, phases_pay, places_of, residues
from lean_nn_c._pointwise cimport is_pointwise, pack_weight as pack_panels, pointwise
from lean_nn_c._queue cimport Queue, draw, holds, open_queue
from lean_nn_c._simd cimport (
    LNN_BYTES, LNN_FULL, LNN_ROWS, SPARE_LINE, aligned, columns_of, finish, lanes, lnn_vectors, piece, turn, whole_lines,
)
from lean_nn_c._sweeps cimport lnn_sweep, sweep_rows
from lean_nn_c._tail cimport lnn_tail
from lean_nn_c._taps cimport ABREAST, BLOCK, Taps, covers, split_terms, table_length
from lean_nn_c._types cimport real
from lean_nn_c.gemm cimport FEW, PANEL_BYTES, SLIM, Split, split_work
from lean_nn_c.step cimport count_from, counted, give_scratch, hold_scratch, probing, take_scratch
from lean_nn_c.threads cimport threads_for

cdef enum:
    PRIVATE = 131072        # bytes of a group's planes that a thread fills for itself
    SPARE = 524288          # bytes per thread that small planes of several samples may take together
    COLUMNS = 4096          # that suffice for packing the weight not to count,
    ROOM = 4194304          # and bytes that planes may take for them
    GATHERED = 16           # strips whose sums are collected, if they consist of several blocks, before they are spread; of all
                            # residues twice as many


# --- who computes what ---


cdef void unit(const Columns* c, const Taps* t, bint transposed, int64_t groups, int64_t samples, int64_t m,
               const real* a, int64_t a_group, int64_t lda, const real* planes, int64_t p_group, const real* bias,
               real* out, int64_t ldo, Queue* queue, int thread, Split s, real* scratch) noexcept nogil:
    """One part of a class: some tiles of one sample and group, or some rows and strips of a group."""
    cdef int64_t index = draw(queue, thread), part_t = index % s.t, part_m = index // s.t % s.m, item = index // (s.t * s.m)
    cdef int64_t group = item % groups, strips
    a += group * a_group
    if bias != NULL:
        bias += group * m
    if m < FEW:
        in_place(c, t, <int>m, a, lda, planes + item * p_group, bias, out + item * m * ldo, ldo,
                 c.tiles * part_t // s.t, c.tiles * (part_t + 1) // s.t)
    else:
        strips = (cells_of(c) + c.width - 1) // c.width * samples
        packed(c, t, transposed, a, lda, planes + group * p_group, groups * p_group, bias, out + group * m * ldo,
               groups * m * ldo, ldo, m * part_m // s.m, m * (part_m + 1) // s.m, strips * part_t // s.t,
               strips * (part_t + 1) // s.t, holds(queue, thread, index // s.t), scratch)


cdef int run_class(const Columns* c, const Taps* t, bint transposed, int64_t samples, int64_t groups, int64_t m,
                   const real* a, int64_t a_group, int64_t lda, const real* planes, int64_t p_group, const real* bias,
                   real* out, int64_t ldo, int threads) noexcept nogil:
    """All samples and groups of one output class. How it is split decides who computes, never what."""
    cdef int64_t i, units, strips = (cells_of(c) + c.width - 1) // c.width * samples, size = 0
    cdef bint dense = is_dense(c)
    cdef real* memory = NULL
    cdef Split s
    cdef Queue queue
    if m < FEW:
        s = split_work(samples * groups, m, m, m, c.tiles, 16, threads)
        units = samples * groups * s.m * s.t
    else:
        s = split_work(groups, m, most_rows(a), 24, strips, 64 if dense or t.blocks == 1 else GATHERED, threads)
        units = groups * s.m * s.t
        size = scratch_of((m + s.m - 1) // s.m, c.width, 0 if dense else 1 if t.blocks == 1 else (strips + s.t - 1) // s.t)
        memory = <real*>take_scratch((threads * size + SPARE_LINE) * sizeof(real))
    if memory == NULL and (m >= FEW or probing()):
        return NO_MEMORY
    open_queue(&queue, units, threads)
    for i in prange(units, schedule="dynamic", num_threads=threads):
        unit(c, t, transposed, groups, samples, m, a, a_group, lda, planes, p_group, bias, out, ldo, &queue,
             omp_get_thread_num(), s, aligned(memory) + omp_get_thread_num() * size)
    give_scratch(memory)
    return DONE


cdef int64_t samples_at_once(const Geometry* g, const Planes* p, bint transposed, int64_t columns, int itemsize) noexcept nogil:
    """One sample's planes per thread, or as many small ones as fit in SPARE bytes per thread; more where a sample has few
    columns, for all of which the weight is packed (320 channels of 4 x 4 x 4 outputs to 80: 0.8 of the time)."""
    cdef int64_t bytes = max((g.o if transposed else g.c) * p.channel * itemsize, <int64_t>1)
    cdef int64_t few = min(COLUMNS // columns, ROOM // bytes)
    return g.n if p.direct else min(g.n, max(threads_of(g) * max(SPARE // bytes, <int64_t>1), few))


cdef int threads_of(const Geometry* g) noexcept nogil:
    """For n*o*outs*cg*taps multiply-adds, of which a core does eight at a time."""
    return threads_for(<Py_ssize_t>min(<double>g.n * g.o * g.outs * g.cg * g.taps / 8, 1e18))


cdef void channel_planes(const Planes* p, const real* src, real* dst) noexcept nogil:
    """`fill_channel`; it is long, and this is the one copy, for taps_weight.pyx as well."""
    fill_channel(p, src, dst)


cdef void pack_columns(const real* src, const int64_t* off, int nv, const int64_t* run, const int64_t* length, int64_t runs,
                       real* dst) noexcept nogil:
    """`columns_of`, likewise."""
    columns_of(src, off, nv, run, length, runs, dst)


cdef void turn_rows(const real* src, int64_t lds, int64_t rows, int64_t cols, real* dst, int64_t ldd) noexcept nogil:
    """`turn`, for points, which are compiled once."""
    turn(src, lds, rows, cols, dst, ldd)


cdef void end_row(const lnn_tail* tail, real* out, int64_t n) noexcept nogil:
    """`finish`, likewise."""
    finish(tail, out, n)


cdef Level level() noexcept nogil:
    cdef Level l
    l.bytes, l.vectors = LNN_BYTES, LNN_FULL
    return l


cdef void wide_rows(int mr, const lnn_sweep* s, int64_t channels, const real** w, const real* strip, const real* start,
                    real* sums, bint fresh, bint final, real* out, int64_t ldo) noexcept nogil:
    """`sweep_rows` by vectors of 64 bytes, for strips, whose module is built for those of 32 at most (_strips.pxd, `widens`)."""
    if LNN_BYTES > 32:
        sweep_rows(mr, s, channels, w, strip, start, sums, fresh, final, out, ldo)


cdef void depthwise_plane(const Depthwise* s, const Listed* p, const real* plane, const real* w, int64_t w_step, real start,
                          real* out) noexcept nogil:
    """`depth_plane`, for _depthwise_plan.pxd, which is compiled once. Vectors of 16 bytes never get here."""
    if LNN_BYTES > 16:
        depth_plane(s, p, plane, w, w_step, start, out)


cdef void depthwise_sums(const Depthwise* s, const Listed* p, const real* plane, const real* y_bar, real* sums) noexcept nogil:
    """`depth_sums`, likewise."""
    if LNN_BYTES > 16:
        depth_sums(s, p, plane, y_bar, sums)


cdef void depthwise_total(const real* sums, int64_t n, real* w_bar) noexcept nogil:
    """`depth_total`, likewise."""
    if LNN_BYTES > 16:
        depth_total(sums, n, w_bar)


cdef void pack_piece(const real* src, const int64_t* off, int64_t kn, int64_t length, int64_t width, real* dst) noexcept nogil:
    """`piece`, likewise."""
    piece(src, off, kn, length, width, dst)


cdef void cells_of_planes(Planes* p, Cells* c, int64_t channels) noexcept nogil:
    """`list_cells`, likewise."""
    list_cells(p, c, channels)


cdef double affordable(const Geometry* g) noexcept nogil:
    """Plane cells per sample beyond which planes are not worth having."""
    return 16 * (<double>g.c * g.cells + <double>g.o * g.outs + <double>g.o * g.cg * g.taps) + 1e6


cdef void own_planes(const Columns* c, const Taps* t, const Planes* p, bint transposed, int64_t channels, int64_t cells,
                     int64_t groups, int64_t m, const real* source, const real* a, int64_t a_group, int64_t lda,
                     const real* bias, const lnn_tail* tail, real* out, int64_t ldo, int64_t image,
                     real* planes) noexcept nogil:
    """One sample's group, on planes of the thread's own: small ones are read while they are in its cache."""
    cdef int64_t i, group = image % groups, size = whole_lines(channels * p.channel + MAX_TILE)
    cdef int64_t blocks = (m + most_rows(planes) - 1) // most_rows(planes)
    for i in range(channels):
        channel_planes(p, source + (image * channels + i) * cells, planes + i * p.channel)
    memset(planes + size - MAX_TILE, 0, MAX_TILE * sizeof(real))
    a += group * a_group
    out += image * m * ldo
    if bias != NULL:
        bias += group * m
    if m < FEW:
        in_place(c, t, <int>m, a, lda, <const real*>planes, bias, out, ldo, 0, c.tiles)
    for i in range(blocks if m >= FEW else 0):
        packed(c, t, transposed, a, lda, <const real*>planes, 0, bias, out, 0, ldo, m * i // blocks,
               m * (i + 1) // blocks, 0, (cells_of(c) + c.width - 1) // c.width, False, planes + size)
    finish(tail, out, m * ldo)


cdef int64_t most_rows(const real* unused) noexcept nogil:
    """Rows of the weight that are packed together."""
    return PANEL_BYTES // <int64_t>sizeof(real)


cdef int panelled_conv(const Geometry* g, bint transposed, const real* source, const real* packed, const real* bias,
                       const lnn_tail* tail, real* out) noexcept nogil:
    return pointwise(g, transposed, True, source, packed, bias, tail, out)


cdef void panelled_pack(const Geometry* g, bint transposed, const real* w, real* packed) noexcept nogil:
    pack_panels(g, transposed, w, packed)


cdef int taps_conv(const Geometry* g, bint transposed, const real* source, const real* w, const real* bias,
                   const lnn_tail* tail, real* out) noexcept nogil:
    """out[n, m] = bias[m] + sum over channels and taps of w * planes[n, channel, off(tap) + j], class by class: conv, or
    conv_input (`transposed`)."""
    cdef Planes p
    cdef Taps t
    cdef Cells cells
    cdef int64_t m = g.cg if transposed else g.og, channels = g.o if transposed else g.c
    cdef int status
    cdef double size = planes_of_output(&p, g, sizeof(real)) if transposed else planes_of_image(&p, g, sizeof(real))
    if size * channels > affordable(g):
        return UNSUITED
    if is_pointwise(g) and g.cg and g.og and (is_slim(channels // g.groups, g.cells) or not runs_on(g, m, g.cells, lanes(source))):
        return pointwise(g, transposed, False, source, w, bias, tail, out)
    if transposed and fold_pays(g, sizeof(real)):
        status = folded(g, source, w, bias, out, threads_of(g))
        if status == DONE:
            end_planes(tail, out, g.n * g.c, g.cells, threads_of(g))
        return status
    if not transposed and m >= FEW and patches_pay(g, sizeof(real)):
        patches_of_image(&p, g)
    cells_of_planes(&p, &cells, g.n * channels)
    if transposed and phases_pay(g):
        return by_phases(g, &p, source, w, bias, tail, out)
    t.channels, t.patches = channels // g.groups, p.patches
    t.a_channel = g.cg * g.taps if transposed else g.taps
    t.b_channel = p.channel
    p.direct = p.direct and (m >= FEW or runs_fit(g, &p, transposed, m, lnn_vectors(m) * lanes(source), t))
    t.a = <int64_t*>malloc(2 * table_length(g.taps) * sizeof(int64_t))
    if t.a == NULL:
        return NO_MEMORY
    t.b = t.a + table_length(g.taps)
    if transposed and not covers(g) and not probing():
        fill(out, bias, g.n * g.c, g.c, g.cells)
    if (not p.direct and t.channels * p.channel * <int64_t>sizeof(real) <= PRIVATE
            and is_whole(g, transposed, lanes(source)) and taps_left(g, transposed) == 1):
        status = on_own_planes(g, &p, &t, transposed, source, w, bias, tail, out)
    else:
        status = on_shared_planes(g, &p, &t, transposed, source, w, bias, tail, out)
    free(t.a)
    return status


cdef void fill(real* out, const real* bias, int64_t planes, int64_t channels, int64_t cells) noexcept nogil:
    """What cells get that no tap reaches."""
    cdef int64_t plane, i
    cdef real value
    for plane in range(planes):
        value = bias[plane % channels] if bias != NULL else 0
        for i in range(cells):
            out[plane * cells + i] = value


cdef void end_planes(const lnn_tail* tail, real* out, int64_t planes, int64_t cells, int threads) noexcept nogil:
    """What follows the sums of some planes, which have just been written."""
    cdef int64_t i, at_once = 8192 // max(cells, 1) + 1
    if tail == NULL:
        return
    for i in prange((planes + at_once - 1) // at_once, schedule="static", num_threads=threads):
        finish(tail, out + i * at_once * cells, min(at_once, planes - i * at_once) * cells)


cdef double taps_left(const Geometry* g, bint transposed) noexcept nogil:
    """The share of the products that bands (_bands.pxd) leave."""
    return share_left(g, transposed)


cdef bint runs_on(const Geometry* g, int64_t m, int64_t cells, int per_vector) noexcept nogil:
    """Whether strips run on from sample to sample: small ones would leave columns empty and have the weight packed for
    each (16 samples of 2 x 2 outputs: 2.2 times as fast; of 7 x 8: 1.25; ten strips is an estimate)."""
    return g.n > 1 and m >= FEW and cells < 10 * LNN_FULL * per_vector and g.rank < MAX_RANK


cdef bint is_slim(int64_t terms, int64_t cells) noexcept nogil:
    """Whether sums are so short that writing them is what costs: gemm.pyx writes along rows, strips are spread."""
    return terms <= SLIM and cells >= 32


cdef bint is_whole(const Geometry* g, bint transposed, int per_vector) noexcept nogil:
    """Whether there is one class of outputs, without gaps, and work for all threads in whole samples and groups."""
    cdef int i
    if runs_on(g, g.cg if transposed else g.og, g.cells if transposed else g.outs, per_vector):
        return False
    if transposed:
        for i in range(g.rank):
            if g.stride[i] != 1:
                return False
    return g.n * g.groups >= 2 * threads_of(g)


cdef int on_own_planes(const Geometry* g, const Planes* p, Taps* t, bint transposed, const real* source, const real* w,
                       const real* bias, const lnn_tail* tail, real* out) noexcept nogil:
    """Each sample's group on planes that a thread fills for itself."""
    cdef Columns c
    cdef Boxes b
    cdef int threads = threads_of(g)
    cdef int64_t m = g.cg if transposed else g.og, cells = g.outs if transposed else g.cells, i
    cdef int64_t ldo = g.cells if transposed else g.outs, lda = g.taps if transposed else g.cg * g.taps
    cdef int64_t width = lnn_vectors(m) * lanes(source), size = whole_lines(t.channels * p.channel + MAX_TILE)
    cdef real* memory
    cdef Queue queue
    if m >= FEW:
        size += scratch_of(min(m, most_rows(source)), width, 0)
    memory = <real*>take_scratch((threads * size + SPARE_LINE) * sizeof(real))
    if memory == NULL:
        return NO_MEMORY
    memset(&b, 0, sizeof(b))
    open_queue(&queue, g.n * g.groups, threads)
    if next_class(g, p, transposed, m, width, &b, &c, t):
        for i in prange(g.n * g.groups, schedule="dynamic", num_threads=threads):
            own_planes(&c, t, p, transposed, t.channels, cells, g.groups, m, source, w, g.og * g.cg * g.taps, lda,
                       bias, tail, out, ldo, draw(&queue, omp_get_thread_num()),
                       aligned(memory) + omp_get_thread_num() * size)
    give_scratch(memory)
    return DONE


cdef int on_shared_planes(const Geometry* g, const Planes* p, Taps* t, bint transposed, const real* source,
                          const real* w, const real* bias, const lnn_tail* tail, real* out) noexcept nogil:
    """Planes of a few samples at a time, filled by all threads, then class by class."""
    cdef Columns c
    cdef Boxes b
    cdef int threads = threads_of(g), status = DONE
    cdef int64_t m = g.cg if transposed else g.og, channels = g.o if transposed else g.c
    cdef int64_t cells = g.outs if transposed else g.cells, ldo = g.cells if transposed else g.outs
    cdef int64_t lda = g.taps if transposed else g.cg * g.taps
    cdef int64_t width = lnn_vectors(m) * lanes(source), at = 0, size, i
    cdef int64_t samples = samples_at_once(g, p, transposed, ldo, sizeof(real))
    cdef real* planes = NULL
    cdef size_t before
    cdef bint joined
    if not p.direct:
        size = samples * channels * p.channel + MAX_TILE
        planes = <real*>hold_scratch(size * sizeof(real))
        if planes == NULL:
            return NO_MEMORY
        memset(planes + size - MAX_TILE, 0, MAX_TILE * sizeof(real))
    before = counted()
    while at < g.n and (status == DONE or probing()):
        samples = min(samples, g.n - at)
        if not p.direct and not probing():
            for i in prange(samples * channels, schedule="static", num_threads=threads):
                channel_planes(p, source + (at * channels + i) * cells, planes + i * p.channel)
        memset(&b, 0, sizeof(b))
        while (status == DONE or probing()) and next_class(g, p, transposed, m, width, &b, &c, t):
            count_from(before)              # one class after the other: the largest counts
            joined = runs_on(g, m, cells_of(&c), lanes(source))
            if joined:
                across_samples(&c, samples, channels * p.channel, g.groups * m * ldo)
            status = run_class(&c, t, transposed, 1 if joined else samples, g.groups, m, w, g.og * g.cg * g.taps, lda,
                               source if p.direct else <const real*>planes, t.channels * p.channel, bias,
                               out + at * g.groups * m * ldo, ldo, threads)
        end_planes(tail, out + at * g.groups * m * ldo, samples * g.groups * m, ldo, threads)
        at += samples if not probing() else (g.n - at) // samples * samples     # to those that are left, who may take more
    give_scratch(planes)
    return status


cdef int by_phases(const Geometry* g, const Planes* p, const real* y_bar, const real* w, const real* bias,
                   const lnn_tail* tail, real* x_bar) noexcept nogil:
    """conv_input, strips for all residues of the stride; planes of a few samples at a time."""
    cdef Columns one, c
    cdef Taps t
    cdef Split s
    cdef Phases f
    cdef int threads = threads_of(g)
    cdef int64_t samples, at = 0, strips, size, room = 0, i, least
    cdef real* memory
    cdef real* planes
    cdef real* starts = NULL
    cdef Queue queue
    cdef bint joined
    f.residues, f.places = residues(g), places_of(g)
    f.sets = 1 if mixed(g) else f.residues
    t.count, t.channels, t.a_channel, t.b_channel = f.places, g.og, g.cg * g.taps, p.channel
    split_terms(&t)
    one.width = lnn_vectors(LNN_ROWS) * lanes(w)
    f.off = <int64_t*>malloc(((f.residues + 1) * f.places + t.together + ABREAST) * sizeof(int64_t))
    if f.off == NULL:
        return NO_MEMORY
    f.tap, t.a = f.off + f.places, f.off + (f.residues + 1) * f.places
    t.b = t.a + ABREAST
    for i in range(t.together):
        t.b[i] = i * p.channel
    for i in range(ABREAST):
        t.a[i] = i * t.a_channel
    open_phases(g, p, &one, &f)
    samples = samples_at_once(g, p, True, cells_of(&one), sizeof(real))
    if not p.direct:
        room = whole_lines(samples * g.o * p.channel + MAX_TILE)
    joined = runs_on(g, FEW, cells_of(&one), lanes(w))
    strips = (cells_of(&one) + one.width - 1) // one.width * samples
    least = 1 if f.sets == 1 else (FEW + 1) // 2        # channels that are rows of a panel at least: so many it must have
    s = split_work(g.groups, g.cg, max(most_rows(w) * 2 // (3 * f.residues), 2 * least - 1), max(24 // f.residues, least),
                   strips, 64 if t.blocks == 1 else 2 * GATHERED, threads)
    i = (g.cg + s.m - 1) // s.m             # channels at once
    size = whole_lines(phase_panels(g, &f, &t, i) + BLOCK * one.width
                       + i * f.residues * one.width * (1 if t.blocks == 1 else (strips + s.t - 1) // s.t))
    memory = <real*>take_scratch((room + threads * size + SPARE_LINE + g.c * f.residues) * sizeof(real))
    if memory == NULL:
        free(f.off)
        return NO_MEMORY
    planes = aligned(memory)
    if bias != NULL:                # one per row
        starts = planes + room + threads * size
        fill(starts, bias, g.c, g.c, f.residues // f.sets)
    while at < g.n:
        samples, c = min(samples, g.n - at), one
        if joined:
            across_samples(&c, samples, g.o * p.channel, 0)
        if not p.direct:
            for i in prange(samples * g.o, schedule="static", num_threads=threads):
                channel_planes(p, y_bar + (at * g.o + i) * g.outs, planes + i * p.channel)
        open_queue(&queue, g.groups * s.m * s.t, threads)
        for i in prange(g.groups * s.m * s.t, schedule="dynamic", num_threads=threads):
            phase_unit(g, &f, &c, &t, w, y_bar + at * g.o * g.outs if p.direct else <const real*>planes,
                       g.og * p.channel, 1 if joined else samples, <const real*>starts, x_bar + at * g.c * g.cells,
                       &queue, omp_get_thread_num(), s, planes + room + omp_get_thread_num() * size)
        end_planes(tail, x_bar + at * g.c * g.cells, samples * g.c, g.cells, threads)
        at += samples
    give_scratch(memory)
    free(f.off)
    return DONE
