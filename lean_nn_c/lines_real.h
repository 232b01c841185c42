/* The loops of lines.h for the type LNN_T; included there, once per type. */

#define T LNN_T
#define V LNN_NAME(lnn_v)
#define VU LNN_NAME(lnn_vu)
#define WIDTH (LNN_BYTES / LNN_SIZE)
#define VECTORS (LNN_LANES / WIDTH)
#define EACH _Pragma("GCC ivdep") for /* elements do not depend on each other, also where out is the input */

static LNN_APART T LNN_NAME(lnn_chunk_sum)(const T *x, ptrdiff_t n) {
    V acc[VECTORS];
    ptrdiff_t i = 0;
    if (n <= 8) {
        T total = 0;
        for (; i < n; i++) total += x[i];
        return total;
    }
#pragma GCC unroll 16
    for (int k = 0; k < VECTORS; k++) acc[k] = (V){0};
    for (; i + LNN_LANES <= n; i += LNN_LANES) {
#pragma GCC unroll 16
        for (int k = 0; k < VECTORS; k++) acc[k] += *(const VU *)(x + i + k * WIDTH);
    }
#pragma GCC unroll 16
    for (int k = 0; k < VECTORS; k++) {
        const ptrdiff_t at = i + k * WIDTH, left = n - at;
        if (left <= 0) break;
        acc[k] += left >= WIDTH ? (V)*(const VU *)(x + at) : LNN_NAME(lnn_part)(x + at, left);
    }
#pragma GCC unroll 4
    for (int half = VECTORS / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
        for (int k = 0; k < half; k++) acc[k] += acc[k + half];
    }
    return LNN_NAME(lnn_tree)(acc[0]);
}

static T LNN_NAME(lnn_row_sum)(const T *x, ptrdiff_t n) {
    if (n <= LNN_CHUNK) return LNN_NAME(lnn_chunk_sum)(x, n);
    const ptrdiff_t h = lnn_half(n, LNN_CHUNK);
    const T first = LNN_NAME(lnn_row_sum)(x, h);
    return first + LNN_NAME(lnn_row_sum)(x + h, n - h);
}

static void LNN_NAME(lnn_row_sums)(const T *x, T *y, ptrdiff_t n, ptrdiff_t rows) {
    for (ptrdiff_t r = 0; r < rows; r++, x += n) y[r] = LNN_NAME(lnn_row_sum)(x, n);
}

/* acc[k] = Σ x[r·pitch + k] for k < LNN_COLUMNS, as lnn_column_sum adds them. Rows so long are far apart: eight of
 * them at a time, with the sums in memory, took 0.55 of the time that a few columns of 32 rows did, with the sums in registers. */
static void LNN_NAME(lnn_wide_sum)(const T *x, ptrdiff_t rows, ptrdiff_t pitch, T *acc) {
    for (int k = 0; k < LNN_COLUMNS; k += WIDTH) *(VU *)(acc + k) = (V){0};
    for (; rows >= 8; rows -= 8, x += 8 * pitch)
        for (int k = 0; k < LNN_COLUMNS; k += WIDTH) {
            V sum = *(const VU *)(acc + k);
#pragma GCC unroll 8
            for (int r = 0; r < 8; r++) sum += *(const VU *)(x + r * pitch + k);
            *(VU *)(acc + k) = sum;
        }
    for (; rows > 0; rows--, x += pitch)
        for (int k = 0; k < LNN_COLUMNS; k += WIDTH) *(VU *)(acc + k) += *(const VU *)(x + k);
}

