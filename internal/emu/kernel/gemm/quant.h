/* Products of floats with a matrix B of int8 or int4 elements, whose values are (element + offset)·scale with
 * scales per column, or per group of rows of each column. Blocks of B are widened to float in the caches. */
enum { GEMM_QUANT_NR = 2 * VECTOR_BYTES / 4 };

/* dst[i] = element offset+i of B. */
static void gemm_quant_elements(float *restrict dst, const struct gemm_matrix *b, const char *data, int64_t offset, int64_t n)
{
	int8_t wide[GEMM_KC];
	const int8_t *in = (const int8_t *)data + offset;
	if (b->dtype == DTYPE_INT4) {
		const uint8_t *packed = (const uint8_t *)data + offset / 2;
		for (int64_t i = 0; i < (n + 1) / 2; i++) {
			/* Adding and removing 8 extends the sign of four bits. */
			wide[2 * i] = (int8_t)(((packed[i] & 15) ^ 8) - 8);
			wide[2 * i + 1] = (int8_t)(((packed[i] >> 4) ^ 8) - 8);
		}
		in = wide;
	}
	for (int64_t i = 0; i < n; i++)
		dst[i] = in[i];
}

/* dst[i] = the scale or offset x of column j+i in a group. Without data it is zero. */
static void gemm_quant_factors(const struct gemm_matrix *x, int64_t group, int64_t j, int64_t cols, float *dst)
{
	if (x->data == NULL)
		memset(dst, 0, (size_t)cols * sizeof(float));
	else
		gemm_f32_pack_part(dst, 0, cols, 1, x->dtype, x->data, group * x->row.stride + j * x->col.stride, x->col.stride, 0);
}

/* x in the type of A: CANN's kernels store the values of B in it before the product, for the matrix unit reads both factors in one type. */
INLINE float gemm_quant_rounded(float x, int32_t dtype)
{
	switch (dtype) {
	case DTYPE_BFLOAT16:
		return f32_of_bf16(bf16_of_f32(x));
	case DTYPE_FLOAT16:
		return f32_of_f16(f16_of_f32(x));
	}
	return x;
}

/* The values of rows [k0, k0+k) of B and up to GEMM_QUANT_NR columns from j on, as a panel; wide has room for one. */
static void gemm_quant_panel(const struct gemm *g, const char *data, int64_t k0, int64_t k, int64_t j, int64_t cols, float *panel, float *wide)
{
	const struct gemm_matrix *b = &g->b;
	const int along = b->row.stride == 1; /* the elements along k are adjacent */
	float scale[GEMM_QUANT_NR], offset[GEMM_QUANT_NR];
	if (along)
		for (int64_t i = 0; i < cols; i++)
			gemm_quant_elements(wide + i * GEMM_KC, b, data, (j + i) * b->col.stride + k0, k);
	for (int64_t p = 0, n; p < k; p += n) {
		const int64_t group = (k0 + p) / g->group;
		n = gemm_min((group + 1) * g->group - (k0 + p), k - p);
		gemm_quant_factors(&g->scale, group, j, cols, scale);
		gemm_quant_factors(&g->offset, group, j, cols, offset);
		for (int64_t i = 0; along && i < cols; i++)
			for (int64_t q = p; q < p + n; q++)
				wide[i * GEMM_KC + q] = gemm_quant_rounded((wide[i * GEMM_KC + q] + offset[i]) * scale[i], g->a.dtype);
		for (int64_t q = p; !along && q < p + n; q++) {
			float *row = panel + q * GEMM_QUANT_NR;
			gemm_quant_elements(row, b, data, (k0 + q) * b->row.stride + j, cols);
			for (int64_t i = 0; i < cols; i++)
				row[i] = gemm_quant_rounded((row[i] + offset[i]) * scale[i], g->a.dtype);
		}
	}
	if (along)
		gemm_f32_f32_pack(panel, 0, cols, k, wide, GEMM_KC, 1);
	for (int64_t p = 0; cols < GEMM_QUANT_NR && p < k; p++)
		memset(panel + p * GEMM_QUANT_NR + cols, 0, (size_t)(GEMM_QUANT_NR - cols) * sizeof(float));
}

/* Computes rows [m0, m1) and columns [n0, n1). Each block of B is widened once. */
static void gemm_quant_tile(const struct gemm *g, const struct gemm_at *at, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
			    char *scratch)
{
	float *panel = (float *)scratch, *wide = panel + GEMM_QUANT_NR * GEMM_KC, *out = wide + GEMM_QUANT_NR * GEMM_KC;
	float *a = out + (m1 - m0) * GEMM_TILE_N;
	for (int64_t k0 = 0; k0 == 0 || k0 < g->k; k0 += GEMM_KC) {
		const int64_t k = gemm_min(GEMM_KC, g->k - k0);
		for (int64_t i = m0; i < m1; i += GEMM_MR)
			gemm_f32_pack_panel(a + (i - m0) * GEMM_KC, 1, &g->a, at->a, i, gemm_min(GEMM_MR, m1 - i), k0, k);
		for (int64_t j = n0; j < n1; j += GEMM_QUANT_NR) {
			gemm_quant_panel(g, at->b, k0, k, j, gemm_min(GEMM_QUANT_NR, n1 - j), panel, wide);
			for (int64_t i = m0; i < m1; i += GEMM_MR)
				gemm_f32_micro(gemm_min(GEMM_MR, m1 - i), k, a + (i - m0) * GEMM_KC, GEMM_KC, panel, 0,
					       out + (i - m0) * GEMM_TILE_N + (j - n0), GEMM_TILE_N, k0 > 0);
		}
	}
	for (int64_t i = m0; i < m1; i += GEMM_MR)
		for (int64_t j = n0; j < n1; j += GEMM_QUANT_NR)
			gemm_f32_finish(g, at, i, gemm_min(GEMM_MR, m1 - i), j, gemm_min(GEMM_QUANT_NR, n1 - j),
					out + (i - m0) * GEMM_TILE_N + (j - n0), GEMM_TILE_N);
}
