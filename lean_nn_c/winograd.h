/* The vector half of winograd.pyx, which has the derivation and the notation.
 *
 * Lanes are tiles in the image and output transforms and input channels in the weight transform. Both gather, into
 * the lanes of four vectors, four neighbouring values from LANES places; the output transform scatters them back. A
 * 4 x 4 transposition inside every group of four lanes does both ways, so it is the only shuffle here.
 *
 * Sums have one order per element, so the bits do not depend on which tiles share a vector or rows a panel.
 */
#ifndef LNN_WINOGRAD_H
#define LNN_WINOGRAD_H

#include "simd.h"

enum {
    LNN_WINO_VECTORS = 2, LNN_WINO_PANEL = 6,
    LNN_WINO_ABREAST = LNN_REGISTERS == 32 ? 2 : 1,     /* panels that meet a single vector */
    LNN_WINO_UNITS = LNN_BYTES == 64 ? 4 : 8,           /* units that are worked on together when there are few */
    LNN_WINO_LEAST = LNN_BYTES == 64 ? 2 : 3            /* and of a part of conv_weight's tiles, at least */
};

/* What Cython calls keeps its own registers and its own name in a profile. */
#define LNN_CALLED static __attribute__((noinline))

/* The points +-A, +-B of F(4x4, 3x3) and F(4x4, 5x5); these, their products and sums are exact in float. N: what is divided by, M_i(p_i)
 * of winograd.pyx; I: at +-i. */
#define LNN_A 0.625
#define LNN_B 1.5
#define LNN_AA (LNN_A * LNN_A)
#define LNN_BB (LNN_B * LNN_B)
#define LNN_SUM (LNN_AA + LNN_BB)
#define LNN_ALL (LNN_AA * LNN_BB)
#define LNN_NA (2 * LNN_AA * (LNN_AA - LNN_BB))
#define LNN_NB (2 * LNN_BB * (LNN_BB - LNN_AA))
#define LNN_NA9 (LNN_NA * (LNN_AA + 1))
#define LNN_NB9 (LNN_NB * (LNN_BB + 1))
#define LNN_NI ((LNN_AA + 1) * (LNN_BB + 1))

#define LNN_SHUFFLE __builtin_shufflevector
#define LNN_LOW_4(a, b) LNN_SHUFFLE(a, b, 0, 4, 1, 5)
#define LNN_HIGH_4(a, b) LNN_SHUFFLE(a, b, 2, 6, 3, 7)
#define LNN_FRONT_4(a, b) LNN_SHUFFLE(a, b, 0, 1, 4, 5)
#define LNN_BACK_4(a, b) LNN_SHUFFLE(a, b, 2, 3, 6, 7)
#define LNN_LOW_8(a, b) LNN_SHUFFLE(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define LNN_HIGH_8(a, b) LNN_SHUFFLE(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define LNN_FRONT_8(a, b) LNN_SHUFFLE(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define LNN_BACK_8(a, b) LNN_SHUFFLE(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define LNN_LOW_16(a, b) LNN_SHUFFLE(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define LNN_HIGH_16(a, b) LNN_SHUFFLE(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define LNN_FRONT_16(a, b) LNN_SHUFFLE(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define LNN_BACK_16(a, b) LNN_SHUFFLE(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#define LNN_TWICE_4(a, b) LNN_SHUFFLE(a, b, 0, 1, 2, 3, 4, 5, 6, 7)
#define LNN_TWICE_8(a, b) LNN_SHUFFLE(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
/* Blocks of four lanes: those of one vector after the other's, first halves and second halves. */
#define LNN_FORE_8(a, b) LNN_SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define LNN_AFT_8(a, b) LNN_SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#define LNN_FORE_16(a, b) LNN_SHUFFLE(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27)
#define LNN_AFT_16(a, b) LNN_SHUFFLE(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31)
#define LNN_LEFT_16(a, b) LNN_SHUFFLE(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
#define LNN_RIGHT_16(a, b) LNN_SHUFFLE(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)
#define LNN_OF_LANES(name) LNN_JOIN(name, LNN_LANES)

#define LNN_T float
#define LNN_SUFFIX f32
#if LNN_BYTES == 64
#define LNN_LANES 16
#elif LNN_BYTES == 32
#define LNN_LANES 8
#else
#define LNN_LANES 4
#endif
#include "winograd_tile.h"
#undef LNN_T
#undef LNN_SUFFIX
#undef LNN_LANES

#define LNN_T double
#define LNN_SUFFIX f64
#if LNN_BYTES == 64
#define LNN_LANES 8
#elif LNN_BYTES == 32
#define LNN_LANES 4
#else
#define LNN_LANES 2
#endif
#include "winograd_tile.h"
#undef LNN_T
#undef LNN_SUFFIX
#undef LNN_LANES

#endif
