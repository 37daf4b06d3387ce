/* Matrix products in float32 on CPUs with AMX. They start two multiplications of vectors a cycle, so that B must
 * come from the second-level cache twice as fast as on others: blocks of 12 rows read it half as often, and ahead.
 * Few rows are multiplied as with AVX-512. */
#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2")
#include "optimize.h"
#define VECTOR_BYTES 64
#define GEMM_MR 12
#define GEMM_AHEAD_B 12
#define PACKED_ROWS
#include <math.h>

#include "kernel.h"
#include "vector.h"
#include "gemm_f32.h"

void gemm_f32_amx(const struct gemm *g, int64_t lo, int64_t hi, char *scratch)
{
	if (g->m <= GEMM_FEW)
		kernel_table_avx512.gemm(g, lo, hi, scratch);
	else
		gemm_tiles(g, lo, hi, scratch, gemm_f32_tile);
}
#endif
