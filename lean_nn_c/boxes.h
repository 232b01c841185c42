/* Rows of cells from one place to another: what move.pyx does with the two innermost axes of a box. Words are 1, 4 or 8 bytes.
 *
 * Rows are short more often than not (10 classes, 14 pixels), and a call of memcpy costs more than copying 40 bytes. So short rows
 * go in pieces of 16 bytes, the last of which overlaps the one before.
 */
#ifndef LNN_BOXES_H
#define LNN_BOXES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "hot.h"
#include "simd.h"

enum { LNN_CALL = 256, LNN_TILE = 16 }; /* bytes from which a call is worth it; cells of a side of a tile */

static inline void lnn_copy_short(char *to, const char *from, size_t n) {
    char last[16];
    if (n >= 16) {
        memcpy(last, from + n - 16, 16);
        for (size_t i = 0; i + 16 < n; i += 16) memcpy(to + i, from + i, 16);
        memcpy(to + n - 16, last, 16);
    } else if (n >= 8) {
        memcpy(last, from + n - 8, 8);
        memcpy(to, from, 8);
        memcpy(to + n - 8, last, 8);
    } else if (n >= 4) {
        memcpy(last, from + n - 4, 4);
        memcpy(to, from, 4);
        memcpy(to + n - 4, last, 4);
    } else
        for (size_t i = 0; i < n; i++) to[i] = from[i];
}

static void lnn_copy_rows(const char *src, char *dst, ptrdiff_t bytes, ptrdiff_t rows, ptrdiff_t s1, ptrdiff_t d1) {
    for (ptrdiff_t j = 0; j < rows; j++, src += s1, dst += d1) {
        if (bytes > LNN_CALL) memcpy(dst, src, (size_t)bytes);
        else lnn_copy_short(dst, src, (size_t)bytes);
    }
}

typedef uint32_t lnn_four __attribute__((vector_size(16)));
typedef uint64_t lnn_two __attribute__((vector_size(16)));

/* a square of 16 bytes a side, turned: rows of the target are columns of the source */
static inline void lnn_turn_uint32_t(const char *src, char *dst, ptrdiff_t s0, ptrdiff_t d1) {
    lnn_four row[4], half[4];
    for (int i = 0; i < 4; i++) memcpy(&row[i], src + i * s0, 16);
    for (int i = 0; i < 2; i++) {
        half[2 * i] = LNN_MIX(row[2 * i], row[2 * i + 1], lnn_four, 0, 4, 1, 5);
        half[2 * i + 1] = LNN_MIX(row[2 * i], row[2 * i + 1], lnn_four, 2, 6, 3, 7);
    }
    for (int i = 0; i < 2; i++) {
        row[2 * i] = LNN_MIX(half[i], half[i + 2], lnn_four, 0, 1, 4, 5);
        row[2 * i + 1] = LNN_MIX(half[i], half[i + 2], lnn_four, 2, 3, 6, 7);
    }
    for (int j = 0; j < 4; j++) memcpy(dst + j * d1, &row[j], 16);
}
static inline void lnn_turn_uint64_t(const char *src, char *dst, ptrdiff_t s0, ptrdiff_t d1) {
    lnn_two a, b, c;
    memcpy(&a, src, 16);
    memcpy(&b, src + s0, 16);
    c = LNN_MIX(a, b, lnn_two, 0, 2), a = LNN_MIX(a, b, lnn_two, 1, 3);
    memcpy(dst, &c, 16);
    memcpy(dst + d1, &a, 16);
}
static inline void lnn_turn_uint8_t(const char *src, char *dst, ptrdiff_t s0, ptrdiff_t d1) {
    for (int j = 0; j < 16; j++)
        for (int i = 0; i < 16; i++) dst[j * d1 + i] = src[i * s0 + j];
}

/* `rows` rows of n cells; steps in bytes. Where the source runs along the other axis it goes by tiles, so that every line that is fetched
 * is used up. */
