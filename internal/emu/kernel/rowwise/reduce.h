/* Reductions in double for every floating-point type, in 64-bit integers for the others. */
#ifndef REDUCE_H
#define REDUCE_H

#include <math.h>

#include "element.h"
#include "quick.h"
#include "reduce_op.h"

/* In every variant rows are reduced in this many interleaved parts, so that the order of the
 * additions does not depend on the variant. */
enum { PARTS = 16 };

#define T double
#define S f64
#define LOWEST -INFINITY
#define HIGHEST INFINITY
#include "reduce_class.h"

#pragma GCC push_options
#pragma GCC optimize("wrapv")
#define T int64_t
#define S i64
#define LOWEST INT64_MIN
#define HIGHEST INT64_MAX
#define INTEGER
#include "reduce_class.h"

#define T uint64_t
#define S u64
#define LOWEST 0
#define HIGHEST UINT64_MAX
#define INTEGER
#include "reduce_class.h"
#pragma GCC pop_options

#define REDUCE(call)                                                                                                   \
	switch (r->class) {                                                                                            \
	case CLASS_F64: call(f64); break;                                                                              \
	case CLASS_I64: call(i64); break;                                                                              \
	case CLASS_U64: call(u64); break;                                                                              \
	}

static void reduce_(const struct reduce *r, int columns, int64_t k_lo, int64_t k_hi, int64_t lo, int64_t hi, void *state)
{
#define CALL(class) (columns ? reduce_columns_##class : reduce_rows_##class)(r, k_lo, k_hi, lo, hi, state)
	REDUCE(CALL)
#undef CALL
}

static void reduce_merge_(const struct reduce *r, void *state, const void *later, int64_t n)
{
#define CALL(class) reductions_##class[r->op].merge(state, later, n)
	REDUCE(CALL)
#undef CALL
}

static void reduce_arg_(const struct reduce *r, int sign, int64_t k_lo, int64_t k_hi, void *value, int64_t *index)
{
#define CALL(class) reduce_arg_##class(r, sign, k_lo, k_hi, value, index)
	REDUCE(CALL)
#undef CALL
}
#undef REDUCE

#endif
