/* Weighted sums of rows chosen by index, and the gradients of their weights: the kernels of
 * mixture-of-experts routing. */
#ifndef COMBINE_H
#define COMBINE_H

#include "space.h"
#include "table.h"

enum { COMBINE_ADDENDS = 2 };

/* Row r of out is the sum of row r of each addend and, over j < choices, of
 * scale[r, j] * (x[index[r, j]] + bias[group[r, j]]). A negative index leaves its term out.
 * The elements of a row are packed; rows are stride[0] apart. */
struct combine {
	int64_t choices, width;
	struct operand x, bias, out; /* bias.data may be NULL */
	struct operand addend[COMBINE_ADDENDS]; /* data may be NULL */
	const int64_t *index, *group;
	const float *scale; /* NULL for ones */
	struct operand grad; /* of out, for combine_scale_grad */
	float *scale_grad;
};

/* Computes the rows [lo, hi) of out. */
static inline void combine_rows(const struct combine *c, int64_t lo, int64_t hi) { indexing_kernels->combine(c, lo, hi); }

/* Computes the gradient of scale for the rows [lo, hi). */
static inline void combine_scale_grad(const struct combine *c, int64_t lo, int64_t hi) { indexing_kernels->combine_scale_grad(c, lo, hi); }

#endif
