/* Chooses the kernel variant by CPU feature bits, never by CPU family. */
#include "kernel.h"

#include <string.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

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

/* AVX-512 beside the kernels that only AVX2 has, and the variants that have a gemm of their own beside both. */
static struct kernel_table table_avx512, table_avx512bf16, table_amx;

static void make_tables(void)
{
	table_avx512 = kernel_table_avx512;
	table_avx512.scan = kernel_table_avx2.scan;
	table_avx512.index_reduce = kernel_table_avx2.index_reduce;
	table_avx512.combine = kernel_table_avx2.combine;
	table_avx512.combine_scale_grad = kernel_table_avx2.combine_scale_grad;
	table_avx512.triangular_solve = kernel_table_avx2.triangular_solve;
	table_avx512bf16 = table_amx = table_avx512;
	table_avx512bf16.name = "avx512bf16";
	table_avx512bf16.pace = 2;
	table_avx512bf16.gemm = gemm_avx512bf16;
	table_avx512bf16.attention_bf16 = attention_avx512bf16;
	table_amx.name = "amx";
	table_amx.gemm = gemm_amx;
	table_amx.attention = table_amx.attention_bf16 = attention_amx;
	table_amx.gemm_rows = 32;
	table_amx.gemm_pieces = 1;
	table_amx.pace = 10;
}
#endif

#if defined(__aarch64__)
static int has_neondot(void) { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }

static int has_neonbf16(void)
{
	const unsigned long both = HWCAP2_BF16 | HWCAP2_I8MM;
	return has_neondot() && (getauxval(AT_HWCAP2) & both) == both;
}

/* The tables of the variants that have a gemm of their own beside the portable kernels. */
static struct kernel_table table_neondot, table_neonbf16;

static void make_tables(void)
{
	table_neondot = table_neonbf16 = kernel_table_portable;
	table_neondot.name = "neondot";
	table_neondot.gemm = gemm_neondot;
	table_neonbf16.name = "neonbf16";
	table_neonbf16.pace = 2;
	table_neonbf16.gemm = gemm_neonbf16;
	table_neonbf16.attention_bf16 = attention_neonbf16;
}
#endif

static int always(void) { return 1; }

int kernel_select(const char *name)
{
	static const struct {
		const struct kernel_table *table;
		int (*supported)(void);
	} variants[] = {
#if defined(__x86_64__)
		{&table_amx, has_amx}, {&table_avx512bf16, has_avx512bf16}, {&table_avx512, has_avx512}, {&kernel_table_avx2, has_avx2},
#elif defined(__aarch64__)
		{&table_neonbf16, has_neonbf16}, {&table_neondot, has_neondot},
#endif
		{&kernel_table_portable, always}};
#if defined(__x86_64__) || defined(__aarch64__)
	make_tables();
#endif
	for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
		const struct kernel_table *t = variants[i].table;
		if ((name[0] == 0 || strcmp(name, t->name) == 0) && variants[i].supported()) {
			kernels = t;
			return 0;
		}
	}
	return -1;
}
