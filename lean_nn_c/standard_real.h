/* The loops of standard.h for the type LNN_T; included there, once per type. */

#define T LNN_T
#define V LNN_NAME(lnn_v)
#define VU LNN_NAME(lnn_vu)
#define WIDTH (LNN_BYTES / LNN_SIZE)
#define VECTORS (128 / LNN_BYTES)

#define PART LNN_NAME(lnn_part)
#define INTS LNN_NAME(lnn_ints)
#define TURN (128 / LNN_SIZE) /* values that all lanes together take at a time */
#define PIECE (LNN_PIECE / LNN_SIZE)

/* Keeps the compiler from clearing numbers by a string instruction, which takes longer than a row: often there is one group. */
#define ONE_BY_ONE __asm__ volatile("")

/* the lanes of `acc` added as a tree */
LNN_INLINE double LNN_NAME(lnn_std_lanes)(V acc[VECTORS]) {
#pragma GCC unroll 4
    for (int half = VECTORS / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
        for (int k = 0; k < half; k++) acc[k] += acc[k + half];
    }
    return LNN_NAME(lnn_tree)(acc[0]);
}

/* what is left of a line after whole turns, from i on: vectors, then a part of one whose other lanes DO nothing; `there` is its mask */
#define REST(...) \
    _Pragma("GCC unroll 8") for (int k = 0; k < VECTORS; k++) { \
        const ptrdiff_t at = i + k * WIDTH, left = n - at; \
        if (left <= 0) break; \
        const int whole = left >= WIDTH; \
        __VA_ARGS__ \
    }
#define READ(p) (whole ? (V)*(const VU *)(p) : PART(p, left))

/* Σ (x − centre)ᵖ, p = 1 or 2, of `rows` rows of n; centre is 0 where `plain` */
LNN_INLINE double LNN_NAME(lnn_std_piece)(const T *x, ptrdiff_t rows, ptrdiff_t n, ptrdiff_t pitch, const T centre, const int power, const int plain) {
    V acc[VECTORS];
#pragma GCC unroll 8
    for (int k = 0; k < VECTORS; k++) acc[k] = (V){0};
    for (ptrdiff_t r = 0; r < rows; r++, x += pitch) {
        ptrdiff_t i = 0;
        for (; i + TURN <= n; i += TURN) {
#pragma GCC unroll 8
            for (int k = 0; k < VECTORS; k++) {
                V v = *(const VU *)(x + i + k * WIDTH);
                if (!plain) v -= centre;
                acc[k] += power == 2 ? v * v : v;
            }
        }
        REST(V v = READ(x + at);
             if (!plain) v -= whole ? centre - (V){0} : LNN_NAME(lnn_first)(centre, left);
             acc[k] += power == 2 ? v * v : v;)
    }
    return LNN_NAME(lnn_std_lanes)(acc);
}

/* Σ (x − centre), which says how far a mean is off that was rounded on the way */
static LNN_APART double LNN_NAME(lnn_std_off)(const T *x, ptrdiff_t rows, ptrdiff_t n, ptrdiff_t pitch, const T centre) {
    return LNN_NAME(lnn_std_piece)(x, rows, n, pitch, centre, 1, 0);
}

/* (Σ t, Σ t·(x − centre)) likewise, where there is a w with w·t in place of t */
static LNN_APART void LNN_NAME(lnn_std_pair)(const T *t, const T *x, const T *w, ptrdiff_t rows, ptrdiff_t n, ptrdiff_t pitch, const T centre,
                                         double sums[2]) {
    V acc[VECTORS], dot[VECTORS];
#pragma GCC unroll 8
    for (int k = 0; k < VECTORS; k++) acc[k] = dot[k] = (V){0};
    for (ptrdiff_t r = 0; r < rows; r++, x += pitch, t += pitch) {
        ptrdiff_t i = 0;
        for (; i + TURN <= n; i += TURN) {
#pragma GCC unroll 8
            for (int k = 0; k < VECTORS; k++) {
                V u = *(const VU *)(t + i + k * WIDTH);
                const V v = *(const VU *)(x + i + k * WIDTH);
                if (w) u *= *(const VU *)(w + i + k * WIDTH);
                acc[k] += u;
                dot[k] += u * (v - centre);
            }
        }
        REST(V u = READ(t + at);
             const V v = READ(x + at);
             if (w) u *= READ(w + at);
             acc[k] += u;
             dot[k] += u * (v - (whole ? centre - (V){0} : LNN_NAME(lnn_first)(centre, left)));)
    }
    sums[0] += LNN_NAME(lnn_std_lanes)(acc);
    sums[1] += LNN_NAME(lnn_std_lanes)(dot);
}

