/* The loops of standard.h for the type LNN_T; included there, once per type. */

#define T LNN_T
#define V LNN_NAME(lnn_v)
#define VU LNN_NAME(lnn_vu)
#define WIDTH (LNN_BYTES / LNN_SIZE)
#define VECTORS (128 / LNN_BYTES)
#define TAIL (128 / LNN_SIZE)

/* the lanes of `acc` and `tail` added as a tree */
LNN_INLINE double LNN_NAME(lnn_std_lanes)(V acc[VECTORS], const T *tail) {
    T lane[WIDTH];
#pragma GCC unroll 8
    for (int k = 0; k < VECTORS; k++) acc[k] += *(const VU *)(tail + k * WIDTH);
#pragma GCC unroll 4
    for (int half = VECTORS / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
        for (int k = 0; k < half; k++) acc[k] += acc[k + half];
    }
    *(VU *)lane = acc[0];
    for (int half = WIDTH / 2; half > 0; half /= 2)
        for (int k = 0; k < half; k++) lane[k] += lane[k + half];
    return lane[0];
}

/* Σ x, or Σ (x − centre)², of `rows` rows of n */
LNN_INLINE double LNN_NAME(lnn_std_piece)(const T *x, ptrdiff_t rows, ptrdiff_t n, ptrdiff_t pitch, const T centre, const int squares) {
    V acc[VECTORS];
    T tail[TAIL] = {0};
#pragma GCC unroll 8
    for (int k = 0; k < VECTORS; k++) acc[k] = (V){0};
    for (ptrdiff_t r = 0; r < rows; r++, x += pitch) {
        ptrdiff_t i = 0;
        for (; i + TAIL <= n; i += TAIL) {
#pragma GCC unroll 8
            for (int k = 0; k < VECTORS; k++) {
                V v = *(const VU *)(x + i + k * WIDTH);
                if (squares) { v -= centre; acc[k] += v * v; }
                else acc[k] += v;
            }
        }
        for (ptrdiff_t k = 0; k < n - i; k++) {
            T v = x[i + k] - centre;
            tail[k] += squares ? v * v : x[i + k];
        }
    }
    return LNN_NAME(lnn_std_lanes)(acc, tail);
}

/* (Σ t, Σ t·(x − centre)) likewise */
LNN_INLINE void LNN_NAME(lnn_std_pair)(const T *t, const T *x, ptrdiff_t rows, ptrdiff_t n, ptrdiff_t pitch, const T centre,
                                         double sums[2]) {
    V acc[VECTORS], dot[VECTORS];
    T tail[TAIL] = {0}, dot_tail[TAIL] = {0};
#pragma GCC unroll 8
    for (int k = 0; k < VECTORS; k++) acc[k] = dot[k] = (V){0};
    for (ptrdiff_t r = 0; r < rows; r++, x += pitch, t += pitch) {
        ptrdiff_t i = 0;
        for (; i + TAIL <= n; i += TAIL) {
#pragma GCC unroll 8
            for (int k = 0; k < VECTORS; k++) {
                const V u = *(const VU *)(t + i + k * WIDTH), v = *(const VU *)(x + i + k * WIDTH);
                acc[k] += u;
                dot[k] += u * (v - centre);
            }
        }
        for (ptrdiff_t k = 0; k < n - i; k++) {
            tail[k] += t[i + k];
            dot_tail[k] += t[i + k] * (x[i + k] - centre);
        }
    }
    sums[0] += LNN_NAME(lnn_std_lanes)(acc, tail);
    sums[1] += LNN_NAME(lnn_std_lanes)(dot, dot_tail);
}

/* the groups of a unit piece by piece: whole rows of B while they fit, else parts of a row; neighbours in turn, so that
 * memory is read as it lies */
#define EACH_PIECE(...) \
    const ptrdiff_t pitch = job->G * job->B, each = job->B < LNN_PIECE ? LNN_PIECE / job->B : 1; \
    for (ptrdiff_t a = 0; a < job->A; a += each) \
        for (int k = 0; k < groups; k++) \
            for (ptrdiff_t i = 0; i < job->B; i += LNN_PIECE) { \
                const ptrdiff_t rows = job->A - a < each ? job->A - a : each; \
                const ptrdiff_t n = job->B - i < LNN_PIECE ? job->B - i : LNN_PIECE, at = a * pitch + k * job->B + i; \
                __VA_ARGS__ \
            }

