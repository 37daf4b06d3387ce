/* Matrix products of 8-bit integers with the dot products of arm64, of four elements each. All other kernels are
 * the portable ones. */
#if defined(__aarch64__)
#pragma GCC target("arch=armv8.2-a+dotprod")
#pragma GCC optimize("no-math-errno", "no-trapping-math")
#define VECTOR_BYTES 16
#include <arm_neon.h>
#include <string.h>

#include "kernel.h"
#include "vector.h"
#include "gemm_grid.h"

#define T uint32_t
#define V vu32
#define P uint32_t
#define PV vu32
#define GROUP 4
#define SPREAD vfirst
#define NAME(x) gemm_i8_##x
#define MULADD(sum, a, b) ((vu32)vdotq_laneq_s32((int32x4_t)(sum), (int8x16_t)(b), (int8x16_t)(a), 0))
#include "gemm_micro.h"
#include "gemm_i8.h"

#define T uint32_t
#define V vu32
#define P uint32_t
#define PV vu32
#define GROUP 4
#define SPREAD vfirst
#define NAME(x) gemm_u8_##x
#define MULADD(sum, a, b) ((vu32)vdotq_laneq_u32((uint32x4_t)(sum), (uint8x16_t)(b), (uint8x16_t)(a), 0))
#include "gemm_micro.h"
#include "gemm_i8.h"

void gemm_neondot(const struct gemm *g, int64_t lo, int64_t hi, char *scratch)
{
	if (gemm_i8_groups(g, 4))
		gemm_tiles(g, lo, hi, scratch, g->a.dtype == DTYPE_INT8 ? gemm_i8_tile : gemm_u8_tile);
	else
		kernel_table_portable.gemm(g, lo, hi, scratch);
}
#endif
