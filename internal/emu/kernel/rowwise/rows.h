/* The loops of rows_op.h. They compute in float and add up in double, in an order that no variant
 * changes. */
#ifndef ROWS_H
#define ROWS_H

#include "reduce.h"
#include "vmath.h"
#include "rows_op.h"

/* sum + a·b, whose product is exact: fused or not, the result is the same. */
static inline double add_product(double sum, float a, float b)
{
#if defined(__FMA__) || defined(__aarch64__)
	return __builtin_fma(a, b, sum);
#else
	return sum + (double)a * b;
#endif
}

/* Adds the products of elements of a and b to PARTS sums. */
static inline void add_products(double *sums, const float *a, const float *b, int64_t n)
{
	double part[PARTS];
	int64_t i = 0;
	memcpy(part, sums, sizeof(part));
	for (; i + PARTS <= n; i += PARTS)
#pragma GCC unroll 16
		for (int k = 0; k < PARTS; k++)
			part[k] = add_product(part[k], a[i + k], b[i + k]);
	memcpy(sums, part, sizeof(part));
	for (int k = 0; i < n; i++, k++)
		sums[k] = add_product(sums[k], a[i], b[i]);
}

/* Adds the PARTS sums to the first, as merge_SUM_f64 does. */
static inline void add_parts(double *sums)
{
#pragma GCC unroll 4
	for (int half = PARTS / 2; half > 0; half /= 2)
#pragma GCC unroll 8
		for (int k = 0; k < half; k++)
			sums[k] += sums[k + half];
}

/* Runs a block for each n elements of a row, which start at the cursor. */
#define EACH_PIECE(s, at, width) \
	for (int64_t done = 0, n; done < (width) && (n = (width) - done < CHUNK ? (width) - done : CHUNK); \
	     done += n, cursor_skip(&at, s, n))

/* A piece of an operand that rows may share, such as a weight: its memory, its place in the row, its elements. */
struct shared {
	const char *from;
	int64_t done;
	const float *x;
};

/* Returns the n elements of o at the cursor, which is done elements after the start of a row. It fetches them only if
 * the call before was for others. */
static inline const float *fetch_shared(struct shared *last, int64_t done, float *buffer, const struct operand *o, const struct space *s,
					const struct cursor *at, int64_t n)
{
	const char *from = o->data + cursor_offset(at, s, o->stride) * dtype_size(o->dtype);
	if (from != last->from || done != last->done)
		*last = (struct shared){from, done, fetch_f32(buffer, o, s, at, n)};
	return last->x;
}

static void rms_norm_(const struct norm *o, int64_t lo, int64_t hi)
{
	float x_row[CHUNK], gamma_row[CHUNK], y[CHUNK];
	struct shared weight = {0};
	const struct space *s = &o->space;
	for (struct cursor at, start = cursor_at(s, lo * o->width); lo < hi; lo++, start = at) {
		double sums[PARTS] = {0};
		at = start;
		const float *x = x_row;
		EACH_PIECE(s, at, o->width) {
			x = fetch_f32(x_row, &o->x, s, &at, n);
			add_products(sums, x, x, n);
		}
		add_parts(sums);
		float rstd = (float)(1 / sqrt(sums[0] / (double)o->width + o->eps));
		if (o->rstd.data)
			store_f32(o->rstd.data + cursor_offset(&start, s, o->rstd.stride) * dtype_size(o->rstd.dtype), &rstd, o->rstd.dtype, 1);
		at = start;
		EACH_PIECE(s, at, o->width) {
			const float *gamma = fetch_shared(&weight, done, gamma_row, &o->gamma, s, &at, n);
			if (o->width > CHUNK) /* else x still has the row */
				x = fetch_f32(x_row, &o->x, s, &at, n);
			EACH_ELEMENT y[i] = x[i] * rstd * gamma[i];
			put_f32(&o->out, y, s, &at, n);
		}
	}
}

