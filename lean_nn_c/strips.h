/* Convolution of few channels along strips: what runs in registers. See _strips.pxd for the derivation.
 *
 * A *strip* is a small padded copy of some rows of a few channels, split by stride phase, in the first-level cache. On it every
 * kernel cell is a constant offset, and every output is a sum of terms  a[k] * strip[place + b[k]].  Outputs are taken
 * as vectors of neighbours of one row, each anywhere: a *sweep* lists for every vector where it reads (`at`) and
 * where it is stored (`to`), so that one text serves every rank, stride, dilation and row length. `mr` output channels
 * by `nv` vectors stay in registers while the terms pass: one row takes its eight vectors from memory term by
 * term, six rows share two.
 *
 * A row that is no multiple of a vector ends with a vector that overlaps the one before. Rows shorter than a vector are stored
 * whole where the rest falls into rows that are stored later, else cell by cell.
 *
 * One text for all widths and both types: strips_real.h is included once per type.
 */
#ifndef LNN_STRIPS_H
#define LNN_STRIPS_H

#include "simd.h"

enum { LNN_PHASES = 8 };             /* most phases of the last axis */

typedef struct {                     /* how one channel's rows come into the strip */
    int64_t rows, *src, *dst;        /* where a row with real cells begins, in the source and in the strip */
    int64_t phases, plane;           /* of the last axis, and their distance in the strip */
    int64_t step, spread;            /* strip cell low + spread*i of a row is the source's cell first + step*i */
    int64_t first[LNN_PHASES], low[LNN_PHASES], count[LNN_PHASES];
} lnn_copies;

typedef struct {                     /* a product: its terms, and the vectors of its outputs */
    int64_t terms, *a, *b;           /* offsets of weight and strip */
    int64_t vectors, *at, *to;       /* offsets in the strip and in the result; repeated up to a multiple of a tile */
    int64_t width, limit;            /* cells of a result's row; cells of the result that are this strip's */
} lnn_sweep;

/* Vectors of a tile of m rows: m*nv sums and what they are made of fit 16 registers. */
static inline int lnn_abreast(int64_t m) { return m == 1 ? 8 : m == 2 ? 6 : m == 3 ? 4 : m == 4 ? 3 : 2; }

#define LNN_T float
#define LNN_INT int32_t
#define LNN_SIZE 4
#define LNN_SUFFIX f32
#include "strips_real.h"
#undef LNN_T
#undef LNN_INT
#undef LNN_SIZE
#undef LNN_SUFFIX

#define LNN_T double
#define LNN_INT int64_t
#define LNN_SIZE 8
#define LNN_SUFFIX f64
#include "strips_real.h"
#undef LNN_T
#undef LNN_INT
#undef LNN_SIZE
#undef LNN_SUFFIX

#endif