/* the groups of a unit piece by piece: whole rows of B while they fit, else parts of a row; neighbours in turn, so that
 * memory is read as it lies */
#define EACH_PIECE(...) \
    const ptrdiff_t pitch = job->G * job->B, each = job->B < PIECE ? PIECE / job->B : 1; \
    for (ptrdiff_t a = 0; a < job->A; a += each) \
        for (int k = 0; k < groups; k++) \
            for (ptrdiff_t i = 0; i < job->B; i += PIECE) { \
                const ptrdiff_t rows = job->A - a < each ? job->A - a : each; \
                const ptrdiff_t n = job->B - i < PIECE ? job->B - i : PIECE, at = a * pitch + k * job->B + i; \
                __VA_ARGS__ \
            }

/* p, q and s of standard.h for group g, from sums = (Σ t, Σ t·(x − μ)), or a variance's tangent, from Σ (x − μ) too; the results per group are stored on the way */
LNN_INLINE void LNN_NAME(lnn_std_numbers)(const lnn_standard *job, ptrdiff_t g, const double *sums, T number[3]) {
    const double n = (double)job->A * (double)job->B;
    if (job->alone) {
        number[0] = number[1] = number[2] = 0;
        if (job->second) ((T *)job->second)[g] = (T)(2 * (sums[1] - sums[0] / n * sums[2]) / job->left);
        return;
    }
    const double r = ((const T *)job->rstd)[g];
    const double scale = job->mean ? r : 1, dot = scale * sums[1]; /* Σ t·z */
    const double p = (job->w && !job->W ? ((const T *)job->w)[g] : 1.0) * r; /* a factor per feature is none of the group's */
    const double gm = job->g_mean ? ((const T *)job->g_mean)[g] : 0.0, gr = job->g_rstd ? ((const T *)job->g_rstd)[g] : 0.0;
    number[0] = (T)p;
    number[1] = (T)((gm - p * sums[0]) / n);
    number[2] = (T)(scale * (-p * dot - r * r * gr) / n);
    if (job->first) ((T *)job->first)[g] = (T)(job->tangents ? sums[0] / n : sums[0]);
    if (job->second) ((T *)job->second)[g] = (T)(job->tangents ? -r * r * dot / n : dot);
}

/* Columns (B = 1): LNN_STRIP of them side by side, a block of rows per task. Partial results are summed over LNN_STRIP_ROWS rows,
 * then in double; the blocks' wait in the scratch, three lines of G numbers for each, until all are there. */

/* where the first numbers of block `block` and column `first` are */
LNN_INLINE double *LNN_NAME(lnn_std_partial)(const lnn_standard *job, ptrdiff_t block, ptrdiff_t first) {
    return (double *)job->scratch + 3 * block * job->G + first;
}

