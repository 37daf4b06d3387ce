/* The micro-kernel of matrix products for computation type T with vectors V: a block of
 * GEMM_MR rows by NR columns of C lives in registers while k runs. gemm_body.h includes
 * it once per type; NAME(x) is the prefix of the type's functions.
 *
 * Every element is summed the same way on every path: over blocks of GEMM_KC in ascending
 * order, each block from zero in ascending k. Blocking, packing and threads cannot change
 * a result. */

#define VL ((int64_t)(sizeof(V) / sizeof(T)))
#define NR (2 * VL)

typedef V NAME(vu) __attribute__((aligned(sizeof(T)), may_alias));
typedef T NAME(v4) __attribute__((vector_size(4 * sizeof(T))));
typedef NAME(v4) NAME(v4u) __attribute__((aligned(sizeof(T)), may_alias));

/* c[rows×NR] (+)= a[rows×k]·b[k×NR]; rows is a constant after inlining. */
static inline __attribute__((always_inline)) void
NAME(micro_rows)(const int rows, int64_t k, const T *a, int64_t a_row, int64_t a_k, const T *b, int64_t b_k, T *c,
		 int64_t c_row, int accumulate)
{
	V sum[GEMM_MR][2];
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
		sum[i][0] = sum[i][1] = (V){0};
	for (int64_t p = 0; p < k; p++, a += a_k, b += b_k) {
		V b0 = *(const NAME(vu) *)b, b1 = *(const NAME(vu) *)(b + VL);
#pragma GCC unroll 16
		for (int i = 0; i < rows; i++) {
			V x = a[i * a_row] - (V){0};
			sum[i][0] += x * b0;
			sum[i][1] += x * b1;
		}
	}
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++) {
		NAME(vu) *out = (NAME(vu) *)(c + i * c_row);
		if (accumulate) {
			sum[i][0] += out[0];
			sum[i][1] += *(NAME(vu) *)(c + i * c_row + VL);
		}
		out[0] = sum[i][0];
		*(NAME(vu) *)(c + i * c_row + VL) = sum[i][1];
	}
}

/* With constant strides the compiler can address a packed panel with displacements. */
#define ROWS(r)                                                                                                        \
	case r:                                                                                                        \
		if (a_row == 1 && a_k == GEMM_MR)                                                                      \
			NAME(micro_rows)(r, k, a, 1, GEMM_MR, b, b_k, c, c_row, accumulate);                           \
		else                                                                                                   \
			NAME(micro_rows)(r, k, a, a_row, a_k, b, b_k, c, c_row, accumulate);                           \
		return;

/* c[rows×NR] (+)= a[rows×k]·b[k×NR] for 1 ≤ rows ≤ GEMM_MR. Rows of b and c are contiguous. */
static void NAME(micro)(int64_t rows, int64_t k, const T *a, int64_t a_row, int64_t a_k, const T *b, int64_t b_k, T *c,
			int64_t c_row, int accumulate)
{
	switch (rows) {
		ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6)
#if GEMM_MR > 6
		ROWS(7) ROWS(8) ROWS(9) ROWS(10) ROWS(11) ROWS(12)
#endif
#if GEMM_MR > 12
		ROWS(13) ROWS(14)
#endif
	}
}
#undef ROWS
