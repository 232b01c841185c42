/* The elementwise operators: one scalar definition each, its loops, and the tables Cython looks them up in.
 *
 * elementwise_scalar.h is included once per number type and holds the definitions and loops; this file
 * names the operators (X-macros), so that a new one is one definition and one line here.
 * The second column is the cost of one element in additions: it decides when a second thread pays.
 */
#ifndef LNN_ELEMENTWISE_H
#define LNN_ELEMENTWISE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "hot.h"
#include "vmath.h"

#define LNN_UNARY(X) \
    X(neg, 1) X(abs, 1) X(sign, 1) X(sqrt, 4) X(reciprocal, 4) X(square, 1) \
    X(exp, 8) X(log, 8) X(expm1, 8) X(log1p, 10) X(tanh, 10) X(sigmoid, 10) X(erf, 40) \
    X(normal_cdf, 20) X(normal_pdf, 15) \
    X(relu, 1) X(leaky_relu, 1) X(elu, 8) X(gelu, 20) X(gelu_tanh, 12) X(silu, 10) X(softplus, 20) \
    X(hardsigmoid, 2) X(hardswish, 2) X(clip, 1)

#define LNN_BINARY_PLAIN(X) \
    X(add, 1) X(sub, 1) X(mul, 1) X(div, 4) X(maximum, 1) X(minimum, 1) \
    X(relu_gate, 1) X(leaky_gate, 1) X(elu_gate, 8) X(clip_gate, 1) X(open_gate, 1) \
    X(tanh_gate, 1) X(sigmoid_gate, 1) X(gelu_gate, 20) X(silu_gate, 10)
#define LNN_BINARY(X) LNN_BINARY_PLAIN(X) X(pow, 40) /* pow's loop is not the plain one */

/* optimiser updates: name, arrays an optimiser keeps beside the parameter */
#define LNN_UPDATE(X) \
    X(sgd, 0) X(momentum, 1) X(adam, 2) X(amsgrad, 3) X(rmsprop, 1) X(rmsprop_momentum, 2) X(rmsprop_centered, 2) \
    X(rmsprop_centered_momentum, 3) X(adagrad, 1)

#define LNN_COMPARE(X) X(eq, 1) X(ne, 1) X(lt, 1) X(le, 1) X(gt, 1) X(ge, 1)

/* Loops see untyped pointers, so that both number types share one signature. A step is 0 (one value for
 * all) or 1; p0 and p1 are the operator's own numbers (slope, alpha, bounds). Not `restrict`, because
 * out may be one of the inputs; ivdep says what is true then too: elements do not depend on each other. */
typedef void (*lnn_unary)(const void *x, void *y, ptrdiff_t n, double p0, double p1);
typedef void (*lnn_binary)(const void *a, const void *b, void *y, ptrdiff_t n, int a_step, int b_step,
                           double p0, double p1);
typedef void (*lnn_where)(const uint8_t *c, const void *a, const void *b, void *y, ptrdiff_t n, int c_step,
                          int a_step, int b_step);

typedef void (*lnn_update)(const void *const *in, void *const *out, const double *c, ptrdiff_t n);

typedef struct { const char *name; int cost; lnn_unary f32, f64; } lnn_unary_entry;
typedef struct { const char *name; int cost; lnn_binary f32, f64; } lnn_binary_entry;
typedef struct { const char *name; int slots; lnn_update f32, f64; } lnn_update_entry;

/* The normal distribution. erfc and not 1 + erf: the lower tail keeps its digits. There a relative error e of
 * the argument becomes x²·e of the result, so the argument x/√2 (and x² for the density) is carried in two parts
 * and the second enters to first order. For float32 the same is had by computing in double. */
static inline double lnn_pdf_f64(double x) {
    double s = x * x, rest = fma(x, x, -s);
    return 0.39894228040143267794 * exp(-0.5 * s) * (s < 2000 ? 1 - 0.5 * rest : 1);
}
static inline double lnn_cdf_f64(double x) {
    const double hi = 0.70710678118654757, lo = -4.833646656726457e-17; /* 1/√2 = hi + lo */
    double z = x * hi, rest = z * z < 1000 ? fma(x, hi, -z) + x * lo : 0;
    return 0.5 * erfc(-z) + 0.56418958354775628695 * exp(-z * z) * rest;
}
/* In double without branches or calls, so that the loop is vector code. The tail Φ(−a) = exp(−a²/2)·t·P(t), t = 1/(1 + a/4): P is a
 * least-squares fit to erfcx at 4000 Chebyshev nodes of t from 0 to 1, within 1.7e-9 of it (0.03 ulp of a float). */
static inline double lnn_tail(double a, double bell) { /* bell = exp(−a²/2) */
    double t = 1 / (1 + 0.25 * a), s = t * t;
    double even = 0.09973557027853841 + s * (0.09350551488603179 + s * (0.06433856738504787 + s * (0.04595091632421204 + s * (0.1007686988231775 + s * (0.05842763339849211)))));
    double odd = 0.09973550918642271 + s * (0.08096057597759969 + s * (0.0377676238562846 + s * (-0.05296568777221095 + s * (-0.1175254902500862 + s * (-0.01069943210645891)))));
    return t * (even + t * odd) * bell;
}
static inline double lnn_bell(double x) { return lnn_vexp_f64(-0.5 * x * x); }
static inline float lnn_pdf_f32(float x) { return (float)(0.39894228040143267794 * lnn_bell(x)); }
static inline float lnn_cdf_f32(float x) {
    double tail = lnn_tail(fabs((double)x), lnn_bell(x));
    return (float)(x < 0 ? tail : 1 - tail);
}
/* Φ + x·φ, the slope of x·Φ; for float32 one exponential serves both */
static inline double lnn_gelu_slope_f64(double x) { return lnn_cdf_f64(x) + x * lnn_pdf_f64(x); }
static inline double lnn_gelu_slope_f32(float x) {
    double bell = lnn_bell(x), tail = lnn_tail(fabs((double)x), bell);
    return (x < 0 ? tail : 1 - tail) + x * (0.39894228040143267794 * bell);
}

#define LNN_IVDEP _Pragma("GCC ivdep")
enum { LNN_LINE = 256 };

#define real float
#define T(name) name##_f32
#define M(name) name##f
#include "elementwise_scalar.h"
#undef real
#undef T
#undef M

#define real double
#define T(name) name##_f64
#define M(name) name
#include "elementwise_scalar.h"
#undef real
#undef T
#undef M

#define LNN_ENTRY(name, cost) {#name, cost, lnn_##name##_loop_f32, lnn_##name##_loop_f64},
static const lnn_unary_entry lnn_unary_table[] = {LNN_UNARY(LNN_ENTRY) {NULL, 0, NULL, NULL}};
static const lnn_binary_entry lnn_binary_table[] = {LNN_BINARY(LNN_ENTRY) {NULL, 0, NULL, NULL}};
static const lnn_binary_entry lnn_compare_table[] = {LNN_COMPARE(LNN_ENTRY) {NULL, 0, NULL, NULL}};
#undef LNN_ENTRY
#define LNN_ENTRY(name, slots) {#name, slots, lnn_##name##_update_f32, lnn_##name##_update_f64},
static const lnn_update_entry lnn_update_table[] = {LNN_UPDATE(LNN_ENTRY) {NULL, 0, NULL, NULL}};
#undef LNN_ENTRY

#pragma GCC pop_options
#endif
