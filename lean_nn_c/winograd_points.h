/* The one-dimensional transforms of winograd_tile.h, which includes this where T and V are named. `side`, the products of an axis, is a
 * compile-time constant:
 *
 *     4    0, +-1, oo                     two outputs and three taps
 *     6    0, +-A, +-B, oo                four outputs and three taps
 *     9    0, +-A, +-B, +-i, oo           four outputs and five taps
 *
 * A pair +-p shares the even and odd parts of a polynomial. So does +-i, where its value is a complex number: such numbers are
 * multiplied by three products, of real parts (5), of imaginary parts (6), and of the sums of both (7).
 */

/* v = B^T d */
LNN_INLINE void LNN_NAME(lnn_image_1d)(const int side, const V *d, V *v)
{
    if (side == 4) {
        v[0] = d[0] - d[2], v[1] = d[1] + d[2], v[2] = d[2] - d[1], v[3] = d[3] - d[1];
        return;
    }
    if (side == 9) {
        const V even = d[6] - (T)LNN_SUM * d[4] + (T)LNN_ALL * d[2], odd = d[5] - (T)LNN_SUM * d[3] + (T)LNN_ALL * d[1];
        const V even_a = d[6] - (T)(LNN_BB - 1) * d[4] - (T)LNN_BB * d[2], odd_a = d[5] - (T)(LNN_BB - 1) * d[3] - (T)LNN_BB * d[1];
        const V even_b = d[6] - (T)(LNN_AA - 1) * d[4] - (T)LNN_AA * d[2], odd_b = d[5] - (T)(LNN_AA - 1) * d[3] - (T)LNN_AA * d[1];
        v[0] = even + (d[4] - (T)LNN_SUM * d[2] + (T)LNN_ALL * d[0]);
        v[1] = even_a + (T)LNN_A * odd_a, v[2] = even_a - (T)LNN_A * odd_a;
        v[3] = even_b + (T)LNN_B * odd_b, v[4] = even_b - (T)LNN_B * odd_b;
        v[5] = even + odd, v[6] = even - odd, v[7] = odd;
        v[8] = odd + (d[7] - (T)LNN_SUM * d[5] + (T)LNN_ALL * d[3]);
        return;
    }
    const V even = d[4] - (T)LNN_BB * d[2], odd = d[3] - (T)LNN_BB * d[1];
    const V even2 = d[4] - (T)LNN_AA * d[2], odd2 = d[3] - (T)LNN_AA * d[1];
    v[0] = even2 - (T)LNN_BB * (d[2] - (T)LNN_AA * d[0]);
    v[1] = even + (T)LNN_A * odd;
    v[2] = even - (T)LNN_A * odd;
    v[3] = even2 + (T)LNN_B * odd2;
    v[4] = even2 - (T)LNN_B * odd2;
    v[5] = d[5] - (T)LNN_AA * d[3] - (T)LNN_BB * odd2;
}

/* u = G g */
LNN_INLINE void LNN_NAME(lnn_weight_1d)(const int side, const V *g, V *u)
{
    if (side == 4) {
        const V even = (T)0.5 * (g[0] + g[2]), odd = (T)0.5 * g[1];
        u[0] = g[0], u[1] = even + odd, u[2] = even - odd, u[3] = g[2];
        return;
    }
    if (side == 9) {
        const V even = (T)(1 / LNN_NA9) * (g[0] + (T)LNN_AA * (g[2] + (T)LNN_AA * g[4]));
        const V even2 = (T)(1 / LNN_NB9) * (g[0] + (T)LNN_BB * (g[2] + (T)LNN_BB * g[4]));
        const V odd = (T)(LNN_A / LNN_NA9) * (g[1] + (T)LNN_AA * g[3]), odd2 = (T)(LNN_B / LNN_NB9) * (g[1] + (T)LNN_BB * g[3]);
        const V real = (T)(1 / LNN_NI) * (g[0] - g[2] + g[4]), imaginary = (T)(1 / LNN_NI) * (g[1] - g[3]);
        u[0] = (T)(1 / LNN_ALL) * g[0], u[8] = g[4];
        u[1] = even + odd, u[2] = even - odd, u[3] = even2 + odd2, u[4] = even2 - odd2;
        u[5] = -real, u[6] = imaginary, u[7] = real + imaginary;
        return;
    }
    const V even = (T)(1 / LNN_NA) * (g[0] + (T)LNN_AA * g[2]), even2 = (T)(1 / LNN_NB) * (g[0] + (T)LNN_BB * g[2]);
    u[0] = (T)(1 / LNN_ALL) * g[0];
    u[1] = even + (T)(LNN_A / LNN_NA) * g[1];
    u[2] = even - (T)(LNN_A / LNN_NA) * g[1];
    u[3] = even2 + (T)(LNN_B / LNN_NB) * g[1];
    u[4] = even2 - (T)(LNN_B / LNN_NB) * g[1];
    u[5] = g[2];
}

