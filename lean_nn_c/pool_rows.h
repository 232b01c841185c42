/* Pooling along output rows, in vector registers.
 *
 * Used where the windows of the last axis are alike (distance `stride`, `kernel` cells `step` apart). A tile is one
 * register of neighbouring outputs; every tap of the window is one (strided) load, and the accumulators stay in
 * registers while all rows of the window's box pass. Two taps side by side at stride 2 are the even and the odd cells
 * of the same two registers. Three cells apart or more, and alone in their row, windows are loaded by pieces of 16 bytes,
 * as many side by side as a register holds, and neighbours are folded until each has one lane left: their cells one by one
 * would take four times as long. Lanes are independent outputs. A band is a run of output rows that differ in place only:
 * what is known of a row is then found out once for many, which short rows need.
 *
 * A tile is `inside` where all taps of its windows are real cells; the last one is moved back to end with the row. At
 * the ends of a row the tile is masked: it reads on into the neighbouring rows and leaves those cells out; outputs
 * are computed one by one only where that would leave the array. In a row shorter than a register the idle lanes
 * are written too, wherever the next row's outputs, which come later from the same thread, will overwrite them.
 *
 * pool_max.h, pool_sum.h and pool_spread.h hold the text, included once per number type.
 */
#ifndef LNN_POOL_ROWS_H
#define LNN_POOL_ROWS_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "pool_window.h"

/* As hot.h, with loops of fixed length unrolled: tiles and squares are made of them. */
#pragma GCC push_options
#ifdef LNN_HOT
#pragma GCC optimize("O3", "no-math-errno", "no-trapping-math", "align-loops=32")
#endif

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define LNN_BYTES 64
#elif defined(__AVX2__)
#define LNN_BYTES 32
#else
#define LNN_BYTES 16
#endif

#define LNN_SPAN 1024    /* cells a tile may span, taps included; wider windows go by lanes (pool_lanes.h) */
#define LNN_MASKS 16     /* taps of a row's window in a masked tile; wider ones are computed output by output */
#define LNN_FEW 4        /* windows of a row that are computed output by output, as they have cells beyond its ends */
#define LNN_LONG 16      /* tiles of a row whose results are written where vectors lie, at least */
#define LNN_ROWS 256     /* rows of a window's box; larger boxes go by lanes. ROWS of kernels.cu is the same */
#define LNN_CELLS 1024   /* cells of an input row that the transposes handle at a time */
#define LNN_STRIDE 64    /* distance of windows that the transposes take */
#define LNN_NEXT 524288  /* bytes of planes that come next which the second-level cache has room for */
#define LNN_CAP 1024     /* cells, or windows, of every plane that are turned into lanes at a time */
#define LNN_INLINE static inline __attribute__((always_inline))

typedef float lnn_v_f32 __attribute__((vector_size(LNN_BYTES)));
typedef double lnn_v_f64 __attribute__((vector_size(LNN_BYTES)));
typedef int32_t lnn_i_f32 __attribute__((vector_size(LNN_BYTES)));
typedef int64_t lnn_i_f64 __attribute__((vector_size(LNN_BYTES)));
typedef int64_t lnn_l_f32 __attribute__((vector_size(2 * LNN_BYTES)));   /* as many places as outputs */
typedef int64_t lnn_l_f64 __attribute__((vector_size(LNN_BYTES)));

/* Of 2n consecutive cells in `a` and `b`: EVENS the 1st, 3rd, …, ODDS the 2nd, 4th, …. EVEN the same as EVENS where `b`
 * begins one cell earlier, so that nothing beyond the last is read. All three shuffle within 16 bytes only, which is
 * cheap, and give one order of lanes; SORT brings a tile's lanes into theirs at its end. LOW and HIGH
 * are the way back: a0 b0 a1 b1 …, first and second half. */
#if defined(__clang__) || __GNUC__ >= 12
#define LNN_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define LNN_HAS_SHUFFLE 1
#else
#define LNN_HAS_SHUFFLE 0
#endif

/* PICK(m, a, b): a where m, else b. MORE(a, b): a where a > b, else b; so a NaN in a is passed over, one in b stays.
 * NAN(a, b): where a or b is one. ANY(m): whether m is set anywhere. */
#if LNN_BYTES == 64
#define LNN_EVEN_f32(a, b) \
    LNN_SHUFFLE(a, b, 0, 2, 17, 19, 4, 6, 21, 23, 8, 10, 25, 27, 12, 14, 29, 31)
#define LNN_EVENS_f32(a, b) \
    LNN_SHUFFLE(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30)
#define LNN_ODDS_f32(a, b) \
    LNN_SHUFFLE(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31)
