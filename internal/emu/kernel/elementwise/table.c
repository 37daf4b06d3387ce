#include "table.h"

#include "variant.h"

const struct elementwise_kernels *elementwise_kernels = &elementwise_portable;

void elementwise_use(int variant)
{
#if defined(__x86_64__)
	elementwise_kernels = variant >= VARIANT_AVX2 ? &elementwise_avx2 : &elementwise_portable;
#else
	(void)variant;
#endif
}