/* p, q and s of standard.h for group g, from sums = (Σ t, Σ t·(x − μ)); the results per group are stored on the way */
LNN_INLINE void LNN_NAME(lnn_std_numbers)(const lnn_standard *job, ptrdiff_t g, const double sums[2], T number[3]) {
    const double n = (double)job->A * (double)job->B, r = ((const T *)job->rstd)[g];
    const double scale = job->mean ? r : 1, dot = scale * sums[1]; /* Σ t·z */
    const double p = (job->w ? ((const T *)job->w)[g] : 1.0) * r;
    const double gm = job->g_mean ? ((const T *)job->g_mean)[g] : 0.0, gr = job->g_rstd ? ((const T *)job->g_rstd)[g] : 0.0;
    number[0] = (T)p;
    number[1] = (T)((gm - p * sums[0]) / n);
    number[2] = (T)(scale * (-p * dot - r * r * gr) / n);
    if (job->first) ((T *)job->first)[g] = (T)(job->tangents ? sums[0] / n : sums[0]);
    if (job->second) ((T *)job->second)[g] = (T)(job->tangents ? -r * r * dot / n : dot);
}

/* LNN_SIDE groups side by side (B = 1): the same sums, LNN_STRIP_ROWS rows at a time, then in double */
LNN_INLINE void LNN_NAME(lnn_std_strip)(const T *t, const T *x, ptrdiff_t A, ptrdiff_t pitch, int columns, const T *centre,
                                        double *sum, double *dot) {
    for (int k = 0; k < columns; k++) sum[k] = dot[k] = 0;
    for (ptrdiff_t a = 0; a < A; a += LNN_STRIP_ROWS) {
        const ptrdiff_t end = A - a < LNN_STRIP_ROWS ? A : a + LNN_STRIP_ROWS;
        T part[LNN_SIDE] = {0}, dots[LNN_SIDE] = {0};
        for (ptrdiff_t r = a; r < end; r++) {
            const T *tr = t + r * pitch, *xr = x + r * pitch;
            for (int k = 0; k < columns; k++) {
                part[k] += tr[k];
                dots[k] += tr[k] * (xr[k] - centre[k]);
            }
        }
        for (int k = 0; k < columns; k++) { sum[k] += part[k]; dot[k] += dots[k]; }
    }
}

/* mean and Σ (x − mean)² of each column, merged from LNN_STRIP_ROWS rows at a time */
LNN_INLINE void LNN_NAME(lnn_std_columns)(const T *x, ptrdiff_t A, ptrdiff_t pitch, int columns, double *mean, double *spread) {
    for (int k = 0; k < columns; k++) mean[k] = spread[k] = 0;
    for (ptrdiff_t a = 0; a < A; a += LNN_STRIP_ROWS) {
        const ptrdiff_t rows = A - a < LNN_STRIP_ROWS ? A - a : LNN_STRIP_ROWS;
        const double share = (double)rows / (double)(a + rows);
        T own[LNN_SIDE] = {0}, squares[LNN_SIDE] = {0};
        for (ptrdiff_t r = a; r < a + rows; r++)
            for (int k = 0; k < columns; k++) own[k] += x[r * pitch + k];
        for (int k = 0; k < columns; k++) own[k] /= (T)rows;
        for (ptrdiff_t r = a; r < a + rows; r++)
            for (int k = 0; k < columns; k++) squares[k] += (x[r * pitch + k] - own[k]) * (x[r * pitch + k] - own[k]);
        for (int k = 0; k < columns; k++) {
            const double apart = own[k] - mean[k];
            spread[k] += squares[k] + apart * apart * (double)a * share;
            mean[k] += apart * share;
        }
    }
}

static void LNN_NAME(lnn_standardize_strip)(const lnn_standard *job, ptrdiff_t unit) {
    const ptrdiff_t first = unit * LNN_SIDE;
    const int columns = job->G - first < LNN_SIDE ? (int)(job->G - first) : LNN_SIDE;
    const T *x = (const T *)job->x + first;
    const T *w = job->w ? (const T *)job->w + first : NULL, *b = job->b ? (const T *)job->b + first : NULL;
    T *y = (T *)job->y + first, *mean = (T *)job->first + first, *rstd = (T *)job->second + first;
    T scale[LNN_SIDE], shift[LNN_SIDE];
    double centre[LNN_SIDE], spread[LNN_SIDE];
    LNN_NAME(lnn_std_columns)(x, job->A, job->G, columns, centre, spread);
    for (int k = 0; k < columns; k++) {
        mean[k] = (T)centre[k];
        rstd[k] = (T)(1 / sqrt(spread[k] / (double)job->A + job->eps));
        scale[k] = w ? w[k] * rstd[k] : rstd[k];
        shift[k] = b ? b[k] : 0;
    }
    for (ptrdiff_t a = 0; a < job->A; a++) {
        const T *xa = x + a * job->G;
        T *ya = y + a * job->G;
        for (int k = 0; k < columns; k++) ya[k] = (xa[k] - mean[k]) * scale[k] + shift[k];
    }
}

