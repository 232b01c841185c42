/* Averages and maxima of LANES planes at a time, a plane in each lane; see _lanes.pxd.
 *
 * `T(lnn_v) to[i]` are cell i of all planes. Every lane does what a loop over one plane would do, so no row is too short, no
 * window too irregular: all that is paid for it is turning the planes on the way in and out. */

/* Squares of 16 bytes each way: one instruction per shuffle on every machine. */
LNN_INLINE void T(lnn_turn_square)(const real *from, int64_t from_pitch, real *to, int64_t to_pitch) {
#if LNN_HAS_SHUFFLE
    T(lnn_q) a[SIDE], b[SIDE];
#pragma GCC unroll 4
    for (int i = 0; i < SIDE; i++) memcpy(a + i, from + i * from_pitch, 16);
#pragma GCC unroll 2
    for (int n = 1; n < SIDE; n *= 2) {
#pragma GCC unroll 2
        for (int i = 0; i < SIDE / 2; i++) {
            b[2 * i] = T(LNN_NEAR)(a[i], a[i + SIDE / 2]);
            b[2 * i + 1] = T(LNN_FAR)(a[i], a[i + SIDE / 2]);
        }
#pragma GCC unroll 4
        for (int i = 0; i < SIDE; i++) a[i] = b[i];
    }
#pragma GCC unroll 4
    for (int i = 0; i < SIDE; i++) memcpy(to + i * to_pitch, a + i, 16);
#else
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) to[j * to_pitch + i] = from[i * from_pitch + j];
#endif
}

/* to[c * to_pitch + r] = from[r * from_pitch + c]. Few planes are walked at a time: they may all want one line of the cache.
 * What lies `ahead` of it, unless that is 0, is called in for the next time. */
static __attribute__((noinline)) void T(lnn_turn)(const real *from, int64_t from_pitch, int64_t rows, int64_t cols,
                                                  real *to, int64_t to_pitch, int64_t ahead) {
    if (rows < SIDE || cols < SIDE) {
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < cols; c++) to[c * to_pitch + r] = from[r * from_pitch + c];
        return;
    }
    const int upright = rows > cols;
    const int64_t few = upright ? cols : rows, many = upright ? rows : cols;
    for (int64_t i = 0; i < few; i += SIDE) {
        for (int64_t r = i; ahead && r < i + SIDE; r++)
            for (int64_t c = 0; c < many; c += 64 / (int64_t)sizeof(real)) __builtin_prefetch(from + r * from_pitch + c + ahead);
        for (int64_t j = 0; j < many; j += SIDE) {
            const int64_t u = i < few - SIDE ? i : few - SIDE, v = j < many - SIDE ? j : many - SIDE;
            const int64_t r = upright ? v : u, c = upright ? u : v;
            T(lnn_turn_square)(from + r * from_pitch + c, from_pitch, to + c * to_pitch + r, to_pitch);
        }
    }
}

/* `far`: no cache holds the planes. Those that come next are called in, of large planes the cells that do: each plane is read on
 * from where it was left, and of so many streams the machine foresees too little (26 MB of float64: 1.3 to 2 times as fast). */
static void T(lnn_lanes_in)(const void *from, int64_t pitch, int64_t lanes, int64_t n, int far, void *to) {
    const int64_t next = lanes * pitch * (int64_t)sizeof(real) <= LNN_NEXT ? lanes * pitch : n;
    if (lanes < LANES) memset(to, 0, (size_t)n * LNN_BYTES);
    T(lnn_turn)(from, pitch, lanes, n, to, LANES, far ? next : 0);
}

static void T(lnn_lanes_out)(const void *from, int64_t n, int64_t lanes, void *to, int64_t pitch) {
    T(lnn_turn)(from, LANES, n, lanes, to, pitch, 0);
}

/* Numbers `at` to at + n of the planes: those that were turned before, or else turned now. */
static __attribute__((noinline)) const T(lnn_v) *T(lnn_lanes_row)(const lnn_lanes *s, int64_t at, int64_t n) {
    if (s->held) return (const T(lnn_v) *)s->held->at + at;
    T(lnn_lanes_in)((const real *)s->from + at, s->pitch, s->lanes, n, s->far, s->row->at);
    return (const T(lnn_v) *)s->row->at;
}

/* sums[p - p0] += the cells of window p in the rows, low <= cell < high; each `batch` of rows is added up before. */
static void T(lnn_lanes_sum)(const lnn_lanes *s, const lnn_axis *a, const int64_t *rows, int64_t n_rows, int64_t batch,
                             int64_t p0, int64_t p1, int64_t low, int64_t high, void *sums) {
    T(lnn_v) *columns = (T(lnn_v) *)s->batch->at, *sum = sums;
    for (int64_t r = 0; r < n_rows; r += batch)
        for (int64_t from = low; from < high; from += LNN_CAP) {
            const int64_t n = high - from < LNN_CAP ? high - from : LNN_CAP;
            const T(lnn_v) *cells = T(lnn_lanes_row)(s, rows[r] + from, n);
            if (batch > 1) {
                memcpy(columns, cells, (size_t)n * LNN_BYTES);
                for (int64_t i = 1; i < batch; i++) {
                    cells = T(lnn_lanes_row)(s, rows[r + i] + from, n);
                    for (int64_t c = 0; c < n; c++) columns[c] += cells[c];
                }
                cells = columns;
            }
            for (int64_t p = p0; p < p1; p++) {
                int64_t cell, left = lnn_part(a, p, from, from + n, &cell);
                T(lnn_v) total = sum[p - p0];
                for (cell -= from; left > 0; left--, cell += a->step) total += cells[cell];
                sum[p - p0] = total;
            }
        }
}

