/* Products of few rows with a quantised matrix, with AVX2 or AVX-512: B is read once, a vector at a time, and its
 * elements become floats in registers. Sums over the elements that share a scale are multiplied by it.
 *
 * Element number lane·count + i of the vector is part i of it, where the lanes of 32 bits have count
 * elements each. So the elements need no moves between lanes; the floats that they meet are put in that order. */

enum {
	GEMM_QUANT_ROWS = 8,  /* more rows are multiplied with widened blocks */
	GEMM_QUANT_UNIT = 32, /* elements of a unit; scales are repeated for each */
	GEMM_QUANT_STRIP = 2 * GEMM_LANES, /* columns of a panel of B */
	GEMM_QUANT_BLOCK = 64, /* columns whose scales are gathered at once: the groups' rows lie so far apart that caches keep few of them */
	GEMM_QUANT_GROUPS = 16, /* groups that are packed at once, and how many groups ahead scales are fetched */
	GEMM_QUANT_DEEP = 1 << 16, /* largest K */
	GEMM_QUANT_BIAS = VECTOR_BYTES == 32, /* parts of 4 bits have a bias, which sums of A take away */
	GEMM_QUANT_DEPTH = VECTOR_BYTES == 64 ? GEMM_KC : 64, /* rows of B that pass by at once: half a line of each stays in the caches */
};

#if VECTOR_BYTES == 64
#define GEMM_QUANT_PERMUTE _mm512_permute_ps

INLINE vf32 gemm_quant_part(const int bits, __m512i v, int i)
{
	if (bits == 4) /* the table is indexed by the lowest four bits of each lane */
		return (vf32)_mm512_permutexvar_ps(_mm512_srli_epi32(v, (unsigned)(4 * i)), _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1));
	return (vf32)_mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(v, (unsigned)(24 - 8 * i)), 24));
}

static inline __m512i gemm_quant_load(const char *p, int64_t bytes)
{
	return _mm512_maskz_loadu_epi8(bytes < 64 ? _bzhi_u64(~0ULL, (uint32_t)bytes) : ~0ULL, p);
}

/* The scales of four columns in every four lanes, for the units that so many lanes each belong to. */
static inline vf32 gemm_quant_scales(const int lanes, const float *scale)
{
	const __m128 first = _mm_loadu_ps(scale), second = _mm_loadu_ps(scale + GEMM_QUANT_BLOCK);
	if (lanes == 8)
		return (vf32)_mm512_insertf32x8(_mm512_broadcast_f32x4(first), _mm256_set_m128(second, second), 1);
	const __m256 high = _mm256_set_m128(_mm_loadu_ps(scale + 3 * GEMM_QUANT_BLOCK), _mm_loadu_ps(scale + 2 * GEMM_QUANT_BLOCK));
	return (vf32)_mm512_insertf32x8(_mm512_castps256_ps512(_mm256_set_m128(second, first)), high, 1);
}

static inline float gemm_quant_sum(vf32 x) { return _mm512_reduce_add_ps((__m512)x); }
#else
#define GEMM_QUANT_PERMUTE _mm256_permute_ps

INLINE vf32 gemm_quant_part(const int bits, __m256i v, int i)
{
	if (bits == 4) /* times 16 to the power of i, and 8 more except for the last part, whose sign is that of the lane */
		return (vf32)_mm256_cvtepi32_ps(_mm256_and_si256(_mm256_xor_si256(v, _mm256_set1_epi32(0x08888888)), _mm256_set1_epi32((int)(15u << 4 * i))));
	return (vf32)_mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(v, 24 - 8 * i), 24));
}

static inline __m256i gemm_quant_load(const char *p, int64_t bytes) { return gemm_some(p, bytes, 1); }

static inline vf32 gemm_quant_scales(const int lanes, const float *scale)
{
	const __m128 first = _mm_loadu_ps(scale);
	return (vf32)_mm256_set_m128(lanes == 8 ? first : _mm_loadu_ps(scale + GEMM_QUANT_BLOCK), first);
}

