/* The registers' part of strips.h for the type LNN_T; names end in LNN_SUFFIX. Included by strips.h alone. */

#define T LNN_T
#define LANES (LNN_BYTES / LNN_SIZE)
#define V LNN_NAME(lnn_v)
#define VU LNN_NAME(lnn_vu)
#define INTS LNN_NAME(lnn_ints)
#define SHORT (16 / LNN_SIZE)
#define H LNN_NAME(lnn_h)

typedef T H __attribute__((vector_size(16), aligned(sizeof(T)), may_alias));     /* a short vector, anywhere */
typedef LNN_INT LNN_NAME(lnn_short_ints) __attribute__((vector_size(16)));

#if LNN_SIZE == 8
#define EVENS_SHORT(a, b) LNN_MIX(a, b, LNN_NAME(lnn_short_ints), 0, 2)
#define ODDS_SHORT(a, b) LNN_MIX(a, b, LNN_NAME(lnn_short_ints), 1, 3)
#else
#define EVENS_SHORT(a, b) LNN_MIX(a, b, LNN_NAME(lnn_short_ints), 0, 2, 4, 6)
#define ODDS_SHORT(a, b) LNN_MIX(a, b, LNN_NAME(lnn_short_ints), 1, 3, 5, 7)
#endif

/* EVENS, ODDS: every second cell of two vectors; LOW, HIGH: the halves of two vectors interleaved. */
#if LNN_BYTES / LNN_SIZE == 2
#define EVENS(a, b) LNN_MIX(a, b, INTS, 0, 2)
#define ODDS(a, b) LNN_MIX(a, b, INTS, 1, 3)
#define LOW EVENS
#define HIGH ODDS
#elif LNN_BYTES / LNN_SIZE == 4
#define EVENS(a, b) LNN_MIX(a, b, INTS, 0, 2, 4, 6)
#define ODDS(a, b) LNN_MIX(a, b, INTS, 1, 3, 5, 7)
#define LOW(a, b) LNN_MIX(a, b, INTS, 0, 4, 1, 5)
#define HIGH(a, b) LNN_MIX(a, b, INTS, 2, 6, 3, 7)
#elif LNN_BYTES / LNN_SIZE == 8
#define EVENS(a, b) LNN_MIX(a, b, INTS, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODDS(a, b) LNN_MIX(a, b, INTS, 1, 3, 5, 7, 9, 11, 13, 15)
#define LOW(a, b) LNN_MIX(a, b, INTS, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) LNN_MIX(a, b, INTS, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define EVENS(a, b) LNN_MIX(a, b, INTS, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODDS(a, b) LNN_MIX(a, b, INTS, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define LOW(a, b) LNN_MIX(a, b, INTS, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b) LNN_MIX(a, b, INTS, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#endif

/* n cells, fewer than a vector: two pieces that overlap. */
LNN_INLINE void LNN_NAME(lnn_copy_few)(T *dst, const T *src, ptrdiff_t n)
{
    char *to = (char *)dst;
    const char *from = (const char *)src;
    const ptrdiff_t bytes = n * (ptrdiff_t)sizeof(T);
#define PIECES(size) if (LNN_BYTES > size && bytes >= size) { \
        char head[size], tail[size]; \
        memcpy(head, from, size); memcpy(tail, from + bytes - size, size); \
        memcpy(to, head, size); memcpy(to + bytes - size, tail, size); \
        return; \
    }
    PIECES(32)
    PIECES(16)
    PIECES(8)
#undef PIECES
    if (n) *dst = *src;
}

LNN_INLINE void LNN_NAME(lnn_copy_row)(T *dst, const T *src, ptrdiff_t n)
{
    if (n < LANES) {
        LNN_NAME(lnn_copy_few)(dst, src, n);
        return;
    }
    for (ptrdiff_t i = 0; i < n - LANES; i += LANES) *(VU *)(dst + i) = *(const VU *)(src + i);
    *(VU *)(dst + n - LANES) = *(const VU *)(src + n - LANES);
}

