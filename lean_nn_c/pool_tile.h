/* Row kernels of pooling for one number type; see pool_rows.h. `real`, `whole` (an int as wide), T(), LANES, EVEN. */

LNN_INLINE T(lnn_v) T(lnn_load)(const real *p) {
    T(lnn_v) v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Lane l is p[l * stride]; reads nothing beyond lane LANES - 1. */
LNN_INLINE T(lnn_v) T(lnn_take)(const real *p, const int64_t stride) {
    if (stride == 1) return T(lnn_load)(p);
#if LNN_HAS_EVEN
    if (stride == 2) return EVEN(T(lnn_load)(p), T(lnn_load)(p + LANES - 1));
#endif
    T(lnn_v) v;
    for (int l = 0; l < LANES; l++) v[l] = p[l * stride];
    return v;
}

/* Cells `from` … `from + n` of a row of `size`, with `edge` where there is none. */
LNN_INLINE void T(lnn_copy)(const real *row, int64_t size, int64_t from, int64_t n, real edge, real *to) {
    int64_t low = from < 0 ? -from : 0, high = from + n > size ? size - from : n;
    if (low > n) low = n;
    if (high < low) high = low;
    for (int64_t i = 0; i < low; i++) to[i] = edge;
    if (high > low) memcpy(to + low, row + from + low, (size_t)(high - low) * sizeof(real));
    for (int64_t i = high; i < n; i++) to[i] = edge;
}

/* Where a tile of `lanes` used outputs from `p` on reads, and whether it may read the array itself. */
typedef struct { int64_t from, span; int inside, direct; } T(lnn_tile);

LNN_INLINE T(lnn_tile) T(lnn_tile_at)(const lnn_axis *a, const real *last_row, const real *x_end, int64_t p,
                                      int64_t lanes, const int64_t stride) {
    T(lnn_tile) t;
    int64_t taps = (a->kernel - 1) * a->step;
    t.from = a->start + p * stride;
    t.span = (LANES - 1) * stride + taps + 1;
    t.inside = t.from >= 0 && t.from + (lanes - 1) * stride + taps < a->size;
    t.direct = t.inside && t.span <= x_end - last_row - t.from;
    return t;
}

/* --- maximum ------------------------------------------------------------------------------------------------ */

LNN_INLINE void T(lnn_max_tile)(const real *x, const real *x_end, const int64_t *rows, int64_t n_rows,
                                const lnn_axis *a, int64_t p, int64_t lanes, const int64_t stride, const int want,
                                real *y, int64_t *idx) {
    const int64_t kernel = a->kernel, step = a->step;
    const T(lnn_tile) t = T(lnn_tile_at)(a, x + rows[n_rows - 1], x_end, p, lanes, stride);
    real copy[LNN_SPAN];
    T(lnn_v) best;
    T(lnn_i) at = {0};   /* the winner's place, counted from the lane's first (perhaps padding) cell */
    if (t.direct) {
        best = T(lnn_take)(x + rows[0] + t.from, stride);
        at = at + (whole)rows[0];
    } else {
        best = ((T(lnn_v)){0}) - (real)INFINITY;
        if (want)        /* a window of -inf alone: its first real cell */
            for (int l = 0; l < LANES && l < lanes; l++)
                at[l] = (whole)(rows[0] + a->first[p + l] - t.from - l * stride);
    }
    for (int64_t r = 0; r < n_rows; r++) {
        const real *row = x + rows[r] + t.from;
        if (!t.direct) {
            T(lnn_copy)(x + rows[r], a->size, t.from, t.span, -(real)INFINITY, copy);
            row = copy;
        }
        for (int64_t j = 0; j < kernel; j++) {
            const T(lnn_v) v = T(lnn_take)(row + j * step, stride);
            /* v is greater, or the first NaN */
            const T(lnn_i) wins = ~(best >= v) & (best == best);
            best = T(lnn_pick)(wins, v, best);
            if (want) {
                const T(lnn_i) here = ((T(lnn_i)){0}) + (whole)(rows[r] + j * step);
                at = (T(lnn_i))T(lnn_pick)(wins, (T(lnn_v))here, (T(lnn_v))at);
            }
        }
    }
    real values[LANES];
    whole places[LANES];
    memcpy(values, &best, sizeof best);
    memcpy(places, &at, sizeof at);
    if (lanes == LANES) {
        memcpy(y + p, values, sizeof values);
        if (want)
            for (int l = 0; l < LANES; l++) idx[p + l] = (int64_t)places[l] + (t.from + l * stride);
    } else {
        for (int64_t l = 0; l < lanes; l++) y[p + l] = values[l];
        if (want)
            for (int64_t l = 0; l < lanes; l++) idx[p + l] = (int64_t)places[l] + (t.from + l * stride);
    }
    if (!t.inside)
        for (int64_t l = 0; l < lanes; l++)
            if (a->count[p + l] == 0) {
                y[p + l] = 0;
                if (want) idx[p + l] = -1;
            }
}

LNN_INLINE void T(lnn_max_tiles)(const real *x, const real *x_end, const int64_t *rows, int64_t n_rows,
                                 const lnn_axis *a, int64_t p0, int64_t p1, const int64_t stride, const int want,
                                 real *y, int64_t *idx) {
    if (p1 - p0 < LANES) {
        T(lnn_max_tile)(x, x_end, rows, n_rows, a, p0, p1 - p0, stride, want, y, idx);
        return;
    }
    for (int64_t p = p0; p < p1; p += LANES)
        T(lnn_max_tile)(x, x_end, rows, n_rows, a, p + LANES <= p1 ? p : p1 - LANES, LANES, stride, want, y, idx);
}

/* y[p0:p1] (and idx, unless NULL) of one output row; `rows` are the box's input rows as offsets from `x`. */
static void T(lnn_max_row)(const real *x, const real *x_end, const int64_t *rows, int64_t n_rows, const lnn_axis *a,
                           int64_t p0, int64_t p1, real *y, int64_t *idx) {
    if (idx) {
        if (a->stride == 1) T(lnn_max_tiles)(x, x_end, rows, n_rows, a, p0, p1, 1, 1, y, idx);
        else if (a->stride == 2) T(lnn_max_tiles)(x, x_end, rows, n_rows, a, p0, p1, 2, 1, y, idx);
        else T(lnn_max_tiles)(x, x_end, rows, n_rows, a, p0, p1, a->stride, 1, y, idx);
    } else {
        if (a->stride == 1) T(lnn_max_tiles)(x, x_end, rows, n_rows, a, p0, p1, 1, 0, y, idx);
        else if (a->stride == 2) T(lnn_max_tiles)(x, x_end, rows, n_rows, a, p0, p1, 2, 0, y, idx);
        else T(lnn_max_tiles)(x, x_end, rows, n_rows, a, p0, p1, a->stride, 0, y, idx);
    }
}

/* --- average ------------------------------------------------------------------------------------------------ */

LNN_INLINE void T(lnn_sum_tile)(const real *x, const real *x_end, const int64_t *rows, int64_t n_rows,
                                const lnn_axis *a, int64_t p, int64_t lanes, const int64_t stride, real *y) {
    const int64_t kernel = a->kernel, step = a->step;
    const T(lnn_tile) t = T(lnn_tile_at)(a, x + rows[n_rows - 1], x_end, p, lanes, stride);
    real copy[LNN_SPAN];
    T(lnn_v) sum = {0};
    for (int64_t r = 0; r < n_rows; r++) {
        const real *row = x + rows[r] + t.from;
        if (!t.direct) {
            T(lnn_copy)(x + rows[r], a->size, t.from, t.span, 0, copy);
            row = copy;
        }
        for (int64_t j = 0; j < kernel; j++) sum += T(lnn_take)(row + j * step, stride);
    }
    if (lanes == LANES) memcpy(y + p, &sum, sizeof sum);
    else
        for (int64_t l = 0; l < lanes; l++) y[p + l] = sum[l];
}

LNN_INLINE void T(lnn_sum_tiles)(const real *x, const real *x_end, const int64_t *rows, int64_t n_rows,
                                 const lnn_axis *a, int64_t p0, int64_t p1, const int64_t stride, real *y) {
    if (p1 - p0 < LANES) {
        T(lnn_sum_tile)(x, x_end, rows, n_rows, a, p0, p1 - p0, stride, y);
        return;
    }
    for (int64_t p = p0; p < p1; p += LANES)
        T(lnn_sum_tile)(x, x_end, rows, n_rows, a, p + LANES <= p1 ? p : p1 - LANES, LANES, stride, y);
}

/* y[p0:p1] = sum of the window / (outer * inner[p]); `inner` NULL: / outer. */
static void T(lnn_average_row)(const real *x, const real *x_end, const int64_t *rows, int64_t n_rows,
                               const lnn_axis *a, int64_t p0, int64_t p1, real outer, const int64_t *inner, real *y) {
    if (a->stride == 1) T(lnn_sum_tiles)(x, x_end, rows, n_rows, a, p0, p1, 1, y);
    else if (a->stride == 2) T(lnn_sum_tiles)(x, x_end, rows, n_rows, a, p0, p1, 2, y);
    else T(lnn_sum_tiles)(x, x_end, rows, n_rows, a, p0, p1, a->stride, y);
    if (inner)
        for (int64_t p = p0; p < p1; p++) y[p] = y[p] / (outer * (real)(inner[p] > 0 ? inner[p] : 1));
    else
        for (int64_t p = p0; p < p1; p++) y[p] = y[p] / outer;
}

/* --- transpose of the average ------------------------------------------------------------------------------- */

/* share[p - p_low] = Σ over the covering rows of y_bar[p] / (outer * inner[p]) */
LNN_INLINE void T(lnn_shares)(const real *restrict y_bar, const int64_t *rows, const real *outer, int64_t n_rows,
                              const int64_t *inner, int64_t p_low, int64_t n, real *restrict share) {
    real weight[2 * LNN_CELLS + LNN_SPAN];
    for (int64_t i = 0; i < n; i++) {
        share[i] = 0;
        weight[i] = inner ? (real)(inner[p_low + i] > 0 ? inner[p_low + i] : 1) : 1;
    }
    for (int64_t r = 0; r < n_rows; r++) {
        const real *row = y_bar + rows[r] + p_low;
        for (int64_t i = 0; i < n; i++) share[i] += row[i] / (outer[r] * weight[i]);
    }
}

/* to[m] = Σ over taps t of share[window of tap t at cell c + m * stride], m < n; taps from the last on, so that
 * windows come in ascending order. */
LNN_INLINE void T(lnn_phase)(const real *restrict share, int64_t p_low, const lnn_axis *a, int64_t c, int64_t n,
                             real *restrict to) {
    for (int64_t m = 0; m < n; m++) to[m] = 0;
    for (int64_t t = a->kernel - 1; t >= 0; t--) {
        int64_t distance = c - a->start - t * a->step, p, low, high;
        if (distance % a->stride) continue;
        p = distance / a->stride;
        low = p < 0 ? -p : 0;
        high = p + n > a->outputs ? a->outputs - p : n;
        for (int64_t m = low; m < high; m++) to[m] += share[p + m - p_low];
    }
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
    T(lnn_shares)(y_bar, rows, outer, n_rows, inner, p_low, n, share);
    if (stride == 1) {
        T(lnn_phase)(share, p_low, a, j0, j1 - j0, x_bar + j0);
    } else if (stride == 2) {
        const int64_t n_even = (j1 - j0 + 1) / 2, n_odd = (j1 - j0) / 2;
        T(lnn_phase)(share, p_low, a, j0, n_even, even);
        T(lnn_phase)(share, p_low, a, j0 + 1, n_odd, odd);
        for (int64_t m = 0; m < n_odd; m++) {
            x_bar[j0 + 2 * m] = even[m];
            x_bar[j0 + 2 * m + 1] = odd[m];
        }
        if (n_even > n_odd) x_bar[j1 - 1] = even[n_odd];
    } else {
        for (int64_t f = 0; f < stride && j0 + f < j1; f++) {
            const int64_t n_f = (j1 - j0 - f + stride - 1) / stride;
            T(lnn_phase)(share, p_low, a, j0 + f, n_f, even);
            for (int64_t m = 0; m < n_f; m++) x_bar[j0 + f + stride * m] = even[m];
        }
    }
}
