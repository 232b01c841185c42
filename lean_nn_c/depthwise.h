/* Depthwise convolution straight from the image: what runs in registers. _depthwise.pxd derives it and makes the plan.
 *
 * A vector is some neighbouring results of one row. What a kernel cell multiplies them by lies somewhere in the image, a constant
 * offset away; lanes that would leave the image are switched off by a mask. So nothing is copied: a small plane's padded copy
 * takes longer than its products, as the processor waits for cells that it has only just written.
 *
 * A *tile* is n vectors below each other. A *run* of kernel rows passes over it together: each row of the image is loaded once per
 * kernel column, n + 2 loads for 3*n multiply-adds. That needs results as far apart as the kernel's rows are; else each has
 * loads of its own. Where there are registers for nine weights, a run of three columns goes row by row, and each place is looked up
 * once.
 *
 * The gradient of the weight meets the same vectors: a sum per kernel cell, three by three of them in registers, while the
 * results' rows pass by.
 *
 * One text for all widths and both types: depthwise_real.h is included once per type.
 */
#ifndef LNN_DEPTHWISE_H
#define LNN_DEPTHWISE_H

#include "part.h"

enum { LNN_DEPTH_RUN = 3, LNN_DEPTH_TILE = 7 };     /* kernel rows, or columns, at a time; rows of the tallest tile */

/* How a tile goes. Where there are registers for nine weights, all but the first serve 3 x 3 alone. */
typedef enum {
    LNN_DEPTH_ANY,      /* kernel row by kernel row */
    LNN_DEPTH_SHARED,   /* runs of rows share what they load, */
    LNN_DEPTH_SLID,     /* and one vector has what all columns see; floats of the widest vectors alone */
    LNN_DEPTH_OWN       /* one vector has it, but each row of the kernel loads its own */
} lnn_depth_kind;

/* Where a vector begins, from the plane's first cell, and its masks: one, or one per kernel column. */
typedef struct { int64_t at; const char *mask; } lnn_place;

typedef struct {
    int64_t columns, column_step;   /* of the kernel: how many, and how many cells of the image apart */
    int64_t rows;                   /* of the kernel, on all its axes before the last */
    const int64_t *row;             /* places of the image from a result's first one to the one that each row meets, */
    const int64_t *run;             /* and how many rows, of those from each on, go together: 1 or LNN_DEPTH_RUN */
    int64_t step;                   /* places from a tile's row to the next, */
    int64_t shared;                 /* and whether a run's rows are as far apart */
    lnn_depth_kind kind;
} lnn_depth;

#define LNN_T float
#define LNN_SIZE 4
#define LNN_SUFFIX f32
#include "depthwise_real.h"
#undef LNN_T
#undef LNN_SIZE
#undef LNN_SUFFIX

#define LNN_T double
#define LNN_SIZE 8
#define LNN_SUFFIX f64
#include "depthwise_real.h"
#undef LNN_T
#undef LNN_SIZE
#undef LNN_SUFFIX

#endif
