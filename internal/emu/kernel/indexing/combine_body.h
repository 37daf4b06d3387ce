/* See combine.h. A row is computed in pieces that stay in the L1 cache. */
#ifndef COMBINE_BODY_H
#define COMBINE_BODY_H

#include "combine.h"
#include "element.h"
#include "vmath.h"

/* Returns the n elements of row r of o from column i on as floats. */
static inline const float *combine_piece(float *buffer, const struct operand *o, int64_t r, int64_t i, int64_t n)
{
	const char *p = o->data + (r * o->stride[0] + i) * dtype_size(o->dtype);
	if (o->dtype == DTYPE_FLOAT32)
		return (const float *)p;
	floats_of_half(buffer, p, o->dtype, n);
	return buffer;
}

static inline void combine_add(float *restrict sum, const float *x, float scale, int64_t n)
{
	EACH_ELEMENT sum[i] += scale * x[i];
}

static void combine_(const struct combine *c, int64_t lo, int64_t hi)
{
	float sum[CHUNK], buffer[CHUNK];
	for (int64_t r = lo; r < hi; r++)
		for (int64_t i = 0, n; i < c->width; i += n) {
			n = c->width - i < CHUNK ? c->width - i : CHUNK;
			memset(sum, 0, sizeof(sum));
			for (int k = 0; k < COMBINE_ADDENDS; k++)
				if (c->addend[k].data)
					combine_add(sum, combine_piece(buffer, &c->addend[k], r, i, n), 1, n);
			for (int64_t j = r * c->choices; j < (r + 1) * c->choices; j++) {
				if (c->index[j] < 0)
					continue;
				float scale = c->scale ? c->scale[j] : 1;
				combine_add(sum, combine_piece(buffer, &c->x, c->index[j], i, n), scale, n);
				if (c->bias.data)
					combine_add(sum, combine_piece(buffer, &c->bias, c->group[j], i, n), scale, n);
			}
			char *out = c->out.data + (r * c->out.stride[0] + i) * dtype_size(c->out.dtype);
			store_f32(out, sum, c->out.dtype, n);
		}
}

static inline double combine_dot(const float *x, const float *y, int64_t n)
{
	enum { LANES = 16 }; /* virtual ones, the same in every variant */
	struct lanes sum = {0};
	double tail = 0;
	int64_t i = 0;
	for (; i + LANES <= n; i += LANES)
#pragma GCC unroll 4
		for (int k = 0; k < LANES; k += VECTOR_FLOATS)
			*lanes_at(&sum, k) = vfma(vload(x + i + k), vload(y + i + k), *lanes_at(&sum, k));
	for (; i < n; i++)
		tail += (double)x[i] * y[i];
	return tail + lanes_sum(sum);
}

static void combine_scale_grad_(const struct combine *c, int64_t lo, int64_t hi)
{
	float buffer[2][CHUNK];
	for (int64_t r = lo; r < hi; r++)
		for (int64_t j = r * c->choices; j < (r + 1) * c->choices; j++) {
			double sum = 0;
			for (int64_t i = 0, n; i < c->width && c->index[j] >= 0; i += n) {
				n = c->width - i < CHUNK ? c->width - i : CHUNK;
				const float *grad = combine_piece(buffer[0], &c->grad, r, i, n);
				sum += combine_dot(grad, combine_piece(buffer[1], &c->x, c->index[j], i, n), n);
				if (c->bias.data)
					sum += combine_dot(grad, combine_piece(buffer[1], &c->bias, c->group[j], i, n), n);
			}
			c->scale_grad[j] = (float)sum;
		}
}

#endif
