/* Products of few rows with AVX-512, which read each element of B once and do not pack it; gemm_pack.h includes it once per
 * pair of types. */
#ifdef TWO
/* c[rows×cols] (+)= a·b for a whole block of k, whose runs are interleaved, and at most GEMM_COLUMNS columns, where the
 * elements of b are adjacent along k. */
INLINE void
SRC(along_block)(const int rows, int64_t cols, const P *a, const S *b, int64_t b_col, int64_t ahead, T *c, int64_t c_row, int accumulate)
{
	enum { PAIRS = GEMM_COLUMNS / 2, LINE_CELLS = 64 / sizeof(S) };
	const S *in[GEMM_COLUMNS];
	V sum[FEW_ROWS][PAIRS] = {0};
#pragma GCC unroll 8
	for (int x = 0; x < GEMM_COLUMNS; x++)
		in[x] = b + (x < cols ? x : 0) * b_col;
	for (int64_t p = 0; p < GEMM_KC; p += LINE_CELLS) {
#pragma GCC unroll 8
		for (int x = 0; x < GEMM_COLUMNS; x++)
			__builtin_prefetch(in[x] + p + ahead, 0, 2);
#pragma GCC unroll 4
		for (int64_t q = p; q < p + LINE_CELLS; q += STEP)
#pragma GCC unroll 4
			for (int x = 0; x < PAIRS; x++) {
				const V cells = (V)TWO(in[x] + q, in[x + PAIRS] + q);
#pragma GCC unroll 4
				for (int i = 0; i < rows; i++)
					sum[i][x] = MULADD(sum[i][x], gemm_twice(a + i * GEMM_KC + q), cells);
			}
	}
#pragma GCC unroll 4
	for (int i = 0; i < rows; i++)
		SRC(put_sums)(c + i * c_row, gemm_add_runs(sum[i]), cols, accumulate);
}
#endif

/* c[rows×cols] (+)= a·b for up to FEW_ROWS packed rows of a and at most GEMM_LANES columns, where the elements
 * of b are adjacent along k: each is read once. */
INLINE void
SRC(along_rows)(const int rows, int64_t cols, int64_t k, const P *a, const S *b, int64_t b_col, int64_t ahead, T *c, int64_t c_row, int accumulate)
{
	const int64_t cells = (k + GROUP - 1) / GROUP;
	V all[FEW_ROWS] = {0};
#ifdef TWO
	if (NAME(interleaved)(k)) {
		SRC(along_block)(rows, cols, a, b, b_col, ahead, c, c_row, accumulate);
		return;
	}
#endif
	for (int64_t p = 0, end; p < cells; p = end) {
		V sum[FEW_ROWS] = {0};
		end = cells - p > RUN ? p + RUN : cells;
		for (int64_t q = p; q < end; q += GEMM_LANES) {
			gemm_line t[GEMM_LANES];
#pragma GCC unroll 16
			for (int x = 0; x < GEMM_LANES; x++) {
				const S *line = b + (x < cols ? x : 0) * b_col + q * GROUP;
				__builtin_prefetch(line + ahead, 0, 2);
				t[x] = LINE(line, k - q * GROUP);
			}
			gemm_transpose(t);
#pragma GCC unroll 16
			for (int y = 0; y < GEMM_LANES; y++)
				if (y < end - q)
#pragma GCC unroll 4
					for (int i = 0; i < rows; i++)
						sum[i] = MULADD(sum[i], a[i * GEMM_KC + q + y] - (PV){0}, (PV)t[y]);
		}
#pragma GCC unroll 4
		for (int i = 0; i < rows; i++)
			all[i] += sum[i];
	}
#pragma GCC unroll 4
	for (int i = 0; i < rows; i++)
		SRC(put_sums)(c + i * c_row, all[i], cols, accumulate);
}

/* Cells of a and rows of b, each step cells from the one before. */
struct SRC(cells) {
	const P *a;
	const S *src;
	int64_t k_stride, step;
	int64_t left; /* elements of k that exist from the first cell on */
	int64_t next; /* how many cells on those lie that follow */
	int fetch;    /* b is too large for a cache: columns that follow are fetched ahead, or the first ones of the cells that follow */
};

/* Columns whose sums the first-level cache holds for all runs. */
static inline int64_t SRC(strip)(int rows) { return rows == 1 ? GEMM_TILE_N : GEMM_TILE_N / 2; }

