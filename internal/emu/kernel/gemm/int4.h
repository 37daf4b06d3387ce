/* int4 operands: two elements a byte, the first in the low half. */
#ifndef GEMM_INT4_H
#define GEMM_INT4_H

#include <stdint.h>

/* Widens the elements of bytes [lo, hi) to int8. */
void int4_unpack(int8_t *restrict dst, const uint8_t *restrict src, int64_t lo, int64_t hi);

#endif
