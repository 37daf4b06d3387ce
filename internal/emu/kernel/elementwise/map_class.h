/* Included once per class by map.h: the loop of each operator on type T, and the driver. */

typedef void JOIN(loop, S)(T *out, const T *a, const T *b, const T *c, int64_t n, const struct map *m);

#define LOOP_BEGIN(id) \
	static void JOIN(op_##id, S)(T *out, const T *a, const T *b, const T *c, int64_t n, const struct map *m) \
	{ \
		T u __attribute__((unused)) = (T)m->FIELD[0], v __attribute__((unused)) = (T)m->FIELD[1], \
		  w __attribute__((unused)) = (T)m->FIELD[2];
#define INPUTS(type) \
	type x __attribute__((unused)) = a[i], y __attribute__((unused)) = b[i], z __attribute__((unused)) = c[i];

#define LOOP(id, expression) \
	LOOP_BEGIN(id) \
	EACH_ELEMENT { \
		INPUTS(T) \
		out[i] = (T)(expression); \
	} \
	}
#define ENTRY(id, ...) [OP_##id] = JOIN(op_##id, S),

#ifdef INTEGER
#define DUAL_LOOP(id, floating, integer) LOOP(id, integer)
GENERIC_OPS(LOOP)
DUAL_OPS(DUAL_LOOP)
#define MODULO_LOOP(id, quick, floating, integer) LOOP(id, integer)
MODULO_OPS(MODULO_LOOP)
INT_OPS(LOOP)
static JOIN(loop, S) *const JOIN(ops, S)[OPS] = {GENERIC_OPS(ENTRY) DUAL_OPS(ENTRY) MODULO_OPS(ENTRY) INT_OPS(ENTRY)};
#else
#define DUAL_LOOP(id, floating, integer) LOOP(id, floating)

/* Computes in double, one element at a time. */
#define DOUBLE_LOOP(id, expression) \
	LOOP_BEGIN(id) \
	EACH_ELEMENT { \
		INPUTS(double) \
		out[i] = (T)(expression); \
	} \
	}

/* Computes the elements of which the quick formula makes NaN with the exact one. */
#define QUICK_LOOP_f32(id, quick, exact) \
	LOOP_BEGIN(id) \
	T result[CHUNK]; \
	int32_t nan = 0; \
	EACH_ELEMENT { \
		INPUTS(double) \
		result[i] = (T)(quick); \
		nan |= result[i] != result[i]; \
	} \
	for (int64_t i = 0; nan && i < n; i++) \
		if (result[i] != result[i]) { \
			INPUTS(double) \
			result[i] = (T)(exact); \
		} \
	memcpy(out, result, (size_t)n * sizeof(T)); \
	}
#define QUICK_LOOP_f64(id, quick, exact) DOUBLE_LOOP(id, exact)

/* Computes one vector at a time; the rest of a chunk is copied to a padded vector. */
#define VECTOR_LOOP(id, expression) \
	LOOP_BEGIN(id) \
	for (int64_t i = 0; i < n; i += VECTOR_FLOATS) { \
		vf32 in[3] = {{0}}; \
		int64_t left = n - i; \
		if (left >= VECTOR_FLOATS) { \
			in[0] = vload(a + i), in[1] = vload(b + i), in[2] = vload(c + i); \
		} else { \
			memcpy(&in[0], a + i, (size_t)left * sizeof(T)); \
			memcpy(&in[1], b + i, (size_t)left * sizeof(T)); \
			memcpy(&in[2], c + i, (size_t)left * sizeof(T)); \
		} \
		vf32 x __attribute__((unused)) = in[0], y __attribute__((unused)) = in[1]; \
		vf32 result = expression; \
		if (left >= VECTOR_FLOATS) \
			vstore(out + i, result); \
		else \
			memcpy(out + i, &result, (size_t)left * sizeof(T)); \
	} \
	}

/* In double the quotient and the product of two floats are exact enough unless the quotient is
 * large. Only then the loop runs again with the exact function. */