static void rms_norm_grad_(const struct norm *o, int64_t lo, int64_t hi, double *dgamma)
{
	float x_row[CHUNK], dy_row[CHUNK], gamma_row[CHUNK], g[CHUNK], rstd = 0;
	struct shared weight = {0};
	const struct space *s = &o->space;
	for (struct cursor at, start = cursor_at(s, lo * o->width); lo < hi; lo++, start = at) {
		double sums[PARTS] = {0};
		at = start;
		const float *x = x_row, *dy = dy_row, *gamma = gamma_row;
		EACH_PIECE(s, at, o->width) {
			x = fetch_f32(x_row, &o->x, s, &at, n), dy = fetch_f32(dy_row, &o->dy, s, &at, n);
			gamma = fetch_shared(&weight, done, gamma_row, &o->gamma, s, &at, n);
			EACH_ELEMENT g[i] = dy[i] * gamma[i];
			add_products(sums, g, x, n);
		}
		add_parts(sums);
		load_f32(&rstd, o->rstd.data + cursor_offset(&start, s, o->rstd.stride) * dtype_size(o->rstd.dtype), o->rstd.dtype, 1);
		float mean = (float)(sums[0] / (double)o->width) * rstd * rstd;
		at = start;
		EACH_PIECE(s, at, o->width) {
			if (o->width > CHUNK) { /* else they still have the row */
				x = fetch_f32(x_row, &o->x, s, &at, n), dy = fetch_f32(dy_row, &o->dy, s, &at, n);
				gamma = fetch_shared(&weight, done, gamma_row, &o->gamma, s, &at, n);
			}
			double *sum = dgamma + done;
			EACH_ELEMENT {
				sum[i] += (double)(dy[i] * x[i] * rstd);
				g[i] = (dy[i] * gamma[i] - x[i] * mean) * rstd;
			}
			put_f32(&o->out, g, s, &at, n);
		}
	}
}

/* Adds x - pivot and (x - pivot)·(y - pivot) to PARTS sums each. */
static inline void add_moments(double *sums, double *products, const float *x, const float *y, float pivot, int64_t n)
{
	double sum[PARTS], product[PARTS];
	int64_t i = 0;
	memcpy(sum, sums, sizeof(sum)), memcpy(product, products, sizeof(product));
	for (; i + PARTS <= n; i += PARTS)
#pragma GCC unroll 16
		for (int k = 0; k < PARTS; k++) {
			const double a = (double)x[i + k] - pivot, b = (double)y[i + k] - pivot;
			sum[k] += a, product[k] += a * b;
		}
	for (int k = 0; i < n; i++, k++)
		sum[k] += (double)x[i] - pivot, product[k] += ((double)x[i] - pivot) * ((double)y[i] - pivot);
	memcpy(sums, sum, sizeof(sum)), memcpy(products, product, sizeof(product));
}

/* The element of o for the row at the cursor, which has an element for each row. */
static inline char *of_row(const struct operand *o, const struct space *s, const struct cursor *at)
{
	return o->data + cursor_offset(at, s, o->stride) * dtype_size(o->dtype);
}

static void layer_norm_(const struct norm *o, int64_t lo, int64_t hi)
{
	float x_row[CHUNK], gamma_row[CHUNK], beta_row[CHUNK], y[CHUNK];
	struct shared weight = {0}, bias = {0};
	const struct space *s = &o->space;
	for (struct cursor at, start = cursor_at(s, lo * o->width); lo < hi; lo++, start = at) {
		double sums[PARTS] = {0}, squares[PARTS] = {0};
		const float *x = x_row;
		float pivot = 0;
		at = start;
		EACH_PIECE(s, at, o->width) {
			x = fetch_f32(x_row, &o->x, s, &at, n);
			pivot = done == 0 ? x[0] : pivot;
			add_moments(sums, squares, x, x, pivot, n);
		}
		add_parts(sums), add_parts(squares);
		const double far = sums[0] / (double)o->width, variance = squares[0] / (double)o->width - far * far;
		const float mean = (float)(pivot + far), rstd = (float)(1 / sqrt((variance < 0 ? 0 : variance) + o->eps));
		if (o->mean.data)
			store_f32(of_row(&o->mean, s, &start), &mean, o->mean.dtype, 1);
		if (o->rstd.data)
			store_f32(of_row(&o->rstd, s, &start), &rstd, o->rstd.dtype, 1);
		at = start;
		EACH_PIECE(s, at, o->width) {
			if (o->width > CHUNK) /* else x still has the row */
				x = fetch_f32(x_row, &o->x, s, &at, n);
			EACH_ELEMENT y[i] = (x[i] - mean) * rstd;
			if (o->gamma.data) {
				const float *gamma = fetch_shared(&weight, done, gamma_row, &o->gamma, s, &at, n);
				EACH_ELEMENT y[i] *= gamma[i];
			}
			if (o->beta.data) {
				const float *beta = fetch_shared(&bias, done, beta_row, &o->beta, s, &at, n);
				EACH_ELEMENT y[i] += beta[i];
			}
			put_f32(&o->out, y, s, &at, n);
		}
	}
}