/* mean and Σ (x − mean)² of each column, or Σ t and Σ t·(x − μ), for variances Σ (x − μ) besides */
static void LNN_NAME(lnn_strip_sums)(const lnn_standard *job, ptrdiff_t block, ptrdiff_t first, int columns) {
    const ptrdiff_t begin = block * job->rows, end = job->A - begin < job->rows ? job->A : begin + job->rows, G = job->G;
    const T *x = (const T *)job->x + first, *t = job->t ? (const T *)job->t + first : NULL;
    const T *mean = job->t && job->mean ? (const T *)job->mean + first : NULL;
    double *one = LNN_NAME(lnn_std_partial)(job, block, first), *two = one + G, *three = two + G;
    for (int k = 0; k < columns; k++) one[k] = two[k] = three[k] = 0;
    for (ptrdiff_t a = begin; a < end; a += LNN_STRIP_ROWS) {
        const ptrdiff_t rows = end - a < LNN_STRIP_ROWS ? end - a : LNN_STRIP_ROWS;
        const double before = (double)(a - begin), share = (double)rows / (before + (double)rows);
        T own[LNN_STRIP], other[LNN_STRIP], centre[LNN_STRIP], beside[LNN_STRIP];
        for (int k = 0; k < columns; k++) own[k] = other[k] = beside[k] = 0;
        for (ptrdiff_t r = a; r < a + rows && !t; r++) {
            const T *xr = x + r * G;
            for (int k = 0; k < columns; k++) own[k] += xr[k];
        }
        for (int k = 0; k < columns; k++) centre[k] = !t ? (own[k] /= (T)rows) : mean ? mean[k] : 0;
        for (ptrdiff_t r = a; r < a + rows; r++) {
            const T *xr = x + r * G, *tr = t + (t ? r * G : 0);
#define LINE(...) for (int k = 0; k < columns; k++) { const T apart = xr[k] - centre[k]; __VA_ARGS__ }
            if (t && job->alone) LINE(own[k] += tr[k]; other[k] += tr[k] * apart; beside[k] += apart;)
            else if (t) LINE(own[k] += tr[k]; other[k] += tr[k] * apart;)
            else if (job->alone) LINE(other[k] += apart * apart; beside[k] += apart;)
            else LINE(other[k] += apart * apart;)
        }
        for (int k = 0; k < columns && t; k++) one[k] += own[k], two[k] += other[k], three[k] += beside[k];
        for (int k = 0; k < columns && !t; k++) {
            const double off = beside[k] / (double)rows, apart = own[k] + off - one[k];
            one[k] += apart * share;
            two[k] += other[k] - beside[k] * off + apart * apart * before * share;
        }
    }
}

/* the blocks' numbers joined in their order; the first block's place has p, q and s of a slope, or nothing more */
static void LNN_NAME(lnn_strip_join)(const lnn_standard *job, ptrdiff_t first, int columns) {
    double *one = LNN_NAME(lnn_std_partial)(job, 0, first), *two = one + job->G;
    for (ptrdiff_t block = 1; block < job->blocks; block++) {
        const double *more = LNN_NAME(lnn_std_partial)(job, block, first), before = (double)(block * job->rows);
        const double rows = (double)(job->A < (block + 1) * job->rows ? job->A - block * job->rows : job->rows), share = rows / (before + rows);
        for (int k = 0; k < columns; k++) {
            const double apart = more[k] - one[k];
            one[k] += job->t ? more[k] : apart * share;
            two[k] += job->t ? more[k + job->G] : more[k + job->G] + apart * apart * before * share;
            two[k + job->G] += more[k + 2 * job->G];
        }
    }
    for (int k = 0; k < columns && !job->t; k++) {
        ((T *)job->first)[first + k] = (T)one[k];
        if (job->second) ((T *)job->second)[first + k] = (T)(job->alone ? two[k] / job->left : 1 / sqrt(two[k] / (double)job->A + job->eps));
    }
}

static void LNN_NAME(lnn_strip_write)(const lnn_standard *job, ptrdiff_t block, ptrdiff_t first, int columns) {
    const ptrdiff_t begin = block * job->rows, end = job->A - begin < job->rows ? job->A : begin + job->rows, G = job->G;
    const double *one = LNN_NAME(lnn_std_partial)(job, 0, first);
    lnn_standard quiet = *job; /* only one block stores the results per group */
    T p[LNN_STRIP], q[LNN_STRIP], s[LNN_STRIP], mean[LNN_STRIP], number[3];
    if (block && !job->y) return;
    if (block) quiet.first = quiet.second = NULL;
    for (int k = 0; k < columns && (job->y || job->t); k++) {
        if (job->t) {
            LNN_NAME(lnn_std_numbers)(&quiet, first + k, (const double[3]){one[k], one[k + G], one[k + 2 * G]}, number);
            p[k] = number[0], q[k] = number[1], s[k] = number[2];
            mean[k] = job->mean ? ((const T *)job->mean)[first + k] : 0;
        } else {
            const T r = ((const T *)job->second)[first + k];
            mean[k] = ((const T *)job->first)[first + k];
            s[k] = job->w ? ((const T *)job->w)[first + k] * r : r;
            q[k] = job->b ? ((const T *)job->b)[first + k] : 0;
        }
    }
    if (!job->y) return;
    const T *b_dot = job->t && job->b_dot ? (const T *)job->b_dot + first : NULL;
    T by[LNN_STRIP];
    for (int k = 0; k < columns && b_dot; k++) by[k] = ((const T *)job->w_dot)[first + k] * ((const T *)job->rstd)[first + k];
    for (ptrdiff_t a = begin; a < end; a++) {
        const T *xa = (const T *)job->x + first + a * G, *ta = job->t ? (const T *)job->t + first + a * G : NULL;
        T *ya = (T *)job->y + first + a * G;
        if (ta) { _Pragma("GCC ivdep") for (int k = 0; k < columns; k++) ya[k] = p[k] * ta[k] + (q[k] + s[k] * (xa[k] - mean[k])); }
        else { _Pragma("GCC ivdep") for (int k = 0; k < columns; k++) ya[k] = (xa[k] - mean[k]) * s[k] + q[k]; }
        if (b_dot) { _Pragma("GCC ivdep") for (int k = 0; k < columns; k++) ya[k] += (xa[k] - mean[k]) * by[k] + b_dot[k]; }
    }
}

