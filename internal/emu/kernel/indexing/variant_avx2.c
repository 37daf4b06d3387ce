#if defined(__x86_64__)
#pragma GCC target("avx2,fma,f16c,bmi,bmi2")
#define KERNELS indexing_avx2
#define VECTOR_BYTES 32
#include "body.h"
#endif
