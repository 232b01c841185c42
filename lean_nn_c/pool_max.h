/* Maximum along the rows of a band; see pool_rows.h. */

/* What is `n` numbers further on beside the maxima: places, or tangents. */
LNN_INLINE void *T(lnn_beside)(void *beside, int64_t n, const int want) {
    return want == LNN_PLACES ? (void *)((int64_t *)beside + n) : want ? (void *)((real *)beside + n) : beside;
}

/* Put a tile at y; `at` are tangents, or places counted from each lane's own first tap, which is `from` for the first lane. */
LNN_INLINE void T(lnn_put_max)(T(lnn_v) best, T(lnn_i) at, int64_t from, const int64_t stride, const int want, real *y,
                               void *beside) {
    T(lnn_store)(y, T(lnn_sorted)(best, stride));
    if (want) at = (T(lnn_i))T(lnn_sorted)((T(lnn_v))at, stride);
    if (want == LNN_TANGENTS) memcpy(beside, &at, sizeof at);
    if (want == LNN_PLACES) {
        at += T(lnn_lanes)() * (whole)stride + (whole)from;
        const T(lnn_l) wide = __builtin_convertvector(at, T(lnn_l));
        memcpy(beside, &wide, sizeof wide);
    }
}

/* One output by itself: the first maximum, the first NaN, 0 and -1 without a cell. */
LNN_INLINE void T(lnn_max_one)(const real *x, const lnn_band *b, int64_t t, int64_t p, real *y, void *beside) {
    const lnn_axis *a = b->axis;
    const int64_t first = a->first[p], count = a->count[p];
    int64_t at = b->rows[0] + first;
    real best = count ? x[at] : 0;
    for (int64_t r = 0; r < b->n_rows; r++)
        for (int64_t j = 0; j < count; j++) {
            const int64_t cell = b->rows[r] + first + j * a->step;
            if (!(best >= x[cell]) && best == best) {
                best = x[cell];
                at = cell;
            }
        }
    *y = best;
    if (b->want == LNN_PLACES) *(int64_t *)beside = count ? at + lnn_place(b, t) : -1;
    if (b->want == LNN_TANGENTS) *(real *)beside = count ? x[at + b->apart] : 0;
}

/* Outputs one by one: where a NaN was met, and at the ends of the array. `t` counts the band's output rows, and x has
 * come as far. */
static __attribute__((noinline)) void T(lnn_max_ones)(const real *x, const lnn_band *b, int64_t t, int64_t p,
                                                      int64_t n, real *y, void *beside) {
    for (int64_t l = 0; l < n; l++) T(lnn_max_one)(x, b, t, p + l, y + l, T(lnn_beside)(beside, l, b->want));
}

/* The better of `best` and the cells v; `mark` is what goes beside them. */
LNN_INLINE void T(lnn_meet)(T(lnn_v) v, T(lnn_v) mark, const int want, T(lnn_v) *best, T(lnn_i) *at) {
    if (want) *at = (T(lnn_i))T(LNN_PICK)(v > *best, mark, (T(lnn_v))*at);
    *best = T(LNN_MORE)(v, *best);
}

LNN_INLINE T(lnn_v) T(lnn_spot)(int64_t here) { return (T(lnn_v))(((T(lnn_i)){0}) + (whole)here); }

/* What goes beside the cells that lnn_take takes from p on, `here` by their place. */
LNN_INLINE T(lnn_v) T(lnn_mark)(const real *p, int64_t apart, int64_t here, const int64_t stride, const int want) {
    return want == LNN_TANGENTS ? T(lnn_take)(p + apart, stride) : T(lnn_spot)(here);
}

/* The first maxima of a tile's windows and what goes beside them; `from` is the first lane's first tap in the row at offset 0.
 * Whether a NaN was met, which is only noticed here. */
