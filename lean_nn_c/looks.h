/* The loops of index.pyx: values looked up by index, added back by index, and dropped. Indices have been checked. Data are
 * (outer, n, inner); rows are counted over (outer, k), so that no element asks for a quotient. */
#ifndef LNN_LOOKS_H
#define LNN_LOOKS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "hot.h"

/* The i-th number of the sequence `seed`, of 53 bits: SplitMix64's output function. */
static inline uint64_t lnn_random(uint64_t seed, uint64_t i) {
    uint64_t z = seed + (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (z ^ (z >> 31)) >> 11;
}

#define LNN_LOOKS(T, word, suffix) \
    /* rows first … end; an index `skip` gives 0 */ \
    static void lnn_gather_##suffix(const T *x, const int64_t *idx, T *y, ptrdiff_t n, ptrdiff_t k, ptrdiff_t inner, int64_t skip, \
                                    ptrdiff_t first, ptrdiff_t end) { \
        ptrdiff_t r = first % k; \
        const T *own = x + first / k * n * inner; \
        for (ptrdiff_t row = first, some; row < end && inner == 1; row += some, r = 0, own += n) { \
            some = k - r < end - row ? k - r : end - row; \
            for (ptrdiff_t i = row; i < row + some; i++) y[i] = idx[i] == skip ? 0 : own[idx[i]]; \
        } \
        for (ptrdiff_t row = first; row < end && inner > 1; row++) { \
            for (ptrdiff_t i = 0; i < inner; i++) { \
                const int64_t j = idx[row * inner + i]; \
                y[row * inner + i] = j == skip ? 0 : own[j * inner + i]; \
            } \
            if (++r == k) r = 0, own += n * inner; \
        } \
    } \
    static void lnn_take_##suffix(const T *x, const int64_t *idx, T *y, ptrdiff_t n, ptrdiff_t k, ptrdiff_t inner, ptrdiff_t first, \
                                  ptrdiff_t end) { \
        ptrdiff_t r = first % k; \
        const T *own = x + first / k * n * inner; \
        for (ptrdiff_t row = first, some; row < end && inner == 1; row += some, r = 0, own += n) { \
            some = k - r < end - row ? k - r : end - row; \
            for (ptrdiff_t i = 0; i < some; i++) y[row + i] = own[idx[r + i]]; \
        } \
        for (ptrdiff_t row = first; row < end && inner > 1; row++) { \
            const T *from = own + idx[r] * inner; \
            T *to = y + row * inner; \
            if (inner > 64) memcpy(to, from, (size_t)inner * sizeof(T)); \
            else for (ptrdiff_t i = 0; i < inner; i++) to[i] = from[i]; \
            if (++r == k) r = 0, own += n * inner; \
        } \
    } \
    /* columns begin … end of one outer index, in the order of the indices */ \
    static void lnn_scatter_##suffix(const T *g, const int64_t *idx, T *x, ptrdiff_t k, ptrdiff_t inner, ptrdiff_t begin, \
                                     ptrdiff_t end, int64_t skip) { \
        for (ptrdiff_t r = 0; r < k; r++) \
            for (ptrdiff_t i = begin; i < end; i++) { \
                const int64_t j = idx[r * inner + i]; \
                if (j != skip) x[j * inner + i] += g[r * inner + i]; \
            } \
    } \
    static void lnn_untake_##suffix(const T *g, const int64_t *idx, T *x, ptrdiff_t k, ptrdiff_t inner, ptrdiff_t begin, ptrdiff_t end) { \
        for (ptrdiff_t r = 0; r < k; r++) { \
            T *to = x + idx[r] * inner; \
            const T *from = g + r * inner; \
            for (ptrdiff_t i = begin; i < end; i++) to[i] += from[i]; \
        } \
    } \
    /* x/keep, or 0 where the number of 53 bits is below `least`; without a branch, which nobody could guess */ \
    static void lnn_drop_##suffix(const T *x, T *y, ptrdiff_t first, ptrdiff_t end, uint64_t seed, uint64_t least, T keep) { \
        for (ptrdiff_t i = first; i < end; i++) { \
            const T value = x[i] / keep; \
            word bits; \
            memcpy(&bits, &value, sizeof bits); \
            bits &= (word)0 - (word)(lnn_random(seed, (uint64_t)i) >= least); \
            memcpy(y + i, &bits, sizeof bits); \
        } \
    }
LNN_LOOKS(float, uint32_t, f32)
LNN_LOOKS(double, uint64_t, f64)
#undef LNN_LOOKS

#pragma GCC pop_options
#endif
