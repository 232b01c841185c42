/* The way out of winograd_tile.h, which includes this where T, N, V and the others are named: the output transform, what follows a sum
 * (tail.h), and where it is stored.
 *
 * A vector of results holds one cell of N tiles. Turned in blocks of four lanes it holds quads, four neighbouring cells of N/4 tiles; and
 * where these tiles are neighbours, a piece of a row.
 */

/* The quads that lie `apart` bytes from every lane's place. */
LNN_INLINE void LNN_NAME(lnn_quads_apart)(T *const *p, uintptr_t apart, V q[4])
{
    const T *from[N];
    for (int l = 0; l < N; l++) from[l] = (const T *)((uintptr_t)p[l] + apart);
    LNN_NAME(lnn_quads)(from, 0, q);
}

/* p[l][j] = what a tail that reads other arrays makes of q[j] lane l. */
LNN_CALLED void LNN_NAME(lnn_scatter_ended)(const lnn_tail *tail, T *const *p, const V in[4])
{
    V q[4] = {in[0], in[1], in[2], in[3]}, more[4] = {in[0], in[0], in[0], in[0]};
    LNN_NAME(lnn_transpose)(q);
    if (tail->adds) {
        LNN_NAME(lnn_quads_apart)(p, tail->other, more);
        UNROLL for (int j = 0; j < 4; j++) q[j] += more[j];
    }
    if (tail->act == LNN_GATE) LNN_NAME(lnn_quads_apart)(p, tail->gate, more);
    LNN_NAME(lnn_act)(tail, q, more);
    LNN_NAME(lnn_put_quads)(p, 0, q);
}

/* Where the N/4 tiles whose quads fill a vector lie side by side (`joined`), a line of theirs is one vector in memory as well. */
#if LNN_LANES == 2
LNN_INLINE void LNN_NAME(lnn_join_quads)(V q[4]) { (void)q; }
#else
/* Quads, as lnn_put_quads takes them, in the order of their tiles. */
LNN_INLINE void LNN_NAME(lnn_join_quads)(V q[4])
{
#if LNN_LANES == 8
    const V a = LNN_FORE_8(q[2], q[3]), b = LNN_AFT_8(q[0], q[1]);
    q[0] = LNN_FORE_8(q[0], q[1]), q[3] = LNN_AFT_8(q[2], q[3]), q[1] = a, q[2] = b;
#elif LNN_LANES == 16
    const V a = LNN_FORE_16(q[0], q[1]), b = LNN_FORE_16(q[2], q[3]), c = LNN_AFT_16(q[0], q[1]), d = LNN_AFT_16(q[2], q[3]);
    q[0] = LNN_LEFT_16(a, b), q[1] = LNN_LEFT_16(c, d), q[2] = LNN_RIGHT_16(a, b), q[3] = LNN_RIGHT_16(c, d);
#endif
}
#endif

/* Where vector j of such quads belongs. */
LNN_INLINE T *LNN_NAME(lnn_line)(T *const *p, const int64_t *pitch, ptrdiff_t line, int j)
{
    return p[j * (N / 4)] + line * pitch[j * (N / 4)];
}

/* The same with a tail that reads other arrays. */
LNN_INLINE void LNN_NAME(lnn_end_lines)(const lnn_tail *tail, T *const *p, const int64_t *pitch, ptrdiff_t line, const V q[4])
{
    V x[4], gate[4];
    UNROLL for (int j = 0; j < 4; j++) {
        const uintptr_t at = (uintptr_t)LNN_NAME(lnn_line)(p, pitch, line, j);
        x[j] = q[j];
        if (tail->adds) x[j] += *(const VU *)(at + tail->other);
        gate[j] = tail->act == LNN_GATE ? (V)*(const VU *)(at + tail->gate) : x[j];
    }
    LNN_NAME(lnn_act)(tail, x, gate);
    UNROLL for (int j = 0; j < 4; j++) *(VU *)LNN_NAME(lnn_line)(p, pitch, line, j) = x[j];
}

