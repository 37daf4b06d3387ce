/* Baseline of the architecture: SSE2 on amd64, NEON on arm64. */
#define KERNELS elementwise_portable
#define VECTOR_BYTES 16
#include "body.h"
