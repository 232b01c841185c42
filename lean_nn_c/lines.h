/* Sums of lines in a fixed order, and exp of shifted lines: what sum, logsumexp, softmax and log_softmax are made of.
 *
 * The bits of a sum depend on its length alone, not on threads or vector width. A contiguous line is cut into chunks of
 * LNN_CHUNK; a chunk is added into 32 interleaved lanes, these are added as a tree, and the chunks pairwise. Columns are
 * added LNN_GROUP rows at a time, the groups pairwise. A result therefore collects at most 31 + ⌈log₂(n/32)⌉ roundings
 * (`reduce.roundings`), not n.
 *
 * The shift of an exponential is its line's maximum, so none overflows and at least one term is 1. A NaN in a line makes all
 * its results NaN. Lines are contiguous, or up to LNN_COLUMNS of them lie side by side. Stack only: 8 kB, and 72 kB for short lines. With p = exp(x)/Σ exp(x):
 *
 *     LOGSUMEXP    log Σ exp(x)                        SOFT_SLOPE    x·(t − Σ x·t), x a softmax
 *     SOFTMAX      p                                   UNLOG         t − exp(x)·Σ t, x a log-softmax
 *     LOG_SOFTMAX  log p                               EXPECT        Σ p·t
 *     CROSS        −Σ q·log p                          CROSS_BACK    (p − q)·g/count
 *     NLL          −x at the class                     NLL_BACK      −g/count at the class, else 0
 *
 * LOGSUMEXP, LOG_SOFTMAX and CROSS give their tangents as well where there is a t: Σ p·t, t − Σ p·t, and Σ p·t − Σ q·t.
 * q has 1 − smooth at the line's class beside smooth/n everywhere; a line whose class is `ignore` gives 0.
 */
#ifndef LNN_LINES_H
#define LNN_LINES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "hot.h"
#include "part.h"
#include "vmath.h"

enum { LNN_LANES = 32, LNN_CHUNK = 512, LNN_GROUP = 32, LNN_COLUMNS = 128, LNN_SHORT = 24, LNN_ABREAST = 8 };
typedef enum {
    LNN_LOGSUMEXP, LNN_SOFTMAX, LNN_LOG_SOFTMAX, LNN_SOFT_SLOPE, LNN_UNLOG, LNN_EXPECT, LNN_CROSS, LNN_CROSS_BACK, LNN_NLL, LNN_NLL_BACK
} lnn_soft;

typedef struct {
    ptrdiff_t n, inner;         /* lines of n, `inner` of them side by side */
    int kind, one;              /* lnn_soft; whether g is one number for all lines */
    double smooth, count;
    int64_t ignore;
    const void *x, *t, *g;      /* t and g may be NULL, where the kind has none */
    const void *even;           /* Σ t of each line, where they are at hand, or NULL */
    const int64_t *idx;         /* classes, or NULL */
    void *y, *dot;              /* dot: the tangents of y, or NULL */
} lnn_lines;

typedef void (*lnn_soft_run)(const lnn_lines *job, ptrdiff_t outer, ptrdiff_t task);

/* whether a kind gives one number per line */
static inline int lnn_soft_single(int kind) { return kind == LNN_LOGSUMEXP || kind == LNN_EXPECT || kind == LNN_CROSS; }

/* whether a kind wants the logarithm of the sum */
static inline int lnn_soft_logs(int kind) { return kind == LNN_LOGSUMEXP || kind == LNN_LOG_SOFTMAX || kind == LNN_CROSS; }

/* whether contiguous lines are set side by side; else how many of them a task takes: few enough for the first cache */
static inline int lnn_soft_side(const lnn_lines *job) { return job->inner == 1 && job->n <= LNN_SHORT; }
static inline ptrdiff_t lnn_soft_abreast(const lnn_lines *job) { return job->n <= LNN_CHUNK ? LNN_ABREAST : 1; }
static inline ptrdiff_t lnn_soft_tasks(const lnn_lines *job, ptrdiff_t outer) {
    const ptrdiff_t most = lnn_soft_side(job) ? LNN_COLUMNS : lnn_soft_abreast(job);
    return job->inner == 1 ? (outer + most - 1) / most : outer * ((job->inner + LNN_COLUMNS - 1) / LNN_COLUMNS);
}

/* how many of n classes are not `ignore` */
static ptrdiff_t lnn_counted(const int64_t *idx, ptrdiff_t n, int64_t ignore) {
    ptrdiff_t found = 0;
    for (ptrdiff_t i = 0; i < n; i++) found += idx[i] != ignore;
    return found;
}

/* About half of n, in whole units. */
static inline ptrdiff_t lnn_half(ptrdiff_t n, ptrdiff_t unit) { return ((n + unit - 1) / unit + 1) / 2 * unit; }

#define LNN_T float
#define LNN_SIZE 4
#define LNN_SUFFIX f32
#include "lines_real.h"
#undef LNN_T
#undef LNN_SIZE
#undef LNN_SUFFIX

#define LNN_T double
#define LNN_SIZE 8
#define LNN_SUFFIX f64
#include "lines_real.h"
#undef LNN_T
#undef LNN_SIZE
#undef LNN_SUFFIX

#pragma GCC pop_options
#endif