/* p[l] line `line` cell j = what the tail makes of in[j] lane l. */
LNN_INLINE void LNN_NAME(lnn_put_lines)(const lnn_tail *tail, int partners, T *const *p, const int64_t *pitch, ptrdiff_t line,
                                        const V in[4])
{
    V q[4] = {in[0], in[1], in[2], in[3]};
    LNN_NAME(lnn_transpose)(q);
    LNN_NAME(lnn_join_quads)(q);
    if (partners) LNN_NAME(lnn_end_lines)(tail, p, pitch, line, q);
    else {
        if (tail) LNN_NAME(lnn_act)(tail, q, q);
        UNROLL for (int j = 0; j < 4; j++) *(VU *)LNN_NAME(lnn_line)(p, pitch, line, j) = q[j];
    }
}

/* to[..n] = what a tail that reads other arrays makes of from[..n], N <= n <= 4 N. All is read before anything is written, for `to` may
 * be one of the arrays; the last vector may overlap the one before. */
LNN_INLINE void LNN_NAME(lnn_end_vectors)(const lnn_tail *tail, const T *from, T *to, ptrdiff_t n)
{
    V x[4], gate[4];
    UNROLL for (int i = 0; i < 4; i++) {
        const ptrdiff_t at = i * N < n - N ? i * N : n - N;
        const uintptr_t place = (uintptr_t)(to + at);
        x[i] = *(const VU *)(from + at);
        if (tail->adds) x[i] += *(const VU *)(place + tail->other);
        gate[i] = tail->act == LNN_GATE ? (V)*(const VU *)(place + tail->gate) : x[i];
    }
    LNN_NAME(lnn_act)(tail, x, gate);
    UNROLL for (int i = 0; i < 4; i++) *(VU *)(to + (i * N < n - N ? i * N : n - N)) = x[i];
}

/* The same, cell by cell, `step` cells apart. */
LNN_INLINE void LNN_NAME(lnn_end_cells)(const lnn_tail *tail, const T *from, T *to, ptrdiff_t step, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++, to += step) {
        const uintptr_t place = (uintptr_t)to;
        const T x = tail->adds ? from[i] + *(const T *)(place + tail->other) : from[i];
        const T gate = tail->act == LNN_GATE ? *(const T *)(place + tail->gate) : x;
        *to = tail->act == LNN_LEAKY ? (x > 0 ? x : (T)tail->slope * x) : tail->act && gate <= 0 ? 0 : x;
    }
}

/* What is added to n cells `step` apart is called into the cache. */
LNN_INLINE void LNN_NAME(lnn_call_in)(const lnn_tail *tail, const T *to, ptrdiff_t step, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n * step; i += 64 / (ptrdiff_t)sizeof(T)) __builtin_prefetch((const char *)((uintptr_t)(to + i) + tail->other));
}

/* Lines of n such cells, `pitch` apart from others `line` apart; `next` cells on, others will follow. Of cells that are not neighbours
 * too few loads are under way to wait for each line of the cache: these are asked for early (4 x 4 stride 2, 33 MB: 1.3 to 1.15). */
LNN_CALLED void LNN_NAME(lnn_wino_end)(const lnn_tail *tail, const T *from, ptrdiff_t line, T *to, ptrdiff_t pitch, ptrdiff_t step,
                                       ptrdiff_t lines, ptrdiff_t n, ptrdiff_t next)
{
    for (; lines > 0; lines--, from += line, to += pitch) {
        if (tail->adds && step > 1) LNN_NAME(lnn_call_in)(tail, to + next, step, n);
        if (step == 1 && n >= N && n <= 4 * N) LNN_NAME(lnn_end_vectors)(tail, from, to, n);
        else LNN_NAME(lnn_end_cells)(tail, from, to, step, n);
    }
}

/* The pairs of two rows that lie `apart` bytes from every lane's place, each lane's as one group of four. */
LNN_INLINE void LNN_NAME(lnn_pairs)(T *const *p, uintptr_t apart, const int64_t *pitch, T four[N][4])
{
    for (int l = 0; l < N; l++)
        for (int i = 0; i < 2; i++) memcpy(four[l] + 2 * i, (const char *)((uintptr_t)(p[l] + i * pitch[l]) + apart), 2 * sizeof(T));
}