/* share[p - p0] /= outer * inner[p] */
static void T(lnn_lanes_divide)(int64_t p0, int64_t p1, double outer, const int64_t *inner, void *shares) {
    T(lnn_v) *share = shares;
    for (int64_t p = p0; p < p1; p++) share[p - p0] /= (real)outer * T(lnn_weight)(inner, p);
}

/* cells[j - j0] += the shares of the windows over cell j in the rows, j0 <= j < j1; each `batch` of rows is added up
 * before, and divided then where it is `even`: where it has one divisor. */
static void T(lnn_lanes_spread)(const lnn_lanes *s, const lnn_axis *a, const int64_t *rows, const double *outer,
                                int64_t n_rows, int64_t batch, int even, const int64_t *inner, int64_t j0, int64_t j1,
                                void *cells) {
    T(lnn_v) *share = (T(lnn_v) *)s->batch->at, *to = cells;
    const int64_t high = a->high[j1 - 1];
    for (int64_t r = 0; r < n_rows; r += batch)
        for (int64_t p0 = a->low[j0]; p0 < high; p0 += LNN_CAP) {
            const int64_t p1 = high - p0 < LNN_CAP ? high : p0 + LNN_CAP;
            memset(share, 0, (size_t)(p1 - p0) * LNN_BYTES);
            for (int64_t i = r; i < r + batch; i++) {
                const T(lnn_v) *y_bar = T(lnn_lanes_row)(s, rows[i] + p0, p1 - p0);
                if (even)
                    for (int64_t p = p0; p < p1; p++) share[p - p0] += y_bar[p - p0];
                else
                    for (int64_t p = p0; p < p1; p++)
                        share[p - p0] += y_bar[p - p0] / ((real)outer[i] * T(lnn_weight)(inner, p));
            }
            if (even) T(lnn_lanes_divide)(p0, p1, outer[r], inner, share);
            for (int64_t p = p0; p < p1; p++) {
                int64_t cell, left = lnn_part(a, p, j0, j1, &cell);
                const T(lnn_v) v = share[p - p0];
                for (cell -= j0; left > 0; left--, cell += a->step) to[cell] += v;
            }
        }
}

/* Before the first cell: -inf at the window's first cell, which lies in row `row`; 0 and -1 where there is none. */
static void T(lnn_lanes_none)(const lnn_axis *a, int64_t row, int64_t p0, int64_t p1, void *bests, void *places) {
    for (int64_t p = p0; p < p1; p++) {
        const int some = row >= 0 && a->count[p] > 0;
        ((T(lnn_v) *)bests)[p - p0] = ((T(lnn_v)){0}) - (some ? (real)INFINITY : 0);
        ((T(lnn_i) *)places)[p - p0] = ((T(lnn_i)){0}) + (whole)(some ? row + a->first[p] : -1);
    }
}

/* The first maxima, or NaN, of the windows so far and of their cells in the rows; see lnn_lanes_sum. */
LNN_INLINE void T(lnn_lanes_meet)(const lnn_lanes *s, const lnn_axis *a, const int64_t *rows, int64_t n_rows, int64_t p0,
                                  int64_t p1, int64_t low, int64_t high, const int want, T(lnn_v) *bests,
                                  T(lnn_i) *places) {
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t from = low; from < high; from += LNN_CAP) {
            const int64_t n = high - from < LNN_CAP ? high - from : LNN_CAP;
            const T(lnn_v) *cells = T(lnn_lanes_row)(s, rows[r] + from, n);
            for (int64_t p = p0; p < p1; p++) {
                int64_t cell, left = lnn_part(a, p, from, from + n, &cell);
                T(lnn_v) best = bests[p - p0], at = (T(lnn_v))places[p - p0];
                for (; left > 0; left--, cell += a->step) {
                    const T(lnn_v) v = cells[cell - from];
                    const T(lnn_i) better = ~(best >= v) & (best == best);
                    if (want) at = T(LNN_PICK)(better, T(lnn_spot)(rows[r] + cell), at);
                    best = T(LNN_PICK)(better, v, best);
                }
                bests[p - p0] = best;
                if (want) places[p - p0] = (T(lnn_i))at;
            }
        }
}

static void T(lnn_lanes_max)(const lnn_lanes *s, const lnn_axis *a, const int64_t *rows, int64_t n_rows, int64_t p0,
                             int64_t p1, int64_t low, int64_t high, int want, void *bests, void *places) {
    if (want) T(lnn_lanes_meet)(s, a, rows, n_rows, p0, p1, low, high, 1, bests, places);
    else T(lnn_lanes_meet)(s, a, rows, n_rows, p0, p1, low, high, 0, bests, places);
}

/* What goes beside n maxima of every plane, `pitch` numbers apart: their places, or the tangents there. */
static void T(lnn_lanes_beside)(const lnn_lanes *s, const void *places, int64_t n, int want, int64_t apart, void *beside,
                                int64_t pitch) {
    for (int64_t l = 0; l < s->lanes; l++)
        for (int64_t p = 0; p < n; p++) {
            const int64_t at = ((const whole *)places)[p * LANES + l];
            if (want == LNN_PLACES) ((int64_t *)beside)[l * pitch + p] = at;
            else ((real *)beside)[l * pitch + p] = at < 0 ? 0 : ((const real *)s->from)[l * s->pitch + at + apart];
        }
}

