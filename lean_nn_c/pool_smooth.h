/* The loops of smooth max pooling over a block of outputs, for both number types; pool_soft.h is the text.
 *
 * Every term is exp of a number that is at most 0, so it is in [0, 1] with an error of at most 1 ulp (vmath.h) and of
 * what the rounding of its argument t = beta (v - top) makes, |t| exp(t) u <= 0.37 u: nothing is lost by computing
 * in the type of the data. */
#ifndef LNN_POOL_SMOOTH_H
#define LNN_POOL_SMOOTH_H

#if defined(__FMA__) || defined(__FP_FAST_FMAF)
#define LNN_FUSED        /* exp and log bit by bit as kernels.cu has them */
#endif
#include "pool_rows.h"
#include "vmath.h"

#define LNN_SOFT 64      /* outputs of a block */
enum { LNN_TOP, LNN_ADD, LNN_SHARE };

/* The cell of tap j of output p, -1 where there is none. */
static inline int64_t lnn_soft_place(const lnn_axis *a, int64_t j, int64_t p) {
    if (a->stride < 1) return j < a->count[p] ? a->first[p] + j * a->step : -1;
    const int64_t at = a->start + p * a->stride + j * a->step;
    return at >= 0 && at < a->size ? at : -1;
}

#define real float
#define whole int32_t
#define T(name) name##_f32
#define LANES (LNN_BYTES / 4)
#include "pool_soft.h"
#undef real
#undef whole
#undef T
#undef LANES

#define real double
#define whole int64_t
#define T(name) name##_f64
#define LANES (LNN_BYTES / 8)
#include "pool_soft.h"
#undef real
#undef whole
#undef T
#undef LANES

#endif
