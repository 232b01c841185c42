/* The transforms and the product of winograd.h for the type LNN_T; names end in LNN_SUFFIX. Included by it alone. */

#define T LNN_T
#define N LNN_LANES
#define V LNN_NAME(lnn_v)
#define VU LNN_NAME(lnn_vu)
#define QUAD LNN_NAME(lnn_quad)
#define OCTET LNN_NAME(lnn_octet)
#define UNROLL _Pragma("GCC unroll 9")
#define ROWS _Pragma("GCC unroll 12")
#define ROLLED _Pragma("GCC unroll 1") /* where that is no slower: the wheel has little room */

typedef T QUAD __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));
#if LNN_LANES == 16
typedef T OCTET __attribute__((vector_size(8 * sizeof(T)), aligned(sizeof(T)), may_alias));
#endif

/* n values; the last few by a piece that overlaps the one before. The empty statement keeps the compiler from making the
 * loop a call of memmove, which takes longer than such short rows. */
LNN_INLINE void LNN_NAME(lnn_wino_copy)(T *to, const T *from, ptrdiff_t n)
{
    if (n >= N) {
        for (ptrdiff_t i = 0; i < n - N; i += N) {
            *(VU *)(to + i) = *(const VU *)(from + i);
            __asm__ volatile("");
        }
        *(VU *)(to + n - N) = *(const VU *)(from + n - N);
#if LNN_LANES == 16
    } else if (n >= 8) {
        *(OCTET *)to = *(const OCTET *)from;
        *(OCTET *)(to + n - 8) = *(const OCTET *)(from + n - 8);
#endif
    } else if (n >= 4) {
        *(QUAD *)to = *(const QUAD *)from;
        *(QUAD *)(to + n - 4) = *(const QUAD *)(from + n - 4);
    } else {
        if (n & 2) to[0] = from[0], to[1] = from[1];
        if (n & 1) to[n - 1] = from[n - 1];
    }
}

/* Lines of n values, `pitch` apart from others `line` apart. */
LNN_CALLED void LNN_NAME(lnn_wino_lines)(const T *from, ptrdiff_t line, T *to, ptrdiff_t pitch, ptrdiff_t lines, ptrdiff_t n)
{
    for (; lines > 0; lines--, from += line, to += pitch) LNN_NAME(lnn_wino_copy)(to, from, n);
}

/* What a cell of a layer's image is, where that is relu(batch norm) of the cell which is read: (x - mean)*(w*rstd) + b, 0 if that is not
 * positive; with the operations of standard_real.h, hence its bits. */
#define HEADED(x, mean, scale, shift) LNN_NAME(lnn_open)(((x) - (mean)) * (scale) + (shift))
LNN_INLINE V LNN_NAME(lnn_open)(V y) { return (V)((LNN_NAME(lnn_ints))y & ~(LNN_NAME(lnn_ints))(y <= 0)); }

LNN_INLINE void LNN_NAME(lnn_head)(V cells[4], const T *number)
{
    const V mean = *(const VU *)number, scale = *(const VU *)(number + N), shift = *(const VU *)(number + 2 * N);
    UNROLL for (int j = 0; j < 4; j++) cells[j] = HEADED(cells[j], mean, scale, shift);
}

/* Rows of n neighbours as such cells, `pitch` apart from rows `line` apart; number = (mean, scale, shift). */
LNN_CALLED void LNN_NAME(lnn_wino_read)(T *to, ptrdiff_t pitch, const T *from, ptrdiff_t line, ptrdiff_t rows, ptrdiff_t n,
                                        const T *number)
{
    const V mean = number[0] - (V){0}, scale = number[1] - (V){0}, shift = number[2] - (V){0};
    for (; rows > 0; rows--, to += pitch, from += line) {
        if (n < N) {
            T few[N] = {0};
            memcpy(few, from, (size_t)n * sizeof(T));
            *(VU *)few = HEADED(*(const VU *)few, mean, scale, shift);
            memcpy(to, few, (size_t)n * sizeof(T));
            continue;
        }
        for (ptrdiff_t i = 0; i < n - N; i += N) *(VU *)(to + i) = HEADED(*(const VU *)(from + i), mean, scale, shift);
        *(VU *)(to + n - N) = HEADED(*(const VU *)(from + n - N), mean, scale, shift);
    }
}

