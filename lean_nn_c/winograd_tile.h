/* The transforms and the product of winograd.h for the type LNN_T; names end in LNN_SUFFIX. Included by it alone. */

#define T LNN_T
#define N LNN_LANES
#define V LNN_NAME(lnn_v)
#define VU LNN_NAME(lnn_vu)
#define QUAD LNN_NAME(lnn_quad)
#define OCTET LNN_NAME(lnn_octet)
#define UNROLL _Pragma("GCC unroll 8")

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

/* --- one-dimensional transforms; m = 4 or 2 outputs, a compile-time constant --- */

/* v = B^T d */
LNN_INLINE void LNN_NAME(lnn_image_1d)(const int m, const V *d, V *v)
{
    if (m == 2) {
        v[0] = d[0] - d[2], v[1] = d[1] + d[2], v[2] = d[2] - d[1], v[3] = d[3] - d[1];
        return;
    }
    const V even = d[4] - (T)LNN_BB * d[2], odd = d[3] - (T)LNN_BB * d[1];
    const V even2 = d[4] - (T)LNN_AA * d[2], odd2 = d[3] - (T)LNN_AA * d[1];
    v[0] = even2 - (T)LNN_BB * (d[2] - (T)LNN_AA * d[0]);
    v[1] = even + (T)LNN_A * odd;
    v[2] = even - (T)LNN_A * odd;
    v[3] = even2 + (T)LNN_B * odd2;
    v[4] = even2 - (T)LNN_B * odd2;
    v[5] = d[5] - (T)LNN_AA * d[3] - (T)LNN_BB * odd2;
}

/* u = G g */
LNN_INLINE void LNN_NAME(lnn_weight_1d)(const int m, const V *g, V *u)
{
    if (m == 2) {
        const V even = (T)0.5 * (g[0] + g[2]), odd = (T)0.5 * g[1];
        u[0] = g[0], u[1] = even + odd, u[2] = even - odd, u[3] = g[2];
        return;
    }
    const V even = (T)(1 / LNN_NA) * (g[0] + (T)LNN_AA * g[2]), even2 = (T)(1 / LNN_NB) * (g[0] + (T)LNN_BB * g[2]);
    u[0] = (T)(1 / (LNN_AA * LNN_BB)) * g[0];
    u[1] = even + (T)(LNN_A / LNN_NA) * g[1];
    u[2] = even - (T)(LNN_A / LNN_NA) * g[1];
    u[3] = even2 + (T)(LNN_B / LNN_NB) * g[1];
    u[4] = even2 - (T)(LNN_B / LNN_NB) * g[1];
    u[5] = g[2];
}

/* y = A^T t */
LNN_INLINE void LNN_NAME(lnn_output_1d)(const int m, const V *t, V *y)
{
    const V sum = t[1] + t[2], diff = t[1] - t[2];
    if (m == 2) {
        y[0] = t[0] + sum, y[1] = diff + t[3];
        return;
    }
    const V sum2 = t[3] + t[4], diff2 = t[3] - t[4];
    y[0] = t[0] + (sum + sum2);
    y[1] = (T)LNN_A * diff + (T)LNN_B * diff2;
    y[2] = (T)LNN_AA * sum + (T)LNN_BB * sum2;
    y[3] = t[5] + ((T)(LNN_A * LNN_AA) * diff + (T)(LNN_B * LNN_BB) * diff2);
}

/* q = A g */
LNN_INLINE void LNN_NAME(lnn_cotangent_1d)(const int m, const V *g, V *q)
{
    if (m == 2) {
        q[0] = g[0], q[1] = g[0] + g[1], q[2] = g[0] - g[1], q[3] = g[1];
        return;
    }
    const V even = g[0] + (T)LNN_AA * g[2], odd = (T)LNN_A * (g[1] + (T)LNN_AA * g[3]);
    const V even2 = g[0] + (T)LNN_BB * g[2], odd2 = (T)LNN_B * (g[1] + (T)LNN_BB * g[3]);
    q[0] = g[0], q[1] = even + odd, q[2] = even - odd, q[3] = even2 + odd2, q[4] = even2 - odd2, q[5] = g[3];
}

