/* Convolution and pooling on CUDA: one text for every number type, rank and width of index.
 *
 *   -DLNN_T=float|double      the numbers
 *   -DLNN_D=1, 2, ...         spatial axes
 *   -DLNN_I=int|wide          what counts elements
 *
 * One thread writes one element, and walks on by the size of the grid; no two threads write the same one, nothing is
 * shared, nothing is atomic. So every sum is taken in one fixed order and the bits do not depend on the launch. Where
 * the mathematics scatters (the transposes), a thread gathers: it visits the windows that hold its cell.
 *
 * Pooling has the CPU's bits: sums in its order, divisions where it divides, its exp and log (vmath.h, whose text
 * launch.py puts here), and -fmad=false, so that nothing is fused but what says so.
 *
 * Loops over axes are unrolled (LNN_D is a constant), so the small arrays live in registers. NVRTC has no headers:
 * nothing here needs one. The launcher (launch.py) fills the struct and knows the order of the arguments. */

#define LNN_FUSED
#include "vmath.h"
#include "windows.h"

/* ------------------------------------------------------------------------------------------------ maximum */

/* The first maximum in row-major order, the first NaN if there is one; 0 and -1 without a cell. */
template <class Window, bool PLACES>
__device__ static inline void max_pool(const Geometry &g, I count, const T *x, T *y, long long *idx) {
    const I size = product(g.in);
    EACH(i, count) {
        I p[D];
        const T *plane = x + split(i, g.out, p) * size;
        Cells<Window> cells(g, p);
        T best = 0;
        I at = -1;
        if (cells.real > 0) {
            at = cells.place(g);
            best = plane[at];
            while (cells.next()) {
                const I here = cells.place(g);
                const T v = plane[here];
                if (!(best >= v) && best == best) {
                    best = v;
                    at = here;
                }
            }
        }
        y[i] = best;
        if (PLACES) idx[i] = at;
    }
}

/* y = x[idx], 0 at -1: the derivative of max pooling along a tangent. */
KERNEL gather_at(I count, I windows, I size, const T *x, const long long *idx, T *y) {
    EACH(i, count) {
        const I at = (I)idx[i];
        y[i] = at < 0 ? (T)0 : x[i / windows * size + at];
    }
}

/* Its transpose, where idx are winners of these windows: a cell asks the windows that hold it whether it won. */
template <class Window>
__device__ static inline void scatter_winners(const Geometry &g, I count, const T *y_bar, const long long *idx, T *x_bar) {
    const I windows = product(g.out), size = product(g.in);
    EACH(i, count) {
        I j[D];
        const I begin = split(i, g.in, j) * windows;
        Cover<Window> cover(g, j);
        T sum = 0;
        if (cover.some) do {
            const I at = begin + join(cover.p, g.out);
            if (idx[at] == i % size) sum += y_bar[at];
        } while (cover.next());
        x_bar[i] = sum;
    }
}

/* Its transpose for any indices, sorted beforehand: terms bounds[r] to bounds[r + 1] of `order` belong to cell r. Data are
 * (outer, k, inner), results (outer, n, inner). */
KERNEL segment_sum(I count, I n, I k, I inner, const T *terms, const long long *order, const long long *bounds, T *sums) {
    EACH(i, count) {
        const I column = i % inner, r = i / inner % n, outer = i / inner / n;
        T sum = 0;
        for (long long s = bounds[r]; s < bounds[r + 1]; s++) sum += terms[(outer * k + (I)order[s]) * inner + column];
        sums[i] = sum;
    }
}

/* ------------------------------------------------------------------------------------------------ average */

/* Sums are taken as pool_average.pyx takes them: a plane that is one window in PARTS interleaved parts; where the windows
 * of the last axis are `alike`, one of at most ROWS rows column by column; any other cell by cell. */
enum { PARTS = 32 / sizeof(T), ROWS = 256 };

/* A divisor is the product of a factor of the last axis and one of all others: their cells, at least 1. */
struct Divisor {
    T outer, inner;
    __device__ T all() const { return outer * inner; }
};