#define LNN_SORT_f32(a) LNN_SHUFFLE(a, a, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15)
#define LNN_LOW_f32(a, b) \
    LNN_SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define LNN_HIGH_f32(a, b) \
    LNN_SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define LNN_LOW_f64(a, b) LNN_SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define LNN_HIGH_f64(a, b) LNN_SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define LNN_EVEN_f64(a, b) LNN_SHUFFLE(a, b, 0, 9, 2, 11, 4, 13, 6, 15)
#define LNN_EVENS_f64(a, b) LNN_SHUFFLE(a, b, 0, 8, 2, 10, 4, 12, 6, 14)
#define LNN_ODDS_f64(a, b) LNN_SHUFFLE(a, b, 1, 9, 3, 11, 5, 13, 7, 15)
#define LNN_SORT_f64(a) LNN_SHUFFLE(a, a, 0, 2, 4, 6, 1, 3, 5, 7)
#define LNN_MORE_f32(a, b) ((lnn_v_f32)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define LNN_MORE_f64(a, b) ((lnn_v_f64)_mm512_max_pd((__m512d)(a), (__m512d)(b)))
#elif LNN_BYTES == 32
#define LNN_EVEN_f32(a, b) LNN_SHUFFLE(a, b, 0, 2, 9, 11, 4, 6, 13, 15)
#define LNN_EVENS_f32(a, b) LNN_SHUFFLE(a, b, 0, 2, 8, 10, 4, 6, 12, 14)
#define LNN_ODDS_f32(a, b) LNN_SHUFFLE(a, b, 1, 3, 9, 11, 5, 7, 13, 15)
#define LNN_SORT_f32(a) LNN_SHUFFLE(a, a, 0, 1, 4, 5, 2, 3, 6, 7)
#define LNN_LOW_f32(a, b) LNN_SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define LNN_HIGH_f32(a, b) LNN_SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define LNN_LOW_f64(a, b) LNN_SHUFFLE(a, b, 0, 4, 1, 5)
#define LNN_HIGH_f64(a, b) LNN_SHUFFLE(a, b, 2, 6, 3, 7)
#define LNN_EVEN_f64(a, b) LNN_SHUFFLE(a, b, 0, 5, 2, 7)
#define LNN_EVENS_f64(a, b) LNN_SHUFFLE(a, b, 0, 4, 2, 6)
#define LNN_ODDS_f64(a, b) LNN_SHUFFLE(a, b, 1, 5, 3, 7)
#define LNN_SORT_f64(a) LNN_SHUFFLE(a, a, 0, 2, 1, 3)
#define LNN_MORE_f32(a, b) ((lnn_v_f32)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define LNN_MORE_f64(a, b) ((lnn_v_f64)_mm256_max_pd((__m256d)(a), (__m256d)(b)))
#define LNN_PICK_f32(m, a, b) ((lnn_v_f32)_mm256_blendv_ps((__m256)(b), (__m256)(a), (__m256)(m)))
#define LNN_PICK_f64(m, a, b) ((lnn_v_f64)_mm256_blendv_pd((__m256d)(b), (__m256d)(a), (__m256d)(m)))
#define LNN_NAN_f32(a, b) ((lnn_i_f32)_mm256_cmp_ps((__m256)(a), (__m256)(b), _CMP_UNORD_Q))
#define LNN_NAN_f64(a, b) ((lnn_i_f64)_mm256_cmp_pd((__m256d)(a), (__m256d)(b), _CMP_UNORD_Q))
#define LNN_ANY_f32(m) (_mm256_movemask_ps((__m256)(m)) != 0)
#define LNN_ANY_f64(m) (_mm256_movemask_pd((__m256d)(m)) != 0)
#else
#define LNN_EVEN_f32(a, b) LNN_SHUFFLE(a, b, 0, 2, 5, 7)
#define LNN_EVENS_f32(a, b) LNN_SHUFFLE(a, b, 0, 2, 4, 6)
#define LNN_ODDS_f32(a, b) LNN_SHUFFLE(a, b, 1, 3, 5, 7)
#define LNN_SORT_f32(a) (a)
#define LNN_LOW_f32(a, b) LNN_SHUFFLE(a, b, 0, 4, 1, 5)
#define LNN_HIGH_f32(a, b) LNN_SHUFFLE(a, b, 2, 6, 3, 7)
#define LNN_LOW_f64(a, b) LNN_SHUFFLE(a, b, 0, 2)
#define LNN_HIGH_f64(a, b) LNN_SHUFFLE(a, b, 1, 3)
#define LNN_EVEN_f64(a, b) LNN_SHUFFLE(a, b, 0, 3)
#define LNN_EVENS_f64(a, b) LNN_SHUFFLE(a, b, 0, 2)
#define LNN_ODDS_f64(a, b) LNN_SHUFFLE(a, b, 1, 3)
#define LNN_SORT_f64(a) (a)
#if defined(__x86_64__)
#define LNN_MORE_f32(a, b) ((lnn_v_f32)_mm_max_ps((__m128)(a), (__m128)(b)))
#define LNN_MORE_f64(a, b) ((lnn_v_f64)_mm_max_pd((__m128d)(a), (__m128d)(b)))
#define LNN_ANY_f32(m) (_mm_movemask_ps((__m128)(m)) != 0)
#define LNN_ANY_f64(m) (_mm_movemask_pd((__m128d)(m)) != 0)
#else
#define LNN_MORE_f32(a, b) LNN_PICK_f32((a) > (b), a, b)
#define LNN_MORE_f64(a, b) LNN_PICK_f64((a) > (b), a, b)
#endif
#endif
#ifndef LNN_PICK_f32
#define LNN_PICK_f32(m, a, b) ((lnn_v_f32)(((lnn_i_f32)(a) & (m)) | ((lnn_i_f32)(b) & ~(m))))
#define LNN_PICK_f64(m, a, b) ((lnn_v_f64)(((lnn_i_f64)(a) & (m)) | ((lnn_i_f64)(b) & ~(m))))
#endif
#ifndef LNN_NAN_f32
#define LNN_NAN_f32(a, b) (((a) != (a)) | ((b) != (b)))
#define LNN_NAN_f64(a, b) (((a) != (a)) | ((b) != (b)))
#endif
#ifndef LNN_ANY_f32
LNN_INLINE int lnn_any_f32(lnn_i_f32 m) {
    int any = 0;
    for (int l = 0; l < LNN_BYTES / 4; l++) any |= m[l];
    return any != 0;
}
LNN_INLINE int lnn_any_f64(lnn_i_f64 m) {
    int64_t any = 0;
    for (int l = 0; l < LNN_BYTES / 8; l++) any |= m[l];
    return any != 0;
}
#define LNN_ANY_f32(m) lnn_any_f32(m)
#define LNN_ANY_f64(m) lnn_any_f64(m)
#endif

