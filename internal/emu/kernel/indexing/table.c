#include "table.h"

#include "variant.h"

const struct indexing_kernels *indexing_kernels = &indexing_portable;

void indexing_use(int variant)
{
#if defined(__x86_64__)
	indexing_kernels = variant >= VARIANT_AVX2 ? &indexing_avx2 : &indexing_portable;
#else
	(void)variant;
#endif
}