/* The tail of such groups. */
LNN_CALLED void LNN_NAME(lnn_end_pairs)(const lnn_tail *tail, T *const *p, const int64_t *pitch, T four[N][4])
{
    T other[N][4] = {{0}}, gates[N][4] = {{0}};
    V x[4], by[4];
    if (tail->adds) LNN_NAME(lnn_pairs)(p, tail->other, pitch, other);
    if (tail->act == LNN_GATE) LNN_NAME(lnn_pairs)(p, tail->gate, pitch, gates);
    UNROLL for (int j = 0; j < 4; j++) {
        x[j] = *(const VU *)(&four[0][0] + j * N);
        if (tail->adds) x[j] += *(const VU *)(&other[0][0] + j * N);
        by[j] = *(const VU *)(&gates[0][0] + j * N);
    }
    LNN_NAME(lnn_act)(tail, x, by);
    UNROLL for (int j = 0; j < 4; j++) *(VU *)(&four[0][0] + j * N) = x[j];
}

/* Line i of a tile's outputs, stored if that is `all`. Returns `none`, unless some sum is infinite or NaN. */
LNN_INLINE V LNN_NAME(lnn_output_line)(const int side, const V *half, T bias, int all, T *const *p, const int64_t *pitch, ptrdiff_t i, V out[4],
                                       V none)
{
    const int m = OUTPUTS(side);
    V y[4], own = {0};
    LNN_NAME(lnn_output_1d)(side, half, y);
    UNROLL for (int j = 0; j < m; j++) {
        out[j] = y[j] + bias;
        own += out[j] * 0;
    }
    if (all) LNN_NAME(lnn_put_lines)(NULL, 0, p, pitch, i, out);
    return none + own; /* one sum, for which the next line waits */
}

/* y = A^T t A + bias with t[xi] at in + xi*step, and then the tail (tail.h); m rows of m cells to every tile's place, rows `pitch`
 * apart; or (`flat`) y = A^T t + bias, one row. LANES values at `zero` stay zero unless some sum is infinite or NaN. */
LNN_INLINE void LNN_NAME(lnn_output_2d)(const int side, int flat, int joined, const T *in, ptrdiff_t step, T bias, T *const *p,
                                        const int64_t *pitch, const lnn_tail *tail, T *zero)
{
    const int m = OUTPUTS(side), rows = flat ? 1 : m;
    V half[4 * 9], t[9], y[4], out[4][4];
    T *place[N];
    V none = *(const VU *)zero;
    const int partners = tail && (tail->adds || tail->act == LNN_GATE);
    if (flat) UNROLL for (int j = 0; j < side; j++) half[j] = *(const VU *)(in + j * step);
    for (int j = 0; j < (flat ? 0 : side); j++) {
        UNROLL for (int i = 0; i < side; i++, in += step) t[i] = *(const VU *)in;
        LNN_NAME(lnn_output_1d)(side, t, y);
        UNROLL for (int i = 0; i < m; i++) half[i * side + j] = y[i];
    }
    ROLLED for (int i = 0; i < rows; i++)
        none = LNN_NAME(lnn_output_line)(side, half + i * side, bias, joined && !tail, p, pitch, i, out[i], none);
#pragma GCC unroll 1                    /* four copies of it would be a two-hundredth of the wheel */
    for (int i = 0; i < (m == 4 && (tail || !joined) ? rows : 0); i++) {
        if (joined) {
            LNN_NAME(lnn_put_lines)(tail, partners, p, pitch, i, out[i]);
            continue;
        }
        for (int l = 0; l < N; l++) place[l] = p[l] + i * pitch[l];
        if (partners) LNN_NAME(lnn_scatter_ended)(tail, place, out[i]);
        else {
            if (tail) LNN_NAME(lnn_act)(tail, out[i], out[i]);
            LNN_NAME(lnn_scatter)(place, 0, out[i]);
        }
    }
    if (m == 2) {       /* both rows of a tile as one group of four */
        T four[N][4];
        const V rows[4] = {out[0][0], out[0][1], out[1][0], out[1][1]};
        for (int l = 0; l < N; l++) place[l] = four[l];
        LNN_NAME(lnn_scatter)(place, 0, rows);
        if (tail) LNN_NAME(lnn_end_pairs)(tail, p, pitch, four);
        for (int l = 0; l < N; l++) {
            memcpy(p[l], four[l], 2 * sizeof(T));
            memcpy(p[l] + pitch[l], four[l] + 2, 2 * sizeof(T));
        }
    }
    *(VU *)zero = none;
}