LNN_INLINE int T(lnn_max_tile)(const real *from, const int64_t *rows, int64_t n_rows, const int64_t apart, const int64_t stride,
                               const int64_t kernel, const int64_t step, const int want, T(lnn_v) *best, T(lnn_i) *at) {
    T(lnn_i) odd = {0};
    *best = ((T(lnn_v)){0}) - (real)INFINITY;
    *at = (T(lnn_i))T(lnn_mark)(from + rows[0], apart, rows[0], stride, want);
    for (int64_t r = 0; r < n_rows; r++) {
        const real *row = from + rows[r];
        int64_t j = 0;
#if LNN_HAS_SHUFFLE
        if (stride == 2 && step == 1)
            for (; j + 2 <= kernel; j += 2) {
                const T(lnn_v) low = T(lnn_load)(row + j), high = T(lnn_load)(row + j + LANES);
                const T(lnn_v) u = T(LNN_EVENS)(low, high), v = T(LNN_ODDS)(low, high);
                T(lnn_v) first = T(lnn_spot)(rows[r] + j), second = T(lnn_spot)(rows[r] + j + 1);
                if (want == LNN_TANGENTS) {
                    const T(lnn_v) one = T(lnn_load)(row + j + apart), two = T(lnn_load)(row + j + LANES + apart);
                    first = T(LNN_EVENS)(one, two);
                    second = T(LNN_ODDS)(one, two);
                }
                odd |= T(LNN_NAN)(u, v);
                T(lnn_meet)(u, first, want, best, at);
                T(lnn_meet)(v, second, want, best, at);
            }
#endif
#pragma GCC unroll 4
        for (; j < kernel && want != LNN_TANGENTS; j++) {
            const T(lnn_v) v = T(lnn_take)(row + j * step, stride);
            odd |= T(LNN_NAN)(v, v);
            T(lnn_meet)(v, T(lnn_spot)(rows[r] + j * step), want, best, at);
        }
        for (; j < kernel; j++) {
            const T(lnn_v) v = T(lnn_take)(row + j * step, stride);
            odd |= T(LNN_NAN)(v, v);
            T(lnn_meet)(v, T(lnn_mark)(row + j * step, apart, rows[r] + j * step, stride, want), want, best, at);
        }
    }
    return T(LNN_ANY)(odd);
}

/* A tile at an end of the row: cells of other rows are read and not considered. */
LNN_INLINE void T(lnn_max_masked)(const real *x, const lnn_band *b, int64_t t, int64_t p, int64_t n,
                                  const int64_t stride, const int want, real *y, void *beside) {
    const lnn_axis *a = b->axis;
    const int64_t from = a->start + p * stride;
    const T(lnn_v) none = ((T(lnn_v)){0}) - (real)INFINITY;
    T(lnn_i) inside[LNN_MASKS], met = {0}, at = {0}, odd = {0};
    T(lnn_v) best = none;
#pragma GCC unroll 1
    for (int64_t j = 0; j < a->kernel; j++) met |= inside[j] = T(lnn_inside)(a, from + j * a->step, stride);
    for (int64_t r = 0; r < b->n_rows; r++)
#pragma GCC unroll 1
        for (int64_t j = 0; j < a->kernel; j++) {
            const real *cells = x + b->rows[r] + from + j * a->step;
            T(lnn_v) v = T(lnn_take)(cells, stride);
            v = T(LNN_PICK)(inside[j], v, none);
            odd |= T(LNN_NAN)(v, v);
            T(lnn_meet)(v, T(lnn_mark)(cells, b->apart, b->rows[r] + j * a->step, stride, want), want, &best, &at);
        }
    if (T(LNN_ANY)(odd) || (want && T(LNN_ANY)(best == none)))
        T(lnn_max_ones)(x, b, t, p, n, y, beside);   /* NaN, or nothing above -inf */
    else {
        real values[LANES];
        int64_t marks[LANES];
        best = (T(lnn_v))((T(lnn_i))best & met);
        T(lnn_put_max)(best, at, from + lnn_place(b, t), stride, want, n == LANES ? y : values, n == LANES ? beside : marks);
        if (n == LANES) return;
        memcpy(y, values, (size_t)n * sizeof(real));
        if (want) memcpy(beside, marks, (size_t)n * (want == LNN_PLACES ? sizeof(int64_t) : sizeof(real)));
    }
}

