/* Maximum along a row; see pool_rows.h. */

/* Put a tile of `n` outputs from p on; `at` are places counted from each lane's own first tap. */
LNN_INLINE void T(lnn_put_max)(T(lnn_v) best, T(lnn_i) at, int64_t from, const int64_t stride, const int want,
                               int64_t p, int64_t n, real *y, int64_t *idx) {
    real values[LANES];
    whole places[LANES];
    best = T(lnn_sorted)(best, stride);
    memcpy(values, &best, sizeof best);
    if (n == LANES) memcpy(y + p, values, sizeof values);
    else
        for (int64_t l = 0; l < n; l++) y[p + l] = values[l];
    if (want) {
        const T(lnn_v) sorted = T(lnn_sorted)((T(lnn_v))at, stride);
        memcpy(places, &sorted, sizeof sorted);
        if (n == LANES)
            for (int l = 0; l < LANES; l++) idx[p + l] = (int64_t)places[l] + (from + l * stride);
        else
            for (int64_t l = 0; l < n; l++) idx[p + l] = (int64_t)places[l] + (from + l * stride);
    }
}

/* One output by itself: the first maximum, the first NaN, 0 and -1 without a cell. */
LNN_INLINE void T(lnn_max_one)(const real *x, const int64_t *rows, int64_t n_rows, const lnn_axis *a, int64_t p,
                               real *y, int64_t *idx) {
    const int64_t first = a->first[p], count = a->count[p];
    if (count == 0) {
        y[p] = 0;
        if (idx) idx[p] = -1;
        return;
    }
    int64_t at = rows[0] + first;
    real best = x[at];
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t j = 0; j < count; j++) {
            const int64_t cell = rows[r] + first + j * a->step;
            if (!(best >= x[cell]) && best == best) {
                best = x[cell];
                at = cell;
            }
        }
    y[p] = best;
    if (idx) idx[p] = at;
}

/* A tile inside the row. NaN is only noticed here; the tile is then done again output by output. */
LNN_INLINE void T(lnn_max_tile)(const real *x, const int64_t *rows, int64_t n_rows, const lnn_axis *a, int64_t p,
                                int64_t n, const int64_t stride, const int64_t kernel, const int64_t step,
                                const int want, real *y, int64_t *idx) {
    const int64_t from = a->start + p * stride;
    T(lnn_v) best = T(lnn_take)(x + rows[0] + from, stride);
    T(lnn_i) at = ((T(lnn_i)){0}) + (whole)rows[0], odd = {0};
    for (int64_t r = 0; r < n_rows; r++) {
        const real *row = x + rows[r] + from;
#pragma GCC unroll 4
        for (int64_t j = 0; j < kernel; j++) {
            const T(lnn_v) v = T(lnn_take)(row + j * step, stride);
            odd |= v != v;
            if (want) {
                const T(lnn_i) here = ((T(lnn_i)){0}) + (whole)(rows[r] + j * step);
                at = (T(lnn_i))T(LNN_PICK)(v > best, (T(lnn_v))here, (T(lnn_v))at);
            }
            best = T(LNN_MORE)(v, best);
        }
    }
    if (T(LNN_ANY)(odd)) {
        for (int64_t l = 0; l < n; l++) T(lnn_max_one)(x, rows, n_rows, a, p + l, y, want ? idx : 0);
        return;
    }
    T(lnn_put_max)(best, at, from, stride, want, p, n, y, idx);
}

/* A tile anywhere, on copies of the rows with -inf around. */
static void T(lnn_max_border)(const real *x, const int64_t *rows, int64_t n_rows, const lnn_axis *a, int64_t p,
                              int64_t n, real *y, int64_t *idx) {
    const int64_t stride = a->stride, from = a->start + p * stride, span = T(lnn_span)(a);
    real copy[LNN_SPAN];
    T(lnn_v) best = ((T(lnn_v)){0}) - (real)INFINITY;
    T(lnn_i) at = {0};
    whole first[LANES] = {0};   /* a window of -inf alone: its first real cell */
    for (int64_t l = 0; l < n; l++) first[l] = (whole)(rows[0] + a->first[p + l] - from - l * stride);
    memcpy(&at, first, sizeof at);
    for (int64_t r = 0; r < n_rows; r++) {
        T(lnn_copy)(x + rows[r], a->size, from, span, -(real)INFINITY, copy);
        for (int64_t j = 0; j < a->kernel; j++) {
            T(lnn_v) v;
            for (int l = 0; l < LANES; l++) v[l] = copy[l * stride + j * a->step];
            const T(lnn_i) wins = ~(best >= v) & (best == best);
            const T(lnn_i) here = ((T(lnn_i)){0}) + (whole)(rows[r] + j * a->step);
            best = T(LNN_PICK)(wins, v, best);
            at = (T(lnn_i))T(LNN_PICK)(wins, (T(lnn_v))here, (T(lnn_v))at);
        }
    }
    for (int64_t l = 0; l < n; l++) {
        const int empty = a->count[p + l] == 0;
        y[p + l] = empty ? 0 : best[l];
        if (idx) idx[p + l] = empty ? -1 : (int64_t)at[l] + from + l * stride;
    }
}

