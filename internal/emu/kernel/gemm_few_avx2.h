/* Products of few rows with AVX2, which read each element of B once and do not pack it; gemm_pack.h includes it once per
 * pair of types. */

/* 16-bit elements are transposed before they are widened, for half the number of shuffles, and pass through memory, from
 * where they are widened fastest. Their runs are summed several at a time, and do not wait for each other. */
#ifdef WIDEN
#define ALONG (2 * GEMM_LANES)
#define ALONG_LINE gemm_line_pairs
#define ALONG_TRANSPOSE gemm_transpose_u16
#define ALONG_CELLS(t, y) WIDEN(gemm_transposed_u16(t, y))
enum { SRC(runs) = 4 };
#else
#define ALONG GEMM_LANES
#define ALONG_LINE LINE
#define ALONG_TRANSPOSE gemm_transpose
#define ALONG_CELLS(t, y) (t)[y]
enum { SRC(runs) = 1 };
#endif

/* t = ALONG cells of each of up to GEMM_COLUMNS columns, transposed. */
INLINE void
SRC(along_lines)(gemm_line *t, int64_t cols, int64_t k, const S *b, int64_t b_col)
{
	gemm_line lines[GEMM_LANES];
#pragma GCC unroll 16
	for (int x = 0; x < GEMM_LANES; x++) {
		const S *line = b + (x < cols ? x : 0) * b_col;
		lines[x] = ALONG_LINE(line, k);
	}
	ALONG_TRANSPOSE(lines);
#pragma GCC unroll 16
	for (int x = 0; x < GEMM_LANES; x++)
		t[x] = lines[x];
}

/* sum[rows] += a·b for the cell y of the lines. */
INLINE void
SRC(along_cell)(const int rows, const P *a, const gemm_line *t, int64_t y, V *sum)
{
	const PV cell = (PV)ALONG_CELLS(t, y);
#pragma GCC unroll 4
	for (int i = 0; i < rows; i++)
		sum[i] = MULADD(sum[i], a[i * GEMM_KC + y] - (PV){0}, cell);
}

/* all[rows] += a·b for whole runs of GEMM_COLUMNS columns. */
INLINE void
SRC(along_runs)(const int rows, const int runs, const P *a, const S *b, int64_t b_col, int64_t ahead, V *all)
{
	enum { PIECE = SRC(runs) == 1 ? ALONG : GEMM_RUN };
	gemm_line t[SRC(runs) * PIECE / ALONG * GEMM_LANES];
	V sum[SRC(runs) * FEW_ROWS] = {0};
	for (int64_t p = 0; p < GEMM_RUN; p += PIECE) {
#pragma GCC unroll 4
		for (int x = 0; x < runs; x++)
			for (int64_t q = 0; q < PIECE; q += ALONG)
				SRC(along_lines)(t + (x * PIECE + q) / ALONG * GEMM_LANES, GEMM_COLUMNS, ALONG,
						 b + p + x * GEMM_RUN + q, b_col);
		for (int64_t q = 0; q < PIECE; q += ALONG) {
			/* While a piece is multiplied the next one is fetched. */
#pragma GCC unroll 16
			for (int x = 0; SRC(runs) > 1 && x < GEMM_COLUMNS; x++)
#pragma GCC unroll 4
				for (int y = 0; y < runs * ALONG; y += 64 / (int)sizeof(S))
					__builtin_prefetch(b + x * b_col + ahead + q * runs + y);
#pragma GCC unroll 32
			for (int y = 0; y < ALONG; y++)
#pragma GCC unroll 4
				for (int x = 0; x < runs; x++)
					SRC(along_cell)(rows, a + p + x * GEMM_RUN + q, t + (x * PIECE + q) / ALONG * GEMM_LANES, y, sum + x * rows);
		}
	}
#pragma GCC unroll 4
	for (int x = 0; x < runs; x++)
#pragma GCC unroll 4
		for (int i = 0; i < rows; i++)
			all[i] += sum[x * rows + i];
}

/* c[rows×cols] (+)= a·b for up to FEW_ROWS packed rows of a and at most GEMM_COLUMNS columns, where the elements
 * of b are adjacent along k: each is read once. */