static __attribute__((noinline)) void T(lnn_max_edge)(const real *x, const lnn_band *b, int64_t t, int64_t p,
                                                      int64_t n, real *y, void *beside) {
#define LNN_MASKED(S) \
    do { \
        if (b->want) T(lnn_max_masked)(x, b, t, p, n, S, LNN_PLACES, y, beside); \
        else T(lnn_max_masked)(x, b, t, p, n, S, LNN_NOTHING, y, beside); \
    } while (0)
    const int64_t stride = b->axis->stride;
    if (b->axis->kernel > LNN_MASKS || !T(lnn_readable)(b, t, p)) T(lnn_max_ones)(x, b, t, p, n, y, beside);
    else if (b->want == LNN_TANGENTS) T(lnn_max_masked)(x, b, t, p, n, stride, LNN_TANGENTS, y, beside);
    else if (stride == 1) LNN_MASKED(1);
    else if (stride == 2) LNN_MASKED(2);
    else LNN_MASKED(stride);
#undef LNN_MASKED
}

/* The tiles that are no edges. */
LNN_INLINE void T(lnn_max_tiles)(const real *x, const lnn_band *b, const lnn_tiles *c, const int64_t stride,
                                 const int64_t kernel, const int64_t step, const int want, real *restrict y,
                                 void *restrict beside) {
    const int64_t last = c->last, low = b->p0 + c->low * c->n, high = b->p0 + c->high * c->n, start = b->axis->start;
    const int64_t *rows = b->rows, n_rows = b->n_rows;
    for (int64_t t = 0, place = 0, left = b->wrap; t < c->run; t++) {
        for (int64_t at = low; at < high; at += LANES) {
            const int64_t p = at < last ? at : last, from = start + p * stride;
            void *mark = T(lnn_beside)(beside, p, want);
            T(lnn_v) best;
            T(lnn_i) won;
            if (T(lnn_max_tile)(x + from, rows, n_rows, b->apart, stride, kernel, step, want, &best, &won))
                T(lnn_max_ones)(x, b, t, p, c->n, y + p, mark);
            else T(lnn_put_max)(best, won, from + place, stride, want, y + p, mark);
        }
        x += b->advance;
        y += b->axis->outputs;
        beside = T(lnn_beside)(beside, b->axis->outputs, want);
        if (want == LNN_PLACES) {
            left--;
            place = left ? place + b->places : place - (b->height - 1) * b->places;
            left = left ? left : b->height;
        }
    }
}

static void T(lnn_max_edges)(const real *x, const lnn_band *b, const lnn_tiles *c, real *y, void *beside) {
    for (int64_t t = 0; t < b->run; t++)
        for (int64_t i = 0; i < c->count; i++) {
            const int64_t p = lnn_tile_at(b, c, i), to = t * b->axis->outputs + p;
            if (c->low <= i && i < c->high && t < c->run) i = c->high - 1;
            else T(lnn_max_edge)(x + t * b->advance, b, t, p, c->n, y + to, T(lnn_beside)(beside, to, b->want));
        }
}

/* Outputs p0 to p1 of a band's rows one by one. */
static __attribute__((noinline)) void T(lnn_max_few)(const real *x, const lnn_band *b, int64_t p0, int64_t p1, real *y,
                                                     void *beside) {
    for (int64_t t = 0; t < b->run && p0 < p1; t++) {
        const int64_t to = t * b->axis->outputs + p0;
        T(lnn_max_ones)(x + t * b->advance, b, t, p0, p1 - p0, y + to, T(lnn_beside)(beside, to, b->want));
    }
}

#if LNN_HAS_SHUFFLE
/* The maxima of `n` cells, at most SIDE, from each of LANES places on, `stride` apart; SIDE are read. Neighbours meet first and
 * the earlier one stays, so that of zeros with two signs the first does. */
