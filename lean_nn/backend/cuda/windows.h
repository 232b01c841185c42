/* Windows, for kernels.cu: which cells they have, which of them have a cell.
 *
 * A window is told by a policy, Strided or Adaptive, which answers two questions per axis:
 *
 *   cells   which cells of the input window p holds: `count` of them from `first`, `step` apart; `inside` counts the
 *           cells of the padded axis as well
 *   cover   which windows, low <= p < high, can hold cell j; `holds` says whether p does
 */

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

/* Go on to the next place of the first N axes of a box, row-major; false after the last. */
template <int N> __device__ static inline bool advance(I (&at)[D], const I (&n)[D]) {
    bool more = false;
    _Pragma("unroll") for (int a = N - 1; a >= 0; a--)
        if (!more) {
            at[a]++;
            more = at[a] < n[a];
            if (!more) at[a] = 0;
        }
    return more;
}

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

/* The real cells of one window, in row-major order, or the rows (all axes but the last) of one column. */
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
    __device__ I rows() const { return real / count[D - 1]; }
    __device__ I place(const Geometry &g) const {
        I i = 0;
        AXES(a) i = i * g.in[a] + first[a] + at[a] * Window::step(g, a);
        return i;
    }
    __device__ bool next() { return advance<D>(at, count); }
    __device__ bool next_row() { return advance<D - 1>(at, count); }
    __device__ bool next_column() { return ++at[D - 1] < count[D - 1]; }
};

/* The windows that may hold one cell, in row-major order, or the rows of one column. */
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
    __device__ bool next() { return moved(advance<D>(at, count)); }
    __device__ bool next_row() { return moved(advance<D - 1>(at, count)); }
    __device__ bool next_column() { return moved(++at[D - 1] < count[D - 1]); }
    __device__ bool moved(bool more) {
        AXES(a) p[a] = low[a] + at[a];
        return more;
    }
    __device__ bool holds(const Geometry &g, const I (&j)[D]) const {
        bool yes = true;
        AXES(a) yes = yes && Window::holds(g, a, j[a], p[a]);
        return yes;
    }
    __device__ I rows(const Geometry &g, const I (&j)[D]) const {   /* of windows that do hold it */
        I all = 1;
        AXES(a) {
            I some = 0;
            if (a < D - 1) {
                for (I q = low[a]; q < low[a] + count[a]; q++) some += Window::holds(g, a, j[a], q);
                all *= some;
            }
        }
        return all;
    }
};