/* acc[k] = Σ x[r·pitch + k] for k < columns ≤ LNN_COLUMNS */
static void LNN_NAME(lnn_column_sum)(const T *x, ptrdiff_t rows, ptrdiff_t pitch, int columns, T *acc) {
    if (rows > LNN_GROUP) {
        T rest[LNN_COLUMNS];
        const ptrdiff_t h = lnn_half(rows, LNN_GROUP);
        LNN_NAME(lnn_column_sum)(x, h, pitch, columns, acc);
        LNN_NAME(lnn_column_sum)(x + h * pitch, rows - h, pitch, columns, rest);
        EACH (int k = 0; k < columns; k++) acc[k] += rest[k];
        return;
    }
    if (columns == LNN_COLUMNS) {
        LNN_NAME(lnn_wide_sum)(x, rows, pitch, acc);
        return;
    }
    int k = 0;
    for (; k + 4 * WIDTH <= columns; k += 4 * WIDTH) {
        V sum[4] = {{0}};
        for (ptrdiff_t r = 0; r < rows; r++) {
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) sum[j] += *(const VU *)(x + r * pitch + k + j * WIDTH);
        }
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) *(VU *)(acc + k + j * WIDTH) = sum[j];
    }
    for (; k < columns; k += WIDTH) {
        const int left = columns - k;
        V sum = {0};
        if (left >= WIDTH) {
            for (ptrdiff_t r = 0; r < rows; r++) sum += *(const VU *)(x + r * pitch + k);
            *(VU *)(acc + k) = sum;
        } else {
            for (ptrdiff_t r = 0; r < rows; r++) sum += LNN_NAME(lnn_part)(x + r * pitch + k, left);
            LNN_NAME(lnn_put_part)(acc + k, sum, left);
        }
    }
}

/* the first largest (or least) of each column and its row; the first NaN beats all */
static void LNN_NAME(lnn_extreme)(const T *x, T *y, int64_t *idx, ptrdiff_t rows, ptrdiff_t pitch, int columns, int least) {
    const T sign = least ? -1 : 1;
    for (int k = 0; k < columns; k++) { y[k] = x[k]; idx[k] = 0; }
    for (ptrdiff_t r = 1; r < rows; r++)
        for (int k = 0; k < columns; k++) {
            const T a = x[r * pitch + k], b = y[k];
            const int better = sign * a > sign * b || (a != a && b == b);
            y[k] = better ? a : b;
            idx[k] = better ? r : idx[k];
        }
}

/* the larger one, b where one of them is NaN */
LNN_INLINE V LNN_NAME(lnn_larger)(V a, V b) {
    const __typeof__(a > b) mask = a > b;
    return (V)((mask & (__typeof__(mask))a) | (~mask & (__typeof__(mask))b));
}

/* the place of the first largest (or least) of a line of n, of the first NaN if there is one. A piece that is larger than all before
 * it is remembered, and looked through at the end: one pass over memory, without a place per lane. */
static LNN_APART ptrdiff_t LNN_NAME(lnn_row_extreme)(const T *x, ptrdiff_t n, int least) {
    const T sign = least ? -1 : 1;
    ptrdiff_t found = 0;
    T best = sign * x[0];
    if (n < 2 * WIDTH) {
        int bad = best != best;
        for (ptrdiff_t i = 1; i < n; i++) { /* without a branch: nobody can guess where the largest is */
            const T a = sign * x[i];
            found = a > best ? i : found;
            best = a > best ? a : best;
            bad |= a != a;
        }
        for (ptrdiff_t i = 0; i < n && bad; i++)
            if (x[i] != x[i]) return i;
        return found;
    }
    for (ptrdiff_t begin = 0; begin < n; begin += LNN_CHUNK) {
        const ptrdiff_t end = n - begin < LNN_CHUNK ? n : begin + LNN_CHUNK;
        V most[2] = {best - (V){0}, best - (V){0}};
        __typeof__(most[0] > most[1]) bad[2] = {most[0] != most[0], most[0] != most[0]};
        for (ptrdiff_t i = begin; i < end; i += 2 * WIDTH) { /* the last vectors overlap those before */
#pragma GCC unroll 2
            for (int k = 0; k < 2; k++) {
                const ptrdiff_t at = i + k * WIDTH;
                const V v = sign * *(const VU *)(x + (at + WIDTH <= end ? at : end - WIDTH));
                most[k] = LNN_NAME(lnn_larger)(v, most[k]);
                bad[k] |= v != v;
            }
        }
        bad[0] |= bad[1];
        if (LNN_NAME(LNN_SOME)(bad[0])) {
            for (found = begin; x[found] == x[found]; found++) {}
            return found;
        }
        const T top = LNN_NAME(lnn_top)(LNN_NAME(lnn_larger)(most[0], most[1]));
        if (top > best) best = top, found = begin;
    }
    for (; found + WIDTH <= n; found += WIDTH) {
        const __typeof__((V){0} == (V){0}) hit = sign * *(const VU *)(x + found) == best;
        if (LNN_NAME(LNN_SOME)(hit)) break;
    }
    for (; sign * x[found] != best; found++) {}
    return found;
}