template <class Window> __device__ static inline Divisor divisor(const Geometry &g, const I (&p)[D], int by, T given) {
    I outer = 1, inner = 1;
    AXES(a) {
        I first, count, inside;
        Window::cells(g, a, p[a], first, count, inside);
        const I cells = by == PADDED ? inside : larger(count, 0);
        if (a == D - 1) inner = cells;
        else outer *= cells;
    }
    Divisor d = {(T)larger(outer, 1), (T)larger(inner, 1)};
    if (by == GIVEN) d.outer = given, d.inner = 1;
    return d;
}

/* Whether there is one window and it is the whole plane. */
template <class Window> __device__ static inline bool whole(const Geometry &g, const Cells<Window> &cells) {
    const I size = product(g.in);
    return product(g.out) == 1 && cells.real == size && cells.all == size;
}

__device__ static inline T sum_in_parts(const T *x, I size) {
    const I even = size / PARTS * PARTS;
    T total = 0;
    for (I l = 0; l < PARTS; l++) {
        T part = 0;
        for (I i = l; i < even; i += PARTS) part += x[i];
        total += part;
    }
    for (I i = even; i < size; i++) total += x[i];
    return total;
}

template <class Window> __device__ static inline T sum_by_columns(const Geometry &g, Cells<Window> cells, const T *x) {
    T sum = 0;
    do {
        T column = 0;
        do column += x[cells.place(g)]; while (cells.next_row());
        sum += column;
    } while (cells.next_column());
    return sum;
}

template <class Window> __device__ static inline T sum_by_cells(const Geometry &g, Cells<Window> cells, const T *x) {
    T sum = 0;
    do sum += x[cells.place(g)]; while (cells.next());
    return sum;
}

template <class Window>
__device__ static inline void avg_pool(const Geometry &g, I count, int by, T given, int alike, const T *x, T *y) {
    const I size = product(g.in);
    EACH(i, count) {
        I p[D];
        const T *plane = x + split(i, g.out, p) * size;
        const Cells<Window> cells(g, p);
        if (whole(g, cells)) {
            y[i] = sum_in_parts(plane, size) / (by == GIVEN ? given : (T)size);
            continue;
        }
        T sum = 0;
        if (cells.real > 0)
            sum = alike && cells.rows() <= ROWS ? sum_by_columns(g, cells, plane) : sum_by_cells(g, cells, plane);
        y[i] = sum / divisor<Window>(g, p, by, given).all();
    }
}

/* What the windows of one column give their cell: the sum divided once where they have one outer divisor, else
 * the sum of quotients. */
template <class Window>
__device__ static inline T column_share(const Geometry &g, const I (&j)[D], int by, T given, Cover<Window> &cover,
                                        const T *y_bar) {
    T together = 0, apart = 0;
    Divisor first = {0, 1};
    bool some = false, even = true;
    do {
        if (cover.holds(g, j)) {
            const Divisor d = divisor<Window>(g, cover.p, by, given);
            const T v = y_bar[join(cover.p, g.out)];
            if (!some) first = d;
            some = true;
            even = even && d.outer == first.outer;
            together += v;
            apart += v / d.all();
        }
    } while (cover.next_row());
    return !some ? (T)0 : even ? together / first.all() : apart;
}

template <class Window>
__device__ static inline void avg_pool_transpose(const Geometry &g, I count, int by, T given, int alike, const T *y_bar,
                                                 T *x_bar) {
    const I windows = product(g.out), size = product(g.in);
    EACH(i, count) {
        I j[D];
        const T *plane = y_bar + split(i, g.in, j) * windows;
        Cover<Window> cover(g, j);
        T sum = 0;
        if (cover.some && windows == 1 && whole(g, Cells<Window>(g, cover.p))) {
            x_bar[i] = plane[0] / (by == GIVEN ? given : (T)size);
            continue;
        }
        if (cover.some && alike && cover.rows(g, j) <= ROWS) {
            do sum += column_share(g, j, by, given, cover, plane); while (cover.next_column());
        } else if (cover.some) {
            do
                if (cover.holds(g, j))
                    sum += plane[join(cover.p, g.out)] / divisor<Window>(g, cover.p, by, given).all();
            while (cover.next());
        }
        x_bar[i] = sum;
    }
}

/* ----------------------------------------------------------------------------------------- smooth maximum */

/* Cells are turned by the sign of beta, so the extreme `top` is the largest; padding cells count as 0. Every term
 * exp(|beta| (v - top)) is at most 1. Equal values first: inf - inf is not a number, yet its term is exp(0). */