/* w = G^T u */
LNN_INLINE void LNN_NAME(lnn_filter_1d)(const int m, const V *u, V *w)
{
    const V sum = u[1] + u[2], diff = u[1] - u[2];
    if (m == 2) {
        w[0] = u[0] + (T)0.5 * sum, w[1] = (T)0.5 * diff, w[2] = u[3] + (T)0.5 * sum;
        return;
    }
    const V sum2 = u[3] + u[4], diff2 = u[3] - u[4];
    w[0] = (T)(1 / (LNN_AA * LNN_BB)) * u[0] + ((T)(1 / LNN_NA) * sum + (T)(1 / LNN_NB) * sum2);
    w[1] = (T)(LNN_A / LNN_NA) * diff + (T)(LNN_B / LNN_NB) * diff2;
    w[2] = u[5] + ((T)(LNN_AA / LNN_NA) * sum + (T)(LNN_BB / LNN_NB) * sum2);
}

/* --- in two dimensions: along the rows, then along the columns; points xi are numbered column by column --- */

/* out[xi*step + lane] = (B^T d B)[xi] for the LANES tiles at p + at, rows `pitch` apart; reads 4 or 8 cells of a row. */
LNN_INLINE void LNN_NAME(lnn_image_2d)(const int m, const T *const *p, ptrdiff_t at, ptrdiff_t pitch, T *out, ptrdiff_t step)
{
    const int a = m + 2;
    V half[6][6], cells[8], column[6], v[6];
    for (int i = 0; i < a; i++) {
        LNN_NAME(lnn_gather_lanes)(p, at + i * pitch, cells);
        if (m == 4) LNN_NAME(lnn_gather_lanes)(p, at + i * pitch + 4, cells + 4);
        LNN_NAME(lnn_image_1d)(m, cells, half[i]);
    }
    for (int j = 0; j < a; j++) {
        UNROLL for (int i = 0; i < a; i++) column[i] = half[i][j];
        LNN_NAME(lnn_image_1d)(m, column, v);
        UNROLL for (int i = 0; i < a; i++, out += step) *(VU *)out = v[i];
    }
}

/* out[xi*step + lane] = (G g G^T)[xi] for LANES filters of nine cells, `next` apart; `flip`: turned by half a turn. */
LNN_INLINE void LNN_NAME(lnn_weight_2d)(const int m, const int flip, const T *w, ptrdiff_t next, T *out, ptrdiff_t step)
{
    const int a = m + 2;
    const T *p[N];
    V half[3][6], quad[4], g[3], column[3], u[6];
    UNROLL for (int l = 0; l < N; l++) p[l] = w + l * next;
    UNROLL for (int i = 0; i < 3; i++) {
        const int row = flip ? 2 - i : i, first = row == 2;       /* the last row from cell 5 on: 8 is the last cell */
        LNN_NAME(lnn_gather_lanes)(p, row == 2 ? 5 : 3 * row, quad);
        UNROLL for (int j = 0; j < 3; j++) g[j] = quad[first + (flip ? 2 - j : j)];
        LNN_NAME(lnn_weight_1d)(m, g, half[i]);
    }
    UNROLL for (int j = 0; j < a; j++) {
        UNROLL for (int i = 0; i < 3; i++) column[i] = half[i][j];
        LNN_NAME(lnn_weight_1d)(m, column, u);
        UNROLL for (int i = 0; i < a; i++, out += step) *(VU *)out = u[i];
    }
}

#include "winograd_output.h"

/* out[xi*step + lane] = (A g A^T)[xi] for the LANES tiles of m x m cells at p, rows `pitch` apart; with number = (means, scales,
 * shifts), a vector each, of cells that are HEADED. */