static void LNN_NAME(lnn_row_extremes)(const T *x, T *y, int64_t *idx, ptrdiff_t n, ptrdiff_t rows, int least) {
    for (ptrdiff_t r = 0; r < rows; r++, x += n) y[r] = x[idx[r] = LNN_NAME(lnn_row_extreme)(x, n, least)];
}

/* the largest of a line; of a line with a NaN any number: the sum of its exponentials is NaN whatever it is */
LNN_INLINE T LNN_NAME(lnn_row_max)(const T *x, ptrdiff_t n) {
    T most = x[0];
    ptrdiff_t i = 0;
    if (n < WIDTH) {
        for (i = 1; i < n; i++) most = x[i] > most ? x[i] : most;
        return most;
    }
    V best[4] = {*(const VU *)x, *(const VU *)x, *(const VU *)x, *(const VU *)x};
    for (; i + 4 * WIDTH <= n; i += 4 * WIDTH) {
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) best[k] = LNN_NAME(lnn_larger)(*(const VU *)(x + i + k * WIDTH), best[k]);
    }
    for (; i < n; i += WIDTH) best[0] = LNN_NAME(lnn_larger)(*(const VU *)(x + (i + WIDTH <= n ? i : n - WIDTH)), best[0]);
    best[0] = LNN_NAME(lnn_larger)(best[0], best[1]);
    best[0] = LNN_NAME(lnn_larger)(best[0], LNN_NAME(lnn_larger)(best[2], best[3]));
    return LNN_NAME(lnn_top)(best[0]);
}

/* to[i] = exp(x[i] − shift), `down` where that is not positive; the last values take a detour, so that they are a vector too */
LNN_INLINE void LNN_NAME(lnn_exps)(const T *x, T *to, ptrdiff_t n, T shift, const int down) {
    T last[WIDTH];
    const ptrdiff_t whole = n / WIDTH * WIDTH;
    if (down) { EACH (ptrdiff_t i = 0; i < whole; i++) to[i] = LNN_NAME(lnn_vexp_down)(x[i] - shift); }
    else { EACH (ptrdiff_t i = 0; i < whole; i++) to[i] = LNN_NAME(lnn_vexp)(x[i] - shift); }
    if (whole == n) return;
    *(VU *)last = LNN_NAME(lnn_part)(x + whole, n - whole) - shift;
    if (down) { EACH (int k = 0; k < WIDTH; k++) last[k] = LNN_NAME(lnn_vexp_down)(last[k]); }
    else { EACH (int k = 0; k < WIDTH; k++) last[k] = LNN_NAME(lnn_vexp)(last[k]); }
    LNN_NAME(lnn_put_part)(to + whole, *(const VU *)last, n - whole);
}

