/* Convolution of few channels along strips: what runs in registers. _strips.pxd derives it and makes the lists.
 *
 * A *strip* is a small padded copy of some rows of a few channels, split by stride phase, in the first-level cache. On
 * it every kernel cell is a constant offset, and every output is a sum of terms  a[k] * strip[place + b[k]].  Outputs
 * are taken as vectors of neighbours of one row, each anywhere: a *sweep* lists for every vector where it reads (`at`)
 * and where it is stored (`to`), so that one text serves every rank, stride, dilation and row length. `mr` output
 * channels by `nv` vectors stay in registers while the terms pass.
 *
 * A single output channel has nothing to share a loaded vector with but its own neighbours: a *tall tile* is one vector
 * of eight rows below each other. A *run* of taps below each other passes over it together: its weights stay in
 * registers, and each row of the strip is read once for all of them, 8 + n - 1 loads for 8*n multiply-adds. That needs
 * the rows of a tile as far apart as the taps of a run are, which the lists see to.
 *
 * A row that is no multiple of a vector ends with a vector that overlaps the one before. Rows shorter than a vector are
 * stored whole where the rest falls into rows that are stored later, else cell by cell.
 *
 * Each sum is one chain in the order of the terms: its bits depend neither on the tile nor on what else is computed.
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
    int64_t pairs;                   /* whether two phases take turns along all of a source row */
    int64_t first[LNN_PHASES], low[LNN_PHASES], count[LNN_PHASES];
} lnn_copies;

enum { LNN_TALL = 8, LNN_RUN = 7 };  /* rows of a tall tile, taps of a run: with a cell they fill 16 registers */

typedef struct {
    int64_t a, b, taps;              /* first weight, first offset in the strip, taps */
} lnn_run;

typedef struct {                     /* a product: its terms per channel, and the vectors of its outputs */
    int64_t terms, *a, *b;           /* offsets of weight and strip */
    int64_t runs, a_step, b_step;    /* tall tiles: their terms in runs, and the steps within one */
    lnn_run *run;
    int64_t vectors, *at, *to;       /* offsets in the strip and in the result; repeated up to a multiple of a tile */
    int64_t live, to_step;           /* tall tiles: rows of each (0: not tall), and their distance in the result */
    int64_t width, limit;            /* cells of a result's row; cells of the result that a short row may spill into */
    const char *next[3];             /* tall tiles: what the next plane reads, writes, and adds in the end, */
    int64_t share[3];                /* and the bytes of it to call into the cache per vector */
} lnn_sweep;

/* A plane is read at one go and written at another: caches do not foresee that, and the processor would wait for both. */
LNN_INLINE void lnn_call_in(const lnn_sweep *s, int64_t vector)
{
#pragma GCC unroll 1
    for (int k = 0; k < 3; k++)
        for (int64_t i = 0; i < s->share[k]; i += 64) lnn_prefetch(s->next[k] + vector * s->share[k] + i);
}

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
