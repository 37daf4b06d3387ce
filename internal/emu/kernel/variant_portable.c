/* Baseline of the architecture: SSE2 on amd64, NEON on arm64. */
#if defined(__x86_64__)
#pragma GCC optimize("O2") /* CPUs with AVX2 run another variant, and this halves the time that gcc takes */
#endif
#define KERNEL_TABLE kernel_table_portable
#define KERNEL_NAME "portable"
#define VECTOR_BYTES 16
#include "body.h"