static void layer_norm_grad_(const struct norm *o, int64_t lo, int64_t hi, double *sums)
{
	float x_row[CHUNK], dy_row[CHUNK], gamma_row[CHUNK], normed[CHUNK], g[CHUNK], mean = 0, rstd = 0;
	struct shared weight = {0};
	const struct space *s = &o->space;
	for (struct cursor at, start = cursor_at(s, lo * o->width); lo < hi; lo++, start = at) {
		double parts[PARTS] = {0}, products[PARTS] = {0};
		const float *dy = dy_row;
		load_f32(&mean, of_row(&o->mean, s, &start), o->mean.dtype, 1);
		load_f32(&rstd, of_row(&o->rstd, s, &start), o->rstd.dtype, 1);
		for (int pass = 0; pass < 2; pass++) {
			at = start;
			const float center = (float)(parts[0] / (double)o->width), along = (float)(products[0] / (double)o->width);
			EACH_PIECE(s, at, o->width) {
				if (pass == 0 || o->width > CHUNK) { /* else they still have the row */
					const float *x = fetch_f32(x_row, &o->x, s, &at, n);
					dy = fetch_f32(dy_row, &o->dy, s, &at, n);
					EACH_ELEMENT normed[i] = (x[i] - mean) * rstd;
					memcpy(g, dy, (size_t)n * sizeof(float));
					if (o->gamma.data) {
						const float *gamma = fetch_shared(&weight, done, gamma_row, &o->gamma, s, &at, n);
						EACH_ELEMENT g[i] *= gamma[i];
					}
				}
				if (pass == 0) {
					add_moments(parts, products, g, normed, 0, n);
					continue;
				}
				if (sums != NULL) {
					double *dgamma = sums + done, *dbeta = dgamma + o->width;
					EACH_ELEMENT {
						dgamma[i] += (double)(dy[i] * normed[i]);
						dbeta[i] += (double)dy[i];
					}
				}
				EACH_ELEMENT g[i] = (g[i] - center - normed[i] * along) * rstd;
				if (o->out.data)
					put_f32(&o->out, g, s, &at, n);
			}
			if (pass == 0)
				add_parts(parts), add_parts(products);
		}
	}
}

INLINE void rotate_run(float *restrict y, const float *x, const float *cos, const float *sin, const struct rotation_run *r, int64_t step, int64_t to_step)
{
	const float *first = x + r->a, *second = x + r->b;
	int64_t n = r->n;
	EACH_ELEMENT {
		float a = first[i * step], b = second[i * step];
		int64_t p = r->to_a + i * to_step, q = r->to_b + i * to_step;
		y[p] = a * cos[p] - b * sin[p];
		y[q] = b * cos[q] + a * sin[q];
	}
}

/* Returns the row of o at the cursor, as fetch_shared does for the elements of a chunk. */
static inline const float *fetch_row(struct shared *last, float *buffer, const struct operand *o, const struct space *s, struct cursor at, int64_t width)
{
	if (width <= CHUNK)
		return fetch_shared(last, 0, buffer, o, s, &at, width);
	EACH_PIECE(s, at, width) {
		float part[CHUNK];
		memcpy(buffer + done, fetch_f32(part, o, s, &at, n), (size_t)n * sizeof(float));
	}
	return buffer;
}

