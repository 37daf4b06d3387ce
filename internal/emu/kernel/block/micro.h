/* The micro-kernel of matrix products for computation type T with vectors V: a block of
 * GEMM_MR rows by NR columns of C lives in registers while k runs. The including file
 * does so once per type; NAME(x) is the prefix of the type's functions.
 *
 * The kernel multiplies cells of type P: one element of A or B, or GROUP elements that follow
 * each other along k, which an instruction of a matrix unit multiplies and adds at once.
 * MULADD(sum, a, b) does so for vectors of cells, where a is one cell in all elements of the vector.
 *
 * With MULADD_EXCESS the MULADD of cells of a that are zero adds something, too, which is subtracted.
 *
 * With OWN_MICRO the including file defines the kernel itself. With GEMM_AHEAD_B rows of b are fetched
 * so many rows ahead.
 *
 * Every element is summed the same way on every path: over blocks of GEMM_KC cells in ascending
 * order, and in each block over runs of RUN cells, each from zero in ascending k. Blocking, packing and
 * threads cannot change a result. Runs keep rounding small: the gradients of a model are hardly more
 * exact than its products. Integers need none, and units that add pairs themselves allow none. */

#ifndef GROUP
#define GROUP 1
#define P T
#define PV V
#endif
#ifndef MULADD
#define MULADD(sum, a, b) ((sum) + (a) * (b)) /* of integers */
#endif
#define RUN (GROUP == 1 && (T)0.5 != 0 ? (int64_t)GEMM_RUN : INT64_MAX)
#define VL ((int64_t)(sizeof(V) / sizeof(T)))
#define NR (2 * VL)

/* Elements of an operand lie at any address that is a multiple of their own size. */
#define UNALIGNED aligned(sizeof(P) / GROUP), may_alias
typedef V NAME(vu) __attribute__((aligned(sizeof(T)), may_alias));
typedef PV NAME(pvu) __attribute__((UNALIGNED));
typedef P NAME(cell) __attribute__((UNALIGNED));
typedef P NAME(v4) __attribute__((vector_size(4 * sizeof(P))));
typedef NAME(v4) NAME(v4u) __attribute__((UNALIGNED));
typedef T NAME(t4) __attribute__((vector_size(4 * sizeof(T))));
typedef NAME(t4) NAME(t4u) __attribute__((aligned(sizeof(T)), may_alias));
#undef UNALIGNED

#ifndef OWN_MICRO
/* c[rows×NR] (+)= a[rows×k]·b[k×NR]; rows is a constant after inlining. Rows of a, b and c are
 * contiguous. On CPUs with 32 registers 6 rows leave room for the sums of all runs beside those of the
 * current one. */
INLINE void
NAME(micro_rows)(const int rows, int64_t k, const P *a, int64_t a_row, const P *b, int64_t b_k, T *c,
		 int64_t c_row, int accumulate)
{
	V all[GEMM_MR][2];
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++) {
		all[i][0] = all[i][1] = (V){0};
		/* Rows of c are far apart, where the processor does not prefetch by itself. */
		__builtin_prefetch(c + i * c_row, 1);
		__builtin_prefetch(c + i * c_row + VL, 1);
	}
#ifdef MULADD_EXCESS
	V excess[2] = {0}, part[4][2] = {0}; /* sums of parts, which do not wait for each other */
	for (int64_t p = 0; p < k; p += 4)
#pragma GCC unroll 8
		for (int x = 0; x < 8; x++)
			if (p + x / 2 < k)
				part[x / 2][x % 2] = MULADD(part[x / 2][x % 2], (PV){0}, *(const NAME(pvu) *)(b + (p + x / 2) * NR + x % 2 * VL));
#pragma GCC unroll 8
	for (int x = 0; x < 8; x++)
		excess[x % 2] += part[x / 2][x % 2];
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
		all[i][0] = -excess[0], all[i][1] = -excess[1];
