/* Matrix products with the dot products of AVX-512 VNNI and BF16: of pairs of bfloat16, summed in
 * fp32, and of four int8. Subnormal numbers of bfloat16 count as zero. All others are those of AVX-512. */
#if defined(__x86_64__)
#pragma GCC target("avx512bf16,avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2")
#define PRODUCTS_ALONE
#include "optimize.h"
#define VECTOR_BYTES 64
#include <math.h>
#include <string.h>

#include "convert.h"
#include "grid.h"
#include "table.h"

#define T float
#define V vf32
#define P uint32_t
#define PV vu32
#define GROUP 2
#define NAME(x) gemm_bf16_##x
#define MULADD(sum, a, b) ((vf32)_mm512_dpbf16_ps((__m512)(sum), (__m512bh)(a), (__m512bh)(b)))
#include "micro.h"

#include "bf16.h"

/* Of cells of four int8 those of A are taken for unsigned: each element is 128 larger. */
#define T uint32_t
#define V vu32
#define P uint32_t
#define PV vu32
#define GROUP 4
#define NAME(x) gemm_i8_##x
#define MULADD(sum, a, b) ((vu32)_mm512_dpbusd_epi32((__m512i)(sum), (__m512i)((a) ^ 0x80808080), (__m512i)(b)))
#define MULADD_EXCESS
#include "micro.h"
#include "i8.h"

static void gemm(const struct gemm *g, int64_t lo, int64_t hi, char *scratch)
{
	if (gemm_bf16_groups(g, 2))
		gemm_tiles(g, lo, hi, scratch, gemm_bf16_tile);
	else if (gemm_i8_groups(g, 4))
		gemm_tiles(g, lo, hi, scratch, gemm_i8_tile);
	else
		gemm_avx512.gemm(g, lo, hi, scratch);
}

static void triangular_solve(const struct triangular *t, int64_t lo, int64_t hi) { gemm_avx512.triangular_solve(t, lo, hi); }

const struct gemm_kernels gemm_avx512bf16 = {.rows = GEMM_MR, .gemm = gemm, .triangular_solve = triangular_solve};
#endif
