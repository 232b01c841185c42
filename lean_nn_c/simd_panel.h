/* Products of packed factors, and the packing, for the type LNN_T; names end in LNN_SUFFIX. Included by simd.h alone.
 *
 * A panel holds up to LNN_ROWS rows of A, term after term: a[k*LNN_ROWS + m]. A strip holds up to LNN_FULL vectors of
 * B's columns, term after term: b[k*nv*LANES + j]. Both are read from front to back, so the loop over k is nothing
 * but mr*nv multiply-adds, nv + mr loads and two additions to pointers.
 */

#define T LNN_T
#define LANES (LNN_BYTES / LNN_SIZE)
#define V LNN_NAME(lnn_v)
#define VU LNN_NAME(lnn_vu)

/* out[m*ldo + j] = (add ? itself : start ? start[m] : 0) + sum_k a[k*LNN_ROWS + m] * b[k*nv*LANES + j]. */
LNN_INLINE void LNN_NAME(lnn_panel_body)(const int mr, const int nv, ptrdiff_t kn, const T *a, const T *b,
                                         const T *start, int add, T *out, ptrdiff_t ldo)
{
    V acc[LNN_ROWS][LNN_FULL];
#pragma GCC unroll 8
    for (int m = 0; m < mr; m++) {
        __builtin_prefetch(out + m * ldo, 1);
#pragma GCC unroll 8
        for (int v = 0; v < nv; v++) acc[m][v] = (V){0};
    }
    for (; kn > 0; kn--, a += LNN_ROWS, b += nv * LANES) {
        V bv[LNN_FULL];
#pragma GCC unroll 8
        for (int v = 0; v < nv; v++) bv[v] = *(const VU *)(b + v * LANES);
#pragma GCC unroll 8
        for (int m = 0; m < mr; m++) {
            const T x = a[m];
#pragma GCC unroll 8
            for (int v = 0; v < nv; v++) acc[m][v] += x * bv[v];
        }
    }
#pragma GCC unroll 8
    for (int m = 0; m < mr; m++) {
        const T first = !add && start ? start[m] : 0;
#pragma GCC unroll 8
        for (int v = 0; v < nv; v++) {
            VU *place = (VU *)(out + m * ldo + v * LANES);
            if (add) *place += acc[m][v];
            else *place = acc[m][v] + first;
        }
    }
}

/* The product of a panel of mr rows (3..LNN_ROWS) and a strip of nv vectors (1..LNN_FULL); one copy for all callers. */
static __attribute__((noinline, noclone)) void LNN_NAME(lnn_panel)(int mr, int nv, ptrdiff_t kn, const T *a,
                                                                   const T *b, const T *start, int add, T *out,
                                                                   ptrdiff_t ldo)
{
#define CASE(m, v) case (m) * 16 + (v): LNN_NAME(lnn_panel_body)(m, v, kn, a, b, start, add, out, ldo); return
    switch (mr * 16 + nv) {
        CASE(3, 1); CASE(3, 2); CASE(4, 1); CASE(4, 2); CASE(5, 1); CASE(5, 2); CASE(6, 1); CASE(6, 2);
#if LNN_REGISTERS == 32
        CASE(3, 3); CASE(3, 4); CASE(4, 3); CASE(4, 4); CASE(5, 3); CASE(5, 4); CASE(6, 3); CASE(6, 4);
#endif
        LNN_NO_OTHER;
    }
#undef CASE
}

/* A panel of rows that lie `row` apart: dst[k*LNN_ROWS + m] = src[m*row + k]. Blocks are turned in registers and
 * stored over one another, so the last few terms are left to go one by one. Six rows leave most of sixteen lanes empty: there
 * the vectors have eight, whose blocks are those of the rows i and i + 4. */
