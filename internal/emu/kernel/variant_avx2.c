#if defined(__x86_64__)
#pragma GCC target("avx2,fma,f16c,bmi,bmi2")
#define KERNEL_TABLE kernel_table_avx2
#define KERNEL_NAME "avx2"
#define VECTOR_BYTES 32
#define GEMM_AHEAD_B 16 /* where B is not packed, its rows lie far apart */
#define OTHERS kernel_table_portable
#include "body.h"
#endif
