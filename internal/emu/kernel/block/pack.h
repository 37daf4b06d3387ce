/* Reading and writing of one element type S by computation type T: packing into panels,
 * loading and storing of rows. it is included once per pair of types, with
 *   SRC(x)        the prefix of the functions
 *   LOAD1(p)      one converted element
 *   LOAD4(p)      a vector v4 of four adjacent ones
 *   STORE1(p, x)  writes one element
 *   STOREV(p, v)  writes a vector V; optional
 *   LINE(p, n)    a gemm_line of n adjacent elements and then zeros; optional if GROUP is 1
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

/* Transposes a square of cells, of which w × k exist: lines along k become rows of a panel of B, and lines
 * along w rows of a panel of A. */
INLINE void
SRC(pack_block)(P *dst, int a_panel, int64_t row, int64_t w, int64_t k, const S *src, int64_t w_stride, int64_t k_stride)
{
	const int64_t cells = (k + GROUP - 1) / GROUP, lines = a_panel ? cells : w, rows = a_panel ? w : cells;
	gemm_line t[GEMM_WIDTH];
#pragma GCC unroll 16
	for (int x = 0; x < GEMM_WIDTH; x++)
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
	for (int y = 0; y < GEMM_WIDTH; y++)
		if (y < rows)
			gemm_put(dst + y * row, t[y], lines);
}

/* The same out of line for the squares at the edges, of which copies would take gcc as long as whole ones do. */
static NOT_INLINE void
SRC(pack_edge)(P *dst, int a_panel, int64_t row, int64_t w, int64_t k, const S *src, int64_t w_stride, int64_t k_stride)
{
	SRC(pack_block)(dst, a_panel, row, w, k, src, w_stride, k_stride);
}

/* A panel of A has a row for each w with the cells of k; a panel of B a row for each cell of k with
 * NR cells of w. Where the elements are adjacent along the other axis, squares of cells are
 * transposed, to rows that are row cells apart. Panels that follow are fetched ahead. */
static void SRC(pack)(P *dst, int a_panel, int64_t w, int64_t k, const S *src, int64_t w_stride, int64_t k_stride)
{
	const int64_t cells = (k + GROUP - 1) / GROUP;
	if (k_stride == 1 && a_panel) {
		for (int64_t i = 0; i < w; i++) {
			const S *in = src + i * w_stride;
			for (int64_t p = 0; p < cells; p += GEMM_WIDTH) {
				__builtin_prefetch(in + 8 * w_stride + p * GROUP, 0, 2);
				gemm_put(dst + i * GEMM_KC + p, LINE(in + p * GROUP, k - p * GROUP), cells - p);
			}
		}
	} else if (k_stride == 1) {
		for (int64_t i = 0; i < w; i += GEMM_WIDTH)
			for (int64_t p = 0; p < k; p += GEMM_WIDTH * GROUP) {
				P *to = dst + p / GROUP * NR + i;
				const S *from = src + i * w_stride + p;
				if (i + GEMM_WIDTH <= w && p + GEMM_WIDTH * GROUP <= k)
					SRC(pack_block)(to, 0, NR, GEMM_WIDTH, GEMM_WIDTH * GROUP, from, w_stride, 1);
				else
					SRC(pack_edge)(to, 0, NR, w - i, k - p, from, w_stride, 1);
			}
	} else if (w_stride == 1 && !a_panel) {
		for (int64_t p = 0; p < cells; p++)
			for (int64_t i = 0; i < w; i += GEMM_WIDTH) {
#pragma GCC unroll 4
				for (int x = 0; x < GROUP; x++) { /* rows lie far apart: later ones, and the next panel's part of this one */
					__builtin_prefetch(src + ((p + 16) * GROUP + x) * k_stride + i, 0, 2);
					__builtin_prefetch(src + (p * GROUP + x) * k_stride + i + NR, 0, 2);
				}
				gemm_put(dst + p * NR + i, LINE_W(p, i, w - i), w - i);
			}
	} else if (w_stride == 1) {
		for (int64_t p = 0; p < k; p += GEMM_WIDTH * GROUP)
			for (int64_t i = 0; i < w; i += GEMM_WIDTH) {
				P *to = dst + i * GEMM_KC + p / GROUP;
				const S *from = src + i + p * k_stride;
				if (i + GEMM_WIDTH <= w && p + GEMM_WIDTH * GROUP <= k)
					SRC(pack_block)(to, 1, GEMM_KC, GEMM_WIDTH, GEMM_WIDTH * GROUP, from, 1, k_stride);
				else
					SRC(pack_edge)(to, 1, GEMM_KC, w - i, k - p, from, 1, k_stride);
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

#undef LINE_W
#undef BITS
#else
/* dst[y·dst_row + x] = src[x·x_stride + y·y_stride] for x < w, y < h. */
static NOT_INLINE void
SRC(pack_rows)(P *restrict dst, int64_t dst_row, int64_t w, int64_t h, const S *restrict src, int64_t x_stride,
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
#undef CROSS
#undef STORE_ONLY
#undef PACK_ONLY