static void rotate_(const struct rotation *o, int64_t lo, int64_t hi)
{
	float x_row[ROTATED], cos_row[ROTATED], sin_row[ROTATED], y[ROTATED];
	struct shared cosines = {0}, sines = {0};
	const struct space *s = &o->space;
	for (struct cursor at = cursor_at(s, lo * o->width); lo < hi; lo++) {
		struct shared own = {0};
		const float *x = fetch_row(&own, x_row, &o->x, s, at, o->width);
		const float *cos = fetch_row(&cosines, cos_row, &o->cos, s, at, o->width), *sin = fetch_row(&sines, sin_row, &o->sin, s, at, o->width);
		for (const struct rotation_run *r = o->run; r < o->run + o->runs; r++)
			if (r->step == 1 && r->to_step == 1)
				rotate_run(y, x, cos, sin, r, 1, 1);
			else
				rotate_run(y, x, cos, sin, r, r->step, r->to_step);
		EACH_PIECE(s, at, o->width) put_f32(&o->out, y + done, s, &at, n);
	}
}

static void adamw_(const struct adamw *o, int64_t lo, int64_t hi)
{
	float next[CHUNK], average[CHUNK], square[CHUNK], largest[CHUNK], g_row[CHUNK];
	const struct space *s = &o->space;
	struct cursor at = cursor_at(s, lo);
	for (int64_t n; lo < hi; lo += n, cursor_skip(&at, s, n)) {
		n = chunk(&at, hi - lo);
		const float *w = fetch_f32(next, &o->w, s, &at, n), *m = fetch_f32(average, &o->m, s, &at, n);
		const float *v = fetch_f32(square, &o->v, s, &at, n), *g = fetch_f32(g_row, &o->g, s, &at, n);
		EACH_ELEMENT {
			float grad = g[i] * o->scale + (o->l2 != 0 ? o->l2 * w[i] : 0); /* an infinite weight gives no NaN */
			average[i] = m[i] * o->beta1 + o->rest1 * grad;
			square[i] = v[i] * o->beta2 + o->rest2 * grad * grad;
		}
		put_f32(&o->m, average, s, &at, n);
		put_f32(&o->v, square, s, &at, n);
		if (o->peak.data) {
			const float *peak = fetch_f32(largest, &o->peak, s, &at, n);
			EACH_ELEMENT square[i] = square[i] > peak[i] || square[i] != square[i] ? square[i] : peak[i];
			put_f32(&o->peak, square, s, &at, n);
		}
		EACH_ELEMENT next[i] = w[i] * o->decay + o->step * average[i] / (o->eps + o->root * sqrtf(square[i]));
		put_f32(&o->w, next, s, &at, n);
	}
}

/* Returns n elements of o as fetch does, followed by enough of the number rest for whole vectors. */
static inline const float *fetch_vectors(float *buffer, const struct operand *o, const struct space *s, const struct cursor *at, int64_t n, float rest)
{
	const float *x = fetch_f32(buffer, o, s, at, n);
	if (n % VECTOR_FLOATS == 0)
		return x;
	memmove(buffer, x, (size_t)n * sizeof(float));
	for (; n % VECTOR_FLOATS != 0; n++)
		buffer[n] = rest;
	return buffer;
}

static void swiglu_(const struct swiglu *o, int64_t lo, int64_t hi)
{
	float x_row[CHUNK], y_row[CHUNK], out[CHUNK];
	const struct space *s = &o->space;
	struct cursor at = cursor_at(s, lo);
	for (int64_t n; lo < hi; lo += n, cursor_skip(&at, s, n)) {
		n = chunk(&at, hi - lo);
		const float *x = fetch_vectors(x_row, &o->x, s, &at, n, 0), *y = fetch_vectors(y_row, &o->y, s, &at, n, 0);
		for (int64_t i = 0; i < n; i += VECTOR_FLOATS) {
			const vf32 v = vload(x + i);
			vstore(out + i, v * vsigmoid(v) * vload(y + i));
		}
		put_f32(&o->out, out, s, &at, n);
	}
}

