/* The functions of vmath.h for one number type; included there, once per type. */

#define MAGIC ((real)((bits)3 << (DIGITS - 1)))
#define LOG2E ((real)1.44269504088896340736)
#define INFINITE V(from_bits)((bits)(2 * BIAS + 1) << DIGITS)
#define NO_NUMBER V(from_bits)((bits)(4 * BIAS + 3) << (DIGITS - 1))

/* 2ⁿ for a whole n in the range of normal numbers */
LNN_MATH real V(pow2)(real n) {
    return V(from_bits)((V(bits)(n + MAGIC) << DIGITS) + ((bits)BIAS << DIGITS));
}

LNN_MATH real V(vexp)(real x) {
    real c = x < EXP_MIN ? EXP_MIN : x;
    c = c > EXP_MAX ? EXP_MAX : c;
    real n = V(fma)(c, LOG2E, MAGIC) - MAGIC;
    real high = V(fma)(-n, LN2_HI, c), r = V(fma)(-n, LN2_LO, high), lost = V(fma)(-n, LN2_LO, high - r);
    real half = V(fma)(n, (real)0.5, MAGIC) - MAGIC;
    real square = r * r, tail = V(exp_tail)(r);
    real e = 1 + (r + V(fma)(square, tail, lost));
    return (e * V(pow2)(half)) * V(pow2)(n - half);
}

/* exp(x + rest) for an x that is not positive and not below EXP_MIN by much, |rest| ≤ 0.05: in two thirds of the instructions, as 2ⁿ
 * is one factor, lifted so that it is a normal number */
LNN_MATH real V(exp_part)(real k, real r) { /* 2ⁿ·exp(r), k = n + MAGIC */
    real square = r * r, tail = V(exp_tail)(r), e = 1 + V(fma)(square, tail, r);
    return e * V(from_bits)((V(bits)(k) << DIGITS) + ((bits)(BIAS + LIFT) << DIGITS)) * V(from_bits)((bits)(BIAS - LIFT) << DIGITS);
}
LNN_MATH real V(vexp_sum)(real x, real rest) {
    real k = V(fma)(x, LOG2E, MAGIC), n = k - MAGIC;
    return V(exp_part)(k, V(fma)(-n, LN2_LO, V(fma)(-n, LN2_HI, x)) + rest);
}
LNN_MATH real V(vexp_down)(real x) { /* not by a rest of 0, whose sum the compiler would keep */
    real c = x < EXP_MIN ? EXP_MIN : x, k = V(fma)(c, LOG2E, MAGIC), n = k - MAGIC;
    return V(exp_part)(k, V(fma)(-n, LN2_LO, V(fma)(-n, LN2_HI, c)));
}

/* 2ⁿ·(e^r − 1) + (2ⁿ − 1), halved inside so that 2ⁿ⁻¹ is finite wherever the result is */
LNN_MATH real V(vexpm1)(real x) {
    real c = x < EXPM1_MIN ? EXPM1_MIN : x;
    c = c > EXP_MAX ? EXP_MAX : c;
    real n = V(fma)(c, LOG2E, MAGIC) - MAGIC;
    real high = V(fma)(-n, LN2_HI, c), r = V(fma)(-n, LN2_LO, high), lost = V(fma)(-n, LN2_LO, high - r);
    real s = V(pow2)(n - 1), square = r * r, tail = V(exp_tail)(r);
    real e = r + V(fma)(square, tail, lost);
    real y = 2 * V(fma)(s, e, s - (real)0.5);
    y = n == 0 ? e : y;
    return x == 0 ? x : y;
}

LNN_MATH real V(vlog)(real x) {
    const bits low = V(bits)((real)0.70710678118654752440), field = ((bits)1 << DIGITS) - 1;
    const int lift = x < TINY; /* a denormal is brought into the normal range first */
    bits i = V(bits)(lift ? x * (real)((bits)1 << DIGITS) : x) - low + ((bits)BIAS << DIGITS);
    real e = V(exponent)(i) - (lift ? (real)DIGITS : (real)0);
    real f = V(from_bits)((i & field) + low) - 1, s = f / (2 + f), h = (real)0.5 * f * f;
    /* log(1 + f) = 2·artanh(s), arranged so that the leading term is f itself */
    real tail = V(log_tail)(s * s), inner = V(fma)((real)2, tail, h), outer = V(fma)(-s, inner, h);
    real y = V(fma)(e, LN2_LO, -outer) + f;
    y = V(fma)(e, LN2_HI, y);
    y = x == 0 ? -INFINITE : y;
    y = x < 0 ? NO_NUMBER : y;
    return x < INFINITE ? y : x; /* infinity and NaN are their own logarithms */
}

/* log(u) for u = 1 + x, and what the rounding of u lost */
LNN_MATH real V(vlog1p)(real x) {
    real u = 1 + x, lost = x - (u - 1), y = V(vlog)(u);
    real z = y + lost / u;
    z = (u > 0 && u < INFINITE) ? z : y;
    return x == 0 ? x : z;
}

/* e/(e + 2) with e = exp(2|x|) − 1: no cancellation near 0 */
LNN_MATH real V(vtanh)(real x) {
    real a = x < 0 ? -x : x;
    real e = V(vexpm1)(2 * (a > TANH_MAX ? TANH_MAX : a));
    real y = e / (e + 2);
    y = x < 0 ? -y : y;
    return x == 0 ? x : y;
}

/* exp of a negative number only: no overflow, and a small result keeps its relative accuracy */
LNN_MATH real V(vsigmoid)(real x) {
    real e = V(vexp_down)(x < 0 ? x : -x);
    return (x < 0 ? e : 1) / (1 + e);
}

#undef MAGIC
#undef LOG2E
#undef INFINITE
#undef NO_NUMBER
#undef real
#undef bits
#undef V
#undef DIGITS
#undef BIAS
#undef LN2_HI
#undef LN2_LO
#undef EXP_MIN
#undef LIFT
#undef EXP_MAX
#undef EXPM1_MIN
#undef TANH_MAX
#undef TINY
