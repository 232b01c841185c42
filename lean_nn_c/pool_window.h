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
    int64_t inside_low, inside_high;   /* the windows with all their cells real, where windows are alike */
    const int64_t *first, *count, *divisor, *begin;   /* per window */
    const int64_t *low, *high;                        /* per cell: the windows that may hold it */
} lnn_axis;

/* The outputs p with every tap inside the axis: low <= p < high (none: low == high). */
static inline void lnn_inside(lnn_axis *a) {
    int64_t taps = (a->kernel - 1) * a->step, room = a->size - 1 - taps - a->start;
    a->inside_low = a->inside_high = 0;
    if (a->stride < 1 || room < 0) return;
    a->inside_low = a->start >= 0 ? 0 : (-a->start + a->stride - 1) / a->stride;
    a->inside_high = room / a->stride + 1;
    if (a->inside_high > a->outputs) a->inside_high = a->outputs;
    if (a->inside_low >= a->inside_high) a->inside_low = a->inside_high = 0;
}

#endif
