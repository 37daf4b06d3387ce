/* Norms, rotations and updates of weights, which would read and write memory once for each of their
 * operations if they were sequences of maps. */
#ifndef ROWS_OP_H
#define ROWS_OP_H

#include "space.h"
#include "table.h"

/* Rows of width elements that are divided by their root mean square, or by their deviation from the mean. Operands have
 * strides over the elements of all rows. */
struct norm {
	struct space space;
	struct operand x, gamma, beta, mean, rstd, out; /* rstd.data may be NULL in the forward pass, and any with a mean */
	struct operand dy; /* of the gradient, of which out is dx */
	int64_t width;
	double eps;
	int32_t centred; /* the mean is subtracted; gradients have functions of their own */
};

enum { ROTATED = 1 << 14 }; /* most elements of a row that is rotated */

/* Rows whose elements are rotated in pairs: element to_a of the result is a cos - b sin, and element
 * to_b is b cos + a sin. */
struct rotation {
	struct space space;
	struct operand x, cos, sin, out;
	int64_t width; /* at most ROTATED */
	int32_t runs;
	struct rotation_run { int64_t n, a, b, step, to_a, to_b, to_step; } run[2];
};

/* AdamW on weights w with moments m and v and gradients g. If peak has data, it is the largest v. */
struct adamw {
	struct space space;
	struct operand w, m, v, g, peak;
	float scale, l2; /* of the gradient, and of the weight that is added to it */
	float beta1, rest1, beta2, rest2; /* rest is 1 - beta */
	float eps, root; /* the denominator is eps + root * sqrt(v) */
	float decay, step; /* the new weight is decay * w + step * m / denominator */
};

/* The gated unit out = x * sigmoid(x) * y. Of its gradient, out is that of x, and dy that of the result. */
struct swiglu {
	struct space space;
	struct operand x, y, out;
	struct operand dy, y_grad; /* of the gradient */
};

/* Softmax of rows of width elements, or its logarithm. Of the gradient, x is the result, dy its gradient
 * and out that of the argument. */
struct softmax {
	struct space space;
	struct operand x, dy, out;
	int64_t width;
	int32_t log;
};

static inline void softmax_rows(const struct softmax *o, int64_t lo, int64_t hi) { rowwise_kernels->softmax(o, lo, hi); }
static inline void softmax_grad_rows(const struct softmax *o, int64_t lo, int64_t hi) { rowwise_kernels->softmax_grad(o, lo, hi); }

static inline void norm_rows(const struct norm *o, int64_t lo, int64_t hi) { (o->centred ? rowwise_kernels->layer_norm : rowwise_kernels->rms_norm)(o, lo, hi); }

/* Adds the gradient of gamma to sums. */
static inline void rms_norm_grad_rows(const struct norm *o, int64_t lo, int64_t hi, double *sums) { rowwise_kernels->rms_norm_grad(o, lo, hi, sums); }

/* Adds the gradients of gamma and of beta to sums, a row for each, which may be NULL. */
static inline void layer_norm_grad_rows(const struct norm *o, int64_t lo, int64_t hi, double *sums) { rowwise_kernels->layer_norm_grad(o, lo, hi, sums); }

static inline void rotate_rows(const struct rotation *o, int64_t lo, int64_t hi) { rowwise_kernels->rotate(o, lo, hi); }

/* Computes the elements [lo, hi) of the space. */
static inline void swiglu_run(const struct swiglu *o, int64_t lo, int64_t hi) { rowwise_kernels->swiglu(o, lo, hi); }
static inline void swiglu_grad_run(const struct swiglu *o, int64_t lo, int64_t hi) { rowwise_kernels->swiglu_grad(o, lo, hi); }

/* Updates the elements [lo, hi) of the space. */
static inline void adamw_run(const struct adamw *o, int64_t lo, int64_t hi) { rowwise_kernels->adamw(o, lo, hi); }

#endif