static __attribute__((noinline)) void LNN_NAME(lnn_rows)(const T *src, ptrdiff_t row, int rows, ptrdiff_t kn, T *dst)
{
#if LNN_BYTES / LNN_SIZE == 16 && defined(LNN_HALVES)
    enum { BANDS = 1, ACROSS = 8 };
    typedef T W __attribute__((vector_size(ACROSS * sizeof(T)), aligned(sizeof(T)), may_alias));
#define ROW_BLOCK(i) LNN_HALVES(LNN_SIZE, *(const PART *)(from[0][i] + k), *(const PART *)(from[0][i + BLOCK] + k))
#define ZIPPED(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13), __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#else
    enum { BANDS = (LNN_ROWS + LANES - 1) / LANES, ACROSS = LANES };
#endif
    enum { OVER = (BANDS * ACROSS - 1) / LNN_ROWS };
    const T *from[BANDS][ACROSS];
    ptrdiff_t k = 0;
    for (int m = 0; m < BANDS * ACROSS; m++)            /* rows there are not: the last one again, never used */
        from[m / ACROSS][m % ACROSS] = src + (m < rows ? m : rows - 1) * row;
    for (; k + BLOCK + OVER <= kn; k += BLOCK) {
#ifdef ZIPPED
        const W a = ROW_BLOCK(0), b = ROW_BLOCK(1), c = ROW_BLOCK(2), d = ROW_BLOCK(3);
        const W even[] = {ZIPPED(a, c)}, odd[] = {ZIPPED(b, d)};
        const W turned[] = {ZIPPED(even[0], odd[0]), ZIPPED(even[1], odd[1])};
#pragma GCC unroll 4
        for (int i = 0; i < BLOCK; i++) *(W *)(dst + (k + i) * LNN_ROWS) = turned[i];
#undef ROW_BLOCK
#undef ZIPPED
#else
        V a[BANDS][BLOCK];
#pragma GCC unroll 4
        for (int s = 0; s < BANDS; s++) LNN_NAME(lnn_turn_blocks)(from[s], k, a[s]);
#pragma GCC unroll 4
        for (int i = 0; i < BLOCK; i++)
#pragma GCC unroll 4
            for (int s = 0; s < BANDS; s++) *(VU *)(dst + (k + i) * LNN_ROWS + s * LANES) = a[s][i];
#endif
    }
    for (; k < kn; k++)
        for (int m = 0; m < rows; m++) dst[k * LNN_ROWS + m] = src[m * row + k];
}

/* A panel of rows that are neighbours in memory: dst[k*LNN_ROWS + m] = src[m + k*step]. */
static __attribute__((noinline)) void LNN_NAME(lnn_lines)(const T *src, ptrdiff_t step, int rows, ptrdiff_t kn, T *dst)
{
    if (rows == LNN_ROWS)
        for (ptrdiff_t k = 0; k < kn; k++) memcpy(dst + k * LNN_ROWS, src + k * step, LNN_ROWS * sizeof(T));
    else
        for (ptrdiff_t k = 0; k < kn; k++)
            for (int m = 0; m < rows; m++) dst[k * LNN_ROWS + m] = src[k * step + m];
}

/* A panel whose terms lie anywhere: dst[k*LNN_ROWS + m] = src[m*row + off[k]]. */
LNN_INLINE void LNN_NAME(lnn_gather_body)(const T *src, ptrdiff_t row, const int rows, const int64_t *off, ptrdiff_t kn, T *dst)
{
    for (ptrdiff_t k = 0; k < kn; k++, dst += LNN_ROWS) {
        const T *from = src + off[k];
#pragma GCC unroll 8
        for (int m = 0; m < rows; m++) dst[m] = from[m * row];
    }
}

static __attribute__((noinline)) void LNN_NAME(lnn_gather)(const T *src, ptrdiff_t row, int rows, const int64_t *off,
                                                           ptrdiff_t kn, T *dst)
{
    if (rows == 6) LNN_NAME(lnn_gather_body)(src, row, 6, off, kn, dst);
    else if (rows == 5) LNN_NAME(lnn_gather_body)(src, row, 5, off, kn, dst);
    else
        for (; rows > 0; rows--, src += row, dst++)
            for (ptrdiff_t k = 0; k < kn; k++) dst[k * LNN_ROWS] = src[off[k]];
}

