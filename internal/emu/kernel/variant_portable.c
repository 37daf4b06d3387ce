/* Baseline of the architecture: SSE2 on amd64, NEON on arm64. */
#define KERNEL_TABLE kernel_table_portable
#define KERNEL_NAME "portable"
#define VECTOR_BYTES 16
#include "body.h"