static void LNN_NAME(lnn_strip)(const lnn_standard *job, int phase, ptrdiff_t task) {
    const ptrdiff_t strips = (job->G + LNN_STRIP - 1) / LNN_STRIP, first = task % strips * LNN_STRIP;
    const int columns = job->G - first < LNN_STRIP ? (int)(job->G - first) : LNN_STRIP;
    if (phase == 0) LNN_NAME(lnn_strip_sums)(job, task / strips, first, columns);
    else if (phase == 1) LNN_NAME(lnn_strip_join)(job, first, columns);
    else LNN_NAME(lnn_strip_write)(job, task / strips, first, columns);
}

/* A factor (and a term) per feature: y = w·z + b, or w·(p·t + q + s·(x − μ)), element i of the group having feature i / S */
LNN_INLINE void LNN_NAME(lnn_std_feature)(const lnn_standard *job, const T *w, const T *b, const T *t, const T *x, T *y, T p, T q, T s, T mean) {
    const ptrdiff_t B = job->B;
    for (ptrdiff_t i = 0; i < B; i += job->S, w++, b += b != NULL) {
        const T by = *w, and = b ? *b : 0;
        if (job->S == 1 && t) {
#define SLOPED(L) (L(w) * (p * L(t) + (q + s * (L(x) - mean))))
            LNN_OVER(B, y, SLOPED)
            return;
        }
        if (job->S == 1) {
#define SCALED(L) ((L(x) - mean) * s * L(w) + L(b))
            LNN_OVER(B, y, SCALED)
            return;
        }
        if (t) { _Pragma("GCC ivdep") for (ptrdiff_t k = i; k < i + job->S; k++) y[k] = by * (p * t[k] + (q + s * (x[k] - mean))); }
        else { _Pragma("GCC ivdep") for (ptrdiff_t k = i; k < i + job->S; k++) y[k] = (x[k] - mean) * (s * by) + and; }
    }
}

/* The reverse slope with features, whose own results Σ t·z and Σ t go across groups: groups `own`, `own` + `apart`, … of a block of
 * samples per task, summed over LNN_STRIP_ROWS of them, then in double; the blocks' sums wait in the scratch until all are there. */
