/* One tile of a matrix product of computation type T, blocked for the caches: a panel of A, of
 * GEMM_MR×GEMM_KC cells, stays in the first-level cache while the panels of B, of GEMM_KC×NR cells
 * each, come from the second-level cache. gemm_body.h includes it once per computation type, with
 *   SOURCES(X)  the element types of A and B as X(dtype, type, name)
 *   TARGETS(X)  those of C and D
 *   ELEMENT     the type of the elements of A and B of dtype NATIVE, whose cells need no packing
 *   NATIVE_OUT  the dtype of C whose elements are of type T
 *   CELL_STEP   panels are filled up with zeros to a multiple of so many cells; optional
 *   FEW_ROWS    so many rows are multiplied without packing B; optional
 *   PANEL(n)    NAME(split) splits the cells of panels into pieces, of which those of n cells take the place of so many P;
 *               optional. Sums that are not numbers are then computed again with AVX-512. */

#ifndef CELL_STEP
#define CELL_STEP 1
#endif
#ifdef PANEL
#define SPLIT
#else
#define PANEL(n) (n)
#endif

#define PACK_CASE(id, type, name)                                                                                      \
	case id:                                                                                                       \
		NAME(name##_pack)(dst, a_panel, w, k, (const type *)data + offset, w_stride, k_stride, first);         \
		return;
#define LOAD_CASE(id, type, name)                                                                                      \
	case id:                                                                                                       \
		NAME(name##_load)(dst, rows, cols, (const type *)data + offset, x->row.stride, x->col.stride);         \
		return;
#define STORE_CASE(id, type, name)                                                                                     \
	case id:                                                                                                       \
		NAME(name##_store)((type *)data + offset, x->row.stride, x->col.stride, rows, cols, src, src_row);     \
		return;
#define FEW_CASE(id, type, name)                                                                                       \
	case id:                                                                                                       \
		NAME(name##_few)(rows, cols, k, a, (const type *)data + offset, x, ahead, c, c_row, accumulate);       \
		return;

static void NAME(pack_part)(P *dst, int a_panel, int64_t w, int64_t k, int dtype, const char *data, int64_t offset,
			    int64_t w_stride, int64_t k_stride, int64_t first)
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

#ifdef FEW_ROWS
static void NAME(few)(const struct gemm_matrix *x, const char *data, int64_t row, int64_t col, int64_t rows, int64_t cols,
		      int64_t k, const P *a, int64_t ahead, T *c, int64_t c_row, int accumulate)
{
	const int64_t offset = row * x->row.stride + col * x->col.stride;
	switch (x->dtype) {
		SOURCES(FEW_CASE)
	}
}
#endif
#undef PACK_CASE
#undef LOAD_CASE
#undef STORE_CASE
#undef FEW_CASE

/* Packs elements [w0, w0+w) × [k0, k0+k) of an operand into a panel of A or of B; columns that a
 * panel of B has beyond w become 0. The ranges are split where the operand's own tiles end. */
static void NAME(pack_panel)(P *dst, int a_panel, const struct gemm_matrix *x, const char *data, int64_t w0, int64_t w,
			     int64_t k0, int64_t k)
{
	const struct gemm_axis *wa = a_panel ? &x->row : &x->col, *ka = a_panel ? &x->col : &x->row;
	const int64_t w_step = a_panel ? GEMM_KC : 1, cells = (k + GROUP - 1) / GROUP;
	const int interleaved = !a_panel && NAME(interleaved)(cells);
	const int64_t k_step = interleaved ? 0 : a_panel ? A_ROWS : NR;
	for (int64_t p = 0, pn; p < k; p += pn) {
		pn = gemm_run_length(ka, k0 + p, k - p);
		for (int64_t i = 0, in; i < w; i += in) {
			in = gemm_run_length(wa, w0 + i, w - i);
			NAME(pack_part)(dst + p / GROUP * k_step + i * w_step, a_panel, in, pn, x->dtype, data,
					gemm_offset(wa, w0 + i) + gemm_offset(ka, k0 + p), wa->stride, ka->stride, interleaved ? p : GEMM_IN_ORDER);
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
	P *whole;      /* with SPLIT a panel that is packed but not split */
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

#ifdef SPLIT
/* Packs a panel of an operand and splits its cells. */
static void NAME(fill)(const struct NAME(part) *s, P *dst, int a_panel, const struct gemm_matrix *x, const char *data, int64_t w0,
		       int64_t w, int64_t k0, int64_t k)
{
	const int64_t along = a_panel ? x->col.stride : x->row.stride, across = a_panel ? x->row.stride : x->col.stride;
	const int plain = gemm_plain(&x->row) && gemm_plain(&x->col) && x->dtype == NATIVE && k % CELL_STEP == 0;
	for (int64_t i = 0; i < w; i += GEMM_MR) {
		const int64_t n = gemm_min(GEMM_MR, w - i);
		const T *from = (const T *)data + (w0 + i) * across + k0 * along;
		if (plain && (a_panel ? along == 1 : across == 1 && n == NR)) {
			NAME(split)(dst + PANEL(i * GEMM_KC), a_panel, n, k, from, a_panel ? across : along);
			continue;
		}
		NAME(pack_panel)(s->whole, a_panel, x, data, w0 + i, n, k0, k);
		NAME(split)(dst + PANEL(i * GEMM_KC), a_panel, n, k, s->whole, a_panel ? GEMM_KC : NR);
	}
}
#define FILL(s, ...) NAME(fill)(s, __VA_ARGS__)
#else
#define FILL(s, ...) NAME(pack_panel)(__VA_ARGS__)
#endif

/* Adds the products with B's columns [j, j+cols) to out; a has the cells of the rows. Rows of b are b_k apart, or with 0
 * those of a panel. */
static void NAME(block)(const struct NAME(part) *s, int64_t i, int64_t rows, int64_t j, int64_t cols, int64_t cells,
			const P *a, int64_t a_row, const P *b, int64_t b_k, int accumulate)
{
#ifdef SPLIT
#define MICRO(c, c_row) NAME(micro)(s->g, rows, cells, a, b, c, c_row, accumulate)
	(void)a_row, (void)b_k;
#else
#define MICRO(c, c_row) NAME(micro)(rows, cells, a, a_row, b, b_k, c, c_row, accumulate)
#endif
	T *c = NAME(sums)(s, i, j);
	if (!s->direct || cols == NR) {
		MICRO(c, s->out_row);
		return;
	}
	T edge[GEMM_MR * NR] = {0};
	for (int64_t r = 0; accumulate && r < rows; r++)
		memcpy(edge + r * NR, c + r * s->out_row, (size_t)cols * sizeof(T));
	MICRO(edge, NR);
	for (int64_t r = 0; r < rows; r++)
		memcpy(c + r * s->out_row, edge + r * NR, (size_t)cols * sizeof(T));
#undef MICRO
}

/* Finishes rows [i, end) of c, whose sums are complete. */
static void NAME(finish_rows)(const struct NAME(part) *s, int64_t i, int64_t end)
{
	for (; !s->direct && i < end; i += GEMM_MR)
		for (int64_t j = s->n0; j < s->n1; j += NR)
			NAME(finish)(s->g, s->at, i, gemm_min(GEMM_MR, end - i), j, gemm_min(NR, s->n1 - j), NAME(sums)(s, i, j), s->out_row);
}

#ifdef SPLIT
/* Computes the sums of rows [i, end) that are not numbers with AVX-512: a piece of an infinity is none, and one of the largest
 * numbers is infinite. */
static void NAME(mend)(const struct NAME(part) *s, int64_t i, int64_t end)
{
	const struct gemm *g = s->g;
	const int64_t rows = end - i, cols = s->n1 - s->n0;
	T *sums = NAME(sums)(s, i, s->n0);
	int numbers = 1;
	for (int64_t r = 0; r < rows; r++)
		for (int64_t j = 0; j < cols; j++)
			numbers &= sums[r * s->out_row + j] == sums[r * s->out_row + j];
	if (numbers)
		return;
	T *again = s->whole;
	struct gemm of = {.m = rows, .n = cols, .k = g->k, .tile_m = GEMM_TILE_M, .tile_n = GEMM_TILE_N, .type = g->type, .alpha = 1, .a = g->a, .b = g->b};
	of.a.data = (char *)s->at->a + gemm_offset(&g->a.row, i) * dtype_size(g->a.dtype);
	of.b.data = (char *)s->at->b + gemm_offset(&g->b.col, s->n0) * dtype_size(g->b.dtype);
	of.c = (struct gemm_matrix){(char *)again, NATIVE_OUT, {GEMM_TILE_N, INT64_MAX, 0}, {1, INT64_MAX, 0}, {0}};
	kernel_table_avx512.gemm(&of, 0, 1, (char *)(again + GEMM_MR * GEMM_TILE_N));
	for (int64_t r = 0; r < rows; r++)
		for (int64_t j = 0; j < cols; j++)
			if (sums[r * s->out_row + j] != sums[r * s->out_row + j])
				sums[r * s->out_row + j] = again[r * GEMM_TILE_N + j];
}
#endif

/* Adds the products of a register block of rows before end with the panels of a block of B from column j on. */
INLINE void
NAME(sum_row)(const struct NAME(part) *s, int64_t i, int64_t end, int64_t j, const P *a, int64_t a_row, int read_b, int64_t k0, int64_t k)
{
	const struct gemm *g = s->g;
	const int64_t rows = gemm_min(GEMM_MR, end - i), n1 = gemm_min(j + GEMM_PANELS * NR, s->n1), cells = (k + GROUP - 1) / GROUP;
	for (int64_t cols; j < n1; j += cols) {
		const P *in = (const P *)((const ELEMENT *)s->at->b + k0 * g->b.row.stride + j);
#if GROUP == 1 && !defined(SPLIT)
		if (read_b && rows == 1 && n1 - j >= 8 * VL) {
			cols = 8 * VL;
			NAME(wide)(k, a, in, g->b.row.stride, NAME(sums)(s, i, j), k0 > 0);
			continue;
		}
#endif
		cols = gemm_min(NR, n1 - j);
		P *b = s->b + PANEL((j - s->n0) * GEMM_KC);
		if (read_b && cols == NR) {
			NAME(block)(s, i, rows, j, cols, cells, a, a_row, in, g->b.row.stride, k0 > 0);
			continue;
		}
		if (i == s->m0) /* Packed right before its first use, it is still in the first-level cache. */
			FILL(s, b, 0, &g->b, s->at->b, j, cols, k0, k);
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
	/* Packing pays off only if a panel is read often enough: by more rows than these, as measurements say. */
	const int read_a = CELL_STEP * A_ROWS == 1 && plain_a && g->a.dtype == NATIVE && g->a.col.stride == 1 && k % GROUP == 0 &&
			   g->a.row.stride % GROUP == 0 && (VECTOR_BYTES == 32 || g->a.row.stride <= GROUP * GEMM_KC) &&
			   s->n1 - s->n0 <= (VECTOR_BYTES == 64 ? 4 : 8) * NR;
	const int64_t rows = s->m1 - s->m0, b_row = g->b.row.stride;
	/* Rows of a run that lie far apart share too few sets of the caches. */
	const int64_t far = NAME(interleaved)(k) ? 8 * GEMM_KC : INT64_MAX;
	const int read_b = GROUP * CELL_STEP == 1 && plain_b && g->b.dtype == NATIVE && g->b.col.stride == 1 && b_row > 0 &&
			   ((rows <= 28 && b_row <= far) || (rows <= 224 && b_row <= GEMM_KC));
	const int fetch_a = GEMM_FETCH_A && !read_a && plain_a && g->a.col.stride == 1;

	for (int64_t i = s->m0, end; i < s->m1; i = end) {
		end = gemm_min(i + GEMM_BAND, s->m1);
		const int64_t packed = (i - s->m0) % GEMM_STRIP;
		const P *a = s->a + PANEL(packed * GEMM_KC);
		int64_t a_row = GEMM_KC;
		if (read_a) {
			a = (const P *)((const ELEMENT *)s->at->a + i * g->a.row.stride + k0);
			a_row = g->a.row.stride / GROUP;
		} else if (packed == 0) {
			FILL(s, s->a, 1, &g->a, s->at->a, i, gemm_min(GEMM_STRIP, s->m1 - i), k0, k);
		}
		for (int64_t first = s->n0; first < s->n1; first += GEMM_PANELS * NR)
			for (int64_t r = i; r < end; r += GEMM_MR) {
				if (fetch_a)
					NAME(fetch_rows)(s, r + GEMM_STRIP, k0, k);
				NAME(sum_row)(s, r, end, first, a + (r - i) * a_row, a_row, read_b, k0, k);
			}
		if (k0 + k >= g->k) {
#ifdef SPLIT
			NAME(mend)(s, i, end);
#endif
			NAME(finish_rows)(s, i, end);
		}
	}
}

#ifdef FEW_ROWS
/* Computes a tile of few rows, for which B is not packed: a strip of it is read in long pieces, far along k,
 * before the next one, as memory is read fastest. */
static void NAME(few_tile)(const struct NAME(part) *s)
{
	enum { BLOCKS = 64 }; /* of a piece, whose rows of A take the place of the panels of B */
	_Static_assert(BLOCKS * FEW_ROWS <= GEMM_TILE_N, "a piece of A has room");
	const struct gemm *g = s->g;
	const int64_t rows = s->m1 - s->m0, block = GEMM_KC * GROUP, piece = BLOCKS * block;
	const int64_t columns = NAME(interleaved)(gemm_min(GEMM_KC, g->k)) ? GEMM_COLUMNS : GEMM_LANES;
	const int64_t size = dtype_size(g->b.dtype);
	const int across = g->b.col.stride == 1, cached = g->n * g->k * size <= GEMM_CACHED;
	const int64_t strip = across ? GEMM_TILE_N : columns, far = across && cached ? 0 : GEMM_AHEAD / size;
	for (int64_t k0 = 0; k0 == 0 || k0 < g->k; k0 += piece) {
		const int64_t end = gemm_min(k0 + piece, g->k);
		for (int64_t p = k0; p < end; p += block)
			NAME(pack_panel)(s->b + (p - k0) / GROUP * FEW_ROWS, 1, &g->a, s->at->a, s->m0, rows, p, gemm_min(block, end - p));
		for (int64_t j = s->n0; j < s->n1; j += strip)
			for (int64_t p = k0; p == 0 || p < end; p += block) {
				/* Near the end of columns the first elements of the next ones are fetched ahead. */
				const int64_t ahead = far + (VECTOR_BYTES < 64 && p + far >= end ? strip * g->b.col.stride - (end - k0) : 0);
				NAME(few)(&g->b, s->at->b, p, j, rows, gemm_min(strip, s->n1 - j), gemm_min(block, end - p),
					  s->b + (p - k0) / GROUP * FEW_ROWS, ahead, s->out + (j - s->n0), s->out_row, p > 0);
			}
	}
	NAME(finish_rows)(s, s->m0, s->m1);
}
#endif

/* Computes rows [m0, m1) and columns [n0, n1) of one matrix of the batch. */
static void NAME(tile)(const struct gemm *g, const struct gemm_at *at, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
		       char *scratch)
{
	struct NAME(part) s = {.g = g, .at = at, .m0 = m0, .m1 = m1, .n0 = n0, .n1 = n1};
	s.a = (P *)scratch;
	s.b = s.a + PANEL(GEMM_STRIP * GEMM_KC);
	s.direct = g->c.dtype == NATIVE_OUT && g->c.col.stride == 1 && g->alpha == 1 && at->d == NULL;
	s.out = s.direct ? (T *)at->c + m0 * g->c.row.stride + n0 : (T *)(s.b + PANEL(GEMM_TILE_N * GEMM_KC));
	s.out_row = s.direct ? g->c.row.stride : GEMM_TILE_N;
	s.whole = s.b + PANEL(GEMM_TILE_N * GEMM_KC) + GEMM_TILE_M * GEMM_TILE_N;
	s.once = !s.direct && g->k <= GEMM_KC * GROUP;
#ifdef FEW_ROWS
	const struct gemm_axis *row = &g->b.row, *col = &g->b.col;
	if (m1 - m0 <= FEW_ROWS && gemm_plain(row) && gemm_plain(col) && (row->stride == 1 || col->stride == 1)) {
		NAME(few_tile)(&s);
		return;
	}
#endif
	for (int64_t k0 = 0; k0 == 0 || k0 < g->k; k0 += GEMM_KC * GROUP)
		NAME(sum)(&s, k0, gemm_min(GEMM_KC * GROUP, g->k - k0));
}

#undef FEW_ROWS
#undef FILL
#undef PANEL
#undef SPLIT
#undef CELL_STEP
#undef SOURCES
#undef TARGETS
#undef ELEMENT
#undef NATIVE_OUT
#undef SCALAR
#undef NATIVE
#include "gemm_undef.h"