/* even[i] = src[2*i] and odd[i] = src[2*i + 1] for i < n; a last even one if more. */
LNN_INLINE void LNN_NAME(lnn_split_row)(T *even, T *odd, const T *src, ptrdiff_t n, int more)
{
#define PIECE(TYPE, WIDTH, SIDES, i) { \
        const TYPE a = *(const TYPE *)(src + 2 * (i)), b = *(const TYPE *)(src + 2 * (i) + WIDTH); \
        *(TYPE *)(even + (i)) = EVENS##SIDES(a, b); \
        *(TYPE *)(odd + (i)) = ODDS##SIDES(a, b); \
    }
#define PIECES(TYPE, WIDTH, SIDES) { \
        for (ptrdiff_t i = 0; i + WIDTH <= n; i += WIDTH) PIECE(TYPE, WIDTH, SIDES, i) \
        if (n % WIDTH) PIECE(TYPE, WIDTH, SIDES, n - WIDTH) \
    }
    if (n >= LANES) PIECES(VU, LANES, )
    else if (n >= SHORT) PIECES(H, SHORT, _SHORT)
    else for (ptrdiff_t i = 0; i < n; i++) {
        even[i] = src[2 * i];
        odd[i] = src[2 * i + 1];
    }
    if (more) even[n] = src[2 * n];
#undef PIECES
#undef PIECE
}

/* dst[2*i] = src[i]; what lies between is zero already, and may be made zero again, also behind the last. */
LNN_INLINE void LNN_NAME(lnn_spread_row)(T *dst, const T *src, ptrdiff_t n)
{
    const V zero = (V){0};
    if (n < LANES) {
        for (ptrdiff_t i = 0; i < n; i++) dst[2 * i] = src[i];
        return;
    }
#define PIECE(i) { \
        const V a = *(const VU *)(src + (i)); \
        *(VU *)(dst + 2 * (i)) = LOW(a, zero); \
        *(VU *)(dst + 2 * (i) + LANES) = HIGH(a, zero); \
    }
    for (ptrdiff_t i = 0; i + LANES <= n; i += LANES) PIECE(i)
    if (n % LANES) PIECE(n - LANES)
#undef PIECE
}

/* Whether the phases of a row hold all its cells in turn; then those from `low` to `high` are real in each phase, and `begin` is
 * where the first of them is in the source. */
static int LNN_NAME(lnn_in_turn)(const lnn_copies *c, int64_t *low, int64_t *high, int64_t *begin)
{
    if (c->step <= 2 || c->phases != c->step || c->spread != 1) return 0;
    *low = c->low[0], *high = c->low[0] + c->count[0];
    for (int64_t f = 1; f < c->phases; f++) {
        if (c->first[f] - c->low[f] * c->step != c->first[0] - c->low[0] * c->step + f) return 0;
        if (c->low[f] > *low) *low = c->low[f];
        if (c->low[f] + c->count[f] < *high) *high = c->low[f] + c->count[f];
    }
    *begin = c->first[0] + (*low - c->low[0]) * c->step;
    return (*high - *low) * c->step >= LNN_LONG_ROW;
}