/* A strip whose columns run along k, in runs: dst[k*nv*LANES + j] = src[off[j] + run[r] + i] for i < length[r], j <
 * nv*LANES, where k counts the values of all runs. No offset is negative. */
static __attribute__((noinline)) void LNN_NAME(lnn_columns)(const T *src, const int64_t *off, int nv,
                                                            const int64_t *run, const int64_t *length, ptrdiff_t runs,
                                                            T *dst)
{
    const ptrdiff_t width = (ptrdiff_t)nv * LANES;
    for (int v = 0; v < nv; v++) {
        const T *row[LANES];
        T *to = dst + v * LANES;
        for (int i = 0; i < LANES; i++) row[i] = src + off[v * LANES + i];
        for (ptrdiff_t r = 0; r < runs; to += length[r] * width, r++) {
            ptrdiff_t k = 0;
            if (length[r] >= BLOCK)
                while (k < length[r]) {
                    V a[BLOCK];
                    if (k + BLOCK > length[r]) k = length[r] - BLOCK;
                    LNN_NAME(lnn_turn_blocks)(row, run[r] + k, a);
#pragma GCC unroll 4
                    for (int i = 0; i < BLOCK; i++) *(VU *)(to + (k + i) * width) = a[i];
                    k += BLOCK;
                }
            if (BLOCK > 2 && length[r] == BLOCK - 1 && run[r] > 0) {       /* and the one before, which is not stored */
                V a[BLOCK];
                LNN_NAME(lnn_turn_blocks)(row, run[r] - 1, a);
#pragma GCC unroll 4
                for (; k < BLOCK - 1; k++) *(VU *)(to + k * width) = a[k + 1];
            }
            for (; k < length[r]; k++)
                for (int i = 0; i < LANES; i++) to[k * width + i] = row[i][run[r] + k];
        }
    }
}

/* dst[j] = src[2*j] for j < n: 16 bytes at a time, the last of them again. Nothing beyond the last cell is read. */
LNN_INLINE void LNN_NAME(lnn_seconds)(const T *src, ptrdiff_t n, T *dst)
{
    if (n < BLOCK) {
        for (ptrdiff_t j = 0; j < n; j++) dst[j] = src[2 * j];
        return;
    }
    for (ptrdiff_t j = 0; j < n; j += BLOCK) {
        if (j > n - BLOCK) j = n - BLOCK;
        const PART a = *(const PART *)(src + 2 * j), b = *(const PART *)(src + 2 * j + BLOCK - 1);
        *(PART *)(dst + j) = SECONDS(a, b);
    }
}

/* dst[to[i] + j] = src[from[i] + step*j] for i < n, j < run, where step is 1 or 2; four at a time, the last ones again. */
static __attribute__((noinline)) void LNN_NAME(lnn_runs)(const T *src, const uint16_t *from, const uint16_t *to, ptrdiff_t n,
                                                         ptrdiff_t run, int step, T *dst)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        T *d = dst + to[i];
        const T *s = src + from[i];
        if (step == 2)
            LNN_NAME(lnn_seconds)(s, run, d);
        else if (run >= 4) {
            for (ptrdiff_t j = 0; j < run - 4; j += 4) memcpy(d + j, s + j, 4 * sizeof(T));
            memcpy(d + run - 4, s + run - 4, 4 * sizeof(T));
        } else
            for (ptrdiff_t j = 0; j < run; j++) d[j] = s[j];
    }
}

/* Two rows in turn, `rows` times: out[m*ldo + 2*j + r] = src[m*lds + r*next + j] for r < 2, j < n, the last ones again. */
static __attribute__((noinline)) void LNN_NAME(lnn_zip)(const T *src, ptrdiff_t lds, ptrdiff_t next, ptrdiff_t rows, ptrdiff_t n,
                                                        T *out, ptrdiff_t ldo)
{
    for (ptrdiff_t m = 0; m < rows; m++, src += lds, out += ldo) {
        ptrdiff_t j = 0;
        if (n >= BLOCK)
            for (; j < n; j += BLOCK) {
                if (j > n - BLOCK) j = n - BLOCK;
                const PART a = *(const PART *)(src + j), b = *(const PART *)(src + next + j);
                *(PART *)(out + 2 * j) = ZIP_LOW(a, b);
                *(PART *)(out + 2 * j + BLOCK) = ZIP_HIGH(a, b);
            }
        for (; j < n; j++) {
            out[2 * j] = src[j];
            out[2 * j + 1] = src[next + j];
        }
    }
}

