/* Scalar definitions and their loops for one number type: `real`, T(name) its suffix, M(name) its libm.
 * Included by elementwise.h, once per type. NaN must come out wherever it goes in, hence the direction
 * of each comparison: a false `x <= 0` lets NaN through. */

#define U(name) static inline real T(lnn_##name)(real x, real p, real q)
#define B(name) static inline real T(lnn_##name)(real a, real b, real p, real q)
#define C(name) static inline uint8_t T(lnn_##name)(real a, real b, real p, real q)
#define R(value) ((real)(value))

/* exp(−scale·a²), a from 0 to FAR, scale a power of two */
static inline real T(lnn_fall)(real a, const real scale) {
    const real lead = T(lnn_from_bits)(T(lnn_bits)(a) & LEADING), rest = -scale * ((a + lead) * (a - lead));
    return T(lnn_vexp_sum)(-scale * (lead * lead), rest);
}
/* exp(−x²/2) */
static inline real T(lnn_bell)(real x) {
    const real a = M(fabs)(x);
    return T(lnn_fall)(a > FAR ? FAR : a, R(0.5));
}
/* Φ(−a) without its bell, from a/4 */
static inline real T(lnn_side)(real quarter) {
    const real t = R(1) / (R(1) + quarter);
    return t * T(lnn_curve)(quarter * t - R(0.5));
}
static inline real T(lnn_pdf)(real x) { return R(0.39894228040143267794) * T(lnn_bell)(x); }
static inline real T(lnn_phi)(real x, real bell) {
    real a = M(fabs)(x), tail;
    a = a > FAR ? FAR : a;
    tail = T(lnn_side)(R(0.25) * a) * bell;
    return x < 0 ? tail : R(1) - tail;
}

U(neg) { return -x; }
U(abs) { return M(fabs)(x); }
U(sign) { return x > 0 ? R(1) : x < 0 ? R(-1) : x; }  /* NaN stays, and so does the sign of zero */
U(sqrt) { return M(sqrt)(x); }
U(square) { return x * x; }
U(exp) { return T(lnn_vexp)(x); }
U(log) { return T(lnn_vlog)(x); }
U(expm1) { return T(lnn_vexpm1)(x); }
U(log1p) { return T(lnn_vlog1p)(x); }
U(tanh) { return T(lnn_vtanh)(x); }
U(erf) { /* 1 − 2Φ(−√2·x) loses digits near 0 only; at FAR/2 and beyond it is 1 */
    real a = M(fabs)(x), far;
    a = a > FAR / 2 ? FAR / 2 : a;
    far = R(1) - R(2) * T(lnn_side)(R(0.35355339059327376220) * a) * T(lnn_fall)(a, R(1));
    return a < 1 ? x + x * T(lnn_near)(x * x) : x < 0 ? -far : far;
}
U(sigmoid) { return T(lnn_vsigmoid)(x); }
U(normal_cdf) { return T(lnn_phi)(x, T(lnn_bell)(x)); }
U(normal_pdf) { return T(lnn_pdf)(x); }

U(relu) { return x <= 0 ? R(0) : x; }
U(leaky_relu) { return x > 0 ? x : p * x; }
U(elu) { return x > 0 ? x : p * T(lnn_vexpm1)(x); }
U(gelu) { return x * T(lnn_normal_cdf)(x, p, q); }
/* 1 + 0.044715 x², rounded the same beside whatever else is computed of x² */
static inline real T(lnn_grown)(real x) {
#ifdef __FMA__
    return M(fma)(R(0.044715) * x, x, R(1));
#else
    return R(1) + R(0.044715) * x * x;
#endif
}
/* 0.5 (1 + tanh u) = sigmoid(2u) */
U(gelu_tanh) {
    const real u = R(1.5957691216057307117) * M(fabs)(x) * T(lnn_grown)(x), e = T(lnn_vexp_down)(-u);
    return x * ((x < 0 ? e : R(1)) / (R(1) + e));
}
U(silu) {
    const real e = T(lnn_vexp_down)(-M(fabs)(x));
    return x * ((x < 0 ? e : R(1)) / (R(1) + e));
}
/* p = beta, q = threshold, above which the value is x itself */
U(softplus) {
    real z = p * x, pos = z > 0 ? z : R(0);
    return z > q ? x : (pos + T(lnn_vlog1p)(T(lnn_vexp_down)(-M(fabs)(z)))) / p;
}
U(clip) { real low = x < p ? p : x; return low > q ? q : low; }
/* x²/2 up to p, then a line */
U(huber) { real c = x < -p ? -p : x; c = c > p ? p : c; return c * (x - R(0.5) * c); }
U(hardsigmoid) { real s = x + R(3); s = s < 0 ? R(0) : s; return (s > 6 ? R(6) : s) / R(6); }
U(hardswish) { real s = x + R(3); s = s < 0 ? R(0) : s; return x * (s > 6 ? R(6) : s) / R(6); }

