/* Tiles of attention: fp32 copies of rows of a tensor, and products of tiles that stay in cache. */
#ifndef ATTENTION_TILE_H
#define ATTENTION_TILE_H

#include "attention.h"
#include "convert.h"
#include "dtype.h"
#include "vmath.h"

#include <float.h>
#include <string.h>

/* A product is computed in blocks of two vectors of columns and as many rows as the registers
 * hold. */
enum {
	PANEL = 2 * VECTOR_FLOATS,
	PRODUCT_ROWS = VECTOR_BYTES == 64 ? 12 : 6,
};

static inline int64_t pad_panel(int64_t n) { return (n + PANEL - 1) / PANEL * PANEL; }

static inline char *plane_at(const struct plane *p, int64_t size, int64_t head, int64_t row)
{
	return p->data + size * (head * p->head + row * p->row);
}

static inline float element_load(const char *p, int dtype)
{
	switch (dtype) {
	case DTYPE_FLOAT16: return f32_of_f16(*(const uint16_t *)p);
	case DTYPE_BFLOAT16: return f32_of_bf16(*(const uint16_t *)p);
	default: return *(const float *)p;
	}
}

/* Copies n elements that are stride apart to fp32 and sets the floats up to padded to zero. */
static void row_load(float *dst, const char *src, int64_t stride, int dtype, int64_t n, int64_t padded)
{
	int64_t j = 0;
	if (stride == 1 && dtype == DTYPE_FLOAT32) {
		memcpy(dst, src, n * 4);
		j = n;
	} else if (stride == 1) {
		const uint16_t *h = (const uint16_t *)src;
		if (dtype == DTYPE_BFLOAT16)
			for (; j + VECTOR_FLOATS <= n; j += VECTOR_FLOATS)
				vstore(dst + j, vload_bf16(h + j));
		else
			for (; j + VECTOR_FLOATS <= n; j += VECTOR_FLOATS)
				vstore(dst + j, vload_f16(h + j));
	}
	int64_t size = dtype_size(dtype);
	for (; j < n; j++)
		dst[j] = element_load(src + size * stride * j, dtype);
	for (; j < padded; j++)
		dst[j] = 0;
}

/* Rounds to the nearest value of the 16-bit type, halves away from zero, as the NPU's
 * vector unit casts; the result is exact in fp32. */
static inline vf32 round_away(vf32 x, int dtype)
{
	vu32 u = (vu32)x;
	if (dtype == DTYPE_BFLOAT16)
		return (vf32)vpick(x != x, u, (u + 0x8000) & 0xffff0000);
	if (dtype == DTYPE_FLOAT16) {
		vu32 magnitude = u & 0x7fffffff;
		vu32 normal = (u + 0x1000) & 0xffffe000;
		/* Below the normal range the unit is 2^-24: truncate after adding a half. */
		vi32 units = __builtin_convertvector((vf32)magnitude * 0x1p24f + 0.5f, vi32);
		vu32 subnormal = (vu32)(__builtin_convertvector(units, vf32) * 0x1p-24f) | (u & 0x80000000);
		vu32 rounded = vpick((vf32)magnitude < 0x1p-14f, subnormal, normal);
		return (vf32)vpick(x != x, u, rounded);
	}
	return x;
}

/* Stores n floats to elements that are stride apart; src is padded to whole vectors. */
static void row_store(char *dst, const float *src, int64_t stride, int dtype, int64_t n)
{
	if (dtype == DTYPE_FLOAT32) {
		float *f = (float *)dst;
		if (stride == 1)
			memcpy(f, src, n * 4);
		else
			for (int64_t j = 0; j < n; j++)
				f[j * stride] = src[j];
		return;
	}
	uint16_t *h = (uint16_t *)dst;
	for (int64_t j = 0; j < n; j += VECTOR_FLOATS) {
		uint16_t part[VECTOR_FLOATS];
		vf32 x = round_away(vload(src + j), dtype);
		if (dtype == DTYPE_BFLOAT16)
			vstore_bf16(part, x);
		else
			vstore_f16(part, x);
		int64_t count = n - j < VECTOR_FLOATS ? n - j : VECTOR_FLOATS;
		if (stride == 1)
			memcpy(h + j, part, count * 2);
		else
			for (int64_t k = 0; k < count; k++)
				h[(j + k) * stride] = part[k];
	}
}

/* The columns of a head: all in one plane, or the last ones in a second plane (rotary columns). */
struct columns {
	const struct plane *first, *rest;
	int64_t count, rest_count; /* count is the sum */
	int dtype;
	const struct attention *cache; /* whose pages have the rows, or NULL */
};

