/* The tiles of simd.h for the type LNN_T; names end in LNN_SUFFIX. Included by simd.h alone. */

#define T LNN_T
#define LANES ((int)(LNN_BYTES / sizeof(T)))
#define V LNN_NAME(lnn_v)
#define VU LNN_NAME(lnn_vu)

typedef T V __attribute__((vector_size(LNN_BYTES)));
typedef T VU __attribute__((vector_size(LNN_BYTES), aligned(sizeof(T)), may_alias));    /* anywhere in memory */

/* out[m*ldo + j] = (add ? itself : start ? start[m] : 0) + sum_k arow[m][aoff[k]] * b[boff[k] + j]. */
LNN_INLINE void LNN_NAME(lnn_body)(const int mr, const int nv, ptrdiff_t kn,
                                   const T *const *arow, const int64_t *aoff, const T *b, const int64_t *boff,
                                   const T *start, int add, T *out, ptrdiff_t ldo)
{
    V acc[LNN_ROWS][LNN_WIDE];
    const T *row[LNN_ROWS];
#pragma GCC unroll 8
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
#pragma GCC unroll 8
        for (int m = 0; m < mr; m++) {
            const T a = row[m][ak];
#pragma GCC unroll 8
            for (int v = 0; v < nv; v++) acc[m][v] += a * bv[v];
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

/* The tile of mr rows (1..6) and nv vectors (1..lnn_vectors). Not inlined: the caller's values would take its registers. */
static __attribute__((noinline)) void LNN_NAME(lnn_tile)(int mr, int nv, ptrdiff_t kn,
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
#endif
    }
#undef CASE
}

/* Lanes added pairwise, in a fixed order. */
LNN_INLINE T LNN_NAME(lnn_lanes)(V v)
{
    T lane[LANES];
    memcpy(lane, &v, sizeof v);
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++) lane[i] += lane[i + width];
    return lane[0];
}

/* out[m*ldo + n*ldn] (+)= sum_k arow[m][k] * brow[n][k]: rows of both run along k. */
LNN_INLINE void LNN_NAME(lnn_dot_body)(const int mr, const int nr, ptrdiff_t kn, const T *const *arow,
                                       const T *const *brow, int add, T *out, ptrdiff_t ldo, ptrdiff_t ldn)
{
    V acc[4][3];
    ptrdiff_t k = 0;
#pragma GCC unroll 4
    for (int m = 0; m < mr; m++)
#pragma GCC unroll 4
        for (int n = 0; n < nr; n++) acc[m][n] = (V){0};
    for (; k + LANES <= kn; k += LANES) {
        V bv[3];
#pragma GCC unroll 4
        for (int n = 0; n < nr; n++) bv[n] = *(const VU *)(brow[n] + k);
#pragma GCC unroll 4
        for (int m = 0; m < mr; m++) {
            const V av = *(const VU *)(arow[m] + k);
#pragma GCC unroll 4
            for (int n = 0; n < nr; n++) acc[m][n] += av * bv[n];
        }
    }
    const size_t rest = (size_t)(kn - k) * sizeof(T);
#pragma GCC unroll 4
    for (int m = 0; m < mr; m++) {
#pragma GCC unroll 4
        for (int n = 0; n < nr; n++) {
            if (rest) {
                V a = (V){0}, b = (V){0};
                memcpy(&a, arow[m] + k, rest);
                memcpy(&b, brow[n] + k, rest);
                acc[m][n] += a * b;
            }
            T *place = out + m * ldo + n * ldn;
            const T sum = LNN_NAME(lnn_lanes)(acc[m][n]);
            *place = add ? *place + sum : sum;
        }
    }
}

/* The dot tile of mr (1..4) by nr (1..3) rows. */
static __attribute__((noinline)) void LNN_NAME(lnn_dots)(int mr, int nr, ptrdiff_t kn, const T *const *arow, const T *const *brow,
                               int add, T *out, ptrdiff_t ldo, ptrdiff_t ldn)
{
#define CASE(m, n) case (m) * 4 + (n): LNN_NAME(lnn_dot_body)(m, n, kn, arow, brow, add, out, ldo, ldn); return
    switch (mr * 4 + nr) {
        CASE(1, 1); CASE(1, 2); CASE(1, 3);
        CASE(2, 1); CASE(2, 2); CASE(2, 3);
        CASE(3, 1); CASE(3, 2); CASE(3, 3);
        CASE(4, 1); CASE(4, 2); CASE(4, 3);
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
