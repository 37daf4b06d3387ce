/* Reading and writing of one element type S by computation type T: packing into panels,
 * loading and storing of rows. gemm_body.h includes it once per pair of types, with
 *   SRC(x)        the prefix of the functions
 *   LOAD1(p)      one converted element
 *   LOAD4(p)      a vector v4 of four adjacent ones
 *   STORE1(p, x)  writes one element
 *   STOREV(p, v)  writes a vector V; optional
 *   LINE(p, n)    a gemm_line of n adjacent elements and then zeros; optional (else see
 *                 gemm_cells.h if GROUP is not 1)
 *   WIDEN(x)      a gemm_line of adjacent elements of 16 bits; optional
 *   CROSS(p, row, left, n) if GROUP is not 1: n cells of an element each of GROUP rows, of which left exist,
 *                 and then zeros
 * With PACK_ONLY there is no loading and storing, with STORE_ONLY no packing. */

typedef S SRC(s4) __attribute__((vector_size(4 * sizeof(S)), aligned(sizeof(S)), may_alias));

#ifndef LOAD1
#define LOAD1(p) ((T) * (p))
#define LOAD4(p) __builtin_convertvector(*(const SRC(s4) *)(p), NAME(t4))
#define STORE1(p, x) (*(p) = (S)(x))
#endif
#define STORE4(p, v) (*(NAME(v4u) *)(p) = (v))

#ifndef STORE_ONLY
#ifdef LINE
#define BITS (32 / GROUP) /* of an element in a cell */
#if GROUP == 1
#define LINE_W(p, i, n) LINE(src + (p) * k_stride + (i), n)
#else
#define LINE_W(p, i, n) CROSS((const void *)(src + GROUP * (p) * k_stride + (i)), k_stride, k - GROUP * (p), n)
#endif

/* Transposes a square of cells, of which w × k exist: lines along k become rows of a panel of B, lines
 * along w rows of a panel of A. */
static inline __attribute__((always_inline)) void
SRC(pack_block)(P *dst, int a_panel, int64_t w, int64_t k, const S *src, int64_t w_stride, int64_t k_stride)
{
	const int64_t cells = (k + GROUP - 1) / GROUP, lines = a_panel ? cells : w, rows = a_panel ? w : cells;
	gemm_line t[GEMM_LANES];
#pragma GCC unroll 16
	for (int x = 0; x < GEMM_LANES; x++)
		if (x >= lines) {
			t[x] = (gemm_line){0};
		} else if (a_panel) {
			t[x] = LINE_W(x, 0, w);
		} else {
			__builtin_prefetch(src + (x + NR) * w_stride, 0, 2);
			t[x] = LINE(src + x * w_stride, k);
		}
	gemm_transpose(t);
#pragma GCC unroll 16
	for (int y = 0; y < GEMM_LANES; y++)
		if (y < rows)
			gemm_put(dst + y * (a_panel ? GEMM_KC : NR), t[y], lines);
}

/* A panel of A has a row for each w with the cells of k; a panel of B a row for each cell of k with
 * NR cells of w. Where the elements are adjacent along the other axis, squares of cells are
 * transposed. Panels that follow are fetched ahead. */