/* The real cells of one channel into their places. Rows ascend in the strip. */
static __attribute__((noinline)) void LNN_NAME(lnn_fill_strip)(const lnn_copies *c, const T *source, T *strip)
{
    const int64_t rows = c->rows, *const src = c->src, *const dst = c->dst;
    if (c->step == 2 && c->phases == 2 && c->pairs) {
        const int even = c->first[1] < c->first[0], odd = !even, more = c->count[even] > c->count[odd];
        const int64_t to_even = even * c->plane + c->low[even], to_odd = odd * c->plane + c->low[odd];
        for (int64_t r = 0; r < rows; r++)
            LNN_NAME(lnn_split_row)(strip + dst[r] + to_even, strip + dst[r] + to_odd, source + src[r] + c->first[even],
                                    c->count[odd], more);
        return;
    }
    int64_t low, high, begin;
    const int in_turn = LNN_NAME(lnn_in_turn)(c, &low, &high, &begin);
    for (int64_t r = 0; r < (in_turn ? rows : 0); r++)
        LNN_NAME(lnn_unzip)(source + src[r] + begin, c->step, high - low, strip + dst[r] + low, c->plane);
    for (int64_t f = 0; f < c->phases; f++) {
        const T *from = source + c->first[f];
        T *to = strip + f * c->plane + c->low[f];
        const int64_t n = c->count[f], step = c->step, spread = c->spread;
        if (in_turn) {                      /* what only some phases have */
            const int64_t before = low - c->low[f], inside = high - low;
            for (int64_t r = 0; r < rows; r++)
                for (int64_t k = 0; k < n - inside; k++) {
                    const int64_t i = k < before ? k : k + inside;
                    to[dst[r] + i] = from[src[r] + step * i];
                }
            continue;
        }
        if (step == 1 && spread == 1 && n >= SHORT && n <= 2 * SHORT)       /* two pieces that overlap */
            for (int64_t r = 0; r < rows; r++) {
                const H head = *(const H *)(from + src[r]), tail = *(const H *)(from + src[r] + n - SHORT);
                *(H *)(to + dst[r]) = head;
                *(H *)(to + dst[r] + n - SHORT) = tail;
            }
        else if (step == 2 && spread == 1)
            for (int64_t r = 0; r < rows; r++) LNN_NAME(lnn_seconds)(from + src[r], n, to + dst[r]);
        else if (step == 1 && spread == 1)
            for (int64_t r = 0; r < rows; r++) LNN_NAME(lnn_copy_row)(to + dst[r], from + src[r], n);
        else if (spread == 2)
            for (int64_t r = 0; r < rows; r++) LNN_NAME(lnn_spread_row)(to + dst[r], from + src[r], n);
        else
            for (int64_t r = 0; r < rows; r++)
                for (int64_t i = 0; i < n; i++) to[dst[r] + spread * i] = from[src[r] + step * i];
    }
}

/* Rows of `width` cells side by side into rows of whole vectors, whose ends are zero already. */
static void LNN_NAME(lnn_loosen)(T *dst, const T *src, int64_t width, int64_t rows)
{
    const int64_t pitch = (width + LANES - 1) / LANES * LANES;
    for (int64_t r = 0; r < rows; r++) LNN_NAME(lnn_copy_row)(dst + r * pitch, src + r * width, width);
}

/* A tile of rows shorter than a vector: n vectors in the order of their places, `step` apart or as listed. */
static __attribute__((noinline)) void LNN_NAME(lnn_store_short)(const lnn_sweep *s, int64_t n, const V *part,
                                                                const int64_t *to, int64_t step, T *out)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t place = step ? *to + i * step : to[i];
        if (place + LANES <= s->limit) *(VU *)(out + place) = part[i];
        else LNN_NAME(lnn_copy_few)(out + place, (const T *)(part + i), s->width);
    }
}

/* Every vector of the sweep for mr rows of weights: out[m*ldo + to] = first + sum_k w[m][a[k]] * strip[at + b[k]].
 * `first` is start[m], or what `before` kept of the channels until now; `after` keeps the sums instead of `out`. */
