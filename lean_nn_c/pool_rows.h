/* Pooling along one output row, in vector registers.
 *
 * Used where the windows of the last axis are alike (distance `stride`, `kernel` cells `step` apart). A tile is
 * one register of neighbouring outputs; every tap of the window is one (strided) load, and the accumulators stay
 * in registers while all rows of the window's box pass. Lanes are independent outputs, so a lane computes exactly
 * what the scalar loop in pool.pyx computes, in the same order.
 *
 * Tiles that stick out of the row read a copy of it with neutral cells around. The last tile of a row is moved
 * back to end with the row; a row shorter than a tile has idle lanes, which may read on into the next row but
 * never beyond the array (`x_end`).
 *
 * pool_tile.h holds the text, included once per number type.
 */
#ifndef LNN_POOL_ROWS_H
#define LNN_POOL_ROWS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "pool_window.h"

#if defined(__AVX512F__)
#define LNN_BYTES 64
#elif defined(__AVX__)
#define LNN_BYTES 32
#else
#define LNN_BYTES 16
#endif

#define LNN_SPAN 1024    /* cells a tile may span, taps included; wider windows take the scalar loop */
#define LNN_ROWS 256     /* rows of a window's box; larger boxes take the scalar loop */
#define LNN_CELLS 1024   /* cells of an input row that the transposes handle at a time */
#define LNN_INLINE static inline __attribute__((always_inline))

/* Even elements of 2n - 1 consecutive ones: `a` begins at the first, `b` at the n-th (counted from 1), so that
 * nothing beyond the last is read. */
#if defined(__clang__) || __GNUC__ >= 12
#define LNN_EVEN_2(a, b) __builtin_shufflevector(a, b, 0, 3)
#define LNN_EVEN_4(a, b) __builtin_shufflevector(a, b, 0, 2, 5, 7)
#define LNN_EVEN_8(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 9, 11, 13, 15)
#define LNN_EVEN_16(a, b) \
    __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31)
#define LNN_HAS_EVEN 1
#else
#define LNN_HAS_EVEN 0
#endif

typedef float lnn_v_f32 __attribute__((vector_size(LNN_BYTES)));
typedef double lnn_v_f64 __attribute__((vector_size(LNN_BYTES)));
typedef int32_t lnn_i_f32 __attribute__((vector_size(LNN_BYTES)));
typedef int64_t lnn_i_f64 __attribute__((vector_size(LNN_BYTES)));

#if LNN_BYTES == 32
LNN_INLINE lnn_v_f32 lnn_pick_f32(lnn_i_f32 m, lnn_v_f32 a, lnn_v_f32 b) {
    return __builtin_ia32_blendvps256(b, a, (lnn_v_f32)m);
}
LNN_INLINE lnn_v_f64 lnn_pick_f64(lnn_i_f64 m, lnn_v_f64 a, lnn_v_f64 b) {
    return __builtin_ia32_blendvpd256(b, a, (lnn_v_f64)m);
}
#else
LNN_INLINE lnn_v_f32 lnn_pick_f32(lnn_i_f32 m, lnn_v_f32 a, lnn_v_f32 b) {
    return (lnn_v_f32)(((lnn_i_f32)a & m) | ((lnn_i_f32)b & ~m));
}
LNN_INLINE lnn_v_f64 lnn_pick_f64(lnn_i_f64 m, lnn_v_f64 a, lnn_v_f64 b) {
    return (lnn_v_f64)(((lnn_i_f64)a & m) | ((lnn_i_f64)b & ~m));
}
#endif

#define LNN_CAT_(a, b) a##b
#define LNN_CAT(a, b) LNN_CAT_(a, b)

#define real float
#define whole int32_t
#define T(name) name##_f32
#define LANES (LNN_BYTES / 4)
#if LNN_BYTES == 64
#define EVEN LNN_EVEN_16
#elif LNN_BYTES == 32
#define EVEN LNN_EVEN_8
#else
#define EVEN LNN_EVEN_4
#endif
#include "pool_tile.h"
#undef real
#undef whole
#undef T
#undef LANES
#undef EVEN

#define real double
#define whole int64_t
#define T(name) name##_f64
#define LANES (LNN_BYTES / 8)
#if LNN_BYTES == 64
#define EVEN LNN_EVEN_8
#elif LNN_BYTES == 32
#define EVEN LNN_EVEN_4
#else
#define EVEN LNN_EVEN_2
#endif
#include "pool_tile.h"
#undef real
#undef whole
#undef T
#undef LANES
#undef EVEN

/* Whether the tiles serve this axis: alike windows, narrow enough for the copy of a row, worth a register. */
static inline int lnn_tiles_fit(const lnn_axis *a, int64_t lanes) {
    if (a->stride < 1 || a->kernel > LNN_SPAN || a->stride > LNN_SPAN || a->step > LNN_SPAN) return 0;
    return a->outputs >= 2 && (lanes - 1) * a->stride + (a->kernel - 1) * a->step + 1 <= LNN_SPAN;
}

/* Whether LNN_CELLS cells of a row are covered by few enough windows for the transpose's buffers. */
static inline int lnn_spread_fits(const lnn_axis *a) {
    if (a->stride < 1 || a->kernel > LNN_SPAN || a->stride > LNN_SPAN || a->step > LNN_SPAN) return 0;
    return a->outputs >= 2 && (a->kernel - 1) * a->step / a->stride <= LNN_SPAN;
}

#endif
