/* One tile of a matrix product of computation type T, blocked for the caches: a panel of A, of
 * GEMM_MR×GEMM_KC cells, stays in the first-level cache while the panels of B, of GEMM_KC×NR cells
 * each, come from the second-level cache. body.h includes it once per computation type, with
 *   SOURCES(X)  the element types of A and B as X(dtype, type, name)
 *   TARGETS(X)  those of C and D
 *   ELEMENT     the type of the elements of A and B of dtype NATIVE, whose cells need no packing
 *   NATIVE_OUT  the dtype of C whose elements are of type T
 *   CELL_STEP   panels are filled up with zeros to a multiple of so many cells; optional */

#ifndef CELL_STEP
#define CELL_STEP 1
#endif
#define PACK_CASE(id, type, name)                                                                                      \
	case id:                                                                                                       \
		NAME(name##_pack)(dst, a_panel, w, k, (const type *)data + offset, w_stride, k_stride);                \
		return;
#define LOAD_CASE(id, type, name)                                                                                      \
	case id:                                                                                                       \
		NAME(name##_load)(dst, rows, cols, (const type *)data + offset, x->row.stride, x->col.stride);         \
		return;
#define STORE_CASE(id, type, name)                                                                                     \
	case id:                                                                                                       \
		NAME(name##_store)((type *)data + offset, x->row.stride, x->col.stride, rows, cols, src, src_row);     \
		return;
static void NAME(pack_part)(P *dst, int a_panel, int64_t w, int64_t k, int dtype, const char *data, int64_t offset,
			    int64_t w_stride, int64_t k_stride)
{
	switch (dtype) {
		SOURCES(PACK_CASE)
	}
}

static void NAME(load)(T *dst, int64_t rows, int64_t cols, const struct gemm_matrix *x, const char *data, int64_t row,
		       int64_t col)
{
	const int64_t offset = row * x->row.stride + col * x->col.stride;
	switch (x->dtype) {
		TARGETS(LOAD_CASE)
	}
}

static void NAME(store)(const struct gemm_matrix *x, char *data, int64_t row, int64_t col, int64_t rows, int64_t cols,
			const T *src, int64_t src_row)
{
	const int64_t offset = row * x->row.stride + col * x->col.stride;
	switch (x->dtype) {
		TARGETS(STORE_CASE)
	}
}

#undef PACK_CASE
#undef LOAD_CASE
#undef STORE_CASE

/* Packs elements [w0, w0+w) × [k0, k0+k) of an operand into a panel of A or of B; columns that a
 * panel of B has beyond w become 0. The ranges are split where the operand's own tiles end. */
static void NAME(pack_panel)(P *dst, int a_panel, const struct gemm_matrix *x, const char *data, int64_t w0, int64_t w,
			     int64_t k0, int64_t k)
{
	const struct gemm_axis *wa = a_panel ? &x->row : &x->col, *ka = a_panel ? &x->col : &x->row;
	const int64_t w_step = a_panel ? GEMM_KC : 1, cells = (k + GROUP - 1) / GROUP;
	const int64_t k_step = a_panel ? 1 : NR;
	for (int64_t p = 0, pn; p < k; p += pn) {
		pn = gemm_run_length(ka, k0 + p, k - p);
		for (int64_t i = 0, in; i < w; i += in) {
			in = gemm_run_length(wa, w0 + i, w - i);
			NAME(pack_part)(dst + p / GROUP * k_step + i * w_step, a_panel, in, pn, x->dtype, data,
					gemm_offset(wa, w0 + i) + gemm_offset(ka, k0 + p), wa->stride, ka->stride);
		}
	}
	if (!a_panel && w < NR)
		for (int64_t p = 0; p < cells; p++)
			memset(dst + p * NR + w, 0, (size_t)(NR - w) * sizeof(P));
	const int64_t end = (cells + CELL_STEP - 1) / CELL_STEP * CELL_STEP;
	for (int64_t i = 0; a_panel && i < w; i++)
		memset(dst + i * GEMM_KC + cells, 0, (size_t)(end - cells) * sizeof(P));
	if (!a_panel)
		memset(dst + cells * NR, 0, (size_t)((end - cells) * NR) * sizeof(P));
}

/* Writes alpha·sum + beta·d to a block of c of at most GEMM_MR×NR; sum is changed. */
static void NAME(finish)(const struct gemm *g, const struct gemm_at *at, int64_t row, int64_t rows, int64_t col,
			 int64_t cols, T *sum, int64_t sum_row)
{
	const T alpha = (SCALAR)g->alpha, beta = (SCALAR)g->beta;
	if (alpha != 1)
		for (int64_t i = 0; i < rows; i++)
			for (int64_t j = 0; j < cols; j++)
				sum[i * sum_row + j] *= alpha;
	if (at->d != NULL) {
		T d[GEMM_MR * NR];
		NAME(load)(d, rows, cols, &g->d, at->d, row, col);
		for (int64_t i = 0; i < rows; i++)
			for (int64_t j = 0; j < cols; j++)
				sum[i * sum_row + j] += beta * d[i * NR + j];
	}
	NAME(store)(&g->c, at->c, row, col, rows, cols, sum, sum_row);
}

/* The range of a product that a running kernel computes, and its memory. */
struct NAME(part) {
	const struct gemm *g;
	const struct gemm_at *at;
	int64_t m0, m1, n0, n1;
	P *a, *b;      /* a panel of A, and the panels of B of one block of k */
	T *out;        /* the sums, in c itself or in scratch memory */
	int64_t out_row;
	int direct;    /* out is c: there may be nothing beyond n1 */
	int once;      /* all of k is one block: a band of rows is finished before the next one, in the same memory */
};

/* The sums of row i from column j on. */
static inline T *NAME(sums)(const struct NAME(part) *s, int64_t i, int64_t j)
{
	return s->out + (s->once ? (i - s->m0) % GEMM_BAND : i - s->m0) * s->out_row + (j - s->n0);
}

/* Adds the products with B's columns [j, j+cols) to out; a has the cells of the rows. Rows of b are b_k apart, or with 0
 * those of a panel. */
static void NAME(block)(const struct NAME(part) *s, int64_t i, int64_t rows, int64_t j, int64_t cols, int64_t cells,
			const P *a, int64_t a_row, const P *b, int64_t b_k, int accumulate)
{
	T *c = NAME(sums)(s, i, j);
	if (!s->direct || cols == NR) {
		NAME(micro)(rows, cells, a, a_row, b, b_k, c, s->out_row, accumulate);
		return;
	}
	T edge[GEMM_MR * NR] = {0};
	for (int64_t r = 0; accumulate && r < rows; r++)
		memcpy(edge + r * NR, c + r * s->out_row, (size_t)cols * sizeof(T));
	NAME(micro)(rows, cells, a, a_row, b, b_k, edge, NR, accumulate);
	for (int64_t r = 0; r < rows; r++)
		memcpy(c + r * s->out_row, edge + r * NR, (size_t)cols * sizeof(T));
}

/* Finishes rows [i, end) of c, whose sums are complete. */
static void NAME(finish_rows)(const struct NAME(part) *s, int64_t i, int64_t end)
{
	for (; !s->direct && i < end; i += GEMM_MR)
		for (int64_t j = s->n0; j < s->n1; j += NR)
			NAME(finish)(s->g, s->at, i, gemm_min(GEMM_MR, end - i), j, gemm_min(NR, s->n1 - j), NAME(sums)(s, i, j), s->out_row);
}

/* Adds the products of a register block of rows before end with the panels of a block of B from column j on. */
INLINE void
NAME(sum_row)(const struct NAME(part) *s, int64_t i, int64_t end, int64_t j, const P *a, int64_t a_row, int read_b, int64_t k0, int64_t k)
{
	const struct gemm *g = s->g;
	const int64_t rows = gemm_min(GEMM_MR, end - i), n1 = gemm_min(j + GEMM_PANELS * NR, s->n1), cells = (k + GROUP - 1) / GROUP;
	for (int64_t cols; j < n1; j += cols) {
		const P *in = (const P *)((const ELEMENT *)s->at->b + k0 * g->b.row.stride + j);
#if GROUP == 1
		if (read_b && rows == 1 && n1 - j >= 8 * VL) {
			cols = 8 * VL;
			NAME(wide)(k, a, in, g->b.row.stride, NAME(sums)(s, i, j), k0 > 0);
			continue;
		}
#endif
		cols = gemm_min(NR, n1 - j);
		P *b = s->b + (j - s->n0) * GEMM_KC;
		if (read_b && cols == NR) {
			NAME(block)(s, i, rows, j, cols, cells, a, a_row, in, g->b.row.stride, k0 > 0);
			continue;
		}
		if (i == s->m0) /* Packed right before its first use, it is still in the first-level cache. */
			NAME(pack_panel)(b, 0, &g->b, s->at->b, j, cols, k0, k);
		NAME(block)(s, i, rows, j, cols, cells, a, a_row, b, 0, k0 > 0);
	}
}

/* Fetches the rows of A from i on that a register block has, while another one is multiplied. */
static void NAME(fetch_rows)(const struct NAME(part) *s, int64_t i, int64_t k0, int64_t k)
{
	const int64_t size = dtype_size(s->g->a.dtype);
	for (int64_t end = gemm_min(i + GEMM_MR, s->m1); i < end; i++)
		for (int64_t p = k0; p < k0 + k; p += 64 / size)
			__builtin_prefetch(s->at->a + (i * s->g->a.row.stride + p) * size, 0, 2);
}

/* Adds the products over the block of k elements from k0 on to out, and finishes c after the last. */
static void NAME(sum)(const struct NAME(part) *s, int64_t k0, int64_t k)
{
	const struct gemm *g = s->g;
	const int plain_a = gemm_plain(&g->a.row) && gemm_plain(&g->a.col);
	const int plain_b = gemm_plain(&g->b.row) && gemm_plain(&g->b.col);
	/* Packing pays off only if a panel is read often enough: by more rows than these, as measured. */
	const int read_a = CELL_STEP == 1 && plain_a && g->a.dtype == NATIVE && g->a.col.stride == 1 && k % GROUP == 0 &&
			   g->a.row.stride % GROUP == 0 && (VECTOR_BYTES == 32 || g->a.row.stride <= GROUP * GEMM_KC) &&
			   s->n1 - s->n0 <= (VECTOR_BYTES == 64 ? 4 : 8) * NR;
	const int64_t rows = s->m1 - s->m0, b_row = g->b.row.stride;
	const int read_b = GROUP * CELL_STEP == 1 && plain_b && g->b.dtype == NATIVE && g->b.col.stride == 1 && b_row > 0 &&
			   (rows <= 28 || (rows <= 224 && b_row <= GEMM_KC));
	const int fetch_a = GEMM_FETCH_A && !read_a && plain_a && g->a.col.stride == 1;

	for (int64_t i = s->m0, end; i < s->m1; i = end) {
		end = gemm_min(i + GEMM_BAND, s->m1);
		const int64_t packed = (i - s->m0) % GEMM_STRIP;
		const P *a = s->a + packed * GEMM_KC;
		int64_t a_row = GEMM_KC;
		if (read_a) {
			a = (const P *)((const ELEMENT *)s->at->a + i * g->a.row.stride + k0);
			a_row = g->a.row.stride / GROUP;
		} else if (packed == 0) {
			NAME(pack_panel)(s->a, 1, &g->a, s->at->a, i, gemm_min(GEMM_STRIP, s->m1 - i), k0, k);
		}
		for (int64_t first = s->n0; first < s->n1; first += GEMM_PANELS * NR)
			for (int64_t r = i; r < end; r += GEMM_MR) {
				if (fetch_a)
					NAME(fetch_rows)(s, r + GEMM_STRIP, k0, k);
				NAME(sum_row)(s, r, end, first, a + (r - i) * a_row, a_row, read_b, k0, k);
			}
		if (k0 + k >= g->k)
			NAME(finish_rows)(s, i, end);
	}
}

/* Computes rows [m0, m1) and columns [n0, n1) of one matrix of the batch. */
static void NAME(tile)(const struct gemm *g, const struct gemm_at *at, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
		       char *scratch)
{
	struct NAME(part) s = {.g = g, .at = at, .m0 = m0, .m1 = m1, .n0 = n0, .n1 = n1};
	s.a = (P *)scratch;
	s.b = s.a + GEMM_STRIP * GEMM_KC;
	s.direct = g->c.dtype == NATIVE_OUT && g->c.col.stride == 1 && g->alpha == 1 && at->d == NULL;
	s.out = s.direct ? (T *)at->c + m0 * g->c.row.stride + n0 : (T *)(s.b + GEMM_TILE_N * GEMM_KC);
	s.out_row = s.direct ? g->c.row.stride : GEMM_TILE_N;
	s.once = !s.direct && g->k <= GEMM_KC * GROUP;
	for (int64_t k0 = 0; k0 == 0 || k0 < g->k; k0 += GEMM_KC * GROUP)
		NAME(sum)(&s, k0, gemm_min(GEMM_KC * GROUP, g->k - k0));
}

#undef CELL_STEP
#undef SOURCES
#undef TARGETS
#undef ELEMENT
#undef NATIVE_OUT
#undef SCALAR
#undef NATIVE
#include "undef.h"