LNN_INLINE void LNN_NAME(lnn_sweep_body)(const int mr, const int nv, const lnn_sweep *s, int64_t channels,
                                         const T *const *w, const T *strip, const T *start, const VU *before, VU *after,
                                         T *out, ptrdiff_t ldo)
{
    const ptrdiff_t terms = s->terms * channels, vectors = s->vectors;
    const int64_t *const sa = s->a, *const sb = s->b;
    const int whole = s->width >= LANES;
    const T *row[LNN_ROWS];
#pragma GCC unroll 8
    for (int m = 0; m < mr; m++) row[m] = w[m];
    for (ptrdiff_t i = 0; i < vectors; i += nv) {
        const int64_t *const at = s->at + i, *const to = s->to + i;
        const T *place[8];
        V acc[LNN_ROWS][8];
#pragma GCC unroll 8
        for (int v = 0; v < nv; v++) {
            place[v] = strip + at[v];
#pragma GCC unroll 8
            for (int m = 0; m < mr; m++) acc[m][v] = before ? (V)before[i * mr + m * nv + v] : (V){0} + start[m];
        }
        for (ptrdiff_t k = 0; k < terms; k++) {
            const int64_t ak = sa[k], bk = sb[k];
            if (mr < nv) {                  /* the weights in registers, the strip one by one */
                T a[LNN_ROWS];
#pragma GCC unroll 8
                for (int m = 0; m < mr; m++) a[m] = row[m][ak];
#pragma GCC unroll 8
                for (int v = 0; v < nv; v++) {
                    const V x = *(const VU *)(place[v] + bk);
#pragma GCC unroll 8
                    for (int m = 0; m < mr; m++) acc[m][v] += a[m] * x;
                }
            } else {                        /* the other way round */
                V x[8];
#pragma GCC unroll 8
                for (int v = 0; v < nv; v++) x[v] = *(const VU *)(place[v] + bk);
#pragma GCC unroll 8
                for (int m = 0; m < mr; m++) {
                    const T a = row[m][ak];
#pragma GCC unroll 8
                    for (int v = 0; v < nv; v++) acc[m][v] += a * x[v];
                }
            }
        }
        if (whole && !after) {
#pragma GCC unroll 8
            for (int v = 0; v < nv; v++)
#pragma GCC unroll 8
                for (int m = 0; m < mr; m++) *(VU *)(out + m * ldo + to[v]) = acc[m][v];
        } else {
            V part[LNN_ROWS * 8];
            VU *kept = after ? after + i * mr : (VU *)part;
#pragma GCC unroll 8
            for (int m = 0; m < mr; m++) {
#pragma GCC unroll 8
                for (int v = 0; v < nv; v++) kept[m * nv + v] = acc[m][v];
                if (!after) LNN_NAME(lnn_store_short)(s, nv, part + m * nv, to, 0, out + m * ldo);
            }
        }
    }
}

/* n taps below each other on the tall tile: row j of the strip is tap t of the tile's row j - t. */
LNN_INLINE void LNN_NAME(lnn_run_taps)(const int n, V *acc, const T *w, ptrdiff_t a_step, const T *x, ptrdiff_t b_step)
{
    T a[LNN_RUN];
#pragma GCC unroll 8
    for (int t = 0; t < n; t++, w += a_step) a[t] = *w;
#pragma GCC unroll 16
    for (int j = 0; j < LNN_TALL + n - 1; j++, x += b_step) {
        const V cell = *(const VU *)x;
#pragma GCC unroll 8
        for (int t = 0; t < n; t++)
            if (j - t >= 0 && j - t < LNN_TALL) acc[j - t] += a[t] * cell;
    }
}

