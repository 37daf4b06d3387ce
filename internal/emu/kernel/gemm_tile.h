/* One tile of a matrix product of computation type T, blocked for the caches: A in blocks
 * of GEMM_MC×GEMM_KC (second-level cache), B in panels of GEMM_KC×NR (first-level cache).
 * SOURCES(X) lists the element types as X(dtype, type, name). gemm_body.h includes it once
 * per computation type. */

#define PACK_CASE(id, type, name)                                                                                      \
	case id:                                                                                                       \
		NAME(name##_pack)(dst, width, w, k, (const type *)data + offset, w_stride, k_stride);                  \
		return;
#define LOAD_CASE(id, type, name)                                                                                      \
	case id:                                                                                                       \
		NAME(name##_load)(dst, rows, cols, (const type *)data + offset, x->row.stride, x->col.stride);         \
		return;
#define STORE_CASE(id, type, name)                                                                                     \
	case id:                                                                                                       \
		NAME(name##_store)((type *)data + offset, x->row.stride, x->col.stride, rows, cols, src, src_row);     \
		return;

static void NAME(pack_part)(T *dst, int64_t width, int64_t w, int64_t k, int dtype, const char *data, int64_t offset,
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
		SOURCES(LOAD_CASE)
	}
}

static void NAME(store)(const struct gemm_matrix *x, char *data, int64_t row, int64_t col, int64_t rows, int64_t cols,
			const T *src, int64_t src_row)
{
	const int64_t offset = row * x->row.stride + col * x->col.stride;
	switch (x->dtype) {
		SOURCES(STORE_CASE)
	}
}
#undef PACK_CASE
#undef LOAD_CASE
#undef STORE_CASE

/* Packs elements [w0, w0+w) × [k0, k0+k) of an operand into one panel of the given width, with
 * zeros beyond w. The ranges are split where the operand's own tiles end. */
static void NAME(pack_panel)(T *dst, int64_t width, int dtype, const char *data, const struct gemm_axis *wa, int64_t w0,
			     int64_t w, const struct gemm_axis *ka, int64_t k0, int64_t k)
{
	for (int64_t p = 0, pn; p < k; p += pn) {
		pn = gemm_run_length(ka, k0 + p, k - p);
		for (int64_t i = 0, in; i < w; i += in) {
			in = gemm_run_length(wa, w0 + i, w - i);
			NAME(pack_part)(dst + p * width + i, width, in, pn, dtype, data,
					gemm_offset(wa, w0 + i) + gemm_offset(ka, k0 + p), wa->stride, ka->stride);
		}
	}
	if (w < width)
		for (int64_t p = 0; p < k; p++)
			memset(dst + p * width + w, 0, (size_t)(width - w) * sizeof(T));
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

/* Computes rows [m0, m1) and columns [n0, n1) of one matrix of the batch. */
static void NAME(tile)(const struct gemm *g, const struct gemm_at *at, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
		       char *scratch)
{
	T *a_pack = (T *)scratch, *b_pack = a_pack + GEMM_MC * GEMM_KC, *sums = b_pack + GEMM_TILE_N * GEMM_KC;
	const int native_a = g->a.dtype == NATIVE && gemm_plain(&g->a.row) && gemm_plain(&g->a.col);
	const int native_b = g->b.dtype == NATIVE && gemm_plain(&g->b.row) && gemm_plain(&g->b.col);
	/* Packing pays off only if a panel is read often enough. */
	const int read_a = native_a && n1 - n0 <= 4 * NR;
	const int read_b = native_b && g->b.col.stride == 1 && m1 - m0 <= 2 * GEMM_MR;
	/* Sums go straight to c, or to scratch memory until they are complete. */
	const int direct = g->c.dtype == NATIVE && g->c.col.stride == 1 && g->alpha == 1 && at->d == NULL;
	T *const out = direct ? (T *)at->c + m0 * g->c.row.stride + n0 : sums;
	const int64_t out_row = direct ? g->c.row.stride : GEMM_TILE_N;

	for (int64_t k0 = 0; k0 == 0 || k0 < g->k; k0 += GEMM_KC) {
		const int64_t k = gemm_min(GEMM_KC, g->k - k0);
		const int last = k0 + GEMM_KC >= g->k;
		for (int64_t i0 = m0; i0 < m1; i0 += GEMM_MC) {
			const int64_t i1 = gemm_min(i0 + GEMM_MC, m1);
			if (!read_a)
				for (int64_t i = i0; i < i1; i += GEMM_MR)
					NAME(pack_panel)(a_pack + (i - i0) * GEMM_KC, GEMM_MR, g->a.dtype, at->a, &g->a.row, i,
							 gemm_min(GEMM_MR, i1 - i), &g->a.col, k0, k);
			for (int64_t j = n0; j < n1; j += NR) {
				const int64_t cols = gemm_min(NR, n1 - j);
				const T *b = b_pack + (j - n0) * GEMM_KC;
				int64_t b_k = NR;
				if (read_b && cols == NR) {
					b = (const T *)at->b + k0 * g->b.row.stride + j;
					b_k = g->b.row.stride;
				} else if (i0 == m0) {
					/* Packed right before its first use, it is still in the first-level cache. */
					NAME(pack_panel)((T *)b, NR, g->b.dtype, at->b, &g->b.col, j, cols, &g->b.row, k0, k);
				}
				for (int64_t i = i0; i < i1; i += GEMM_MR) {
					const int64_t rows = gemm_min(GEMM_MR, i1 - i);
					const T *a = a_pack + (i - i0) * GEMM_KC;
					int64_t a_row = 1, a_k = GEMM_MR;
					if (read_a) {
						a = (const T *)at->a + i * g->a.row.stride + k0 * g->a.col.stride;
						a_row = g->a.row.stride, a_k = g->a.col.stride;
					}
					T *c = out + (i - m0) * out_row + (j - n0);
					if (!direct) {
						NAME(micro)(rows, k, a, a_row, a_k, b, b_k, c, out_row, k0 > 0);
						if (last)
							NAME(finish)(g, at, i, rows, j, cols, c, out_row);
					} else if (cols == NR) {
						NAME(micro)(rows, k, a, a_row, a_k, b, b_k, c, out_row, k0 > 0);
					} else {
						T edge[GEMM_MR * NR];
						NAME(micro)(rows, k, a, a_row, a_k, b, b_k, edge, NR, 0);
						for (int64_t r = 0; r < rows; r++)
							for (int64_t q = 0; q < cols; q++)
								c[r * out_row + q] = edge[r * NR + q] + (k0 > 0 ? c[r * out_row + q] : 0);
					}
				}
			}
		}
	}
}

#undef SOURCES
#undef SCALAR
#undef NATIVE
#undef VL
#undef NR
#undef T
#undef V
#undef NAME
