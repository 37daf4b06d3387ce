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

#if defined(__x86_64__)
static int has_avx512bf16(void)
{
	return has_avx512() && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni");
}

/* The table of a variant that has a gemm of its own beside the kernels of AVX-512. */
static struct kernel_table with_unit;

static const struct kernel_table *table_avx512bf16(void)
{
	with_unit = kernel_table_avx512;
	with_unit.name = "avx512bf16";
	with_unit.gemm = gemm_avx512bf16;
	return &with_unit;
}
#endif

int kernel_select(const char *name)
{
#if defined(__x86_64__)
	if (has_avx512bf16() && (name[0] == 0 || strcmp(name, "avx512bf16") == 0)) {
		kernels = table_avx512bf16();
		return 0;
	}
	const struct kernel_table *variant[] = {&kernel_table_avx512, &kernel_table_avx2};
	int supported[] = {has_avx512(), has_avx2()};
	for (int i = 0; i < 2; i++) {
		if (supported[i] && (name[0] == 0 || strcmp(name, variant[i]->name) == 0)) {
			kernels = variant[i];
			return 0;
		}
	}
#endif
	if (name[0] != 0 && strcmp(name, kernel_table_portable.name) != 0)
		return -1;
	kernels = &kernel_table_portable;
	return 0;
}
