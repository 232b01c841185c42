"""Convolution straight from the image: tap by tap over real cells only, and by strips where channels are few.

Tap by tap
----------
For one kernel cell k the output cells that read inside the image form a box: per axis  0 <= p*s + k*d - pad < S. The
walk visits that box row by row (unfold and fold walk the same cells). No padding cell is ever multiplied, so a weight
or a cotangent that is infinite meets no zero: this is the algorithm for such values, and for geometries whose planes
would be too large.

Every sum is one chain in row-major order of (channel, tap), or of rows for conv_weight. Error: gamma_n, as in taps.
Each thread owns whole planes of what it writes.

Strips
------
_strips.pxd derives them. A sum is one chain over (channel, tap), taps below each other together, from the bias on; for
conv_weight one chain per lane of a vector, and the lanes added at the end. Error: gamma_n. What a thread gets to
compute never decides how: the bits depend on the geometry alone.
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.string cimport memset

from lean_nn_c._deep cimport deep_bytes, deep_units, deep_weights
from lean_nn_c._geometry cimport MAX_RANK, Geometry, ceil_div, clip
from lean_nn_c._openmp cimport omp_get_thread_num
from lean_nn_c._queue cimport Queue, draw, open_queue
from lean_nn_c._simd cimport LNN_BYTES, LNN_ROWS, dots, finish, lnn_finite_f32, lnn_finite_f64
from lean_nn_c._strips cimport (
    ABREAST, CONV, CONV_INPUT, CONV_WEIGHT, LARGEST, Kind, Plan, Strips, cut, make_plan, open_plan, plan_bytes,
)
from lean_nn_c._strips_pay cimport lead, pay
from lean_nn_c._sweeps cimport LNN_TALL, fill_strip, gauge, loosen, settle, sweep_rows
from lean_nn_c._tail cimport lnn_tail
from lean_nn_c._types cimport real
from lean_nn_c.step cimport give_scratch, probing, take_scratch
from lean_nn_c.taps cimport DONE, NO_MEMORY, SPOILT, UNSUITED, wide_rows
from lean_nn_c.threads cimport threads_for

cdef enum:
    SUMS = 65536                # bytes of conv_weight's vectors of sums that a thread keeps


cdef bint all_finite(const real* x, int64_t n) noexcept nogil:
    if real is float:
        return lnn_finite_f32(x, n)
    else:
        return lnn_finite_f64(x, n)


cdef enum Op:
    GATHER      # y += w x
    SCATTER     # x += w y
    DOT         # *sum += x . y
    COPY        # y = x
    ADD         # x += y


cdef inline void row(Op op, int64_t count, int64_t step, real w, real* x, real* y, real* sum) noexcept nogil:
    cdef int64_t i
    cdef real total = 0
    cdef const real* left = x
    cdef const real* right = y
    if op == GATHER:
        for i in range(count):
            y[i] += w * x[i * step]
    elif op == SCATTER:
        for i in range(count):
            x[i * step] += w * y[i]
    elif op == COPY:
        for i in range(count):
            y[i] = x[i * step]
    elif op == ADD:
        for i in range(count):
            x[i * step] += y[i]
    elif step == 1:
        dots(1, 1, count, &left, &right, True, sum, 0, 0)
    else:
        for i in range(count):
            total += x[i * step] * y[i]
        sum[0] += total


cdef void walk(Op op, const Geometry* g, int64_t tap, real w, real* x, real* y, real* sum) noexcept nogil:
    """`op` on every row of the box of one tap; x is an image plane, y an output plane."""
    cdef int64_t low[MAX_RANK]
    cdef int64_t high[MAX_RANK]
    cdef int64_t at[MAX_RANK]
    cdef int64_t shift[MAX_RANK]
    cdef int64_t k, size_x = 1, size_y = 1, rows = 1, from_x, from_y
    cdef int64_t step_x[MAX_RANK]
    cdef int64_t step_y[MAX_RANK]
    cdef int i, last = g.rank - 1
    for i in range(last, -1, -1):
        k = tap % g.ker[i]
        tap //= g.ker[i]
        shift[i] = k * g.dil[i] - g.pad[i]
        low[i] = clip(ceil_div(-shift[i], g.stride[i]), 0, g.out[i])
        high[i] = clip(ceil_div(g.inp[i] - shift[i], g.stride[i]), low[i], g.out[i])
        step_x[i], step_y[i] = size_x, size_y
        size_x *= g.inp[i]
        size_y *= g.out[i]
        at[i] = low[i]
        if i < last:
            rows *= high[i] - low[i]
    if high[last] == low[last]:
        return
    while rows > 0:
        from_x = from_y = 0
        for i in range(last + 1):
            from_x += (at[i] * g.stride[i] + shift[i]) * step_x[i]
            from_y += at[i] * step_y[i]
        row(op, high[last] - low[last], g.stride[last], w, x + from_x, y + from_y, sum)
        rows -= 1
        for i in range(last - 1, -1, -1):
            at[i] += 1
            if at[i] < high[i]:
                break
            at[i] = low[i]


cdef int threads_of(const Geometry* g, double planes) noexcept nogil:
    return threads_for(<Py_ssize_t>min(planes * g.outs * g.taps, 1e18))


cdef void conv_plane(const Geometry* g, const real* x, const real* w, const real* b, const lnn_tail* tail, real* y,
                     int64_t unit) noexcept nogil:
    cdef int64_t n = unit // g.o, o = unit % g.o, group = o // g.og, c, tap, i
    cdef real* out = y + unit * g.outs
    for i in range(g.outs):
        out[i] = b[o] if b != NULL else 0
    for c in range(g.cg):
        for tap in range(g.taps):
            walk(GATHER, g, tap, w[(o * g.cg + c) * g.taps + tap],
                 <real*>x + (n * g.c + group * g.cg + c) * g.cells, out, NULL)
    finish(tail, out, g.outs)


cdef void direct_conv(const Geometry* g, bint transposed, const real* source, const real* w, const real* b,
                      const lnn_tail* tail, real* out) noexcept nogil:
    """conv, or conv_input (`transposed`)."""
    cdef int64_t unit, planes = g.n * (g.c if transposed else g.o)
    for unit in prange(planes, schedule="dynamic",
                       num_threads=threads_of(g, <double>planes * (g.og if transposed else g.cg))):
        if transposed:
            conv_input_plane(g, source, w, b, tail, out, unit)
        else:
            conv_plane(g, source, w, b, tail, out, unit)


cdef void conv_input_plane(const Geometry* g, const real* y_bar, const real* w, const real* b, const lnn_tail* tail,
                           real* x_bar, int64_t unit) noexcept nogil:
    cdef int64_t n = unit // g.c, c = unit % g.c, group = c // g.cg, i, o, tap
    cdef real* out = x_bar + unit * g.cells
    for i in range(g.cells):
        out[i] = b[c] if b != NULL else 0
    for i in range(g.og):
        o = group * g.og + i
        for tap in range(g.taps):
            walk(SCATTER, g, tap, w[(o * g.cg + c % g.cg) * g.taps + tap], out,
                 <real*>y_bar + (n * g.o + o) * g.outs, NULL)
    finish(tail, out, g.cells)


cdef void conv_weight_plane(const Geometry* g, const real* x, const real* y_bar, real* w_bar,
                            int64_t unit) noexcept nogil:
    cdef int64_t o = unit // g.cg, c = o // g.og * g.cg + unit % g.cg, n, tap
    cdef real sum
    for tap in range(g.taps):
        sum = 0
        for n in range(g.n):
            walk(DOT, g, tap, <real>0, <real*>x + (n * g.c + c) * g.cells, <real*>y_bar + (n * g.o + o) * g.outs, &sum)
        w_bar[unit * g.taps + tap] = sum


cdef void direct_conv_weight(const Geometry* g, const real* x, const real* y_bar, real* w_bar) noexcept nogil:
    cdef int64_t unit
    for unit in prange(g.o * g.cg, schedule="dynamic", num_threads=threads_of(g, <double>g.n * g.o * g.cg)):
        conv_weight_plane(g, x, y_bar, w_bar, unit)


cdef void unfold_plane(const Geometry* g, const real* x, real* cols, int64_t unit) noexcept nogil:
    cdef int64_t tap
    memset(cols + unit * g.taps * g.outs, 0, g.taps * g.outs * sizeof(real))
    for tap in range(g.taps):
        walk(COPY, g, tap, <real>0, <real*>x + unit * g.cells, cols + (unit * g.taps + tap) * g.outs, NULL)


cdef void direct_unfold(const Geometry* g, const real* x, real* cols) noexcept nogil:
    """cols[n, c, tap, p] = x~[n, c, p*s + tap*d - pad]."""
    cdef int64_t unit
    for unit in prange(g.n * g.c, schedule="dynamic", num_threads=threads_of(g, <double>g.n * g.c)):
        unfold_plane(g, x, cols, unit)


cdef void fold_plane(const Geometry* g, const real* cols, bint add, real* x_bar, int64_t unit) noexcept nogil:
    cdef int64_t tap
    if not add:
        memset(x_bar + unit * g.cells, 0, g.cells * sizeof(real))
    for tap in range(g.taps):
        walk(ADD, g, tap, <real>0, x_bar + unit * g.cells, <real*>cols + (unit * g.taps + tap) * g.outs, NULL)


cdef void direct_fold(const Geometry* g, const real* cols, bint add, real* x_bar) noexcept nogil:
    """x_bar[n, c, cell] = (add ? itself : 0) + sum of cols[n, c, tap, p] over the (tap, p) that read the cell, taps in order."""
    cdef int64_t unit
    for unit in prange(g.n * g.c, schedule="dynamic", num_threads=threads_of(g, <double>g.n * g.c)):
        fold_plane(g, cols, add, x_bar, unit)


# --- strips (_strips.pxd): the same sums for few channels, in registers ---


cdef struct Desk:               # a thread's own memory
    Plan* plan
    void* strip
    void* rest                  # conv_weight: y_bar in rows of whole vectors, and the vectors of sums


cdef int64_t rounded(int64_t bytes) noexcept nogil:
    return (bytes + 127) // 128 * 128


cdef char* open_desks(const Strips* s, int64_t rest, int desks, int64_t* size) noexcept nogil:
    """Memory for all desks, or NULL; `rest` in bytes."""
    cdef char* memory
    cdef int i
    size[0] = rounded(plan_bytes(s)) + rounded(s.cells * s.itemsize) + rounded(rest)
    memory = <char*>take_scratch(desks * size[0])
    if memory != NULL:
        for i in range(desks):
            open_plan(s, <Plan*>(memory + i * size[0]))
    return memory


cdef Desk desk_at(const Strips* s, const Geometry* g, char* memory, int64_t strip, int64_t rest) noexcept nogil:
    """The desk with its plan made for `strip`; what is on it and not `rest` bytes is cleared for a new one."""
    cdef Desk d
    d.plan = <Plan*>memory
    d.strip = memory + rounded(plan_bytes(s))
    d.rest = <char*>d.strip + rounded(s.cells * s.itemsize)
    if d.plan.strip != strip:
        make_plan(s, g, strip, d.plan)
        memset(d.strip, 0, rounded(s.cells * s.itemsize) + rest)
    return d


cdef void strip_units(const Strips* s, const Geometry* g, const real* source, const real* w, const real* b,
                      const lnn_tail* tail, real* out, char* memory, int64_t first, int64_t stop, int64_t m0,
                      int64_t m1) noexcept nogil:
    """Rows m0..m1 of weights on units first..stop of conv or conv_input; a unit is (strip, some samples, group)."""
    cdef int64_t unit, planes = g.n // s.together * g.groups
    cdef int64_t strip = first // planes, image = first % planes, group = image % g.groups
    cdef Desk d = desk_at(s, g, memory, strip, 0)
    for unit in range(first, stop):
        strip_unit(s, g, &d, source, w, b, tail, out, image, group, m0, m1)
        image += 1                  # counted, not divided: small planes take no longer than a few divisions
        group = group + 1 if group + 1 < g.groups else 0
        if image == planes and unit + 1 < stop:
            image = 0
            strip += 1
            d = desk_at(s, g, memory, strip, 0)


cdef void strip_block(const Strips* s, const Geometry* g, const real* source, const real* w, const real* b,
                      const lnn_tail* tail, real* out, char* memory, int64_t blocks, int64_t parts, int64_t index) noexcept nogil:
    """One of `blocks` blocks of units, one of `parts` parts of the rows."""
    cdef int64_t units = s.count * (g.n // s.together) * (g.groups // s.deep), rows = g.cg if s.kind == CONV_INPUT else g.og
    cdef int64_t block = index // parts, part = index % parts
    cdef int64_t first = units * block // blocks, stop = units * (block + 1) // blocks
    cdef Desk d
    if real is float and s.deep > 1:
        d = desk_at(s, g, memory, 0, deep_bytes(g))
        deep_units(s, g, d.plan, <float*>d.strip, <float*>d.rest, source, w, b, tail, out, first, stop)
    else:
        strip_units(s, g, source, w, b, tail, out, memory, first, stop, rows * part // parts, rows * (part + 1) // parts)


cdef inline void strip_unit(const Strips* s, const Geometry* g, const Desk* d, const real* source, const real* w,
                            const real* b, const lnn_tail* tail, real* out, int64_t image, int64_t group,
                            int64_t m0, int64_t m1) noexcept nogil:
    """One group of one sample, or of several together: its channels chunk by chunk."""
    cdef bint back = s.kind == CONV_INPUT
    cdef int64_t rows = g.cg if back else g.og, cells = g.outs if back else g.cells, at = 0, channels, i, sample
    cdef const real* weight
    image = (image - group) * s.together + group
    d.plan.sweeps.next[0] = <const char*>(source + (image + 1) * s.channels * cells + d.plan.first)
    d.plan.sweeps.next[1] = <const char*>(out + (image + 1) * rows * s.size * s.rest + d.plan.begin)
    if tail != NULL and tail.adds:
        d.plan.sweeps.next[2] = d.plan.sweeps.next[1] + tail.other
        d.plan.sweeps.share[2] = d.plan.sweeps.share[1]
    while at < s.channels:
        channels = min(s.chunk, s.channels - at)
        for sample in range(s.together):
            for i in range(channels):
                fill_strip(&d.plan.copies, source + ((image + sample * g.groups) * s.channels + at + i) * cells,
                           <real*>d.strip + (sample * channels + i) * d.plan.planes.channel)
        weight = w + (group * g.og * g.cg + at * (g.cg if back else 1)) * g.taps
        strip_rows(s, g, d, weight, b + group * rows if b != NULL else NULL, at, channels,
                   out + image * rows * s.size * s.rest + d.plan.begin, m0, m1)
        at += channels
    for sample in range(s.together if tail != NULL else 0):
        for i in range(m0, m1):
            finish(tail, out + ((image + sample * g.groups) * rows + i) * s.size * s.rest + d.plan.begin, d.plan.height * s.rest)


cdef inline void strip_rows(const Strips* s, const Geometry* g, const Desk* d, const real* w, const real* b, int64_t at,
                            int64_t channels, real* out, int64_t m, int64_t stop) noexcept nogil:
    """What a filled strip gives to rows m..stop of weights; the sums of earlier channels lie on the desk."""
    cdef int64_t row_step = g.taps if s.kind == CONV_INPUT else g.cg * g.taps
    cdef int64_t i, k, left, ldo = s.size * s.rest
    cdef const real* row[LNN_ROWS]
    cdef real* sums = <real*>d.rest
    cdef int mr
    while m < stop:
        left = stop - m
        if s.tall:
            mr = 1
        else:                       # 8 as 4 + 4, not 6 + 2
            mr = <int>(left if left <= LNN_ROWS else (left + 1) // 2 if left < 2 * LNN_ROWS else LNN_ROWS)
        for i in range(mr):
            row[i] = w + (m + i) * row_step
        for k in range(s.classes):
            if s.wide:
                wide_rows(mr, d.plan.sweeps + k, channels, row, <const real*>d.strip, b + m if b != NULL else NULL, sums,
                          at == 0, at + channels == s.channels, out + m * ldo, ldo)
            else:
                sweep_rows(mr, d.plan.sweeps + k, channels, row, <const real*>d.strip, b + m if b != NULL else NULL, sums,
                           at == 0, at + channels == s.channels, out + m * ldo, ldo)
            sums += d.plan.sweeps[k].vectors * LNN_TALL * s.lanes if s.tall else (
                (d.plan.sweeps[k].vectors + ABREAST) * mr * s.lanes)
        m += mr


cdef int strips_conv(const Geometry* g, bint transposed, const real* source, const real* w, const real* b,
                     const lnn_tail* tail, real* out) noexcept nogil:
    """conv, or conv_input (`transposed`)."""
    cdef Strips s
    cdef int64_t i, blocks, size, parts = 1, rows = g.cg if transposed else g.og
    cdef int threads = strip_threads(g)
    cdef char* desks
    cdef Queue queue
    if not cut(&s, g, CONV_INPUT if transposed else CONV, sizeof(real)):
        return UNSUITED
    if not probing() and not all_finite(w, g.o * g.cg * g.taps):
        return UNSUITED
    desks = open_desks(&s, deep_bytes(g) if s.deep > 1 else s.sums, threads, &size)
    if desks == NULL:
        return NO_MEMORY
    blocks = min(s.count * (g.n // s.together) * (g.groups // s.deep), <int64_t>(8 * threads if threads > 1 else 1))
    if blocks < threads:            # one small image: threads fill the same strip, each for rows of its own
        parts = max(min(<int64_t>threads, rows // LNN_ROWS), <int64_t>1)
    threads = <int>min(blocks * parts, <int64_t>threads)
    open_queue(&queue, blocks * parts, threads)
    for i in prange(blocks * parts, schedule="dynamic", num_threads=threads):
        strip_block(&s, g, source, w, b, tail, out, desks + omp_get_thread_num() * size, blocks, parts,
                    draw(&queue, omp_get_thread_num()))
    give_scratch(desks)
    return DONE


cdef bint strips_pay(const Geometry* g, Kind kind, int itemsize) noexcept nogil:
    return pay(g, kind, itemsize)


cdef double strips_lead(const Geometry* g, int itemsize) noexcept nogil:
    return lead(g, itemsize)


cdef int strip_threads(const Geometry* g) noexcept nogil:
    return threads_for(<Py_ssize_t>min(<double>g.n * g.o * g.outs * g.cg * g.taps / 8, 1e18))


cdef inline int64_t loose_cells(const Strips* s) noexcept nogil:
    """A strip's y_bar in rows of whole vectors."""
    return (s.width + s.lanes - 1) // s.lanes * s.lanes * (s.height * s.rest // s.width)