static inline char *row_at(const struct columns *c, const struct plane *p, int64_t head, int64_t row)
{
	const int64_t size = dtype_size(c->dtype);
	if (!c->cache)
		return plane_at(p, size, head, row);
	const int64_t page = c->cache->pages[row / c->cache->page_rows];
	return plane_at(p, size, head, row % c->cache->page_rows) + size * page * p->page;
}

/* Reports whether rows are at a constant distance, in the pages of a cache too. */
static inline int rows_even(const struct columns *c, int64_t row, int64_t rows)
{
	return !c->cache || row / c->cache->page_rows == (row + rows - 1) / c->cache->page_rows;
}

/* Loads rows into a tile with row stride ld; columns are padded with zeros to a panel. */
static void tile_load(float *tile, int64_t ld, const struct columns *c, int64_t head, int64_t row, int64_t rows)
{
	int64_t n = c->count - c->rest_count;
	for (int64_t i = 0; i < rows; i++, tile += ld) {
		row_load(tile, row_at(c, c->first, head, row + i), c->first->col, c->dtype, n, pad_panel(c->count));
		if (c->rest_count)
			row_load(tile + n, row_at(c, c->rest, head, row + i), c->rest->col, c->dtype, c->rest_count, c->rest_count);
	}
}

/* Returns the rows of a tile, which are those in memory if they are panels of floats and columns and rows at a constant distance,
 * which *ld becomes, or a copy with row stride *ld. */
static inline const float *tile_rows(float *copy, int64_t *ld, const struct columns *c, int64_t head, int64_t row, int64_t rows)
{
	if (c->dtype == DTYPE_FLOAT32 && !c->rest_count && c->first->col == 1 && c->count % PANEL == 0 && rows_even(c, row, rows)) {
		*ld = c->first->row;
		return (const float *)row_at(c, c->first, head, row);
	}
	tile_load(copy, *ld, c, head, row, rows);
	return copy;
}

/* Stores one row. */
static void columns_store(const struct columns *c, const float *src, int64_t head, int64_t row)
{
	int64_t n = c->count - c->rest_count, size = dtype_size(c->dtype);
	row_store(plane_at(c->first, size, head, row), src, c->first->col, c->dtype, n);
	if (c->rest_count)
		row_store(plane_at(c->rest, size, head, row), src + n, c->rest->col, c->dtype, c->rest_count);
}

/* How many vectors vexp_down takes at once: in each of its 12 steps they do not wait for each other, as the steps do. */
enum { EXP_VECTORS = VECTOR_BYTES == 64 ? 8 : 4 };

/* x[i] = exp(x[i]) for x <= 0, faster than vexp. Results below 2^-126 are 0 or subnormal. NaN gives NaN. */
INLINE void vexp_down(vf32 *x, const int n)
{
	/* The exponent of 2^k stands in the low bits of k + bias. -88 gives k = -127, and 2^k is taken for 0. The polynomial
	 * has the least relative error of those of its degree that begin with 1 + x. */
	const float bias = ROUNDING + 127;
	vf32 k[EXP_VECTORS], p[EXP_VECTORS];
#define EACH _Pragma("GCC unroll 8") for (int i = 0; i < n; i++)
	EACH x[i] = vmax(vset(-88), x[i]);
	EACH k[i] = vfma(x[i], vset(1.44269504f), vset(bias));
	EACH p[i] = k[i] - bias;
	EACH x[i] = vfma(p[i], vset(-LN2_HI), x[i]);
	EACH x[i] = vfma(p[i], vset(-LN2_LO), x[i]);
	EACH p[i] = vfma(x[i], vset(1.381459878757596e-3f), vset(8.368716575205326e-3f));
	EACH p[i] = vfma(p[i], x[i], vset(4.166838899254799e-2f));
	EACH p[i] = vfma(p[i], x[i], vset(1.666652113199234e-1f));
	EACH p[i] = vfma(p[i], x[i], vset(4.999999403953552e-1f));
	EACH p[i] = vfma(p[i], x[i], vset(1));
	EACH p[i] = vfma(p[i], x[i], vset(1));
	EACH x[i] = p[i] * (vf32)((vu32)k[i] << 23);
#undef EACH
}