__device__ static inline float expo(float x) { return lnn_vexp_f32(x); }
__device__ static inline double expo(double x) { return lnn_vexp_f64(x); }
__device__ static inline float loga(float x) { return lnn_vlog_f32(x); }
__device__ static inline double loga(double x) { return lnn_vlog_f64(x); }

__device__ static inline T soft_term(T v, T top, T beta) {
    const T sharp = beta < 0 ? -beta : beta;
    return v == top ? (T)1 : expo((v - top) * sharp);
}

__device__ static inline T turned(T v, T beta) { return beta < 0 ? -v : v; }

template <class Window> struct Soft {
    T top, total, sum;      /* sum of terms times t, where t is given */
    __device__ Soft(const Geometry &g, Cells<Window> cells, T beta, const T *x, const T *t) {
        const I lost = cells.all - cells.real;
        top = lost > 0 || cells.real <= 0 ? (T)0 : turned(x[cells.place(g)], beta);
        sum = 0;
        if (cells.real > 0) {
            Cells<Window> walk = cells;
            do {
                const T v = turned(x[walk.place(g)], beta);
                top = v > top ? v : top;
            } while (walk.next());
        }
        total = lost > 0 ? (T)lost * soft_term((T)0, top, beta) : (T)0;
        if (cells.real > 0) do {
            const I at = cells.place(g);
            const T term = soft_term(turned(x[at], beta), top, beta);
            total += term;
            if (t) sum += term * t[at];
        } while (cells.next());
    }
};

template <class Window>
__device__ static inline void smooth_max_pool(const Geometry &g, I count, T beta, const T *x, T *y) {
    const I size = product(g.in);
    EACH(i, count) {
        I p[D];
        const T *plane = x + split(i, g.out, p) * size;
        const Soft<Window> soft(g, Cells<Window>(g, p), beta, plane, 0);
        y[i] = turned(soft.top, beta) + loga(soft.total) / beta;
    }
}

template <class Window>
__device__ static inline void smooth_gather(const Geometry &g, I count, T beta, const T *t, const T *x, T *y) {
    const I size = product(g.in);
    EACH(i, count) {
        I p[D];
        const I begin = split(i, g.out, p) * size;
        const Soft<Window> soft(g, Cells<Window>(g, p), beta, x + begin, t + begin);
        y[i] = soft.sum / soft.total;
    }
}

/* What smooth_scatter must know of every window. */
template <class Window>
__device__ static inline void smooth_stats(const Geometry &g, I count, T beta, const T *x, T *top, T *total) {
    const I size = product(g.in);
    EACH(i, count) {
        I p[D];
        const T *plane = x + split(i, g.out, p) * size;
        const Soft<Window> soft(g, Cells<Window>(g, p), beta, plane, 0);
        top[i] = soft.top;
        total[i] = soft.total;
    }
}

template <class Window>
__device__ static inline void smooth_scatter(const Geometry &g, I count, T beta, const T *y_bar, const T *x, const T *top,
                                             const T *total, T *x_bar) {
    const I windows = product(g.out);
    EACH(i, count) {
        I j[D];
        const I begin = split(i, g.in, j) * windows;
        Cover<Window> cover(g, j);
        const T v = turned(x[i], beta);
        T sum = 0;
        if (cover.some) do {
            if (cover.holds(g, j)) {
                const I at = begin + join(cover.p, g.out);
                sum += soft_term(v, top[at], beta) * (y_bar[at] / total[at]);
            }
        } while (cover.next());
        x_bar[i] = sum;
    }
}

#define BOTH(name, parameters, ...) \
    KERNEL name##_strided parameters { name##_body(Strided, __VA_ARGS__); } \
    KERNEL name##_adaptive parameters { name##_body(Adaptive, __VA_ARGS__); }
#define max_pool_body(W, ...) max_pool<W, true>(__VA_ARGS__)
#define max_pool_value_body(W, ...) max_pool<W, false>(__VA_ARGS__)
#define scatter_winners_body(W, ...) scatter_winners<W>(__VA_ARGS__)
#define avg_pool_body(W, ...) avg_pool<W>(__VA_ARGS__)
#define avg_pool_transpose_body(W, ...) avg_pool_transpose<W>(__VA_ARGS__)
#define smooth_max_pool_body(W, ...) smooth_max_pool<W>(__VA_ARGS__)
#define smooth_gather_body(W, ...) smooth_gather<W>(__VA_ARGS__)
#define smooth_stats_body(W, ...) smooth_stats<W>(__VA_ARGS__)
#define smooth_scatter_body(W, ...) smooth_scatter<W>(__VA_ARGS__)