/* --- four neighbours from every lane's place, and back: as they lie (quads), and turned, so that lanes are tiles --- */

#if LNN_LANES == 2
LNN_INLINE void LNN_NAME(lnn_quads)(const T *const *p, ptrdiff_t at, V q[4])
{
    UNROLL for (int j = 0; j < 4; j++) q[j] = (V){p[0][at + j], p[1][at + j]};
}

LNN_INLINE void LNN_NAME(lnn_put_quads)(T *const *p, ptrdiff_t at, const V q[4])
{
    UNROLL for (int j = 0; j < 4; j++) p[0][at + j] = q[j][0], p[1][at + j] = q[j][1];
}

LNN_INLINE void LNN_NAME(lnn_transpose)(V q[4]) { (void)q; }
#else
/* q[k] lanes 4b.. = p[4b + k][at..] */
LNN_INLINE void LNN_NAME(lnn_quads)(const T *const *p, ptrdiff_t at, V q[4])
{
    UNROLL for (int k = 0; k < 4; k++) {
#define FROM(b) (*(const QUAD *)(p[4 * (b) + k] + at))
#if LNN_LANES == 4
        q[k] = FROM(0);
#elif LNN_LANES == 8
        q[k] = LNN_TWICE_4(FROM(0), FROM(1));
#else
        q[k] = LNN_TWICE_8(LNN_TWICE_4(FROM(0), FROM(1)), LNN_TWICE_4(FROM(2), FROM(3)));
#endif
#undef FROM
    }
}

LNN_INLINE void LNN_NAME(lnn_put_quads)(T *const *p, ptrdiff_t at, const V q[4])
{
    UNROLL for (int k = 0; k < 4; k++) {
#define TO(b) *(QUAD *)(p[4 * (b) + k] + at) = LNN_SHUFFLE(q[k], q[k], 4 * (b), 4 * (b) + 1, 4 * (b) + 2, 4 * (b) + 3)
        TO(0);
#if LNN_LANES >= 8
        TO(1);
#endif
#if LNN_LANES == 16
        TO(2);
        TO(3);
#endif
#undef TO
    }
}

/* q[j] lane 4b + k  <->  q[k] lane 4b + j. */
LNN_INLINE void LNN_NAME(lnn_transpose)(V q[4])
{
    const V low = LNN_OF_LANES(LNN_LOW)(q[0], q[1]), high = LNN_OF_LANES(LNN_HIGH)(q[0], q[1]);
    const V low2 = LNN_OF_LANES(LNN_LOW)(q[2], q[3]), high2 = LNN_OF_LANES(LNN_HIGH)(q[2], q[3]);
    q[0] = LNN_OF_LANES(LNN_FRONT)(low, low2);
    q[1] = LNN_OF_LANES(LNN_BACK)(low, low2);
    q[2] = LNN_OF_LANES(LNN_FRONT)(high, high2);
    q[3] = LNN_OF_LANES(LNN_BACK)(high, high2);
}
#endif

/* q[j] lane l = p[l][at + j]. */
LNN_INLINE void LNN_NAME(lnn_gather_lanes)(const T *const *p, ptrdiff_t at, V q[4])
{
    LNN_NAME(lnn_quads)(p, at, q);
    LNN_NAME(lnn_transpose)(q);
}

/* p[l][at + j] = q[j] lane l. */
LNN_INLINE void LNN_NAME(lnn_scatter)(T *const *p, ptrdiff_t at, const V in[4])
{
    V q[4] = {in[0], in[1], in[2], in[3]};
    LNN_NAME(lnn_transpose)(q);
    LNN_NAME(lnn_put_quads)(p, at, q);
}

