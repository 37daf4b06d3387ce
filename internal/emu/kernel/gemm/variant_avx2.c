#if defined(__x86_64__)
#pragma GCC target("avx2,fma,f16c,bmi,bmi2")
#define KERNELS gemm_avx2
#define VECTOR_BYTES 32
#define GEMM_AHEAD_B 16 /* where B is not packed, its rows lie far apart */
#define OTHERS gemm_portable
#include "body.h"
#endif
