#include "table.h"

#include "variant.h"

const struct fourier_kernels *fourier_kernels = &fourier_portable;

void fourier_use(int variant)
{
#if defined(__x86_64__)
	fourier_kernels = variant >= VARIANT_AVX2 ? &fourier_avx2 : &fourier_portable;
#else
	(void)variant;
#endif
}