#include "winograd_points.h"

/* --- in two dimensions: along the rows, then along the columns; points xi are numbered column by column --- */

#define OUTPUTS(side) ((side) == 4 ? 2 : 4)
#define TAPS(side) ((side) == 9 ? 5 : 3)
#define CELLS(side) (OUTPUTS(side) + TAPS(side) - 1)

LNN_INLINE void LNN_NAME(lnn_store_points)(const int side, const V *v, T *out, ptrdiff_t step)
{
    UNROLL for (int i = 0; i < side; i++) *(VU *)(out + i * step) = v[i];
}

/* out[xi*step + lane] = (B^T d B)[xi], or (B^T d)[xi] of one row (`flat`), for the LANES tiles at p + at, rows `pitch` apart; reads 4
 * or 8 cells of a row. */
LNN_INLINE void LNN_NAME(lnn_image_2d)(const int side, int flat, const T *const *p, ptrdiff_t at, ptrdiff_t pitch, T *out, ptrdiff_t step)
{
    const int lines = CELLS(side); /* named, or the loop below stays one */
    V half[8 * 9], cells[8], column[8], v[9];
    for (int i = 0; i < (flat ? 1 : lines); i++) {
        LNN_NAME(lnn_gather_lanes)(p, at + i * pitch, cells);
        if (side > 4) LNN_NAME(lnn_gather_lanes)(p, at + i * pitch + 4, cells + 4);
        LNN_NAME(lnn_image_1d)(side, cells, half + i * side);
    }
    if (flat) {
        LNN_NAME(lnn_store_points)(side, half, out, step);
        return;
    }
    for (int j = 0; j < side; j++) {
        UNROLL for (int i = 0; i < lines; i++) column[i] = half[i * side + j];
        LNN_NAME(lnn_image_1d)(side, column, v);
        UNROLL for (int i = 0; i < side; i++, out += step) *(VU *)out = v[i];
    }
}

/* All cells of LANES filters, 3, 5, 9 or 25 from every lane's place; of 3, one that lies behind them too. */
LNN_INLINE void LNN_NAME(lnn_filter_cells)(const int count, const T *const *p, V *cells)
{
    V last[4];
    if (count == 3) {
        LNN_NAME(lnn_gather_lanes)(p, 0, cells);
        return;
    }
    UNROLL for (int k = 0; k + 4 < count; k += 4) LNN_NAME(lnn_gather_lanes)(p, k, cells + k);
    LNN_NAME(lnn_gather_lanes)(p, count - 4, last);
    cells[count - 1] = last[3];
}

/* Turned by half a turn. */
LNN_INLINE void LNN_NAME(lnn_half_turn)(const int count, V *cells)
{
    UNROLL for (int i = 0; i < count / 2; i++) {
        const V first = cells[i];
        cells[i] = cells[count - 1 - i], cells[count - 1 - i] = first;
    }
}

/* Column j of their points, from the transforms of their lines. Returns the place of the next. */
LNN_INLINE T *LNN_NAME(lnn_weight_column)(const int side, V half[5][9], int j, T *out, ptrdiff_t step)
{
    V column[5] = {half[0][j], half[1][j], half[2][j]}, u[9];
    if (TAPS(side) == 5) column[3] = half[3][j], column[4] = half[4][j];
    LNN_NAME(lnn_weight_1d)(side, column, u);
    UNROLL for (int i = 0; i < side; i++, out += step) *(VU *)out = u[i];
    return out;
}

/* out[xi*step + lane] = (G g G^T)[xi], or (G g)[xi], for LANES filters, `next` apart; `flip`: turned by half a turn. Nine cells stay in
 * registers. */