LNN_INLINE void LNN_NAME(lnn_cotangent_2d)(const int m, const T *const *p, ptrdiff_t pitch, const T *number, T *out, ptrdiff_t step)
{
    const int a = m + 2;
    V half[4][6], cells[4], column[4], q[6];
    if (m == 2) {       /* both rows of a tile as one group of four */
        T four[N][4];
        const T *place[N];
        for (int l = 0; l < N; l++) {
            memcpy(four[l], p[l], 2 * sizeof(T));
            memcpy(four[l] + 2, p[l] + pitch, 2 * sizeof(T));
            place[l] = four[l];
        }
        LNN_NAME(lnn_gather_lanes)(place, 0, cells);
        if (number) LNN_NAME(lnn_head)(cells, number);
        LNN_NAME(lnn_cotangent_1d)(m, cells, half[0]);
        LNN_NAME(lnn_cotangent_1d)(m, cells + 2, half[1]);
    } else
        for (int i = 0; i < m; i++) {
            LNN_NAME(lnn_gather_lanes)(p, i * pitch, cells);
            if (number) LNN_NAME(lnn_head)(cells, number);
            LNN_NAME(lnn_cotangent_1d)(m, cells, half[i]);
        }
    for (int j = 0; j < a; j++) {
        UNROLL for (int i = 0; i < m; i++) column[i] = half[i][j];
        LNN_NAME(lnn_cotangent_1d)(m, column, q);
        UNROLL for (int i = 0; i < a; i++, out += step) *(VU *)out = q[i];
    }
}

/* w (+)= G^T u G with u[xi] at in + xi*step; nine cells to every lane's place, turned by half a turn if `flip`. `zero` as above. */
LNN_INLINE void LNN_NAME(lnn_filter_2d)(const int m, int flip, const T *in, ptrdiff_t step, int add, T *const *p, T *zero)
{
    const int a = m + 2;
    V half[3][6], u[6], w[12], old[4];
    V none = *(const VU *)zero;
    for (int j = 0; j < a; j++) {
        UNROLL for (int i = 0; i < a; i++, in += step) u[i] = *(const VU *)in;
        LNN_NAME(lnn_filter_1d)(m, u, w);
        UNROLL for (int i = 0; i < 3; i++) half[i][j] = w[i];
    }
    UNROLL for (int i = 0; i < 3; i++) LNN_NAME(lnn_filter_1d)(m, half[i], w + 3 * i);
    if (flip)
        UNROLL for (int i = 0; i < 4; i++) {
            const V first = w[i];
            w[i] = w[8 - i], w[8 - i] = first;
        }
    UNROLL for (int i = 0; i < 8; i += 4) {
        if (add) {
            LNN_NAME(lnn_gather_lanes)((const T *const *)p, i, old);
            UNROLL for (int j = 0; j < 4; j++) w[i + j] += old[j];
        }
        LNN_NAME(lnn_scatter)(p, i, w + i);
        UNROLL for (int j = 0; j < 4; j++) none += w[i + j] * 0;
    }
    for (int l = 0; l < N; l++) p[l][8] = add ? p[l][8] + w[8][l] : w[8][l];
    *(VU *)zero = none + w[8] * 0;
}

LNN_CALLED void LNN_NAME(lnn_wino_image)(int m, const T *const *p, ptrdiff_t at, ptrdiff_t pitch, T *out, ptrdiff_t step)
{
    if (m == 4) LNN_NAME(lnn_image_2d)(4, p, at, pitch, out, step);
    else LNN_NAME(lnn_image_2d)(2, p, at, pitch, out, step);
}

/* Filters of one row; those `ahead`, used soon, are called into the cache. The last vector may have fewer filters than
 * lanes: the other lanes repeat them. */
