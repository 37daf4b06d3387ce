/* Matrix products and attention in float32 with the tiles of AMX, which multiply bfloat16. A number is split into three pieces of
 * 8 bits, and of the nine products of pieces the six largest are added up: what is left out is 2^-23 of the product at most, and
 * mostly an eighth of that. Blocks of k are summed from zero, so that rounding adds up to less than with AVX-512. Numbers below
 * 2^-103 lose their last pieces, which are subnormal. */
#if defined(__x86_64__)
#pragma GCC target("amx-tile,amx-bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2")
#define PRODUCTS_ALONE
#include "optimize.h"
#define VECTOR_BYTES 64
#define GEMM_MR 32
#include <math.h>

#include "kernel.h"
#include "vector.h"
#include "gemm_grid.h"

enum {
	F32_TILE = 1024, /* bytes of 16 rows of 16 pairs */
	F32_PIECES = 3 * F32_TILE, /* 16 rows of A, or columns of B, and 32 cells of k */
	F32_STEP = 2 * F32_PIECES,
	F32_FETCH = 32 * 32 / GEMM_KC, /* rows of c that are fetched beside so many cells */
};

/* Splits two vectors of numbers into the pairs of a row of three tiles. */
INLINE void f32_split(__m512 low, __m512 high, char *to)
{
	const __m512i half = _mm512_set1_epi32(0x8000), top = _mm512_set1_epi32((int)0xffff0000);
#pragma GCC unroll 3
	for (int i = 0; i < 3; i++, to += F32_TILE) {
		const __m512i x = _mm512_and_si512(_mm512_add_epi32((__m512i)low, half), top);
		const __m512i y = _mm512_and_si512(_mm512_add_epi32((__m512i)high, half), top);
		_mm512_store_si512(to, _mm512_or_si512(_mm512_srli_epi32(x, 16), y));
		low -= (__m512)x;
		high -= (__m512)y;
	}
}

/* Splits k cells of w ≤ 32 rows of A or of 32 columns of B, from rows that are so far apart. Cells that are 16 apart form a pair. */
static void gemm_f32_split(float *dst, int a_panel, int64_t w, int64_t k, const float *from, int64_t row)
{
	char *to = (char *)dst;
	for (int64_t i = 0; a_panel && i < w; i++)
		for (int64_t p = 0; p < k; p += 32) {
			const float *x = from + i * row + p;
			__builtin_prefetch(x + 4 * row);
			__builtin_prefetch(x + 4 * row + 16);
			f32_split(_mm512_loadu_ps(x), _mm512_loadu_ps(x + 16), to + p / 32 * F32_STEP + i / 16 * F32_PIECES + i % 16 * 64);
		}
	for (int64_t p = 0; !a_panel && p < k; p += 32, to += F32_STEP)
		for (int64_t i = 0; i < 32; i++) {
			const float *x = from + (p + i / 2) * row + i % 2 * 16;
			__builtin_prefetch(x + 32 * row);
			__builtin_prefetch(x + 48 * row);
			f32_split(_mm512_loadu_ps(x), _mm512_loadu_ps(x + 16 * row), to + i % 2 * F32_PIECES + i / 2 * 64);
		}
}

static int f32_pieces(const struct gemm_matrix *x) { return x->dtype == DTYPE_FLOAT32 ? 3 : x->dtype == DTYPE_FLOAT16 ? 2 : 1; }

INLINE void f32_load_a(int tall, const char *a)
{
	_tile_loadd(4, a, 64);
	if (tall)
		_tile_loadd(5, a + F32_PIECES, 64);
}

INLINE void f32_load_b(const char *b)
{
	_tile_loadd(6, b, 64);
	_tile_loadd(7, b + F32_PIECES, 64);
}

/* sums[32×32] = a[32×k]·b[k×32], or the first 16 rows of it, while c, to which they belong, is fetched. Tiles 0 to 3 hold the sums.
 * Products of the leading pieces come last, onto which the small ones would round one by one. The pieces of one operand are multiplied
 * in turn with those of the other, of the same operand where the product is transposed. */
static void f32_tiles(const struct gemm *g, int tall, int64_t k, const char *a, const char *b, float *sums, int64_t row, const float *c,
		      int64_t c_row)
{
	const int turned = g->pieces == GEMM_PIECES_TURNED, outer = f32_pieces(turned ? &g->b : &g->a), inner = f32_pieces(turned ? &g->a : &g->b);
	__asm__ volatile("" ::: "memory"); /* the panels are in memory before tiles are loaded */
	_tile_zero(0);
	_tile_zero(1);
	_tile_zero(2);
	_tile_zero(3);
	for (int lead = 0; lead < 2; lead++)
		for (int64_t p = 0; p < k; p += 32) {
			const char *rows = a + p / 32 * F32_STEP, *columns = b + p / 32 * F32_STEP;
			for (int i = 0; !lead && i < F32_FETCH; i++, c += c_row) {
				__builtin_prefetch(c, 1, 2);
				__builtin_prefetch(c + 16, 1, 2);
			}
			for (int i = lead ? 0 : outer - 1, held = -1; i >= 0; i--) {
				turned ? f32_load_b(columns + i * F32_TILE) : f32_load_a(tall, rows + i * F32_TILE);
				for (int j = !lead && i == 0; j < (lead ? 1 : inner) && i + j < 3; j++) {
					if (j != held)
						turned ? f32_load_a(tall, rows + j * F32_TILE) : f32_load_b(columns + j * F32_TILE);
					held = j;
					_tile_dpbf16ps(0, 4, 6);
					_tile_dpbf16ps(1, 4, 7);
					if (tall) {
						_tile_dpbf16ps(2, 5, 6);
						_tile_dpbf16ps(3, 5, 7);
					}
				}
			}
		}
	_tile_stored(0, sums, 4 * row);
	_tile_stored(1, sums + 16, 4 * row);
	if (tall) {
		_tile_stored(2, sums + 16 * row, 4 * row);
		_tile_stored(3, sums + 16 * row + 16, 4 * row);
	}
}

/* c[rows×32] (+)= a[rows×k]·b[k×32]. Both operands are split. */
static void gemm_f32_micro(const struct gemm *g, int64_t rows, int64_t k, const float *a, const float *b, float *c, int64_t c_row, int accumulate)
{
	if (!accumulate && rows % 16 == 0) {
		f32_tiles(g, rows > 16, k, (const char *)a, (const char *)b, c, c_row, c, c_row);
		return;
	}
	float sums[32 * 32] __attribute__((aligned(64)));
	f32_tiles(g, rows > 16, k, (const char *)a, (const char *)b, sums, 32, c, c_row);
	for (int64_t i = 0; i < rows; i++)
#pragma GCC unroll 2
		for (int64_t j = 0; j < 32; j += 16) {
			__m512 sum = _mm512_load_ps(sums + i * 32 + j);
			if (accumulate)
				sum += _mm512_loadu_ps(c + i * c_row + j);
			_mm512_storeu_ps(c + i * c_row + j, sum);
		}
}

#define OWN_MICRO
#define CELL_STEP 32
#define PANEL(n) ((n) * 3 / 2)
#include "gemm_f32.h"

#undef PANEL
#define ATTENTION_PIECES
#define ATTENTION_STRIP 128
#include "attention_forward.h"
#include "attention_backward.h"

const struct attention_kernels attention_f32_amx = {attention_forward, attention_backward};

void gemm_f32_amx(const struct gemm *g, int64_t lo, int64_t hi, char *scratch)
{
	gemm_tiles(g, lo, hi, scratch, gemm_f32_tile);
}
#endif