/* Of 16 bytes each, what LOW and HIGH are; and two of them as one vector of 32. */
typedef float lnn_q_f32 __attribute__((vector_size(16)));
typedef double lnn_q_f64 __attribute__((vector_size(16)));
#define LNN_NEAR_f32(a, b) LNN_SHUFFLE(a, b, 0, 4, 1, 5)
#define LNN_FAR_f32(a, b) LNN_SHUFFLE(a, b, 2, 6, 3, 7)
#define LNN_NEAR_f64(a, b) LNN_SHUFFLE(a, b, 0, 2)
#define LNN_FAR_f64(a, b) LNN_SHUFFLE(a, b, 1, 3)
#define LNN_WHOLE_f32(a, b) LNN_SHUFFLE(a, b, 0, 1, 2, 3, 4, 5, 6, 7)
#define LNN_WHOLE_f64(a, b) LNN_SHUFFLE(a, b, 0, 1, 2, 3)

typedef struct {
    char at[LNN_CAP * LNN_BYTES] __attribute__((aligned(64)));
} lnn_room;

/* `lanes` planes, `pitch` numbers apart, `far` if no cache holds the array; `held` if they were turned whole. `row` and `batch` are
 * rooms to work in. */
typedef struct {
    const void *from;
    int64_t pitch, lanes;
    int far;
    const lnn_room *held;
    lnn_room *row, *batch;
} lnn_lanes;

/* How many of window p's cells are from `from` to below `to`, and the first of them. */
LNN_INLINE int64_t lnn_part(const lnn_axis *a, int64_t p, int64_t from, int64_t to, int64_t *cell) {
    int64_t n = a->count[p], first = a->first[p];
    if (first < from) {
        const int64_t skipped = (from - first + a->step - 1) / a->step;
        first += skipped * a->step;
        n -= skipped;
    }
    *cell = first;
    if (n > 0 && first + (n - 1) * a->step >= to) n = first < to ? (to - 1 - first) / a->step + 1 : 0;
    return n;
}

/* The windows of the cells f, f + stride, f + 2 stride, …: windows m + least + offset[i] for the m-th of them, i from
 * begin[f] to begin[f + 1], ascending; all offsets are from 0 to `span`. */
typedef struct {
    int64_t least, span;
    int64_t begin[LNN_STRIDE + 1];
    int64_t offset[LNN_SPAN];
} lnn_phases;