static void LNN_NAME(lnn_back_features)(const lnn_standard *job, ptrdiff_t task) {
    const ptrdiff_t B = job->B, S = job->S, W = job->W, F = B / S, apart = W / F, block = task / apart, own = task % apart;
    const ptrdiff_t samples = job->G / apart, begin = block * job->rows, end = samples - begin < job->rows ? samples : begin + job->rows;
    const T *w = (const T *)job->w + own * F;
    double *sum_w = (double *)job->scratch + 2 * block * W + own * F, *sum_b = sum_w + W;
    T *part_w = (T *)((double *)job->scratch + 2 * job->blocks * W) + 2 * block * W + own * F, *part_b = part_w + W;
    lnn_standard plain = *job;
    plain.first = plain.second = NULL;
    for (ptrdiff_t f = 0; f < F; f++) sum_w[f] = sum_b[f] = 0, part_w[f] = part_b[f] = 0;
    for (ptrdiff_t n = begin; n < end; n++) {
        const ptrdiff_t g = n * apart + own;
        const T *t = (const T *)job->t + g * B, *x = (const T *)job->x + g * B, mean = ((const T *)job->mean)[g], r = ((const T *)job->rstd)[g];
        T *y = (T *)job->y + g * B, number[3];
        double sums[2] = {0, 0};
        if (S == 1)
            for (ptrdiff_t i = 0; i < B; i += PIECE)
                LNN_NAME(lnn_std_pair)(t + i, x + i, w + i, 1, B - i < PIECE ? B - i : PIECE, 0, mean, sums);
        else
            for (ptrdiff_t f = 0; f < F; f++) {
                double run[2] = {0, 0};
                for (ptrdiff_t i = 0; i < S; i += PIECE)
                    LNN_NAME(lnn_std_pair)(t + f * S + i, x + f * S + i, NULL, 1, S - i < PIECE ? S - i : PIECE, 0, mean, run);
                sums[0] += w[f] * run[0], sums[1] += w[f] * run[1];
                sum_w[f] += r * run[1], sum_b[f] += run[0];
            }
        LNN_NAME(lnn_std_numbers)(&plain, g, sums, number);
        const T p = number[0], q = number[1], s = number[2];
        if (S == 1) {
#define BY_W(L) (L(part_w) + L(t) * ((L(x) - mean) * r))
#define BY_B(L) (L(part_b) + L(t))
#define BACK(L) (p * (L(w) * L(t)) + (q + s * (L(x) - mean)))
            LNN_OVER(B, part_w, BY_W)
            LNN_OVER(B, part_b, BY_B)
            LNN_OVER(B, y, BACK)
            if ((n - begin) % LNN_STRIP_ROWS == LNN_STRIP_ROWS - 1 || n == end - 1)
                for (ptrdiff_t f = 0; f < F; f++) {
                    sum_w[f] += part_w[f], sum_b[f] += part_b[f];
                    part_w[f] = part_b[f] = 0;
                }
        } else {
            for (ptrdiff_t f = 0; f < F; f++) {
                const T by = p * w[f];
                _Pragma("GCC ivdep") for (ptrdiff_t i = f * S; i < (f + 1) * S; i++) y[i] = by * t[i] + (q + s * (x[i] - mean));
            }
        }
    }
}

/* the blocks' sums joined, for LNN_SIDE features from `first` on */
static void LNN_NAME(lnn_join_features)(const lnn_standard *job, ptrdiff_t first) {
    const ptrdiff_t W = job->W, end = W - first < LNN_SIDE ? W : first + LNN_SIDE;
    for (ptrdiff_t f = first; f < end; f++) {
        const double *sums = (const double *)job->scratch + f;
        double by = 0, and = 0;
        for (ptrdiff_t block = 0; block < job->blocks; block++, sums += 2 * W) by += sums[0], and += sums[W];
        ((T *)job->second)[f] = (T)by;
        ((T *)job->first)[f] = (T)and;
    }
}

/* mean and rstd of the groups of a unit */
static void LNN_NAME(lnn_std_statistics)(const lnn_standard *job, ptrdiff_t first, int groups) {
    const T *x = (const T *)job->x + first * job->B;
    double count[LNN_SIDE], mean[LNN_SIDE], spread[LNN_SIDE];
    for (int k = 0; k < groups; k++) {
        count[k] = mean[k] = spread[k] = 0;
        ONE_BY_ONE;
    }
    EACH_PIECE(
        const double size = (double)(rows * n), near = LNN_NAME(lnn_std_piece)(x + at, rows, n, pitch, 0, 1, 1) / size;
        const double off = job->alone ? LNN_NAME(lnn_std_off)(x + at, rows, n, pitch, (T)near) : 0;
        const double own = job->alone ? (T)near + off / size : near, apart = own - mean[k], share = size / (count[k] + size);
        spread[k] += LNN_NAME(lnn_std_piece)(x + at, rows, n, pitch, (T)near, 2, 0) - off * off / size + apart * apart * count[k] * share;
        mean[k] += apart * share;
        count[k] += size;)
    for (int k = 0; k < groups; k++) {
        ((T *)job->first)[first + k] = (T)mean[k];
        if (job->second) ((T *)job->second)[first + k] = (T)(job->alone ? spread[k] / job->left : 1 / sqrt(spread[k] / count[k] + job->eps));
    }
}

