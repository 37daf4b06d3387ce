/* Matrix products with the dot products of AVX-512 VNNI and BF16: of pairs of bfloat16, summed in
 * fp32, of four int8, and of pairs of 16-bit integers, to which others of 8 bits are widened. Subnormal numbers of
 * bfloat16 count as zero. Attention multiplies its bfloat16 tiles so, too. All other kernels are
 * those of AVX-512. */
#if defined(__x86_64__)
#pragma GCC target("avx512bf16,avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2")
#define PRODUCTS_ALONE
#include "optimize.h"
#define VECTOR_BYTES 64
#include <math.h>
#include <string.h>

#include "kernel.h"
#include "vector.h"
#include "convert.h"
#include "dtype.h"
#include "gemm_grid.h"

static inline __m512i line_i8(const void *p, int64_t n)
{
	return _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(gemm_mask(n), p));
}

static inline __m512i line_u8(const void *p, int64_t n)
{
	return _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(gemm_mask(n), p));
}

/* The low half of each pair comes from one row and the high one from the next, as 16-bit integers. */
static inline __m512i cross_i8(const int8_t *p, int64_t row, int64_t left, int64_t n)
{
	const __m512i low = _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8((__mmask16)gemm_mask(n), p));
	if (left < 2)
		return _mm512_and_si512(low, _mm512_set1_epi32(0xffff));
	const __m512i high = _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8((__mmask16)gemm_mask(n), p + row));
	return _mm512_mask_blend_epi16(0xaaaaaaaa, low, _mm512_slli_epi32(high, 16));
}

static inline __m512i cross_u8(const uint8_t *p, int64_t row, int64_t left, int64_t n)
{
	const __m512i low = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8((__mmask16)gemm_mask(n), p));
	if (left < 2)
		return low;
	const __m512i high = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8((__mmask16)gemm_mask(n), p + row));
	return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

#define T float
#define V vf32
#define P uint32_t
#define PV vu32
#define GROUP 2
#define FEW_ROWS GEMM_FEW
#define NAME(x) gemm_bf16_##x
#define MULADD(sum, a, b) ((vf32)_mm512_dpbf16_ps((__m512)(sum), (__m512bh)(a), (__m512bh)(b)))
#include "gemm_micro.h"

#include "gemm_bf16.h"

#define PAIR_STEP 1
#include "attention_forward.h"
#include "attention_backward.h"

/* Sums of integers wrap: unsigned arithmetic gives the bits of all results. */
#define T uint32_t
#define V vu32
#define P uint32_t
#define PV vu32
#define GROUP 2
#define FEW_ROWS GEMM_FEW
#define NAME(x) gemm_i16_##x
#define MULADD(sum, a, b) ((vu32)_mm512_dpwssd_epi32((__m512i)(sum), (__m512i)(a), (__m512i)(b)))
#include "gemm_micro.h"

#define S int8_t
#define SRC(x) NAME(i8_##x)
#define LINE line_i8
#define CROSS cross_i8
#include "gemm_pack.h"
#define S uint8_t
#define SRC(x) NAME(u8_##x)
#define LINE line_u8
#define CROSS cross_u8
#include "gemm_pack.h"
#define S int16_t
#define SRC(x) NAME(i16_##x)
#define LINE gemm_line_pairs
#define CROSS gemm_cross_u16
#include "gemm_pack.h"
#define S int32_t
#define SRC(x) NAME(i32_##x)
#define STORE_ONLY
#include "gemm_pack.h"

#define NATIVE DTYPE_INT16
#define ELEMENT int16_t
#define NATIVE_OUT DTYPE_INT32
#define SCALAR int64_t
#define SOURCES(X) X(DTYPE_INT8, int8_t, i8) X(DTYPE_UINT8, uint8_t, u8) X(DTYPE_INT16, int16_t, i16)
#define TARGETS(X) SOURCES(X) X(DTYPE_INT32, int32_t, i32)
#include "gemm_tile.h"

/* Of cells of four int8 those of A are taken for unsigned: each element is 128 larger. */
#define T uint32_t
#define V vu32
#define P uint32_t
#define PV vu32
#define GROUP 4
#define NAME(x) gemm_i8_##x
#define MULADD(sum, a, b) ((vu32)_mm512_dpbusd_epi32((__m512i)(sum), (__m512i)((a) ^ 0x80808080), (__m512i)(b)))
#define MULADD_EXCESS
#include "gemm_micro.h"
#include "gemm_i8.h"

static int is_small(int32_t dtype) { return dtype == DTYPE_INT8 || dtype == DTYPE_UINT8 || dtype == DTYPE_INT16; }

void gemm_avx512bf16(const struct gemm *g, int64_t lo, int64_t hi, char *scratch)
{
	if (gemm_bf16_groups(g, 2))
		gemm_tiles(g, lo, hi, scratch, gemm_bf16_tile);
	else if (g->m > GEMM_FEW && g->a.dtype == DTYPE_INT8 && gemm_i8_groups(g, 4))
		gemm_tiles(g, lo, hi, scratch, gemm_i8_tile);
	else if (g->type == GEMM_I32 && is_small(g->a.dtype) && is_small(g->b.dtype) && gemm_groups(g, 2))
		gemm_tiles(g, lo, hi, scratch, gemm_i16_tile);
	else
		kernel_table_avx512.gemm(g, lo, hi, scratch);
}

const struct attention_kernels attention_avx512bf16 = {attention_forward, attention_backward};
#endif
