/* exp, expm1, log, log1p, tanh and the sigmoid without branches or calls: a loop over them becomes vector code at
 * every instruction-set level. lnn_vexp_f32, lnn_vexp_f64, …
 *
 * Errors in ulp of the result, at most:
 *     exp 1, exp of what is not positive 1.1 (vexp_down), expm1 2, log 1, log1p 1.5, tanh 3, sigmoid 2.5
 * Measured at x86-64-v3 over all 2³² floats for exp (0.93; 1.04 down), expm1 (1.64), log (0.80) and log1p (1.44), over every 101st
 * float for tanh (2.39) and sigmoid (2.22), and over 10⁷ doubles (0.88, 1.75, 0.79, 1.44, 2.44, 2.18). The tests sweep
 * both types; `pytest -m slow tests/kernels/test_vmath.py` takes every float.
 * NaN, infinities and signed zeros as in C; results that underflow are rounded, not flushed.
 *
 * exp: x = n·ln 2 + r with |r| ≤ ln(2)/2, and exp(x) = 2ⁿ·exp(r), the last by its Taylor series. Rounding to n is by
 * adding 1.5·2^(digits), which leaves n in the low bits. ln 2 is taken off in two parts, the first so short that n
 * times it is exact. 2ⁿ is applied as two factors, since one alone cannot reach the denormals or infinity.
 * log: x = 2ᵉ·m with m from √½ to √2, and log m = 2·artanh(s), s = (m − 1)/(m + 1), by its Taylor series.
 *
 * kernels.cu includes this text, so that smooth max pooling has the same bits on a GPU as on a CPU that fuses: NVRTC,
 * which has no headers, gets its few names here, and every product that is added to something is an lnn_fma. With
 * LNN_FUSED that is rounded once; else it is the compiler's choice, which keeps the loops of other modules in vectors.
 */
#ifndef LNN_VMATH_H
#define LNN_VMATH_H

#ifdef __CUDACC_RTC__
typedef unsigned int uint32_t;
typedef int int32_t;
typedef unsigned long long uint64_t;
#define LNN_MATH __device__ static inline
LNN_MATH uint32_t lnn_bits_f32(float x) { return __float_as_uint(x); }
LNN_MATH uint64_t lnn_bits_f64(double x) { return (uint64_t)__double_as_longlong(x); }
LNN_MATH float lnn_from_bits_f32(uint32_t i) { return __uint_as_float(i); }
LNN_MATH double lnn_from_bits_f64(uint64_t i) { return __longlong_as_double((long long)i); }
#else
#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef LNN_FUSED
#define LNN_MATH static inline __attribute__((always_inline))
#else
#define LNN_MATH static inline
#endif
LNN_MATH uint32_t lnn_bits_f32(float x) { uint32_t i; memcpy(&i, &x, 4); return i; }
LNN_MATH uint64_t lnn_bits_f64(double x) { uint64_t i; memcpy(&i, &x, 8); return i; }
LNN_MATH float lnn_from_bits_f32(uint32_t i) { float x; memcpy(&x, &i, 4); return x; }
LNN_MATH double lnn_from_bits_f64(uint64_t i) { double x; memcpy(&x, &i, 8); return x; }
#endif

#ifdef LNN_FUSED
#define lnn_fma_f32(a, b, c) fmaf(a, b, c)
#define lnn_fma_f64(a, b, c) fma(a, b, c)
#else
#define lnn_fma_f32(a, b, c) ((a) * (b) + (c))
#define lnn_fma_f64(a, b, c) ((a) * (b) + (c))
#endif

/* the exponent field as a number; vector units convert only 32-bit integers, hence the second way */
LNN_MATH float lnn_exponent_f32(uint32_t i) { return (float)((int32_t)(i >> 23) - 127); }
LNN_MATH double lnn_exponent_f64(uint64_t i) {
    return lnn_from_bits_f64((i >> 52) | 0x4330000000000000u) - (0x1p52 + 1023);
}

/* (e^r − 1 − r)/r² for |r| ≤ 0.3467: in float the least polynomial within 3.2e-9/r² of it, in double Σ r^k/(k + 2)! */
LNN_MATH float lnn_exp_tail_f32(float r) {
    float t = lnn_fma_f32(r, 0x1.6db434p-10f, 0x1.123b6p-7f);
    t = lnn_fma_f32(r, t, 0x1.55545ep-5f);
    t = lnn_fma_f32(r, t, 0x1.55548ep-3f);
    return lnn_fma_f32(r, t, 0.5f);
}
LNN_MATH double lnn_exp_tail_f64(double r) {
    const double s = r * r, q = s * s;
    const double a = lnn_fma_f64(r, 1. / 6, 1. / 2), b = lnn_fma_f64(r, 1. / 120, 1. / 24);
    const double c = lnn_fma_f64(r, 1. / 5040, 1. / 720), d = lnn_fma_f64(r, 1. / 362880, 1. / 40320);
    const double e = lnn_fma_f64(r, 1. / 39916800, 1. / 3628800), f = lnn_fma_f64(r, 1. / 6227020800., 1. / 479001600);
    const double low = lnn_fma_f64(s, b, a), middle = lnn_fma_f64(s, d, c), high = lnn_fma_f64(s, f, e);
    const double upper = lnn_fma_f64(q, high, middle);
    return lnn_fma_f64(q, upper, low);
}

/* artanh(s)/s − 1 for s² = z ≤ 0.0295: Σ z^k/(2k + 1) */
LNN_MATH float lnn_log_tail_f32(float z) {
    float t = lnn_fma_f32(z, 1.f / 9, 1.f / 7);
    t = lnn_fma_f32(z, t, 1.f / 5);
    t = lnn_fma_f32(z, t, 1.f / 3);
    return z * t;
}
LNN_MATH double lnn_log_tail_f64(double z) {
    const double s = z * z, q = s * s;
    const double a = lnn_fma_f64(z, 1. / 5, 1. / 3), b = lnn_fma_f64(z, 1. / 9, 1. / 7);
    const double c = lnn_fma_f64(z, 1. / 13, 1. / 11), d = lnn_fma_f64(z, 1. / 17, 1. / 15);
    const double e = lnn_fma_f64(z, 1. / 21, 1. / 19);
    const double low = lnn_fma_f64(s, b, a), middle = lnn_fma_f64(s, d, c);
    const double upper = lnn_fma_f64(q, e, middle);
    return z * lnn_fma_f64(q, upper, low);
}

#define real float
#define bits uint32_t
#define V(name) lnn_##name##_f32
#define DIGITS 23
#define BIAS 127
#define LN2_HI 0.693359375f
#define LN2_LO -2.12194440054690583e-4f
#define EXP_MIN -104.f
#define LIFT 64
#define EXP_MAX 89.f
#define EXPM1_MIN -30.f
#define TANH_MAX 10.f
#define TINY 0x1p-126f
#include "vmath_real.h"

#define real double
#define bits uint64_t
#define V(name) lnn_##name##_f64
#define DIGITS 52
#define BIAS 1023
#define LN2_HI 0x1.62e42feep-1
#define LN2_LO 0x1.a39ef35793c76p-33
#define EXP_MIN -746.
#define LIFT 512
#define EXP_MAX 710.
#define EXPM1_MIN -50.
#define TANH_MAX 22.
#define TINY 0x1p-1022
#include "vmath_real.h"

#endif
