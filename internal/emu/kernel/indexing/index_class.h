/* Included once per class by index_body.h. */

/* a is the element of into and x that of src. When a whole row of src goes to one row of into,
 * it is combined in vectors. */
#define SCATTER_RUN(expression) \
	do { \
		if (at_stride == 0 && to_stride == 1) { \
			T *row = to + at[0] * w->into_step; \
			EACH_ELEMENT { \
				T a = row[i], x = in[i]; \
				row[i] = (T)(expression); \
			} \
		} else { \
			for (int64_t i = 0; i < n; i++) { \
				T *place = to + i * to_stride + at[i * at_stride] * w->into_step, a = *place, x = in[i]; \
				*place = (T)(expression); \
			} \
		} \
	} while (0)

#define SCATTER_LINE(expression) \
	for (int64_t i = 0; i < n; i++) { \
		T *place = to + at[i * w->index_step] * w->into_step, a = *place, x = in[i]; \
		*place = (T)(expression); \
	}

/* Combines one line along the coordinate after the other. */
static void JOIN(index_reduce_lines, S)(const struct index_write *w, int64_t lo, int64_t hi)
{
	T buffer[CHUNK];
	const struct space line = {.rank = 1, .shape = {w->length}};
	for (int64_t k = lo; k < hi; k++) {
		struct cursor c = cursor_at(&w->kept, k);
		T *to = (T *)w->into.data + cursor_offset(&c, &w->kept, w->into.stride);
		const int64_t *at = (const int64_t *)w->index.data + cursor_offset(&c, &w->kept, w->index.stride);
		struct operand src = w->src;
		src.data += cursor_offset(&c, &w->kept, w->src.stride) * dtype_size(src.dtype);
		src.stride[0] = w->src_step;
		for (int64_t from = 0, n; from < w->length; from += n, at += n * w->index_step) {
			n = w->length - from < CHUNK ? w->length - from : CHUNK;
			struct cursor start = cursor_at(&line, from);
			const T *in = JOIN(fetch, S)(buffer, &src, &line, &start, n);
			switch (w->op) {
			case SCATTER_ADD: SCATTER_LINE(a + x); break;
			case SCATTER_MUL: SCATTER_LINE(a * x); break;
			case SCATTER_MAX: SCATTER_LINE(x > a || x != x ? x : a); break;
			case SCATTER_MIN: SCATTER_LINE(x < a || x != x ? x : a); break;
			}
		}
	}
}

static void JOIN(index_reduce, S)(const struct index_write *w, int64_t lo, int64_t hi)
{
	if (w->by_line) {
		JOIN(index_reduce_lines, S)(w, lo, hi);
		return;
	}
	T buffer[CHUNK];
	const int32_t last = w->kept.rank - 1;
	const int64_t to_stride = w->into.stride[last], at_stride = w->index.stride[last];
	struct cursor c = cursor_at(&w->kept, lo);
	for (int64_t n; lo < hi; lo += n) {
		n = hi - lo < c.left ? hi - lo : c.left;
		n = n < CHUNK ? n : CHUNK;
		T *to = (T *)w->into.data + cursor_offset(&c, &w->kept, w->into.stride);
		const int64_t *at = (const int64_t *)w->index.data + cursor_offset(&c, &w->kept, w->index.stride);
		struct operand src = w->src;
		for (int64_t k = 0; k < w->length; k++) {
			const T *in = JOIN(fetch, S)(buffer, &src, &w->kept, &c, n);
			switch (w->op) {
			case SCATTER_ADD: SCATTER_RUN(a + x); break;
			case SCATTER_MUL: SCATTER_RUN(a * x); break;
			case SCATTER_MAX: SCATTER_RUN(x > a || x != x ? x : a); break;
			case SCATTER_MIN: SCATTER_RUN(x < a || x != x ? x : a); break;
			}
			src.data += w->src_step * dtype_size(src.dtype);
			at += w->index_step;
		}
		cursor_advance(&c, &w->kept, n);
	}
}

#undef SCATTER_RUN
#undef SCATTER_LINE
#undef T
#undef S