static inline void lnn_find_phases(const lnn_axis *a, lnn_phases *h) {
    int64_t n = 0, most = 0;
    h->least = 0;
    for (int64_t f = 0; f < a->stride; f++) {
        h->begin[f] = n;
        for (int64_t t = a->kernel - 1; t >= 0; t--) {
            const int64_t distance = f - a->start - t * a->step;
            if (distance % a->stride) continue;
            const int64_t offset = distance / a->stride;
            h->offset[n++] = offset;
            if (n == 1 || offset < h->least) h->least = offset;
            if (n == 1 || offset > most) most = offset;
        }
    }
    h->begin[a->stride] = n;
    h->span = most - h->least;
    for (int64_t i = 0; i < n; i++) h->offset[i] -= h->least;
}

#define real float
#define whole int32_t
#define T(name) name##_f32
#define LANES (LNN_BYTES / 4)
#define SIDE (16 / 4)   /* numbers in 16 bytes */
#include "pool_tile.h"
#include "pool_max.h"
#include "pool_sum.h"
#include "pool_spread.h"
#include "pool_lanes.h"
#undef real
#undef whole
#undef T
#undef LANES
#undef SIDE

#define real double
#define whole int64_t
#define T(name) name##_f64
#define LANES (LNN_BYTES / 8)
#define SIDE (16 / 8)
#include "pool_tile.h"
#include "pool_max.h"
#include "pool_sum.h"
#include "pool_spread.h"
#include "pool_lanes.h"
#undef real
#undef whole
#undef T
#undef LANES
#undef SIDE

/* The lanes' kernels of one number type, so that what leads them is there once. */
typedef struct {
    int64_t item;
    void (*in)(const void *, int64_t, int64_t, int64_t, int, void *);
    void (*out)(const void *, int64_t, int64_t, void *, int64_t);
    void (*sum)(const lnn_lanes *, const lnn_axis *, const int64_t *, int64_t, int64_t, int64_t, int64_t, int64_t,
                int64_t, void *);
    void (*divide)(int64_t, int64_t, double, const int64_t *, void *);
    void (*spread)(const lnn_lanes *, const lnn_axis *, const int64_t *, const double *, int64_t, int64_t, int,
                   const int64_t *, int64_t, int64_t, void *);
} lnn_lanes_kind;

static const lnn_lanes_kind lnn_lanes_kinds[2] = {
    {4, lnn_lanes_in_f32, lnn_lanes_out_f32, lnn_lanes_sum_f32, lnn_lanes_divide_f32, lnn_lanes_spread_f32},
    {8, lnn_lanes_in_f64, lnn_lanes_out_f64, lnn_lanes_sum_f64, lnn_lanes_divide_f64, lnn_lanes_spread_f64}};

typedef struct {
    int64_t item;
    void (*in)(const void *, int64_t, int64_t, int64_t, int, void *);
    void (*out)(const void *, int64_t, int64_t, void *, int64_t);
    void (*none)(const lnn_axis *, int64_t, int64_t, int64_t, void *, void *);
    void (*max)(const lnn_lanes *, const lnn_axis *, const int64_t *, int64_t, int64_t, int64_t, int64_t, int64_t, int,
                void *, void *);
    void (*beside)(const lnn_lanes *, const void *, int64_t, int, int64_t, void *, int64_t);
} lnn_max_kind;

static const lnn_max_kind lnn_max_kinds[2] = {
    {4, lnn_lanes_in_f32, lnn_lanes_out_f32, lnn_lanes_none_f32, lnn_lanes_max_f32, lnn_lanes_beside_f32},
    {8, lnn_lanes_in_f64, lnn_lanes_out_f64, lnn_lanes_none_f64, lnn_lanes_max_f64, lnn_lanes_beside_f64}};

/* Whether the tiles serve this axis: alike windows, narrow enough, worth a register, its cells counted in 31 bits. */
static inline int lnn_tiles_fit(const lnn_axis *a, int64_t lanes) {
    const int64_t most = INT32_MAX / 4;
    if (a->stride < 1 || a->kernel > LNN_SPAN || a->stride > LNN_SPAN || a->step > LNN_SPAN) return 0;
    if (a->start < -most || a->outputs > most / a->stride || a->size > most) return 0;
    return a->outputs >= 2 && (lanes - 1) * a->stride + (a->kernel - 1) * a->step + 1 <= LNN_SPAN;
}

/* Whether LNN_CELLS cells of a row are covered by few enough windows for the transpose's buffers. */
static inline int lnn_spread_fits(const lnn_axis *a) {
    if (a->stride < 1 || a->stride > LNN_STRIDE || a->kernel > LNN_SPAN || a->step > LNN_SPAN) return 0;
    return a->outputs >= 2 && (a->kernel - 1) * a->step / a->stride < LNN_SPAN - 1;
}

#pragma GCC pop_options

#endif
