"""Winograd's convolution: 3 x 3 kernels, stride 1, with 2.25 or 4 times fewer multiplications.

One dimension. Three weights g and m + 2 cells d give m outputs y_i = sum_k d_{i+k} g_k: 3m multiplications. Read
backwards the table d_{i+k} is a product of polynomials: if s(x) = q(x) g(x) with deg q < m and deg g < 3, then
s has m + 2 coefficients, each a sum of q_i g_k, and (d, s) = sum d_{i+k} q_i g_k = (y, q). Correlation is the
transpose of multiplication. And a product of polynomials needs only as many multiplications as it has coefficients:
evaluate both at m + 2 points, multiply, interpolate. With the points p_i (the last one infinity, where a polynomial's
value is its leading coefficient) and M(x) the product of the finite (x - p_j), Lagrange's formula reads

    s(x) = sum_i q(p_i) g(p_i) / N_i * M_i(x) + q(oo) g(oo) M(x),    M_i = M / (x - p_i),  N_i = M_i(p_i),

and its transpose is  y = A^T [(G g) * (B^T d)]  with

    A^T column i   the powers 1, p_i, ..., p_i^{m-1}      (at oo: 0, ..., 0, 1)
    G   row i      (1, p_i, p_i^2) / N_i                  (at oo: 0, 0, 1)
    B^T row i      the coefficients of M_i                (at oo: of M).

Two dimensions. The same along rows and columns: Y = A^T [(G g G^T) * (B^T d B)] A: (m + 2)^2 multiplications for
9 m^2, i.e. 36 for 144 with m = 4 and 16 for 36 with m = 2. Summing over channels commutes with A^T, so each of the
(m + 2)^2 points xi is a matrix product of its own,

    T_xi[row, tile] = sum_channel U_xi[row, channel] * V_xi[channel, tile],      U = G g G^T,  V = B^T d B.

Points. m = 2: 0, +-1, oo. m = 4: 0, +-5/8, +-3/2, oo. Rounding errors are magnified by the norms of A, B and G, which
grow with the spread of the points' powers; p and about 1/p balance each other, and +- pairs share their even and odd
parts, so that a transform of six values is twelve multiply-adds. On normal data the rms error is 2.1 to 2.6 times the
classical one; the textbook's 0, +-1, +-2 has 4.6. A and B are exact in binary; G is rounded once.

Error. With u the unit roundoff, n channels, per output tile in the maximum norm over the tile's cells,

    |y^ - y| <= gamma_k * a^2 * sum_channel  (G' |g| G'^T) . (B' |d| B'^T),    k = n + 32,

where a primed matrix has its entries' absolute values and a is the largest row sum of A': a bound by the tile's norm, not,
as for the classical kernel, by the terms of that output alone: where |x| varies by 1/u inside a tile,
the small outputs lose their digits. `set_precision("exact")` turns the algorithm off. Non-finite values spread over
their tile here, so conv.pyx computes such results again by taps.

Order of work. Tiles are taken a unit (two vectors of lanes) at a time, channels BLOCK at a time, rows of U six (a panel)
at a time. Blocks of channels are summed one after the other, in order, so the bits depend on the geometry alone.
With many units a thread takes whole units: U is made first, by all threads together; V stays in the thread's cache
("wide"). With few units V is made first, by all threads together, and a thread takes panels, whose part of U it makes
itself, just before use: it is read once and never leaves the cache ("deep").

Temporary memory in values, with S the points, L the tiles of a unit (16 floats, 8 doubles with AVX2) and P = 6 L:
    wide    S C min(O, LIMIT / (S C)) for U,  and for every thread  S L (C + ROWS)
    deep    S L C UNITS for V, and for every thread  S (6 PANELS BLOCK + L ROWS UNITS).
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from lean_nn_c._geometry cimport Geometry, check_lengths, read_geometry, refuse
from lean_nn_c._openmp cimport omp_get_thread_num
from lean_nn_c._simd cimport lanes
from lean_nn_c._types cimport real
from lean_nn_c._winograd cimport (
    LNN_WINO_PANEL, LNN_WINO_VECTORS, MAX_PITCH, MAX_WIDTH, Plan, Unit, copy_row, cut, image, output, patch_pitch,
    product, weight,
)
from lean_nn_c.taps cimport DONE, NO_MEMORY, SPOILT
from lean_nn_c.threads cimport threads_for

cdef enum:
    BLOCK = 64              # channels of a partial sum
    PANELS = 4              # panels of rows worked on together: with a block of U they stay in the second-level cache
    UNITS = 8               # units worked on together when there are few
    CHUNK = 16              # channels whose V one thread makes at a time
    PAD = 16                # values between the points' matrices, lest they all fall into the same cache sets
    LIMIT = 6291456         # values of U made at a time when there are many units


# --- sizes: U[panel][block][point][6 rows][depth], V[block][point][channels][width], T[point][rows][width] ---


cdef int64_t blocks_of(const Plan* p) noexcept nogil:
    return max((p.channels + BLOCK - 1) // BLOCK, 1)


cdef int64_t terms_of(const Plan* p, int64_t block) noexcept nogil:
    return min(<int64_t>BLOCK, p.channels - block * BLOCK)


cdef int64_t panels_of(const Plan* p) noexcept nogil:
    return (p.rows + LNN_WINO_PANEL - 1) // LNN_WINO_PANEL


cdef int64_t row_of(const Plan* p, int64_t panel) noexcept nogil:
    """The first row of a panel: rows are spread evenly, so no panel is nearly empty."""
    return p.rows * panel // max(panels_of(p), 1)


cdef int64_t depth_of(const Plan* p) noexcept nogil:
    return min(<int64_t>BLOCK, (p.channels + MAX_WIDTH // 2 - 1) // (MAX_WIDTH // 2) * (MAX_WIDTH // 2))


cdef int64_t u_step(const Plan* p) noexcept nogil:
    return LNN_WINO_PANEL * depth_of(p) + PAD


cdef int64_t u_size(const Plan* p) noexcept nogil:
    return p.points * u_step(p)


cdef int64_t v_step(const Plan* p, int64_t block) noexcept nogil:
    return terms_of(p, block) * p.width + PAD


cdef int64_t v_size(const Plan* p) noexcept nogil:
    return p.points * (p.channels * p.width + blocks_of(p) * PAD)


cdef int64_t v_block(const Plan* p, int64_t block) noexcept nogil:
    return p.points * block * (BLOCK * p.width + PAD)


cdef int64_t t_step(const Plan* p) noexcept nogil:
    return PANELS * LNN_WINO_PANEL * p.width + PAD


cdef int64_t t_size(const Plan* p) noexcept nogil:
    return p.points * t_step(p)


# --- the three transforms and the product ---


cdef void make_v(const Plan* p, int64_t unit, int64_t first, int64_t stop, const real* x, real* v) noexcept nogil:
    """V of channels first..stop of one unit: patches of the image with zeros around, transformed."""
    cdef real patch[6 * MAX_PITCH]
    cdef const real* at[MAX_WIDTH]
    cdef Unit s
    cdef int64_t c, i, row, block, pitch = patch_pitch(p)
    cdef const real* source
    cdef real* to
    cdef int vector, per_vector = lanes(x)
    cut(p, unit, &s)
    memset(&patch[0], 0, sizeof(patch))         # what no channel writes stays zero
    for i in range(p.width):
        at[i] = &patch[0] + s.cell[i]
    for c in range(first, stop):
        for i in range(s.runs):
            source = x + c * p.in_y * p.in_x + s.run[i].source
            to = &patch[0] + s.run[i].place
            for row in range(s.run[i].rows):
                copy_row(source + row * p.in_x, s.run[i].columns, to + row * pitch)
        block = c // BLOCK
        to = v + v_block(p, block) + (c - block * BLOCK) * p.width
        for vector in range(s.vectors):
            image(p.m, &at[0] + vector * per_vector, pitch, to + vector * per_vector, v_step(p, block))


cdef void make_u(const Plan* p, int64_t panel, int64_t block, const real* w, real* u) noexcept nogil:
    """U of one panel and block."""
    cdef int64_t row, first = row_of(p, panel), ahead = p.w_row * (LNN_WINO_PANEL if p.flip else 1)
    for row in range(first, row_of(p, panel + 1)):
        weight(p.m, p.flip, terms_of(p, block), w + row * p.w_row + block * BLOCK * p.w_channel, p.w_channel,
               ahead, u + (row - first) * depth_of(p), u_step(p))


cdef void multiply(const Plan* p, int64_t unit, int64_t first, int64_t stop, int64_t block, const real* u,
                   int64_t u_panel, const real* v, real* t) noexcept nogil:
    """T of panels first..stop of one unit gets a block's share."""
    cdef int64_t row[PANELS + 1]
    cdef int64_t point, i, step = v_step(p, block), terms = terms_of(p, block), depth = depth_of(p)
    cdef int64_t tiles = min(p.width, p.tiles - unit * p.width)
    cdef int vectors = <int>((tiles * LNN_WINO_VECTORS + p.width - 1) // p.width)
    for i in range(stop - first + 1):
        row[i] = row_of(p, first + i)
    v += v_block(p, block)
    for point in range(p.points):
        for i in range(stop - first):
            product(<int>(row[i + 1] - row[i]), vectors, terms, u + i * u_panel + point * u_step(p), depth,
                    v + point * step, block > 0, t + point * t_step(p) + (row[i] - row[0]) * p.width)


cdef bint make_y(const Plan* p, int64_t unit, int64_t first, int64_t stop, const real* t, const real* b,
                 real* y) noexcept nogil:
    """The outputs of rows first..stop of one unit; tiles that hang over the edge take a detour and are clipped.

    Returns whether some output is not finite.
    """
    cdef real whole[MAX_WIDTH * 16]
    cdef real zero[MAX_WIDTH]
    cdef real* to[MAX_WIDTH]
    cdef int64_t pitch[MAX_WIDTH]
    cdef bint inside[MAX_WIDTH]
    cdef Unit s
    cdef int64_t row, i
    cdef real* plane
    cdef int vector, lane, k, per_vector = lanes(t)
    cut(p, unit, &s)
    memset(&zero[0], 0, sizeof(zero))
    for lane in range(p.width):
        inside[lane] = s.rows[lane] == p.m and s.columns[lane] == p.m
        pitch[lane] = p.out_x if inside[lane] else 4
        to[lane] = &whole[0] + 16 * lane
    for row in range(first, stop):
        plane = y + row * p.out_y * p.out_x
        for vector in range(s.vectors):
            k = vector * per_vector
            for lane in range(k, k + per_vector):
                if inside[lane]:
                    to[lane] = plane + s.dest[lane]
            output(p.m, t + (row - first) * p.width + k, t_step(p), b[row] if b != NULL else <real>0, &to[k],
                   &pitch[k], &zero[0])
            for lane in range(k, k + per_vector):
                if not inside[lane]:
                    for i in range(s.rows[lane]):
                        copy_row(&whole[16 * lane + 4 * i], s.columns[lane], plane + s.dest[lane] + i * p.out_x)
    for lane in range(per_vector):
        if zero[lane] != 0:
            return True
    return False


cdef bint finish(const Plan* p, int64_t unit, int64_t units, int64_t first, int64_t stop, const real* w,
                 const real* packed, real* own_u, const real* v, real* t, const real* b, real* y) noexcept nogil:
    """Panels first..stop of some units, whose V is there; their U is at `packed`, or made in `own_u`.

    Returns whether some output is not finite.
    """
    cdef bint spoilt = False
    cdef int64_t block, panel, i, u_panel = u_size(p) * (blocks_of(p) if packed != NULL else 1)
    cdef const real* u
    for block in range(blocks_of(p)):
        if packed != NULL:
            u = packed + block * u_size(p)
        else:
            u = own_u
            for panel in range(first, stop):
                make_u(p, panel, block, w, own_u + (panel - first) * u_panel)
        for i in range(units):
            multiply(p, unit + i, first, stop, block, u, u_panel, v + i * v_size(p), t + i * t_size(p))
    for i in range(units):
        spoilt |= make_y(p, unit + i, row_of(p, first), row_of(p, stop), t + i * t_size(p), b, y)
    return spoilt


# --- who does what ---


cdef void pack(const Plan* p, int64_t first, int64_t stop, const real* w, real* u, int threads) noexcept nogil:
    cdef int64_t i, blocks = blocks_of(p)
    for i in prange((stop - first) * blocks, schedule="dynamic", num_threads=threads):
        make_u(p, first + i // blocks, i % blocks, w, u + i * u_size(p))


cdef bint wide_units(const Plan* p, int64_t unit, int64_t units, int64_t first, int64_t stop, const real* x,
                     const real* u, const real* b, real* y, real* space) noexcept nogil:
    """Panels first..stop, whose U is at `u`, of some units; V and T are in `space`."""
    cdef int64_t i, panel = first
    cdef bint spoilt = False
    for i in range(units):
        make_v(p, unit + i, 0, p.channels, x, space + i * v_size(p))
    while panel < stop:
        spoilt |= finish(p, unit, units, panel, min(panel + PANELS, stop), <const real*>NULL,
                         u + (panel - first) * blocks_of(p) * u_size(p), <real*>NULL, <const real*>space,
                         space + units * v_size(p), b, y)
        panel += PANELS
    return spoilt


cdef int64_t panels_at_once(const Plan* p) noexcept nogil:
    return min(max(LIMIT // (blocks_of(p) * u_size(p)), PANELS), panels_of(p))


cdef int wide(const Plan* p, const real* x, const real* w, const real* packed, const real* b, real* y,
              int threads) noexcept nogil:
    """Threads take units."""
    cdef int64_t first = 0, stop, i, together = 2 if p.units >= 8 * threads else 1, panel_size = blocks_of(p) * u_size(p)
    cdef int64_t per_thread = together * (v_size(p) + t_size(p)), items = (p.units + together - 1) // together
    cdef int64_t made = 0 if packed != NULL else panels_at_once(p) * panel_size
    cdef real* u = <real*>malloc((made + threads * per_thread) * sizeof(real))
    cdef const real* at
    cdef int64_t spoilt = 0
    if u == NULL:
        return NO_MEMORY
    while first < panels_of(p):
        stop = min(first + panels_at_once(p), panels_of(p))
        if packed == NULL:
            pack(p, first, stop, w, u, threads)
        at = <const real*>u if packed == NULL else packed + first * panel_size
        for i in prange(items, schedule="dynamic", num_threads=threads):
            spoilt += wide_units(p, i * together, min(together, p.units - i * together), first, stop, x, at, b, y,
                                 u + made + omp_get_thread_num() * per_thread)
        first = stop
    free(u)
    return SPOILT if spoilt else DONE


cdef bint deep_panels(const Plan* p, int64_t unit, int64_t units, int64_t first, int64_t stop, const real* w,
                      const real* packed, const real* v, const real* b, real* y, real* space) noexcept nogil:
    """Panels first..stop of some units, whose V is at `v`; U and T are in `space`."""
    cdef int64_t panel = first, panel_size = blocks_of(p) * u_size(p)
    cdef bint spoilt = False
    while panel < stop:
        spoilt |= finish(p, unit, units, panel, min(panel + PANELS, stop), w,
                         packed + panel * panel_size if packed != NULL else NULL, space, v,
                         space + PANELS * u_size(p), b, y)
        panel += PANELS
    return spoilt


cdef int deep(const Plan* p, const real* x, const real* w, const real* packed, const real* b, real* y,
              int threads) noexcept nogil:
    """Threads take panels."""
    cdef int64_t most = min(p.units, <int64_t>UNITS), chunks = (p.channels + CHUNK - 1) // CHUNK
    cdef int64_t per_thread = PANELS * u_size(p) + most * t_size(p), panels = panels_of(p)
    cdef int64_t pieces = min((panels + PANELS * threads - 1) // (PANELS * threads) * threads, panels)
    cdef int64_t unit, units, parts, i, spoilt = 0
    cdef real* v = <real*>malloc((most * v_size(p) + threads * per_thread) * sizeof(real))
    if v == NULL:
        return NO_MEMORY
    unit = 0
    while unit < p.units:
        units = min(most, p.units - unit)
        for i in prange(units * chunks, schedule="dynamic", num_threads=threads):
            make_v(p, unit + i // chunks, i % chunks * CHUNK, min((i % chunks + 1) * CHUNK, p.channels), x,
                   v + i // chunks * v_size(p))
        parts = min(units, (2 * threads + pieces - 1) // pieces) if threads > 1 else 1
        for i in prange(pieces * parts, schedule="dynamic", num_threads=threads):
            spoilt += deep_panels(p, unit + i % parts * units // parts,
                                  (i % parts + 1) * units // parts - i % parts * units // parts,
                                  i // parts * panels // pieces, (i // parts + 1) * panels // pieces, w, packed,
                                  <const real*>v + i % parts * units // parts * v_size(p), b, y,
                                  v + most * v_size(p) + omp_get_thread_num() * per_thread)
        unit += units
    free(v)
    return SPOILT if spoilt else DONE


cdef int run(Plan* p, const real* x, const real* w, const real* packed, const real* b, real* y) noexcept nogil:
    """All groups, one after the other."""
    cdef int64_t group, x_step = p.channels * p.in_y * p.in_x, y_step = p.rows * p.out_y * p.out_x
    cdef int64_t u_group = panels_of(p) * blocks_of(p) * u_size(p), w_group = p.channels * p.rows * 9
    cdef int status = DONE, threads
    cdef double work = <double>p.tiles * p.points * p.channels * p.rows / 8
    threads = threads_for(<Py_ssize_t>min(work, 1e18))
    for group in range(p.groups):
        if p.units > UNITS and p.units >= 4 * threads:
            status = wide(p, x + group * x_step, w + group * w_group if w != NULL else NULL,
                          packed + group * u_group if packed != NULL else NULL,
                          b + group * p.rows if b != NULL else NULL, y + group * y_step, threads)
        else:
            status = deep(p, x + group * x_step, w + group * w_group if w != NULL else NULL,
                          packed + group * u_group if packed != NULL else NULL,
                          b + group * p.rows if b != NULL else NULL, y + group * y_step, threads)
        if status != DONE:
            break
    return status


cdef void set_plan(Plan* p, const Geometry* g, bint transposed, int m, int width) noexcept nogil:
    p.m, p.points, p.flip, p.n, p.groups, p.width = m, (m + 2) * (m + 2), transposed, g.n, g.groups, width
    if transposed:      # x_bar[u] = sum_k y_bar[u + pad - k] w[k]: turned filters, 2 - pad cells of padding
        p.channels, p.rows, p.w_row, p.w_channel = g.og, g.cg, 9, 9 * g.cg
        p.in_y, p.in_x, p.out_y, p.out_x = g.out[0], g.out[1], g.inp[0], g.inp[1]
        p.pad_y, p.pad_x = 2 - g.pad[0], 2 - g.pad[1]
    else:
        p.channels, p.rows, p.w_row, p.w_channel = g.cg, g.og, 9 * g.cg, 9
        p.in_y, p.in_x, p.out_y, p.out_x = g.inp[0], g.inp[1], g.out[0], g.out[1]
        p.pad_y, p.pad_x = g.pad[0], g.pad[1]
    p.tiles_y, p.tiles_x = (p.out_y + m - 1) // m, (p.out_x + m - 1) // m
    p.tiles = p.n * p.tiles_y * p.tiles_x
    p.units = (p.tiles + width - 1) // width


cdef bint applies(const Geometry* g) noexcept nogil:
    return (g.rank == 2 and g.ker[0] == g.ker[1] == 3 and g.stride[0] == g.stride[1] == 1
            and g.dil[0] == g.dil[1] == 1)


cdef int winograd_tile(const Geometry* g, bint transposed, int per_vector) noexcept nogil:
    """Outputs of a tile per axis, 4 or 2, whichever takes fewer multiplications; 0 where the algorithm does not apply."""
    cdef Plan four, two
    if not applies(g):
        return 0
    set_plan(&four, g, transposed, 4, per_vector)
    set_plan(&two, g, transposed, 2, per_vector)
    return 4 if 36 * four.units < 16 * two.units else 2


cdef bint winograd_pays(const Geometry* g, bint transposed, int m, int per_vector) noexcept nogil:
    """Whether it is faster than taps: the transforms must be few beside the products they save."""
    return m > 0 and g.cg >= 8 and g.og >= 8


cdef int winograd_conv(const Geometry* g, int m, const real* x, const real* w, const real* packed, const real* b,
                       real* y) noexcept nogil:
    """y by F(m x m, 3 x 3), from the weight w, or from what pack_weights made of it."""
    cdef Plan p
    set_plan(&p, g, False, m, LNN_WINO_VECTORS * lanes(x))
    return run(&p, x, w, packed, b, y)


cdef int winograd_conv_input(const Geometry* g, int m, const real* y_bar, const real* w, const real* packed,
                             real* x_bar) noexcept nogil:
    """x_bar by the same algorithm."""
    cdef Plan p
    set_plan(&p, g, True, m, LNN_WINO_VECTORS * lanes(y_bar))
    return run(&p, y_bar, w, packed, <const real*>NULL, x_bar)


# --- for callers that keep the transformed weight ---


cdef int plan_of_weight(Plan* p, int64_t c, int64_t o, int64_t groups, int m, bint transposed) except -1:
    cdef Geometry g
    if m != 4 and m != 2:
        refuse("tiles are 4 x 4 or 2 x 2")
    read_geometry(&g, 0, c, o, groups, (3, 3), (3, 3), (1, 1), (1, 1), (0, 0), (1, 1))
    if <double>c * o > 1e16:
        refuse("sizes overflow")
    set_plan(p, &g, transposed, m, 1)
    return 0


def packed_length(int64_t c, int64_t o, int64_t groups, int m, bint transposed=False):
    """Values that pack_weights writes."""
    cdef Plan p
    plan_of_weight(&p, c, o, groups, m, transposed)
    return groups * panels_of(&p) * blocks_of(&p) * u_size(&p)


def pack_weights(
    const real[::1] w,      # IN  o*(c/groups)*9
    real[::1] packed,       # OUT packed_length(...)
    int64_t c, int64_t o, int64_t groups, int m, bint transposed=False,
):
    """U = G g G^T, as `conv` (or with `transposed`, `conv_input`) of this module reads it."""
    cdef Plan p
    cdef int64_t group, step
    plan_of_weight(&p, c, o, groups, m, transposed)
    step = panels_of(&p) * blocks_of(&p) * u_size(&p)
    if w.shape[0] != 9 * groups * p.channels * p.rows or packed.shape[0] != groups * step:
        refuse("array lengths do not match the geometry")
    if w.shape[0] == 0:
        return
    with nogil:
        for group in range(groups):
            pack(&p, 0, panels_of(&p), &w[group * 9 * p.channels * p.rows], &packed[group * step],
                 threads_for(packed.shape[0]))


def conv(
    const real[::1] x,      # IN  n*c*spatial
    const real[::1] packed, # IN  by pack_weights
    const real[::1] b,      # IN  o, or None
    real[::1] y,            # OUT n*o*out
    int64_t n, int64_t c, int64_t o, int64_t groups, tuple spatial, tuple out, tuple pad, int m,
):
    """y = conv(x, w) + b from the packed weight.

    Returns whether all of y is finite; where it is not, infinities and NaN have spread over their tiles.
    """
    cdef Geometry g
    cdef int status
    cdef const real* bias = NULL
    read_geometry(&g, n, c, o, groups, spatial, (3, 3), out, (1, 1), pad, (1, 1))
    check_lengths(&g, x.shape[0], o * g.cg * 9, y.shape[0])
    if packed.shape[0] != packed_length(c, o, groups, m) or (b is not None and b.shape[0] != o):
        refuse("array lengths do not match the geometry")
    if y.shape[0] == 0:
        return True
    if b is not None:
        bias = &b[0]
    with nogil:
        status = winograd_conv(&g, m, &x[0] if x.shape[0] else <const real*>NULL, <const real*>NULL, &packed[0], bias,
                               &y[0])
    if status == NO_MEMORY:
        raise MemoryError("conv: no memory for transformed tiles; use smaller batches or images")
    return status == DONE