/* sums (+)= a·b for so many cells. */
INLINE void
SRC(across_cells)(const int rows, const int count, int64_t cols, struct SRC(cells) x, T *sums, int more)
{
	enum { LINE_CELLS = 64 / sizeof(S) };
	const int64_t k = x.left, k_stride = x.k_stride, ahead = gemm_min(512 / sizeof(S), cols);
	const int64_t next = x.next * GROUP * k_stride - cols;
	const S *const src = x.src;
	PV cell[FEW_ROWS][GEMM_ACROSS];
	(void)k; /* cells of one element have no use for it */
#pragma GCC unroll 4
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
		for (int y = 0; y < count; y++)
			cell[i][y] = x.a[i * GEMM_KC + y * x.step] - (PV){0};
	for (int64_t j = 0; j < cols; j += LINE_CELLS) {
		const int64_t far = j + ahead + (j + ahead < cols ? 0 : next);
		if (x.fetch)
#pragma GCC unroll 8
			for (int y = 0; y < count; y++)
#pragma GCC unroll 2
				for (int z = 0; z < GROUP; z++)
					__builtin_prefetch(src + (y * x.step * GROUP + z) * k_stride + far, 0, 2);
#pragma GCC unroll 2
		for (int64_t at = j; at < gemm_min(j + LINE_CELLS, cols); at += GEMM_LANES) {
			PV line[GEMM_ACROSS];
#pragma GCC unroll 8
			for (int y = 0; y < count; y++)
				line[y] = (PV)LINE_W(y * x.step, at, cols - at);
#pragma GCC unroll 4
			for (int i = 0; i < rows; i++) {
				V *sum = (V *)(sums + i * SRC(strip)(rows) + at), t = more ? *sum : (V){0};
#pragma GCC unroll 8
				for (int y = 0; y < count; y++)
					t = MULADD(t, cell[i][y], line[y]);
				*sum = t;
			}
		}
	}
}

/* The same as along_rows where the elements of b are adjacent along the columns, of which there are at most
 * SRC(strip)(rows): some rows of b pass by at a time, while the sums lie in the first-level cache. Runs that are
 * interleaved grow together, because rows of one run lie so far apart that they share few sets of the caches. */
INLINE void
SRC(across_strip)(const int rows, int64_t cols, int64_t k, const P *a, const S *src, int64_t k_stride, int fetch, T *c, int64_t c_row, int accumulate)
{
	const int64_t cells = (k + GROUP - 1) / GROUP, length = gemm_min(RUN, cells);
	const int64_t step = NAME(interleaved)(cells) ? STEP : 1;
	/* A line more than they need keeps the sums of the runs out of one set of the first-level cache. */
	T all[2 * GEMM_TILE_N] __attribute__((aligned(64))) = {0}, part[STEP][2 * GEMM_TILE_N + GEMM_LANES] __attribute__((aligned(64)));
	for (int64_t p = 0; p < cells; p += length * step) {
		const int64_t n = gemm_min(length, cells - p);
		for (int64_t q = 0, count; q < n; q += count) {
			count = n - q < GEMM_ACROSS ? 1 : GEMM_ACROSS;
			for (int64_t r = 0; r < step; r++) {
				const int64_t at = p + q * step + r;
				const struct SRC(cells) x = {
					.a = a + at, .src = src + at * GROUP * k_stride, .k_stride = k_stride, .step = step, .left = k - at * GROUP,
					.next = r + 1 < step ? 1 : (count - 1) * step + 1, .fetch = fetch,
				};
				if (count == 1)
					SRC(across_cells)(rows, 1, cols, x, part[r], q > 0);
				else
					SRC(across_cells)(rows, GEMM_ACROSS, cols, x, part[r], q > 0);
			}
		}
		for (int64_t r = 0; r < step; r++)
			for (int i = 0; i < rows; i++)
				for (int64_t j = i * SRC(strip)(rows); j < i * SRC(strip)(rows) + cols; j += GEMM_LANES)
					*(V *)(all + j) += *(V *)(part[r] + j);
	}
	for (int i = 0; i < rows; i++)
		for (int64_t j = 0; j < cols; j += GEMM_LANES)
			SRC(put_sums)(c + i * c_row + j, *(V *)(all + i * SRC(strip)(rows) + j), cols - j, accumulate);
}

INLINE void
SRC(across_rows)(const int rows, int64_t cols, int64_t k, const P *a, const S *src, int64_t k_stride, int64_t ahead, T *c, int64_t c_row, int accumulate)
{
	const int64_t strip = SRC(strip)(rows);
	for (int64_t j = 0; j < cols; j += strip)
		SRC(across_strip)(rows, gemm_min(strip, cols - j), k, a, src + j, k_stride, ahead > 0, c + j, c_row, accumulate);
}