static void SRC(pack)(P *dst, int a_panel, int64_t w, int64_t k, const S *src, int64_t w_stride, int64_t k_stride)
{
	const int64_t cells = (k + GROUP - 1) / GROUP;
	if (k_stride == 1 && a_panel) {
		for (int64_t i = 0; i < w; i++) {
			const S *in = src + i * w_stride;
			for (int64_t p = 0; p < cells; p += GEMM_LANES) {
				__builtin_prefetch(in + 8 * w_stride + p * GROUP, 0, 2);
				gemm_put(dst + i * GEMM_KC + p, LINE(in + p * GROUP, k - p * GROUP), cells - p);
			}
		}
	} else if (k_stride == 1) {
		for (int64_t i = 0; i < w; i += GEMM_LANES)
			for (int64_t p = 0; p < k; p += GEMM_LANES * GROUP) {
				P *to = dst + p / GROUP * NR + i;
				const S *from = src + i * w_stride + p;
				if (i + GEMM_LANES <= w && p + GEMM_LANES * GROUP <= k)
					SRC(pack_block)(to, 0, GEMM_LANES, GEMM_LANES * GROUP, from, w_stride, 1);
				else
					SRC(pack_block)(to, 0, w - i, k - p, from, w_stride, 1);
			}
	} else if (w_stride == 1 && !a_panel) {
		for (int64_t p = 0; p < cells; p++)
			for (int64_t i = 0; i < w; i += GEMM_LANES) {
#pragma GCC unroll 4
				for (int x = 0; x < GROUP; x++) /* rows lie far apart */
					__builtin_prefetch(src + ((p + 16) * GROUP + x) * k_stride + i, 0, 2);
				gemm_put(dst + p * NR + i, LINE_W(p, i, w - i), w - i);
			}
	} else if (w_stride == 1) {
		for (int64_t p = 0; p < k; p += GEMM_LANES * GROUP)
			for (int64_t i = 0; i < w; i += GEMM_LANES) {
				P *to = dst + i * GEMM_KC + p / GROUP;
				const S *from = src + i + p * k_stride;
				if (i + GEMM_LANES <= w && p + GEMM_LANES * GROUP <= k)
					SRC(pack_block)(to, 1, GEMM_LANES, GEMM_LANES * GROUP, from, 1, k_stride);
				else
					SRC(pack_block)(to, 1, w - i, k - p, from, 1, k_stride);
			}
	} else {
		for (int64_t p = 0; p < cells; p++)
			for (int64_t i = 0; i < w; i++) {
				P *to = a_panel ? dst + i * GEMM_KC + p : dst + p * NR + i;
				const S *from = src + i * w_stride + p * GROUP * k_stride;
#if GROUP == 1
				*to = LOAD1(from);
#else
				*to = 0;
				for (int x = 0; x < gemm_min(GROUP, k - GROUP * p); x++)
					*to |= ((P)from[x * k_stride] & (P)-1 >> (32 - BITS)) << (BITS * x);
#endif
			}
	}
}

#ifdef FEW_ROWS
/* 16-bit elements are transposed before they are widened, for half the number of shuffles, and pass through memory, from
 * where they are widened fastest. Their runs are summed several at a time, and do not wait for each other. */
#ifdef WIDEN
#define ALONG (2 * GEMM_LANES)
#define ALONG_LINE gemm_line_pairs
#define ALONG_TRANSPOSE gemm_transpose_u16
#define ALONG_CELLS(t, y) WIDEN(gemm_transposed_u16(t, y))
enum { SRC(length) = GEMM_RUN, SRC(runs) = 128 / VECTOR_BYTES };
#else
#define ALONG GEMM_LANES
#define ALONG_LINE LINE
#define ALONG_TRANSPOSE gemm_transpose
#define ALONG_CELLS(t, y) (t)[y]
enum { SRC(length) = RUN < GEMM_KC ? RUN : GEMM_KC, SRC(runs) = 1 };
#endif

/* t = ALONG cells of each of up to GEMM_COLUMNS columns, transposed. */
static inline __attribute__((always_inline)) void
SRC(along_lines)(gemm_line *t, int64_t cols, int64_t k, const S *b, int64_t b_col, int64_t ahead)
{
	gemm_line lines[GEMM_LANES];
#pragma GCC unroll 16
	for (int x = 0; x < GEMM_LANES; x++) {
		const S *line = b + (x < cols ? x : 0) * b_col;
		if (VECTOR_BYTES == 64 && SRC(runs) == 1) /* Short vectors come sooner if the CPU alone fetches them. */
			__builtin_prefetch(line + ahead, 0, 2);
		lines[x] = ALONG_LINE(line, k);
	}
	ALONG_TRANSPOSE(lines);
#pragma GCC unroll 16
	for (int x = 0; x < GEMM_LANES; x++)
		t[x] = lines[x];
}

/* sum[rows] += a·b for the cell y of the lines. */
static inline __attribute__((always_inline)) void
SRC(along_cell)(const int rows, const P *a, const gemm_line *t, int64_t y, V *sum)
{
	const PV cell = (PV)ALONG_CELLS(t, y);
#pragma GCC unroll 4
	for (int i = 0; i < rows; i++)
		sum[i] = MULADD(sum[i], a[i * GEMM_KC + y] - (PV){0}, cell);
}