#endif
	/* The compiler computes the addresses of c again at the end: the loop needs the registers. */
	__asm__("" : "+r"(c), "+r"(c_row));
	const int64_t b_row = b_k == 0 ? NR : b_k;
	for (int64_t left = k; left > 0; left -= RUN) {
		V sum[GEMM_MR][2];
#pragma GCC unroll 16
		for (int i = 0; i < rows; i++)
			sum[i][0] = sum[i][1] = (V){0};
		for (int64_t p = left < RUN ? left : RUN; p > 0; p--, a++, b += b_row) {
#ifdef GEMM_AHEAD_B
			__builtin_prefetch(b + GEMM_AHEAD_B * b_row);
#endif
			const PV b0 = *(const NAME(pvu) *)b, b1 = *(const NAME(pvu) *)(b + VL);
#pragma GCC unroll 16
			for (int i = 0; i < rows; i++) {
				const PV cell = *(const NAME(cell) *)(a + i * a_row) - (PV){0};
				sum[i][0] = MULADD(sum[i][0], cell, b0);
				sum[i][1] = MULADD(sum[i][1], cell, b1);
			}
		}
#pragma GCC unroll 16
		for (int i = 0; i < rows; i++) {
			all[i][0] += sum[i][0];
			all[i][1] += sum[i][1];
		}
	}
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++) {
		NAME(vu) *out = (NAME(vu) *)(c + i * c_row);
		if (accumulate) {
			all[i][0] += out[0];
			all[i][1] += *(NAME(vu) *)(c + i * c_row + VL);
		}
		out[0] = all[i][0];
		*(NAME(vu) *)(c + i * c_row + VL) = all[i][1];
	}
}

/* With a constant stride the compiler can address many rows of a packed panel with displacements. */
#define ROWS(r)                                                                                                        \
	case r:                                                                                                        \
		if (GEMM_MR > 6 && a_row == GEMM_KC)                                                                   \
			NAME(micro_rows)(r, k, a, GEMM_KC, b, b_k, c, c_row, accumulate);                           \
		else                                                                                                   \
			NAME(micro_rows)(r, k, a, a_row, b, b_k, c, c_row, accumulate);                             \
		return;

/* c[rows×NR] (+)= a[rows×k]·b[k×NR] for 1 ≤ rows ≤ GEMM_MR. Rows of b are b_k apart, or with 0 those of a panel. */
static void NAME(micro)(int64_t rows, int64_t k, const P *a, int64_t a_row, const P *b, int64_t b_k, T *c,
			int64_t c_row, int accumulate)
{
	if (VECTOR_BYTES == 64 && rows == GEMM_MR && k == GEMM_KC && a_row == GEMM_KC) {
		/* Most blocks are like this one. With constants for all lengths they take 2 % less time. */
		NAME(micro_rows)(GEMM_MR, GEMM_KC, a, GEMM_KC, b, b_k, c, c_row, accumulate);
		return;
	}
	switch (rows) {
		ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6)
#if GEMM_MR > 6
		ROWS(7) ROWS(8) ROWS(9) ROWS(10) ROWS(11) ROWS(12)
#endif
	}
}
#undef ROWS

#if GROUP == 1
/* c[8·VL] (+)= a[k]·b[k×8·VL] for one row: wider pieces of the rows of b, which lie far apart and are
 * fetched ahead. */
static void NAME(wide)(int64_t k, const P *a, const P *b, int64_t b_k, T *c, int accumulate)
{
	V all[8] = {0};
	for (int64_t left = k; left > 0; left -= RUN) {
		V sum[8] = {0};
		for (int64_t p = left < RUN ? left : RUN; p > 0; p--, a++, b += b_k) {
			const PV cell = *a - (PV){0};
#pragma GCC unroll 8
			for (int j = 0; j < 8; j++) {
				if (j * sizeof(V) % 64 == 0)
					__builtin_prefetch(b + 8 * b_k + j * VL);
				sum[j] = MULADD(sum[j], cell, *(const NAME(pvu) *)(b + j * VL));
			}
		}
#pragma GCC unroll 8
		for (int j = 0; j < 8; j++)
			all[j] += sum[j];
	}
#pragma GCC unroll 8
	for (int j = 0; j < 8; j++) {
		NAME(vu) *out = (NAME(vu) *)(c + j * VL);
		*out = accumulate ? all[j] + *out : all[j];
	}
}
#endif
#endif
#undef OWN_MICRO
