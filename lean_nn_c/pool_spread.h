/* Transpose of the average along an input row; see pool_rows.h. */

/* share[p - p_low] = Σ over the covering rows of y_bar[p] / (outer * inner[p]) */
LNN_INLINE void T(lnn_shares)(const real *restrict y_bar, const int64_t *rows, const real *outer, int64_t n_rows,
                              const lnn_axis *a, const int64_t *inner, int64_t p_low, int64_t n, real *restrict share) {
    int64_t low = a->inside_low - p_low, high = a->inside_high - p_low;   /* where the weight is one number */
    if (low < 0) low = 0;
    if (high > n) high = n;
    if (high < low) low = high = 0;
    const real weight = high > low ? T(lnn_weight)(inner, p_low + low) : 1;
    for (int64_t r = 0; r < n_rows; r++) {
        const real *row = y_bar + rows[r] + p_low;
        const real divisor = outer[r] * weight;
        if (r == 0)
            for (int64_t i = low; i < high; i++) share[i] = row[i] / divisor;
        else
            for (int64_t i = low; i < high; i++) share[i] += row[i] / divisor;
        for (int64_t i = 0; i < low; i++)
            share[i] = (r ? share[i] : 0) + row[i] / (outer[r] * T(lnn_weight)(inner, p_low + i));
        for (int64_t i = high; i < n; i++)
            share[i] = (r ? share[i] : 0) + row[i] / (outer[r] * T(lnn_weight)(inner, p_low + i));
    }
}

/* to[m] = Σ over taps t of share[window of tap t at cell c + m * stride], m < n; taps from the last on, so that
 * windows come in ascending order. */
LNN_INLINE void T(lnn_phase)(const real *restrict share, int64_t p_low, const lnn_axis *a, const int64_t stride,
                             int64_t c, int64_t n, real *restrict to) {
    int begun = 0;
    for (int64_t t = a->kernel - 1; t >= 0; t--) {
        int64_t distance = c - a->start - t * a->step, p, low, high;
        if (distance % stride) continue;
        p = distance / stride;
        low = p < 0 ? -p : 0;
        high = p + n > a->outputs ? a->outputs - p : n;
        if (!begun) {
            if (high < low) low = high = 0;
            const real *from = share + p - p_low;
            for (int64_t m = 0; m < low; m++) to[m] = 0;
            for (int64_t m = low; m < high; m++) to[m] = from[m];
            for (int64_t m = high; m < n; m++) to[m] = 0;
            begun = 1;
        } else {
            for (int64_t m = low; m < high; m++) to[m] += share[p + m - p_low];
        }
    }
    if (!begun)
        for (int64_t m = 0; m < n; m++) to[m] = 0;
}

/* x_bar[j0:j1] of one input row, j1 - j0 <= LNN_CELLS; `rows` are the output rows above it. */
static void T(lnn_spread_row)(const real *y_bar, const int64_t *rows, const real *outer, int64_t n_rows,
                              const lnn_axis *a, const int64_t *inner, int64_t j0, int64_t j1, real *x_bar) {
    const int64_t stride = a->stride, p_low = a->low[j0], n = a->high[j1 - 1] - p_low;
    real share[2 * LNN_CELLS + LNN_SPAN], even[LNN_CELLS], odd[LNN_CELLS];
    if (n <= 0 || n_rows == 0) {
        memset(x_bar + j0, 0, (size_t)(j1 - j0) * sizeof(real));
        return;
    }
    T(lnn_shares)(y_bar, rows, outer, n_rows, a, inner, p_low, n, share);
    if (stride == 2 && a->kernel == 2 && a->step == 1 && a->start + 2 * p_low == j0 && j0 + 2 * n <= j1) {
        real *restrict to = x_bar + j0;   /* windows side by side: every cell has one */
        for (int64_t m = 0; m < n; m++) to[2 * m] = to[2 * m + 1] = share[m];
        for (int64_t j = j0 + 2 * n; j < j1; j++) x_bar[j] = 0;
    } else if (stride == 1) {
        T(lnn_phase)(share, p_low, a, 1, j0, j1 - j0, x_bar + j0);
    } else if (stride == 2) {
        const int64_t n_even = (j1 - j0 + 1) / 2, n_odd = (j1 - j0) / 2;
        real *restrict to = x_bar + j0;
        T(lnn_phase)(share, p_low, a, 2, j0, n_even, even);
        T(lnn_phase)(share, p_low, a, 2, j0 + 1, n_odd, odd);
        for (int64_t m = 0; m < n_odd; m++) {
            to[2 * m] = even[m];
            to[2 * m + 1] = odd[m];
        }
        if (n_even > n_odd) to[2 * n_odd] = even[n_odd];
    } else {
        for (int64_t f = 0; f < stride && j0 + f < j1; f++) {
            const int64_t n_f = (j1 - j0 - f + stride - 1) / stride;
            T(lnn_phase)(share, p_low, a, stride, j0 + f, n_f, even);
            for (int64_t m = 0; m < n_f; m++) x_bar[j0 + f + stride * m] = even[m];
        }
    }
}
