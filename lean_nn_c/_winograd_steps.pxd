"""The steps of winograd.pyx: its matrices' places, the three transforms, the product, and what joins them."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from lean_nn_c._simd cimport lanes
from lean_nn_c._types cimport real
from lean_nn_c._winograd cimport (
    LNN_WINO_PANEL, LNN_WINO_VECTORS, MAX_PITCH, MAX_WIDTH, Plan, Unit, copy_row, cut, image, output, patch_pitch,
    product, weight,
)

cdef enum:
    BLOCK = 64              # channels of a partial sum
    PANELS = 4              # panels of rows worked on together: with a block of U they stay in the second-level cache
    PAD = 16                # values between the points' matrices, lest they all fall into the same cache sets


# --- sizes: U[panel][block][point][6 rows][depth], V[block][point][channels][width], T[point][rows][width] ---


cdef inline int64_t blocks_of(const Plan* p) noexcept nogil:
    return max((p.channels + BLOCK - 1) // BLOCK, 1)


cdef inline int64_t terms_of(const Plan* p, int64_t block) noexcept nogil:
    return min(<int64_t>BLOCK, p.channels - block * BLOCK)


cdef inline int64_t panels_of(const Plan* p) noexcept nogil:
    return (p.rows + LNN_WINO_PANEL - 1) // LNN_WINO_PANEL


cdef inline int64_t row_of(const Plan* p, int64_t panel) noexcept nogil:
    """The first row of a panel: rows are spread evenly, so no panel is nearly empty."""
    return p.rows * panel // max(panels_of(p), 1)


cdef inline int64_t depth_of(const Plan* p) noexcept nogil:
    return min(<int64_t>BLOCK, (p.channels + MAX_WIDTH // 2 - 1) // (MAX_WIDTH // 2) * (MAX_WIDTH // 2))


cdef inline int64_t u_step(const Plan* p) noexcept nogil:
    return LNN_WINO_PANEL * depth_of(p) + PAD


cdef inline int64_t u_size(const Plan* p) noexcept nogil:
    return p.points * u_step(p)


cdef inline int64_t v_step(const Plan* p, int64_t block) noexcept nogil:
    return terms_of(p, block) * p.width + PAD


cdef inline int64_t v_size(const Plan* p) noexcept nogil:
    return p.points * (p.channels * p.width + blocks_of(p) * PAD)


cdef inline int64_t v_block(const Plan* p, int64_t block) noexcept nogil:
    return p.points * block * (BLOCK * p.width + PAD)


cdef inline int64_t t_step(const Plan* p) noexcept nogil:
    return PANELS * LNN_WINO_PANEL * p.width + PAD


cdef inline int64_t t_size(const Plan* p) noexcept nogil:
    return p.points * t_step(p)


# --- the three transforms and the product ---


cdef inline void make_v(const Plan* p, int64_t unit, int64_t first, int64_t stop, const real* x, real* v,
                        int64_t row, int64_t step) noexcept nogil:
    """V of channels first..stop of one unit: patches of the image with zeros around, transformed.

    Channels go `row` apart, points `step`.
    """
    cdef real patch[6 * MAX_PITCH]
    cdef const real* at[MAX_WIDTH]
    cdef Unit s
    cdef int64_t c, i, line, pitch = patch_pitch(p)
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
            for line in range(s.run[i].rows):
                copy_row(source + line * p.in_x, s.run[i].columns, to + line * pitch)
        for vector in range(s.vectors):
            image(p.m, &at[0] + vector * per_vector, pitch, v + (c - first) * row + vector * per_vector, step)


cdef inline void make_u(const Plan* p, int64_t panel, int64_t block, const real* w, real* u) noexcept nogil:
    """U of one panel and block."""
    cdef int64_t row, first = row_of(p, panel), ahead = p.w_row * (LNN_WINO_PANEL if p.flip else 1)
    for row in range(first, row_of(p, panel + 1)):
        weight(p.m, p.flip, terms_of(p, block), w + row * p.w_row + block * BLOCK * p.w_channel, p.w_channel,
               ahead, u + (row - first) * depth_of(p), u_step(p))


cdef inline void multiply(const Plan* p, int64_t unit, int64_t first, int64_t stop, int64_t block, const real* u,
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


cdef inline bint make_y(const Plan* p, int64_t unit, int64_t first, int64_t stop, const real* t, const real* b,
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


cdef inline bint finish(const Plan* p, int64_t unit, int64_t units, int64_t first, int64_t stop, const real* w,
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