B(add) { return a + b; }
B(sub) { return a - b; }
B(mul) { return a * b; }
B(div) { return a / b; }
B(libm_pow) { return M(pow)(a, b); }
B(maximum) { return (a > b || a != a) ? a : b; }
B(minimum) { return (a < b || a != a) ? a : b; }
/* a gate passes a (a tangent or cotangent) according to b: the derivative of its function at b */
B(relu_gate) { return b <= 0 ? R(0) : a; }
B(sign_gate) { /* a·sign(b); of a number other than 0 that is a sign and no product */
    const real turned = T(lnn_from_bits)(T(lnn_bits)(a) ^ (T(lnn_bits)(b) & T(lnn_bits)(R(-0.0))));
    return __builtin_islessgreater(b, R(0)) ? turned : a * b;
}
B(leaky_gate) { return b > 0 ? a : p * a; }
B(elu_gate) { return b > 0 ? a : a * (p * T(lnn_vexp_down)(b)); }
B(clip_gate) { return (b >= p && b <= q) ? a : R(0); }
B(open_gate) { return M(fabs)(b) < p ? a / q : R(0); }
B(tanh_gate) { return a * ((R(1) - b) * (R(1) + b)); } /* b = tanh(x); no cancellation near ±1 */
B(sigmoid_gate) { return a * (b * (R(1) - b)); }       /* b = sigmoid(x) */
B(square_gate) { return R(2) * (a * b); }
B(sqrt_gate) { return a / (b + b); }                   /* b = sqrt(x) */
B(hardswish_gate) { return b >= R(3) ? a : b <= R(-3) ? R(0) : a * (b * R(0.33333333333333333333) + R(0.5)); }
B(gelu_gate) { /* Φ + b·φ */
    real bell = T(lnn_bell)(b);
    return a * (T(lnn_phi)(b, bell) + b * (R(0.39894228040143267794) * bell));
}
B(gelu_tanh_gate) { /* σ(u) + b·u'·σ(u)·σ(−u), u = √(8/π)·(b + 0.044715 b³); far out u' may be infinite, beside σ(−u) = 0 */
    const real x = R(1.5957691216057307117) * M(fabs)(b), bend = R(0.044715) * b * b;
    const real e = T(lnn_vexp_down)(-(x * T(lnn_grown)(b))), near = R(1) / (R(1) + e), far = e * near;
    const real rest = far > 0 ? x * (R(1) + R(3) * bend) * (far * near) : R(0);
    return a * (b < 0 ? far - rest : near + rest);
}
B(silu_gate) { /* σ + bσ(1 − σ), where 1 − σ(b) = σ(−b) is not had by a subtraction */
    real e = T(lnn_vexp_down)(-M(fabs)(b)), near = R(1) / (R(1) + e), far = e * near;
    return a * ((b < 0 ? far : near) + b * (far * near));
}

C(eq) { return a == b; }
C(ne) { return a != b; }
C(lt) { return a < b; }
C(le) { return a <= b; }
C(gt) { return a > b; }
C(ge) { return a >= b; }