LNN_CALLED void LNN_NAME(lnn_wino_weight)(int m, int flip, ptrdiff_t filters, const T *w, ptrdiff_t next,
                                          ptrdiff_t ahead, T *out, ptrdiff_t step)
{
    T rest[N * 9];
    for (ptrdiff_t k = 0; k < filters; k += N, w += N * next, out += N) {
        for (int l = 0; l < N; l++)
            __builtin_prefetch((const void *)((uintptr_t)w + (uintptr_t)(ahead + l * next) * sizeof(T)));
        if (k + N > filters) {
            for (ptrdiff_t l = 0; l < N; l++) memcpy(rest + 9 * l, w + l % (filters - k) * next, 9 * sizeof(T));
            w = rest, next = 9;
        }
        if (m == 4 && flip) LNN_NAME(lnn_weight_2d)(4, 1, w, next, out, step);
        else if (m == 4) LNN_NAME(lnn_weight_2d)(4, 0, w, next, out, step);
        else if (flip) LNN_NAME(lnn_weight_2d)(2, 1, w, next, out, step);
        else LNN_NAME(lnn_weight_2d)(2, 0, w, next, out, step);
    }
}

LNN_CALLED void LNN_NAME(lnn_wino_output)(int m, const T *in, ptrdiff_t step, T bias, T *const *p,
                                          const int64_t *pitch, const lnn_tail *tail, T *zero)
{
    if (m == 4) LNN_NAME(lnn_output_2d)(4, in, step, bias, p, pitch, tail, zero);
    else LNN_NAME(lnn_output_2d)(2, in, step, bias, p, pitch, tail, zero);
}

LNN_CALLED void LNN_NAME(lnn_wino_cotangent)(int m, const T *const *p, ptrdiff_t pitch, const T *number, T *out, ptrdiff_t step)
{
    if (m == 4) LNN_NAME(lnn_cotangent_2d)(4, p, pitch, number, out, step);
    else LNN_NAME(lnn_cotangent_2d)(2, p, pitch, number, out, step);
}

LNN_CALLED void LNN_NAME(lnn_wino_filter)(int m, int flip, const T *in, ptrdiff_t step, int add, T *const *p, T *zero)
{
    if (m == 4) LNN_NAME(lnn_filter_2d)(4, flip, in, step, add, p, zero);
    else LNN_NAME(lnn_filter_2d)(2, flip, in, step, add, p, zero);
}

/* --- the product: out[r*width + lane] (+)= sum_k u[r*ldu + k] * v[k*ldv + lane], width = nv vectors --- */

LNN_INLINE void LNN_NAME(lnn_wino_panel)(const int mr, const int nv, ptrdiff_t kn, const T *u, ptrdiff_t ldu,
                                         const T *v, ptrdiff_t ldv, int add, T *out)
{
    const int width = LNN_WINO_VECTORS * N;
    V acc[LNN_WINO_PANEL][LNN_WINO_VECTORS];
    UNROLL for (int r = 0; r < mr; r++)
        UNROLL for (int i = 0; i < nv; i++) acc[r][i] = (V){0};
    for (ptrdiff_t k = 0; k < kn; k++) {
        V b[LNN_WINO_VECTORS];
        UNROLL for (int i = 0; i < nv; i++) b[i] = *(const VU *)(v + k * ldv + i * N);
        UNROLL for (int r = 0; r < mr; r++) {
            const T scale = u[r * ldu + k];
            UNROLL for (int i = 0; i < nv; i++) acc[r][i] += scale * b[i];
        }
    }
    UNROLL for (int r = 0; r < mr; r++)
        UNROLL for (int i = 0; i < nv; i++) {
            VU *place = (VU *)(out + r * width + i * N);
            if (add) *place += acc[r][i];
            else *place = acc[r][i];
        }
}

LNN_CALLED void LNN_NAME(lnn_wino_product)(int mr, int nv, ptrdiff_t kn, const T *u, ptrdiff_t ldu, const T *v,
                                           ptrdiff_t ldv, int add, T *out)
{
#define CASE(r, i) case (r) * 4 + (i): LNN_NAME(lnn_wino_panel)(r, i, kn, u, ldu, v, ldv, add, out); return
    switch (mr * 4 + nv) {
        CASE(1, 1); CASE(2, 1); CASE(3, 1); CASE(4, 1); CASE(5, 1); CASE(6, 1);
        CASE(1, 2); CASE(2, 2); CASE(3, 2); CASE(4, 2); CASE(5, 2); CASE(6, 2);
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
#undef HEADED
