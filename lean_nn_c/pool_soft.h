/* Smooth maximum along an output row; one number type of pool_smooth.h. `real`, `whole`, T(), LANES.
 *
 * The outputs p0 to p1 (at most LNN_SOFT) of a band of one row pass over the cells of their windows three times at
 * most: for the extreme, for the sums of terms, and to share out. Cells are turned by the sign of beta, so that the
 * extreme is always the largest and `sharp` = |beta|. Lanes are outputs, and every cell comes with a mask. */

/* exp in all lanes; the loop becomes vector code */
LNN_INLINE T(lnn_v) T(lnn_soft_exp)(T(lnn_v) t) {
    real from[LANES], to[LANES];
    memcpy(from, &t, sizeof t);
    for (int l = 0; l < LANES; l++) to[l] = T(lnn_vexp)(from[l]);
    return T(lnn_load)(to);
}

/* Tap j of outputs p to p + n in a row, one by one: the cells, and where there are some. */
static __attribute__((noinline)) void T(lnn_soft_any)(const real *row, const lnn_axis *a, int64_t j, int64_t p,
                                                      int64_t n, real *cell, whole *there) {
    for (int l = 0; l < LANES; l++) {
        const int64_t at = l < n ? lnn_soft_place(a, j, p + l) : -1;
        there[l] = at < 0 ? 0 : -1;
        cell[l] = at < 0 ? 0 : row[at];
    }
}

/* The same in registers where `stride` is 1 or 2; idle lanes are read too. */
LNN_INLINE T(lnn_v) T(lnn_soft_cell)(const real *row, const lnn_axis *a, int64_t j, int64_t p, int64_t n,
                                     int64_t stride, T(lnn_i) *there) {
    if (stride == 0) {
        real cell[LANES];
        whole mask[LANES];
        T(lnn_soft_any)(row, a, j, p, n, cell, mask);
        memcpy(there, mask, sizeof mask);
        return T(lnn_load)(cell);
    }
    const int64_t from = a->start + p * stride + j * a->step;
    const T(lnn_i) cells = T(lnn_lanes)() * (whole)stride + (whole)from;
    *there = (cells >= 0) & (cells < (whole)a->size) & (T(lnn_lanes)() < (whole)n);
    return stride == 1 ? T(lnn_load)(row + from) : T(lnn_sorted)(T(lnn_take)(row + from, 2), 2);
}

/* The term exp(sharp (v - top)), 0 where there is no cell. Equal values first: inf - inf is not a number, yet its term
 * is exp(0). */
LNN_INLINE T(lnn_v) T(lnn_soft_term)(T(lnn_v) v, T(lnn_v) top, real sharp, T(lnn_i) there) {
    const T(lnn_v) one = ((T(lnn_v)){0}) + 1, e = T(lnn_soft_exp)((v - top) * sharp);
    return (T(lnn_v))((T(lnn_i))T(LNN_PICK)(v == top, one, e) & there);
}

/* What one tile does with its cells: top = their maximum; total += terms, sum += terms * t; x_bar += terms * sum, the
 * taps backwards, for then a cell gets the shares of its windows in their order. */
