#include "table.h"

#include "variant.h"

const struct gemm_kernels *gemm_kernels = &gemm_portable;
bool gemm_pairs;

void gemm_use(int variant, bool pairs)
{
	gemm_pairs = pairs;
#if defined(__x86_64__)
	static const struct gemm_kernels *const all[] = {
		[VARIANT_PORTABLE] = &gemm_portable,
		[VARIANT_AVX2] = &gemm_avx2,
		[VARIANT_AVX512] = &gemm_avx512,
		[VARIANT_AVX512BF16] = &gemm_avx512bf16,
		[VARIANT_AMX] = &gemm_amx,
	};
	gemm_kernels = all[variant];
#else
	(void)variant;
#endif
}