LNN_INLINE void LNN_NAME(lnn_weight_2d)(const int side, int flat, int flip, const T *w, ptrdiff_t next, T *out, ptrdiff_t step)
{
    const int taps = TAPS(side);
    const T *p[N];
    V half[5][9], cells[25];
    UNROLL for (int l = 0; l < N; l++) p[l] = w + l * next;
    if (flat) {
        LNN_NAME(lnn_filter_cells)(taps, p, cells);
        if (flip) LNN_NAME(lnn_half_turn)(taps, cells);
        LNN_NAME(lnn_weight_1d)(side, cells, half[0]);
        LNN_NAME(lnn_store_points)(side, half[0], out, step);
        return;
    }
    LNN_NAME(lnn_filter_cells)(taps * taps, p, cells);
    if (flip) LNN_NAME(lnn_half_turn)(taps * taps, cells);
    if (side == 9) {
        ROLLED for (int i = 0; i < taps; i++) LNN_NAME(lnn_weight_1d)(side, cells + taps * i, half[i]);
        ROLLED for (int j = 0; j < side; j++) out = LNN_NAME(lnn_weight_column)(side, half, j, out, step);
    } else {
        UNROLL for (int i = 0; i < taps; i++) LNN_NAME(lnn_weight_1d)(side, cells + taps * i, half[i]);
        UNROLL for (int j = 0; j < side; j++) out = LNN_NAME(lnn_weight_column)(side, half, j, out, step);
    }
}

#include "winograd_output.h"

/* out[xi*step + lane] = (A g A^T)[xi] for the LANES tiles of m x m cells at p + at, rows `pitch` apart, or (A g)[xi] for tiles of m cells;
 * with number = (means, scales, shifts), a vector each, of cells that are HEADED. */
LNN_INLINE void LNN_NAME(lnn_cotangent_2d)(const int side, int flat, const T *const *p, ptrdiff_t at, ptrdiff_t pitch, const T *number,
                                           T *out, ptrdiff_t step)
{
    const int m = OUTPUTS(side);
    V half[4 * 9], cells[4], column[4], q[9];
    if (m == 2) {       /* both rows of a tile as one group of four */
        T four[N][4];
        const T *place[N];
        for (int l = 0; l < N; l++) {
            memcpy(four[l], p[l] + at, 2 * sizeof(T));
            memcpy(four[l] + 2, p[l] + at + pitch, 2 * sizeof(T));
            place[l] = four[l];
        }
        LNN_NAME(lnn_gather_lanes)(place, 0, cells);
        if (number) LNN_NAME(lnn_head)(cells, number);
        LNN_NAME(lnn_cotangent_1d)(side, cells, half);
        LNN_NAME(lnn_cotangent_1d)(side, cells + 2, half + side);
    } else
        for (int i = 0; i < (flat ? 1 : m); i++) {
            LNN_NAME(lnn_gather_lanes)(p, at + i * pitch, cells);
            if (number) LNN_NAME(lnn_head)(cells, number);
            LNN_NAME(lnn_cotangent_1d)(side, cells, half + i * side);
        }
    if (flat) {
        LNN_NAME(lnn_store_points)(side, half, out, step);
        return;
    }
    for (int j = 0; j < side; j++) {
        UNROLL for (int i = 0; i < m; i++) column[i] = half[i * side + j];
        LNN_NAME(lnn_cotangent_1d)(side, column, q);
        UNROLL for (int i = 0; i < side; i++, out += step) *(VU *)out = q[i];
    }
}

/* `count` cells (+)= w from every lane's place on, by fours as long as there are four. Returns `none`, unless some is infinite or
 * NaN. */
LNN_CALLED V LNN_NAME(lnn_put_cells)(int count, const V *w, int add, T *const *p, V none)
{
    V now[4], old[4];
    int k = 0;
    for (; k + 4 <= count; k += 4) {
        if (add) LNN_NAME(lnn_gather_lanes)((const T *const *)p, k, old);
        UNROLL for (int j = 0; j < 4; j++) {
            now[j] = add ? w[k + j] + old[j] : w[k + j];
            none += now[j] * 0;
        }
        LNN_NAME(lnn_scatter)(p, k, now);
    }
    for (; k < count; k++) {
        now[0] = w[k];
        if (add) UNROLL for (int l = 0; l < N; l++) now[0][l] += p[l][k];
        UNROLL for (int l = 0; l < N; l++) p[l][k] = now[0][l];
        none += now[0] * 0;
    }
    return none;
}

