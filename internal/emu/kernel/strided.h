/* Moves runs of elements between strided and packed memory. */
#ifndef STRIDED_H
#define STRIDED_H

#include <string.h>

#include "space.h"

/* Words are elements of any type with their size, so they may alias every type. */
typedef uint8_t word8 __attribute__((may_alias));
typedef uint16_t word16 __attribute__((may_alias, aligned(1)));
typedef uint32_t word32 __attribute__((may_alias, aligned(1)));
typedef uint64_t word64 __attribute__((may_alias, aligned(1)));
typedef struct { uint64_t half[2]; } __attribute__((may_alias, packed)) word128;

/* A position in the space, and the number of elements left in its row. */
struct cursor {
	int64_t at[MAX_RANK];
	int64_t left;
};

static inline struct cursor cursor_at(const struct space *s, int64_t index)
{
	struct cursor c;
	for (int32_t d = s->rank - 1; d >= 0; d--) {
		c.at[d] = index % s->shape[d];
		index /= s->shape[d];
	}
	c.left = s->shape[s->rank - 1] - c.at[s->rank - 1];
	return c;
}

/* Advances by n <= left elements. */
static inline void cursor_advance(struct cursor *c, const struct space *s, int64_t n)
{
	int32_t d = s->rank - 1;
	c->at[d] += n;
	c->left -= n;
	while (d > 0 && c->at[d] == s->shape[d]) {
		c->at[d--] = 0;
		c->at[d]++;
		c->left = s->shape[s->rank - 1];
	}
}

/* Advances by any n. */
static inline void cursor_skip(struct cursor *c, const struct space *s, int64_t n)
{
	for (int64_t run; n > 0; n -= run) {
		run = n < c->left ? n : c->left;
		cursor_advance(c, s, run);
	}
}

static inline int64_t cursor_offset(const struct cursor *c, const struct space *s, const int64_t *stride)
{
	int64_t offset = 0;
	for (int32_t d = 0; d < s->rank; d++)
		offset += c->at[d] * stride[d];
	return offset;
}

#define MOVE_RUN(W) \
	do { \
		W *to = (W *)dst; \
		const W *from = (const W *)src; \
		for (int64_t i = 0; i < n; i++) \
			to[i * to_stride] = from[i * from_stride]; \
	} while (0)

/* Fills n elements with copies of one, in blocks that stay in the L1 cache. */
static inline void repeat(char *dst, const char *one, int32_t size, int64_t n)
{
	enum { BLOCK = 4096 };
	memmove(dst, one, (size_t)size);
	for (int64_t done = size, all = n * size, step; done < all; done += step) {
		step = done < BLOCK ? done : BLOCK;
		if (step > all - done)
			step = all - done;
		memcpy(dst + done, dst, (size_t)step);
	}
}

static inline void move_run(char *dst, int64_t to_stride, const char *src, int64_t from_stride, int32_t size, int64_t n)
{
	if (to_stride == 1 && from_stride == 1) {
		memmove(dst, src, (size_t)(n * size));
		return;
	}
	if (to_stride == 1 && from_stride == 0 && n >= 64) {
		repeat(dst, src, size, n);
		return;
	}
	switch (size) {
	case 1:
		MOVE_RUN(word8);
		break;
	case 2:
		MOVE_RUN(word16);
		break;
	case 4:
		MOVE_RUN(word32);
		break;
	case 8:
		MOVE_RUN(word64);
		break;
	case 16:
		MOVE_RUN(word128);
		break;
	}
}

/* Returns how many of the remaining elements to process at once: a chunk, but not beyond the end
 * of a run that is long enough to be used in place. */
static inline int64_t chunk(const struct cursor *c, int64_t left)
{
	enum { LONG_RUN = 64 };
	int64_t n = left < CHUNK ? left : CHUNK;
	return c->left < n && c->left >= LONG_RUN ? c->left : n;
}

/* Returns the memory of the n elements of o from c on if they are packed, else NULL. */
static inline char *packed(const struct operand *o, int32_t size, const struct space *s, const struct cursor *c, int64_t n)
{
	if (n > c->left || o->stride[s->rank - 1] != 1)
		return NULL;
	return o->data + cursor_offset(c, s, o->stride) * size;
}

#endif