/* v where `by` is positive or NaN, elsewhere 0 */
LNN_INLINE V LNN_NAME(lnn_std_pass)(V v, V by) { return (V)((INTS)v & ~(INTS)(by <= 0)); }

#define STANDARD(L) ((L(xa) - centre) * scale + shift)
#define JOINED(L) (STANDARD(L) + L(oa))
#define RELU(L) LNN_NAME(lnn_std_pass)(STANDARD(L), STANDARD(L))
#define ACTIVE(L) LNN_NAME(lnn_std_pass)(JOINED(L), JOINED(L))

static void LNN_NAME(lnn_standardize)(const lnn_standard *job, ptrdiff_t unit) {
    const ptrdiff_t first = unit * lnn_standard_side(job->B), B = job->B, pitch = job->G * B;
    const int groups = lnn_standard_groups(job, first);
    const T *x = (const T *)job->x + first * B, *w = (const T *)job->w, *b = (const T *)job->b;
    if (!job->mean) LNN_NAME(lnn_std_statistics)(job, first, groups);
    if (!job->y) return;
    const T *mean = (const T *)(job->mean ? job->mean : job->first) + first, *rstd = (const T *)(job->mean ? job->rstd : job->second) + first;
    for (ptrdiff_t a = job->A - 1; a >= 0; a--) /* what was read last is still near */
        for (int k = 0; k < groups; k++) {
            const ptrdiff_t at = a * pitch + k * B;
            const T centre = mean[k], r = rstd[k];
            const T *xa = x + at, *oa = (const T *)job->other + (job->other ? first * B + at : 0);
            T *ya = (T *)job->y + first * B + at;
            if (job->W) {
                const ptrdiff_t feature = (first + k) * (B / job->S) % job->W;
                LNN_NAME(lnn_std_feature)(job, w + feature, b + feature, NULL, xa, ya, 0, 0, r, centre);
                continue;
            }
            const T scale = w ? w[first + k] * r : r, shift = b ? b[first + k] : 0;
            if (job->relu && oa) LNN_OVER(B, ya, ACTIVE)
            else if (job->relu) LNN_OVER(B, ya, RELU)
            else if (oa) LNN_OVER(B, ya, JOINED)
            else LNN_OVER(B, ya, STANDARD)
        }
}

/* t as the slope takes it, for `rows` rows of n of group g from `at` on */
static LNN_APART void LNN_NAME(lnn_std_gate)(const lnn_standard *job, T *kept, ptrdiff_t g, ptrdiff_t at, ptrdiff_t rows, ptrdiff_t n) {
    const T centre = ((const T *)job->mean)[g], scale = ((const T *)job->w)[g] * ((const T *)job->rstd)[g];
    const T shift = job->gate ? 0 : ((const T *)job->b)[g];
    for (; rows > 0; rows--, at += job->G * job->B) {
        const T *ta = (const T *)job->t + at, *xa = (const T *)job->x + at;
        const T *ga = (const T *)job->gate + (job->gate ? at : 0), *oa = (const T *)job->other + (job->other ? at : 0);
        T *ka = kept + at;
#define GATED(L) LNN_NAME(lnn_std_pass)(L(ta), L(ga))
#define SUM_GATED(L) LNN_NAME(lnn_std_pass)(L(ta) + L(oa), L(ga))
#define BY_OWN(L) LNN_NAME(lnn_std_pass)(L(ta), STANDARD(L))
        if (ga && oa) LNN_OVER(n, ka, SUM_GATED)
        else if (ga) LNN_OVER(n, ka, GATED)
        else LNN_OVER(n, ka, BY_OWN)
    }
}

/* What tangents of w and b, a factor and a term of their own, add to a line of group g: after the line is stored, for the sum of
 * two roundings is not that of one. */
