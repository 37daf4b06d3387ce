#include "index.h"

#include "strided.h"

#define READ_RUN(W) \
	do { \
		W *to = (W *)dst; \
		const W *from = (const W *)src; \
		for (int64_t i = 0; i < run; i++) \
			to[i * to_stride] = from[i * from_stride + at[i * at_stride] * step]; \
	} while (0)

void index_gather(const struct index_read *g, int32_t size, int64_t lo, int64_t hi)
{
	const int32_t last = g->space.rank - 1;
	const int64_t to_stride = g->out.stride[last], from_stride = g->in.stride[last], at_stride = g->index.stride[last];
	const int64_t step = g->step;
	struct cursor c = cursor_at(&g->space, lo);
	for (int64_t run; lo < hi; lo += run) {
		run = hi - lo < c.left ? hi - lo : c.left;
		char *dst = g->out.data + cursor_offset(&c, &g->space, g->out.stride) * size;
		const char *src = g->in.data + cursor_offset(&c, &g->space, g->in.stride) * size;
		const int64_t *at = (const int64_t *)g->index.data + cursor_offset(&c, &g->space, g->index.stride);
		if (at_stride == 0)
			move_run(dst, to_stride, src + at[0] * step * size, from_stride, size, run);
		else
			switch (size) {
			case 1: READ_RUN(word8); break;
			case 2: READ_RUN(word16); break;
			case 4: READ_RUN(word32); break;
			case 8: READ_RUN(word64); break;
			case 16: READ_RUN(word128); break;
			}
		cursor_advance(&c, &g->space, run);
	}
}

#define WRITE_RUN(W) \
	do { \
		W *to = (W *)dst; \
		const W *from = (const W *)src; \
		for (int64_t i = 0; i < run; i++) \
			to[i * to_stride + at[i * at_stride] * step] = from[i * from_stride]; \
	} while (0)

#define WRITE_LINE(W) \
	do { \
		W *to = (W *)dst; \
		const W *from = (const W *)src; \
		for (int64_t i = 0; i < w->length; i++) \
			to[at[i * w->index_step] * w->into_step] = from[i * w->src_step]; \
	} while (0)

/* Writes one line along the coordinate after the other. */
static void index_set_lines(const struct index_write *w, int32_t size, int64_t lo, int64_t hi)
{
	for (int64_t k = lo; k < hi; k++) {
		struct cursor c = cursor_at(&w->kept, k);
		char *dst = w->into.data + cursor_offset(&c, &w->kept, w->into.stride) * size;
		const char *src = w->src.data + cursor_offset(&c, &w->kept, w->src.stride) * size;
		const int64_t *at = (const int64_t *)w->index.data + cursor_offset(&c, &w->kept, w->index.stride);
		switch (size) {
		case 1: WRITE_LINE(word8); break;
		case 2: WRITE_LINE(word16); break;
		case 4: WRITE_LINE(word32); break;
		case 8: WRITE_LINE(word64); break;
		case 16: WRITE_LINE(word128); break;
		}
	}
}

void index_set(const struct index_write *w, int32_t size, int64_t lo, int64_t hi)
{
	if (w->by_line) {
		index_set_lines(w, size, lo, hi);
		return;
	}
	const int32_t last = w->kept.rank - 1;
	const int64_t to_stride = w->into.stride[last], from_stride = w->src.stride[last], at_stride = w->index.stride[last];
	const int64_t step = w->into_step;
	struct cursor c = cursor_at(&w->kept, lo);
	for (int64_t run; lo < hi; lo += run) {
		run = hi - lo < c.left ? hi - lo : c.left;
		char *dst = w->into.data + cursor_offset(&c, &w->kept, w->into.stride) * size;
		const char *src = w->src.data + cursor_offset(&c, &w->kept, w->src.stride) * size;
		const int64_t *at = (const int64_t *)w->index.data + cursor_offset(&c, &w->kept, w->index.stride);
		for (int64_t k = 0; k < w->length; k++) {
			if (at_stride == 0)
				move_run(dst + at[0] * step * size, to_stride, src, from_stride, size, run);
			else
				switch (size) {
				case 1: WRITE_RUN(word8); break;
				case 2: WRITE_RUN(word16); break;
				case 4: WRITE_RUN(word32); break;
				case 8: WRITE_RUN(word64); break;
				case 16: WRITE_RUN(word128); break;
				}
			src += w->src_step * size;
			at += w->index_step;
		}
		cursor_advance(&c, &w->kept, run);
	}
}