INLINE void
SRC(along_rows)(const int rows, int64_t cols, int64_t k, const P *a, const S *b, int64_t b_col, int64_t ahead, T *c, int64_t c_row, int accumulate)
{
	const int runs = (int)gemm_min(GEMM_KC / GEMM_RUN, (SRC(runs) + rows - 1) / rows);
	V all[FEW_ROWS] = {0};
	int64_t p = 0;
	for (; cols == GEMM_COLUMNS && k - p >= runs * GEMM_RUN; p += runs * GEMM_RUN)
		SRC(along_runs)(rows, runs, a + p, b + p, b_col, ahead, all);
	for (int64_t end; p < k; p = end) {
		V sum[FEW_ROWS] = {0};
		end = gemm_min(p + GEMM_RUN, k);
		for (int64_t q = p; q < end; q += ALONG) {
			gemm_line t[GEMM_LANES];
			SRC(along_lines)(t, cols, k - q, b + q, b_col);
#pragma GCC unroll 32
			for (int y = 0; y < ALONG; y++)
				if (y < k - q)
					SRC(along_cell)(rows, a + q, t, y, sum);
		}
#pragma GCC unroll 4
		for (int i = 0; i < rows; i++)
			all[i] += sum[i];
	}
#pragma GCC unroll 4
	for (int i = 0; i < rows; i++)
		SRC(put_sums)(c + i * c_row, all[i], cols, accumulate);
}

/* sums (+)= a·b for GEMM_RUN rows of b or less, from p on, and so many vectors of columns, of which cols exist. */
INLINE void
SRC(across_step)(const int rows, const int parts, int64_t cols, int64_t p, int64_t k, const P *a, const S *src, int64_t k_stride, int64_t ahead, T *sums)
{
	enum { LINE_BYTES = 64 };
	V t[FEW_ROWS][8];
	const int64_t end = gemm_min(p + GEMM_RUN, k);
#pragma GCC unroll 4
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
		for (int x = 0; x < parts; x++)
			t[i][x] = (V){0};
	for (int64_t q = p; q < end; q++) {
#pragma GCC unroll 4
		for (int y = 0; y < parts * GEMM_LANES; y += LINE_BYTES / (int)sizeof(S))
			__builtin_prefetch(src + q * k_stride + ahead + y, 0, 2);
		PV line[8];
#pragma GCC unroll 8
		for (int x = 0; x < parts; x++)
			line[x] = (PV)LINE_W(q, GEMM_LANES * x, cols > GEMM_LANES * x ? cols - GEMM_LANES * x : 0);
#pragma GCC unroll 4
		for (int i = 0; i < rows; i++) {
			const PV cell = a[i * GEMM_KC + q] - (PV){0};
#pragma GCC unroll 8
			for (int x = 0; x < parts; x++)
				t[i][x] = MULADD(t[i][x], cell, line[x]);
		}
	}
#pragma GCC unroll 4
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
		for (int x = 0; x < parts; x++) {
			V *sum = (V *)(sums + i * GEMM_TILE_N + GEMM_LANES * x);
			*sum = p > 0 ? *sum + t[i][x] : t[i][x];
		}
}

/* The same as along_rows where the elements of b are adjacent along the columns, of which there are at most
 * GEMM_TILE_N: a few rows of b pass by at a time, while the sums lie in the first-level cache. */
INLINE void
SRC(across_rows)(const int rows, int64_t cols, int64_t k, const P *a, const S *src, int64_t k_stride, int64_t ahead, T *c, int64_t c_row, int accumulate)
{
	(void)ahead; /* the distance is one along columns */
	const int parts = rows > 2 ? 2 : rows == 1 && sizeof(S) == 4 ? 8 : 4; /* as registers allow */
	const int64_t wide = parts * GEMM_LANES, far = 512 / sizeof(S);
	T sums[FEW_ROWS * GEMM_TILE_N] __attribute__((aligned(64)));
	for (int64_t p = 0; p == 0 || p < k; p += GEMM_RUN)
		for (int64_t j = 0; j < cols; j += wide) {
			/* The columns that follow are fetched ahead, or the first ones of the next rows. */
			const int64_t next = j + far < cols ? far : GEMM_RUN * k_stride + far - cols;
			if (cols - j >= wide)
				SRC(across_step)(rows, parts, wide, p, k, a, src + j, k_stride, next, sums + j);
			else
				for (int64_t x = j; x < cols; x += GEMM_LANES)
					SRC(across_step)(rows, 1, cols - x, p, k, a, src + x, k_stride, next, sums + x);
		}
	for (int i = 0; i < rows; i++)
		for (int64_t j = 0; j < cols; j += GEMM_LANES)
			SRC(put_sums)(c + i * c_row + j, *(V *)(sums + i * GEMM_TILE_N + j), cols - j, accumulate);
}

#undef ALONG
#undef ALONG_LINE
#undef ALONG_TRANSPOSE
#undef ALONG_CELLS
