/* exp, expm1, log, log1p, tanh and the sigmoid without branches or calls: a loop over them becomes vector code at
 * every instruction-set level. lnn_vexp_f32, lnn_vexp_f64, …
 *
 * Errors in ulp of the result, at most:
 *     exp 1, expm1 2, log 1, log1p 1.5, tanh 3, sigmoid 2.5
 * Measured at x86-64-v3 over all 2³² floats for exp (0.93), expm1 (1.64), log (0.80) and log1p (1.44), over every 101st
 * float for tanh (2.39) and sigmoid (2.22), and over 10⁷ doubles (0.88, 1.75, 0.79, 1.44, 2.44, 2.18). The tests sweep
 * both types; `pytest -m slow tests/kernels/test_vmath.py` takes every float.
 * NaN, infinities and signed zeros as in C; results that underflow are rounded, not flushed.
 *
 * exp: x = n·ln 2 + r with |r| ≤ ln(2)/2, and exp(x) = 2ⁿ·exp(r), the last by its Taylor series. Rounding to n is by
 * adding 1.5·2^(digits), which leaves n in the low bits. ln 2 is taken off in two parts, the first so short that n
 * times it is exact. 2ⁿ is applied as two factors, since one alone cannot reach the denormals or infinity.
 * log: x = 2ᵉ·m with m from √½ to √2, and log m = 2·artanh(s), s = (m − 1)/(m + 1), by its Taylor series.
 */
#ifndef LNN_VMATH_H
#define LNN_VMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t lnn_bits_f32(float x) { uint32_t i; memcpy(&i, &x, 4); return i; }
static inline uint64_t lnn_bits_f64(double x) { uint64_t i; memcpy(&i, &x, 8); return i; }
static inline float lnn_from_bits_f32(uint32_t i) { float x; memcpy(&x, &i, 4); return x; }
static inline double lnn_from_bits_f64(uint64_t i) { double x; memcpy(&x, &i, 8); return x; }

/* the exponent field as a number; vector units convert only 32-bit integers, hence the second way */
static inline float lnn_exponent_f32(uint32_t i) { return (float)((int32_t)(i >> 23) - 127); }
static inline double lnn_exponent_f64(uint64_t i) {
    return lnn_from_bits_f64((i >> 52) | UINT64_C(0x4330000000000000)) - (0x1p52 + 1023);
}

/* (e^r − 1 − r)/r² for |r| ≤ 0.3467: in float the least polynomial within 3.2e-9/r² of it, in double Σ r^k/(k + 2)! */
static inline float lnn_exp_tail_f32(float r) {
    return 0.5f + r * (0x1.55548ep-3f + r * (0x1.55545ep-5f + r * (0x1.123b6p-7f + r * 0x1.6db434p-10f)));
}
static inline double lnn_exp_tail_f64(double r) {
    double s = r * r, q = s * s;
    double a = 1. / 2 + r * (1. / 6), b = 1. / 24 + r * (1. / 120), c = 1. / 720 + r * (1. / 5040);
    double d = 1. / 40320 + r * (1. / 362880), e = 1. / 3628800 + r * (1. / 39916800);
    double f = 1. / 479001600 + r * (1. / 6227020800.);
    return (a + s * b) + q * ((c + s * d) + q * (e + s * f));
}

/* artanh(s)/s − 1 for s² = z ≤ 0.0295: Σ z^k/(2k + 1) */
static inline float lnn_log_tail_f32(float z) {
    return z * (1.f / 3 + z * (1.f / 5 + z * (1.f / 7 + z * (1.f / 9))));
}
static inline double lnn_log_tail_f64(double z) {
    double s = z * z, q = s * s;
    double a = 1. / 3 + z * (1. / 5), b = 1. / 7 + z * (1. / 9), c = 1. / 11 + z * (1. / 13);
    double d = 1. / 15 + z * (1. / 17), e = 1. / 19 + z * (1. / 21);
    return z * ((a + s * b) + q * ((c + s * d) + q * e));
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
