#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2")
#define KERNELS attention_avx512
#define VECTOR_BYTES 64
#include "body.h"
#endif
