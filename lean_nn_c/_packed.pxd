"""A tap product of many rows: the weight in panels, the planes in strips (gemm.pyx).

Of few terms several strips are packed at once: each panel then meets all of them and writes along its rows, where one strip after
the other would touch as many pages as there are rows (8 x 6 x 1000 to 256, kernel 4: twice as fast; 16 x 8 x 2939 to 128, kernel 3,
stride 2: 1.6 times).
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from lean_nn_c._columns cimport MAX_TILE, Columns, Strip, bring, cells_of, cut, is_dense, join, spread
from lean_nn_c._patches cimport NEAR, Rows, list_windows, rows_of_terms
from lean_nn_c._simd cimport LNN_ROWS, columns_of, gather, lanes, whole_lines
from lean_nn_c._taps cimport ABREAST, BLOCK, Block, Taps, block_at
from lean_nn_c._types cimport real
from lean_nn_c.gemm cimport Ahead, Panels, first_row, pack_rows, panels_of, panels_size, rows_in, slim_product, strip_product

cdef enum:
    FAR = 8388608           # bytes of a group's planes that no cache keeps: strips are called in


cdef inline void pack_weight(const Taps* t, const Block* k, const real* a, int64_t lda, bint transposed, int64_t m,
                             real* out) noexcept nogil:
    """Rows 0..m of one block of terms as panels. All taps of conv are neighbours in the weight, conv_input's are not."""
    cdef Panels p = panels_of(m)
    cdef int64_t i, first = 0, abreast = ABREAST if transposed else BLOCK       # rows side by side, or far apart
    if not transposed and t.count == t.a_channel:
        pack_rows(a + k.a + k.first, lda, 1, m, k.terms, k.terms, out)
        return
    while first < k.terms:
        for i in range(p.count):
            gather(a + first_row(&p, i) * lda + k.a, lda, rows_in(&p, i), t.a + k.first + first,
                   min(abreast, k.terms - first), out + (i * k.terms + first) * LNN_ROWS)
        first += abreast


cdef inline void pack_strip(const Columns* c, const Taps* t, const Block* k, const Rows* r, const real* planes, int64_t column,
                            int64_t columns, real* strip, Ahead* ahead) noexcept nogil:
    """One block of terms of cells column .. column+columns; and where the strip after it begins, if that is far."""
    cdef int64_t windows[MAX_TILE + 1]
    cdef Strip s
    cdef int64_t width = (columns + lanes(planes) - 1) // lanes(planes) * lanes(planes)
    cdef int64_t bytes = t.channels * t.b_channel * <int64_t>sizeof(real)
    cdef int i
    ahead.step = sizeof(real)
    if t.patches:
        list_windows(c, column, width + 1, &windows[0])
        columns_of(planes, &windows[0], <int>(width // lanes(planes)), &r.start[0], &r.length[0], r.count, strip)
        ahead.place, ahead.off = <const char*>(planes + windows[width]), &r.start[0]
        ahead.rows, ahead.length = r.count if bytes > NEAR else 0, c.pitch[c.rank - 1] * width * sizeof(real)
    else:
        cut(c, column, columns, &s)
        bring(&s, t.b + k.first, k.terms, planes, width, strip)
        i = s.pieces - 1                        # the next strip begins where this one ends: its last cell's line
        ahead.place = <const char*>(planes + s.piece[i].base + s.piece[i].length + c.width - 1)
        ahead.off, ahead.length, ahead.rows = t.b + k.first, 1, k.terms if bytes > FAR else 0


cdef inline void packed(const Columns* c, const Taps* t, bint transposed, const real* a, int64_t lda, const real* planes,
                        int64_t p_sample, const real* bias, real* out, int64_t out_sample, int64_t ldo, int64_t m0, int64_t m1,
                        int64_t first, int64_t stop, bint held, real* scratch) noexcept nogil:
    """Rows m0..m1 of strips first..stop of one group; strips are numbered through all samples. `held`: the scratch was used
    for these rows before, so that it has their panels, if there is one block of terms."""
    cdef int64_t rows = m1 - m0
    cdef real* strip = scratch + panels_size(rows, BLOCK)
    cdef real* sums = strip + BLOCK * c.width
    cdef Strip s
    cdef Rows r
    cdef Block k
    cdef Ahead ahead
    cdef int64_t cells = cells_of(c), strips = (cells + c.width - 1) // c.width
    cdef int64_t block, index, sample, column, columns, count, i, lds = c.width * (stop - first if t.blocks > 1 else 1)
    cdef const real* source
    cdef real* to
    cdef bint dense = is_dense(c), straight
    if bias != NULL:
        bias += m0
    memset(strip, 0, BLOCK * c.width * sizeof(real))        # columns there are not
    for block in range(t.blocks):
        k = block_at(t, block)
        if not held or t.blocks > 1:
            pack_weight(t, &k, a + m0 * lda, lda, transposed, rows, scratch)
        if t.patches:
            rows_of_terms(t.b + k.first, k.terms, &r)
        index = first
        while index < stop:
            sample, column, count = index // strips, index % strips * c.width, 1
            if dense and t.blocks == 1:
                count = max(min(min(BLOCK // max(k.terms, <int64_t>1), stop - index), strips - index % strips), <int64_t>1)
            source = planes + sample * p_sample + k.b
            for i in range(count):
                columns = min(c.width, cells - column - i * c.width)
                pack_strip(c, t, &k, &r, source, column + i * c.width, columns, strip + i * k.terms * c.width, &ahead)
            columns += (count - 1) * c.width
            to = out + sample * out_sample + m0 * ldo + c.dest + column
            straight = dense
            if not dense and block == t.blocks - 1:
                cut(c, column, columns, &s)
                join(c, &s)
                straight = t.blocks == 1 and s.pieces == 1 and c.step[c.rank - 1] == 1
                to += s.piece[0].dest - c.dest - column
            if count > 1:
                slim_product(rows, k.terms, <const real*>scratch, <const real*>strip, columns, bias, False, to, ldo, &ahead)
            elif straight:
                strip_product(rows, k.terms, <const real*>scratch, <const real*>strip, bias, block > 0, to, ldo, columns, &ahead)
            else:
                to = sums + ((index - first) * c.width if t.blocks > 1 else 0)
                strip_product(rows, k.terms, <const real*>scratch, <const real*>strip, bias, block > 0, to, lds,
                              (columns + lanes(a) - 1) // lanes(a) * lanes(a), &ahead)
                if block == t.blocks - 1:
                    spread(c, &s, rows, <const real*>to, lds, out + sample * out_sample + m0 * ldo, ldo)
            index += count


cdef inline int64_t scratch_of(int64_t rows, int64_t width, int64_t strips) noexcept nogil:
    """Values that so many rows need, and strips whose sums are collected."""
    return whole_lines(panels_size(rows, BLOCK) + BLOCK * width + rows * strips * width)
