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
 * A window is told by a policy, Strided or Adaptive, which answers two questions per axis:
 *
 *   cells   which cells of the input window p holds: `count` of them from `first`, `step` apart; `inside` counts the
 *           cells of the padded axis as well
 *   cover   which windows, low <= p < high, can hold cell j; `holds` says whether p does
 *
 * Loops over axes are unrolled (LNN_D is a constant), so the small arrays live in registers. NVRTC has no headers:
 * nothing here needs one. The launcher (launch.py) fills the struct and knows the order of the arguments. */

typedef long long wide;   /* a name without a space, for -DLNN_I */
typedef LNN_T T;
typedef LNN_I I;

enum { D = LNN_D };
enum { PADDED, REAL, GIVEN };   /* what an average divides by: all cells of its window, the real ones, a number */

struct Geometry {
    I batch, channels;
    I in[D], out[D];                            /* cells and windows per axis */
    I kernel[D], stride[D], dilation[D];
    I before[D];                                /* padding before cell 0 */
    I padded[D];                                /* where the padding after the last cell ends, counted from cell 0 */
};

#define KERNEL extern "C" __global__ void
#define EACH(i, count) \
    for (I i = (I)blockIdx.x * (I)blockDim.x + (I)threadIdx.x; i < (count); i += (I)gridDim.x * (I)blockDim.x)
#define AXES(a) _Pragma("unroll") for (int a = 0; a < D; a++)
#define AXES_BACK(a) _Pragma("unroll") for (int a = D - 1; a >= 0; a--)

__device__ static inline I smaller(I a, I b) { return a < b ? a : b; }
__device__ static inline I larger(I a, I b) { return a > b ? a : b; }
__device__ static inline I up(I a, I b) { return (a + b - 1) / b; }      /* a / b rounded up, a not negative */

__device__ static inline I product(const I (&n)[D]) {
    I all = 1;
    AXES(a) all *= n[a];
    return all;
}

/* Take the coordinates within a box of sizes n off a flat index; what remains is returned. */
__device__ static inline I split(I i, const I (&n)[D], I (&at)[D]) {
    AXES_BACK(a) {
        at[a] = i % n[a];
        i /= n[a];
    }
    return i;
}

__device__ static inline I join(const I (&at)[D], const I (&n)[D]) {
    I i = 0;
    AXES(a) i = i * n[a] + at[a];
    return i;
}

/* Go on to the next place of a box, row-major; false after the last. */
__device__ static inline bool advance(I (&at)[D], const I (&n)[D]) {
    bool more = false;
    AXES_BACK(a)
        if (!more) {
            at[a]++;
            more = at[a] < n[a];
            if (!more) at[a] = 0;
        }
    return more;
}

/* ------------------------------------------------------------------------------------------------ windows */

struct Strided {
    __device__ static I below(const Geometry &g, int a, I begin, I limit) {  /* taps before `limit` */
        return begin >= limit ? 0 : smaller(up(limit - begin, g.dilation[a]), g.kernel[a]);
    }
    __device__ static void cells(const Geometry &g, int a, I p, I &first, I &count, I &inside) {
        const I begin = p * g.stride[a] - g.before[a];
        const I hidden = below(g, a, begin, 0);
        first = begin + hidden * g.dilation[a];
        count = below(g, a, begin, g.in[a]) - hidden;
        inside = below(g, a, begin, g.padded[a]);
    }
    __device__ static I step(const Geometry &g, int a) { return g.dilation[a]; }
    __device__ static void cover(const Geometry &g, int a, I j, I &low, I &high) {
        const I from = j + g.before[a], reach = from - (g.kernel[a] - 1) * g.dilation[a];
        low = reach > 0 ? up(reach, g.stride[a]) : 0;
        high = smaller(from / g.stride[a] + 1, g.out[a]);
    }
    __device__ static bool holds(const Geometry &g, int a, I j, I p) {
        return (j + g.before[a] - p * g.stride[a]) % g.dilation[a] == 0;
    }
};

/* Bin p is [floor(p in / out), ceil((p + 1) in / out)); solved for p, the bins of cell j are
 * [floor(j out / in), ceil((j + 1) out / in)): the same formula with the sizes exchanged. */