/* all[rows] += a·b for whole runs of GEMM_COLUMNS columns. */
static inline __attribute__((always_inline)) void
SRC(along_runs)(const int rows, const int runs, const P *a, const S *b, int64_t b_col, int64_t ahead, V *all)
{
	enum { LENGTH = SRC(length), PIECE = SRC(runs) == 1 ? ALONG : LENGTH };
	gemm_line t[SRC(runs) * PIECE / ALONG * GEMM_LANES];
	V sum[SRC(runs) * FEW_ROWS] = {0};
	for (int64_t p = 0; p < LENGTH; p += PIECE) {
#pragma GCC unroll 4
		for (int x = 0; x < runs; x++)
			for (int64_t q = 0; q < PIECE; q += ALONG)
				SRC(along_lines)(t + (x * PIECE + q) / ALONG * GEMM_LANES, GEMM_COLUMNS, ALONG * GROUP,
						 b + (p + x * LENGTH + q) * GROUP, b_col, ahead);
		for (int64_t q = 0; q < PIECE; q += ALONG) {
			/* While a piece is multiplied the next one is fetched. */
#pragma GCC unroll 16
			for (int x = 0; SRC(runs) > 1 && x < GEMM_COLUMNS; x++)
#pragma GCC unroll 4
				for (int y = 0; y < runs * ALONG; y += 64 / (int)sizeof(S))
					__builtin_prefetch(b + x * b_col + ahead + q * runs + y);
#pragma GCC unroll 32
			for (int y = 0; y < ALONG; y++)
#pragma GCC unroll 4
				for (int x = 0; x < runs; x++)
					SRC(along_cell)(rows, a + p + x * LENGTH + q, t + (x * PIECE + q) / ALONG * GEMM_LANES, y, sum + x * rows);
		}
	}
#pragma GCC unroll 4
	for (int x = 0; x < runs; x++)
#pragma GCC unroll 4
		for (int i = 0; i < rows; i++)
			all[i] += sum[x * rows + i];
}

/* c[rows×cols] (+)= a·b for up to FEW_ROWS packed rows of a and at most GEMM_COLUMNS columns, where the elements
 * of b are adjacent along k: each is read once. */
static inline __attribute__((always_inline)) void
SRC(along_rows)(const int rows, int64_t cols, int64_t k, const P *a, const S *b, int64_t b_col, int64_t ahead, T *c, int64_t c_row, int accumulate)
{
	enum { LENGTH = SRC(length) };
	const int runs = (int)gemm_min(GEMM_KC / LENGTH, (SRC(runs) + rows - 1) / rows);
	const int64_t cells = (k + GROUP - 1) / GROUP;
	V all[FEW_ROWS] = {0};
	int64_t p = 0;
	for (; cols == GEMM_COLUMNS && k - p * GROUP >= runs * LENGTH * GROUP; p += runs * LENGTH)
		SRC(along_runs)(rows, runs, a + p, b + p * GROUP, b_col, ahead, all);
	for (int64_t end; p < cells; p = end) {
		V sum[FEW_ROWS] = {0};
		end = gemm_min(p + LENGTH, cells);
		for (int64_t q = p; q < end; q += ALONG) {
			gemm_line t[GEMM_LANES];
			SRC(along_lines)(t, cols, k - q * GROUP, b + q * GROUP, b_col, ahead);
#pragma GCC unroll 32
			for (int y = 0; y < ALONG; y++)
				if (y < cells - q)
					SRC(along_cell)(rows, a + q, t, y, sum);
		}
#pragma GCC unroll 4
		for (int i = 0; i < rows; i++)
			all[i] += sum[i];
	}
#pragma GCC unroll 4
	for (int i = 0; i < rows; i++) {
		T *to = c + i * c_row;
		if (accumulate)
			all[i] += (V)gemm_get(to, cols);
		gemm_put(to, (gemm_line)all[i], cols);
	}
}