/* The same as lnn_sweep_body for one row of weights, by tall tiles. */
static __attribute__((noinline)) void LNN_NAME(lnn_sweep_tall)(const lnn_sweep *s, int64_t channels, const T *w,
                                                               const T *strip, T start, const VU *before, VU *after,
                                                               T *out)
{
    const ptrdiff_t a_step = s->a_step, b_step = s->b_step, to_step = s->to_step;
    const int whole = s->width >= LANES && s->live == LNN_TALL;
    const lnn_run *const end = s->run + s->runs * channels;
    for (int64_t i = 0; i < s->vectors; i++) {
        const T *place = strip + s->at[i];
        V acc[LNN_TALL];
        lnn_call_in(s, i);
#pragma GCC unroll 8
        for (int j = 0; j < LNN_TALL; j++) acc[j] = before ? (V)before[i * LNN_TALL + j] : (V){0} + start;
        for (const lnn_run *r = s->run; r < end; r++) {
#define CASE(n) case n: LNN_NAME(lnn_run_taps)(n, acc, w + r->a, a_step, place + r->b, b_step); break
            switch (r->taps) {
                CASE(1); CASE(2); CASE(3); CASE(4); CASE(5); CASE(6); CASE(7);
                default: __builtin_unreachable();
            }
#undef CASE
        }
        T *to = out + s->to[i];
        if (whole && !after) {
#pragma GCC unroll 8
            for (int j = 0; j < LNN_TALL; j++, to += to_step) *(VU *)to = acc[j];
        } else if (!after && s->width < LANES && s->to[i] + (s->live - 2) * to_step + LANES <= s->limit) {
            V last = acc[0];                /* short rows, all but the last of which may be stored whole */
#pragma GCC unroll 8
            for (int j = 0; j < LNN_TALL; j++, to += to_step) {
                if (j < s->live - 1) *(VU *)to = acc[j];
                else if (j == s->live - 1) last = acc[j];
            }
            const int64_t place = s->to[i] + (s->live - 1) * to_step;
            if (place + LANES <= s->limit) *(VU *)(out + place) = last;
            else LNN_NAME(lnn_copy_few)(out + place, (const T *)&last, s->width);
        } else {
            V part[LNN_TALL];
            VU *kept = after ? after + i * LNN_TALL : (VU *)part;
#pragma GCC unroll 8
            for (int j = 0; j < LNN_TALL; j++) kept[j] = acc[j];
            if (!after && s->width < LANES) LNN_NAME(lnn_store_short)(s, s->live, part, s->to + i, to_step, out);
            else if (!after)
                for (int64_t j = 0; j < s->live; j++) *(VU *)(out + s->to[i] + j * to_step) = part[j];
        }
    }
}

/* A sweep for mr rows of weights; `sums` (NULL: all channels are here) is read if not fresh, and kept if not final. */
static void LNN_NAME(lnn_sweep_rows)(int mr, const lnn_sweep *s, int64_t channels, const T *const *w, const T *strip,
                                     const T *start, T *sums, int fresh, int final, T *out, ptrdiff_t ldo)
{
    static const T zeros[LNN_ROWS];
    const VU *before = fresh ? NULL : (const VU *)sums;
    VU *after = final ? NULL : (VU *)sums;
    if (!start) start = zeros;
    if (s->live) {
        LNN_NAME(lnn_sweep_tall)(s, channels, w[0], strip, *start, before, after, out);
        return;
    }
#define CASE(m, v) \
    case m: LNN_NAME(lnn_sweep_body)(m, v, s, channels, w, strip, start, before, after, out, ldo); return
    switch (mr) {
        CASE(1, 8); CASE(2, 6); CASE(3, 4); CASE(4, 3); CASE(5, 2); CASE(6, 2);
    }
#undef CASE
}

/* sums[o][t] += the vectors of the o-th y times the strip's under tap t, for no outputs and nt taps. */
LNN_INLINE void LNN_NAME(lnn_gauge_body)(const int no, const int nt, const lnn_sweep *s, const int64_t *tap, const T *strip,
                                         const T *y, ptrdiff_t y_step, T *sums)
{
    const T *place[9];
    V acc[3][9];
    const ptrdiff_t step = s->terms * LANES;
#pragma GCC unroll 9
    for (int t = 0; t < nt; t++) {
        place[t] = strip + tap[t];
#pragma GCC unroll 3
        for (int o = 0; o < no; o++) acc[o][t] = *(const VU *)(sums + o * step + t * LANES);
    }
    for (int64_t i = 0; i < s->vectors; i++, y += LANES) {
        const int64_t at = s->at[i];
        V yv[3];
#pragma GCC unroll 3
        for (int o = 0; o < no; o++) yv[o] = *(const VU *)(y + o * y_step);
#pragma GCC unroll 9
        for (int t = 0; t < nt; t++) {
            const V x = *(const VU *)(place[t] + at);
#pragma GCC unroll 3
            for (int o = 0; o < no; o++) acc[o][t] += yv[o] * x;
        }
    }
#pragma GCC unroll 9
    for (int t = 0; t < nt; t++)
#pragma GCC unroll 3
        for (int o = 0; o < no; o++) *(VU *)(sums + o * step + t * LANES) = acc[o][t];
}