/* y = A^T t */
LNN_INLINE void LNN_NAME(lnn_output_1d)(const int side, const V *t, V *y)
{
    const V sum = t[1] + t[2], diff = t[1] - t[2];
    if (side == 4) {
        y[0] = t[0] + sum, y[1] = diff + t[3];
        return;
    }
    const V sum2 = t[3] + t[4], diff2 = t[3] - t[4];
    if (side == 9) {
        const V real = t[5] + t[7], imaginary = t[6] + t[7];
        y[0] = (t[0] + real) + (sum + sum2);
        y[1] = imaginary + ((T)LNN_A * diff + (T)LNN_B * diff2);
        y[2] = ((T)LNN_AA * sum + (T)LNN_BB * sum2) - real;
        y[3] = (t[8] - imaginary) + ((T)(LNN_A * LNN_AA) * diff + (T)(LNN_B * LNN_BB) * diff2);
        return;
    }
    y[0] = t[0] + (sum + sum2);
    y[1] = (T)LNN_A * diff + (T)LNN_B * diff2;
    y[2] = (T)LNN_AA * sum + (T)LNN_BB * sum2;
    y[3] = t[5] + ((T)(LNN_A * LNN_AA) * diff + (T)(LNN_B * LNN_BB) * diff2);
}

/* q = A g */
LNN_INLINE void LNN_NAME(lnn_cotangent_1d)(const int side, const V *g, V *q)
{
    if (side == 4) {
        q[0] = g[0], q[1] = g[0] + g[1], q[2] = g[0] - g[1], q[3] = g[1];
        return;
    }
    const V even = g[0] + (T)LNN_AA * g[2], odd = (T)LNN_A * (g[1] + (T)LNN_AA * g[3]);
    const V even2 = g[0] + (T)LNN_BB * g[2], odd2 = (T)LNN_B * (g[1] + (T)LNN_BB * g[3]);
    q[0] = g[0], q[1] = even + odd, q[2] = even - odd, q[3] = even2 + odd2, q[4] = even2 - odd2;
    q[side - 1] = g[3];
    if (side == 9) q[5] = g[0] - g[2], q[6] = g[1] - g[3], q[7] = q[5] + q[6];
}

/* w = G^T u */
LNN_INLINE void LNN_NAME(lnn_filter_1d)(const int side, const V *u, V *w)
{
    const V sum = u[1] + u[2], diff = u[1] - u[2];
    if (side == 4) {
        w[0] = u[0] + (T)0.5 * sum, w[1] = (T)0.5 * diff, w[2] = u[3] + (T)0.5 * sum;
        return;
    }
    const V sum2 = u[3] + u[4], diff2 = u[3] - u[4];
    if (side == 9) {
        const V real = (T)(1 / LNN_NI) * (u[7] - u[5]), imaginary = (T)(1 / LNN_NI) * (u[6] + u[7]);
        const V a = (T)(1 / LNN_NA9) * sum, b = (T)(1 / LNN_NB9) * sum2, c = (T)(LNN_A / LNN_NA9) * diff, d = (T)(LNN_B / LNN_NB9) * diff2;
        w[0] = (T)(1 / LNN_ALL) * u[0] + real + (a + b);
        w[1] = imaginary + (c + d);
        w[2] = ((T)LNN_AA * a + (T)LNN_BB * b) - real;
        w[3] = ((T)LNN_AA * c + (T)LNN_BB * d) - imaginary;
        w[4] = (u[8] + real) + ((T)(LNN_AA * LNN_AA) * a + (T)(LNN_BB * LNN_BB) * b);
        return;
    }
    w[0] = (T)(1 / LNN_ALL) * u[0] + ((T)(1 / LNN_NA) * sum + (T)(1 / LNN_NB) * sum2);
    w[1] = (T)(LNN_A / LNN_NA) * diff + (T)(LNN_B / LNN_NB) * diff2;
    w[2] = u[5] + ((T)(LNN_AA / LNN_NA) * sum + (T)(LNN_BB / LNN_NB) * sum2);
}