static void T(lnn_max_edge)(const real *x, const int64_t *rows, int64_t n_rows, const lnn_axis *a, int64_t p0,
                            int64_t p1, real *y, int64_t *idx) {
    if (p1 - p0 < 4)
        for (int64_t p = p0; p < p1; p++) T(lnn_max_one)(x, rows, n_rows, a, p, y, idx);
    else
        for (int64_t p = p0; p < p1; p += LANES)
            T(lnn_max_border)(x, rows, n_rows, a, p, p1 - p < LANES ? p1 - p : LANES, y, idx);
}

/* Outputs low <= p < high, all inside; a lone short tile has idle lanes, which must not read beyond x_end. */
LNN_INLINE void T(lnn_max_tiles)(const real *x, const real *x_end, const int64_t *rows, int64_t n_rows,
                                 const lnn_axis *a, int64_t low, int64_t high, const int64_t stride,
                                 const int64_t kernel, const int64_t step, const int want, real *y, int64_t *idx) {
    if (high - low >= LANES) {
        for (int64_t p = low; p < high; p += LANES)
            T(lnn_max_tile)(x, rows, n_rows, a, p + LANES <= high ? p : high - LANES, LANES, stride, kernel, step,
                            want, y, idx);
    } else if (x_end - (x + rows[n_rows - 1]) >= a->start + low * stride + T(lnn_span)(a)) {
        T(lnn_max_tile)(x, rows, n_rows, a, low, high - low, stride, kernel, step, want, y, idx);
    } else {
        T(lnn_max_edge)(x, rows, n_rows, a, low, high, y, want ? idx : 0);
    }
}

/* y[p0:p1] (and idx, unless NULL) of one output row; `rows` are the box's input rows as offsets from `x`. */
static void T(lnn_max_row)(const real *x, const real *x_end, const int64_t *rows, int64_t n_rows, const lnn_axis *a,
                           int64_t p0, int64_t p1, real *y, int64_t *idx) {
    const int64_t low = a->inside_low > p0 ? (a->inside_low < p1 ? a->inside_low : p1) : p0;
    const int64_t high = a->inside_high < p1 ? (a->inside_high > low ? a->inside_high : low) : p1;
    const int64_t s = a->stride, k = a->kernel, d = a->step;
#define LNN_MAX(S, K, D, W) T(lnn_max_tiles)(x, x_end, rows, n_rows, a, low, high, S, K, D, W, y, idx)
    if (low < high) {
        if (s == 2 && k == 2 && d == 1) { if (idx) LNN_MAX(2, 2, 1, 1); else LNN_MAX(2, 2, 1, 0); }
        else if (s == 2 && k == 3 && d == 1) { if (idx) LNN_MAX(2, 3, 1, 1); else LNN_MAX(2, 3, 1, 0); }
        else if (s == 1 && k == 3 && d == 1) { if (idx) LNN_MAX(1, 3, 1, 1); else LNN_MAX(1, 3, 1, 0); }
        else if (s == 1) { if (idx) LNN_MAX(1, k, d, 1); else LNN_MAX(1, k, d, 0); }
        else if (s == 2) { if (idx) LNN_MAX(2, k, d, 1); else LNN_MAX(2, k, d, 0); }
        else { if (idx) LNN_MAX(s, k, d, 1); else LNN_MAX(s, k, d, 0); }
    }
#undef LNN_MAX
    if (p0 < low) T(lnn_max_edge)(x, rows, n_rows, a, p0, low, y, idx);
    if (high < p1) T(lnn_max_edge)(x, rows, n_rows, a, high, p1, y, idx);
}

/* The first maximum (the first NaN) of x[0:n], n > 0: its place. */
static int64_t T(lnn_max_all)(const real *x, int64_t n) {
    int64_t at = 0, i = 0;
    real top = x[0];
    if (n >= LANES) {
        T(lnn_v) best = T(lnn_load)(x);
        T(lnn_i) odd = {0};
        for (; i + LANES <= n; i += LANES) {
            const T(lnn_v) v = T(lnn_load)(x + i);
            odd |= v != v;
            best = T(LNN_MORE)(v, best);
        }
        if (T(LNN_ANY)(odd)) {
            while (x[at] == x[at]) at++;
            return at;
        }
        top = best[0];
        for (int l = 1; l < LANES; l++) top = best[l] > top ? best[l] : top;
    }
    for (; i < n; i++) {
        if (x[i] != x[i]) return i;
        top = x[i] > top ? x[i] : top;
    }
    while (x[at] != top) at++;
    return at;
}