/* Σ e for e = exp(x − shift), left in `e` unless that is NULL; Σ e·t in *dot and Σ (shift − x) in *below, where they are wanted */
static LNN_APART T LNN_NAME(lnn_exp_line)(const T *x, const T *t, T *e, ptrdiff_t n, T shift, T *dot, T *below) {
    T buffer[LNN_CHUNK], total = 0, other = 0, depth = 0;
    for (ptrdiff_t i = 0; i < n; i += LNN_CHUNK) {
        const ptrdiff_t size = n - i < LNN_CHUNK ? n - i : LNN_CHUNK;
        T *to = e ? e + i : buffer;
        LNN_NAME(lnn_exps)(x + i, to, size, shift, 1);
        total += LNN_NAME(lnn_chunk_sum)(to, size);
        if (dot) {
            EACH (ptrdiff_t k = 0; k < size; k++) buffer[k] = to[k] * t[i + k];
            other += LNN_NAME(lnn_chunk_sum)(buffer, size);
        }
        if (below) {
            EACH (ptrdiff_t k = 0; k < size; k++) buffer[k] = shift - x[i + k];
            depth += LNN_NAME(lnn_chunk_sum)(buffer, size);
        }
    }
    if (dot) *dot = other;
    if (below) *below = depth;
    return total;
}

static LNN_APART T LNN_NAME(lnn_row_dot)(const T *x, const T *t, ptrdiff_t n) {
    T buffer[LNN_CHUNK], total = 0;
    for (ptrdiff_t i = 0; i < n; i += LNN_CHUNK) {
        const ptrdiff_t size = n - i < LNN_CHUNK ? n - i : LNN_CHUNK;
        EACH (ptrdiff_t k = 0; k < size; k++) buffer[k] = x[i + k] * t[i + k];
        total += LNN_NAME(lnn_chunk_sum)(buffer, size);
    }
    return total;
}

/* log Σ exp(x), of which `rest` lies above the maximum; an infinite maximum is the value, unless there is a NaN */
static T LNN_NAME(lnn_log_total)(const T *x, ptrdiff_t n, ptrdiff_t pitch, T shift, T rest) {
    if (!isinf(shift)) return shift + rest;
    for (ptrdiff_t i = 0; i < n; i++)
        if (x[i * pitch] != x[i * pitch]) return x[i * pitch];
    return shift;
}

/* −Σ q·log p, from how far the class and the mean lie below the maximum */
LNN_INLINE T LNN_NAME(lnn_cross)(T below, T mean_below, T smooth, T rest) {
    return (smooth != 0 ? (1 - smooth) * below + smooth * mean_below : below) + rest;
}

/* (1 − smooth)·t at the class + smooth/n·Σ t, `even`, rounded as products and a sum are */
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
static LNN_APART T LNN_NAME(lnn_cross_own)(T own, T even, double smooth, ptrdiff_t n) {
    return own * (T)(1 - smooth) + even * (T)(smooth / (double)n);
}
#pragma GCC pop_options
/* its tangent Σ p·t − Σ q·t, times 1, or 0 where the line is ignored: the words of `_cross_tangent` in ops/loss.py */
LNN_INLINE T LNN_NAME(lnn_cross_dot)(const lnn_lines *job, T mean, const T *at, T even, int counts) {
    T own = counts ? *at : 0;
    if (job->smooth != 0) own = LNN_NAME(lnn_cross_own)(own, even, job->smooth, job->n);
    return (mean - own) * (T)counts;
}

/* what line i is weighted by on the way back */
LNN_INLINE T LNN_NAME(lnn_weight)(const lnn_lines *job, ptrdiff_t i) {
    return (T)(((const T *)job->g)[job->one ? 0 : i] / job->count);
}

/* NLL and NLL_BACK on the lines of outer indices first … end */
static void LNN_NAME(lnn_nll)(const lnn_lines *job, ptrdiff_t first, ptrdiff_t end) {
    const ptrdiff_t inner = job->inner, block = job->n * inner;
    const int back = job->kind == LNN_NLL_BACK;
    T *y = (T *)job->y;
    if (back || block == 0) memset(y + first * (back ? block : inner), 0, (size_t)((end - first) * (back ? block : inner)) * sizeof(T));
    for (ptrdiff_t o = first; o < end && block; o++)
        for (ptrdiff_t r = 0; r < inner; r++) {
            const int64_t c = job->idx[o * inner + r];
            const int counts = c != job->ignore;
            const ptrdiff_t at = o * block + (counts ? c : 0) * inner + r;
            if (!back) { const T found = -((const T *)job->x)[at]; y[o * inner + r] = counts ? found : 0; }
            else if (counts) y[at] = -LNN_NAME(lnn_weight)(job, o * inner + r);
        }
}

