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

/* the larger one; NaN if there is one (a is NaN: not a < b) */
LNN_INLINE T LNN_NAME(lnn_larger)(T a, T b) { return (a < b || b != b) ? b : a; }

LNN_INLINE T LNN_NAME(lnn_row_max)(const T *x, ptrdiff_t n) {
    T lane[LNN_LANES];
    T most = x[0];
    if (n < LNN_LANES) {
        for (ptrdiff_t i = 1; i < n; i++) most = LNN_NAME(lnn_larger)(most, x[i]);
        return most;
    }
    for (int k = 0; k < LNN_LANES; k++) lane[k] = x[k];
    for (ptrdiff_t i = LNN_LANES; i < n; i += LNN_LANES) {
        const T *at = i + LNN_LANES <= n ? x + i : x + n - LNN_LANES;
        for (int k = 0; k < LNN_LANES; k++) lane[k] = LNN_NAME(lnn_larger)(lane[k], at[k]);
    }
    most = lane[0];
    for (int k = 1; k < LNN_LANES; k++) most = LNN_NAME(lnn_larger)(most, lane[k]);
    return most;
}

/* one contiguous line; y is the line's result, a single value for LNN_LOGSUMEXP */
static void LNN_NAME(lnn_soft_line)(lnn_soft kind, const T *x, T *y, ptrdiff_t n) {
    T buffer[LNN_CHUNK];
    const T shift = LNN_NAME(lnn_row_max)(x, n);
    T total = 0;
    if (kind == LNN_LOGSUMEXP && isinf(shift)) { y[0] = shift; return; }
    for (ptrdiff_t i = 0; i < n; i += LNN_CHUNK) {
        const ptrdiff_t size = n - i < LNN_CHUNK ? n - i : LNN_CHUNK;
        T *e = kind == LNN_SOFTMAX ? y + i : buffer;
        EACH (ptrdiff_t k = 0; k < size; k++) e[k] = LNN_NAME(lnn_vexp)(x[i + k] - shift);
        total += LNN_NAME(lnn_chunk_sum)(e, size);
    }
    if (kind == LNN_SOFTMAX) {
        EACH (ptrdiff_t i = 0; i < n; i++) y[i] = y[i] / total;
        return;
    }
    total = LNN_NAME(lnn_vlog)(total);
    if (kind == LNN_LOGSUMEXP) { y[0] = shift + total; return; }
    EACH (ptrdiff_t i = 0; i < n; i++) y[i] = (x[i] - shift) - total;
}

/* `columns` lines side by side, `pitch` apart from row to row */
static void LNN_NAME(lnn_soft_columns)(lnn_soft kind, const T *x, T *y, ptrdiff_t rows, ptrdiff_t pitch, int columns) {
    T shift[LNN_COLUMNS], total[LNN_COLUMNS], group[LNN_COLUMNS], e[LNN_COLUMNS];
    for (int k = 0; k < columns; k++) { shift[k] = x[k]; total[k] = 0; }
    for (ptrdiff_t r = 1; r < rows; r++) {
        const T *row = x + r * pitch;
        EACH (int k = 0; k < columns; k++) shift[k] = LNN_NAME(lnn_larger)(shift[k], row[k]);
    }
    for (ptrdiff_t first = 0; first < rows; first += LNN_GROUP) {
        const ptrdiff_t end = rows - first < LNN_GROUP ? rows : first + LNN_GROUP;
        for (int k = 0; k < columns; k++) group[k] = 0;
        for (ptrdiff_t r = first; r < end; r++) {
            const T *row = x + r * pitch;
            EACH (int k = 0; k < columns; k++) e[k] = LNN_NAME(lnn_vexp)(row[k] - shift[k]);
            for (int k = 0; k < columns; k++) group[k] += e[k];
            if (kind == LNN_SOFTMAX) memcpy(y + r * pitch, e, (size_t)columns * sizeof(T));
        }
        for (int k = 0; k < columns; k++) total[k] += group[k];
    }
    if (kind != LNN_SOFTMAX)
        for (int k = 0; k < columns; k++) total[k] = LNN_NAME(lnn_vlog)(total[k]);
    if (kind == LNN_LOGSUMEXP) {
        for (int k = 0; k < columns; k++) y[k] = isinf(shift[k]) ? shift[k] : shift[k] + total[k];
        return;
    }
    for (ptrdiff_t r = 0; r < rows; r++) {
        const T *row = x + r * pitch;
        T *out = y + r * pitch;
        if (kind == LNN_SOFTMAX) {
            EACH (int k = 0; k < columns; k++) out[k] = out[k] / total[k];
        } else {
            EACH (int k = 0; k < columns; k++) out[k] = (row[k] - shift[k]) - total[k];
        }
    }
}

#undef T
#undef V
#undef VU
#undef WIDTH
#undef VECTORS
#undef EACH
