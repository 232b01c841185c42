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

/* Output rows one below the other whose windows differ by a constant distance only: outputs p0 to p1 of each. */
typedef struct {
    const lnn_axis *axis;      /* the last one */
    int64_t p0, p1;
    const int64_t *rows;       /* the input rows under the first output row, ascending offsets from x */
    int64_t n_rows;
    int64_t run, advance;      /* output rows, and the distance of their input rows */
    int64_t places;            /* the same distance in the plane */
    int64_t wrap, height;      /* output rows to the plane's end, and of every plane after it */
    int64_t before, after;     /* numbers that may be read before x, and from x on */
    int64_t room;              /* outputs that may be written from the first row's y on, and are the caller's */
    int want;                  /* beside the maxima: LNN_NOTHING, LNN_PLACES, LNN_TANGENTS */
    int64_t apart;             /* numbers from a cell to its tangent */
} lnn_band;

enum { LNN_NOTHING, LNN_PLACES, LNN_TANGENTS };

/* Input rows that lie under output rows in the same way, at a constant distance: cells j0 to j1 of each. */
typedef struct {
    const lnn_axis *axis;      /* the last one */
    int64_t j0, j1;            /* j0 begins a period of the axis */
    const int64_t *rows;       /* the output rows above the first input row, ascending offsets from y_bar */
    int64_t n_rows;
    int even;                  /* whether their windows have one divisor */
    int64_t run, advance;      /* input rows, and the distance of their output rows */
    int64_t pitch;             /* the distance of the input rows themselves */
    int64_t copies, copy;      /* rows that get the same, and their distance */
    int ordered;               /* whether the row after the last copy is computed later, or by nobody */
    int64_t after;             /* numbers that may be read from y_bar on */
    int64_t room;              /* cells that may be written from cell j0 of the first row on, and are the caller's */
} lnn_cover;

/* How far the t-th row's places are from those of the first. */
static inline int64_t lnn_place(const lnn_band *b, int64_t t) {
    return (t < b->wrap ? t : (t - b->wrap) % b->height - (b->height - b->wrap)) * b->places;
}

/* A band's rows cut into `count` tiles of `n` outputs; a short last one is moved back to end with the row, at `last`.
 * The tiles from `low` to below `high` have all their cells real, and in the first `run` rows their idle lanes, if any,
 * may be read and written. The other tiles are edges. */
typedef struct {
    int64_t n, count, last, low, high, run;
} lnn_tiles;

/* The output that tile i begins at. */
static inline int64_t lnn_tile_at(const lnn_band *b, const lnn_tiles *c, int64_t i) {
    const int64_t p = b->p0 + i * c->n;
    return p < c->last ? p : c->last;
}

static inline lnn_tiles lnn_cut(const lnn_band *b, int64_t lanes) {
    const lnn_axis *a = b->axis;
    const int64_t outputs = b->p1 - b->p0;
    lnn_tiles c = {lanes, (outputs + lanes - 1) / lanes, b->p1 - lanes, 0, 0, b->run};
    if (outputs < lanes) {
        const int64_t end = b->rows[b->n_rows - 1] + a->start + (b->p1 - 1) * a->stride + (a->kernel - 1) * a->step + 1;
        c.n = outputs;
        c.last = b->p0;
        while (c.run > 0 && ((c.run - 1) * b->advance + end + (lanes - outputs) * a->stride > b->after ||
                             (c.run - 1) * a->outputs + b->p0 + lanes > b->room)) c.run--;
    }
    c.high = c.count;
    while (c.low < c.high && lnn_tile_at(b, &c, c.low) < a->inside_low) c.low++;
    while (c.low < c.high && lnn_tile_at(b, &c, c.high - 1) + c.n > a->inside_high) c.high--;
    return c;
}

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
