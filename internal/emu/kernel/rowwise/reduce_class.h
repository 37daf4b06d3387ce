/* Included once per class by reduce.h. */
#ifdef INTEGER
#define IS_NAN(x) 0
#else
#define IS_NAN(x) ((x) != (x))
#endif

/* The loops of one reduction: columns adds x[i] to state[i], row adds n elements of one row to
 * PARTS states, and merge merges states. */
typedef struct {
	T first;
	void (*columns)(T *state, const T *x, const T *pivot, int64_t n, double u);
	void (*row)(T *state, const T *x, T p, int64_t n, double u);
	void (*merge)(T *state, const T *later, int64_t n);
} JOIN(reduction, S);

#define COLUMN_LOOP(id, step) \
	static void JOIN(columns_##id, S)(T *state, const T *in, const T *pivot, int64_t n, double u __attribute__((unused))) \
	{ \
		EACH_ELEMENT { \
			T a = state[i], x = in[i], p __attribute__((unused)) = pivot ? pivot[i] : 0; \
			state[i] = (T)(step); \
		} \
	}
#define ROW_LOOP(id, step) \
	static void JOIN(id, S)(T *state, const T *in, T p __attribute__((unused)), int64_t n, double u __attribute__((unused))) \
	{ \
		int64_t i = 0; \
		T part[PARTS]; /* no other pointer reaches it, so that it can stay in registers */ \
		memcpy(part, state, sizeof(part)); \
		for (; i + PARTS <= n; i += PARTS) \
			_Pragma("GCC unroll 16") for (int k = 0; k < PARTS; k++) { \
				T a = part[k], x = in[i + k]; \
				part[k] = (T)(step); \
			} \
		memcpy(state, part, sizeof(part)); \
		for (int k = 0; i < n; i++, k++) { \
			T a = state[k], x = in[i]; \
			state[k] = (T)(step); \
		} \
	}
#define MERGE_LOOP(id, join) \
	static void JOIN(merge_##id, S)(T *state, const T *later, int64_t n) \
	{ \
		EACH_ELEMENT { \
			T a = state[i], b = later[i]; \
			state[i] = (T)(join); \
		} \
	}
#define LOOPS(id, init, step, join) COLUMN_LOOP(id, step) ROW_LOOP(row_##id, step) MERGE_LOOP(id, join)
/* Rows without NaN need one comparison for each element. */
#define EXTREME_LOOPS(id, init, step, join, plain) \
	COLUMN_LOOP(id, step) ROW_LOOP(row_nan_##id, step) ROW_LOOP(row_plain_##id, plain) MERGE_LOOP(id, join) \
	static void JOIN(row_##id, S)(T *state, const T *in, T p, int64_t n, double u) \
	{ \
		int64_t nan = 0; \
		for (int64_t i = 0; i < n; i++) \
			nan |= IS_NAN(in[i]) ? -1 : 0; \
		(nan ? JOIN(row_nan_##id, S) : JOIN(row_plain_##id, S))(state, in, p, n, u); \
	}
#define ENTRY(id, init, ...) \
	[REDUCE_##id] = {init, JOIN(columns_##id, S), JOIN(row_##id, S), JOIN(merge_##id, S)},

GENERIC_REDUCTIONS(LOOPS)
EXTREME_REDUCTIONS(EXTREME_LOOPS)
#ifdef INTEGER
static const JOIN(reduction, S) JOIN(reductions, S)[REDUCTIONS] = {GENERIC_REDUCTIONS(ENTRY) EXTREME_REDUCTIONS(ENTRY)};
#else
FLOAT_REDUCTIONS(LOOPS)
static const JOIN(reduction, S) JOIN(reductions, S)[REDUCTIONS] = {
	GENERIC_REDUCTIONS(ENTRY) EXTREME_REDUCTIONS(ENTRY) FLOAT_REDUCTIONS(ENTRY)
};
#endif

/* Returns the elements over dims for one kept element, as an operand. */
static inline struct operand JOIN(row_of, S)(const struct reduce *r, int64_t k)
{
	struct cursor at = cursor_at(&r->kept, k);
	struct operand row = r->in;
	row.data += cursor_offset(&at, &r->kept, r->in.stride) * dtype_size(r->in.dtype);
	memcpy(row.stride, r->dim_stride, sizeof(row.stride));
	return row;
}

/* Returns all kept elements at one index of dims, as an operand. */
static inline struct operand JOIN(column_of, S)(const struct reduce *r, const struct cursor *at)
{
	struct operand column = r->in;
	column.data += cursor_offset(at, &r->dims, r->dim_stride) * dtype_size(r->in.dtype);
	return column;
}

static void JOIN(reduce_rows, S)(const struct reduce *r, int64_t k_lo, int64_t k_hi, int64_t lo, int64_t hi, void *out)
{
	T buffer[CHUNK], *state = out;
	const JOIN(reduction, S) *f = &JOIN(reductions, S)[r->op];
	for (int64_t k = k_lo; k < k_hi; k++) {
		struct operand row = JOIN(row_of, S)(r, k);
		T parts[PARTS], p = r->pivot ? ((const T *)r->pivot)[k] : 0;
		for (int i = 0; i < PARTS; i++)
			parts[i] = f->first;
		for (int64_t i = lo, n; i < hi; i += n) {
			n = hi - i < CHUNK ? hi - i : CHUNK;
			struct cursor at = cursor_at(&r->dims, i);
			f->row(parts, JOIN(fetch, S)(buffer, &row, &r->dims, &at, n), p, n, r->u);
		}
		for (int half = PARTS / 2; half > 0; half /= 2)
			f->merge(parts, parts + half, half);
		state[k - k_lo] = parts[0];
	}
}

static void JOIN(reduce_columns, S)(const struct reduce *r, int64_t k_lo, int64_t k_hi, int64_t lo, int64_t hi, void *out)
{
	T buffer[CHUNK];
	const JOIN(reduction, S) *f = &JOIN(reductions, S)[r->op];
	for (int64_t k = k_lo, n; k < k_hi; k += n) {
		n = k_hi - k < CHUNK ? k_hi - k : CHUNK;
		T *state = (T *)out + (k - k_lo);
		const T *pivot = r->pivot ? (const T *)r->pivot + k : NULL;
		for (int64_t i = 0; i < n; i++)
			state[i] = f->first;
		struct cursor kept = cursor_at(&r->kept, k), at = cursor_at(&r->dims, lo);
		for (int64_t i = lo; i < hi; i++) {
			struct operand column = JOIN(column_of, S)(r, &at);
			f->columns(state, JOIN(fetch, S)(buffer, &column, &r->kept, &kept, n), pivot, n, r->u);
			cursor_advance(&at, &r->dims, 1);
		}
	}
}

static void JOIN(reduce_arg, S)(const struct reduce *r, int sign, int64_t k_lo, int64_t k_hi, void *value, int64_t *index)
{
	T buffer[CHUNK];
	int64_t total = 1;
	for (int32_t d = 0; d < r->dims.rank; d++)
		total *= r->dims.shape[d];
	for (int64_t k = k_lo; k < k_hi; k++) {
		struct operand row = JOIN(row_of, S)(r, k);
		T best = 0;
		int64_t where = -1;
		for (int64_t i = 0, n; i < total; i += n) {
			n = total - i < CHUNK ? total - i : CHUNK;
			struct cursor at = cursor_at(&r->dims, i);
			const T *x = JOIN(fetch, S)(buffer, &row, &r->dims, &at, n);
			for (int64_t j = 0; j < n; j++)
				if (where < 0 || (!IS_NAN(best) && (IS_NAN(x[j]) || (sign > 0 ? x[j] > best : x[j] < best)))) {
					best = x[j];
					where = i + j;
				}
		}
		((T *)value)[k - k_lo] = best;
		index[k - k_lo] = where;
	}
}

#undef COLUMN_LOOP
#undef ROW_LOOP
#undef MERGE_LOOP
#undef LOOPS
#undef EXTREME_LOOPS
#undef IS_NAN
#undef ENTRY
#undef T
#undef S
#undef LOWEST
#undef HIGHEST
#undef INTEGER
