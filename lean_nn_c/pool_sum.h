/* Average along the rows of a band; see pool_rows.h. A window is summed column by column, each column over the rows
 * in order, then the columns from left to right: strided cells are taken from the column sums, not from every row. */

LNN_INLINE real T(lnn_weight)(const int64_t *inner, int64_t p) {
    return inner ? (real)(inner[p] > 0 ? inner[p] : 1) : 1;
}

/* Σ over the rows of the cells j * step from `from` on, as lnn_take takes them. */
LNN_INLINE T(lnn_v) T(lnn_column)(const real *from, const int64_t *rows, int64_t n_rows, const int64_t stride) {
    T(lnn_v) low = {0}, high = {0};
    for (int64_t r = 0; r < n_rows; r++) {
        const real *row = from + rows[r];
#if LNN_HAS_SHUFFLE
        if (stride == 2) {
            low += T(lnn_load)(row);
            high += T(lnn_load)(row + LANES - 1);
            continue;
        }
#endif
        low += T(lnn_take)(row, stride);
    }
#if LNN_HAS_SHUFFLE
    if (stride == 2) return T(LNN_EVEN)(low, high);
#endif
    return low;
}

#if LNN_HAS_SHUFFLE
/* Stride 2, cells side by side: the sum of the columns 0 and 1 (2, with `three`). */
LNN_INLINE T(lnn_v) T(lnn_columns)(const real *from, const int64_t *rows, int64_t n_rows, const int three) {
    T(lnn_v) low = {0}, high = {0}, low2 = {0}, high2 = {0};
    for (int64_t r = 0; r < n_rows; r++) {
        const real *row = from + rows[r];
        low += T(lnn_load)(row);
        high += T(lnn_load)(row + LANES);
        if (three) {
            low2 += T(lnn_load)(row + 2);
            high2 += T(lnn_load)(row + LANES + 1);
        }
    }
    const T(lnn_v) sum = T(LNN_EVENS)(low, high) + T(LNN_ODDS)(low, high);
    return three ? sum + T(LNN_EVEN)(low2, high2) : sum;
}
#endif

/* The sums of a tile's windows, all their cells real; `from` is the first lane's first tap in the row at offset 0. */
LNN_INLINE T(lnn_v) T(lnn_sum_tile)(const real *from, const int64_t *rows, int64_t n_rows, const int64_t stride,
                                    const int64_t kernel, const int64_t step) {
#if LNN_HAS_SHUFFLE
    if (stride == 2 && step == 1 && kernel == 2) return T(lnn_columns)(from, rows, n_rows, 0);
    if (stride == 2 && step == 1 && kernel == 3) return T(lnn_columns)(from, rows, n_rows, 1);
#endif
    T(lnn_v) sum = T(lnn_column)(from, rows, n_rows, stride);
    for (int64_t j = 1; j < kernel; j++) sum += T(lnn_column)(from + j * step, rows, n_rows, stride);
    return sum;
}

/* A tile at an end of the row: columns of other rows' cells are summed and not added. */
LNN_INLINE T(lnn_v) T(lnn_sum_masked)(const real *x, const lnn_band *b, int64_t p, const int64_t stride) {
    const lnn_axis *a = b->axis;
    const int64_t from = a->start + p * stride;
    T(lnn_v) sum = {0};
    for (int64_t j = 0; j < a->kernel; j++) {
        const T(lnn_v) column = T(lnn_column)(x + from + j * a->step, b->rows, b->n_rows, stride);
        sum += (T(lnn_v))((T(lnn_i))column & T(lnn_inside)(a, from + j * a->step, stride));
    }
    return T(lnn_sorted)(sum, stride);
}

/* Outputs p to p + n of the band's first row, one by one. */
static __attribute__((noinline)) void T(lnn_average_each)(const real *x, const lnn_band *b, int64_t p, int64_t n,
                                                          real outer, const int64_t *inner, real *y) {
    const lnn_axis *a = b->axis;
    for (int64_t l = 0; l < n; l++) {
        real sum = 0;
        for (int64_t j = 0; j < a->count[p + l]; j++) {
            real column = 0;
            for (int64_t r = 0; r < b->n_rows; r++) column += x[b->rows[r] + a->first[p + l] + j * a->step];
            sum += column;
        }
        y[l] = sum / (outer * T(lnn_weight)(inner, p + l));
    }
}

