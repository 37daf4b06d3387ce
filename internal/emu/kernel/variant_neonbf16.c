/* Matrix products with the instructions of arm64 that multiply two rows by two columns: of four bfloat16 numbers,
 * summed in fp32, and of eight 8-bit integers. Attention adds the products of pairs of bfloat16. Subnormal numbers
 * of bfloat16 count as zero. All other kernels are the portable ones. */
#if defined(__aarch64__)
#pragma GCC target("arch=armv8.2-a+dotprod+bf16+i8mm")
/* gcc would move the loads of all rows ahead, for which there are not enough registers. */
#pragma GCC optimize("no-math-errno", "no-trapping-math", "no-schedule-insns")
#define VECTOR_BYTES 16
#define GEMM_KC 128
#include <arm_neon.h>
#include <math.h>
#include <string.h>

#include "kernel.h"
#include "vector.h"
#include "convert.h"
#include "gemm_grid.h"

typedef uint64_t vu64 __attribute__((vector_size(VECTOR_BYTES)));

/* Tiles of attention are rows of pairs. */
#define T float
#define V vf32
#define P uint32_t
#define PV vu32
#define GROUP 2
#define SPREAD vfirst
#define NAME(x) gemm_bf16_##x
#define MULADD(sum, a, b) ((vf32)vbfdotq_laneq_f32((float32x4_t)(sum), (bfloat16x8_t)(b), (bfloat16x8_t)(a), 0))
#include "gemm_micro.h"
#define S uint16_t
#define SRC(x) NAME(bf16_##x)
#define PACK_ONLY
#include "gemm_pack.h"
#define PAIR_STEP 1
#include "attention_forward.h"
#include "attention_backward.h"
#include "gemm_undef.h"

#define T float
#define V vf32
#define P uint64_t
#define PV vu64
#define GROUP 4
#define A_ROWS 2
#define NAME(x) gemm_bf16x4_##x
#define OWN_MICRO
#include "gemm_micro.h"
#define MMLA(sum, a, b) ((vf32)vbfmmlaq_f32((float32x4_t)(sum), (bfloat16x8_t)(a), (bfloat16x8_t)(b)))
#include "gemm_mmla.h"
#include "gemm_bf16.h"

#define T uint32_t
#define V vu32
#define P uint64_t
#define PV vu64
#define GROUP 8
#define A_ROWS 2
#define NAME(x) gemm_i8_##x
#define OWN_MICRO
#include "gemm_micro.h"
#define MMLA(sum, a, b) ((vu32)vmmlaq_s32((int32x4_t)(sum), (int8x16_t)(a), (int8x16_t)(b)))
#include "gemm_mmla.h"
#include "gemm_i8.h"

#define T uint32_t
#define V vu32
#define P uint64_t
#define PV vu64
#define GROUP 8
#define A_ROWS 2
#define NAME(x) gemm_u8_##x
#define OWN_MICRO
#include "gemm_micro.h"
#define MMLA(sum, a, b) ((vu32)vmmlaq_u32((uint32x4_t)(sum), (uint8x16_t)(a), (uint8x16_t)(b)))
#include "gemm_mmla.h"
#include "gemm_i8.h"

void gemm_neonbf16(const struct gemm *g, int64_t lo, int64_t hi, char *scratch)
{
	if (gemm_bf16_groups(g, 4))
		gemm_tiles(g, lo, hi, scratch, gemm_bf16x4_tile);
	else if (gemm_i8_groups(g, 8))
		gemm_tiles(g, lo, hi, scratch, g->a.dtype == DTYPE_INT8 ? gemm_i8_tile : gemm_u8_tile);
	else
		kernel_table_portable.gemm(g, lo, hi, scratch);
}

const struct attention_kernels attention_neonbf16 = {attention_forward, attention_backward};
#endif
