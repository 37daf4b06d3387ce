/* Packing into cells of several elements without the lines of AVX-512; gemm_pack.h includes it. The elements of
 * a cell that lie beyond the end of k are zero. */

typedef S SRC(part) __attribute__((may_alias));

/* to[i] = the cell of the elements i of n ≤ GROUP lines, for i < w ≤ NR. */
INLINE void SRC(across)(P *restrict to, int64_t w, int64_t n, const S *src, int64_t k_stride)
{
	static const S zeros[NR];
	const S *line[GROUP];
	for (int x = 0; x < GROUP; x++)
		line[x] = x < n ? src + x * k_stride : zeros;
	SRC(part) *restrict out = (SRC(part) *)to;
	for (int64_t i = 0; i < w; i++)
#pragma GCC unroll 8
		for (int x = 0; x < GROUP; x++)
			out[i * GROUP + x] = line[x][i];
}

/* In a panel of A the cells of A_ROWS rows alternate; a panel of B has a row for each cell of k with NR cells of w. */
static void SRC(pack)(P *dst, int a_panel, int64_t w, int64_t k, const S *src, int64_t w_stride, int64_t k_stride, int64_t first)
{
	(void)first; /* such panels are not interleaved */
	const int64_t step = a_panel ? A_ROWS : NR;
	if (w_stride == 1 && k_stride != 1) {
		for (int64_t p = 0; p < k; p += GROUP)
			for (int64_t i = 0; i < w; i += NR) {
				const int64_t n = gemm_min(GROUP, k - p), wide = gemm_min(NR, w - i);
				const S *from = src + p * k_stride + i;
				P line[NR], *to = a_panel ? line : dst + p / GROUP * NR + i;
				if (wide == NR && n == GROUP)
					SRC(across)(to, NR, GROUP, from, k_stride);
				else
					SRC(across)(to, wide, n, from, k_stride);
				for (int64_t x = 0; a_panel && x < wide; x += A_ROWS)
					memcpy(dst + (i + x) * GEMM_KC + p / GROUP * A_ROWS, line + x, (size_t)gemm_min(A_ROWS, wide - x) * sizeof(P));
			}
		return;
	}
	for (int64_t i = 0; i < w; i++) {
		const S *in = src + i * w_stride;
		P *to = a_panel ? dst + i / A_ROWS * A_ROWS * GEMM_KC + i % A_ROWS : dst + i;
		int64_t p = 0;
		for (; k_stride == 1 && p + GROUP <= k; p += GROUP, to += step)
			memcpy(to, in + p, sizeof(P));
		for (; p < k; p += GROUP, to += step) {
			S cell[GROUP] = {0};
			for (int64_t x = 0; x < gemm_min(GROUP, k - p); x++)
				cell[x] = in[(p + x) * k_stride];
			memcpy(to, cell, sizeof(P));
		}
	}
}
