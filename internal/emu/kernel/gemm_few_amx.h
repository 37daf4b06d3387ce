/* Products of few rows of bfloat16, which read each element of B once, with the bits that the tiles of AMX give; gemm_pack.h
 * includes it. An instruction sums the even elements of 16 cells and the odd ones from zero, adds both sums and then adds them to the
 * result, with subnormal numbers for zero. */

/* Lets subnormal numbers count as zero and returns the mode to restore. Results are in memory before that. */
static inline unsigned SRC(flush)(void)
{
	const unsigned mode = _mm_getcsr();
	_mm_setcsr(mode | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
	__asm__ volatile("" ::: "memory");
	return mode;
}

static inline void SRC(restore)(unsigned mode)
{
	__asm__ volatile("" ::: "memory");
	_mm_setcsr(mode);
}

/* Sums of rows and some vectors of columns over the even and the odd elements of cells. */
struct SRC(halves) {
	V even[FEW_ROWS][2], odd[FEW_ROWS][2];
};

/* Adds the products of a cell of each row and vector x of the even and odd elements of b. */
INLINE void SRC(add_cell)(struct SRC(halves) *h, const int rows, const int x, const P *a, PV even, PV odd)
{
#pragma GCC unroll 4
	for (int i = 0; i < rows; i++) {
		const PV cell = a[i * GEMM_KC] - (PV){0};
		h->even[i][x] += (V)(cell << 16) * (V)even;
		h->odd[i][x] += (V)(cell & 0xffff0000) * (V)odd;
	}
}

/* c[rows×cols] (+)= a·b for up to FEW_ROWS packed rows of a and at most GEMM_LANES columns, where the elements
 * of b are adjacent along k. */
INLINE void
SRC(along_rows)(const int rows, int64_t cols, int64_t k, const P *a, const S *b, int64_t b_col, int64_t ahead, T *c, int64_t c_row, int accumulate)
{
	const unsigned mode = SRC(flush)();
	V all[FEW_ROWS];
#pragma GCC unroll 4
	for (int i = 0; i < rows; i++)
		all[i] = accumulate ? (V)gemm_get(c + i * c_row, cols) : (V){0};
	for (int64_t p = 0; p < k; p += 2 * GEMM_LANES) {
		struct SRC(halves) h = {0};
		gemm_line t[GEMM_LANES];
#pragma GCC unroll 16
		for (int x = 0; x < GEMM_LANES; x++) {
			const S *line = b + (x < cols ? x : 0) * b_col + p;
			__builtin_prefetch(line + ahead, 0, 2);
			t[x] = LINE(line, k - p);
		}
		gemm_transpose(t);
#pragma GCC unroll 16
		for (int y = 0; y < GEMM_LANES; y++) /* cells go on with zeros */
			SRC(add_cell)(&h, rows, 0, a + p / 2 + y, (PV)t[y] << 16, (PV)t[y] & 0xffff0000);
#pragma GCC unroll 4
		for (int i = 0; i < rows; i++)
			all[i] += h.even[i][0] + h.odd[i][0];
	}
#pragma GCC unroll 4
	for (int i = 0; i < rows; i++)
		gemm_put(c + i * c_row, (gemm_line)all[i], cols);
	SRC(restore)(mode);
}

/* The same where the elements of b are adjacent along the columns: the rows of 16 cells pass by at a time. */
INLINE void
SRC(across_rows)(const int rows, int64_t cols, int64_t k, const P *a, const S *b, int64_t row, int64_t ahead, T *c, int64_t c_row, int accumulate)
{
	enum { AHEAD = 256 }; /* columns that are fetched ahead, or those of the cells that follow */
	const unsigned mode = SRC(flush)();
	(void)ahead;
	for (int64_t p = 0; p == 0 || p < k; p += 2 * GEMM_LANES, b += 2 * GEMM_LANES * row, accumulate = 1)
		for (int64_t j = 0; j < cols; j += 2 * GEMM_LANES) {
			struct SRC(halves) h = {0};
			const int64_t far = j + AHEAD + (j + AHEAD < cols ? 0 : 2 * GEMM_LANES * row - cols);
			const S *from = b;
			for (int64_t q = p; q < gemm_min(k, p + 2 * GEMM_LANES); q += 2, from += 2 * row) {
				__builtin_prefetch(from + far, 0, 2);
				__builtin_prefetch(from + far + row, 0, 2);
#pragma GCC unroll 2
				for (int x = 0; x < 2; x++) {
					const int64_t at = j + x * GEMM_LANES, n = cols - at;
					if (n > 0)
						SRC(add_cell)(&h, rows, x, a + q / 2, (PV)gemm_line_bf16(from + at, n),
							      q + 1 < k ? (PV)gemm_line_bf16(from + row + at, n) : (PV){0});
				}
			}
#pragma GCC unroll 4
			for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
				for (int x = 0; x < 2; x++) {
					const int64_t at = j + x * GEMM_LANES;
					if (at < cols)
						SRC(put_sums)(c + i * c_row + at, h.even[i][x] + h.odd[i][x] + (V){0}, cols - at, accumulate);
				}
		}
	SRC(restore)(mode);
}
