/* What the row kernels of one number type share; see pool_rows.h. `real`, `whole` (an int as wide), T(), LANES. */

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

/* Lanes in the order of the outputs. */
LNN_INLINE T(lnn_v) T(lnn_sorted)(T(lnn_v) v, const int64_t stride) {
#if LNN_HAS_SHUFFLE
    if (stride == 2) return T(LNN_SORT)(v);
#endif
    return v;
}

/* Cells `from` … `from + n` of a row of `size`, with `edge` where there is none. */
LNN_INLINE void T(lnn_copy)(const real *row, int64_t size, int64_t from, int64_t n, real edge, real *to) {
    int64_t low = from < 0 ? -from : 0, high = from + n > size ? size - from : n;
    if (low > n) low = n;
    if (high < low) high = low;
    for (int64_t i = 0; i < low; i++) to[i] = edge;
    if (high > low) memcpy(to + low, row + from + low, (size_t)(high - low) * sizeof(real));
    for (int64_t i = high; i < n; i++) to[i] = edge;
}

/* Cells from a lane's first tap to the last lane's last tap. */
LNN_INLINE int64_t T(lnn_span)(const lnn_axis *a) { return (LANES - 1) * a->stride + (a->kernel - 1) * a->step + 1; }
