/* The tiles of simd.h for the type LNN_T; names end in LNN_SUFFIX. Included by simd.h alone. */

#define T LNN_T
#define LANES (LNN_BYTES / LNN_SIZE)
#define V LNN_NAME(lnn_v)
#define VU LNN_NAME(lnn_vu)

typedef T V __attribute__((vector_size(LNN_BYTES)));
typedef T VU __attribute__((vector_size(LNN_BYTES), aligned(sizeof(T)), may_alias));    /* anywhere in memory */

/* out[m*ldo + j] = (add ? itself : start ? start[m] : 0) + sum_k arow[m][aoff[k]] * b[boff[k] + j]. */
LNN_INLINE void LNN_NAME(lnn_body)(const int mr, const int nv, ptrdiff_t kn,
                                   const T *const *arow, const int64_t *aoff, const T *b, const int64_t *boff,
                                   const T *start, int add, T *out, ptrdiff_t ldo)
{
    V acc[LNN_TALLEST][LNN_WIDE];
    const T *row[LNN_TALLEST];
#pragma GCC unroll 12
    for (int m = 0; m < mr; m++) {
        row[m] = arow[m];
#pragma GCC unroll 8
        for (int v = 0; v < nv; v++) acc[m][v] = (V){0};
    }
    for (ptrdiff_t k = 0; k < kn; k++) {
        const T *bk = b + boff[k];
        const int64_t ak = aoff[k];
        V bv[LNN_WIDE];
#pragma GCC unroll 8
        for (int v = 0; v < nv; v++) bv[v] = *(const VU *)(bk + v * LANES);
#pragma GCC unroll 12
        for (int m = 0; m < mr; m++) {
            const T a = row[m][ak];
#pragma GCC unroll 8
            for (int v = 0; v < nv; v++) acc[m][v] += a * bv[v];
        }
    }
#pragma GCC unroll 12
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

/* The tile of mr rows (1..6) and nv vectors (1..lnn_vectors). Not inlined: callers would take its registers; one copy for all. */
static __attribute__((noinline, noclone)) void LNN_NAME(lnn_tile)(int mr, int nv, ptrdiff_t kn,
                               const T *const *arow, const int64_t *aoff, const T *b, const int64_t *boff,
                               const T *start, int add, T *out, ptrdiff_t ldo)
{
#define CASE(m, v) case (m) * 16 + (v): LNN_NAME(lnn_body)(m, v, kn, arow, aoff, b, boff, start, add, out, ldo); return
    switch (mr * 16 + nv) {
        CASE(1, 1); CASE(1, 2); CASE(1, 3); CASE(1, 4); CASE(1, 5); CASE(1, 6); CASE(1, 7); CASE(1, 8);
        CASE(2, 1); CASE(2, 2); CASE(2, 3); CASE(2, 4);
        CASE(3, 1); CASE(3, 2); CASE(3, 3);
        CASE(4, 1); CASE(4, 2);
        CASE(5, 1); CASE(5, 2);
        CASE(6, 1); CASE(6, 2);
#if LNN_REGISTERS == 32
        CASE(3, 4); CASE(4, 3); CASE(4, 4); CASE(5, 3); CASE(5, 4); CASE(6, 3); CASE(6, 4);
        CASE(12, 1);
#endif
        LNN_NO_OTHER;
    }
#undef CASE
}

/* Turning squares. Vectors consist of blocks of 16 bytes, BLOCK values each, and shuffles within blocks are the cheap
 * ones. So LANES rows are brought in block by block: vector i holds block b of the rows i, i + BLOCK, i + 2*BLOCK, …
 * Then interleaving vector i with vector i + BLOCK/2, log2(BLOCK) times over, moves every index bit of the row to
 * the column and back, in all blocks at once: BLOCK columns of all LANES rows. */
typedef LNN_INT LNN_NAME(lnn_ints) __attribute__((vector_size(LNN_BYTES)));
typedef T LNN_NAME(lnn_block) __attribute__((vector_size(16), aligned(sizeof(T)), may_alias));
#define INTS LNN_NAME(lnn_ints)
#define PART LNN_NAME(lnn_block)
#define BLOCK (16 / LNN_SIZE)
typedef LNN_INT LNN_NAME(lnn_block_ints) __attribute__((vector_size(16)));
/* Every second cell of two blocks, the second of which begins one cell early. */
#if LNN_SIZE == 4
#define SECONDS(a, b) LNN_MIX(a, b, LNN_NAME(lnn_block_ints), 0, 2, 5, 7)
#define ZIP_LOW(a, b) LNN_MIX(a, b, LNN_NAME(lnn_block_ints), 0, 4, 1, 5)
#define ZIP_HIGH(a, b) LNN_MIX(a, b, LNN_NAME(lnn_block_ints), 2, 6, 3, 7)
#else
#define SECONDS(a, b) LNN_MIX(a, b, LNN_NAME(lnn_block_ints), 0, 3)
#define ZIP_LOW(a, b) LNN_MIX(a, b, LNN_NAME(lnn_block_ints), 0, 2)
#define ZIP_HIGH(a, b) LNN_MIX(a, b, LNN_NAME(lnn_block_ints), 1, 3)
#endif
#if LNN_BYTES / LNN_SIZE == 2
#define LOW(a, b) LNN_MIX(a, b, INTS, 0, 2)
#define HIGH(a, b) LNN_MIX(a, b, INTS, 1, 3)
#elif LNN_BYTES == 16
#define LOW(a, b) LNN_MIX(a, b, INTS, 0, 4, 1, 5)
#define HIGH(a, b) LNN_MIX(a, b, INTS, 2, 6, 3, 7)
#elif LNN_BYTES / LNN_SIZE == 4
#define LOW(a, b) LNN_MIX(a, b, INTS, 0, 4, 2, 6)
#define HIGH(a, b) LNN_MIX(a, b, INTS, 1, 5, 3, 7)
#elif LNN_BYTES == 32
#define LOW(a, b) LNN_MIX(a, b, INTS, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH(a, b) LNN_MIX(a, b, INTS, 2, 10, 3, 11, 6, 14, 7, 15)
#elif LNN_BYTES / LNN_SIZE == 8
#define LOW(a, b) LNN_MIX(a, b, INTS, 0, 8, 2, 10, 4, 12, 6, 14)
#define HIGH(a, b) LNN_MIX(a, b, INTS, 1, 9, 3, 11, 5, 13, 7, 15)
#else
#define LOW(a, b) LNN_MIX(a, b, INTS, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define HIGH(a, b) LNN_MIX(a, b, INTS, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#endif

/* One block from each of the rows i, i + BLOCK, … */
LNN_INLINE V LNN_NAME(lnn_blocks)(const T *const *row, int i, ptrdiff_t at)
{
#if LNN_BYTES == 16
    return *(const PART *)(row[i] + at);
#elif LNN_BYTES == 32 && defined(LNN_HALVES)
    return LNN_HALVES(LNN_SIZE, *(const PART *)(row[i] + at), *(const PART *)(row[i + BLOCK] + at));
#elif LNN_BYTES == 64 && defined(LNN_WHOLE)
    return LNN_WHOLE(LNN_SIZE, LNN_HALVES(LNN_SIZE, *(const PART *)(row[i] + at), *(const PART *)(row[i + BLOCK] + at)),
                     LNN_HALVES(LNN_SIZE, *(const PART *)(row[i + 2 * BLOCK] + at), *(const PART *)(row[i + 3 * BLOCK] + at)));
#else
    V all;
#pragma GCC unroll 4
    for (int b = 0; b < LNN_BYTES / 16; b++) memcpy((char *)&all + 16 * b, row[i + b * BLOCK] + at, 16);
    return all;
#endif
}

/* Columns at .. at+BLOCK of LANES rows, one vector each. */
LNN_INLINE void LNN_NAME(lnn_turn_blocks)(const T *const *row, ptrdiff_t at, V *a)
{
    V b[BLOCK];
#pragma GCC unroll 4
    for (int i = 0; i < BLOCK; i++) a[i] = LNN_NAME(lnn_blocks)(row, i, at);
#pragma GCC unroll 4
    for (int stage = 1; stage < BLOCK; stage *= 2) {
#pragma GCC unroll 4
        for (int i = 0; i < BLOCK / 2; i++) {
            b[2 * i] = LOW(a[i], a[i + BLOCK / 2]);
            b[2 * i + 1] = HIGH(a[i], a[i + BLOCK / 2]);
        }
#pragma GCC unroll 4
        for (int i = 0; i < BLOCK; i++) a[i] = b[i];
    }
}

/* LANES rows turned: dst[k*ldd + i] = row[i][k] for k < cols. */
LNN_INLINE void LNN_NAME(lnn_turn_band)(const T *const *row, ptrdiff_t cols, T *dst, ptrdiff_t ldd)
{
    ptrdiff_t k = 0;
    for (; k + BLOCK <= cols; k += BLOCK) {
        V a[BLOCK];
        LNN_NAME(lnn_turn_blocks)(row, k, a);
#pragma GCC unroll 4
        for (int i = 0; i < BLOCK; i++) *(VU *)(dst + (k + i) * ldd) = a[i];
    }
    for (; k < cols; k++)
#pragma GCC unroll 1
        for (int i = 0; i < LANES; i++) dst[k * ldd + i] = row[i][k];
}

/* dst[j*ldd + i] = src[i*lds + j] for i < rows, j < cols. */
static __attribute__((noinline)) void LNN_NAME(lnn_turn)(const T *src, ptrdiff_t lds, ptrdiff_t rows, ptrdiff_t cols,
                                                         T *dst, ptrdiff_t ldd)
{
    ptrdiff_t i = 0;
    for (; i + LANES <= rows; i += LANES) {
        const T *row[LANES];
        for (int r = 0; r < LANES; r++) row[r] = src + (i + r) * lds;
        LNN_NAME(lnn_turn_band)(row, cols, dst + i, ldd);
    }
    for (; i < rows; i++)
        for (ptrdiff_t j = 0; j < cols; j++) dst[j * ldd + i] = src[i * lds + j];
}

/* Neighbouring strips of LNN_FULL vectors, each brought together: dst[strip][i][j] = src[i*lds + strip*width + j].
 * Row by row, so that a far row's page is visited once for all of them. */
static __attribute__((noinline)) void LNN_NAME(lnn_strips)(const T *src, ptrdiff_t lds, ptrdiff_t rows, int strips, T *dst)
{
    enum { WIDTH = LNN_FULL * LANES };
    for (ptrdiff_t i = 0; i < rows; i++, src += lds, dst += WIDTH)
        for (int s = 0; s < strips; s++)
#pragma GCC unroll 4
            for (int v = 0; v < WIDTH; v += LANES) *(VU *)(dst + s * rows * WIDTH + v) = *(const VU *)(src + s * WIDTH + v);
}

/* Lanes added pairwise, in a fixed order: halves, down to 16 bytes, whose lanes are few. */
LNN_INLINE T LNN_NAME(lnn_lanes)(V v)
{
    typedef T H __attribute__((vector_size(16)));
    H part[LNN_BYTES / 16];
    memcpy(part, &v, sizeof v);
    for (int width = LNN_BYTES / 32; width > 0; width /= 2)
        for (int i = 0; i < width; i++) part[i] += part[i + width];
    return LNN_SIZE == 8 ? part[0][0] + part[0][1] : part[0][0] + part[0][2 % (16 / LNN_SIZE)]
                         + (part[0][1] + part[0][3 % (16 / LNN_SIZE)]);
}

/* out[m*ldo + n*ldn] (+)= sum_k arow[m][k] * brow[n][k]: rows of both run along k. */
LNN_INLINE void LNN_NAME(lnn_dot_body)(const int mr, const int nr, ptrdiff_t kn, const T *const *arow,
                                       const T *const *brow, int add, T *out, ptrdiff_t ldo, ptrdiff_t ldn)
{
    V acc[9][3];
    ptrdiff_t k = 0;
#pragma GCC unroll 9
    for (int m = 0; m < mr; m++)
#pragma GCC unroll 4
        for (int n = 0; n < nr; n++) acc[m][n] = (V){0};
    for (; k + LANES <= kn; k += LANES) {
        V bv[3];
#pragma GCC unroll 4
        for (int n = 0; n < nr; n++) bv[n] = *(const VU *)(brow[n] + k);
#pragma GCC unroll 9
        for (int m = 0; m < mr; m++) {
            const V av = *(const VU *)(arow[m] + k);
#pragma GCC unroll 4
            for (int n = 0; n < nr; n++) acc[m][n] += av * bv[n];
        }
    }
    const size_t rest = (size_t)(kn - k) * sizeof(T);
    if (rest) {                                         /* zeros beyond the last terms */
        T a[9][LANES], b[3][LANES];
        memset(a, 0, sizeof a);
        memset(b, 0, sizeof b);
#pragma GCC unroll 1
        for (int m = 0; m < mr; m++) memcpy(a[m], arow[m] + k, rest);
#pragma GCC unroll 1
        for (int n = 0; n < nr; n++) memcpy(b[n], brow[n] + k, rest);
#pragma GCC unroll 9
        for (int m = 0; m < mr; m++)
#pragma GCC unroll 4
            for (int n = 0; n < nr; n++) acc[m][n] += *(const VU *)a[m] * *(const VU *)b[n];
    }
    V done[9 * 3];                                      /* adding lanes up is no part of the loop: once in the code is enough */
#pragma GCC unroll 9
    for (int m = 0; m < mr; m++)
#pragma GCC unroll 4
        for (int n = 0; n < nr; n++) done[m * nr + n] = acc[m][n];
#pragma GCC unroll 1
    for (int i = 0; i < mr * nr; i++) {
        T *place = out + i / nr * ldo + i % nr * ldn;
        const T sum = LNN_NAME(lnn_lanes)(done[i]);
        *place = add ? *place + sum : sum;
    }
}

/* The dot tile of mr (1..4) by nr (1..3) rows, or of up to 9 rows by one. */
static __attribute__((noinline)) void LNN_NAME(lnn_dots)(int mr, int nr, ptrdiff_t kn, const T *const *arow,
                                                         const T *const *brow, int add, T *out, ptrdiff_t ldo,
                                                         ptrdiff_t ldn)
{
#define CASE(m, n) case (m) * 4 + (n): LNN_NAME(lnn_dot_body)(m, n, kn, arow, brow, add, out, ldo, ldn); return
    switch (mr * 4 + nr) {
        CASE(1, 1); CASE(1, 2); CASE(1, 3);
        CASE(2, 1); CASE(2, 2); CASE(2, 3);
        CASE(3, 1); CASE(3, 2); CASE(3, 3);
        CASE(4, 1); CASE(4, 2); CASE(4, 3);
        CASE(5, 1); CASE(6, 1); CASE(7, 1); CASE(8, 1); CASE(9, 1);
        LNN_NO_OTHER;
    }
#undef CASE
}

/* Whether every value is finite: x*0 is 0 for finite x and NaN otherwise. */
static int LNN_NAME(lnn_finite)(const T *x, ptrdiff_t n)
{
    V sum = (V){0};
    T rest = 0;
    ptrdiff_t i = 0;
    for (; i + LANES <= n; i += LANES) sum += *(const VU *)(x + i) * 0;
    for (; i < n; i++) rest += x[i] * 0;
    for (int lane = 0; lane < LANES; lane++) rest += sum[lane];
    return rest == 0;
}

#undef T
#undef LANES
#undef V
#undef VU