cdef void strip_weights(const Strips* s, const Geometry* g, const real* x, const real* y_bar, real* w_bar,
                        char* memory, int64_t first, int64_t stop, int64_t o0, int64_t o1) noexcept nogil:
    """w_bar of the input channels first..stop and their groups' outputs o0..o1: strips, then samples, in order."""
    cdef int64_t one = loose_cells(s), loose = one * g.og, outs = o1 - o0
    cdef int64_t strip, n, c, i, o, width, rows, taps = g.taps * s.lanes
    cdef const real* y
    cdef real* sums
    cdef Desk d
    for strip in range(s.count):
        d = desk_at(s, g, memory, strip, loose * sizeof(real))
        width = d.plan.sweeps[0].width
        rows = d.plan.height * s.rest // width
        for n in range(g.n):
            sums = <real*>d.rest + loose
            if strip == 0 and n == 0:
                memset(sums, 0, (stop - first) * outs * taps * sizeof(real))
            for c in range(first, stop):
                fill_strip(&d.plan.copies, x + (n * g.c + c) * g.cells, <real*>d.strip)
                if c == first or c % g.cg == 0:                 # y_bar: once for all channels of the group
                    y = y_bar + (n * g.o + c // g.cg * g.og + o0) * g.outs + d.plan.begin
                    for i in range(outs if width % s.lanes else 0):
                        loosen(<real*>d.rest + i * one, y + i * g.outs, width, rows)
                    if width % s.lanes:
                        y = <const real*>d.rest
                gauge(d.plan.sweeps, <const real*>d.strip, y, one if width % s.lanes else g.outs, outs, sums)
                sums += outs * taps
    sums = <real*>d.rest + loose
    for c in range(first, stop):
        for o in range(c // g.cg * g.og + o0, c // g.cg * g.og + o1):
            settle(<const real*>sums, g.taps, w_bar + (o * g.cg + c % g.cg) * g.taps)
            sums += taps


cdef void channel_block(const Strips* s, const Geometry* g, const real* x, const real* y_bar, real* w_bar, char* memory,
                        int64_t blocks, int64_t parts, int64_t index) noexcept nogil:
    """Some input channels, and a part of their outputs, in threes."""
    cdef int64_t units = g.c // s.deep, block = index // parts, part = index % parts, threes = (g.og + 2) // 3
    cdef int64_t first = units * block // blocks, stop = units * (block + 1) // blocks
    cdef Desk d
    if real is float and s.deep > 1:
        d = desk_at(s, g, memory, 0, 0)
        deep_weights(s, g, d.plan, <float*>d.strip, <float*>d.rest, x, y_bar, w_bar, first, stop)
    else:
        strip_weights(s, g, x, y_bar, w_bar, memory, first, stop, threes * part // parts * 3,
                      min(threes * (part + 1) // parts * 3, g.og))


cdef int strips_conv_weight(const Geometry* g, const real* x, const real* y_bar, real* w_bar) noexcept nogil:
    cdef Strips s
    cdef int64_t i, blocks, parts = 1, size, rest, sums
    cdef int threads = strip_threads(g)
    cdef char* desks
    cdef Queue queue
    if not cut(&s, g, CONV_WEIGHT, sizeof(real)):
        return UNSUITED
    sums = 0 if s.deep > 1 else g.og * g.taps * LNN_BYTES
    blocks = min(g.c // s.deep, max(<int64_t>(4 * threads if threads > 1 else 1), g.c * sums // SUMS + 1))
    if threads > 1 and s.deep == 1:         # few channels: the outputs, six or more, are shared out as well
        parts = max(min((2 * threads + blocks - 1) // blocks, g.og // 6), <int64_t>1)
    sums *= (g.c + blocks - 1) // blocks
    rest = deep_bytes(g) if s.deep > 1 else loose_cells(&s) * g.og * <int64_t>sizeof(real)
    if sums > LARGEST or rest > LARGEST:
        return UNSUITED
    desks = open_desks(&s, rest + sums, threads, &size)
    if desks == NULL:
        return NO_MEMORY
    open_queue(&queue, blocks * parts, threads)
    for i in prange(blocks * parts, schedule="dynamic", num_threads=threads):
        channel_block(&s, g, x, y_bar, w_bar, desks + omp_get_thread_num() * size, blocks, parts,
                      draw(&queue, omp_get_thread_num()))
    give_scratch(desks)
    return DONE if all_finite(<const real*>w_bar, g.o * g.cg * g.taps) else SPOILT