/* The o-th line, if it needs no sum of exponentials; else 0. */
static int LNN_NAME(lnn_soft_early)(const lnn_lines *job, ptrdiff_t o) {
    const ptrdiff_t n = job->n;
    const T *x = (const T *)job->x + o * n, *t = job->t ? (const T *)job->t + o * n : NULL;
    T *y = (T *)job->y + o * n, other;
    switch (job->kind) {
    case LNN_SOFT_SLOPE:
        other = LNN_NAME(lnn_row_dot)(x, t, n);
#define SLOPE(L) (L(x) * (L(t) - other))
        LNN_OVER(n, y, SLOPE)
        return 1;
    case LNN_UNLOG:
        other = LNN_NAME(lnn_row_sum)(t, n);
        for (ptrdiff_t begin = 0; begin < n; begin += LNN_CHUNK) {
            T e[LNN_CHUNK];
            const ptrdiff_t size = n - begin < LNN_CHUNK ? n - begin : LNN_CHUNK;
            const T *own = t + begin;
            LNN_NAME(lnn_exps)(x + begin, e, size, 0, 0);
#define UNLOGGED(L) (L(own) - L(e) * other)
            LNN_OVER(size, y + begin, UNLOGGED)
        }
        return 1;
    case LNN_CROSS:
        if (job->idx[o] == job->ignore) ((T *)job->y)[o] = 0;
        return job->idx[o] == job->ignore && !job->dot;
    case LNN_CROSS_BACK:
        if (job->idx[o] == job->ignore) memset(y, 0, (size_t)n * sizeof(T));
        return job->idx[o] == job->ignore;
    default: return 0;
    }
}

/* The tangents of the o-th line, of which `mean` is Σ p·t. */
LNN_INLINE void LNN_NAME(lnn_soft_dot)(const lnn_lines *job, ptrdiff_t o, const T mean) {
    const ptrdiff_t n = job->n;
    const T *t = (const T *)job->t + o * n;
    if (job->kind == LNN_CROSS) {
        const T even = job->smooth != 0 ? LNN_NAME(lnn_row_sum)(t, n) : 0;
        ((T *)job->dot)[o] = LNN_NAME(lnn_cross_dot)(job, mean, t + job->idx[o], even, job->idx[o] != job->ignore);
    }
    else if (job->kind == LNN_LOGSUMEXP) ((T *)job->dot)[o] = mean;
    else {
#define MOVED(L) (L(t) - mean)
        LNN_OVER(n, (T *)job->dot + o * n, MOVED)
    }
}

/* What becomes of the o-th line: `total` is Σ exp(x − shift) or its logarithm, left in y where the kind wants the terms, `other` what
 * else was summed. */
static void LNN_NAME(lnn_soft_late)(const lnn_lines *job, ptrdiff_t o, const T shift, const T total, const T other) {
    const ptrdiff_t n = job->n;
    const T *x = (const T *)job->x + o * n, smooth = (T)job->smooth;
    T *y = (T *)job->y + o * n, *single = (T *)job->y + o;
    switch (job->kind) {
    case LNN_LOGSUMEXP: *single = LNN_NAME(lnn_log_total)(x, n, 1, shift, total); return;
    case LNN_EXPECT: *single = other / total; return;
    case LNN_CROSS:
        if (job->idx[o] != job->ignore) *single = LNN_NAME(lnn_cross)(shift - x[job->idx[o]], other / (T)n, smooth, total);
        return;
    case LNN_LOG_SOFTMAX:
#define LOGGED(L) ((L(x) - shift) - total)
        LNN_OVER(n, y, LOGGED)
        return;
    default: break;
    }
    const T g = job->kind == LNN_SOFTMAX ? 1 : LNN_NAME(lnn_weight)(job, o), scale = g / total, off = g * smooth / (T)n;
#define SHARED(L) (L(y) * scale - off)
    LNN_OVER(n, y, SHARED)
    if (job->kind == LNN_CROSS_BACK) y[job->idx[o]] -= g * (1 - smooth);
}