BOTH(max_pool, (Geometry g, I count, const T *x, T *y, long long *idx), g, count, x, y, idx)
BOTH(max_pool_value, (Geometry g, I count, const T *x, T *y), g, count, x, y, 0)
BOTH(scatter_winners, (Geometry g, I count, const T *y_bar, const long long *idx, T *x_bar), g, count, y_bar, idx, x_bar)
BOTH(avg_pool, (Geometry g, I count, int by, T given, int alike, const T *x, T *y), g, count, by, given, alike, x, y)
BOTH(avg_pool_transpose, (Geometry g, I count, int by, T given, int alike, const T *y_bar, T *x_bar),
     g, count, by, given, alike, y_bar, x_bar)
BOTH(smooth_max_pool, (Geometry g, I count, T beta, const T *x, T *y), g, count, beta, x, y)
BOTH(smooth_gather, (Geometry g, I count, T beta, const T *t, const T *x, T *y), g, count, beta, t, x, y)
BOTH(smooth_stats, (Geometry g, I count, T beta, const T *x, T *top, T *total), g, count, beta, x, top, total)
BOTH(smooth_scatter,
     (Geometry g, I count, T beta, const T *y_bar, const T *x, const T *top, const T *total, T *x_bar),
     g, count, beta, y_bar, x, top, total, x_bar)

/* ------------------------------------------------------------------------------------------------ columns */

/* Columns are (batch, row, window) where BATCH_FIRST, as unfold returns them, else (row, batch, window), so that one
 * matrix product serves the whole batch; row = channel, tap. */
template <bool BATCH_FIRST> __device__ static inline I column(const Geometry &g, I taps, I sample, I row, I window) {
    const I windows = product(g.out), rows = g.channels * taps;
    return (BATCH_FIRST ? sample * rows + row : row * g.batch + sample) * windows + window;
}

template <bool BATCH_FIRST> __device__ static inline void im2col(const Geometry &g, I count, const T *x, T *cols) {
    const I taps = product(g.kernel), rows = g.channels * taps, size = product(g.in);
    EACH(i, count) {
        I p[D], k[D];
        const I rest = split(i, g.out, p);
        const I row = BATCH_FIRST ? rest % rows : rest / g.batch, sample = BATCH_FIRST ? rest / rows : rest % g.batch;
        const I channel = split(row, g.kernel, k);
        I at = 0;
        bool real = true;
        AXES(a) {
            const I j = p[a] * g.stride[a] + k[a] * g.dilation[a] - g.before[a];
            real = real && j >= 0 && j < g.in[a];
            at = at * g.in[a] + j;
        }
        cols[i] = real ? x[(sample * g.channels + channel) * size + at] : (T)0;
    }
}

/* The transpose: a cell adds up its copies, window by window. */
template <bool BATCH_FIRST> __device__ static inline void col2im(const Geometry &g, I count, const T *cols, T *x) {
    const I taps = product(g.kernel);
    EACH(i, count) {
        I j[D], k[D];
        const I plane = split(i, g.in, j), channel = plane % g.channels, sample = plane / g.channels;
        Cover<Strided> cover(g, j);
        T sum = 0;
        if (cover.some) do {
            if (cover.holds(g, j)) {
                AXES(a) k[a] = (j[a] + g.before[a] - cover.p[a] * g.stride[a]) / g.dilation[a];
                sum += cols[column<BATCH_FIRST>(g, taps, sample, channel * taps + join(k, g.kernel), join(cover.p, g.out))];
            }
        } while (cover.next());
        x[i] = sum;
    }
}

KERNEL im2col_rows(Geometry g, I count, const T *x, T *cols) { im2col<false>(g, count, x, cols); }
KERNEL im2col_batch(Geometry g, I count, const T *x, T *cols) { im2col<true>(g, count, x, cols); }
KERNEL col2im_rows(Geometry g, I count, const T *cols, T *x) { col2im<false>(g, count, cols, x); }
KERNEL col2im_batch(Geometry g, I count, const T *cols, T *x) { col2im<true>(g, count, cols, x); }
