/* The reductions: one row each, read by reduce_class.h to make the loops and here to number
 * them. a is the state so far, x the next element, p the pivot of the output element, u the
 * parameter; b is the state of a later part. */
#ifndef REDUCE_OP_H
#define REDUCE_OP_H

#include "space.h"
#include "table.h"

/* b if it is larger (smaller) than a or NaN, else a; two selections, which gcc vectorises. */
#define LARGER(a, b) ((b) != (b) ? (b) : (b) > (a) ? (b) : (a))
#define SMALLER(a, b) ((b) != (b) ? (b) : (b) < (a) ? (b) : (a))

/* name, initial state, state after adding element x, merged state of two parts */
#define GENERIC_REDUCTIONS(OP) \
	OP(SUM, 0, a + x, a + b) \
	OP(PROD, 1, a * x, a * b) \
	OP(ANY, 0, (a != 0) | (x != 0), (a != 0) | (b != 0)) \
	OP(ALL, 1, (a != 0) & (x != 0), (a != 0) & (b != 0))

/* The same, and the state after adding an element that is not NaN. */
#define EXTREME_REDUCTIONS(OP) \
	OP(MAX, LOWEST, LARGER(a, x), LARGER(a, b), x > a ? x : a) \
	OP(MIN, HIGHEST, SMALLER(a, x), SMALLER(a, b), x < a ? x : a)

#define FLOAT_REDUCTIONS(OP) \
	OP(NAN_SUM, 0, x != x ? a : a + x, a + b) \
	OP(NONZERO, 0, a + (x != 0), a + b) \
	OP(ABS_SUM, 0, a + fabs(x), a + b) \
	OP(SQUARE_SUM, 0, a + x * x, a + b) \
	OP(POWER_SUM, 0, a + pow(fabs(x), u), a + b) \
	OP(ABS_MAX, 0, LARGER(a, fabs(x)), LARGER(a, b)) \
	OP(ABS_MIN, INFINITY, SMALLER(a, fabs(x)), SMALLER(a, b)) \
	OP(DEVIATION_SUM, 0, a + (x - p) * (x - p), a + b) \
	OP(EXP_SUM, 0, a + exp_double(x - p), a + b)

#define REDUCTION_NUMBER(id, ...) REDUCE_##id,
enum { GENERIC_REDUCTIONS(REDUCTION_NUMBER) EXTREME_REDUCTIONS(REDUCTION_NUMBER) FLOAT_REDUCTIONS(REDUCTION_NUMBER) REDUCTIONS };

/* A reduction over the space dims for every element of the space kept. Its state is a double, an
 * int64_t or a uint64_t, depending on the class. */
struct reduce {
	int32_t op, class;
	struct space kept, dims;
	struct operand in; /* strides over kept */
	int64_t dim_stride[MAX_RANK]; /* strides over dims */
	const void *pivot; /* one state per kept element, or NULL */
	double u;
};

/* Sets state[k - k_lo] to the reduction of the elements [lo, hi) of dims, for every kept
 * element in [k_lo, k_hi). */
static inline void reduce_run(const struct reduce *r, int columns, int64_t k_lo, int64_t k_hi, int64_t lo, int64_t hi, void *state)
{
	rowwise_kernels->reduce(r, columns, k_lo, k_hi, lo, hi, state);
}

/* Merges n states of a later part into those of an earlier one. */
static inline void reduce_merge(const struct reduce *r, void *state, const void *later, int64_t n)
{
	rowwise_kernels->reduce_merge(r, state, later, n);
}

/* For the kept elements [k_lo, k_hi), finds the largest (sign 1) or smallest (sign -1) value over
 * dims and its first index. A NaN takes precedence over every number. */
static inline void reduce_arg(const struct reduce *r, int sign, int64_t k_lo, int64_t k_hi, void *value, int64_t *index)
{
	rowwise_kernels->reduce_arg(r, sign, k_lo, k_hi, value, index);
}

#endif
