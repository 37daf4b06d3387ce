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

#ifndef FLOATS_ONLY
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

static void reduce_(const struct reduce *r, int columns, int64_t k_lo, int64_t k_hi, int64_t lo, int64_t hi, void *state)
{
	switch (r->class) {
	case CLASS_F64: (columns ? reduce_columns_f64 : reduce_rows_f64)(r, k_lo, k_hi, lo, hi, state); break;
	case CLASS_I64: (columns ? reduce_columns_i64 : reduce_rows_i64)(r, k_lo, k_hi, lo, hi, state); break;
	case CLASS_U64: (columns ? reduce_columns_u64 : reduce_rows_u64)(r, k_lo, k_hi, lo, hi, state); break;
	}
}

static void reduce_merge_(const struct reduce *r, void *state, const void *later, int64_t n)
{
	switch (r->class) {
	case CLASS_F64: reductions_f64[r->op].merge(state, later, n); break;
	case CLASS_I64: reductions_i64[r->op].merge(state, later, n); break;
	case CLASS_U64: reductions_u64[r->op].merge(state, later, n); break;
	}
}

static void reduce_arg_(const struct reduce *r, int sign, int64_t k_lo, int64_t k_hi, void *value, int64_t *index)
{
	switch (r->class) {
	case CLASS_F64: reduce_arg_f64(r, sign, k_lo, k_hi, value, index); break;
	case CLASS_I64: reduce_arg_i64(r, sign, k_lo, k_hi, value, index); break;
	case CLASS_U64: reduce_arg_u64(r, sign, k_lo, k_hi, value, index); break;
	}
}
#endif

#endif
