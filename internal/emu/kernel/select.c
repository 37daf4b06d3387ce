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

static int has_amx(void)
{
	return has_avx512bf16() && __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
	       __builtin_cpu_supports("amx-int8") && amx_permitted();
}

/* The tables of the variants that have a gemm of their own beside the kernels of AVX-512. */
static struct kernel_table table_avx512bf16, table_amx;

static void make_tables(void)
{
	table_avx512bf16 = table_amx = kernel_table_avx512;
	table_avx512bf16.name = "avx512bf16";
	table_avx512bf16.gemm = gemm_avx512bf16;
	table_avx512bf16.attention_forward = attention_forward_avx512bf16;
	table_avx512bf16.attention_backward = attention_backward_avx512bf16;
	table_amx.name = "amx";
	table_amx.gemm = gemm_amx;
	table_amx.attention_forward = attention_forward_amx;
	table_amx.attention_backward = attention_backward_amx;
	table_amx.gemm_rows = 32;
}
#endif

int kernel_select(const char *name)
{
#if defined(__x86_64__)
	static const struct {
		const struct kernel_table *table;
		int (*supported)(void);
	} variants[] = {
		{&table_amx, has_amx}, {&table_avx512bf16, has_avx512bf16}, {&kernel_table_avx512, has_avx512}, {&kernel_table_avx2, has_avx2}};
	make_tables();
	for (int i = 0; i < 4; i++) {
		const struct kernel_table *t = variants[i].table;
		if ((name[0] == 0 || strcmp(name, t->name) == 0) && variants[i].supported()) {
			kernels = t;
			return 0;
		}
	}
#endif
	if (name[0] != 0 && strcmp(name, kernel_table_portable.name) != 0)
		return -1;
	kernels = &kernel_table_portable;
	return 0;
}