static void LNN_NAME(lnn_slope_strip)(const lnn_standard *job, ptrdiff_t unit) {
    const ptrdiff_t first = unit * LNN_SIDE;
    const int columns = job->G - first < LNN_SIDE ? (int)(job->G - first) : LNN_SIDE;
    const T *t = (const T *)job->t + first, *x = (const T *)job->x + first;
    T *y = (T *)job->y + first;
    T mean[LNN_SIDE] = {0}, p[LNN_SIDE], q[LNN_SIDE], s[LNN_SIDE], number[3];
    double sum[LNN_SIDE], dot[LNN_SIDE];
    for (int k = 0; k < columns && job->mean; k++) mean[k] = ((const T *)job->mean)[first + k];
    LNN_NAME(lnn_std_strip)(t, x, job->A, job->G, columns, mean, sum, dot);
    for (int k = 0; k < columns; k++) {
        LNN_NAME(lnn_std_numbers)(job, first + k, (const double[2]){sum[k], dot[k]}, number);
        p[k] = number[0], q[k] = number[1], s[k] = number[2];
    }
    for (ptrdiff_t a = 0; a < job->A; a++) {
        const T *ta = t + a * job->G, *xa = x + a * job->G;
        T *ya = y + a * job->G;
        for (int k = 0; k < columns; k++) ya[k] = p[k] * ta[k] + (q[k] + s[k] * (xa[k] - mean[k]));
    }
}

static void LNN_NAME(lnn_standardize)(const lnn_standard *job, ptrdiff_t unit) {
    const ptrdiff_t first = unit * lnn_standard_side(job->B), B = job->B;
    const int groups = lnn_standard_groups(job, first);
    const T *x = (const T *)job->x + first * B, *w = (const T *)job->w, *b = (const T *)job->b;
    double count[LNN_SIDE] = {0}, mean[LNN_SIDE] = {0}, spread[LNN_SIDE] = {0};
    if (B == 1) { LNN_NAME(lnn_standardize_strip)(job, unit); return; }
    EACH_PIECE(
        const double size = (double)(rows * n), own = LNN_NAME(lnn_std_piece)(x + at, rows, n, pitch, 0, 0) / size;
        const double apart = own - mean[k], share = size / (count[k] + size);
        spread[k] += LNN_NAME(lnn_std_piece)(x + at, rows, n, pitch, (T)own, 1) + apart * apart * count[k] * share;
        mean[k] += apart * share;
        count[k] += size;)
    for (int k = 0; k < groups; k++) {
        ((T *)job->first)[first + k] = (T)mean[k];
        ((T *)job->second)[first + k] = (T)(1 / sqrt(spread[k] / count[k] + job->eps));
    }
    for (ptrdiff_t a = 0; a < job->A; a++)
        for (int k = 0; k < groups; k++) {
            const ptrdiff_t at = a * pitch + k * B;
            const T centre = ((T *)job->first)[first + k], r = ((T *)job->second)[first + k];
            const T scale = w ? w[first + k] * r : r, shift = b ? b[first + k] : 0;
            const T *xa = x + at;
            T *ya = (T *)job->y + first * B + at;
            _Pragma("GCC ivdep") for (ptrdiff_t i = 0; i < B; i++) ya[i] = (xa[i] - centre) * scale + shift;
        }
}

static void LNN_NAME(lnn_slope)(const lnn_standard *job, ptrdiff_t unit) {
    const ptrdiff_t first = unit * lnn_standard_side(job->B), B = job->B;
    const int groups = lnn_standard_groups(job, first);
    const T *t = (const T *)job->t + first * B, *x = (const T *)job->x + first * B;
    T mean[LNN_SIDE] = {0}, number[LNN_SIDE][3];
    double sums[LNN_SIDE][2] = {{0}};
    if (B == 1) { LNN_NAME(lnn_slope_strip)(job, unit); return; }
    for (int k = 0; k < groups && job->mean; k++) mean[k] = ((const T *)job->mean)[first + k];
    EACH_PIECE(LNN_NAME(lnn_std_pair)(t + at, x + at, rows, n, pitch, mean[k], sums[k]);)
    for (int k = 0; k < groups; k++) LNN_NAME(lnn_std_numbers)(job, first + k, sums[k], number[k]);
    for (ptrdiff_t a = 0; a < job->A; a++)
        for (int k = 0; k < groups; k++) {
            const ptrdiff_t at = a * pitch + k * B;
            const T p = number[k][0], q = number[k][1], s = number[k][2], centre = mean[k];
            const T *ta = t + at, *xa = x + at;
            T *ya = (T *)job->y + first * B + at;
            _Pragma("GCC ivdep") for (ptrdiff_t i = 0; i < B; i++) ya[i] = p * ta[i] + (q + s * (xa[i] - centre));
        }
}

#undef T
#undef V
#undef VU
#undef WIDTH
#undef VECTORS
#undef TAIL
#undef EACH_PIECE
