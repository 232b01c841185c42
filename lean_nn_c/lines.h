/* Sums of lines in a fixed order, and exp of shifted lines: what sum, logsumexp, softmax and log_softmax are made of.
 *
 * The bits of a sum depend on its length alone, not on threads or vector width. A contiguous line is cut into chunks of
 * LNN_CHUNK; a chunk is added into 32 interleaved lanes, these are added as a tree, and the chunks pairwise. Columns are
 * added LNN_GROUP rows at a time, the groups pairwise. A result therefore collects at most 31 + ⌈log₂(n/32)⌉ roundings
 * (`reduce.roundings`), not n.
 *
 * The shift of an exponential is its line's maximum, so none overflows and at least one term is 1. A NaN in a line makes all
 * its results NaN. Lines are contiguous, or up to LNN_COLUMNS of them lie side by side. Stack only: 6 kB.
 */
#ifndef LNN_LINES_H
#define LNN_LINES_H

#include "simd.h"
#include "vmath.h"

enum { LNN_LANES = 32, LNN_CHUNK = 512, LNN_GROUP = 32, LNN_COLUMNS = 128 };
typedef enum { LNN_LOGSUMEXP, LNN_SOFTMAX, LNN_LOG_SOFTMAX } lnn_soft;

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

#endif
