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
#include "part.h"
#include "vmath.h"

#define LNN_UNARY_LIGHT(X) \
    X(neg, 1) X(abs, 1) X(sign, 1) X(sqrt, 4) X(square, 1) \
    X(relu, 1) X(leaky_relu, 1) X(hardsigmoid, 4) X(hardswish, 4) X(clip, 1) X(huber, 2)
#define LNN_UNARY_HEAVY(X) \
    X(exp, 8) X(log, 8) X(expm1, 8) X(log1p, 10) X(tanh, 10) X(sigmoid, 10) X(erf, 24) X(normal_cdf, 20) X(normal_pdf, 15) \
    X(elu, 8) X(gelu, 20) X(gelu_tanh, 12) X(silu, 10) X(softplus, 20)
#define LNN_UNARY(X) LNN_UNARY_LIGHT(X) LNN_UNARY_HEAVY(X)

#define LNN_BINARY_COMMON(X) X(add, 1) X(sub, 1) X(mul, 1) X(div, 4)
#define LNN_BINARY_EXTREME(X) X(maximum, 1) X(minimum, 1)
#define LNN_BINARY_LIGHT(X) \
    X(relu_gate, 1) X(sign_gate, 4) X(leaky_gate, 1) X(clip_gate, 1) X(open_gate, 4) X(tanh_gate, 1) X(sigmoid_gate, 1) \
    X(hardswish_gate, 2) X(square_gate, 1) X(sqrt_gate, 4)
#define LNN_BINARY_HEAVY(X) X(elu_gate, 8) X(gelu_gate, 20) X(gelu_tanh_gate, 14) X(silu_gate, 10)
#define LNN_BINARY(X) LNN_BINARY_COMMON(X) LNN_BINARY_EXTREME(X) LNN_BINARY_LIGHT(X) LNN_BINARY_HEAVY(X) X(pow, 40) /* pow's loop is not the plain one */

/* functions whose value and tangent have a loop of their own: of one array, as they share an exponential (powers share a root), and of
 * two that both move, as these would be four operations that read all of it */
#define LNN_BOTH_ONE(X) X(gelu, 25) X(gelu_tanh, 20) X(silu, 15)
#define LNN_BOTH_TWO(X) X(maximum, 8) X(minimum, 8)

/* optimiser updates: name, arrays an optimiser keeps beside the parameter */
#define LNN_UPDATE(X) \
    X(sgd, 0) X(momentum, 1) X(adam, 2) X(amsgrad, 3) X(rmsprop, 1) X(rmsprop_momentum, 2) X(rmsprop_centered, 2) \
    X(rmsprop_centered_momentum, 3) X(adagrad, 1)

#define LNN_TRIPLE(X) X(where, 1) X(larger_gate, 4) X(muladd, 1) X(div_gate, 5) X(pow_gate, 42)
#define LNN_COMPARE(X) X(eq, 1) X(ne, 1) X(lt, 1) X(le, 1) X(gt, 1) X(ge, 1)

/* Loops see untyped pointers, so that both number types share one signature. A step is 0 (one value for
 * all) or 1; p0 and p1 are the operator's own numbers (slope, alpha, bounds). Not `restrict`, because
 * out may be one of the inputs; ivdep says what is true then too: elements do not depend on each other. */
typedef void (*lnn_unary)(const void *x, void *y, ptrdiff_t n, double p0, double p1);
typedef void (*lnn_binary)(const void *a, const void *b, void *y, ptrdiff_t n, int a_step, int b_step,
                           double p0, double p1);
typedef void (*lnn_where)(const void *c, const void *a, const void *b, void *y, ptrdiff_t n, int c_step,
                          int a_step, int b_step);

typedef void (*lnn_both)(const void *const *in, void *y, void *dot, ptrdiff_t n, int far); /* in: arguments, then tangents */
typedef void (*lnn_update)(const void *const *in, void *const *out, const double *c, ptrdiff_t n);

typedef struct { const char *name; int cost; lnn_unary f32, f64; } lnn_unary_entry;
typedef struct { const char *name; int cost; lnn_binary f32, f64; } lnn_binary_entry;
typedef struct { const char *name; int cost; lnn_where f32, f64; } lnn_triple_entry;
typedef struct { const char *name; int slots; lnn_update f32, f64; } lnn_update_entry;
typedef struct { const char *name; int cost, inputs; lnn_both f32, f64; } lnn_both_entry;

