/* The loops of lines.h for the type LNN_T; included there, once per type. */

#define T LNN_T
#define V LNN_NAME(lnn_v)
#define VU LNN_NAME(lnn_vu)
#define WIDTH (LNN_BYTES / LNN_SIZE)
#define VECTORS (LNN_LANES / WIDTH)
#define EACH _Pragma("GCC ivdep") for /* elements do not depend on each other, also where out is the input */

static T LNN_NAME(lnn_chunk_sum)(const T *x, ptrdiff_t n) {
    T lane[LNN_LANES];
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
    for (int k = 0; k < VECTORS; k++) *(VU *)(lane + k * WIDTH) = acc[k];
    for (ptrdiff_t k = 0; k < n - i; k++) lane[k] += x[i + k];
#pragma GCC unroll 5
    for (int width = LNN_LANES / 2; width > 0; width /= 2) {
#pragma GCC unroll 16
        for (int k = 0; k < width; k++) lane[k] += lane[k + width];
    }
    return lane[0];
}

static T LNN_NAME(lnn_row_sum)(const T *x, ptrdiff_t n) {
    if (n <= LNN_CHUNK) return LNN_NAME(lnn_chunk_sum)(x, n);
    const ptrdiff_t h = lnn_half(n, LNN_CHUNK);
    const T first = LNN_NAME(lnn_row_sum)(x, h);
    return first + LNN_NAME(lnn_row_sum)(x + h, n - h);
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
    for (int k = 0; k < columns; k++) acc[k] = 0;
    for (ptrdiff_t r = 0; r < rows; r++) {
        const T *row = x + r * pitch;
        EACH (int k = 0; k < columns; k++) acc[k] += row[k];
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

/* the largest of a line; of a line with a NaN any number: the sum of its exponentials is NaN whatever it is */
LNN_INLINE T LNN_NAME(lnn_row_max)(const T *x, ptrdiff_t n) {
    T lane[WIDTH], most = x[0];
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
    *(VU *)lane = best[0];
    most = lane[0];
    for (int k = 1; k < WIDTH; k++) most = lane[k] > most ? lane[k] : most;
    return most;
}

/* Σ e for e = exp(x − shift), left in `e` unless that is NULL; Σ e·t in *dot where there is a t, Σ (shift − x) where dot is alone */
static T LNN_NAME(lnn_exp_line)(const T *x, const T *t, T *e, ptrdiff_t n, T shift, T *dot) {
    T buffer[LNN_CHUNK], total = 0, other = 0;
    for (ptrdiff_t i = 0; i < n; i += LNN_CHUNK) {
        const ptrdiff_t size = n - i < LNN_CHUNK ? n - i : LNN_CHUNK;
        T *to = e ? e + i : buffer;
        EACH (ptrdiff_t k = 0; k < size; k++) to[k] = LNN_NAME(lnn_vexp_down)(x[i + k] - shift);
        total += LNN_NAME(lnn_chunk_sum)(to, size);
        if (!dot) continue;
        if (t) { EACH (ptrdiff_t k = 0; k < size; k++) buffer[k] = to[k] * t[i + k]; }
        else { EACH (ptrdiff_t k = 0; k < size; k++) buffer[k] = shift - x[i + k]; }
        other += LNN_NAME(lnn_chunk_sum)(buffer, size);
    }
    if (dot) *dot = other;
    return total;
}

static T LNN_NAME(lnn_row_dot)(const T *x, const T *t, ptrdiff_t n) {
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

/* what line i is weighted by on the way back */
LNN_INLINE T LNN_NAME(lnn_weight)(const lnn_lines *job, ptrdiff_t i) {
    return (T)(((const T *)job->g)[job->one ? 0 : i] / job->count);
}

/* one contiguous line: the o-th */
static void LNN_NAME(lnn_soft_line)(const lnn_lines *job, ptrdiff_t o) {
    const ptrdiff_t n = job->n;
    const T *x = (const T *)job->x + o * n, *t = job->t ? (const T *)job->t + o * n : NULL;
    T *y = (T *)job->y + o * n, *single = (T *)job->y + o, other = 0, shift, total;
    const T smooth = (T)job->smooth;
    const int64_t at = job->idx ? job->idx[o] : 0;
    switch (job->kind) {
    case LNN_SOFT_SLOPE:
        other = LNN_NAME(lnn_row_dot)(x, t, n);
        EACH (ptrdiff_t i = 0; i < n; i++) y[i] = x[i] * (t[i] - other);
        return;
    case LNN_UNLOG:
        other = LNN_NAME(lnn_row_sum)(t, n);
        EACH (ptrdiff_t i = 0; i < n; i++) y[i] = t[i] - LNN_NAME(lnn_vexp)(x[i]) * other;
        return;
    case LNN_CROSS:
        if (at == job->ignore) { *single = 0; return; }
        break;
    case LNN_CROSS_BACK:
        if (at == job->ignore) { memset(y, 0, (size_t)n * sizeof(T)); return; }
        break;
    default: break;
    }
    shift = LNN_NAME(lnn_row_max)(x, n);
    total = LNN_NAME(lnn_exp_line)(x, t, job->kind == LNN_SOFTMAX || job->kind == LNN_CROSS_BACK ? y : NULL, n, shift,
                                   t || (job->kind == LNN_CROSS && smooth != 0) ? &other : NULL);
    if (lnn_soft_logs(job->kind)) total = LNN_NAME(lnn_vlog)(total);
    switch (job->kind) {
    case LNN_LOGSUMEXP: *single = LNN_NAME(lnn_log_total)(x, n, 1, shift, total); return;
    case LNN_EXPECT: *single = other / total; return;
    case LNN_CROSS: *single = LNN_NAME(lnn_cross)(shift - x[at], other / (T)n, smooth, total); return;
    case LNN_LOG_SOFTMAX:
        EACH (ptrdiff_t i = 0; i < n; i++) y[i] = (x[i] - shift) - total;
        return;
    default: break;
    }
    const T g = job->kind == LNN_SOFTMAX ? 1 : LNN_NAME(lnn_weight)(job, o), scale = g / total, off = g * smooth / (T)n;
    EACH (ptrdiff_t i = 0; i < n; i++) y[i] = y[i] * scale - off;
    if (job->kind == LNN_CROSS_BACK) y[at] -= g * (1 - smooth);
}

/* `columns` lines side by side, the terms of LNN_GROUP rows added first: total = Σ e with e = exp(x − shift), left in `y` unless that
 * is NULL, and other, unless that is NULL, = Σ e·t, or Σ (shift − x) without a t; without a shift, total = Σ x·t */
static void LNN_NAME(lnn_soft_group)(const T *x, const T *t, T *y, ptrdiff_t rows, ptrdiff_t pitch, int columns, const T *shift,
                                     T *total, T *other) {
    T group[LNN_COLUMNS], second[LNN_COLUMNS], e[LNN_COLUMNS];
    for (int k = 0; k < columns; k++) { total[k] = 0; if (other) other[k] = 0; }
    for (ptrdiff_t first = 0; first < rows; first += LNN_GROUP) {
        const ptrdiff_t end = rows - first < LNN_GROUP ? rows : first + LNN_GROUP;
        for (int k = 0; k < columns; k++) group[k] = second[k] = 0;
        for (ptrdiff_t r = first; r < end; r++) {
            const T *row = x + r * pitch, *beside = t + (t ? r * pitch : 0);
            if (shift) { EACH (int k = 0; k < columns; k++) e[k] = LNN_NAME(lnn_vexp_down)(row[k] - shift[k]); }
            else { EACH (int k = 0; k < columns; k++) e[k] = row[k] * beside[k]; }
            for (int k = 0; k < columns; k++) group[k] += e[k];
            if (y) memcpy(y + r * pitch, e, (size_t)columns * sizeof(T));
            if (!other) continue;
            if (t) { for (int k = 0; k < columns; k++) second[k] += e[k] * beside[k]; }
            else { for (int k = 0; k < columns; k++) second[k] += shift[k] - row[k]; }
        }
        for (int k = 0; k < columns; k++) { total[k] += group[k]; if (other) other[k] += second[k]; }
    }
}

/* lines first … first + columns of the o-th block of lines side by side */
static void LNN_NAME(lnn_soft_columns)(const lnn_lines *job, ptrdiff_t o, ptrdiff_t first, int columns) {
    const ptrdiff_t rows = job->n, pitch = job->inner, at = o * rows * pitch + first, line = o * pitch + first;
    const T *x = (const T *)job->x + at, *t = job->t ? (const T *)job->t + at : NULL;
    T *y = (T *)job->y + at, *single = (T *)job->y + line;
    const T smooth = (T)job->smooth;
    const int kind = job->kind;
    T shift[LNN_COLUMNS], total[LNN_COLUMNS], other[LNN_COLUMNS];
    if (kind == LNN_SOFT_SLOPE) LNN_NAME(lnn_soft_group)(x, t, NULL, rows, pitch, columns, NULL, total, NULL);
    else if (kind == LNN_UNLOG) LNN_NAME(lnn_column_sum)(t, rows, pitch, columns, total);
    else {
        for (int k = 0; k < columns; k++) shift[k] = x[k];
        for (ptrdiff_t r = 1; r < rows; r++) {
            const T *row = x + r * pitch;
            EACH (int k = 0; k < columns; k++) shift[k] = row[k] > shift[k] ? row[k] : shift[k];
        }
        LNN_NAME(lnn_soft_group)(x, t, kind == LNN_SOFTMAX || kind == LNN_CROSS_BACK ? y : NULL, rows, pitch, columns, shift, total,
                                 t || (kind == LNN_CROSS && smooth != 0) ? other : NULL);
    }
    if (lnn_soft_logs(kind)) { EACH (int k = 0; k < columns; k++) total[k] = LNN_NAME(lnn_vlog)(total[k]); }
    for (int k = 0; k < columns; k++) {
        const int64_t c = job->idx ? job->idx[line + k] : 0;
        const T g = kind == LNN_CROSS_BACK ? LNN_NAME(lnn_weight)(job, line + k) : 1;
        if (kind == LNN_LOGSUMEXP) single[k] = LNN_NAME(lnn_log_total)(x + k, rows, pitch, shift[k], total[k]);
        else if (kind == LNN_EXPECT) single[k] = other[k] / total[k];
        else if (kind == LNN_CROSS && c == job->ignore) single[k] = 0;
        else if (kind == LNN_CROSS) single[k] = LNN_NAME(lnn_cross)(shift[k] - x[c * pitch + k], other[k] / (T)rows, smooth, total[k]);
        else if (kind == LNN_SOFTMAX || kind == LNN_CROSS_BACK) total[k] = g / total[k], other[k] = g * smooth / (T)rows;
    }
    if (kind == LNN_LOGSUMEXP || kind == LNN_EXPECT || kind == LNN_CROSS) return;
    for (ptrdiff_t r = 0; r < rows; r++) {
        const T *row = x + r * pitch, *beside = t + (t ? r * pitch : 0);
        T *out = y + r * pitch;
        if (kind == LNN_SOFT_SLOPE) { EACH (int k = 0; k < columns; k++) out[k] = row[k] * (beside[k] - total[k]); }
        else if (kind == LNN_UNLOG) { EACH (int k = 0; k < columns; k++) out[k] = beside[k] - LNN_NAME(lnn_vexp)(row[k]) * total[k]; }
        else if (kind == LNN_LOG_SOFTMAX) { EACH (int k = 0; k < columns; k++) out[k] = (row[k] - shift[k]) - total[k]; }
        else { EACH (int k = 0; k < columns; k++) out[k] = out[k] * total[k] - other[k]; }
    }
    for (int k = 0; k < columns && kind == LNN_CROSS_BACK; k++) {
        const int64_t c = job->idx[line + k];
        if (c != job->ignore) y[c * pitch + k] -= LNN_NAME(lnn_weight)(job, line + k) * (1 - smooth);
        else for (ptrdiff_t r = 0; r < rows; r++) y[r * pitch + k] = 0;
    }
}

/* Lines too short for vectors of their own, LNN_COLUMNS of them: set side by side, and the results back. */
static void LNN_NAME(lnn_soft_short)(const lnn_lines *job, ptrdiff_t first, int lines) {
    T x[LNN_SHORT * LNN_COLUMNS], t[LNN_SHORT * LNN_COLUMNS], y[LNN_SHORT * LNN_COLUMNS];
    const ptrdiff_t n = job->n;
    const int whole = job->kind != LNN_LOGSUMEXP && job->kind != LNN_EXPECT && job->kind != LNN_CROSS;
    lnn_lines own = *job;
    own.inner = lines, own.x = x, own.t = job->t ? t : NULL, own.y = whole ? y : (T *)job->y + first;
    own.idx = job->idx ? job->idx + first : NULL, own.g = job->g && !job->one ? (const T *)job->g + first : job->g;
    for (int line = 0; line < lines; line++)
        for (ptrdiff_t i = 0; i < n; i++) {
            x[i * lines + line] = ((const T *)job->x)[(first + line) * n + i];
            if (job->t) t[i * lines + line] = ((const T *)job->t)[(first + line) * n + i];
        }
    LNN_NAME(lnn_soft_columns)(&own, 0, 0, lines);
    for (int line = 0; line < lines && whole; line++)
        for (ptrdiff_t i = 0; i < n; i++) ((T *)job->y)[(first + line) * n + i] = y[i * lines + line];
}

static void LNN_NAME(lnn_soft_task)(const lnn_lines *job, ptrdiff_t outer, ptrdiff_t task) {
    const ptrdiff_t blocks = (job->inner + LNN_COLUMNS - 1) / LNN_COLUMNS;
    const int side = lnn_soft_side(job);
    const ptrdiff_t first = side ? task * LNN_COLUMNS : task % blocks * LNN_COLUMNS, left = (side ? outer : job->inner) - first;
    const int lines = (int)(left < LNN_COLUMNS ? left : LNN_COLUMNS);
    if (side) LNN_NAME(lnn_soft_short)(job, first, lines);
    else if (job->inner == 1) LNN_NAME(lnn_soft_line)(job, task);
    else LNN_NAME(lnn_soft_columns)(job, task / blocks, first, lines);
}

#undef T
#undef V
#undef VU
#undef WIDTH
#undef VECTORS
#undef EACH