static inline float gemm_quant_sum(vf32 x)
{
	const v4f32 y = __builtin_shufflevector(x, x, 0, 1, 2, 3) + __builtin_shufflevector(x, x, 4, 5, 6, 7);
	return (y[0] + y[2]) + (y[1] + y[3]);
}
#endif

/* The scales of column j of the four. */
INLINE vf32 gemm_quant_column(vf32 scales, int j)
{
#define COLUMN(j) (vf32)GEMM_QUANT_PERMUTE(scales, (j) * 0x55)
	return j == 0 ? COLUMN(0) : j == 1 ? COLUMN(1) : j == 2 ? COLUMN(2) : COLUMN(3);
#undef COLUMN
}

/* out[rows×cols] = x·B for columns whose elements along k are adjacent. scale has a row of a block for each unit. */
INLINE void
gemm_quant_along(const int bits, const int rows, const int cols, int64_t k, const float *x, int64_t x_row, const char *b, int64_t b_col,
		 const float *scale, float *out, int64_t out_row)
{
	const int count = 32 / bits, step = GEMM_LANES * count, lanes = GEMM_QUANT_UNIT / count, biased = GEMM_QUANT_BIAS && bits == 4;
	const int64_t far = VECTOR_BYTES == 64 ? 2048 : 256 /* as measurements say */, turn = k * bits / 8 - far, next = (cols - 1) * b_col;
	char tail[4][VECTOR_BYTES] = {0};
	vf32 total[4][2] = {0};
	for (int j = 0; k % step > 0 && j < cols; j++)
		memcpy(tail[j], b + j * b_col + k / step * VECTOR_BYTES, (size_t)(k % step * bits + 7) / 8);
	for (int64_t p = 0; p < k; p += step, x += step + biased * GEMM_LANES) {
		gemm_line v[4];
		vf32 sum[4][2];
#pragma GCC unroll 4
		for (int j = 0; j < cols; j++) {
			const char *from = b + j * b_col + p * bits / 8;
			__builtin_prefetch(from + (p * bits / 8 < turn ? far : far + next), 0, 2);
			memcpy(&v[j], k - p >= step ? from : tail[j], sizeof v[j]);
#pragma GCC unroll 2
			for (int r = 0; r < rows; r++)
				sum[j][r] = biased ? vload(x + r * x_row + step) : (vf32){0};
		}
#pragma GCC unroll 8
		for (int i = 0; i < count; i++)
#pragma GCC unroll 4
			for (int j = 0; j < cols; j++) {
				const vf32 part = gemm_quant_part(bits, v[j], i);
#pragma GCC unroll 2
				for (int r = 0; r < rows; r++)
					sum[j][r] += part * vload(x + r * x_row + GEMM_LANES * i);
			}
		const vf32 scales = gemm_quant_scales(lanes, scale + p / GEMM_QUANT_UNIT * GEMM_QUANT_BLOCK);
#pragma GCC unroll 4
		for (int j = 0; j < cols; j++) {
			const vf32 s = gemm_quant_column(scales, j);
#pragma GCC unroll 2
			for (int r = 0; r < rows; r++)
				total[j][r] += sum[j][r] * s;
		}
	}
#pragma GCC unroll 4
	for (int j = 0; j < cols; j++)
#pragma GCC unroll 2
		for (int r = 0; r < rows; r++)
			out[r * out_row + j] = gemm_quant_sum(total[j][r]);
}

/* sums[rows×lanes·count] = x·B over k rows of one group, of which a vector lies at b. */
INLINE void
gemm_quant_across(const int bits, const int rows, int64_t k, const float *x, int64_t x_row, const char *b, int64_t b_row, int64_t bytes, int64_t ahead, const float *all, float *sums)
{
	const int count = 32 / bits;
	vf32 sum[2][8] = {0};
	for (int64_t p = 0; p < k; p++, b += b_row) {
		__builtin_prefetch(b + ahead, 0, 2); /* rows may be a multiple of 4 KiB apart, of which the first level holds few */
		const gemm_line v = gemm_quant_load(b, bytes);
#pragma GCC unroll 8
		for (int i = 0; i < count; i++) {
			const vf32 part = gemm_quant_part(bits, v, i);
#pragma GCC unroll 2
			for (int r = 0; r < rows; r++)
				sum[r][i] += part * vset(x[r * x_row + p]);
		}
	}
#pragma GCC unroll 2
	for (int r = 0; r < rows; r++) {
		gemm_line t[GEMM_LANES];
#pragma GCC unroll 16
		for (int i = 0; i < GEMM_LANES; i++)
			t[i] = i < count ? (gemm_line)(GEMM_QUANT_BIAS && bits == 4 ? sum[r][i] * vset(1.0f / (1u << 4 * i)) - vset(i < 7 ? 8 * all[r] : 0) : sum[r][i]) : (gemm_line){0};
		gemm_transpose(t);
#pragma GCC unroll 16
		for (int i = 0; i < GEMM_LANES; i++)
			gemm_put(sums + (r * GEMM_LANES + i) * count, t[i], count);
	}
}