#define UNARY_LOOP(name, cost) \
    static void T(lnn_##name##_loop)(const void *vx, void *vy, ptrdiff_t n, double p0, double p1) { \
        const real *x = (const real *)vx; \
        real *y = (real *)vy; \
        const real p = (real)p0, q = (real)p1; \
        LNN_IVDEP for (ptrdiff_t i = 0; i < n; i++) y[i] = T(lnn_##name)(x[i], p, q); \
    }

/* an operand that is one value for all, as a line of it: then one loop per operator is enough */
static LNN_APART const real *T(lnn_spread)(const void *x, int step, real *line, ptrdiff_t n) {
    if (step || n == 0) return (const real *)x;
    const real value = *(const real *)x;
    const ptrdiff_t most = n < LNN_LINE ? n : LNN_LINE; /* one bound, or the loop is not vector code */
    for (ptrdiff_t i = 0; i < most; i++) line[i] = value;
    return line;
}

#define PAIR_LOOP(name, out_t, ...) \
    static void T(lnn_##name##_loop)(const void *va, const void *vb, void *vy, ptrdiff_t n, int a_step, \
                                     int b_step, double p0, double p1) { \
        real a_line[LNN_LINE], b_line[LNN_LINE]; \
        out_t *y = (out_t *)vy; \
        const real p = (real)p0, q = (real)p1; \
        __VA_ARGS__ \
        const real *a = T(lnn_spread)(va, a_step, a_line, n), *b = T(lnn_spread)(vb, b_step, b_line, n); \
        const ptrdiff_t part = a_step && b_step ? n : LNN_LINE; \
        for (ptrdiff_t left = n; left > 0; left -= part, y += part, a += a_step ? part : 0, b += b_step ? part : 0) { \
            const ptrdiff_t size = left < part ? left : part; \
            LNN_IVDEP for (ptrdiff_t i = 0; i < size; i++) y[i] = T(lnn_##name)(a[i], b[i], p, q); \
        } \
    }
/* of other operators the arithmetic alone is code of their own */
typedef void (*T(lnn_part_of_2))(const real *a, const real *b, real *y, ptrdiff_t n, double p0, double p1);
static LNN_APART void T(lnn_pairs)(T(lnn_part_of_2) part, const void *va, const void *vb, void *vy, ptrdiff_t n, int a_step, int b_step,
                                   double p0, double p1) {
    real a_line[LNN_LINE], b_line[LNN_LINE];
    const real *a = T(lnn_spread)(va, a_step, a_line, n), *b = T(lnn_spread)(vb, b_step, b_line, n);
    for (real *y = (real *)vy; n > 0; n -= LNN_LINE, y += LNN_LINE, a += a_step ? LNN_LINE : 0, b += b_step ? LNN_LINE : 0)
        part(a, b, y, n < LNN_LINE ? n : LNN_LINE, p0, p1);
}
#define BINARY_WITH(name, ...) \
    static LNN_APART void T(lnn_##name##_part)(const real *a, const real *b, real *y, ptrdiff_t n, double p0, double p1) { \
        const real p = (real)p0, q = (real)p1; \
        LNN_IVDEP for (ptrdiff_t i = 0; i < n; i++) y[i] = T(lnn_##name)(a[i], b[i], p, q); \
    } \
    static void T(lnn_##name##_loop)(const void *va, const void *vb, void *vy, ptrdiff_t n, int a_step, \
                                     int b_step, double p0, double p1) { \
        __VA_ARGS__ \
        if (a_step && b_step) T(lnn_##name##_part)((const real *)va, (const real *)vb, (real *)vy, n, p0, p1); \
        else T(lnn_pairs)(T(lnn_##name##_part), va, vb, vy, n, a_step, b_step, p0, p1); \
    }
#define BINARY_LOOP(name, cost) BINARY_WITH(name, )
/* sums, products and extremes with one number are common enough for a loop of their own */
#define NUMBER_LOOP(name) \
    if (a_step && !b_step && n) { \
        const real *x = (const real *)va, one = *(const real *)vb; \
        real *to = (real *)vy; \
        LNN_IVDEP for (ptrdiff_t i = 0; i < n; i++) to[i] = T(lnn_##name)(x[i], one, (real)p0, (real)p1); \
        return; \
    }
#define EXTREME_LOOP(name, cost) BINARY_WITH(name, NUMBER_LOOP(name))

/* Functions of many instructions go by whole vectors, WIDTH values at a time, and what is left at the end is a vector too, with zeros
 * behind: a second, scalar, text of each would be a third of the module, and short arrays would take it. Where
 * vectors are short, and code is compiled for size, plain loops are the smaller text. */
#ifdef __AVX__
#define WIDTH ((ptrdiff_t)(LNN_BYTES / sizeof(real)))
static inline const real *T(lnn_last)(const real *x, real *last, ptrdiff_t n) {
    const T(lnn_v) part = T(lnn_part)(x, n);
    return (const real *)memcpy(last, &part, sizeof part);
}
static inline void T(lnn_put_last)(real *y, const real *last, ptrdiff_t n) {
    T(lnn_v) part;
    memcpy(&part, last, sizeof part);
    T(lnn_put_part)(y, part, n);
}
#define UNARY_TURNS(name, cost) \
    static void T(lnn_##name##_loop)(const void *vx, void *vy, ptrdiff_t n, double p0, double p1) { \
        const real *x = (const real *)vx, p = (real)p0, q = (real)p1; \
        real *y = (real *)vy, last[WIDTH]; \
        for (; n > 0; n -= WIDTH, x += WIDTH, y += WIDTH) { \
            real *to = n < WIDTH ? last : y; \
            if (n < WIDTH) x = T(lnn_last)(x, last, n); \
            LNN_IVDEP for (int i = 0; i < WIDTH; i++) to[i] = T(lnn_##name)(x[i], p, q); \
            if (n < WIDTH) T(lnn_put_last)(y, last, n); \
        } \
    }
#define BINARY_TURNS(name, cost) \
    static void T(lnn_##name##_loop)(const void *va, const void *vb, void *vy, ptrdiff_t n, int a_step, int b_step, double p0, double p1) { \
        const real p = (real)p0, q = (real)p1; \
        real *y = (real *)vy, a_line[LNN_LINE], b_line[LNN_LINE]; \
        const real *a = T(lnn_spread)(va, a_step, a_line, n ? WIDTH : 0), *b = T(lnn_spread)(vb, b_step, b_line, n ? WIDTH : 0); \
        for (; n > 0; n -= WIDTH, y += WIDTH, a += a_step ? WIDTH : 0, b += b_step ? WIDTH : 0) { \
            real *to = n < WIDTH ? a_line : y; \
            if (n < WIDTH && a_step) a = T(lnn_last)(a, a_line, n); \
            if (n < WIDTH && b_step) b = T(lnn_last)(b, b_line, n); \
            LNN_IVDEP for (int i = 0; i < WIDTH; i++) to[i] = T(lnn_##name)(a[i], b[i], p, q); \
            if (n < WIDTH) T(lnn_put_last)(y, a_line, n); \
        } \
    }
#else
#define UNARY_TURNS(name, cost) UNARY_LOOP(name, cost)
#define BINARY_TURNS(name, cost) BINARY_LOOP(name, cost)
#endif
#ifdef __AVX__
#define BOTH_TURNS(name, cost) \
    static void T(lnn_##name##_both)(const void *const *in, void *vy, void *vdot, ptrdiff_t n, int far) { \
        const real *x = (const real *)in[0], *t = (const real *)in[1]; \
        real *y = (real *)vy, *dot = (real *)vdot, x_last[WIDTH], t_last[WIDTH]; \
        for (; n > 0; n -= WIDTH, x += WIDTH, t += WIDTH, y += WIDTH, dot += WIDTH) { \
            real *to = n < WIDTH ? x_last : y, *to_dot = n < WIDTH ? t_last : dot; \
            if (n < WIDTH) x = T(lnn_last)(x, x_last, n), t = T(lnn_last)(t, t_last, n); \
            LNN_IVDEP for (int i = 0; i < WIDTH; i++) { \
                const real at = x[i], by = t[i]; \
                to[i] = T(lnn_##name)(at, R(0), R(0)); \
                to_dot[i] = T(lnn_##name##_gate)(by, at, R(0), R(0)); \
            } \
            if (n < WIDTH) T(lnn_put_last)(y, x_last, n), T(lnn_put_last)(dot, t_last, n); \
        } \
    }
#else
#define BOTH_TURNS(name, cost) \
    static void T(lnn_##name##_both)(const void *const *in, void *vy, void *vdot, ptrdiff_t n, int far) { \
        const real *x = (const real *)in[0], *t = (const real *)in[1]; \
        real *y = (real *)vy, *dot = (real *)vdot; \
        LNN_IVDEP for (ptrdiff_t i = 0; i < n; i++) { \
            const real at = x[i], by = t[i]; \
            y[i] = T(lnn_##name)(at, R(0), R(0)); \
            dot[i] = T(lnn_##name##_gate)(by, at, R(0), R(0)); \
        } \
    }
#endif
#define COMMON_LOOP(name, cost) PAIR_LOOP(name, real, NUMBER_LOOP(name))
#define COMPARE_LOOP(name, cost) PAIR_LOOP(name, uint8_t, )

LNN_UNARY_LIGHT(UNARY_LOOP)
LNN_UNARY_HEAVY(UNARY_TURNS)
LNN_BINARY_COMMON(COMMON_LOOP)
LNN_BINARY_EXTREME(EXTREME_LOOP)
LNN_BINARY_LIGHT(BINARY_LOOP)
LNN_BINARY_HEAVY(BINARY_TURNS)
LNN_BOTH_ONE(BOTH_TURNS)
BINARY_LOOP(libm_pow, 40)
LNN_COMPARE(COMPARE_LOOP)

/* x to the power ½, as C has it: of −0 it is 0, of −∞ it is ∞ */
static inline real T(lnn_half_power)(real x) { return x == R(-INFINITY) ? R(INFINITY) : M(sqrt)(x + R(0)); }

/* One small exponent for all elements is a product or a root: x² and √x are then rounded correctly, the others within 1.5 ulp. */
static void T(lnn_pow_loop)(const void *va, const void *vb, void *vy, ptrdiff_t n, int a_step, int b_step,
                            double p0, double p1) {
    const real *a = (const real *)va;
    real *y = (real *)vy;
    const real e = (n && !b_step && a_step) ? *(const real *)vb : R(0);
    if (e == R(1)) {
        LNN_IVDEP for (ptrdiff_t i = 0; i < n; i++) y[i] = a[i];
    } else if (e == R(2)) {
        LNN_IVDEP for (ptrdiff_t i = 0; i < n; i++) y[i] = a[i] * a[i];
    } else if (e == R(3)) {
        LNN_IVDEP for (ptrdiff_t i = 0; i < n; i++) y[i] = a[i] * a[i] * a[i];
    } else if (e == R(-1)) {
        LNN_IVDEP for (ptrdiff_t i = 0; i < n; i++) y[i] = R(1) / a[i];
    } else if (e == R(0.5)) {
        LNN_IVDEP for (ptrdiff_t i = 0; i < n; i++) y[i] = T(lnn_half_power)(a[i]);
    } else if (e == R(-0.5)) {
        LNN_IVDEP for (ptrdiff_t i = 0; i < n; i++) y[i] = R(1) / T(lnn_half_power)(a[i]);
    } else if (e == R(1.5)) {
        LNN_IVDEP for (ptrdiff_t i = 0; i < n; i++) y[i] = M(fabs)(a[i]) * T(lnn_half_power)(a[i]);
    } else {
        T(lnn_libm_pow_loop)(va, vb, vy, n, a_step, b_step, p0, p1);
    }
}

/* t·b·a^(b − 1), and 0 where b is 0: a constant has no slope even at a = 0. Powers go pow's own ways, a line at a time; the
 * commonest have a loop of their own, and x^(−1/2) has none among those. */
static inline real T(lnn_slope)(real t, real b, real power) { return b == 0 ? R(0) : t * (b * power); }
static inline real T(lnn_half_slope)(real t, real b, real root) { return t * (b / root); }
static inline real T(lnn_less_slope)(real t, real b, real a, real root) { return t * (b / M(fabs)(a) / root); }
static void T(lnn_pow_gate_loop)(const void *vt, const void *va, const void *vb, void *vy, ptrdiff_t n, int t_step, int a_step,
                                 int b_step) {
    real t_line[LNN_LINE], b_line[LNN_LINE], less[LNN_LINE], power[LNN_LINE], *y = (real *)vy;
    const real *t = T(lnn_spread)(vt, t_step, t_line, n), *a = (const real *)va, *b = (const real *)vb;
    const real one = (n && !b_step && a_step && t_step) ? *b : R(0);
    if (one == R(3)) {
        LNN_IVDEP for (ptrdiff_t i = 0; i < n; i++) y[i] = t[i] * (one * (a[i] * a[i]));
        return;
    }
    if (one == R(0.5)) {
        LNN_IVDEP for (ptrdiff_t i = 0; i < n; i++) y[i] = T(lnn_half_slope)(t[i], one, T(lnn_half_power)(a[i]));
        return;
    }
    if (one == R(-0.5)) {
        LNN_IVDEP for (ptrdiff_t i = 0; i < n; i++) y[i] = T(lnn_less_slope)(t[i], one, a[i], T(lnn_half_power)(a[i]));
        return;
    }
    b = T(lnn_spread)(vb, b_step, b_line, n);
    for (ptrdiff_t left = n; left > 0; left -= LNN_LINE, y += LNN_LINE) {
        const ptrdiff_t size = left < LNN_LINE ? left : LNN_LINE;
        for (ptrdiff_t i = 0; i < (b_step ? size : 1); i++) less[i] = b[i] - R(1);
        T(lnn_pow_loop)(a, less, power, size, a_step, b_step, 0, 0);
        LNN_IVDEP for (ptrdiff_t i = 0; i < size; i++) y[i] = T(lnn_slope)(t[i], b[i], power[i]);
        t += t_step ? LNN_LINE : 0, a += a_step ? LNN_LINE : 0, b += b_step ? LNN_LINE : 0;
    }
}
/* a root is taken once for both */
static void T(lnn_pow_both)(const void *const *in, void *vy, void *vdot, ptrdiff_t n, int far) {
    const real *x = (const real *)in[0], *t = (const real *)in[2], e = *(const real *)in[1];
    real *y = (real *)vy, *dot = (real *)vdot;
    if (e == R(0.5)) {
        LNN_IVDEP for (ptrdiff_t i = 0; i < n; i++) {
            const real by = t[i], root = T(lnn_half_power)(x[i]);
            y[i] = root, dot[i] = T(lnn_half_slope)(by, e, root);
        }
    } else if (e == R(-0.5)) {
        LNN_IVDEP for (ptrdiff_t i = 0; i < n; i++) {
            const real at = x[i], by = t[i], root = T(lnn_half_power)(at);
            y[i] = R(1) / root, dot[i] = T(lnn_less_slope)(by, e, at, root);
        }
    } else for (const ptrdiff_t turn = far ? LNN_BURST / (ptrdiff_t)sizeof(real) : LNN_TURN; n > 0;
                n -= turn, x += turn, t += turn, y += turn, dot += turn) { /* as chains go, see _chain.pxd */
        const ptrdiff_t size = n < turn ? n : turn, bytes = far ? LNN_BURST : 0;
        lnn_fetch((const char *)t, bytes), lnn_fetch((const char *)dot, bytes);
        T(lnn_pow_loop)(x, &e, y, size, 1, 0, 0, 0);
        lnn_fetch((const char *)(x + size), bytes), lnn_fetch((const char *)(y + size), bytes);
        T(lnn_pow_gate_loop)(t, x, &e, dot, size, 1, 1, 0);
    }
}

static void T(lnn_where_loop)(const void *vc, const void *va, const void *vb, void *vy, ptrdiff_t n, int c_step,
                              int a_step, int b_step) {
    const uint8_t *c = (const uint8_t *)vc;
    real a_line[LNN_LINE], b_line[LNN_LINE];
    const real *a = T(lnn_spread)(va, a_step, a_line, n), *b = T(lnn_spread)(vb, b_step, b_line, n);
    real *y = (real *)vy;
    for (ptrdiff_t left = n; left > 0; left -= LNN_LINE, y += LNN_LINE) {
        const ptrdiff_t size = left < LNN_LINE ? left : LNN_LINE;
        if (c_step) {
            LNN_IVDEP for (ptrdiff_t i = 0; i < size; i++) { real s = a[i], t = b[i]; y[i] = c[i] ? s : t; }
            c += LNN_LINE;
        } else {
            memmove(y, c[0] ? a : b, (size_t)size * sizeof(real));
        }
        a += a_step ? LNN_LINE : 0, b += b_step ? LNN_LINE : 0;
    }
}

/* what of t goes to a beside b: all where it is larger, or one is NaN, half at a tie */
static inline real T(lnn_larger_gate)(real t, real a, real b) {
    const real half = R(0.5) * t, taken = a == b ? half : t;
    return a < b ? R(0) : taken;
}

/* Where no cache holds the arrays, the next burst of each is asked for before this one is computed. */
#define BURSTS(...) \
    for (const ptrdiff_t turn = far ? LNN_BURST / (ptrdiff_t)sizeof(real) : n; n > 0; n -= turn, __VA_ARGS__)
#define FETCH(array) lnn_fetch((const char *)(array + turn), far ? LNN_BURST : 0)
#define EXTREME_BOTH(name, first, second) \
    static void T(lnn_##name##_both)(const void *const *in, void *vy, void *vdot, ptrdiff_t n, int far) { \
        const real *a = (const real *)in[0], *b = (const real *)in[1], *s = (const real *)in[2], *t = (const real *)in[3]; \
        real *y = (real *)vy, *dot = (real *)vdot; \
        BURSTS(a += turn, b += turn, s += turn, t += turn, y += turn, dot += turn) { \
            const ptrdiff_t size = n < turn ? n : turn; \
            FETCH(a), FETCH(b), FETCH(s), FETCH(t), FETCH(y), FETCH(dot); \
            LNN_IVDEP for (ptrdiff_t i = 0; i < size; i++) { \
                const real one = a[i], two = b[i], by_one = s[i], by_two = t[i]; \
                y[i] = T(lnn_##name)(one, two, R(0), R(0)); \
                dot[i] = T(lnn_larger_gate)(by_one, first, second) + T(lnn_larger_gate)(by_two, second, first); \
            } \
        } \
    }
EXTREME_BOTH(maximum, one, two)
EXTREME_BOTH(minimum, two, one)
#undef BURSTS
#undef FETCH
#undef EXTREME_BOTH

/* and so of those of three arrays */
typedef void (*T(lnn_part_of_3))(const real *a, const real *b, const real *c, real *y, ptrdiff_t n);
static LNN_APART void T(lnn_triples)(T(lnn_part_of_3) part, const void *va, const void *vb, const void *vc, void *vy, ptrdiff_t n,
                                     int a_step, int b_step, int c_step) {
    real a_line[LNN_LINE], b_line[LNN_LINE], c_line[LNN_LINE], *y = (real *)vy;
    const real *a = T(lnn_spread)(va, a_step, a_line, n), *b = T(lnn_spread)(vb, b_step, b_line, n);
    const real *c = T(lnn_spread)(vc, c_step, c_line, n);
    for (; n > 0; n -= LNN_LINE, y += LNN_LINE) {
        part(a, b, c, y, n < LNN_LINE ? n : LNN_LINE);
        a += a_step ? LNN_LINE : 0, b += b_step ? LNN_LINE : 0, c += c_step ? LNN_LINE : 0;
    }
}
#define TRIPLE_LOOP(name, ...) \
    static LNN_APART void T(lnn_##name##_part)(const real *a, const real *b, const real *c, real *y, ptrdiff_t n) { \
        LNN_IVDEP for (ptrdiff_t i = 0; i < n; i++) y[i] = T(lnn_##name)(a[i], b[i], c[i]); \
    } \
    static void T(lnn_##name##_loop)(const void *va, const void *vb, const void *vc, void *vy, ptrdiff_t n, int a_step, int b_step, int c_step) { \
        __VA_ARGS__ \
        if (a_step && b_step && c_step) T(lnn_##name##_part)((const real *)va, (const real *)vb, (const real *)vc, (real *)vy, n); \
        else T(lnn_triples)(T(lnn_##name##_part), va, vb, vc, vy, n, a_step, b_step, c_step); \
    }
TRIPLE_LOOP(larger_gate, if (a_step && b_step != c_step && n) { /* beside a number */
    const real *t = (const real *)va, *x = (const real *)(b_step ? vb : vc), one = *(const real *)(b_step ? vc : vb);
    real *y = (real *)vy;
    if (b_step) { LNN_IVDEP for (ptrdiff_t i = 0; i < n; i++) y[i] = T(lnn_larger_gate)(t[i], x[i], one); }
    else { LNN_IVDEP for (ptrdiff_t i = 0; i < n; i++) y[i] = T(lnn_larger_gate)(t[i], one, x[i]); }
    return;
})
static inline real T(lnn_div_gate)(real t, real y, real b) { return -(t * y) / b; } /* y = a / b, which falls as b grows */
TRIPLE_LOOP(div_gate, )
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off") /* two roundings: the bits of a product and a sum */
static inline real T(lnn_muladd)(real a, real b, real c) { return a * b + c; }
TRIPLE_LOOP(muladd, if (a_step && !b_step && !c_step && n) { /* a plane of one channel */
    const real *x = (const real *)va, scale = *(const real *)vb, shift = *(const real *)vc;
    real *y = (real *)vy;
    LNN_IVDEP for (ptrdiff_t i = 0; i < n; i++) y[i] = x[i] * scale + shift;
    return;
})
#pragma GCC pop_options

#include "elementwise_update.h"

#undef U
#undef B
#undef C
#undef R
#undef WIDTH
#undef UNARY_LOOP
#undef UNARY_TURNS
#undef PAIR_LOOP
#undef NUMBER_LOOP
#undef COMMON_LOOP
#undef BINARY_LOOP
#undef BINARY_WITH
#undef EXTREME_LOOP
#undef BINARY_TURNS
#undef BOTH_TURNS
#undef COMPARE_LOOP
#undef TRIPLE_LOOP