LNN_INLINE T(lnn_v) T(lnn_max_pieces)(const real *x, const int64_t stride, const int64_t n, T(lnn_i) *odd) {
    T(lnn_v) v[SIDE];
    for (int w = 0; w < SIDE; w++) v[w] = T(lnn_pieces)(x + w * stride, SIDE * stride);
    if (n < SIDE) {
        T(lnn_i) inside;
        for (int l = 0; l < LANES; l++) inside[l] = -(l % SIDE < n);
        for (int w = 0; w < SIDE; w++) v[w] = T(LNN_PICK)(inside, v[w], ((T(lnn_v)){0}) - (real)INFINITY);
    }
    for (int w = 0; w < SIDE; w += 2) *odd |= T(LNN_NAN)(v[w], v[w + 1]);
    for (int left = SIDE; left > 1; left /= 2)
        for (int w = 0; w < left; w += 2)
            v[w / 2] = T(LNN_MORE)(T(LNN_ODDS)(v[w], v[w + 1]), T(LNN_EVENS)(v[w], v[w + 1]));
    return v[0];
}

/* The maxima of the windows of one row that begin at x; NaNs are noticed in `odd`. */
LNN_INLINE T(lnn_v) T(lnn_max_single)(const real *x, const int64_t stride, const int64_t kernel, T(lnn_i) *odd) {
    T(lnn_v) best;
    if (stride > 2) {
        best = T(lnn_max_pieces)(x, stride, kernel, odd);
#pragma GCC unroll 1
        for (int64_t j = SIDE; j < kernel; j += SIDE)   /* the last piece ends with the window, and may overlap */
            best = T(LNN_MORE)(T(lnn_max_pieces)(x + (j < kernel - SIDE ? j : kernel - SIDE), stride, SIDE, odd), best);
        return best;
    }
    const T(lnn_v) low = T(lnn_load)(x), high = T(lnn_load)(x + (stride == 1 ? 1 : LANES));
    const T(lnn_v) u = stride == 1 ? low : T(LNN_EVENS)(low, high), v = stride == 1 ? high : T(LNN_ODDS)(low, high);
    *odd |= T(LNN_NAN)(u, v);
    best = T(LNN_MORE)(v, u);
#pragma GCC unroll 2
    for (int64_t j = 2; j < kernel; j++) {
        const T(lnn_v) next = T(lnn_take)(x + j, stride);
        *odd |= T(LNN_NAN)(next, next);
        best = T(LNN_MORE)(next, best);
    }
    return T(lnn_sorted)(best, stride);
}

/* A band of single rows with nothing wanted beside the maxima, as one axis has them. Here a tile is a few loads, so all that
 * can be is found out before, NaNs are looked for two tiles at a time, and from a long row's second step on results are
 * written where vectors of y lie. */
LNN_INLINE void T(lnn_max_line)(const real *x, const lnn_band *b, const int64_t stride, const int64_t kernel,
                                real *restrict y) {
    const int64_t low = b->p0, last = b->p1 - LANES, start = b->rows[0] + b->axis->start, run = b->run;
    const int64_t reach = (LANES - 1) * stride + (stride > 2 && kernel < SIDE ? SIDE : kernel);
    const real *end = x + b->after;
    for (int64_t t = 0; t < run; t++, x += b->advance, y += b->axis->outputs) {
        const real *row = x + start;
        int64_t p = low;
        if (stride <= 2)
            for (int64_t next; p + LANES < last; p = next) {
                T(lnn_i) odd = {0};
                const T(lnn_v) one = T(lnn_max_single)(row + p * stride, stride, kernel, &odd);
                const T(lnn_v) two = T(lnn_max_single)(row + (p + LANES) * stride, stride, kernel, &odd);
                if (T(LNN_ANY)(odd)) T(lnn_max_ones)(x, b, t, p, 2 * LANES, y + p, NULL);
                else {
                    T(lnn_store)(y + p, one);
                    T(lnn_store)(y + p + LANES, two);
                }
                next = p + 2 * LANES;
                if (p == low && last - low > LNN_LONG * LANES) next -= (int64_t)((uintptr_t)(y + p) / sizeof(real) % LANES);
            }
        for (; p < last + LANES; p += LANES) {
            const int64_t at = p < last ? p : last;
            T(lnn_i) odd = {0};
            if (row + at * stride + reach > end) odd = ~odd;
            else T(lnn_store)(y + at, T(lnn_max_single)(row + at * stride, stride, kernel, &odd));
            if (T(LNN_ANY)(odd)) T(lnn_max_ones)(x, b, t, at, LANES, y + at, NULL);
        }
    }
}
#endif

