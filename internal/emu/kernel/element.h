/* Conversion between packed elements of any type and float. Float to integer truncates,
 * saturates and makes NaN 0; integer to integer wraps; anything to bool is x != 0. */
#ifndef ELEMENT_H
#define ELEMENT_H

#include "convert.h"
#include "strided.h"

#define EACH_ELEMENT _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)

/* Kernels call what is NOT_INLINE for each chunk from many places. Copies would take most of the time of compiling. */

/* Packs the n elements of o from c on. */
static NOT_INLINE void gather(char *dst, const struct operand *o, int32_t size, const struct space *s, struct cursor c, int64_t n)
{
	while (n > 0) {
		int64_t run = n < c.left ? n : c.left;
		const char *p = o->data + cursor_offset(&c, s, o->stride) * size;
		move_run(dst, 1, p, o->stride[s->rank - 1], size, run);
		dst += run * size;
		n -= run;
		cursor_advance(&c, s, run);
	}
}

/* Unpacks n elements into o from c on. */
static NOT_INLINE void scatter(const struct operand *o, const char *src, int32_t size, const struct space *s, struct cursor c, int64_t n)
{
	while (n > 0) {
		int64_t run = n < c.left ? n : c.left;
		char *p = o->data + cursor_offset(&c, s, o->stride) * size;
		move_run(p, o->stride[s->rank - 1], src, 1, size, run);
		src += run * size;
		n -= run;
		cursor_advance(&c, s, run);
	}
}

static NOT_INLINE void floats_of_half(float *restrict dst, const void *src, int32_t dtype, int64_t n)
{
	const uint16_t *h = src;
	int64_t i = 0;
	if (dtype == DTYPE_BFLOAT16) {
		for (; i + VECTOR_FLOATS <= n; i += VECTOR_FLOATS)
			vstore(dst + i, vload_bf16(h + i));
		for (; i < n; i++)
			dst[i] = f32_of_bf16(h[i]);
		return;
	}
	for (; i + VECTOR_FLOATS <= n; i += VECTOR_FLOATS)
		vstore(dst + i, vload_f16(h + i));
	for (; i < n; i++)
		dst[i] = f32_of_f16(h[i]);
}

static NOT_INLINE void halves_of_float(void *dst, const float *restrict src, int32_t dtype, int64_t n)
{
	uint16_t *h = dst;
	int64_t i = 0;
	if (dtype == DTYPE_BFLOAT16) {
		for (; i + VECTOR_FLOATS <= n; i += VECTOR_FLOATS)
			vstore_bf16(h + i, vload(src + i));
		for (; i < n; i++)
			h[i] = bf16_of_f32(src[i]);
		return;
	}
	for (; i + VECTOR_FLOATS <= n; i += VECTOR_FLOATS)
		vstore_f16(h + i, vload(src + i));
	for (; i < n; i++)
		h[i] = f16_of_f32(src[i]);
}

static inline int64_t truncated(double x, int64_t lo, int64_t hi)
{
	if (x != x)
		return 0;
	return x <= (double)lo ? lo : x >= (double)hi ? hi : (int64_t)x;
}

static inline uint64_t truncated_u64(double x)
{
	if (!(x > 0))
		return 0;
	return x >= 0x1p64 ? UINT64_MAX : (uint64_t)x;
}

/* How a value of each class becomes an integer of a narrower type. */
#define SATURATE(x, type, lo, hi) ((type)truncated((double)(x), lo, hi))
#define WRAP(x, type, lo, hi) ((type)(x))

#define T float
#define S f32
#define DTYPE DTYPE_FLOAT32
#define FROM_FLOAT(x) (x)
#define TO_INT SATURATE
#define TO_U64 truncated_u64
#include "element_class.h"

#define T double
#define S f64
#define DTYPE DTYPE_FLOAT64
#define FROM_FLOAT(x) (x)
#define TO_INT SATURATE
#define TO_U64 truncated_u64
#include "element_class.h"

#define T int64_t
#define S i64
#define DTYPE DTYPE_INT64
#define FROM_FLOAT(x) truncated((double)(x), INT64_MIN, INT64_MAX)
#define TO_INT WRAP
#define TO_U64 (uint64_t)
#include "element_class.h"

#define T uint64_t
#define S u64
#define DTYPE DTYPE_UINT64
#define FROM_FLOAT(x) truncated_u64((double)(x))
#define TO_INT WRAP
#define TO_U64 (uint64_t)
#include "element_class.h"

#endif
