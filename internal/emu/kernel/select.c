/* Chooses the kernel variant by CPU feature bits, never by CPU family. */
#include "kernel.h"

#include <string.h>

const struct kernel_table *kernels = &kernel_table_portable;

#if defined(__x86_64__)
static int has_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
	       __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

static int has_avx512(void)
{
	return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

int kernel_select(const char *name)
{
	const struct kernel_table *best = &kernel_table_portable;
#if defined(__x86_64__)
	const struct kernel_table *variant[] = {&kernel_table_avx512, &kernel_table_avx2};
	int supported[] = {has_avx512(), has_avx2()};
	for (int i = 0; i < 2; i++) {
		if (!supported[i])
			continue;
		if (name[0] == 0 || strcmp(name, variant[i]->name) == 0) {
			kernels = variant[i];
			return 0;
		}
	}
#endif
	if (name[0] != 0 && strcmp(name, best->name) != 0)
		return -1;
	kernels = best;
	return 0;
}
