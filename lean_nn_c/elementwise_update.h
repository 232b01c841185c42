/* Optimiser updates for one number type, included by elementwise.h: each element is read once, changed, written once.
 *
 * in[0] is the parameter, in[1] its gradient, in[2], … the optimiser's own arrays (slots); out[0] is the new parameter
 * and out[1], … the new slots. An element depends on the same element alone, and
 * all of them are read before any is written, so an output may be any of the inputs. `c` holds the
 * numbers of the rule, worked out once per call in double (lean_nn/ops/optim.py names them in this order):
 * c[0] = the step's length, c[1] = weight decay, c[2] = ±1, the direction of the gradient; the rest is the rule's own. */

#define IN(k) ((const real *)in[k])
#define OUT(k) ((real *)out[k])
#define N(k) ((real)c[k])
#define UPDATE(name, ...) \
    static void T(lnn_##name##_update)(const void *const *in, void *const *out, const double *c, ptrdiff_t n) { \
        const real *p = IN(0), *g = IN(1); \
        real *p_new = OUT(0); \
        const real rate = N(0), decay = N(1), sign = N(2); \
        const int decays = decay != 0; /* 0·inf would be NaN */ \
        __VA_ARGS__ \
    }
/* one loop over elements; d is the gradient with its direction and the decay */
#define EACH(...) \
    LNN_IVDEP for (ptrdiff_t i = 0; i < n; i++) { \
        const real x = p[i]; \
        real d = sign * g[i]; \
        d = decays ? d + decay * x : d; \
        __VA_ARGS__ \
    }

UPDATE(sgd, EACH(p_new[i] = x - rate * d;))

UPDATE(momentum,
    const real *v = IN(2); real *v_new = OUT(1);
    const real keep = N(3), gain = N(4); const int nesterov = c[5] != 0;
    EACH(const real w = keep * v[i] + gain * d;
         const real way = nesterov ? d + keep * w : w;
         v_new[i] = w;
         p_new[i] = x - rate * way;))

/* c[3] = 1 − lr·decay of AdamW, c[4] = 1 − β₁, c[5] = β₂, c[6] = 1 − β₂, c[7] = 1/√(1 − β₂ᵗ), c[8] = ε */
#define MOMENTS \
    const real *m = IN(2), *v = IN(3); real *m_new = OUT(1), *v_new = OUT(2); \
    const real shrink = N(3), a = N(4), keep = N(5), b = N(6), scale = N(7), eps = N(8);

UPDATE(adam, MOMENTS
    EACH(const real s = m[i] + (d - m[i]) * a; const real q = keep * v[i] + b * (d * d);
         m_new[i] = s;
         v_new[i] = q;
         p_new[i] = x * shrink - rate * (s / (M(sqrt)(q) * scale + eps));))

UPDATE(amsgrad, MOMENTS
    const real *top = IN(4); real *top_new = OUT(3);
    EACH(const real s = m[i] + (d - m[i]) * a; const real q = keep * v[i] + b * (d * d);
         const real t = T(lnn_maximum)(top[i], q, 0, 0);
         m_new[i] = s;
         v_new[i] = q;
         top_new[i] = t;
         p_new[i] = x * shrink - rate * (s / (M(sqrt)(t) * scale + eps));))

/* c[3] = α, c[4] = 1 − α, c[5] = ε, c[6] = momentum; centred: the variance of the gradient and not its mean square */
#define SQUARES const real *v = IN(2); real *v_new = OUT(1); const real keep = N(3), a = N(4), eps = N(5);
#define CENTRE const real *mean = IN(3); real *mean_new = OUT(2);
#define CENTRED \
    const real q = keep * v[i] + a * (d * d); const real e = mean[i] + (d - mean[i]) * a; \
    const real spread = q - e * e; \
    const real way = d / (M(sqrt)(spread < 0 ? R(0) : spread) + eps); \
    v_new[i] = q; \
    mean_new[i] = e;
#define PLAIN_SQUARE \
    const real q = keep * v[i] + a * (d * d); const real way = d / (M(sqrt)(q) + eps); v_new[i] = q;

UPDATE(rmsprop, SQUARES EACH(PLAIN_SQUARE p_new[i] = x - rate * way;))

UPDATE(rmsprop_momentum, SQUARES
    const real *b = IN(3); real *b_new = OUT(2); const real more = N(6);
    EACH(const real old = b[i]; PLAIN_SQUARE const real w = more * old + way; b_new[i] = w; p_new[i] = x - rate * w;))

UPDATE(rmsprop_centered, SQUARES CENTRE EACH(CENTRED p_new[i] = x - rate * way;))

UPDATE(rmsprop_centered_momentum, SQUARES CENTRE
    const real *b = IN(4); real *b_new = OUT(3); const real more = N(6);
    EACH(const real old = b[i]; CENTRED const real w = more * old + way; b_new[i] = w; p_new[i] = x - rate * w;))

UPDATE(adagrad,
    const real *v = IN(2); real *v_new = OUT(1); const real eps = N(3);
    EACH(const real q = v[i] + d * d; v_new[i] = q; p_new[i] = x - rate * (d / (M(sqrt)(q) + eps));))

#undef IN
#undef OUT
#undef N
#undef UPDATE
#undef EACH
#undef MOMENTS
#undef SQUARES
#undef CENTRE
#undef CENTRED
#undef PLAIN_SQUARE