/* w (+)= G^T u G, or G^T u, with u[xi] at in + xi*step; 9 or 25 cells, or 3 or 5, to every lane's place, turned by half a turn if `flip`.
 * `behind`: the cell behind them is going to be written next, and may be overwritten, or be read and written as it was (`add`).
 * `zero` as above. */
LNN_INLINE void LNN_NAME(lnn_filter_2d)(const int side, int flat, int flip, int behind, const T *in, ptrdiff_t step, int add, T *const *p, T *zero)
{
    const int taps = TAPS(side);
    V half[5 * 9], u[9], column[5], w[25];
    V none = *(const VU *)zero;
    if (flat) {
        UNROLL for (int i = 0; i < side; i++) u[i] = *(const VU *)(in + i * step);
        LNN_NAME(lnn_filter_1d)(side, u, w);
        if (flip) LNN_NAME(lnn_half_turn)(taps, w);
        if (taps == 3) w[3] = -(V){0}; /* what changes no number it is added to */
        *(VU *)zero = LNN_NAME(lnn_put_cells)(taps + (taps == 3 && behind), w, add, p, none);
        return;
    }
    for (int j = 0; j < side; j++) {
        UNROLL for (int i = 0; i < side; i++, in += step) u[i] = *(const VU *)in;
        LNN_NAME(lnn_filter_1d)(side, u, column);
        UNROLL for (int i = 0; i < taps; i++) half[i * side + j] = column[i];
    }
    ROLLED for (int i = 0; i < taps; i++) LNN_NAME(lnn_filter_1d)(side, half + i * side, w + taps * i);
    if (flip) LNN_NAME(lnn_half_turn)(taps * taps, w);
    *(VU *)zero = LNN_NAME(lnn_put_cells)(taps * taps, w, add, p, none);
}

/* What Cython calls, by the products of an axis; `flat`: of a single one, which is not the case of 4. */
#define BY_SIDE(name, ...)                                      \
    do {                                                        \
        if (side == 6) LNN_NAME(name)(6, flat, __VA_ARGS__);    \
        else if (side == 4) LNN_NAME(name)(4, 0, __VA_ARGS__);  \
        else LNN_NAME(name)(9, flat, __VA_ARGS__);              \
    } while (0)

LNN_CALLED void LNN_NAME(lnn_wino_image)(int side, int flat, int vectors, const T *const *p, ptrdiff_t at, ptrdiff_t pitch, T *out,
                                         ptrdiff_t step)
{
    for (; vectors > 0; vectors--, p += N, out += N) BY_SIDE(lnn_image_2d, p, at, pitch, out, step);
}

/* Filters of one row; those `ahead`, used soon, are called into the cache. The last vector may have fewer filters than
 * lanes: the other lanes repeat them. What lies behind the last filter is not read. */
LNN_CALLED void LNN_NAME(lnn_wino_weight)(int side, int flat, int flip, ptrdiff_t filters, const T *w, ptrdiff_t next,
                                          ptrdiff_t ahead, T *out, ptrdiff_t step)
{
    const int cells = flat ? TAPS(side) : TAPS(side) * TAPS(side);
    T rest[N * 25];
    for (ptrdiff_t k = 0; k < filters; k += N, w += N * next, out += N) {
        for (int l = 0; l < N; l++)
            __builtin_prefetch((const void *)((uintptr_t)w + (uintptr_t)(ahead + l * next) * sizeof(T)));
        if (k + N + (cells == 3) > filters) {
            for (ptrdiff_t l = 0; l < N; l++) memcpy(rest + cells * l, w + l % (filters - k) * next, (size_t)cells * sizeof(T));
            w = rest, next = cells;
        }
        BY_SIDE(lnn_weight_2d, flip, w, next, out, step);
    }
}