/* All phases of a row: dst[f*plane + i] = src[step*i + f] for f < step, i < n, where step is more than 2: a matrix turned, the
 * last of its rows and columns again. */
static __attribute__((noinline)) void LNN_NAME(lnn_unzip)(const T *src, ptrdiff_t step, ptrdiff_t n, T *dst, ptrdiff_t plane)
{
    const ptrdiff_t most = step >= BLOCK ? n : n - 1;       /* three phases are read with the next one's first */
    ptrdiff_t i = 0;
    if (most >= LANES)
        while (i < most) {
            const T *row[LANES];
            if (i > most - LANES) i = most - LANES;
#pragma GCC unroll 16
            for (int r = 0; r < LANES; r++) row[r] = src + (i + r) * step;
            for (ptrdiff_t f = 0; f < step; f += BLOCK) {
                V a[BLOCK];
                if (f > step - BLOCK && step >= BLOCK) f = step - BLOCK;
                T *const to = dst + f * plane + i;
                LNN_NAME(lnn_turn_blocks)(row, f, a);
#pragma GCC unroll 4
                for (int j = 0; j < BLOCK; j++)
                    if (j < step) *(VU *)(to + j * plane) = a[j];
            }
            i += LANES;
        }
    for (; i < n; i++)
        for (ptrdiff_t f = 0; f < step; f++) dst[f * plane + i] = src[step * i + f];
}

/* Part of a strip: dst[k*width + j] = src[off[k] + j] for j < length, by two copies of `half` values that overlap. */
LNN_INLINE void LNN_NAME(lnn_piece_body)(const int half, const T *src, const int64_t *off, ptrdiff_t kn,
                                         ptrdiff_t length, ptrdiff_t width, T *dst)
{
    for (ptrdiff_t k = 0; k < kn; k++, dst += width) {
        const T *from = src + off[k];
        if (half == LANES) {                            /* memcpy would take it in two halves */
            *(VU *)dst = *(const VU *)from;
            *(VU *)(dst + length - half) = *(const VU *)(from + length - half);
        } else {
            memcpy(dst, from, half * sizeof(T));
            memcpy(dst + length - half, from + length - half, half * sizeof(T));
        }
    }
}

static __attribute__((noinline)) void LNN_NAME(lnn_piece)(const T *src, const int64_t *off, ptrdiff_t kn,
                                                          ptrdiff_t length, ptrdiff_t width, T *dst)
{
    for (; length > 2 * LANES; length -= LANES, src += LANES, dst += LANES)
        LNN_NAME(lnn_piece_body)(LANES, src, off, kn, LANES, width, dst);
    if (length >= LANES) LNN_NAME(lnn_piece_body)(LANES, src, off, kn, length, width, dst);
#if LNN_BYTES / LNN_SIZE >= 16
    else if (length >= 8) LNN_NAME(lnn_piece_body)(8, src, off, kn, length, width, dst);
#endif
#if LNN_BYTES / LNN_SIZE >= 8
    else if (length >= 4) LNN_NAME(lnn_piece_body)(4, src, off, kn, length, width, dst);
#endif
#if LNN_BYTES / LNN_SIZE >= 4
    else if (length >= 2) LNN_NAME(lnn_piece_body)(2, src, off, kn, length, width, dst);
#endif
    else LNN_NAME(lnn_piece_body)(1, src, off, kn, length, width, dst);
}

#undef T
#undef LANES
#undef V
#undef VU
#undef INTS
#undef PART
#undef SECONDS
#undef ZIP_LOW
#undef ZIP_HIGH
#undef BLOCK
#undef LOW
#undef HIGH