/* The rows of a band as lines, if they are. */
LNN_INLINE int T(lnn_max_lines)(const real *x, const lnn_band *b, real *y) {
#if LNN_HAS_SHUFFLE
    const int64_t s = b->axis->stride, k = b->axis->kernel;
    if (b->axis->step > 1 || b->n_rows > 1 || b->want) return 0;
    if (s == 2 && k == 2) T(lnn_max_line)(x, b, 2, 2, y);
    else if (s == 2 && k == 3) T(lnn_max_line)(x, b, 2, 3, y);
    else if (s == 1 && k == 3) T(lnn_max_line)(x, b, 1, 3, y);
    else if (s == 1 && k > 1) T(lnn_max_line)(x, b, 1, k, y);
    else if (s > 2) T(lnn_max_line)(x, b, s, k, y);
    else return 0;
    return 1;
#else
    return 0;
#endif
}

static void T(lnn_max_rows)(const real *x, const lnn_band *b, real *y, void *beside) {
    const int64_t s = b->axis->stride, k = b->axis->kernel, d = b->axis->step;
    const lnn_tiles c = lnn_cut(b, LANES);
#define LNN_TILES(S, K, D, W) T(lnn_max_tiles)(x, b, &c, S, K, D, W, y, beside)
#define LNN_MAX(S, K, D) \
    do { \
        if (b->want) LNN_TILES(S, K, D, LNN_PLACES); \
        else LNN_TILES(S, K, D, LNN_NOTHING); \
    } while (0)
    if (b->want == LNN_TANGENTS) {
        if (s == 2 && k == 2 && d == 1) LNN_TILES(2, 2, 1, LNN_TANGENTS);
        else if (s == 2 && d == 1) LNN_TILES(2, k, 1, LNN_TANGENTS);
        else LNN_TILES(s, k, d, LNN_TANGENTS);
    } else if (s == 2 && k == 2 && d == 1) LNN_MAX(2, 2, 1);
    else if (s == 2 && k == 3 && d == 1) LNN_MAX(2, 3, 1);
    else if (s == 2 && d == 1) LNN_MAX(2, k, 1);
    else if (s == 1 && k == 3 && d == 1) LNN_MAX(1, 3, 1);
    else if (s == 1) LNN_MAX(1, k, d);
    else if (s == 2) LNN_MAX(2, k, d);
    else LNN_MAX(s, k, d);
#undef LNN_MAX
#undef LNN_TILES
    if (c.run < b->run || c.high - c.low < c.count) T(lnn_max_edges)(x, b, &c, y, beside);
}

/* y of a band, and what is wanted beside it; y and `beside` are those of its first row's output 0. Of a long row of windows
 * the few that have cells beyond its ends are left out of the band. */
static void T(lnn_max_band)(const real *x, lnn_band *b, real *y, void *beside) {
    const int64_t p0 = b->p0, p1 = b->p1;
    const int64_t low = p0 > b->axis->inside_low ? p0 : b->axis->inside_low;
    const int64_t high = p1 < b->axis->inside_high ? p1 : b->axis->inside_high;
    const int inside = b->n_rows == 1 && high - low >= LANES && high - low >= p1 - p0 - LNN_FEW;
    if (inside) {
        b->p0 = low;
        b->p1 = high;
    }
    if (!inside || !T(lnn_max_lines)(x, b, y)) T(lnn_max_rows)(x, b, y, beside);
    T(lnn_max_few)(x, b, p0, b->p0, y, beside);
    T(lnn_max_few)(x, b, b->p1, p1, y, beside);
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
