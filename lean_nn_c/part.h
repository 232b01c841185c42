/* A line's last few values as a vector with zeros behind them (`part`, and `put_part` the way back), a number in the first n lanes
 * (`first`), whether a mask has a lane set (`SOME`), a vector's lanes added as a tree, and the largest of
 * them (`top`; any number where one is NaN). n is less than a vector.
 *
 * Rows of 10 or 37 values end in such a part: one masked load in place of a loop whose every turn waits for memory.
 */
#ifndef LNN_PART_H
#define LNN_PART_H

#include "simd.h"

#define LNN_APART __attribute__((noinline)) /* large, and called in several places: the wheel is small */

#if defined(__AVX2__) && LNN_BYTES == 32
#include <immintrin.h>
static const int32_t lnn_there_f32[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
static const int64_t lnn_there_f64[8] = {-1, -1, -1, -1};
LNN_INLINE lnn_v_f32 lnn_part_f32(const float *x, ptrdiff_t n) {
    return (lnn_v_f32)_mm256_maskload_ps(x, _mm256_loadu_si256((const __m256i *)(lnn_there_f32 + 8 - n)));
}
LNN_INLINE lnn_v_f64 lnn_part_f64(const double *x, ptrdiff_t n) {
    return (lnn_v_f64)_mm256_maskload_pd(x, _mm256_loadu_si256((const __m256i *)(lnn_there_f64 + 4 - n)));
}
LNN_INLINE lnn_v_f32 lnn_first_f32(float value, ptrdiff_t n) {
    return (lnn_v_f32)_mm256_and_ps(_mm256_set1_ps(value), _mm256_loadu_ps((const float *)(lnn_there_f32 + 8 - n)));
}
LNN_INLINE lnn_v_f64 lnn_first_f64(double value, ptrdiff_t n) {
    return (lnn_v_f64)_mm256_and_pd(_mm256_set1_pd(value), _mm256_loadu_pd((const double *)(lnn_there_f64 + 4 - n)));
}
LNN_INLINE void lnn_put_part_f32(float *y, lnn_v_f32 v, ptrdiff_t n) {
    _mm256_maskstore_ps(y, _mm256_loadu_si256((const __m256i *)(lnn_there_f32 + 8 - n)), (__m256)v);
}
LNN_INLINE void lnn_put_part_f64(double *y, lnn_v_f64 v, ptrdiff_t n) {
    _mm256_maskstore_pd(y, _mm256_loadu_si256((const __m256i *)(lnn_there_f64 + 4 - n)), (__m256d)v);
}
#define LNN_SOME_f32(mask) (_mm256_movemask_ps((__m256)(mask)) != 0)
#define LNN_SOME_f64(mask) (_mm256_movemask_pd((__m256d)(mask)) != 0)
#else
#define LNN_PARTS(T, suffix) \
    LNN_INLINE lnn_v_##suffix lnn_part_##suffix(const T *x, ptrdiff_t n) { \
        lnn_v_##suffix v = {0}; \
        T lane[LNN_BYTES / sizeof(T)] = {0}; \
        for (ptrdiff_t i = 0; i < n; i++) lane[i] = x[i]; \
        memcpy(&v, lane, sizeof v); \
        return v; \
    } \
    LNN_INLINE lnn_v_##suffix lnn_first_##suffix(T value, ptrdiff_t n) { \
        lnn_v_##suffix v = {0}; \
        T lane[LNN_BYTES / sizeof(T)] = {0}; \
        for (ptrdiff_t i = 0; i < n; i++) lane[i] = value; \
        memcpy(&v, lane, sizeof v); \
        return v; \
    }
LNN_PARTS(float, f32)
LNN_PARTS(double, f64)
#undef LNN_PARTS
#ifdef __AVX512F__
#include <immintrin.h>
LNN_INLINE void lnn_put_part_f32(float *y, lnn_v_f32 v, ptrdiff_t n) { _mm512_mask_storeu_ps(y, (__mmask16)((1u << n) - 1), (__m512)v); }
LNN_INLINE void lnn_put_part_f64(double *y, lnn_v_f64 v, ptrdiff_t n) { _mm512_mask_storeu_pd(y, (__mmask8)((1u << n) - 1), (__m512d)v); }
#else
#define LNN_PUT(T, suffix) \
    LNN_INLINE void lnn_put_part_##suffix(T *y, lnn_v_##suffix v, ptrdiff_t n) { \
        T lane[LNN_BYTES / sizeof(T)]; \
        memcpy(lane, &v, sizeof v); \
        for (ptrdiff_t i = 0; i < n; i++) y[i] = lane[i]; \
    }
LNN_PUT(float, f32)
LNN_PUT(double, f64)
#undef LNN_PUT
#endif
LNN_INLINE int lnn_some(const void *mask) {
    uint64_t word[LNN_BYTES / 8], any = 0;
    memcpy(word, mask, LNN_BYTES);
    for (int i = 0; i < LNN_BYTES / 8; i++) any |= word[i];
    return any != 0;
}
#define LNN_SOME_f32(mask) lnn_some(&(mask))
#define LNN_SOME_f64(mask) lnn_some(&(mask))
#endif

/* y[i] = what `of` makes of its arguments' elements, for i < n: vectors, then a part of one. `of` reads element i by the macro it is
 * given: of(L) is an expression of L(x), L(w), … */
#define LNN_OVER(n, y, of) { \
        const ptrdiff_t lnn_end = (n); \
        ptrdiff_t i = 0; \
        for (; i + WIDTH <= lnn_end; i += WIDTH) *(VU *)((y) + i) = of(LNN_VECTOR); \
        if (i < lnn_end) LNN_NAME(lnn_put_part)((y) + i, of(LNN_LAST), lnn_end - i); \
    }
#define LNN_VECTOR(p) (*(const VU *)((p) + i))
#define LNN_LAST(p) LNN_NAME(lnn_part)((p) + i, lnn_end - i)

#define LNN_TREE(T, suffix) \
    LNN_INLINE T lnn_tree_##suffix(lnn_v_##suffix v) { \
        T lane[LNN_BYTES / sizeof(T)]; \
        memcpy(lane, &v, sizeof v); \
        _Pragma("GCC unroll 4") for (int half = LNN_BYTES / sizeof(T) / 2; half > 0; half /= 2) { \
            _Pragma("GCC unroll 8") for (int k = 0; k < half; k++) lane[k] += lane[k + half]; \
        } \
        return lane[0]; \
    } \
    LNN_INLINE T lnn_top_##suffix(lnn_v_##suffix v) { \
        T lane[LNN_BYTES / sizeof(T)]; \
        memcpy(lane, &v, sizeof v); \
        _Pragma("GCC unroll 4") for (int half = LNN_BYTES / sizeof(T) / 2; half > 0; half /= 2) { \
            _Pragma("GCC unroll 8") for (int k = 0; k < half; k++) lane[k] = lane[k] > lane[k + half] ? lane[k] : lane[k + half]; \
        } \
        return lane[0]; \
    }
LNN_TREE(float, f32)
LNN_TREE(double, f64)
#undef LNN_TREE

#endif
