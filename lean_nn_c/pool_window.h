/* One axis of windows, as lean_nn/window.py describes it; shared by the Cython cursors and the row kernels. */
#ifndef LNN_POOL_WINDOW_H
#define LNN_POOL_WINDOW_H

#include <stdint.h>

typedef struct {
    int64_t size, outputs;     /* cells and windows */
    int64_t step;              /* distance of a window's cells */
    int64_t stride;            /* distance of windows, 0: irregular */
    int64_t start, kernel;     /* first cell (may lie before the axis) and cells of window 0 */
    int64_t pitch;             /* elements between neighbouring cells */
    int64_t out_pitch;         /* elements between neighbouring outputs */
    const int64_t *first, *count, *divisor, *begin;   /* per window */
    const int64_t *low, *high;                        /* per cell: the windows that may hold it */
} lnn_axis;

#endif
