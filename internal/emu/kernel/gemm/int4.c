#include "int4.h"

void int4_unpack(int8_t *restrict dst, const uint8_t *restrict src, int64_t lo, int64_t hi)
{
	for (int64_t i = lo; i < hi; i++) {
		/* Adding and removing 8 extends the sign of four bits. */
		dst[2 * i] = (int8_t)(((src[i] & 15) ^ 8) - 8);
		dst[2 * i + 1] = (int8_t)(((src[i] >> 4) ^ 8) - 8);
	}
}
