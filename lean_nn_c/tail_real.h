/* tail.h for the type LNN_T; names end in LNN_SUFFIX. Included by simd.h alone. */

#define T LNN_T
#define V LNN_NAME(lnn_v)
#define INTS LNN_NAME(lnn_ints)

/* n cells from `out` on, a stretch at a time, so that the second step finds them in the cache. */
static __attribute__((noinline)) void LNN_NAME(lnn_finish)(const lnn_tail *t, T *out, ptrdiff_t n)
{
    const T slope = (T)t->slope;
    for (ptrdiff_t first = 0; first < n; first += 1024) {
        const ptrdiff_t length = n - first < 1024 ? n - first : 1024;
        T *__restrict to = out + first;
        const T *__restrict from = (const T *)((uintptr_t)to + t->other);
        if (t->adds)
            for (ptrdiff_t i = 0; i < length; i++) to[i] += from[i];
        if (t->act == LNN_RELU)
            for (ptrdiff_t i = 0; i < length; i++) to[i] = to[i] <= 0 ? 0 : to[i];
        else if (t->act == LNN_LEAKY)
            for (ptrdiff_t i = 0; i < length; i++) to[i] = to[i] > 0 ? to[i] : slope * to[i];
    }
}

/* The activation of four vectors in registers. */
LNN_INLINE void LNN_NAME(lnn_act)(const lnn_tail *t, V x[4])
{
    if (t->act == LNN_RELU)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) x[i] = (V)((INTS)x[i] & ~(INTS)(x[i] <= 0));
    else if (t->act == LNN_LEAKY)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            const INTS keep = (INTS)(x[i] > 0);
            x[i] = (V)(((INTS)x[i] & keep) | ((INTS)((T)t->slope * x[i]) & ~keep));
        }
}

#undef T
#undef V
#undef INTS