#define LNN_PLANE(word) \
    static void lnn_tile_##word(const char *src, char *dst, ptrdiff_t n, ptrdiff_t rows, ptrdiff_t s0, ptrdiff_t s1, ptrdiff_t d0, \
                                ptrdiff_t d1) { \
        const ptrdiff_t side = 16 / sizeof(word), turns = s1 == sizeof(word) && d0 == sizeof(word); \
        const ptrdiff_t high = turns ? rows / side * side : 0, wide = turns ? n / side * side : 0; \
        for (ptrdiff_t j = 0; j < high; j += side) \
            for (ptrdiff_t i = 0; i < wide; i += side) lnn_turn_##word(src + j * s1 + i * s0, dst + j * d1 + i * d0, s0, d1); \
        for (ptrdiff_t j = 0; j < rows; j++) \
            for (ptrdiff_t i = j < high ? wide : 0; i < n; i++) *(word *)(dst + j * d1 + i * d0) = *(const word *)(src + j * s1 + i * s0); \
    } \
    static void lnn_plane_##word(const char *src, char *dst, ptrdiff_t n, ptrdiff_t rows, ptrdiff_t s0, ptrdiff_t s1, ptrdiff_t d0, \
                                 ptrdiff_t d1) { \
        const ptrdiff_t item = sizeof(word), turned = s0 > s1 && s1 > 0; \
        if (s0 == item && d0 == item) { lnn_copy_rows(src, dst, n * item, rows, s1, d1); return; } \
        for (ptrdiff_t j = 0; j < rows && !turned; j++) { \
            const char *from = src + j * s1; \
            char *to = dst + j * d1; \
            word *cells = (word *)to; \
            if (d0 == item && s0 == 0) { \
                const word value = *(const word *)from; \
                for (ptrdiff_t i = 0; i < n; i++) cells[i] = value; \
            } else if (d0 == item && s0 == -item) { \
                for (ptrdiff_t i = 0; i < n; i++) cells[i] = ((const word *)from)[-i]; \
            } else \
                for (ptrdiff_t i = 0; i < n; i++) *(word *)(to + i * d0) = *(const word *)(from + i * s0); \
        } \
        for (ptrdiff_t b = 0; b < rows && turned; b += LNN_TILE) \
            for (ptrdiff_t a = 0; a < n; a += LNN_TILE) \
                lnn_tile_##word(src + b * s1 + a * s0, dst + b * d1 + a * d0, n - a < LNN_TILE ? n - a : LNN_TILE, \
                                rows - b < LNN_TILE ? rows - b : LNN_TILE, s0, s1, d0, d1); \
    } \
    static void lnn_fill_##word(char *dst, ptrdiff_t n, uint64_t value) { \
        for (ptrdiff_t i = 0; i < n; i++) ((word *)dst)[i] = (word)value; \
    }
LNN_PLANE(uint8_t)
LNN_PLANE(uint32_t)
LNN_PLANE(uint64_t)
#undef LNN_PLANE

static void lnn_plane(int item, const char *src, char *dst, ptrdiff_t n, ptrdiff_t rows, ptrdiff_t s0, ptrdiff_t s1, ptrdiff_t d0,
                      ptrdiff_t d1) {
    if (item == 8) lnn_plane_uint64_t(src, dst, n, rows, s0, s1, d0, d1);
    else if (item == 4) lnn_plane_uint32_t(src, dst, n, rows, s0, s1, d0, d1);
    else lnn_plane_uint8_t(src, dst, n, rows, s0, s1, d0, d1);
}

/* n cells of one value */
static void lnn_fill(int item, char *dst, ptrdiff_t n, uint64_t value) {
    if (value == 0) memset(dst, 0, (size_t)(n * item));
    else if (item == 8) lnn_fill_uint64_t(dst, n, value);
    else if (item == 4) lnn_fill_uint32_t(dst, n, value);
    else lnn_fill_uint8_t(dst, n, value);
}

#pragma GCC pop_options
#endif
