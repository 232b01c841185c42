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

/* The first maxima of `wide` tiles' windows and what goes beside them; `from` is the first lane's first tap in the row at
 * offset 0. Whether a NaN was met, which is only noticed here. */
LNN_INLINE int T(lnn_max_tile)(const real *from, const int64_t *rows, int64_t n_rows, const int64_t apart, const int64_t stride,
                               const int64_t kernel, const int64_t step, const int want, const int wide,
                               T(lnn_v) *best, T(lnn_i) *at) {
    T(lnn_i) odd = {0};
    for (int w = 0; w < wide; w++) {
        best[w] = ((T(lnn_v)){0}) - (real)INFINITY;
        at[w] = (T(lnn_i))T(lnn_mark)(from + rows[0] + w * LANES * stride, apart, rows[0], stride, want);
    }
    for (int64_t r = 0; r < n_rows; r++)
        for (int w = 0; w < wide; w++) {
            const real *row = from + rows[r] + w * LANES * stride;
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
                    T(lnn_meet)(u, first, want, best + w, at + w);
                    T(lnn_meet)(v, second, want, best + w, at + w);
                }
#endif
#pragma GCC unroll 4
            for (; j < kernel && want != LNN_TANGENTS; j++) {
                const T(lnn_v) v = T(lnn_take)(row + j * step, stride);
                odd |= T(LNN_NAN)(v, v);
                T(lnn_meet)(v, T(lnn_spot)(rows[r] + j * step), want, best + w, at + w);
            }
            for (; j < kernel; j++) {
                const T(lnn_v) v = T(lnn_take)(row + j * step, stride);
                odd |= T(LNN_NAN)(v, v);
                T(lnn_meet)(v, T(lnn_mark)(row + j * step, apart, rows[r] + j * step, stride, want), want, best + w, at + w);
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

/* `wide` tiles from output p on, at y. */
LNN_INLINE void T(lnn_max_put)(const real *x, const lnn_band *b, int64_t t, int64_t p, int64_t n, int64_t place,
                               const int64_t n_rows, const int64_t stride, const int64_t kernel, const int64_t step,
                               const int want, const int wide, real *restrict y, void *restrict beside) {
    const int64_t from = b->axis->start + p * stride;
    T(lnn_v) best[2];
    T(lnn_i) at[2];
    if (T(lnn_max_tile)(x + from, b->rows, n_rows, b->apart, stride, kernel, step, want, wide, best, at)) {
        T(lnn_max_ones)(x, b, t, p, n, y + p, T(lnn_beside)(beside, p, want));
        return;
    }
    for (int w = 0; w < wide; w++)
        T(lnn_put_max)(best[w], at[w], from + place + w * LANES * stride, stride, want, y + p + w * LANES,
                       T(lnn_beside)(beside, p + w * LANES, want));
}

/* The tiles that are no edges; two at a time where windows have a single row. */
LNN_INLINE void T(lnn_max_tiles)(const real *x, const lnn_band *b, const lnn_tiles *c, const int64_t n_rows,
                                 const int64_t stride, const int64_t kernel, const int64_t step, const int want,
                                 real *restrict y, void *restrict beside) {
    const int64_t last = c->last, low = b->p0 + c->low * c->n, high = b->p0 + c->high * c->n;
    for (int64_t t = 0, place = 0, left = b->wrap; t < c->run; t++) {
        int64_t p = low;
        if (__builtin_constant_p(n_rows))
            for (; p + LANES <= last && p + LANES < high; p += 2 * LANES)
                T(lnn_max_put)(x, b, t, p, 2 * LANES, place, n_rows, stride, kernel, step, want, 2, y, beside);
        for (; p < high; p += LANES)
            T(lnn_max_put)(x, b, t, p < last ? p : last, c->n, place, n_rows, stride, kernel, step, want, 1, y, beside);
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

/* y of a band, and what is wanted beside it; y and `beside` are those of its first row's output 0. Of a long row of windows
 * the few that have cells beyond its ends are left out of the band. */
static void T(lnn_max_band)(const real *x, lnn_band *b, real *y, void *beside) {
    const int64_t s = b->axis->stride, k = b->axis->kernel, d = b->axis->step, p0 = b->p0, p1 = b->p1;
    const int64_t low = p0 > b->axis->inside_low ? p0 : b->axis->inside_low;
    const int64_t high = p1 < b->axis->inside_high ? p1 : b->axis->inside_high;
    if (b->n_rows == 1 && high - low >= LANES && high - low >= p1 - p0 - LNN_FEW) {
        b->p0 = low;
        b->p1 = high;
    }
    const lnn_tiles c = lnn_cut(b, LANES);
#define LNN_TILES(N, S, K, D, W) T(lnn_max_tiles)(x, b, &c, N, S, K, D, W, y, beside)
#define LNN_MAX(S, K, D) \
    do { \
        if (b->want) LNN_TILES(b->n_rows, S, K, D, LNN_PLACES); \
        else LNN_TILES(b->n_rows, S, K, D, LNN_NOTHING); \
    } while (0)
    if (b->want == LNN_TANGENTS) {
        if (s == 2 && d == 1) LNN_TILES(b->n_rows, 2, k, 1, LNN_TANGENTS);
        else LNN_TILES(b->n_rows, s, k, d, LNN_TANGENTS);
    } else if (s == 2 && k == 2 && d == 1 && b->n_rows == 1 && !b->want) LNN_TILES(1, 2, 2, 1, LNN_NOTHING);
    else if (s == 2 && k == 3 && d == 1 && b->n_rows == 1 && !b->want) LNN_TILES(1, 2, 3, 1, LNN_NOTHING);
    else if (s == 2 && k == 2 && d == 1) LNN_MAX(2, 2, 1);
    else if (s == 2 && k == 3 && d == 1) LNN_MAX(2, 3, 1);
    else if (s == 2 && d == 1) LNN_MAX(2, k, 1);
    else if (s == 1 && k == 3 && d == 1) LNN_MAX(1, 3, 1);
    else if (s == 1) LNN_MAX(1, k, d);
    else if (s == 2) LNN_MAX(2, k, d);
    else LNN_MAX(s, k, d);
#undef LNN_MAX
#undef LNN_TILES
    if (c.run < b->run || c.high - c.low < c.count) T(lnn_max_edges)(x, b, &c, y, beside);
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