struct Adaptive {
    __device__ static I start(I i, I n, I m) { return (I)((long long)i * n / m); }
    __device__ static I end(I i, I n, I m) { return (I)((((long long)i + 1) * n + m - 1) / m); }
    __device__ static void cells(const Geometry &g, int a, I p, I &first, I &count, I &inside) {
        first = start(p, g.in[a], g.out[a]);
        count = inside = end(p, g.in[a], g.out[a]) - first;
    }
    __device__ static I step(const Geometry &, int) { return 1; }
    __device__ static void cover(const Geometry &g, int a, I j, I &low, I &high) {
        low = start(j, g.out[a], g.in[a]);
        high = end(j, g.out[a], g.in[a]);
    }
    __device__ static bool holds(const Geometry &, int, I, I) { return true; }
};

/* The real cells of one window, in row-major order. */
template <class Window> struct Cells {
    I first[D], count[D], at[D];
    I real, all;            /* how many, and how many with padding */
    __device__ Cells(const Geometry &g, const I (&p)[D]) {
        real = all = 1;
        AXES(a) {
            I inside;
            Window::cells(g, a, p[a], first[a], count[a], inside);
            count[a] = larger(count[a], 0);
            at[a] = 0;
            real *= count[a];
            all *= inside;
        }
    }
    __device__ I place(const Geometry &g) const {
        I i = 0;
        AXES(a) i = i * g.in[a] + first[a] + at[a] * Window::step(g, a);
        return i;
    }
    __device__ bool next() { return advance(at, count); }
};

/* The windows that may hold one cell, in row-major order. */
template <class Window> struct Cover {
    I low[D], count[D], at[D], p[D];
    bool some;
    __device__ Cover(const Geometry &g, const I (&j)[D]) {
        some = true;
        AXES(a) {
            I high;
            Window::cover(g, a, j[a], low[a], high);
            count[a] = high - low[a];
            at[a] = 0;
            p[a] = low[a];
            some = some && count[a] > 0;
        }
    }
    __device__ bool next() {
        const bool more = advance(at, count);
        AXES(a) p[a] = low[a] + at[a];
        return more;
    }
    __device__ bool holds(const Geometry &g, const I (&j)[D]) const {
        bool yes = true;
        AXES(a) yes = yes && Window::holds(g, a, j[a], p[a]);
        return yes;
    }
};

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

template <class Window> __device__ static inline T divisor(const Cells<Window> &cells, int by, T given) {
    return by == PADDED ? (T)cells.all : by == REAL ? (T)cells.real : given;
}

template <class Window>
__device__ static inline void avg_pool(const Geometry &g, I count, int by, T given, const T *x, T *y) {
    const I size = product(g.in);
    EACH(i, count) {
        I p[D];
        const T *plane = x + split(i, g.out, p) * size;
        Cells<Window> cells(g, p);
        T sum = 0;
        if (cells.real > 0) {
            do sum += plane[cells.place(g)]; while (cells.next());
            sum /= divisor(cells, by, given);
        }
        y[i] = sum;
    }
}

template <class Window>
__device__ static inline void avg_pool_transpose(const Geometry &g, I count, int by, T given, const T *y_bar, T *x_bar) {
    const I windows = product(g.out);
    EACH(i, count) {
        I j[D];
        const T *plane = y_bar + split(i, g.in, j) * windows;
        Cover<Window> cover(g, j);
        T sum = 0;
        if (cover.some) do {
            if (cover.holds(g, j)) {
                const Cells<Window> cells(g, cover.p);
                sum += plane[join(cover.p, g.out)] / divisor(cells, by, given);
            }
        } while (cover.next());
        x_bar[i] = sum;
    }
}

/* ----------------------------------------------------------------------------------------- smooth maximum */

/* Cells are turned by the sign of beta, so the extreme `top` is the largest; padding cells count as 0. Every term
 * exp(|beta| (v - top)) is at most 1. Equal values first: inf - inf is not a number, yet its term is exp(0). */
__device__ static inline T soft_term(T v, T top, T beta) {
    const T sharp = beta < 0 ? -beta : beta;
    return v == top ? (T)1 : exp((v - top) * sharp);
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
        y[i] = turned(soft.top, beta) + log(soft.total) / beta;
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
BOTH(avg_pool, (Geometry g, I count, int by, T given, const T *x, T *y), g, count, by, given, x, y)
BOTH(avg_pool_transpose, (Geometry g, I count, int by, T given, const T *y_bar, T *x_bar), g, count, by, given, y_bar, x_bar)
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
