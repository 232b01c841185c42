/* Transpose of the average along the rows of a cover; see pool_rows.h.
 *
 * Cell j of a row is number f = j mod stride of period m = j / stride, and its windows are m + offset for the offsets
 * of phase f, the same in every period. So a row is made in two steps: the shares y_bar / divisor of its windows,
 * summed over the output rows above and with zeros around; then, phase by phase, sums of neighbouring shares. */

/* Σ over the rows above; divided once where they share one divisor. */
LNN_INLINE T(lnn_v) T(lnn_share)(const real *y_bar, const lnn_cover *b, const real *outer, real weight) {
    T(lnn_v) sum = {0};
    if (b->even) {
        for (int64_t r = 0; r < b->n_rows; r++) sum += T(lnn_load)(y_bar + b->rows[r]);
        return sum / (outer[0] * weight);
    }
    for (int64_t r = 0; r < b->n_rows; r++) sum += T(lnn_load)(y_bar + b->rows[r]) / (outer[r] * weight);
    return sum;
}

static real T(lnn_share_of)(const real *y_bar, const lnn_cover *b, const real *outer, const int64_t *inner, int64_t p) {
    const real weight = T(lnn_weight)(inner, p);
    real sum = 0;
    if (b->even) {
        for (int64_t r = 0; r < b->n_rows; r++) sum += y_bar[b->rows[r] + p];
        return sum / (outer[0] * weight);
    }
    for (int64_t r = 0; r < b->n_rows; r++) sum += y_bar[b->rows[r] + p] / (outer[r] * weight);
    return sum;
}

/* share[i] = that of window p_low + i for i < n, 0 where there is no such window. */
static void T(lnn_shares)(const real *restrict y_bar, const lnn_cover *b, const real *outer, const int64_t *inner,
                          int64_t p_low, int64_t n, real *restrict share) {
    const lnn_axis *a = b->axis;
    int64_t low = p_low < 0 ? -p_low : 0, high = a->outputs - p_low < n ? a->outputs - p_low : n;
    int64_t alike = a->inside_low - p_low, end = a->inside_high - p_low;   /* where the weight is one number */
    if (low > n) low = n;
    if (high < low) high = low;
    if (alike < low) alike = low;
    if (end > high) end = high;
    if (end - alike < LANES) alike = end = high;
    for (int64_t i = 0; i < low; i++) share[i] = 0;
    for (int64_t i = high; i < n; i++) share[i] = 0;
    for (int64_t i = low; i < alike; i++) share[i] = T(lnn_share_of)(y_bar, b, outer, inner, p_low + i);
    for (int64_t i = end; i < high; i++) share[i] = T(lnn_share_of)(y_bar, b, outer, inner, p_low + i);
    if (alike == end) return;
    const real weight = T(lnn_weight)(inner, a->inside_low);
    for (int64_t i = alike; i < end; i += LANES) {
        const int64_t q = i < end - LANES ? i : end - LANES;
        T(lnn_store)(share + q, T(lnn_share)(y_bar + p_low + q, b, outer, weight));
    }
}

/* Σ of the shares of phase f in LANES neighbouring periods; `share` is at the first period's least offset. */
LNN_INLINE T(lnn_v) T(lnn_phase)(const real *share, const lnn_phases *h, int64_t f) {
    T(lnn_v) sum = {0};
    for (int64_t i = h->begin[f]; i < h->begin[f + 1]; i++) sum += T(lnn_load)(share + h->offset[i]);
    return sum;
}

/* LANES periods of stride 2: E0 O0 E1 O1 … */
LNN_INLINE void T(lnn_zip)(T(lnn_v) even, T(lnn_v) odd, real *to) {
#if LNN_HAS_SHUFFLE
    T(lnn_store)(to, T(LNN_LOW)(even, odd));
    T(lnn_store)(to + LANES, T(LNN_HIGH)(even, odd));
#else
    for (int l = 0; l < LANES; l++) {
        to[2 * l] = even[l];
        to[2 * l + 1] = odd[l];
    }
#endif
}

/* LANES periods of a row, `share` at the first one's least offset. */
LNN_INLINE void T(lnn_periods)(const real *share, const lnn_phases *h, const int64_t stride, real *to) {
    if (stride == 1) T(lnn_store)(to, T(lnn_phase)(share, h, 0));
    else if (stride == 2) T(lnn_zip)(T(lnn_phase)(share, h, 0), T(lnn_phase)(share, h, 1), to);
    else
        for (int64_t f = 0; f < stride; f++) {
            const T(lnn_v) v = T(lnn_phase)(share, h, f);
            for (int l = 0; l < LANES; l++) to[l * stride + f] = v[l];
        }
}