/* Transposes a tile of [rows, cols] into panels [rows/PANEL][cols][PANEL]; missing rows are zero. */
static inline void tile_transpose(float *panels, const float *tile, int64_t ld, int64_t rows, int64_t cols)
{
	typedef float f4 __attribute__((vector_size(16), aligned(4), may_alias));
	typedef int32_t i4 __attribute__((vector_size(16)));
	for (int64_t j = 0; j < pad_panel(rows); j += 4) {
		float *to = panels + j / PANEL * PANEL * cols + j % PANEL;
		const float *from = tile + j * ld;
		int64_t k = 0;
		if (j + 4 <= rows) {
			for (; k + 4 <= cols; k += 4) {
				f4 a = *(const f4 *)(from + k), b = *(const f4 *)(from + ld + k);
				f4 c = *(const f4 *)(from + 2 * ld + k), d = *(const f4 *)(from + 3 * ld + k);
				f4 ab = __builtin_shuffle(a, b, (i4){0, 4, 1, 5}), cd = __builtin_shuffle(c, d, (i4){0, 4, 1, 5});
				*(f4 *)(to + k * PANEL) = __builtin_shuffle(ab, cd, (i4){0, 1, 4, 5});
				*(f4 *)(to + (k + 1) * PANEL) = __builtin_shuffle(ab, cd, (i4){2, 3, 6, 7});
				ab = __builtin_shuffle(a, b, (i4){2, 6, 3, 7});
				cd = __builtin_shuffle(c, d, (i4){2, 6, 3, 7});
				*(f4 *)(to + (k + 2) * PANEL) = __builtin_shuffle(ab, cd, (i4){0, 1, 4, 5});
				*(f4 *)(to + (k + 3) * PANEL) = __builtin_shuffle(ab, cd, (i4){2, 3, 6, 7});
			}
		}
		for (; k < cols; k++)
			for (int64_t i = 0; i < 4; i++)
				to[k * PANEL + i] = j + i < rows ? from[i * ld + k] : 0;
	}
}

/* A product of tiles, c[r][n] (+)= sum over t of a(r, t) * b(t, n). a is read one element at a
 * time through two strides, so it may be transposed; b and c are read in panels of columns. */
struct product {
	float *c;
	int64_t c_row;
	const float *a;
	int64_t a_row, a_step;
	const float *b;
	int64_t b_step, b_panel;
	int64_t rows, cols, steps;
	int accumulate;
};

INLINE void product_block(const struct product *p, const int rows, float *c,
								 const float *a, const float *b)
{
	vf32 acc[PRODUCT_ROWS][2];
	const int64_t a_row = p->a_row, a_step = p->a_step, b_step = p->b_step, c_row = p->c_row;
#pragma GCC unroll 12
	for (int r = 0; r < rows; r++) {
		acc[r][0] = p->accumulate ? vload(c + r * c_row) : (vf32){0};
		acc[r][1] = p->accumulate ? vload(c + r * c_row + VECTOR_FLOATS) : (vf32){0};
	}
	for (int64_t t = p->steps; t > 0; t--) {
		vf32 b0 = vload(b), b1 = vload(b + VECTOR_FLOATS);
#pragma GCC unroll 12
		for (int r = 0; r < rows; r++) {
			vf32 x = vset(a[r * a_row]);
			acc[r][0] = vfma(x, b0, acc[r][0]);
			acc[r][1] = vfma(x, b1, acc[r][1]);
		}
		a += a_step;
		b += b_step;
	}
#pragma GCC unroll 12
	for (int r = 0; r < rows; r++) {
		vstore(c + r * c_row, acc[r][0]);
		vstore(c + r * c_row + VECTOR_FLOATS, acc[r][1]);
	}
}

static inline void product(const struct product *p)
{
	for (int64_t n = 0; n < p->cols; n += PANEL) {
		const float *b = p->b + n / PANEL * p->b_panel;
		float *c = p->c + n;
		for (int64_t r = 0; r < p->rows; r += PRODUCT_ROWS, c += PRODUCT_ROWS * p->c_row) {
			const float *a = p->a + r * p->a_row;
			int64_t rows = p->rows - r;
			switch (rows < PRODUCT_ROWS ? rows : PRODUCT_ROWS) {
			case 1: product_block(p, 1, c, a, b); break;
			case 2: product_block(p, 2, c, a, b); break;
			case 3: product_block(p, 3, c, a, b); break;
			case 4: product_block(p, 4, c, a, b); break;
			case 5: product_block(p, 5, c, a, b); break;
			case 6: product_block(p, 6, c, a, b); break;
#if VECTOR_BYTES == 64
			case 7: product_block(p, 7, c, a, b); break;
			case 8: product_block(p, 8, c, a, b); break;
			case 9: product_block(p, 9, c, a, b); break;
			case 10: product_block(p, 10, c, a, b); break;
			case 11: product_block(p, 11, c, a, b); break;
			case 12: product_block(p, 12, c, a, b); break;
#endif
			}
		}
	}
}

#endif
