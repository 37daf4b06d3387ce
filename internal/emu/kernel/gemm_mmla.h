/* The micro-kernel of matrix products with the instructions of arm64 that multiply two rows by two columns of 8
 * bytes: MMLA(sum, a, b) adds to the four sums of a block. Two rows of A alternate in its panels, so that
 * neither operand needs a shuffle. gemm_micro.h comes first, with OWN_MICRO. */

/* The second row of the last pair may be missing: its sums are computed from what is in memory and left out. */
INLINE void
NAME(micro_pairs)(const int pairs, int64_t rows, int64_t k, const P *a, const P *b, T *c, int64_t c_row, int accumulate)
{
	V sum[GEMM_MR / 2][NR / 2];
#pragma GCC unroll 6
	for (int i = 0; i < pairs; i++) {
#pragma GCC unroll 4
		for (int j = 0; j < NR / 2; j++)
			sum[i][j] = (V){0};
		__builtin_prefetch(c + 2 * i * c_row, 1);
		__builtin_prefetch(c + (2 * i + 1 < rows ? 2 * i + 1 : 0) * c_row, 1);
	}
	for (; k > 0; k--, a += A_ROWS, b += NR) {
		PV column[NR / 2];
#pragma GCC unroll 4
		for (int j = 0; j < NR / 2; j++)
			column[j] = *(const NAME(pvu) *)(b + 2 * j);
#pragma GCC unroll 6
		for (int i = 0; i < pairs; i++) {
			const PV row = *(const NAME(pvu) *)(a + 2 * i * GEMM_KC);
#pragma GCC unroll 4
			for (int j = 0; j < NR / 2; j++)
				sum[i][j] = MMLA(sum[i][j], row, column[j]);
		}
	}
#pragma GCC unroll 12
	for (int i = 0; i < 2 * pairs; i++)
		if (i < rows)
#pragma GCC unroll 2
			for (int j = 0; j < 2; j++) {
				NAME(vu) *out = (NAME(vu) *)(c + i * c_row + j * VL);
				const V l = sum[i / 2][2 * j], r = sum[i / 2][2 * j + 1];
				const V line = i % 2 ? __builtin_shufflevector(l, r, 2, 3, 6, 7) : __builtin_shufflevector(l, r, 0, 1, 4, 5);
				*out = accumulate ? line + *out : line;
			}
}

#define PAIRS(n)                                                                                                       \
	case n:                                                                                                        \
		NAME(micro_pairs)(n, rows, k, a, b, c, c_row, accumulate);                                             \
		return;

/* c[rows×NR] (+)= a[rows×k]·b[k×NR]. Both operands are packed. */
static void NAME(micro)(int64_t rows, int64_t k, const P *a, int64_t a_row, const P *b, int64_t b_k, T *c, int64_t c_row, int accumulate)
{
	(void)a_row, (void)b_k;
	switch ((rows + 1) / 2) {
		PAIRS(1) PAIRS(2) PAIRS(3) PAIRS(4) PAIRS(5) PAIRS(6)
	}
}
#undef PAIRS
#undef MMLA