LNN_CALLED void LNN_NAME(lnn_wino_output)(int side, int flat, int joined, const T *in, ptrdiff_t step, T bias, T *const *p,
                                          const int64_t *pitch, const lnn_tail *tail, T *zero)
{
    BY_SIDE(lnn_output_2d, joined, in, step, bias, p, pitch, tail, zero);
}

/* Neighbouring tiles, their results `next` apart. */
LNN_CALLED void LNN_NAME(lnn_wino_cotangent)(int side, int flat, int tiles, const T *const *p, ptrdiff_t pitch, const T *number, T *out,
                                             ptrdiff_t next, ptrdiff_t step)
{
    for (int k = 0; k < tiles; k++, out += next) BY_SIDE(lnn_cotangent_2d, p, k * OUTPUTS(side), pitch, number, out, step);
}

LNN_CALLED void LNN_NAME(lnn_wino_filter)(int side, int flat, int flip, int behind, const T *in, ptrdiff_t step, int add, T *const *p, T *zero)
{
    BY_SIDE(lnn_filter_2d, flip, behind, in, step, add, p, zero);
}

/* --- the product: out[r*width + lane] (+)= sum_k u[r*ldu + k] * v[k*ldv + lane], width = nv vectors. A single vector leaves too few
 *     sums under way, so where registers suffice it meets the rows of two panels, `next` apart. --- */

LNN_INLINE void LNN_NAME(lnn_wino_panel)(const int mr, const int nv, ptrdiff_t kn, const T *u, ptrdiff_t ldu, ptrdiff_t next,
                                         const T *v, ptrdiff_t ldv, int add, T *out)
{
    const int width = LNN_WINO_VECTORS * N;
    V acc[2 * LNN_WINO_PANEL][LNN_WINO_VECTORS];
    ROWS for (int r = 0; r < mr; r++)
        UNROLL for (int i = 0; i < nv; i++) acc[r][i] = (V){0};
    for (ptrdiff_t k = 0; k < kn; k++) {
        V b[LNN_WINO_VECTORS];
        UNROLL for (int i = 0; i < nv; i++) b[i] = *(const VU *)(v + k * ldv + i * N);
        ROWS for (int r = 0; r < mr; r++) {
            const T scale = u[r / LNN_WINO_PANEL * next + r % LNN_WINO_PANEL * ldu + k];
            UNROLL for (int i = 0; i < nv; i++) acc[r][i] += scale * b[i];
        }
    }
    ROWS for (int r = 0; r < mr; r++)
        UNROLL for (int i = 0; i < nv; i++) {
            VU *place = (VU *)(out + r * width + i * N);
            if (add) *place += acc[r][i];
            else *place = acc[r][i];
        }
}

LNN_CALLED void LNN_NAME(lnn_wino_product)(int mr, int nv, ptrdiff_t kn, const T *u, ptrdiff_t ldu, ptrdiff_t next, const T *v,
                                           ptrdiff_t ldv, int add, T *out)
{
#define CASE(r, i) case (r) * 4 + (i): LNN_NAME(lnn_wino_panel)(r, i, kn, u, ldu, next, v, ldv, add, out); return
    switch (mr * 4 + nv) {
        CASE(1, 1); CASE(2, 1); CASE(3, 1); CASE(4, 1); CASE(5, 1); CASE(6, 1);
        CASE(1, 2); CASE(2, 2); CASE(3, 2); CASE(4, 2); CASE(5, 2); CASE(6, 2);
#if LNN_REGISTERS == 32
        CASE(12, 1);
#endif
    }
#undef CASE
}

#undef T
#undef N
#undef V
#undef VU
#undef QUAD
#undef OCTET
#undef UNROLL
#undef ROWS
#undef ROLLED
#undef OUTPUTS
#undef TAPS
#undef CELLS
#undef BY_SIDE
#undef HEADED
