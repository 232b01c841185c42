/* depthwise.h for the type LNN_T; names end in LNN_SUFFIX. Included by depthwise.h alone. */

#define T LNN_T
#define V LNN_NAME(lnn_v)
#define VU LNN_NAME(lnn_vu)
#define INTS LNN_NAME(lnn_ints)
#if LNN_BYTES / LNN_SIZE == 16      /* fewer lanes are not worth their code */
#define SLIDES 1
#define SLID(v, k) ((k) == 0 ? (v) : (k) == 1 ? LNN_MIX(v, v, INTS, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0) : \
                    LNN_MIX(v, v, INTS, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1))
#else
#define SLIDES 0
#define SLID(v, k) (v)
#endif

/* The vector at a place, `k` masks and `shift` cells on; lanes outside the image are zeros. */
LNN_INLINE V LNN_NAME(lnn_seen)(const T *plane, const lnn_place *p, ptrdiff_t shift, ptrdiff_t k)
{
    return (V)((INTS)*(const VU *)(plane + p->at + shift) & ((const INTS *)p->mask)[k]);
}

/* `count` kernel rows on n vectors, column by column: what one row of vectors meets in a kernel row, the next meets in the one above. */
LNN_INLINE void LNN_NAME(lnn_depth_run)(const lnn_depth *d, const int n, const int count, const T *plane, const lnn_place *from,
                                        const T *w, ptrdiff_t w_step, V *acc)
{
#pragma GCC unroll 1
    for (ptrdiff_t k = 0; k < d->columns; k++) {
        V a[LNN_DEPTH_RUN];
#pragma GCC unroll 3
        for (int t = 0; t < count; t++) a[t] = w[(t * d->columns + k) * w_step] - (V){0};
#pragma GCC unroll 9
        for (int j = 0; j < n + count - 1; j++) {
            const V x = LNN_NAME(lnn_seen)(plane, from + j * d->step, k * d->column_step, k);
#pragma GCC unroll 3
            for (int t = 0; t < count; t++)
                if (j - t >= 0 && j - t < n) acc[j - t] += a[t] * x;
        }
    }
}

#if LNN_REGISTERS == 32
/* Three rows of three columns, row by row. Where a vector holds all that its neighbours to both sides see (`slides`), it is loaded once. */
LNN_INLINE void LNN_NAME(lnn_depth_nine)(const lnn_depth *d, const int n, const int shared, const int slides, const T *plane,
                                         const lnn_place *from, const T *w, ptrdiff_t w_step, V *acc)
{
    V a[9];
#pragma GCC unroll 9
    for (int i = 0; i < 9; i++) a[i] = w[i * w_step] - (V){0};
#pragma GCC unroll 9
    for (int j = 0; j < n + 2 * shared; j++, from += d->step)
#pragma GCC unroll 3
        for (int own = 0; own < (shared ? 1 : 3); own++) {
            const lnn_place *p = from + (own ? d->row[own] : 0);
            const V all = slides ? (V)*(const VU *)(plane + p->at) : (V){0};
#pragma GCC unroll 3
            for (int k = 0; k < 3; k++) {
                const V x = slides ? (V)((INTS)SLID(all, k) & ((const INTS *)p->mask)[k]) :
                                     LNN_NAME(lnn_seen)(plane, p, k * d->column_step, k);
#pragma GCC unroll 3
                for (int t = 0; t < 3; t++) {
                    if (shared && j - t >= 0 && j - t < n) acc[j - t] += a[3 * t + k] * x;
                    if (!shared && t == own) acc[j] += a[3 * t + k] * x;
                }
            }
        }
}
#endif

/* n vectors of results, `down` apart; the plane of results ends `left` cells after the first one's start. */
LNN_INLINE void LNN_NAME(lnn_depth_body)(const lnn_depth *d, const int n, const lnn_depth_kind kind, const T *plane,
                                         const lnn_place *from, const T *w, ptrdiff_t w_step, T start, T *out, ptrdiff_t down,
                                         ptrdiff_t left)
{
    V acc[LNN_DEPTH_TILE];
#pragma GCC unroll 7
    for (int i = 0; i < n; i++) acc[i] = start - (V){0};
#if LNN_REGISTERS == 32
    if (kind != LNN_DEPTH_ANY)
        LNN_NAME(lnn_depth_nine)(d, n, kind != LNN_DEPTH_OWN, kind != LNN_DEPTH_SHARED, plane, from, w, w_step, acc);
    else
#endif
        for (ptrdiff_t r = 0, count; r < d->rows; r += count, w += count * d->columns * w_step) {
            count = kind == LNN_DEPTH_SHARED ? d->run[r] : 1;
            if (count > 1) LNN_NAME(lnn_depth_run)(d, n, LNN_DEPTH_RUN, plane, from + d->row[r], w, w_step, acc);
            else LNN_NAME(lnn_depth_run)(d, n, 1, plane, from + d->row[r], w, w_step, acc);
        }
#pragma GCC unroll 7
    for (int i = 0; i < n; i++, out += down, left -= down)
        if (left >= LNN_BYTES / LNN_SIZE) *(VU *)out = acc[i];
        else LNN_NAME(lnn_put_part)(out, acc[i], left);
}