/* sums (+)= a·b for GEMM_RUN rows of b or less, from p on, and so many vectors of columns, of which cols exist. */
static inline __attribute__((always_inline)) void
SRC(across_step)(const int rows, const int parts, int64_t cols, int64_t p, int64_t k, const P *a, const S *src, int64_t k_stride, int64_t ahead, T *sums)
{
	enum { LINE_BYTES = 64 };
	V t[FEW_ROWS][8];
	const int64_t end = gemm_min(p + GEMM_RUN, (k + GROUP - 1) / GROUP);
#pragma GCC unroll 4
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
		for (int x = 0; x < parts; x++)
			t[i][x] = p > 0 && RUN != GEMM_RUN ? *(V *)(sums + i * GEMM_TILE_N + GEMM_LANES * x) : (V){0};
	for (int64_t q = p; q < end; q++) {
#pragma GCC unroll 2
		for (int x = 0; x < GROUP; x++)
#pragma GCC unroll 4
			for (int y = 0; y < parts * GEMM_LANES; y += LINE_BYTES / (int)sizeof(S))
				__builtin_prefetch(src + (q * GROUP + x) * k_stride + ahead + y, 0, 2);
		PV line[8];
#pragma GCC unroll 8
		for (int x = 0; x < parts; x++)
			line[x] = (PV)LINE_W(q, GEMM_LANES * x, cols > GEMM_LANES * x ? cols - GEMM_LANES * x : 0);
#pragma GCC unroll 4
		for (int i = 0; i < rows; i++) {
			const PV cell = a[i * GEMM_KC + q] - (PV){0};
#pragma GCC unroll 8
			for (int x = 0; x < parts; x++)
				t[i][x] = MULADD(t[i][x], cell, line[x]);
		}
	}
#pragma GCC unroll 4
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
		for (int x = 0; x < parts; x++) {
			V *sum = (V *)(sums + i * GEMM_TILE_N + GEMM_LANES * x);
			*sum = p > 0 && RUN == GEMM_RUN ? *sum + t[i][x] : t[i][x];
		}
}

/* The same as along_rows where the elements of b are adjacent along the columns, of which there are at most
 * GEMM_TILE_N: a few rows of b pass by at a time, while the sums lie in the first-level cache. */
static inline __attribute__((always_inline)) void
SRC(across_rows)(const int rows, int64_t cols, int64_t k, const P *a, const S *src, int64_t k_stride, T *c, int64_t c_row, int accumulate)
{
	const int parts = VECTOR_BYTES == 64 || rows > 2 ? 2 : rows == 1 && sizeof(S) == 4 ? 8 : 4; /* as registers allow */
	const int64_t wide = parts * GEMM_LANES, far = 512 / sizeof(S);
	T sums[FEW_ROWS * GEMM_TILE_N] __attribute__((aligned(64)));
	for (int64_t p = 0; p == 0 || p * GROUP < k; p += GEMM_RUN)
		for (int64_t j = 0; j < cols; j += wide) {
			/* With short vectors the columns that follow are fetched ahead, or the first ones of the next rows. */
			const int64_t next = j + far < cols ? far : GEMM_RUN * k_stride + far - cols;
			if (VECTOR_BYTES == 64)
				SRC(across_step)(rows, parts, cols - j, p, k, a, src + j, k_stride, 8 * GROUP * k_stride, sums + j);
			else if (cols - j >= wide)
				SRC(across_step)(rows, parts, wide, p, k, a, src + j, k_stride, next, sums + j);
			else
				for (int64_t x = j; x < cols; x += GEMM_LANES)
					SRC(across_step)(rows, 1, cols - x, p, k, a, src + x, k_stride, next, sums + x);
		}
	for (int i = 0; i < rows; i++)
		for (int64_t j = 0; j < cols; j += GEMM_LANES) {
			V t = *(V *)(sums + i * GEMM_TILE_N + j);
			if (accumulate)
				t += (V)gemm_get(c + i * c_row + j, cols - j);
			gemm_put(c + i * c_row + j, (gemm_line)t, cols - j);
		}
}

