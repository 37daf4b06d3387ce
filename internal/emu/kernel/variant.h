/* The variants of the kernels: instruction sets of CPUs, each of which has all that come before it. */
#ifndef VARIANT_H
#define VARIANT_H

enum { VARIANT_PORTABLE, VARIANT_AVX2, VARIANT_AVX512, VARIANT_AVX512BF16, VARIANT_AMX };

/* Reports whether this CPU and the operating system have what a variant needs. */
int variant_supported(int variant);

#endif
