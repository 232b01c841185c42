/* Sums over scattered places: what runs in registers. _winners.pxd derives it.
 *
 * Row r of `sums` is a few vectors, sum over i of  g[i] * (as many vectors at from + at[i] + off[r]).  The places are anywhere,
 * so nothing is shared between neighbours but the value g[i] and its place: some rows of one vector, or one row of some
 * vectors, stay in registers while i runs. Few sums leave the multiply-adds waiting for each other: five rows have two sums
 * each, of even and odd i; four vectors are as fast as their reads.
 */
#ifndef LNN_WINNERS_H
#define LNN_WINNERS_H

#include "simd.h"

enum { LNN_AT_LEAST = 5, LNN_AT_MOST = 9, LNN_LONG = 12, LNN_LANES = LNN_BYTES / 4 };     /* as in _winners_plan.pxd */

LNN_INLINE void lnn_at_rows(const int rows, const float *from, const int32_t *place, const int64_t *off, int64_t n,
                            const float *g, const int64_t *idx, float *sums)
{
    const int both = rows == LNN_AT_LEAST;
    lnn_v_f32 even[LNN_AT_MOST] = {0}, odd[LNN_AT_MOST] = {0};
    int64_t i = 0;
    for (; i + 1 < n; i += 2) {
        const float *const a = from + place[idx[i]], *const b = from + place[idx[i + 1]];
        const float u = g[i], v = g[i + 1];
#pragma GCC unroll 9
        for (int r = 0; r < rows; r++) {
            even[r] += u * *(const lnn_vu_f32 *)(a + off[r]);
            if (both) odd[r] += v * *(const lnn_vu_f32 *)(b + off[r]);
            else even[r] += v * *(const lnn_vu_f32 *)(b + off[r]);
        }
    }
    if (i < n)
#pragma GCC unroll 9
        for (int r = 0; r < rows; r++) even[r] += g[i] * *(const lnn_vu_f32 *)(from + place[idx[i]] + off[r]);
#pragma GCC unroll 9
    for (int r = 0; r < rows; r++) *(lnn_vu_f32 *)(sums + r * LNN_LANES) += both ? even[r] + odd[r] : even[r];
}

LNN_INLINE void lnn_at_vectors(const int vectors, const float *from, int64_t n, const float *g, const int32_t *at, float *sums)
{
    lnn_v_f32 sum[LNN_LONG] = {0};
    for (int64_t i = 0; i < n; i++) {
        const float *const a = from + at[i];
        const float u = g[i];
#pragma GCC unroll 12
        for (int r = 0; r < vectors; r++) sum[r] += u * *(const lnn_vu_f32 *)(a + r * LNN_LANES);
    }
#pragma GCC unroll 12
    for (int r = 0; r < vectors; r++) *(lnn_vu_f32 *)(sums + r * LNN_LANES) += sum[r];
}

/* sums[r] += sum_i g[i] * (the vector at from + place[idx[i]] + off[r]), for LNN_AT_LEAST or LNN_AT_MOST `rows`. */
static __attribute__((noinline)) void lnn_at(int rows, const float *from, const int32_t *place, const int64_t *off,
                                             int64_t n, const float *g, const int64_t *idx, float *sums)
{
    if (rows == LNN_AT_LEAST) lnn_at_rows(LNN_AT_LEAST, from, place, off, n, g, idx, sums);
    else lnn_at_rows(LNN_AT_MOST, from, place, off, n, g, idx, sums);
}

/* sums += sum_i g[i] * (the LNN_SHORT to LNN_LONG `vectors` at from + at[i]). */
static __attribute__((noinline)) void lnn_along(int vectors, const float *from, int64_t n, const float *g, const int32_t *at,
                                                float *sums)
{
    switch (vectors) {
    case 4: lnn_at_vectors(4, from, n, g, at, sums); break;
    case 5: lnn_at_vectors(5, from, n, g, at, sums); break;
    case 6: lnn_at_vectors(6, from, n, g, at, sums); break;
    case 7: lnn_at_vectors(7, from, n, g, at, sums); break;
    case 8: lnn_at_vectors(8, from, n, g, at, sums); break;
    case 9: lnn_at_vectors(9, from, n, g, at, sums); break;
    case 10: lnn_at_vectors(10, from, n, g, at, sums); break;
    case 11: lnn_at_vectors(11, from, n, g, at, sums); break;
    default: lnn_at_vectors(LNN_LONG, from, n, g, at, sums);
    }
}

#endif
