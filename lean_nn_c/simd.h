/* Register tiles by compiler vector types: what Cython cannot say.
 *
 * Every fast contraction of lean_nn (convolution, its two transposes, the matrix product) is a sum
 *
 *     out[m][j] = sum over k of  A[m][k] * B[k][j]
 *
 * in which only the *places* of A and B differ. A tile of `mr` rows and `nv` vectors of columns stays in
 * registers while k runs. Each step reads nv vectors of B and mr scalars of A and does mr*nv fused
 * multiply-adds, so the loads per multiply-add are 1/mr + 1/nv. An FMA has a latency of four cycles and
 * two start per cycle: at least eight independent sums are needed, and with 16 registers 6 x 2 = 12 sums
 * + 2 of B + 1 of A fit; with 32 registers 6 x 4 = 24 + 4 + 1.
 *
 * Places, so that nothing needs to be packed:
 *     A[m][k] = arow[m][aoff[k]]      mr row pointers, one table of offsets
 *     B[k][j] = b[boff[k] + j]        one base, one table of offsets, read unaligned
 * Convolution gives boff the constant offset of a kernel cell in the padded planes; the matrix product gives
 * it k times the row pitch; the weight gradient gives aoff the plane index of the k-th output cell.
 *
 * The sum over k runs in the order of the tables, one chain per element: the bits of out[m][j] depend
 * neither on the tile's shape nor on the other elements of the tile.
 *
 * One text for all widths and both types: simd_tile.h is included once per type, and the vector width
 * is what the compiler targets.
 */
#ifndef LNN_SIMD_H
#define LNN_SIMD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define LNN_BYTES 64
#elif defined(__AVX__)
#define LNN_BYTES 32
#else
#define LNN_BYTES 16
#endif

#if defined(__AVX512F__) || defined(__aarch64__)
#define LNN_REGISTERS 32
#else
#define LNN_REGISTERS 16
#endif

enum {
    LNN_ROWS = 6,                                     /* most rows of a tile, */
    LNN_TALLEST = LNN_REGISTERS == 32 ? 12 : LNN_ROWS,  /* and of one of a single vector */
    LNN_WIDE = 8,                                     /* most vectors of a tile */
    LNN_FULL = LNN_REGISTERS == 32 ? 4 : 2,           /* vectors of a tile of 4..6 rows */
    LNN_LONG_ROW = 56                                 /* cells of a row whose phases are split off together, at least */
};

/* Vectors per tile for a product of m rows: few rows leave registers for more columns. */
static inline int lnn_vectors(int64_t m) { return m == 1 ? 8 : m == 2 ? 4 : m == 3 ? 3 : LNN_FULL; }

/* The last case of a switch over tiles. One that does not exist is a caller's mistake: the checked build stops there, where
 * another would leave its results as they were. */
#ifdef LNN_CHECKED
#include <stdlib.h>
#define LNN_NO_OTHER default: abort()
#else
#define LNN_NO_OTHER default: return
#endif

#include "tail.h"

#define LNN_INLINE static inline __attribute__((always_inline))
#define LNN_JOIN_(a, b) a##_##b
#define LNN_JOIN(a, b) LNN_JOIN_(a, b)
#define LNN_NAME(base) LNN_JOIN(base, LNN_SUFFIX)

/* Call a cache line in, to the second level. The empty statement is an effect: without one, GCC takes a function that
 * does nothing but this for one that does nothing at all, and drops its calls. */
LNN_INLINE void lnn_prefetch(const void *place)
{
    __builtin_prefetch(place, 0, 2);
    __asm__ volatile("");
}

/* Two vectors mixed; two blocks of 16 bytes, of values of `size` bytes, joined to a vector of 32, and two of these to one of 64.
 * (Blocks copied one by one into a vector would pass through memory, where the processor waits for them.) */
#if defined(__clang__) || __GNUC__ >= 12
#define LNN_MIX(a, b, INTS, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define LNN_HALVES(size, a, b) LNN_JOIN(LNN_HALVES, size)(a, b)
#define LNN_HALVES_4(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7)
#define LNN_HALVES_8(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3)
#define LNN_WHOLE(size, a, b) LNN_JOIN(LNN_WHOLE, size)(a, b)
#define LNN_WHOLE_4(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define LNN_WHOLE_8(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7)
#else
#define LNN_MIX(a, b, INTS, ...) __builtin_shuffle(a, b, (INTS){__VA_ARGS__})
#endif

#define LNN_T float
#define LNN_INT int32_t
#define LNN_SIZE 4
#define LNN_SUFFIX f32
#include "simd_tile.h"
#include "simd_panel.h"
#include "tail_real.h"
#undef LNN_T
#undef LNN_INT
#undef LNN_SIZE
#undef LNN_SUFFIX

#define LNN_T double
#define LNN_INT int64_t
#define LNN_SIZE 8
#define LNN_SUFFIX f64
#include "simd_tile.h"
#include "simd_panel.h"
#include "tail_real.h"
#undef LNN_T
#undef LNN_INT
#undef LNN_SIZE
#undef LNN_SUFFIX

#endif
