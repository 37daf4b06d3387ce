/* Included once per class by scan.h. */

static inline T JOIN(scan_join, S)(int32_t op, T a, T x, int *taken)
{
	*taken = 0;
	switch (op) {
	case SCAN_SUM: return a + x;
	case SCAN_PROD: return a * x;
	case SCAN_MAX: *taken = !IS_NAN(a) && (x >= a || IS_NAN(x)); break;
	case SCAN_MIN: *taken = !IS_NAN(a) && (x <= a || IS_NAN(x)); break;
	}
	return *taken ? x : a;
}

/* Scans one line after the other. */
static void JOIN(scan_lines, S)(const struct scan *s, int64_t lo, int64_t hi)
{
	T buffer[CHUNK], result[CHUNK];
	int64_t places[CHUNK];
	const struct space line = {.rank = 1, .shape = {s->length}};
	for (int64_t k = lo; k < hi; k++) {
		struct cursor kept = cursor_at(&s->kept, k);
		struct operand in = s->in, out = s->out, index = s->index;
		in.data += cursor_offset(&kept, &s->kept, s->in.stride) * dtype_size(in.dtype);
		out.data += cursor_offset(&kept, &s->kept, s->out.stride) * dtype_size(out.dtype);
		if (index.data)
			index.data += cursor_offset(&kept, &s->kept, s->index.stride) * dtype_size(index.dtype);
		in.stride[0] = s->in_step;
		out.stride[0] = s->out_step;
		index.stride[0] = s->index_step;
		T state = s->op == SCAN_PROD;
		int64_t where = 0;
		for (int64_t i = 0, n; i < s->length; i += n) {
			n = s->length - i < CHUNK ? s->length - i : CHUNK;
			struct cursor at = cursor_at(&line, i);
			const T *x = JOIN(fetch, S)(buffer, &in, &line, &at, n);
			if (s->op == SCAN_SUM && !s->exclusive) {
				for (int64_t j = 0; j < n; j++)
					result[j] = state += x[j];
			} else {
				for (int64_t j = 0; j < n; j++) {
					int taken = 1;
					T before = state;
					state = i + j > 0 ? JOIN(scan_join, S)(s->op, state, x[j], &taken) : x[j];
					where = taken ? i + j : where;
					places[j] = where;
					result[j] = s->exclusive ? before : state;
				}
			}
			JOIN(put, S)(&out, result, &line, &at, n);
			if (index.data)
				put_i64(&index, places, &line, &at, n);
		}
	}
}

/* Scans neighbouring lines together, so that lines with small strides between them are read in
 * runs. */
static void JOIN(scan, S)(const struct scan *s, int64_t lo, int64_t hi)
{
	if (s->by_line) {
		JOIN(scan_lines, S)(s, lo, hi);
		return;
	}
	enum { GROUP = 256 };
	T buffer[CHUNK], state[GROUP];
	int64_t where[GROUP];
	struct cursor at = cursor_at(&s->kept, lo);
	for (int64_t n; lo < hi; lo += n) {
		n = hi - lo < GROUP ? hi - lo : GROUP;
		struct operand in = s->in, out = s->out, index = s->index;
		for (int64_t i = 0; i < s->length; i++) {
			T result[GROUP];
			const T *x = JOIN(fetch, S)(buffer, &in, &s->kept, &at, n);
			for (int64_t j = 0; j < n; j++) {
				int taken = 1;
				T before = i > 0 ? state[j] : s->op == SCAN_PROD;
				state[j] = i > 0 ? JOIN(scan_join, S)(s->op, state[j], x[j], &taken) : x[j];
				if (taken)
					where[j] = i;
				result[j] = s->exclusive ? before : state[j];
			}
			JOIN(put, S)(&out, result, &s->kept, &at, n);
			if (index.data) {
				put_i64(&index, where, &s->kept, &at, n);
				index.data += s->index_step * dtype_size(index.dtype);
			}
			in.data += s->in_step * dtype_size(in.dtype);
			out.data += s->out_step * dtype_size(out.dtype);
		}
		for (int64_t rest = n, run; rest > 0; rest -= run) {
			run = rest < at.left ? rest : at.left;
			cursor_advance(&at, &s->kept, run);
		}
	}
}

#undef T
#undef S
#undef IS_NAN
