/* Asks the CPU for its feature bits, never for its family. */
#include "variant.h"

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>

/* Asks the operating system for the memory of AMX's tiles in the state of threads. Returns whether tiles may be used. */
static int tiles_permitted(void)
{
	enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
	return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

int variant_supported(int variant)
{
	if (variant >= VARIANT_AVX2 && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
					 __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2")))
		return 0;
	if (variant >= VARIANT_AVX512 && !(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
					   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")))
		return 0;
	if (variant >= VARIANT_AVX512BF16 && !(__builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni")))
		return 0;
	if (variant >= VARIANT_AMX && !(__builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
					__builtin_cpu_supports("amx-int8") && tiles_permitted()))
		return 0;
	return 1;
}
#else
int variant_supported(int variant) { return variant == VARIANT_PORTABLE; }
#endif
