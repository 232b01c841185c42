/* tail.h for the type LNN_T; names end in LNN_SUFFIX. Included by simd.h alone. */

#define T LNN_T
#define V LNN_NAME(lnn_v)
#define VU LNN_NAME(lnn_vu)
#define INTS LNN_NAME(lnn_ints)

/* The activation of four vectors in registers; `gate` is of LNN_GATE. */
LNN_INLINE void LNN_NAME(lnn_act)(const lnn_tail *t, V x[4], const V gate[4])
{
    if (t->act == LNN_GATE)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) x[i] = (V)((INTS)x[i] & ~(INTS)(gate[i] <= 0));
    else if (t->act == LNN_RELU)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) x[i] = (V)((INTS)x[i] & ~(INTS)(x[i] <= 0));
    else if (t->act == LNN_LEAKY)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            const INTS keep = (INTS)(x[i] > 0);
            x[i] = (V)(((INTS)x[i] & keep) | ((INTS)((T)t->slope * x[i]) & ~keep));
        }
}

/* n cells from `out` on, four vectors at a time; the last few take a detour. */
static __attribute__((noinline)) void LNN_NAME(lnn_finish)(const lnn_tail *t, T *out, ptrdiff_t n)
{
    const ptrdiff_t lanes = LNN_BYTES / LNN_SIZE;
    T part[4 * (LNN_BYTES / LNN_SIZE)] = {0}, more[4 * (LNN_BYTES / LNN_SIZE)] = {0}, gates[4 * (LNN_BYTES / LNN_SIZE)] = {0};
    for (; n > 0; n -= 4 * lanes, out += 4 * lanes) {
        const T *other = (const T *)((uintptr_t)out + t->other), *gate = (const T *)((uintptr_t)out + t->gate);
        T *to = out;
        if (n < 4 * lanes) {
            memcpy(part, out, (size_t)n * sizeof(T));
            if (t->adds) memcpy(more, other, (size_t)n * sizeof(T));
            if (t->act == LNN_GATE) memcpy(gates, gate, (size_t)n * sizeof(T));
            to = part, other = more, gate = gates;
        }
        V x[4], by[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            x[i] = *(const VU *)(to + i * lanes);
            if (t->adds) x[i] += *(const VU *)(other + i * lanes);
            by[i] = x[i];
            if (t->act == LNN_GATE) by[i] = *(const VU *)(gate + i * lanes);
        }
        LNN_NAME(lnn_act)(t, x, by);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) *(VU *)(to + i * lanes) = x[i];
        if (to != out) memcpy(out, part, (size_t)n * sizeof(T));
    }
}

#undef T
#undef V
#undef VU
#undef INTS
