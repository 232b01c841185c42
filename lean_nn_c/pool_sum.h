/* Average along a row; see pool_rows.h. */

LNN_INLINE real T(lnn_weight)(const int64_t *inner, int64_t p) {
    return inner ? (real)(inner[p] > 0 ? inner[p] : 1) : 1;
}

LNN_INLINE void T(lnn_sum_tile)(const real *x, const int64_t *rows, int64_t n_rows, const lnn_axis *a, int64_t p,
                                int64_t n, const int64_t stride, const int64_t kernel, const int64_t step,
                                real divisor, real *y) {
    const int64_t from = a->start + p * stride;
    T(lnn_v) sum = {0};
    for (int64_t r = 0; r < n_rows; r++) {
        const real *row = x + rows[r] + from;
#pragma GCC unroll 4
        for (int64_t j = 0; j < kernel; j++) sum += T(lnn_take)(row + j * step, stride);
    }
    sum = T(lnn_sorted)(sum, stride) / divisor;
    if (n == LANES) T(lnn_store)(y + p, sum);
    else
        for (int64_t l = 0; l < n; l++) y[p + l] = sum[l];
}

static void T(lnn_sum_border)(const real *x, const int64_t *rows, int64_t n_rows, const lnn_axis *a, int64_t p,
                              int64_t n, real *y) {
    const int64_t stride = a->stride, from = a->start + p * stride, span = T(lnn_span)(a);
    real copy[LNN_SPAN];
    T(lnn_v) sum = {0};
    for (int64_t r = 0; r < n_rows; r++) {
        T(lnn_copy)(x + rows[r], a->size, from, span, 0, copy);
        for (int64_t j = 0; j < a->kernel; j++) {
            T(lnn_v) v;
            for (int l = 0; l < LANES; l++) v[l] = copy[l * stride + j * a->step];
            sum += v;
        }
    }
    for (int64_t l = 0; l < n; l++) y[p + l] = sum[l];
}

static void T(lnn_sum_edge)(const real *x, const int64_t *rows, int64_t n_rows, const lnn_axis *a, int64_t p0,
                            int64_t p1, real outer, const int64_t *inner, real *y) {
    if (p1 - p0 < 4) {
        for (int64_t p = p0; p < p1; p++) {
            real sum = 0;
            for (int64_t r = 0; r < n_rows; r++)
                for (int64_t j = 0; j < a->count[p]; j++) sum += x[rows[r] + a->first[p] + j * a->step];
            y[p] = sum;
        }
    } else {
        for (int64_t p = p0; p < p1; p += LANES)
            T(lnn_sum_border)(x, rows, n_rows, a, p, p1 - p < LANES ? p1 - p : LANES, y);
    }
    for (int64_t p = p0; p < p1; p++) y[p] = y[p] / (outer * T(lnn_weight)(inner, p));
}

LNN_INLINE void T(lnn_sum_tiles)(const real *x, const real *x_end, const int64_t *rows, int64_t n_rows,
                                 const lnn_axis *a, int64_t low, int64_t high, const int64_t stride,
                                 const int64_t kernel, const int64_t step, real outer, const int64_t *inner, real *y) {
    const real divisor = outer * T(lnn_weight)(inner, low);   /* inside, all windows have all their cells */
    if (high - low >= LANES) {
        for (int64_t p = low; p < high; p += LANES)
            T(lnn_sum_tile)(x, rows, n_rows, a, p + LANES <= high ? p : high - LANES, LANES, stride, kernel, step,
                            divisor, y);
    } else if (x_end - (x + rows[n_rows - 1]) >= a->start + low * stride + T(lnn_span)(a)) {
        T(lnn_sum_tile)(x, rows, n_rows, a, low, high - low, stride, kernel, step, divisor, y);
    } else {
        T(lnn_sum_edge)(x, rows, n_rows, a, low, high, outer, inner, y);
    }
}

/* y[p0:p1] = sum of the window / (outer * inner[p]); `inner` NULL: / outer. */
static void T(lnn_average_row)(const real *x, const real *x_end, const int64_t *rows, int64_t n_rows,
                               const lnn_axis *a, int64_t p0, int64_t p1, real outer, const int64_t *inner, real *y) {
    const int64_t low = a->inside_low > p0 ? (a->inside_low < p1 ? a->inside_low : p1) : p0;
    const int64_t high = a->inside_high < p1 ? (a->inside_high > low ? a->inside_high : low) : p1;
    const int64_t s = a->stride, k = a->kernel, d = a->step;
#define LNN_SUM(S, K, D) T(lnn_sum_tiles)(x, x_end, rows, n_rows, a, low, high, S, K, D, outer, inner, y)
    if (low < high) {
        if (s == 2 && k == 2 && d == 1) LNN_SUM(2, 2, 1);
        else if (s == 2 && k == 3 && d == 1) LNN_SUM(2, 3, 1);
        else if (s == 1 && k == 3 && d == 1) LNN_SUM(1, 3, 1);
        else if (s == 1) LNN_SUM(1, k, d);
        else if (s == 2) LNN_SUM(2, k, d);
        else LNN_SUM(s, k, d);
    }
#undef LNN_SUM
    if (p0 < low) T(lnn_sum_edge)(x, rows, n_rows, a, p0, low, outer, inner, y);
    if (high < p1) T(lnn_sum_edge)(x, rows, n_rows, a, high, p1, outer, inner, y);
}

/* Σ x[0:n] in LANES partial sums, which are then added in their order: the bits depend on n alone. */
static real T(lnn_sum_all)(const real *x, int64_t n) {
    T(lnn_v) sum = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) sum += T(lnn_load)(x + i);
    real total = 0;
    for (int l = 0; l < LANES; l++) total += sum[l];
    for (; i < n; i++) total += x[i];
    return total;
}