/* Gathers scales or offsets whose columns are adjacent. Those of group p become row p·each of dst. */
static void gemm_quant_lines(const struct gemm_matrix *x, int64_t groups, int64_t j, int64_t cols, float *dst, int64_t each)
{
	const int64_t size = dtype_size(x->dtype), row = x->row.stride * size, whole = cols == GEMM_QUANT_BLOCK;
	const char *from = x->data + j * size;
	for (int64_t p = 0; p < groups; p++, from += row, dst += each * GEMM_QUANT_BLOCK) {
		__builtin_prefetch(from + GEMM_QUANT_GROUPS * row, 0, 2);
		__builtin_prefetch(from + GEMM_QUANT_GROUPS * row + 64, 0, 2);
		if (x->dtype == DTYPE_FLOAT16 && whole)
			for (int64_t i = 0; i < GEMM_QUANT_BLOCK; i += GEMM_LANES)
				vstore(dst + i, vload_f16((const uint16_t *)from + i));
		else if (x->dtype == DTYPE_BFLOAT16 && whole)
			for (int64_t i = 0; i < GEMM_QUANT_BLOCK; i += GEMM_LANES)
				vstore(dst + i, vload_bf16((const uint16_t *)from + i));
		else if (x->dtype == DTYPE_FLOAT32)
			memcpy(dst, from, (size_t)cols * sizeof *dst);
		else
			floats_of_half(dst, from, x->dtype, cols);
	}
}

/* Gathers n groups from p on of others. Each becomes a row of dst; the rows lie each rows apart. */
static void gemm_quant_columns(const struct gemm_matrix *x, int64_t p, int64_t n, int64_t j, int64_t cols, float *dst, int64_t each)
{
	float part[GEMM_QUANT_GROUPS * GEMM_QUANT_STRIP];
	for (int64_t i = 0; i < cols; i += GEMM_QUANT_STRIP) {
		const int64_t w = gemm_min(GEMM_QUANT_STRIP, cols - i);
		gemm_f32_pack_part(part, 0, w, n, x->dtype, x->data, p * x->row.stride + (j + i) * x->col.stride, x->col.stride, x->row.stride, GEMM_IN_ORDER);
		for (int64_t q = 0; q < n; q++)
			memcpy(dst + q * each * GEMM_QUANT_BLOCK + i, part + q * GEMM_QUANT_STRIP, (size_t)w * sizeof *dst);
	}
}

/* The scales or offsets of a block of columns: dst has a row for each unit, of zeros beyond K. */
static void gemm_quant_units(const struct gemm *g, const struct gemm_matrix *x, int64_t j, int64_t cols, float *dst, int64_t units)
{
	const int64_t groups = (g->k + g->group - 1) / g->group, end = (g->k + GEMM_QUANT_UNIT - 1) / GEMM_QUANT_UNIT;
	const int64_t each = (gemm_min(g->group, g->k) + GEMM_QUANT_UNIT - 1) / GEMM_QUANT_UNIT;
	if (x->col.stride == 1)
		gemm_quant_lines(x, groups, j, cols, dst, each);
	for (int64_t p = 0; x->col.stride != 1 && p < groups; p += GEMM_QUANT_GROUPS)
		gemm_quant_columns(x, p, gemm_min(GEMM_QUANT_GROUPS, groups - p), j, cols, dst + p * each * GEMM_QUANT_BLOCK, each);
	for (int64_t u = 0; each > 1 && u < end; u++)
		if (u % each > 0)
			memcpy(dst + u * GEMM_QUANT_BLOCK, dst + (u - 1) * GEMM_QUANT_BLOCK, GEMM_QUANT_BLOCK * sizeof *dst);
	memset(dst + end * GEMM_QUANT_BLOCK, 0, (size_t)((units - end) * GEMM_QUANT_BLOCK) * sizeof *dst);
}

