/* Matrix products of bfloat16 and of int8 with the tiles of AMX. Products of float32 are in variant_amx_f32.c, and
 * others those of the variant avx512bf16. Attention of bfloat16 multiplies in the same way. */
#if defined(__x86_64__)
#pragma GCC target("amx-tile,amx-bf16,amx-int8,avx512bf16,avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2")
#pragma GCC optimize("no-math-errno", "no-trapping-math")
#define VECTOR_BYTES 64
#define GEMM_MR 32
#define GEMM_KC 512
#include <math.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel.h"
#include "vector.h"
#include "convert.h"
#include "dtype.h"
#include "gemm_grid.h"

#define T float
#define V vf32
#define P uint32_t
#define PV vu32
#define GROUP 2
#define NAME(x) gemm_bf16_##x
#define DOT _tile_dpbf16ps
#include "gemm_amx.h"

#include "gemm_bf16.h"

#define PAIR_STEP 16
#define ATTENTION_STRIP 32
#include "attention_forward.h"
#include "attention_backward.h"

/* 16 cells of four rows. */
static inline __m512i cross_i8(const int8_t *p, int64_t row, int64_t left, int64_t n)
{
	__m128i t[4];
#pragma GCC unroll 4
	for (int x = 0; x < 4; x++)
		t[x] = _mm_maskz_loadu_epi8(x < left ? (__mmask16)gemm_mask(n) : 0, p + x * row);
	const __m128i low = _mm_unpacklo_epi8(t[0], t[1]), high = _mm_unpackhi_epi8(t[0], t[1]);
	const __m128i low2 = _mm_unpacklo_epi8(t[2], t[3]), high2 = _mm_unpackhi_epi8(t[2], t[3]);
	const __m256i first = _mm256_set_m128i(_mm_unpackhi_epi16(low, low2), _mm_unpacklo_epi16(low, low2));
	const __m256i second = _mm256_set_m128i(_mm_unpackhi_epi16(high, high2), _mm_unpacklo_epi16(high, high2));
	return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}

/* Sums of integers wrap: unsigned arithmetic gives the bits of all results. */
#define T uint32_t
#define V vu32
#define P uint32_t
#define PV vu32
#define GROUP 4
#define NAME(x) gemm_i8_##x
#define DOT _tile_dpbssd
#include "gemm_amx.h"

#define S int8_t
#define SRC(x) NAME(i8_##x)
#define LINE(p, n) _mm512_maskz_loadu_epi8(_bzhi_u64(UINT64_MAX, (uint32_t)gemm_min(n, 64)), p)
#define CROSS cross_i8
#include "gemm_pack.h"
#define S int32_t
#define SRC(x) NAME(i32_##x)
#define STORE_ONLY
#include "gemm_pack.h"

#define NATIVE DTYPE_INT8
#define ELEMENT int8_t
#define NATIVE_OUT DTYPE_INT32
#define SCALAR int64_t
#define SOURCES(X) X(DTYPE_INT8, int8_t, i8)
#define TARGETS(X) SOURCES(X) X(DTYPE_INT32, int32_t, i32)
#include "gemm_tile.h"

/* Reports whether the product is one of cells of four int8, each in one tile of the storage. Few rows are read
 * without packing by the variant avx512bf16. */
static int gemm_i8_cells(const struct gemm *g)
{
	const struct gemm_axis *a = &g->a.col, *b = &g->b.row;
	const int32_t add = g->d.data == NULL ? g->c.dtype : g->d.dtype;
	return g->type == GEMM_I32 && g->group == 0 && g->m > 4 && g->a.dtype == DTYPE_INT8 && g->b.dtype == DTYPE_INT8 &&
	       (g->c.dtype == DTYPE_INT8 || g->c.dtype == DTYPE_INT32) && (add == DTYPE_INT8 || add == DTYPE_INT32) &&
	       (gemm_plain(a) || a->tile % 4 == 0) && (gemm_plain(b) || b->tile % 4 == 0);
}

static const struct {
	uint8_t palette, start, reserved[14];
	uint16_t bytes[16];
	uint8_t rows[16];
} amx_tiles = {.palette = 1, .bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};

void gemm_amx(const struct gemm *g, int64_t lo, int64_t hi, char *scratch)
{
	const int i8 = gemm_i8_cells(g);
	if (!i8 && !gemm_bf16_pairs(g)) {
		if (g->type == GEMM_F32 && g->group == 0)
			gemm_f32_amx(g, lo, hi, scratch);
		else
			gemm_avx512bf16(g, lo, hi, scratch);
		return;
	}
	_tile_loadconfig(&amx_tiles);
	gemm_tiles(g, lo, hi, scratch, i8 ? gemm_i8_tile : gemm_bf16_tile);
	_tile_release();
}

void attention_forward_amx(const struct attention_block *b, int64_t part, float *scratch)
{
	_tile_loadconfig(&amx_tiles);
	attention_forward(b, part, scratch);
	_tile_release();
}

void attention_backward_amx(const struct attention *a, const struct attention_grad *g, int64_t kv_head, int64_t chunk, float *scratch)
{
	_tile_loadconfig(&amx_tiles);
	attention_backward(a, g, kv_head, chunk, scratch);
	_tile_release();
}

/* Asks the kernel for the tiles' memory in the state of threads. Returns whether tiles may be used. */
int amx_permitted(void)
{
	enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
	return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}
#endif
