/* Running sums, products, maxima and minima along one dimension, in double for every
 * floating-point type and in 64-bit integers for the others. */
#ifndef SCAN_H
#define SCAN_H

#include "element.h"
#include "scan_op.h"

#pragma GCC push_options
#pragma GCC optimize("wrapv", "thread-jumps", "tree-dominator-opts", "tree-vrp") /* one loop for each operator */

#define T double
#define S f64
#define IS_NAN(x) ((x) != (x))
#include "scan_class.h"

#define T int64_t
#define S i64
#define IS_NAN(x) 0
#include "scan_class.h"

#define T uint64_t
#define S u64
#define IS_NAN(x) 0
#include "scan_class.h"

#pragma GCC pop_options

static void scan_(const struct scan *s, int64_t lo, int64_t hi)
{
	switch (s->class) {
	case CLASS_F64: scan_f64(s, lo, hi); break;
	case CLASS_I64: scan_i64(s, lo, hi); break;
	case CLASS_U64: scan_u64(s, lo, hi); break;
	}
}

#endif
