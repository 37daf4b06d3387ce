#if defined(__x86_64__)
#pragma GCC target("avx2,fma,f16c,bmi,bmi2")
#define KERNELS elementwise_avx2
#define VECTOR_BYTES 32
#define OTHERS elementwise_portable
#include "body.h"
#endif