/* contiguous lines, LNN_ABREAST of them at most: their logarithms are had together */
static void LNN_NAME(lnn_soft_lines)(const lnn_lines *job, ptrdiff_t first, int lines) {
    T shift[LNN_ABREAST] = {0}, total[LNN_ABREAST], other[LNN_ABREAST] = {0}, below[LNN_ABREAST] = {0};
    const int kind = job->kind, terms = kind == LNN_SOFTMAX || kind == LNN_CROSS_BACK, evens = kind == LNN_CROSS && job->smooth != 0;
    const ptrdiff_t n = job->n;
    int early[LNN_ABREAST];
    for (int k = 0; k < LNN_ABREAST; k++) total[k] = 1;
    for (int k = 0; k < lines; k++) {
        const T *x = (const T *)job->x + (first + k) * n, *t = job->t ? (const T *)job->t + (first + k) * n : NULL;
        if ((early[k] = LNN_NAME(lnn_soft_early)(job, first + k))) continue;
        shift[k] = LNN_NAME(lnn_row_max)(x, n);
        total[k] = LNN_NAME(lnn_exp_line)(x, t, terms ? (T *)job->y + (first + k) * n : NULL, n, shift[k],
                                          t ? other + k : NULL, evens ? below + k : NULL);
    }
    for (int k = 0; k < lines && job->dot; k++) LNN_NAME(lnn_soft_dot)(job, first + k, other[k] / total[k]);
    if (lnn_soft_logs(kind)) { EACH (int k = 0; k < LNN_ABREAST; k++) total[k] = LNN_NAME(lnn_vlog)(total[k]); }
    for (int k = 0; k < lines; k++)
        if (!early[k]) LNN_NAME(lnn_soft_late)(job, first + k, shift[k], total[k], evens ? below[k] : other[k]);
}

/* `columns` lines side by side, the terms of LNN_GROUP rows added first: total = Σ e with e = exp(x − shift), left in `y` unless that
 * is NULL, and, unless these are NULL, other = Σ e·t, below = Σ (shift − x); without a shift, total = Σ x·t */
static void LNN_NAME(lnn_soft_group)(const T *x, const T *t, T *y, ptrdiff_t rows, ptrdiff_t pitch, int columns, const T *shift,
                                     T *total, T *other, T *below) {
    T group[LNN_COLUMNS], second[LNN_COLUMNS], third[LNN_COLUMNS], e[LNN_COLUMNS];
    for (int k = 0; k < columns; k++) { total[k] = 0; if (other) other[k] = 0; if (below) below[k] = 0; }
    for (ptrdiff_t first = 0; first < rows; first += LNN_GROUP) {
        const ptrdiff_t end = rows - first < LNN_GROUP ? rows : first + LNN_GROUP;
        for (int k = 0; k < columns; k++) group[k] = second[k] = third[k] = 0;
        for (ptrdiff_t r = first; r < end; r++) {
            const T *row = x + r * pitch, *beside = t + (t ? r * pitch : 0);
            if (shift) { EACH (int k = 0; k < columns; k++) e[k] = LNN_NAME(lnn_vexp_down)(row[k] - shift[k]); }
            else { EACH (int k = 0; k < columns; k++) e[k] = row[k] * beside[k]; }
            for (int k = 0; k < columns; k++) group[k] += e[k];
            if (y) memcpy(y + r * pitch, e, (size_t)columns * sizeof(T));
            if (other) { for (int k = 0; k < columns; k++) second[k] += e[k] * beside[k]; }
            if (below) { for (int k = 0; k < columns; k++) third[k] += shift[k] - row[k]; }
        }
        for (int k = 0; k < columns; k++) { total[k] += group[k]; if (other) other[k] += second[k]; if (below) below[k] += third[k]; }
    }
}