/* A tile of n vectors, 1, 4 or, but for those of any kind, 7. */
static __attribute__((noinline, noclone, unused)) void LNN_NAME(lnn_depth_tile)(
    const lnn_depth *d, int n, const T *plane, const lnn_place *from, const T *w, ptrdiff_t w_step, T start, T *out, ptrdiff_t down,
    ptrdiff_t left)
{
#define CASE(kind, n) case 8 * kind + n: LNN_NAME(lnn_depth_body)(d, n, kind, plane, from, w, w_step, start, out, down, left); return
#define CASES(kind) CASE(kind, 1); CASE(kind, 4); CASE(kind, 7)
    switch (8 * (int)d->kind + n) {
        CASE(LNN_DEPTH_ANY, 1); CASE(LNN_DEPTH_ANY, 4);
        CASES(LNN_DEPTH_SHARED);
#if SLIDES
        CASES(LNN_DEPTH_SLID);
        CASES(LNN_DEPTH_OWN);
#endif
        LNN_NO_OTHER;
    }
#undef CASES
#undef CASE
}

/* sums[t][k] += y * what kernel cell (t, k) meets, over `count` vectors y below each other: some columns of one row of the kernel, or
 * of three rows, of which each meets what the one below met one result earlier. */
LNN_INLINE void LNN_NAME(lnn_depth_sums)(const lnn_depth *d, const int rows, const int columns, const T *plane, const lnn_place *from,
                                         ptrdiff_t k, const T *y_bar, const lnn_place *y_from, ptrdiff_t count, V *sums)
{
    V acc[LNN_DEPTH_RUN][LNN_DEPTH_RUN], y[LNN_DEPTH_RUN] = {{0}};
#pragma GCC unroll 3
    for (int t = 0; t < rows; t++)
#pragma GCC unroll 3
        for (int c = 0; c < columns; c++) acc[t][c] = sums[t * d->columns + c];
    for (ptrdiff_t i = 0; i < count + rows - 1; i++, from += d->step) {
        y[2] = y[1], y[1] = y[0];
        y[0] = i < count ? LNN_NAME(lnn_seen)(y_bar, y_from + i, 0, 0) : (V){0};
#pragma GCC unroll 3
        for (int c = 0; c < columns; c++) {
            const V x = LNN_NAME(lnn_seen)(plane, from, (k + c) * d->column_step, k + c);
#pragma GCC unroll 3
            for (int t = 0; t < rows; t++) acc[t][c] += y[t] * x;
        }
    }
#pragma GCC unroll 3
    for (int t = 0; t < rows; t++)
#pragma GCC unroll 3
        for (int c = 0; c < columns; c++) sums[t * d->columns + c] = acc[t][c];
}

/* The same for the whole kernel: `all` has a vector per cell of it. */
static __attribute__((noinline, unused)) void LNN_NAME(lnn_depth_weight)(
    const lnn_depth *d, const T *plane, const lnn_place *from, const T *y_bar, const lnn_place *y_from, ptrdiff_t count, T *all)
{
    V *sums = (V *)all;
    for (ptrdiff_t r = 0, rows; r < d->rows; r += rows, sums += rows * d->columns) {
        rows = d->shared && d->columns >= LNN_DEPTH_RUN ? d->run[r] : 1;
        for (ptrdiff_t k = 0, columns; k < d->columns; k += columns) {
            columns = d->columns - k >= LNN_DEPTH_RUN ? LNN_DEPTH_RUN : 1;
#define SUMS(rows, columns) \
    LNN_NAME(lnn_depth_sums)(d, rows, columns, plane, from + d->row[r], k, y_bar, y_from, count, sums + k)
            if (rows > 1 && columns > 1) SUMS(3, 3);
            else if (rows > 1) SUMS(3, 1);
            else if (columns > 1) SUMS(1, 3);
            else SUMS(1, 1);
#undef SUMS
        }
    }
}

/* The sums of n vectors' lanes. */
static __attribute__((noinline, unused)) void LNN_NAME(lnn_depth_total)(const T *sums, ptrdiff_t n, T *w_bar)
{
    for (ptrdiff_t i = 0; i < n; i++) w_bar[i] = LNN_NAME(lnn_tree)(((const V *)sums)[i]);
}

#undef T
#undef V
#undef VU
#undef INTS
#undef SLIDES
#undef SLID