static void swiglu_grad_(const struct swiglu *o, int64_t lo, int64_t hi)
{
	float x_row[CHUNK], y_row[CHUNK], dy_row[CHUNK], x_grad[CHUNK], y_grad[CHUNK];
	const struct space *s = &o->space;
	struct cursor at = cursor_at(s, lo);
	for (int64_t n; lo < hi; lo += n, cursor_skip(&at, s, n)) {
		n = chunk(&at, hi - lo);
		const float *x = fetch_vectors(x_row, &o->x, s, &at, n, 0), *y = fetch_vectors(y_row, &o->y, s, &at, n, 0);
		const float *dy = fetch_vectors(dy_row, &o->dy, s, &at, n, 0);
		for (int64_t i = 0; i < n; i += VECTOR_FLOATS) {
			const vf32 v = vload(x + i), d = vload(dy + i), gate = vsigmoid(v);
			vstore(y_grad + i, d * (v * gate));
			vstore(x_grad + i, d * vload(y + i) * (gate * (1 + v * (1 - gate))));
		}
		put_f32(&o->out, x_grad, s, &at, n);
		put_f32(&o->y_grad, y_grad, s, &at, n);
	}
}

/* Sums of a row are added up in float over a piece and in double over the pieces. */
static void softmax_(const struct softmax *o, int64_t lo, int64_t hi)
{
	float x_row[CHUNK], y[CHUNK];
	const struct space *s = &o->space;
	const int again = o->width > CHUNK; /* else the buffers still have the row in the next pass */
	for (struct cursor at, start = cursor_at(s, lo * o->width); lo < hi; lo++, start = at) {
		const float *x = x_row;
		vf32 top = vset(-INFINITY);
		double sum = 0;
		at = start;
		EACH_PIECE(s, at, o->width) {
			x = fetch_vectors(x_row, &o->x, s, &at, n, -INFINITY);
			for (int64_t i = 0; i < n; i += VECTOR_FLOATS)
				top = vmax(vload(x + i), top);
		}
		top = vset(vmax_across(top));
		at = start;
		EACH_PIECE(s, at, o->width) {
			struct lanes part = {0};
			if (again)
				x = fetch_vectors(x_row, &o->x, s, &at, n, -INFINITY);
			for (int64_t i = 0; i < n; i += VECTOR_FLOATS) {
				const vf32 e = vexp(vload(x + i) - top);
				vstore(y + i, e);
				*lanes_at(&part, i) += e;
			}
			sum += lanes_sum(part);
		}
		const vf32 total = vset((float)sum), total_log = vset((float)log(sum));
		at = start;
		EACH_PIECE(s, at, o->width) {
			if (again)
				x = fetch_vectors(x_row, &o->x, s, &at, n, -INFINITY);
			for (int64_t i = 0; i < n; i += VECTOR_FLOATS) {
				if (o->log)
					vstore(y + i, vload(x + i) - top - total_log);
				else
					vstore(y + i, (again ? vexp(vload(x + i) - top) : vload(y + i)) / total);
			}
			put_f32(&o->out, y, s, &at, n);
		}
	}
}

static void softmax_grad_(const struct softmax *o, int64_t lo, int64_t hi)
{
	float y_row[CHUNK], dy_row[CHUNK], dx[CHUNK];
	const struct space *s = &o->space;
	for (struct cursor at, start = cursor_at(s, lo * o->width); lo < hi; lo++, start = at) {
		const float *y = y_row, *dy = dy_row;
		double sum = 0;
		at = start;
		EACH_PIECE(s, at, o->width) {
			struct lanes part = {0};
			y = fetch_vectors(y_row, &o->x, s, &at, n, 0), dy = fetch_vectors(dy_row, &o->dy, s, &at, n, 0);
			for (int64_t i = 0; i < n; i += VECTOR_FLOATS)
				*lanes_at(&part, i) = vfma(vload(dy + i), o->log ? vset(1) : vload(y + i), *lanes_at(&part, i));
			sum += lanes_sum(part);
		}
		const vf32 total = vset((float)sum);
		at = start;
		EACH_PIECE(s, at, o->width) {
			if (o->width > CHUNK) /* else the buffers still have the row */
				y = fetch_vectors(y_row, &o->x, s, &at, n, 0), dy = fetch_vectors(dy_row, &o->dy, s, &at, n, 0);
			for (int64_t i = 0; i < n; i += VECTOR_FLOATS) {
				const vf32 a = vload(y + i), d = vload(dy + i);
				vstore(dx + i, o->log ? d - vexp(a) * total : (d - total) * a);
			}
			put_f32(&o->out, dx, s, &at, n);
		}
	}
}

#endif
