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

/* The activation in a register. */
LNN_INLINE V LNN_NAME(lnn_act)(int act, T slope, V x)
{
    if (act == LNN_RELU) return (V)((INTS)x & ~(INTS)(x <= 0));
    if (act == LNN_LEAKY) {
        const INTS keep = (INTS)(x > 0);
        return (V)(((INTS)x & keep) | ((INTS)(slope * x) & ~keep));
    }
    return x;
}

#undef T
#undef V
#undef INTS