/* lines first … first + columns of the o-th block of lines side by side */
static void LNN_NAME(lnn_soft_columns)(const lnn_lines *job, ptrdiff_t o, ptrdiff_t first, int columns) {
    const ptrdiff_t rows = job->n, pitch = job->inner, at = o * rows * pitch + first, line = o * pitch + first;
    const T *x = (const T *)job->x + at, *t = job->t ? (const T *)job->t + at : NULL;
    T *y = (T *)job->y + at, *single = (T *)job->y + line;
    const T smooth = (T)job->smooth;
    const int kind = job->kind, evens = kind == LNN_CROSS && smooth != 0;
    T shift[LNN_COLUMNS], total[LNN_COLUMNS], other[LNN_COLUMNS], below[LNN_COLUMNS] = {0}, mean[LNN_COLUMNS], sums[LNN_COLUMNS];
    const T *even = (const T *)job->even;
    if (kind == LNN_SOFT_SLOPE) LNN_NAME(lnn_soft_group)(x, t, NULL, rows, pitch, columns, NULL, total, NULL, NULL);
    else if (kind == LNN_UNLOG) LNN_NAME(lnn_column_sum)(t, rows, pitch, columns, total);
    else {
        for (int k = 0; k < columns; k++) shift[k] = x[k];
        for (ptrdiff_t r = 1; r < rows; r++) {
            const T *row = x + r * pitch;
            EACH (int k = 0; k < columns; k++) shift[k] = row[k] > shift[k] ? row[k] : shift[k];
        }
        LNN_NAME(lnn_soft_group)(x, t, kind == LNN_SOFTMAX || kind == LNN_CROSS_BACK ? y : NULL, rows, pitch, columns, shift, total,
                                 t ? other : NULL, evens ? below : NULL);
    }
    if (evens && t && !even) { LNN_NAME(lnn_column_sum)(t, rows, pitch, columns, sums); even = sums; }
    if (t && lnn_soft_logs(kind)) { EACH (int k = 0; k < columns; k++) mean[k] = other[k] / total[k]; }
    if (lnn_soft_logs(kind)) { EACH (int k = 0; k < columns; k++) total[k] = LNN_NAME(lnn_vlog)(total[k]); }
    for (int k = 0; k < columns; k++) {
        const int64_t c = job->idx ? job->idx[line + k] : 0;
        if (t && kind == LNN_CROSS) ((T *)job->dot)[line + k] = LNN_NAME(lnn_cross_dot)(job, mean[k], t + c * pitch + k, even ? even[k] : 0, c != job->ignore);
        if (t && kind == LNN_LOGSUMEXP) ((T *)job->dot)[line + k] = mean[k];
        const T g = kind == LNN_CROSS_BACK ? LNN_NAME(lnn_weight)(job, line + k) : 1;
        if (kind == LNN_LOGSUMEXP) single[k] = LNN_NAME(lnn_log_total)(x + k, rows, pitch, shift[k], total[k]);
        else if (kind == LNN_EXPECT) single[k] = other[k] / total[k];
        else if (kind == LNN_CROSS && c == job->ignore) single[k] = 0;
        else if (kind == LNN_CROSS) single[k] = LNN_NAME(lnn_cross)(shift[k] - x[c * pitch + k], below[k] / (T)rows, smooth, total[k]);
        else if (kind == LNN_SOFTMAX || kind == LNN_CROSS_BACK) total[k] = g / total[k], other[k] = g * smooth / (T)rows;
    }
    if (lnn_soft_single(kind)) return;
    for (ptrdiff_t r = 0; r < rows; r++) {
        const T *row = x + r * pitch, *beside = t + (t ? r * pitch : 0);
        T *out = y + r * pitch;
        if (kind == LNN_SOFT_SLOPE) { EACH (int k = 0; k < columns; k++) out[k] = row[k] * (beside[k] - total[k]); }
        else if (kind == LNN_UNLOG) { EACH (int k = 0; k < columns; k++) out[k] = beside[k] - LNN_NAME(lnn_vexp)(row[k]) * total[k]; }
        else if (kind == LNN_LOG_SOFTMAX) {
            EACH (int k = 0; k < columns; k++) out[k] = (row[k] - shift[k]) - total[k];
            T *dot = (T *)job->dot + (t ? at + r * pitch : 0);
            if (t) { EACH (int k = 0; k < columns; k++) dot[k] = beside[k] - mean[k]; }
        }
        else { EACH (int k = 0; k < columns; k++) out[k] = out[k] * total[k] - other[k]; }
    }
    for (int k = 0; k < columns && kind == LNN_CROSS_BACK; k++) {
        const int64_t c = job->idx[line + k];
        if (c != job->ignore) y[c * pitch + k] -= LNN_NAME(lnn_weight)(job, line + k) * (1 - smooth);
        else for (ptrdiff_t r = 0; r < rows; r++) y[r * pitch + k] = 0;
    }
}