/* The normal distribution, without branches or calls. Its lower tail keeps its digits: Φ(−a) = exp(−a²/2)·t·P(w), t = 1/(1 + a/4) and
 * w = 1/2 − t; P interpolates the rest at the Chebyshev nodes of w from −1/2 to 1/2, within 4e-9 for float, 1.3e-17 for double.
 * w is had as a·t/4 − 1/2, whose rounding is small beside it where P changes most. A relative error e of x becomes x²·e of the
 * density, so x² enters in two parts, the square of x's leading digits, which is exact, and the rest. */
static inline float lnn_curve_f32(float w) {
    float s = w * w;
    float even = 0x1.82b4bcp-3f + s * (0x1.8c6dbep-2f + s * (0x1.eec4f2p-3f + s * (-0x1.c81f82p-5f +
        s * (0x1.1843a8p-7f + s * (-0x1.cf514ap-12f)))));
    float odd = -0x1.373e3ap-2f + s * (-0x1.7dff3ep-2f + s * (-0x1.ee0e36p-5f + s * (0x1.a9c96ap-5f +
        s * (-0x1.c8b2f4p-6f + s * (0x1.70bf46p-7f)))));
    return even + w * odd;
}
static inline double lnn_curve_f64(double w) {
    double s = w * w;
    double even = 0.18882128260393788 + s * (0.38713740074221453 + s * (0.24158629956374428 +
        s * (-0.05567507787821465 + s * (0.008534036012819702 + s * (-0.0004885158618477258 +
        s * (0.0007339278314193936 + s * (-0.0025804694590112654 + s * (0.004468205294817092 +
        s * (-0.005710344763124935 + s * (0.005663470870258098 + s * (-0.003982535541346742 +
        s * (0.0014745882807997532))))))))))));
    double odd = -0.30394832098594615 + s * (-0.37304371591927066 + s * (-0.06032151173935652 +
        s * (0.05218619096980622 + s * (-0.02958016255897683 + s * (0.017994302750784417 + s * (-0.012127516266452617 +
        s * (0.008395427889927228 + s * (-0.005237203471708546 + s * (0.0023438127804584316 +
        s * (-0.00031567400025202236 + s * (-0.0002462498431014706)))))))))));
    return even + w * odd;
}

/* erf(x)/x − 1 for s = x² ≤ 1: the polynomials of degree 6 and 12 through its values at Chebyshev's nodes, within 1.3e-9 and 1.3e-19 */
static inline float lnn_near_f32(float s) {
    return 0x1.06eba8p-3f + s * (-0x1.81273ep-2f + s * (0x1.ce2d1p-4f + s * (-0x1.b7fabap-6f + s * (0x1.54127p-8f + s *
        (-0x1.a45088p-11f + s * (0x1.4a569p-14f))))));
}
static inline double lnn_near_f64(double s) {
    return 0.1283791670955126 + s * (-0.3761263890318375 + s * (0.11283791670954879 + s * (-0.026866170645076792 + s *
        (0.0052239776248180145 + s * (-0.000854832698083379 + s * (0.0001205533111164271 + s *
        (-1.4925595266831182e-05 + s * (1.6461000484121368e-06 + s * (-1.6350312701054695e-07 + s *
        (1.4659775274047436e-08 + s * (-1.1372848856791674e-09 + s * (5.957176147748911e-11))))))))))));
}

#include "chain.h"

#define LNN_IVDEP _Pragma("GCC ivdep")
enum { LNN_LINE = 256, LNN_SPELL_OVER = 16 };

