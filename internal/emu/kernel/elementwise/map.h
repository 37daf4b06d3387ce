/* Element-wise operators over strided operands of any type. Chunks are converted to the
 * call's class, computed by one loop per operator, and converted to the output's type. */
#ifndef MAP_H
#define MAP_H

#include "element.h"
#include "op.h"
#include "activation.h"
#include "special.h"

#define T float
#define S f32
#define DTYPE DTYPE_FLOAT32
#define FIELD f
#define FN(name) name##f
#include "map_class.h"

#define T double
#define S f64
#define DTYPE DTYPE_FLOAT64
#define FIELD f
#define FN(name) name
#include "map_class.h"

/* Integers wrap, which -fwrapv makes defined. For unsigned types some comparisons with 0 are
 * always false. */
#pragma GCC push_options
#pragma GCC optimize("wrapv")
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits"

#define T int64_t
#define S i64
#define DTYPE DTYPE_INT64
#define FIELD i
#define FN(name) name##_i64
#define INTEGER
#include "int_math.h"
#include "map_class.h"

#define T uint64_t
#define S u64
#define DTYPE DTYPE_UINT64
#define FIELD i
#define FN(name) name##_u64
#define INTEGER
#include "int_math.h"
#include "map_class.h"

#pragma GCC diagnostic pop
#pragma GCC pop_options

/* Reports whether this variant has a loop of its own for the operator. */
static int map_here(int32_t op, int32_t class)
{
	if (op < 0 || op >= OPS)
		return 0;
	switch (class) {
	case CLASS_F32: return ops_f32[op] != NULL;
	case CLASS_F64: return ops_f64[op] != NULL;
	case CLASS_I64: return ops_i64[op] != NULL;
	case CLASS_U64: return ops_u64[op] != NULL;
	}
	return 0;
}

static int map_defined_(int32_t op, int32_t class)
{
#ifdef OTHERS
	return OTHERS.map_defined(op, class);
#else
	return map_here(op, class);
#endif
}

static void map_(const struct map *m, int64_t lo, int64_t hi)
{
#ifdef OTHERS
	if (!map_here(m->op, m->class)) {
		OTHERS.map(m, lo, hi);
		return;
	}
#endif
	switch (m->class) {
	case CLASS_F32: map_f32(m, lo, hi); break;
	case CLASS_F64: map_f64(m, lo, hi); break;
	case CLASS_I64: map_i64(m, lo, hi); break;
	case CLASS_U64: map_u64(m, lo, hi); break;
	}
}

#endif