LNN_INLINE void T(lnn_soft_tile)(const int what, const real *x, const real *t, const lnn_band *b, int64_t p, int64_t n,
                                 int64_t stride, real beta, real *tops, real *totals, real *sums, real *x_bar) {
    const lnn_axis *a = b->axis;
    const real sign = beta < 0 ? -1 : 1, sharp = sign * beta;
    T(lnn_v) top = T(lnn_load)(tops), total = {0}, sum = {0};
    if (what == LNN_ADD) total = T(lnn_load)(totals);
    if (what != LNN_TOP) sum = T(lnn_load)(sums);
    for (int64_t r = 0; r < b->n_rows; r++)
        for (int64_t i = 0; i < a->kernel; i++) {
            const int64_t j = what == LNN_SHARE ? a->kernel - 1 - i : i;
            T(lnn_i) there;
            const T(lnn_v) v = sign * T(lnn_soft_cell)(x + b->rows[r], a, j, p, n, stride, &there);
            if (what == LNN_TOP) {
                top = T(LNN_PICK)(there & (v > top), v, top);
                continue;
            }
            T(lnn_v) term = T(lnn_soft_term)(v, top, sharp, there);
            if (what == LNN_ADD) {
                total += term;
                if (t) {
                    term *= T(lnn_soft_cell)(t + b->rows[r], a, j, p, n, stride, &there);
                    sum += (T(lnn_v))((T(lnn_i))term & there);
                }
                continue;
            }
            term *= sum;
            real shares[LANES];
            T(lnn_store)(shares, term);
            if (n == LANES && p >= a->inside_low && p + LANES <= a->inside_high) {
                real *to = x_bar + b->rows[r] + a->start + p * a->stride + j * a->step;
                for (int l = 0; l < LANES; l++) to[l * a->stride] += shares[l];
            } else {
                for (int l = 0; l < n; l++) {
                    const int64_t at = lnn_soft_place(a, j, p + l);
                    if (at >= 0) x_bar[b->rows[r] + at] += shares[l];
                }
            }
        }
    if (what == LNN_TOP) T(lnn_store)(tops, top);
    if (what == LNN_ADD) {
        T(lnn_store)(totals, total);
        T(lnn_store)(sums, sum);
    }
}

LNN_INLINE void T(lnn_soft_tiles)(const int what, const real *x, const real *t, const lnn_band *b, real beta, real *top,
                                  real *total, real *sum, real *x_bar) {
    const int64_t stride = lnn_tiles_fit(b->axis, LANES) && b->axis->stride <= 2 ? b->axis->stride : 0;
    for (int64_t p = b->p0, i = 0; p < b->p1; p += LANES, i += LANES)
        T(lnn_soft_tile)(what, x, t, b, p, b->p1 - p < LANES ? b->p1 - p : LANES, T(lnn_readable)(b, 0, p) ? stride : 0,
                         beta, top + i, total + i, sum + i, x_bar);
}

static void T(lnn_soft_top)(const real *x, const lnn_band *b, real beta, real *top, real *total, real *sum) {
    T(lnn_soft_tiles)(LNN_TOP, x, 0, b, beta, top, total, sum, 0);
}

static void T(lnn_soft_add)(const real *x, const real *t, const lnn_band *b, real beta, real *top, real *total,
                            real *sum) {
    T(lnn_soft_tiles)(LNN_ADD, x, t, b, beta, top, total, sum, 0);
}

static void T(lnn_soft_share)(const real *x, const lnn_band *b, real beta, real *top, real *total, real *share,
                              real *x_bar) {
    T(lnn_soft_tiles)(LNN_SHARE, x, 0, b, beta, top, total, share, x_bar);
}

/* How many padding cells the windows have, `outer` and `count` being the products over the other axes of all cells and
 * of the real ones; top becomes 0 or -inf accordingly. */
static void T(lnn_soft_begin)(const lnn_band *b, int64_t outer, int64_t count, real *top, real *padding) {
    for (int64_t i = 0; i < LNN_SOFT; i++) {
        const int64_t p = b->p0 + i, lost = p < b->p1 ? outer * b->axis->divisor[p] - count * b->axis->count[p] : 1;
        padding[i] = (real)lost;
        top[i] = lost ? 0 : -(real)INFINITY;
    }
}

/* total = the padding cells' terms */
static void T(lnn_soft_pad)(const real *padding, real beta, const real *top, real *total, real *sum) {
    const real sharp = beta < 0 ? -beta : beta;
    for (int64_t i = 0; i < LNN_SOFT; i += LANES) {
        const T(lnn_v) lost = T(lnn_load)(padding + i), none = {0};
        const T(lnn_v) term = T(lnn_soft_term)(none, T(lnn_load)(top + i), sharp, lost > 0);
        T(lnn_store)(total + i, term * lost);
        T(lnn_store)(sum + i, none);
    }
}

/* y = top + log(total) / beta, turned back */
static void T(lnn_soft_end)(const real *top, const real *total, int64_t n, real beta, real *y) {
    real value[LNN_SOFT];
    const real sign = beta < 0 ? -1 : 1;
    for (int i = 0; i < LNN_SOFT; i++) value[i] = sign * top[i] + T(lnn_vlog)(total[i]) / beta;
    memcpy(y, value, (size_t)n * sizeof(real));
}
