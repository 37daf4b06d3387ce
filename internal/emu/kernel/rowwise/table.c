#include "table.h"

#include "variant.h"

const struct rowwise_kernels *rowwise_kernels = &rowwise_portable;

void rowwise_use(int variant)
{
#if defined(__x86_64__)
	rowwise_kernels = variant >= VARIANT_AVX2 ? &rowwise_avx2 : &rowwise_portable;
#else
	(void)variant;
#endif
}
