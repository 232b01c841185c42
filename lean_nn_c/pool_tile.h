/* What the row kernels of one number type share; see pool_rows.h. `real`, `whole` (an int as wide), T(), LANES, SIDE. */

LNN_INLINE T(lnn_v) T(lnn_load)(const real *p) {
    T(lnn_v) v;
    memcpy(&v, p, sizeof v);
    return v;
}

LNN_INLINE void T(lnn_store)(real *p, T(lnn_v) v) { memcpy(p, &v, sizeof v); }

/* The cells p[l * stride] in the lanes, for stride 2 in EVEN's order; reads nothing beyond the last. */
LNN_INLINE T(lnn_v) T(lnn_take)(const real *p, const int64_t stride) {
    if (stride == 1) return T(lnn_load)(p);
#if LNN_HAS_SHUFFLE
    if (stride == 2) return T(LNN_EVEN)(T(lnn_load)(p), T(lnn_load)(p + LANES - 1));
#endif
    T(lnn_v) v;
    for (int l = 0; l < LANES; l++) v[l] = p[l * stride];
    return v;
}

/* Pieces of SIDE numbers, `apart` from each other, side by side. */
LNN_INLINE T(lnn_v) T(lnn_pieces)(const real *p, int64_t apart) {
    T(lnn_v) v;
#if LNN_BYTES == 32 && LNN_HAS_SHUFFLE
    T(lnn_q) a, b;
    memcpy(&a, p, sizeof a);
    memcpy(&b, p + apart, sizeof b);
    v = T(LNN_WHOLE)(a, b);
#else
    for (int i = 0; i < LNN_BYTES / 16; i++) memcpy((char *)&v + 16 * i, p + i * apart, 16);
#endif
    return v;
}

/* Lanes in the order of the outputs. */
LNN_INLINE T(lnn_v) T(lnn_sorted)(T(lnn_v) v, const int64_t stride) {
#if LNN_HAS_SHUFFLE
    if (stride == 2) return T(LNN_SORT)(v);
#endif
    return v;
}

/* Cells from a lane's first tap to the last lane's last tap. */
LNN_INLINE int64_t T(lnn_span)(const lnn_axis *a) { return (LANES - 1) * a->stride + (a->kernel - 1) * a->step + 1; }

/* Whether all lanes' cells from output p of the band's t-th row on may be read. */
LNN_INLINE int T(lnn_readable)(const lnn_band *b, int64_t t, int64_t p) {
    const int64_t from = b->axis->start + p * b->axis->stride + t * b->advance;
    return b->rows[0] + from >= -b->before && b->rows[b->n_rows - 1] + from + T(lnn_span)(b->axis) <= b->after;
}

/* 0, 1, 2, … */
LNN_INLINE T(lnn_i) T(lnn_lanes)(void) {
    T(lnn_i) lanes;
    for (int l = 0; l < LANES; l++) lanes[l] = l;
    return lanes;
}

/* The distances l * stride of the cells that lnn_take takes. */
LNN_INLINE T(lnn_i) T(lnn_taken)(const int64_t stride) {
#if LNN_HAS_SHUFFLE
    if (stride == 2) {
        const T(lnn_i) low = T(lnn_lanes)(), high = low + (LANES - 1);
        return (T(lnn_i))T(LNN_EVEN)((T(lnn_v))low, (T(lnn_v))high);
    }
#endif
    return T(lnn_lanes)() * (whole)stride;
}

/* Which of the cells that lnn_take takes from cell `from` of a row on are the row's. */
LNN_INLINE T(lnn_i) T(lnn_inside)(const lnn_axis *a, int64_t from, const int64_t stride) {
    const T(lnn_i) cells = T(lnn_taken)(stride) + (whole)from;
    return (cells >= 0) & (cells < (whole)a->size);
}
