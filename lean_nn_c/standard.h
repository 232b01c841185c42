/* Standardisation of groups, and its slopes, each with as few passes over memory as there can be.
 *
 * An array is seen as (A, G, B): a group g has the n = A·B elements x[a][g][b]. With m(v) the mean over the group,
 * z = (x − μ)·r, and a factor w and a term b per group (1 and 0 where they are not given):
 *
 *     forward   y = w·z + b,  μ = m(x),  r = 1/√(m((x − μ)²) + ε)
 *     slope     out = w·r·(t − m(t) − z·m(z·t)) + (ḡ_μ − ḡ_r·r²·z)/n
 *
 * The slope is the forward derivative (t a tangent, ḡ = 0) and the reverse one (t a cotangent). Written out it is
 * p·t + q + s·(x − μ) with p, q and s constant over the group: one pass for Σ t and Σ t·(x − μ), one for the result, which finds
 * its group still in the cache. Where z itself is at hand it takes the place of x, with μ = 0.
 *
 * Where groups are rows (way UNITS, no W) more may run in the same passes. Forward: `other` is added to y, and with `relu` what is
 * not positive becomes 0; given mean and rstd, nothing is summed. Slope: `other` is added to t, and with `relu` it is 0 where `gate`
 * is not positive, or without a gate where y = w·z + b is not; that t is at `kept` afterwards (else in y, on the way).
 *
 * Statistics take one pass: a piece of up to PIECE bytes, which stays in the first cache, gets its mean and then its
 * squares around that; pieces are merged in double by (n₁, μ₁, S₁) + (n₂, μ₂, S₂) = (n, μ₁ + δ·n₂/n, S₁ + S₂ + δ²·n₁·n₂/n),
 * δ = μ₂ − μ₁. No cancellation: every term is a square.
 *
 * Variances alone take the statistics' pass, with the means of pieces corrected by Σ (x − μ), and their tangents 2·Σ t·(x − μ)/left that of the slope's sums. As μ is rounded, its
 * error would meet Σ t; so they are Σ t·(x − μ) − m(t)·Σ (x − μ), which is the same whatever stands for μ.
 *
 * Sums of a piece run in fixed lanes (128 bytes of them, whatever the vector width), added as a tree. A unit of work is up
 * to LNN_SIDE neighbouring groups, LNN_UNIT elements or one group (B = 1: columns, added side by side); it is fixed by the shape, so the
 * bits do not depend on threads. Where a group is shared by several tasks (columns of many rows, factors that vary inside a
 * group) their sums wait in scratch, for at most LNN_BLOCKS of them; elsewhere the stack is enough. Where x has a tangent v, a task
 * is followed by that of the slope on the same unit, which finds it in the cache; columns have the slope's phases after their own.
 */
#ifndef LNN_STANDARD_H
#define LNN_STANDARD_H

#include <math.h>

#include "hot.h"
#include "part.h"

enum { LNN_PIECE = 4096, LNN_UNIT = 512, LNN_SIDE = 128, LNN_STRIP = 1024, LNN_STRIP_ROWS = 32, LNN_BLOCKS = 32 };

typedef struct {
    ptrdiff_t A, G, B;
    double eps;
    int tangents;               /* which pair `first` and `second` of a slope are */
    int relu;
    ptrdiff_t S, W;             /* W > 0 (then A is 1): w and b have W numbers, element e of the array the (e / S mod W)-th */
    ptrdiff_t rows, blocks;     /* what a task takes of A, or of the samples of W·S elements, where partial results wait in scratch */
    void *scratch;
    double left;                /* of variances alone: second, unless it is NULL, = Σ (x − μ)²/left, where there is a v its tangent, no y */
    int alone;
    /* arrays or NULL, in the order of ROLES (reduce.pyx); without a mean z is given in place of x */
    const void *x, *t, *mean, *rstd, *w, *b, *g_mean, *g_rstd;
    void *y, *first, *second;   /* forward: mean and rstd; slope: Σ t and Σ t·z, or the tangents of mean and rstd */
    const void *v, *w_dot, *b_dot; /* forward: the tangents of x, w and b; then those of the results: */
    void *y_dot, *first_dot, *second_dot;
    const void *other, *gate;
    void *kept;
} lnn_standard;

