/* Scattered sums, products, maxima and minima, in each arithmetic class. */
#ifndef INDEX_BODY_H
#define INDEX_BODY_H

#include "element.h"
#include "index.h"

#pragma GCC push_options
#pragma GCC optimize("wrapv")

#define T float
#define S f32
#include "index_class.h"

#define T double
#define S f64
#include "index_class.h"

#define T int64_t
#define S i64
#include "index_class.h"

#define T uint64_t
#define S u64
#include "index_class.h"

#pragma GCC pop_options

static void index_reduce_(const struct index_write *w, int64_t lo, int64_t hi)
{
	switch (w->class) {
	case CLASS_F32: index_reduce_f32(w, lo, hi); break;
	case CLASS_F64: index_reduce_f64(w, lo, hi); break;
	case CLASS_I64: index_reduce_i64(w, lo, hi); break;
	case CLASS_U64: index_reduce_u64(w, lo, hi); break;
	}
}

#endif