/* The rows of A, of which x has a row of x_row floats each, and the sums of their units. */
struct gemm_quant_x {
	float *x, *sums;
	int64_t x_row, units;
};

/* Puts elements of a row of A, of which every lane of B meets count, in the order of the parts of B. With a bias its share
 * of the result follows. */
INLINE void gemm_quant_parts(const int64_t count, const int biased, const float *from, float *to)
{
	gemm_line t[GEMM_LANES];
	vf32 bias = {0};
	if (count == 1) {
		memcpy(to, from, sizeof bias);
		return;
	}
#pragma GCC unroll 16
	for (int lane = 0; lane < GEMM_LANES; lane++)
		t[lane] = gemm_get(from + lane * count, count);
	gemm_transpose(t);
#pragma GCC unroll 8
	for (int i = 0; i < count; i++) {
		vstore(to + GEMM_LANES * i, biased ? (vf32)t[i] * vset(1.0f / (float)(1u << 4 * i)) : (vf32)t[i]);
		if (i < 7)
			bias -= 8 * (vf32)t[i];
	}
	if (biased)
		vstore(to + GEMM_LANES * count, bias);
}

/* Packs rows of A, in the order of the parts of B if they run along k, and sums their units if anything is added to B.
 * Reports whether the products stay finite although the kernels add a bias to parts of B or multiply them by powers of 16. */
INLINE int
gemm_quant_pack(const struct gemm *g, const struct gemm_at *at, int64_t m0, int64_t rows, const struct gemm_quant_x *x, const int64_t count)
{
	const int64_t step = GEMM_LANES * count;
	const int biased = GEMM_QUANT_BIAS && g->b.dtype == DTYPE_INT4, sums = (biased && count == 1) || g->offset.data != NULL;
	const float most = count == 1 ? 0x1p34f : 0x1p9f; /* of a product and of the sum of a unit, or of GEMM_QUANT_DEPTH rows */
	float block[GEMM_QUANT_ROWS * GEMM_KC];
	vf32 check = {0};
	memset(x->x, 0, (size_t)(rows * x->x_row) * sizeof(float));
	for (int64_t k0 = 0; k0 < g->k; k0 += GEMM_KC) {
		const int64_t k = gemm_min(GEMM_KC, g->k - k0);
		gemm_f32_pack_panel(block, 1, &g->a, at->a, m0, rows, k0, k);
		for (int64_t r = 0; r < rows; r++) {
			float *from = block + r * GEMM_KC;
			memset(from + k, 0, (size_t)(GEMM_KC - k) * sizeof(float));
			for (int64_t p = 0; p < k; p += step)
				gemm_quant_parts(count, biased && count == 8, from + p,
						 x->x + r * x->x_row + (k0 + p) / step * (step + (biased && count == 8 ? GEMM_LANES : 0)));
			for (int64_t p = 0; p < k && biased; p += GEMM_LANES)
				check += vload(from + p) * most * 0;
			for (int64_t p = 0; p < k && sums; p += GEMM_QUANT_UNIT) {
				vf32 sum = {0};
				for (int64_t q = p; q < p + GEMM_QUANT_UNIT; q += GEMM_LANES)
					sum += vload(from + q);
				x->sums[r * x->units + (k0 + p) / GEMM_QUANT_UNIT] = gemm_quant_sum(sum);
			}
		}
	}
	return gemm_quant_sum(check) == 0;
}

#define GEMM_QUANT_CASES(call)                                                                                         \
	if (bits == 4 && two)                                                                                          \
		call(4, 2);                                                                                            \
	else if (bits == 4)                                                                                            \
		call(4, 1);                                                                                            \
	else if (two)                                                                                                  \
		call(8, 2);                                                                                            \
	else                                                                                                           \
		call(8, 1);

