#include "move.h"

#include "strided.h"

const uint64_t zero_element[2];

#define FILL_RUN(W) \
	do { \
		W *to = (W *)dst, one = *(const W *)src; \
		for (int64_t i = 0; i < n; i++) \
			to[i] = one; \
	} while (0)

/* A run of one element, or of bytes in reverse order; reports whether it was one. */
static int move_quickly(char *dst, int64_t to_stride, const char *src, int64_t from_stride, int32_t size, int64_t n)
{
	if (to_stride != 1 || from_stride > 0 || from_stride < -1 || (from_stride && size > 1))
		return 0;
	if (from_stride < 0) {
		for (; n >= 8; n -= 8, dst += 8, src -= 8)
			*(word64 *)dst = __builtin_bswap64(*(const word64 *)(src - 7));
		for (; n > 0; n--)
			*dst++ = *src--;
		return 1;
	}
	switch (size) {
	case 1: memset(dst, *src, (size_t)n); break;
	case 2: FILL_RUN(word16); break;
	case 4: FILL_RUN(word32); break;
	case 8: FILL_RUN(word64); break;
	default: return 0;
	}
	return 1;
}

void move_elements(const struct space *s, const struct operand *to, const struct operand *from, int32_t size, int64_t lo, int64_t hi)
{
	int32_t last = s->rank - 1;
	struct cursor c = cursor_at(s, lo);
	for (int64_t run; lo < hi; lo += run) {
		run = hi - lo < c.left ? hi - lo : c.left;
		char *dst = to->data + cursor_offset(&c, s, to->stride) * size;
		const char *src = from->data + cursor_offset(&c, s, from->stride) * size;
		if (!move_quickly(dst, to->stride[last], src, from->stride[last], size, run))
			move_run(dst, to->stride[last], src, from->stride[last], size, run);
		cursor_advance(&c, s, run);
	}
}

/* The number of cache lines a tile reads from at once: as many as one set of the L1 cache holds,
 * because rows that are a power of two apart all map to the same set. */
enum { LINES = 8 };

#define MOVE_TILES(W) \
	do { \
		W *to_row = (W *)dst; \
		const W *from_row = (const W *)src; \
		for (int64_t j = 0; j < columns; j += LINES) { \
			int64_t end = j + LINES < columns ? j + LINES : columns; \
			for (int64_t i = 0; i < rows; i++) \
				for (int64_t k = j; k < end; k++) \
					to_row[i * to_stride + k] = from_row[k * from_stride + i]; \
		} \
	} while (0)

void move_transposed(const struct space *s, const struct operand *to, const struct operand *from, int32_t size, int32_t d, int64_t lo, int64_t hi)
{
	int32_t last = s->rank - 1;
	int64_t columns = s->shape[last], to_stride = to->stride[d], from_stride = from->stride[last];
	int64_t strips = (s->shape[d] + STRIP - 1) / STRIP;
	for (; lo < hi; lo++) {
		int64_t row = lo % strips * STRIP, rest = lo / strips;
		int64_t rows = s->shape[d] - row < STRIP ? s->shape[d] - row : STRIP;
		int64_t to_offset = row * to_stride, from_offset = row;
		for (int32_t k = last - 1; k >= 0; k--) {
			if (k == d)
				continue;
			to_offset += rest % s->shape[k] * to->stride[k];
			from_offset += rest % s->shape[k] * from->stride[k];
			rest /= s->shape[k];
		}
		char *dst = to->data + to_offset * size;
		const char *src = from->data + from_offset * size;
		switch (size) {
		case 1: MOVE_TILES(word8); break;
		case 2: MOVE_TILES(word16); break;
		case 4: MOVE_TILES(word32); break;
		case 8: MOVE_TILES(word64); break;
		case 16: MOVE_TILES(word128); break;
		}
	}
}
