#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2")
#define KERNEL_TABLE kernel_table_avx512
#define KERNEL_NAME "avx512"
#define VECTOR_BYTES 64
#define GEMM_FETCH_A 1
#define OTHERS kernel_table_avx2
#define MAIN_TYPES
#include "body.h"
#endif