#define MODULO_LOOP_f32(id, quick, floating, integer) \
	LOOP_BEGIN(id) \
	T result[CHUNK]; \
	uint32_t inexact = 0; \
	EACH_ELEMENT { \
		double x = a[i], y = b[i], q = trunc(x / y), r = copysign(x - q * y, x); \
		inexact |= !(fabs(q) < 0x1p29) | !(fabs(y) < INFINITY); \
		result[i] = (T)(quick); \
	} \
	if (inexact) \
		for (int64_t i = 0; i < n; i++) { \
			INPUTS(T) \
			result[i] = (T)(floating); \
		} \
	memcpy(out, result, (size_t)n * sizeof(T)); \
	}
#define MODULO_LOOP_f64(id, quick, floating, integer) LOOP(id, floating)

#define MATH_LOOP_f32(id, vector, scalar) VECTOR_LOOP(id, vector)
#define MATH_LOOP_f64(id, vector, scalar) DOUBLE_LOOP(id, scalar)
GENERIC_OPS(LOOP)
DUAL_OPS(DUAL_LOOP)
MODULO_OPS(JOIN(MODULO_LOOP, S))
FLOAT_OPS(LOOP)
MATH_OPS(JOIN(MATH_LOOP, S))
QUICK_OPS(JOIN(QUICK_LOOP, S))
#ifdef OTHERS /* which have the functions that no vectors speed up */
#define SPECIAL_LOOPS(OP)
#else
#define SPECIAL_LOOPS SPECIAL_OPS
#endif
SPECIAL_LOOPS(DOUBLE_LOOP)
static JOIN(loop, S) *const JOIN(ops, S)[OPS] = {
	GENERIC_OPS(ENTRY) DUAL_OPS(ENTRY) MODULO_OPS(ENTRY) FLOAT_OPS(ENTRY) MATH_OPS(ENTRY) QUICK_OPS(ENTRY) SPECIAL_LOOPS(ENTRY)
};
#undef DOUBLE_LOOP
#undef SPECIAL_LOOPS
#undef VECTOR_LOOP
#undef MATH_LOOP_f32
#undef MATH_LOOP_f64
#undef QUICK_LOOP_f32
#undef QUICK_LOOP_f64
#undef MODULO_LOOP_f32
#undef MODULO_LOOP_f64
#endif

static void JOIN(map, S)(const struct map *m, int64_t lo, int64_t hi)
{
	T buffer[MAX_INPUTS][CHUNK] __attribute__((aligned(64)));
	T result[CHUNK] __attribute__((aligned(64)));
	const T *in[MAX_INPUTS];
	for (int32_t k = 0; k < m->inputs; k++)
		if (!m->in[k].data) {
			in[k] = buffer[k];
			T x = (T)m->in[k].FIELD;
			for (int64_t i = 0; i < CHUNK; i++)
				buffer[k][i] = x;
		}
	struct cursor cursor = cursor_at(&m->space, lo);
	for (int64_t n; lo < hi; lo += n) {
		n = chunk(&cursor, hi - lo);
		for (int32_t k = 0; k < m->inputs; k++)
			if (m->in[k].data)
				in[k] = JOIN(fetch, S)(buffer[k], &m->in[k], &m->space, &cursor, n);
		/* Operators read only as many inputs as they have; the rest are unused. */
		for (int32_t k = m->inputs; k < MAX_INPUTS; k++)
			in[k] = m->inputs > 0 ? in[0] : result;
		T *out = result;
		if (m->out.dtype == DTYPE) {
			char *p = packed(&m->out, sizeof(T), &m->space, &cursor, n);
			if (p)
				out = (T *)p;
		}
		JOIN(ops, S)[m->op](out, in[0], in[1], in[2], n, m);
		JOIN(put, S)(&m->out, out, &m->space, &cursor, n);
		cursor_skip(&cursor, &m->space, n);
	}
}

#undef LOOP_BEGIN
#undef INPUTS
#undef LOOP
#undef ENTRY
#undef DUAL_LOOP
#undef MODULO_LOOP
#undef T
#undef S
#undef FN
#undef DTYPE
#undef FIELD
#undef INTEGER
