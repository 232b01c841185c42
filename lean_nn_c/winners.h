/* Sums over scattered places: what runs in registers. _winners.pxd derives it.
 *
 * Row r of `sums` is a vector of lanes, sum over i of  g[i] * (the vector at plane + place[idx[i]] + off[r]).  The places are
 * anywhere, so nothing is shared between neighbours but the value g[i] and its place: a few rows stay in registers while i
 * runs. Few rows leave the multiply-adds waiting for each other: then even and odd i have sums of their own.
 */
#ifndef LNN_WINNERS_H
#define LNN_WINNERS_H

#include "simd.h"

enum { LNN_AT_LEAST = 5, LNN_AT_MOST = 9 };     /* rows together: either; with two sums each, ten of the first */

LNN_INLINE void lnn_at_rows(const int rows, const float *plane, const int32_t *place, const int64_t *off, int64_t n,
                            const float *g, const int64_t *idx, float *sums)
{
    const int both = rows == LNN_AT_LEAST;
    lnn_v_f32 even[LNN_AT_MOST] = {0}, odd[LNN_AT_MOST] = {0};
    int64_t i = 0;
    for (; i + 1 < n; i += 2) {
        const float *const a = plane + place[idx[i]], *const b = plane + place[idx[i + 1]];
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
        for (int r = 0; r < rows; r++) even[r] += g[i] * *(const lnn_vu_f32 *)(plane + place[idx[i]] + off[r]);
#pragma GCC unroll 9
    for (int r = 0; r < rows; r++)
        *(lnn_vu_f32 *)(sums + r * (LNN_BYTES / 4)) += both ? even[r] + odd[r] : even[r];
}

/* sums[r] += sum_i g[i] * plane[place[idx[i]] + off[r] ...], a vector each, for LNN_AT_LEAST or LNN_AT_MOST `rows`. */
static __attribute__((noinline)) void lnn_at(int rows, const float *plane, const int32_t *place, const int64_t *off,
                                             int64_t n, const float *g, const int64_t *idx, float *sums)
{
    if (rows == LNN_AT_LEAST) lnn_at_rows(LNN_AT_LEAST, plane, place, off, n, g, idx, sums);
    else lnn_at_rows(LNN_AT_MOST, plane, place, off, n, g, idx, sums);
}

#endif