static __attribute__((noinline)) void T(lnn_sum_edge)(const real *x, const lnn_band *b, int64_t t, int64_t p,
                                                      int64_t n, real outer, const int64_t *inner, real *y) {
    const lnn_axis *a = b->axis;
    if (n < LANES || !T(lnn_readable)(b, t, p)) {
        T(lnn_average_each)(x, b, p, n, outer, inner, y);
        return;
    }
    const T(lnn_v) sum = a->stride == 1   ? T(lnn_sum_masked)(x, b, p, 1)
                         : a->stride == 2 ? T(lnn_sum_masked)(x, b, p, 2)
                                          : T(lnn_sum_masked)(x, b, p, a->stride);
    T(lnn_v) weight = ((T(lnn_v)){0}) + T(lnn_weight)(inner, p);
    if (inner && (inner != a->divisor || inner[p] != inner[p + LANES - 1]))   /* `divisor` only ever falls */
        for (int l = 0; l < LANES; l++) weight[l] = T(lnn_weight)(inner, p + l);
    T(lnn_store)(y, sum / (outer * weight));
}

/* The tiles that are no edges. */
LNN_INLINE void T(lnn_sum_tiles)(const real *x, const lnn_band *b, const lnn_tiles *c, const int64_t stride,
                                 const int64_t kernel, const int64_t step, real divisor, real *restrict y) {
    const int64_t *restrict rows = b->rows;
    const int64_t n_rows = b->n_rows, start = b->axis->start, last = c->last;
    const int64_t low = b->p0 + c->low * c->n, high = b->p0 + c->high * c->n;
    for (int64_t t = 0; t < c->run; t++) {
        for (int64_t p = low; p < high; p += LANES) {
            const int64_t q = p < last ? p : last;
            const T(lnn_v) sum = T(lnn_sum_tile)(x + start + q * stride, rows, n_rows, stride, kernel, step);
            T(lnn_store)(y + q, T(lnn_sorted)(sum, stride) / divisor);
        }
        x += b->advance;
        y += b->axis->outputs;
    }
}

static void T(lnn_sum_edges)(const real *x, const lnn_band *b, const lnn_tiles *c, real outer, const int64_t *inner,
                             real *y) {
    for (int64_t t = 0; t < b->run; t++)
        for (int64_t i = 0; i < c->count; i++) {
            const int64_t p = lnn_tile_at(b, c, i);
            if (c->low <= i && i < c->high && t < c->run) i = c->high - 1;
            else T(lnn_sum_edge)(x + t * b->advance, b, t, p, c->n, outer, inner, y + t * b->axis->outputs + p);
        }
}

/* y = sum of the window / (outer * inner[p]), `inner` NULL: / outer; y is that of the first row's output 0. */
static void T(lnn_average_band)(const real *x, const lnn_band *b, real outer, const int64_t *inner, real *y) {
    const lnn_axis *a = b->axis;
    const int64_t s = a->stride, k = a->kernel, d = a->step;
    const lnn_tiles c = lnn_cut(b, LANES);
    /* inside, all windows have all their cells */
    const real divisor = outer * (a->inside_low < a->inside_high ? T(lnn_weight)(inner, a->inside_low) : 1);
    if (s == 2 && k == 2 && d == 1) T(lnn_sum_tiles)(x, b, &c, 2, 2, 1, divisor, y);
    else if (s == 2 && k == 3 && d == 1) T(lnn_sum_tiles)(x, b, &c, 2, 3, 1, divisor, y);
    else if (s == 1 && k == 3 && d == 1) T(lnn_sum_tiles)(x, b, &c, 1, 3, 1, divisor, y);
    else if (s == 1) T(lnn_sum_tiles)(x, b, &c, 1, k, d, divisor, y);
    else if (s == 2) T(lnn_sum_tiles)(x, b, &c, 2, k, d, divisor, y);
    else T(lnn_sum_tiles)(x, b, &c, s, k, d, divisor, y);
    if (c.run < b->run || c.high - c.low < c.count) T(lnn_sum_edges)(x, b, &c, outer, inner, y);
}

/* Σ x[0:n] / divisor of each plane of n, in 32 bytes of partial sums, which are then added in their order: the bits depend
 * on n alone. At most four planes, all at a time, since every addition waits for the one before. */
static void T(lnn_average_whole)(const real *x, int64_t n, int64_t planes, real divisor, real *y) {
    enum { PARTS = 32 / sizeof(real) };
    typedef real parts __attribute__((vector_size(32)));
    parts sum[4] = {{0}}, next;
    int64_t i = 0, at[4];
    for (int q = 0; q < 4; q++) at[q] = (q < planes ? q : planes - 1) * n;
    for (; i + PARTS <= n; i += PARTS)
#pragma GCC unroll 4
        for (int q = 0; q < 4; q++) {
            memcpy(&next, x + at[q] + i, sizeof next);
            sum[q] += next;
        }
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) {
        real total = 0;
#pragma GCC unroll 8
        for (int l = 0; l < PARTS; l++) total += sum[q][l];
        for (int64_t j = i; j < n; j++) total += x[at[q] + j];
        if (q < planes) y[q] = total / divisor;
    }
}
