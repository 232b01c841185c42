"""conv_input of few outputs: the product of y_bar and weight, window by window, folded.

By taps every cell of x_bar sums all taps of its residue, and those that reach no output meet zeros: cells / (stride *
outputs) times as many products as there are. Where kernels are nearly as large as the image and nothing is padded, that is
most of them (5 x 5 on 6 x 6 cells: eight of nine). There

    columns[(n, p), (c, k)] = sum_o y_bar[n, o, p] * w[o, c, k]

is one product without a zero, its right factor the weight as it lies; and window p of channel c, taps side by side, is
added to a padded plane, outputs in order, of which the image is a part.

Samples come together as far as ROWS rows suffice, channels as far as COLUMNS bytes of columns do: by the geometry alone.
Error: gamma_n, as by taps.
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from lean_nn_c._geometry cimport Geometry, covers_cells
from lean_nn_c._openmp cimport omp_get_thread_num
from lean_nn_c._planes cimport Planes, fill_channel, measure
from lean_nn_c._simd cimport turn
from lean_nn_c._types cimport real
from lean_nn_c.gemm cimport Product, multiply
from lean_nn_c.step cimport count_from, counted, give_scratch, hold_scratch, probing

cdef enum:
    ROWS = 192              # outputs whose windows are computed together
    COLUMNS = 262144        # bytes of their windows
    FOLDING = 24            # products that adding one value to its place costs


cdef struct Fold:
    Planes image                # as a part of the cells that windows cover
    int64_t covered             # how many these are, per channel
    int64_t together            # samples at once
    int64_t parts, most         # of the channels; channels of a part
    int64_t* place              # of a window's taps, beside its first,
    int64_t* start              # and of the windows, on a covered plane


cdef inline bint fold_pays(const Geometry* g, int itemsize) noexcept nogil:
    """Whether the products that are left out are more than folding costs, and what is covered is not mostly padding."""
    cdef double cells = g.cells, covered = 1
    cdef int i
    for i in range(g.rank):
        cells /= g.stride[i]
        covered *= covers_cells(g, i)
    return (g.taps > 1 and g.cg > 0 and g.outs * 1.1 * (g.og + FOLDING) < cells * g.og and covered <= 4.0 * g.cells
            and <double>g.outs * g.taps * itemsize <= COLUMNS)


cdef inline void cover(Fold* f, const Geometry* g, int itemsize) noexcept nogil:
    """All but the lists."""
    cdef Planes* image = &f.image
    cdef int i
    image.rank, image.direct, f.covered = g.rank, True, 1
    for i in range(g.rank):
        image.size[i] = covers_cells(g, i)
        image.step[i] = image.phases[i] = image.dil[i] = 1
        image.shift[i], image.q[i] = -g.pad[i], g.inp[i]
        image.direct = image.direct and g.pad[i] == 0 and image.size[i] == g.inp[i]
        f.covered *= image.size[i]
    measure(image, itemsize)
    image.channel = g.cells         # planes of the image lie without gaps
    f.together = max(min(g.n, min(<int64_t>ROWS, COLUMNS // (g.taps * itemsize)) // g.outs), <int64_t>1)
    f.most = max(min(COLUMNS // (f.together * g.outs * g.taps * itemsize), g.cg), <int64_t>1)
    f.parts = (g.cg + f.most - 1) // f.most
    f.most = (g.cg + f.parts - 1) // f.parts


cdef inline void list_places(const int64_t* size, int rank, const int64_t* count, const int64_t* step, int64_t cells,
                             int64_t* place) noexcept nogil:
    """Where the cells of a grid, `count` of them on each axis, `step` apart, lie on the covered plane."""
    cdef int64_t index, rest, scale
    cdef int i
    for index in range(cells):
        place[index], scale, rest = 0, 1, index
        for i in range(rank - 1, -1, -1):
            place[index] += rest % count[i] * step[i] * scale
            rest //= count[i]
            scale *= size[i]


cdef inline void fold_plane(const Fold* f, const Geometry* g, const real* columns, int64_t step, const real* bias,
                            real* covered, real* x) noexcept nogil:
    """One channel of a sample, from its windows, which lie `step` apart."""
    cdef int64_t p, k
    cdef real* plane = x if f.image.direct else covered
    cdef real* at
    memset(plane, 0, f.covered * sizeof(real))
    for p in range(g.outs):
        at = plane + f.start[p]
        for k in range(g.taps):
            at[f.place[k]] += columns[p * step + k]
    if not f.image.direct:
        fill_channel(&f.image, <const real*>covered, x)
    for k in range(g.cells if bias != NULL else 0):
        x[k] += bias[0]


cdef inline int some_channels(const Fold* f, const Geometry* g, int64_t samples, int64_t count, const real* rows,
                              const real* w, const real* bias, real* columns, real* covered, real* x_bar,
                              int threads) noexcept nogil:
    """`count` channels of some samples, whose outputs are `rows`."""
    cdef Product p
    cdef int64_t i
    p.m, p.n, p.k = samples * g.outs, count * g.taps, g.og
    p.a_row, p.a_col, p.b_row, p.b_col = g.og, 1, g.cg * g.taps, 1
    p.rank, p.batch, p.panelled, p.column_bias, p.tail = 0, 1, False, NULL, NULL
    if multiply(&p, rows, w, <const real*>NULL, columns):
        return 1
    for i in prange(samples * count, schedule="static", num_threads=threads):
        fold_plane(f, g, columns + (i // count * g.outs * count + i % count) * g.taps, count * g.taps,
                   bias + i % count if bias != NULL else NULL, covered + omp_get_thread_num() * f.covered,
                   x_bar + (i // count * g.c + i % count) * g.cells)
    return 0


cdef inline int fold_group(const Fold* f, const Geometry* g, const real* y_bar, const real* w, const real* bias,
                           real* columns, real* x_bar, int threads) noexcept nogil:
    """One group: some samples after the others, and for each some channels after the others."""
    cdef int64_t n = 0, samples, part, i, c0
    cdef real* rows = columns + f.together * g.outs * f.most * g.taps
    cdef size_t before = counted()
    cdef int status = 0
    while n < g.n and (not status or probing()):
        samples = min(f.together, g.n - n)
        for i in range(0 if probing() else samples):
            turn(y_bar + (n + i) * g.o * g.outs, g.outs, g.og, g.outs, rows + i * g.outs * g.og, g.og)
        for part in range(f.parts):
            c0 = g.cg * part // f.parts
            count_from(before)              # one product after the other: the largest counts
            if not status or probing():
                status = some_channels(f, g, samples, g.cg * (part + 1) // f.parts - c0, <const real*>rows, w + c0 * g.taps,
                                       bias + c0 if bias != NULL else NULL, columns, rows + f.together * g.outs * g.og,
                                       x_bar + (n * g.c + c0) * g.cells, threads)
        n += samples if not probing() else (g.n - n) // samples * samples     # to those that are left, who may take more
    return status


cdef inline int folded(const Geometry* g, const real* y_bar, const real* w, const real* bias, real* x_bar,
                       int threads) noexcept nogil:
    """conv_input; the status is 1 when there was no memory."""
    cdef Fold f
    cdef int64_t group
    cdef real* memory
    cdef int status
    f.place = <int64_t*>malloc((g.taps + g.outs) * sizeof(int64_t))
    cover(&f, g, sizeof(real))
    memory = <real*>hold_scratch((f.together * g.outs * (g.og + f.most * g.taps) + threads * f.covered) * sizeof(real))
    status = memory == NULL or f.place == NULL
    if not status:
        f.start = f.place + g.taps
        list_places(&f.image.size[0], g.rank, &g.ker[0], &g.dil[0], g.taps, f.place)
        list_places(&f.image.size[0], g.rank, &g.out[0], &g.stride[0], g.outs, f.start)
    for group in range(g.groups):
        status = status or fold_group(&f, g, y_bar + group * g.og * g.outs, w + group * g.og * g.cg * g.taps,
                                      bias + group * g.cg if bias != NULL else NULL, memory,
                                      x_bar + group * g.cg * g.cells, threads)
    give_scratch(memory)
    free(f.place)
    return status