/* Lines too short for vectors of their own, LNN_COLUMNS of them: set side by side, and the results back; sums of t in the order of
 * lines all the same. */
static void LNN_NAME(lnn_soft_short)(const lnn_lines *job, ptrdiff_t first, int lines) {
    T x[LNN_SHORT * LNN_COLUMNS], t[LNN_SHORT * LNN_COLUMNS], y[LNN_SHORT * LNN_COLUMNS], dot[LNN_SHORT * LNN_COLUMNS];
    T even[LNN_COLUMNS];
    const ptrdiff_t n = job->n;
    const int whole = !lnn_soft_single(job->kind);
    lnn_lines own = *job;
    own.inner = lines, own.x = x, own.t = job->t ? t : NULL, own.y = whole ? y : (T *)job->y + first;
    if (job->dot) own.dot = whole ? dot : (T *)job->dot + first;
    own.idx = job->idx ? job->idx + first : NULL, own.g = job->g && !job->one ? (const T *)job->g + first : job->g;
    for (int line = 0; line < lines; line++)
        for (ptrdiff_t i = 0; i < n; i++) {
            x[i * lines + line] = ((const T *)job->x)[(first + line) * n + i];
            if (job->t) t[i * lines + line] = ((const T *)job->t)[(first + line) * n + i];
        }
    if (job->t && job->smooth != 0) {
        LNN_NAME(lnn_row_sums)((const T *)job->t + first * n, even, n, lines);
        own.even = even;
    }
    LNN_NAME(lnn_soft_columns)(&own, 0, 0, lines);
    for (int line = 0; line < lines && whole; line++)
        for (ptrdiff_t i = 0; i < n; i++) {
            ((T *)job->y)[(first + line) * n + i] = y[i * lines + line];
            if (job->dot) ((T *)job->dot)[(first + line) * n + i] = dot[i * lines + line];
        }
}

static void LNN_NAME(lnn_soft_task)(const lnn_lines *job, ptrdiff_t outer, ptrdiff_t task) {
    const ptrdiff_t blocks = (job->inner + LNN_COLUMNS - 1) / LNN_COLUMNS;
    const int side = lnn_soft_side(job);
    const ptrdiff_t most = job->inner > 1 || side ? LNN_COLUMNS : lnn_soft_abreast(job);
    const ptrdiff_t first = (job->inner > 1 ? task % blocks : task) * most, left = (job->inner > 1 ? job->inner : outer) - first;
    const int lines = (int)(left < most ? left : most);
    if (side) LNN_NAME(lnn_soft_short)(job, first, lines);
    else if (job->inner == 1) LNN_NAME(lnn_soft_lines)(job, first, lines);
    else LNN_NAME(lnn_soft_columns)(job, task / blocks, first, lines);
}

#undef T
#undef V
#undef VU
#undef WIDTH
#undef VECTORS
#undef EACH
#undef SLOPE
#undef UNLOGGED
#undef LOGGED
#undef SHARED
#undef MOVED