/* All taps of a strip, for the y of `outs` outputs: tiles of 3 outputs by up to 4 taps, or 1 by 9, as even as can be.
 * The strip's vectors begin anywhere and count as one load and a half: loading them for one output alone takes longer than
 * its products. */
static __attribute__((noinline)) void LNN_NAME(lnn_gauge)(const lnn_sweep *s, const T *strip, const T *y, ptrdiff_t y_step,
                                                          int64_t outs, T *sums)
{
    while (outs > 0) {
        const int no = outs < 3 ? 1 : 3, most = no == 1 ? 9 : 4;
        int64_t tiles = (s->terms + most - 1) / most, left = s->terms;
        for (const int64_t *tap = s->b; left > 0; tiles--) {
            const int64_t nt = (left + tiles - 1) / tiles;
#define CASE(o, n) case 16 * o + n: LNN_NAME(lnn_gauge_body)(o, n, s, tap, strip, y, y_step, sums); break
            switch (16 * no + nt) {
                CASE(1, 1); CASE(1, 2); CASE(1, 3); CASE(1, 4); CASE(1, 5); CASE(1, 6); CASE(1, 7); CASE(1, 8); CASE(1, 9);
                CASE(3, 1); CASE(3, 2); CASE(3, 3); CASE(3, 4);
            }
#undef CASE
            tap += nt, left -= nt, sums += nt * LANES;
        }
        outs -= no, y += no * y_step, sums += (no - 1) * s->terms * LANES;
    }
}

/* out[t] = the lanes of sums[t], in a fixed order. */
static void LNN_NAME(lnn_settle)(const T *sums, int64_t n, T *out)
{
    for (int64_t t = 0; t < n; t++) out[t] = LNN_NAME(lnn_lanes)(*(const VU *)(sums + t * LANES));
}

#if LNN_SIZE == 4                   /* _deep.pxd */
/* The planes of LANES channels, one in each lane, turned and then set into the strip as lnn_fill_strip sets cells. */
static __attribute__((noinline)) void LNN_NAME(lnn_fill_deep)(const lnn_copies *c, const T *source, int64_t cells, T *turned, T *strip)
{
    const int64_t step = c->step * LANES, spread = c->spread * LANES;
    LNN_NAME(lnn_turn)(source, cells, LANES, cells, turned, LANES);
    for (int64_t f = 0; f < c->phases; f++)
        for (int64_t r = 0, count = c->count[f]; r < c->rows; r++) {
            const T *from = turned + (c->src[r] + c->first[f]) * LANES;
            T *to = strip + (c->dst[r] + f * c->plane + c->low[f]) * LANES;
            for (int64_t i = 0; i < count; i++, to += spread, from += step) *(VU *)to = *(const VU *)from;
        }
}

/* lnn_sweep_body where every lane has weights of its own, and every vector is one output. */
static __attribute__((noinline)) void LNN_NAME(lnn_sweep_deep)(const lnn_sweep *s, const T *w, const T *strip, const T *start, T *out)
{
    enum { NV = 6 };
    const ptrdiff_t terms = s->terms;
    const int64_t *const sa = s->a, *const sb = s->b;
    for (ptrdiff_t i = 0; i < s->vectors; i += NV) {
        const T *place[NV];
        V acc[NV];
#pragma GCC unroll 8
        for (int v = 0; v < NV; v++) {
            place[v] = strip + s->at[i + v];
            acc[v] = *(const VU *)start;
        }
        for (ptrdiff_t k = 0; k < terms; k++) {
            const V a = *(const VU *)(w + sa[k] * LANES);
            const int64_t b = sb[k];
#pragma GCC unroll 8
            for (int v = 0; v < NV; v++) acc[v] += a * *(const VU *)(place[v] + b);
        }
#pragma GCC unroll 8
        for (int v = 0; v < NV; v++) *(VU *)(out + s->to[i + v] * LANES) = acc[v];
    }
}
#endif

#undef EVENS
#undef ODDS
#undef EVENS_SHORT
#undef ODDS_SHORT
#undef SHORT
#undef H
#undef LOW
#undef HIGH
#undef INTS
#undef T
#undef LANES
#undef V
#undef VU
