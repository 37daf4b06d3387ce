/* Forward substitution on columns [lo, hi) of the right-hand sides. */
#ifndef TRIANGULAR_BODY_H
#define TRIANGULAR_BODY_H

#include "triangular.h"
#include "vector.h"

#define PASTE(a, b) a##_##b
#define JOIN(a, b) PASTE(a, b)

#define T float
#define S f32
#define FMA fmaf
#define VECTOR_FMA vfma
#include "triangular_class.h"

#define T double
#define S f64
#define FMA fma
#define VECTOR_FMA vfma_double
#include "triangular_class.h"

static void triangular_solve_(const struct triangular *t, int64_t lo, int64_t hi)
{
	if (t->wide)
		triangular_f64(t, lo, hi);
	else
		triangular_f32(t, lo, hi);
}

#endif