static void gemm_quant_rows_along(const struct gemm *g, const char *data, int64_t rows, int64_t n0, int64_t n1, const struct gemm_quant_x *x,
				  float *out, float *scratch)
{
	const int bits = g->b.dtype == DTYPE_INT4 ? 4 : 8;
	const int64_t units = x->units, b_col = g->b.col.stride * bits / 8;
	float *const scale = scratch, *const offset = scale + GEMM_QUANT_BLOCK * units;
	for (int64_t j0 = n0; j0 < n1; j0 += GEMM_QUANT_BLOCK) {
		const int64_t block = gemm_min(GEMM_QUANT_BLOCK, n1 - j0);
		gemm_quant_units(g, &g->scale, j0, block, scale, units);
		for (int64_t j = 0, cols; j < block; j += cols) {
			cols = block - j >= 4 ? 4 : 1;
			for (int64_t r = 0; r < rows; r += 2) {
				const int two = r + 1 < rows;
				float *c = out + r * GEMM_TILE_N + j0 - n0 + j;
#define ALONG(bits, rows)                                                                                              \
	if (cols == 4)                                                                                                 \
		gemm_quant_along(bits, rows, 4, g->k, x->x + r * x->x_row, x->x_row, data + (j0 + j) * b_col, b_col,   \
				 scale + j, c, GEMM_TILE_N);                                                           \
	else                                                                                                           \
		gemm_quant_along(bits, rows, 1, g->k, x->x + r * x->x_row, x->x_row, data + (j0 + j) * b_col, b_col,   \
				 scale + j, c, GEMM_TILE_N)
				GEMM_QUANT_CASES(ALONG)
#undef ALONG
			}
		}
		if (g->offset.data == NULL)
			continue;
		gemm_quant_units(g, &g->offset, j0, block, offset, units);
		for (int64_t r = 0; r < rows; r++)
			for (int64_t j = 0; j < block; j++) {
				float sum = 0;
				for (int64_t u = 0; u < units; u++)
					sum += scale[u * GEMM_QUANT_BLOCK + j] * offset[u * GEMM_QUANT_BLOCK + j] * x->sums[r * units + u];
				out[r * GEMM_TILE_N + j0 - n0 + j] += sum;
			}
	}
}

static void gemm_quant_rows_across(const struct gemm *g, const char *data, int64_t rows, int64_t n0, int64_t n1, const struct gemm_quant_x *x, float *out)
{
	const int bits = g->b.dtype == DTYPE_INT4 ? 4 : 8, pairs = VECTOR_BYTES == 64 || bits == 8; /* that have registers */
	const int64_t step = 8 * VECTOR_BYTES / bits, b_row = g->b.row.stride * bits / 8;
	float scale[GEMM_TILE_N], offset[GEMM_TILE_N], sums[2 * 128];
	for (int64_t r = 0; r < rows; r++)
		memset(out + r * GEMM_TILE_N, 0, GEMM_TILE_N * sizeof(float));
	for (int64_t p = 0, k; p < g->k; p += k) {
		const int64_t group = p / g->group;
		k = gemm_min(gemm_min(GEMM_QUANT_DEPTH, (group + 1) * g->group - p), g->k - p);
		for (int64_t j = n0; j < n1; j += 2 * 16) {
			const int64_t cols = gemm_min(2 * 16, n1 - j);
			float *s = scale + j - n0, *o = offset + j - n0;
			gemm_f32_pack_part(s, 0, cols, 1, g->scale.dtype, g->scale.data, group * g->scale.row.stride + j * g->scale.col.stride, g->scale.col.stride, 0, GEMM_IN_ORDER);
			if (g->offset.data != NULL)
				gemm_f32_pack_part(o, 0, cols, 1, g->offset.dtype, g->offset.data, group * g->offset.row.stride + j * g->offset.col.stride, g->offset.col.stride, 0, GEMM_IN_ORDER);
			else
				memset(o, 0, (size_t)cols * sizeof(float));
		}
		for (int64_t j = n0; j < n1; j += step) {
			const int64_t cols = gemm_min(step, n1 - j), bytes = (cols * bits + 7) / 8;
			const char *b = data + p * b_row + j * bits / 8;
			const int64_t ahead = VECTOR_BYTES == 64 ? 32 * b_row : j + 2 * step < n1 ? 64 : k * b_row + 64 - (n1 - n0) * bits / 8;
			for (int64_t r = 0, two; r < rows; r += 1 + two) {
				two = pairs && r + 1 < rows;
				float all[2] = {0}; /* sums of A, if anything is added to B */
				for (int64_t u = p / GEMM_QUANT_UNIT; u < (p + k + GEMM_QUANT_UNIT - 1) / GEMM_QUANT_UNIT; u++)
					for (int64_t y = 0; y < 1 + two; y++)
						all[y] += x->sums[(r + y) * x->units + u];
#define ACROSS(bits, rows) gemm_quant_across(bits, rows, k, x->x + r * x->x_row + p, x->x_row, b, b_row, bytes, ahead, all, sums)
				GEMM_QUANT_CASES(ACROSS)
#undef ACROSS
				for (int64_t y = r; y < r + 1 + two; y++) {
					float *c = out + y * GEMM_TILE_N + j - n0;
					for (int64_t i = 0; i < cols; i++)
						c[i] += (sums[(y - r) * step + i] + offset[j - n0 + i] * all[y - r]) * scale[j - n0 + i];
				}
			}
		}
	}
}