/* line[i] = x[(first + i) / inner % count] for i < n; up to LNN_SPELL_OVER cells beyond are overwritten, which makes short runs quick */
#define LNN_SPELL(word) \
    static void lnn_spell_##word(const word *x, ptrdiff_t inner, ptrdiff_t count, ptrdiff_t first, ptrdiff_t n, word *line) { \
        ptrdiff_t c = first / inner % count, i = inner - first % inner; \
        if (i > n) i = n; \
        for (ptrdiff_t k = 0; k < i; k += 8) \
            for (int j = 0; j < 8; j++) line[k + j] = x[c]; \
        while (i < n) { \
            c = c + 1 == count ? 0 : c + 1; \
            const word value = x[c]; \
            const ptrdiff_t end = i + inner < n ? i + inner : n; \
            for (; i < end; i += 8) \
                for (int j = 0; j < 8; j++) line[i + j] = value; \
            i = end; \
        } \
    }
LNN_SPELL(uint8_t)
LNN_SPELL(uint32_t)
LNN_SPELL(uint64_t)
#undef LNN_SPELL

/* the same for cells of `item` bytes; a row that repeats is copied once, and then what is there is doubled */
static void lnn_spell(const char *x, ptrdiff_t item, ptrdiff_t inner, ptrdiff_t count, ptrdiff_t first, ptrdiff_t n, char *line) {
    if (inner == 1) {
        const ptrdiff_t c = first % count, whole = n * item;
        ptrdiff_t have = (count - c) * item;
        memcpy(line, x + c * item, (size_t)(have < whole ? have : whole));
        if (c && have < whole) memcpy(line + have, x, (size_t)((have + c * item < whole ? have + c * item : whole) - have));
        for (have = count * item; have < whole; have *= 2) memcpy(line + have, line, (size_t)(2 * have < whole ? have : whole - have));
    } else if (item == 1) lnn_spell_uint8_t((const uint8_t *)x, inner, count, first, n, (uint8_t *)line);
    else if (item == 4) lnn_spell_uint32_t((const uint32_t *)x, inner, count, first, n, (uint32_t *)line);
    else lnn_spell_uint64_t((const uint64_t *)x, inner, count, first, n, (uint64_t *)line);
}

#define real float
#define LEADING 0xfffff000u
#define FAR 15.f
#define T(name) name##_f32
#define M(name) name##f
#include "elementwise_scalar.h"
#undef real
#undef LEADING
#undef FAR
#undef T
#undef M

#define real double
#define LEADING UINT64_C(0xfffffffff8000000)
#define FAR 39.
#define T(name) name##_f64
#define M(name) name
#include "elementwise_scalar.h"
#undef real
#undef LEADING
#undef FAR
#undef T
#undef M

#define LNN_ENTRY(name, cost) {#name, cost, lnn_##name##_loop_f32, lnn_##name##_loop_f64},
static const lnn_unary_entry lnn_unary_table[] = {LNN_UNARY(LNN_ENTRY) {NULL, 0, NULL, NULL}};
static const lnn_binary_entry lnn_binary_table[] = {LNN_BINARY(LNN_ENTRY) {NULL, 0, NULL, NULL}};
static const lnn_binary_entry lnn_compare_table[] = {LNN_COMPARE(LNN_ENTRY) {NULL, 0, NULL, NULL}};
static const lnn_triple_entry lnn_triple_table[] = {LNN_TRIPLE(LNN_ENTRY) {NULL, 0, NULL, NULL}};
#undef LNN_ENTRY
#define LNN_BOTH_OF(name, cost, inputs) {#name, cost, inputs, lnn_##name##_both_f32, lnn_##name##_both_f64},
#define LNN_OF_ONE(name, cost) LNN_BOTH_OF(name, cost, 2)
#define LNN_OF_TWO(name, cost) LNN_BOTH_OF(name, cost, 4)
static const lnn_both_entry lnn_both_table[] = {
    LNN_BOTH_ONE(LNN_OF_ONE) LNN_BOTH_TWO(LNN_OF_TWO) LNN_BOTH_OF(pow, 20, 3) {NULL, 0, 0, NULL, NULL}};
#undef LNN_BOTH_OF
#undef LNN_OF_ONE
#undef LNN_OF_TWO
#define LNN_ENTRY(name, slots) {#name, slots, lnn_##name##_update_f32, lnn_##name##_update_f64},
static const lnn_update_entry lnn_update_table[] = {LNN_UPDATE(LNN_ENTRY) {NULL, 0, NULL, NULL}};
#undef LNN_ENTRY

#pragma GCC pop_options
#endif