static void SRC(few)(int64_t rows, int64_t cols, int64_t k, const P *a, const S *b, const struct gemm_matrix *x, int64_t ahead, T *c, int64_t c_row, int accumulate)
{
#define FEW(rows)                                                                                                      \
	case rows:                                                                                                     \
		if (x->col.stride == 1)                                                                                \
			SRC(across_rows)(rows, cols, k, a, b, x->row.stride, c, c_row, accumulate);                    \
		else                                                                                                   \
			SRC(along_rows)(rows, cols, k, a, b, x->col.stride, ahead, c, c_row, accumulate);                     \
		return;
	switch (rows) {
		FEW(1) FEW(2) FEW(4)
	case 3: /* b is in a cache the second time, and gcc takes seconds for each number of rows */
		SRC(few)(2, cols, k, a, b, x, ahead, c, c_row, accumulate);
		SRC(few)(1, cols, k, a + 2 * GEMM_KC, b, x, ahead, c + 2 * c_row, c_row, accumulate);
	}
#undef FEW
}
#undef ALONG
#undef ALONG_LINE
#undef ALONG_TRANSPOSE
#undef ALONG_CELLS
#endif
#undef LINE_W
#undef BITS
#elif GROUP > 1
#include "gemm_cells.h"
#else
/* dst[y·dst_row + x] = src[x·x_stride + y·y_stride] for x < w, y < h. */
static inline __attribute__((always_inline)) void
SRC(pack_rows)(P *restrict dst, const int64_t dst_row, int64_t w, int64_t h, const S *restrict src, int64_t x_stride,
	       int64_t y_stride)
{
	int64_t y = 0;
	if (x_stride == 1) {
		for (; y < h; y++) {
			int64_t x = 0;
#pragma GCC unroll 4
			for (; x + 4 <= w; x += 4)
				STORE4(dst + y * dst_row + x, LOAD4(src + y * y_stride + x));
			for (; x < w; x++)
				dst[y * dst_row + x] = LOAD1(src + y * y_stride + x);
		}
	} else if (y_stride == 1) {
		for (; y + 4 <= h; y += 4) {
			int64_t x = 0;
			for (; x + 4 <= w; x += 4) {
				const S *in = src + x * x_stride + y;
				P *out = dst + y * dst_row + x;
				NAME(v4) r0 = LOAD4(in), r1 = LOAD4(in + x_stride);
				NAME(v4) r2 = LOAD4(in + 2 * x_stride), r3 = LOAD4(in + 3 * x_stride);
				NAME(v4) a = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
				NAME(v4) b = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
				NAME(v4) c = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
				NAME(v4) d = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
				STORE4(out, __builtin_shufflevector(a, b, 0, 1, 4, 5));
				STORE4(out + dst_row, __builtin_shufflevector(a, b, 2, 3, 6, 7));
				STORE4(out + 2 * dst_row, __builtin_shufflevector(c, d, 0, 1, 4, 5));
				STORE4(out + 3 * dst_row, __builtin_shufflevector(c, d, 2, 3, 6, 7));
			}
			for (; x < w; x++)
				for (int64_t i = y; i < y + 4; i++)
					dst[i * dst_row + x] = LOAD1(src + x * x_stride + i);
		}
	}
	for (; y < h; y++)
		for (int64_t x = 0; x < w; x++)
			dst[y * dst_row + x] = LOAD1(src + x * x_stride + y * y_stride);
}

/* A panel of A has a row for each w with the elements of k, a panel of B a row for each k. */
static void SRC(pack)(P *dst, int a_panel, int64_t w, int64_t k, const S *src, int64_t w_stride, int64_t k_stride)
{
	if (a_panel)
		SRC(pack_rows)(dst, GEMM_KC, k, w, src, k_stride, w_stride);
	else
		SRC(pack_rows)(dst, NR, w, k, src, w_stride, k_stride);
}
#endif
#endif

#ifndef PACK_ONLY
/* dst[rows×NR] = src; columns beyond cols are not written. */
static void SRC(load)(T *restrict dst, int64_t rows, int64_t cols, const S *restrict src, int64_t row_stride,
		      int64_t col_stride)
{
	for (int64_t r = 0; r < rows; r++, dst += NR, src += row_stride) {
		int64_t i = 0;
		if (col_stride == 1)
			for (; i + 4 <= cols; i += 4)
				*(NAME(t4u) *)(dst + i) = LOAD4(src + i);
		for (; i < cols; i++)
			dst[i] = LOAD1(src + i * col_stride);
	}
}

static void SRC(store)(S *restrict dst, int64_t row_stride, int64_t col_stride, int64_t rows, int64_t cols,
		       const T *restrict src, int64_t src_row)
{
	for (int64_t r = 0; r < rows; r++, src += src_row, dst += row_stride) {
		int64_t i = 0;
#ifdef STOREV
		if (col_stride == 1)
			for (; i + VL <= cols; i += VL)
				STOREV(dst + i, *(const NAME(vu) *)(src + i));
#endif
		for (; i < cols; i++)
			STORE1(dst + i * col_stride, src[i]);
	}
}
#endif

#undef S
#undef SRC
#undef LOAD1
#undef LOAD4
#undef STORE1
#undef STORE4
#undef STOREV
#undef LINE
#undef WIDEN
#undef CROSS
#undef PACK_ONLY
#undef STORE_ONLY