/* Reports whether a tile of so many rows is computed here: scales do not change within units. */
static int gemm_quant_by_rows(const struct gemm *g, int64_t rows)
{
	return rows <= GEMM_QUANT_ROWS && g->k <= GEMM_QUANT_DEEP && (g->group % GEMM_QUANT_UNIT == 0 || g->group >= g->k);
}

/* Returns where the packed rows of A lie. */
static struct gemm_quant_x gemm_quant_place(const struct gemm *g, int64_t rows, float *place)
{
	const int64_t units = (g->k + 127) / 128 * 4, x_row = (GEMM_QUANT_UNIT + 4) * units;
	return (struct gemm_quant_x){.x = place, .sums = place + rows * x_row, .x_row = x_row, .units = units};
}

static int gemm_quant_pack_rows(const struct gemm *g, const struct gemm_at *at, int64_t m0, int64_t rows, const struct gemm_quant_x *x)
{
	memset(x->sums, 0, (size_t)(rows * x->units) * sizeof(float));
	if (g->b.row.stride != 1)
		return gemm_quant_pack(g, at, m0, rows, x, 1);
	return g->b.dtype == DTYPE_INT4 ? gemm_quant_pack(g, at, m0, rows, x, 8) : gemm_quant_pack(g, at, m0, rows, x, 4);
}

/* Packs A once for all tiles. */
static void gemm_pack(struct gemm *g, char *scratch)
{
	const struct gemm_at at = {.a = g->a.data};
	const struct gemm_quant_x x = gemm_quant_place(g, g->m, (float *)scratch);
	if (g->group > 0 && g->batch_rank == 0 && gemm_quant_by_rows(g, g->m) && gemm_quant_pack_rows(g, &at, 0, g->m, &x))
		g->packed = x.x;
}

/* out[rows×GEMM_TILE_N] = the sums of rows [m0, m1) and columns [n0, n1). Reports whether it could compute them. */
static int gemm_quant_rows(const struct gemm *g, const struct gemm_at *at, int64_t m0, int64_t m1, int64_t n0, int64_t n1, float *out, float *scratch)
{
	const int64_t rows = m1 - m0;
	const struct gemm_quant_x x = gemm_quant_place(g, rows, g->packed ? g->packed : scratch);
	if (!g->packed && !gemm_quant_pack_rows(g, at, m0, rows, &x))
		return 0;
	if (g->b.row.stride == 1)
		gemm_quant_rows_along(g, at->b, rows, n0, n1, &x, out, g->packed ? scratch : x.sums + rows * x.units);
	else
		gemm_quant_rows_across(g, at->b, rows, n0, n1, &x, out);
	return 1;
}
#undef GEMM_QUANT_CASES
#undef GEMM_QUANT_PERMUTE