static LNN_APART void LNN_NAME(lnn_std_affine)(const lnn_standard *job, ptrdiff_t g, const T *x, T *y) {
    const T mean = ((const T *)job->mean)[g], r = ((const T *)job->rstd)[g];
    const ptrdiff_t S = job->W ? job->S : job->B, feature = job->W ? g * (job->B / S) % job->W : g;
    const T *w = (const T *)job->w_dot + feature, *b = (const T *)job->b_dot + feature;
    if (job->W && S == 1) {
        _Pragma("GCC ivdep") for (ptrdiff_t k = 0; k < job->B; k++) y[k] += (x[k] - mean) * r * w[k] + b[k];
        return;
    }
    for (ptrdiff_t i = 0; i < job->B; i += S, w++, b++) {
        const T scale = *w * r, shift = *b;
        _Pragma("GCC ivdep") for (ptrdiff_t k = i; k < i + S; k++) y[k] += (x[k] - mean) * scale + shift;
    }
}

static void LNN_NAME(lnn_slope)(const lnn_standard *job, ptrdiff_t unit) {
    const ptrdiff_t first = unit * lnn_standard_side(job->B), B = job->B;
    const int groups = lnn_standard_groups(job, first);
    T *kept = (T *)(job->kept ? job->kept : job->y);
    const T *t = (job->relu ? kept : (const T *)job->t) + first * B, *x = (const T *)job->x + first * B;
    T mean[LNN_SIDE], number[LNN_SIDE][3];
    double sums[LNN_SIDE][3];
    for (int k = 0; k < groups; k++) {
        mean[k] = job->mean ? ((const T *)job->mean)[first + k] : 0;
        sums[k][0] = sums[k][1] = sums[k][2] = 0;
        ONE_BY_ONE;
    }
    EACH_PIECE(
        if (job->relu) LNN_NAME(lnn_std_gate)(job, kept, first + k, first * B + at, rows, n);
        LNN_NAME(lnn_std_pair)(t + at, x + at, NULL, rows, n, pitch, mean[k], sums[k]);
        if (job->alone) sums[k][2] += LNN_NAME(lnn_std_off)(x + at, rows, n, pitch, mean[k]);)
    for (int k = 0; k < groups; k++) LNN_NAME(lnn_std_numbers)(job, first + k, sums[k], number[k]);
    if (!job->y) return;
    for (ptrdiff_t a = job->A - 1; a >= 0; a--) /* what was read last is still near */
        for (int k = 0; k < groups; k++) {
            const ptrdiff_t at = a * pitch + k * B;
            const T p = number[k][0], q = number[k][1], s = number[k][2], centre = mean[k];
            const T *ta = t + at, *xa = x + at;
            T *ya = (T *)job->y + first * B + at;
            if (job->W)
                LNN_NAME(lnn_std_feature)(job, (const T *)job->w + (first + k) * (B / job->S) % job->W, NULL, ta, xa, ya, p, q, s, centre);
            else {
#define SLOPE(L) (p * L(ta) + (q + s * (L(xa) - centre)))
                LNN_OVER(B, ya, SLOPE)
            }
            if (job->w_dot) LNN_NAME(lnn_std_affine)(job, first + k, xa, ya);
        }
}

static void LNN_NAME(lnn_standard_task)(const lnn_standard *job, int phase, ptrdiff_t task) {
    lnn_standard dual;
    if (job->v) dual = lnn_standard_dual(job);
    switch (lnn_standard_way(job)) {
    case LNN_STRIPS:
        if (phase > 2) LNN_NAME(lnn_strip)(&dual, phase - 3, task);
        else LNN_NAME(lnn_strip)(job, phase, task);
        return;
    case LNN_FEATURES:
        if (phase == 0) LNN_NAME(lnn_back_features)(job, task);
        else LNN_NAME(lnn_join_features)(job, task * LNN_SIDE);
        return;
    default:
        if (job->t) LNN_NAME(lnn_slope)(job, task);
        else LNN_NAME(lnn_standardize)(job, task);
        if (job->v) LNN_NAME(lnn_slope)(&dual, task);
    }
}

#undef T
#undef V
#undef VU
#undef WIDTH
#undef VECTORS
#undef PART
#undef TURN
#undef REST
#undef READ
#undef SLOPED
#undef SCALED
#undef INTS
#undef STANDARD
#undef JOINED
#undef RELU
#undef ACTIVE
#undef GATED
#undef SUM_GATED
#undef BY_OWN
#undef SLOPE
#undef BY_W
#undef BY_B
#undef BACK
#undef EACH_PIECE
#undef LINE
#undef PIECE
#undef ONE_BY_ONE