enum { LNN_ROLES = 20 };
static inline void lnn_standard_set(lnn_standard *job, int role, void *array) {
    memcpy((char *)job + offsetof(lnn_standard, x) + (size_t)role * sizeof array, &array, sizeof array);
}

typedef void (*lnn_standard_run)(const lnn_standard *job, int phase, ptrdiff_t task);
/* the job of the tangents, for which the forward one has the results ready; without factors z itself is at hand */
static inline lnn_standard lnn_standard_dual(const lnn_standard *job) {
    lnn_standard own = *job;
    own.t = job->v, own.rstd = job->second, own.tangents = 1, own.b = own.v = NULL;
    if (job->y) own.x = job->w ? job->x : job->y;
    own.mean = job->w || !job->y ? job->first : NULL;
    own.y = job->y_dot, own.first = job->first_dot, own.second = job->second_dot;
    return own;
}

typedef enum { LNN_UNITS, LNN_STRIPS, LNN_FEATURES } lnn_way;

static inline lnn_way lnn_standard_way(const lnn_standard *job) {
    if (job->W) return job->t && !job->tangents ? LNN_FEATURES : LNN_UNITS;
    return job->B == 1 ? LNN_STRIPS : LNN_UNITS;
}

/* groups of a unit: as many as lie within LNN_UNIT elements */
static inline ptrdiff_t lnn_standard_side(ptrdiff_t B) {
    const ptrdiff_t side = B < LNN_UNIT ? LNN_UNIT / B : 1;
    return side < LNN_SIDE ? side : LNN_SIDE;
}
static inline ptrdiff_t lnn_standard_units(ptrdiff_t G, ptrdiff_t B) {
    return (G + lnn_standard_side(B) - 1) / lnn_standard_side(B);
}
/* cut the rows (or samples) into blocks, LNN_BLOCKS at most, and fewer where features are many; bytes of scratch */
static inline size_t lnn_standard_plan(lnn_standard *job, size_t item) {
    const lnn_way way = lnn_standard_way(job);
    const ptrdiff_t rows = way == LNN_STRIPS ? job->A : way == LNN_FEATURES ? job->G * job->B / (job->W * job->S) : 0;
    ptrdiff_t most = LNN_BLOCKS, unit = 1;
    if (way == LNN_UNITS || rows == 0) { job->blocks = 0; return 0; }
    if (way == LNN_STRIPS) unit = LNN_STRIP_ROWS;
    else if (131072 / job->W < most) most = 131072 / job->W > 4 ? 131072 / job->W : 4;
    job->rows = ((rows + most - 1) / most + unit - 1) / unit * unit;
    job->blocks = (rows + job->rows - 1) / job->rows;
    return (size_t)job->blocks * (way == LNN_STRIPS ? (size_t)job->G * 24 : 2 * (size_t)job->W * (8 + item));
}

/* how many tasks a phase has; 0 when all is done */
static inline ptrdiff_t lnn_standard_tasks(const lnn_standard *job, int phase) {
    const ptrdiff_t strips = (job->G + LNN_STRIP - 1) / LNN_STRIP;
    switch (lnn_standard_way(job)) {
    case LNN_STRIPS:
        if (phase > 2 && job->v) phase -= 3;
        return phase > 2 ? 0 : phase == 1 ? strips : strips * job->blocks;
    case LNN_FEATURES: return phase > 1 ? 0 : phase == 1 ? (job->W + LNN_SIDE - 1) / LNN_SIDE : job->blocks * (job->W * job->S / job->B);
    default: return phase > 0 ? 0 : lnn_standard_units(job->G, job->B);
    }
}
static inline int lnn_standard_groups(const lnn_standard *job, ptrdiff_t first) {
    const ptrdiff_t side = lnn_standard_side(job->B), left = job->G - first;
    return (int)(left < side ? left : side);
}

#define LNN_T float
#define LNN_SIZE 4
#define LNN_SUFFIX f32
#include "standard_real.h"
#undef LNN_T
#undef LNN_SIZE
#undef LNN_SUFFIX

#define LNN_T double
#define LNN_SIZE 8
#define LNN_SUFFIX f64
#include "standard_real.h"
#undef LNN_T
#undef LNN_SIZE
#undef LNN_SUFFIX

#pragma GCC pop_options
#endif