/* Cells j0 to j1 of one row, at x_bar; j0 begins a period. */
LNN_INLINE void T(lnn_spread_row)(const real *y_bar, const lnn_cover *b, const lnn_phases *h, const real *outer,
                                  const int64_t *inner, const int64_t stride, real *x_bar) {
    real share[2 * LNN_CELLS + LNN_SPAN], rest[LANES * LNN_STRIDE];
    const int64_t cells = b->j1 - b->j0, periods = (cells + stride - 1) / stride, full = cells / stride;
    T(lnn_shares)(y_bar, b, outer, inner, b->j0 / stride + h->least, periods + h->span + LANES, share);
    int64_t m = 0;
    for (; m + LANES <= full; m += LANES) T(lnn_periods)(share + m, h, stride, x_bar + m * stride);
    if (m == periods) return;
    if (full == periods && full >= LANES) {
        T(lnn_periods)(share + full - LANES, h, stride, x_bar + (full - LANES) * stride);
    } else {
        T(lnn_periods)(share + m, h, stride, rest);
        memcpy(x_bar + m * stride, rest, (size_t)(cells - m * stride) * sizeof(real));
    }
}

/* Windows of two cells side by side, all alike: every share is written twice, in each of the copies. In a row of
 * fewer than LANES windows idle lanes are written too, where the next row will overwrite them. A share of -0 is added
 * to 0, as everywhere: bits do not depend on the way. */
static void T(lnn_double_rows)(const real *y_bar, const lnn_cover *b, const real *outer, real weight, real *x_bar) {
    const int64_t n = (b->j1 - b->j0) / 2, last = n < LANES ? 0 : n - LANES, end = b->rows[b->n_rows - 1] + LANES;
    for (int64_t t = 0; t < b->run; t++) {
        const int64_t used = t * b->pitch + (b->copies - 1) * b->copy;
        if (n >= LANES || (b->ordered && t * b->advance + end <= b->after && used + 2 * LANES <= b->room)) {
            for (int64_t i = 0; i < n; i += LANES) {
                const int64_t q = i < last ? i : last;
                const T(lnn_v) v = T(lnn_share)(y_bar + q, b, outer, weight) + 0;
                for (int64_t c = 0; c < b->copies; c++) T(lnn_zip)(v, v, x_bar + c * b->copy + 2 * q);
            }
        } else {
            for (int64_t i = 0; i < n; i++) {
                real v = 0;
                for (int64_t r = 0; r < b->n_rows; r++) v += y_bar[b->rows[r] + i];
                v = v / (outer[0] * weight) + 0;
                for (int64_t c = 0; c < b->copies; c++) x_bar[c * b->copy + 2 * i] = x_bar[c * b->copy + 2 * i + 1] = v;
            }
        }
        for (int64_t c = 0; c < b->copies; c++)
            for (int64_t j = 2 * n; j < b->j1 - b->j0; j++) x_bar[c * b->copy + j] = 0;
        y_bar += b->advance;
        x_bar += b->pitch;
    }
}

/* The rows of a cover; x_bar is cell j0 of the first. */
static void T(lnn_spread_cover)(const real *y_bar, const lnn_cover *b, const lnn_phases *h, const real *outer,
                                const int64_t *inner, real *x_bar) {
    const lnn_axis *a = b->axis;
    const size_t bytes = (size_t)(b->j1 - b->j0) * sizeof(real);
    if (b->n_rows && b->even && a->stride == 2 && a->kernel == 2 && a->step == 1 && a->start == 0 &&
        a->inside_high == a->outputs) {
        T(lnn_double_rows)(y_bar + b->j0 / 2, b, outer, T(lnn_weight)(inner, 0), x_bar);
        return;
    }
    for (int64_t t = 0; t < b->run; t++) {
        if (b->n_rows == 0) memset(x_bar, 0, bytes);
        else if (a->stride == 1) T(lnn_spread_row)(y_bar, b, h, outer, inner, 1, x_bar);
        else if (a->stride == 2) T(lnn_spread_row)(y_bar, b, h, outer, inner, 2, x_bar);
        else T(lnn_spread_row)(y_bar, b, h, outer, inner, a->stride, x_bar);
        for (int64_t c = 1; c < b->copies; c++) memcpy(x_bar + c * b->copy, x_bar, bytes);
        y_bar += b->advance;
        x_bar += b->pitch;
    }
}

static void T(lnn_fill)(real value, int64_t n, real *x_bar) {
    for (int64_t j = 0; j < n; j++) x_bar[j] = value;
}
