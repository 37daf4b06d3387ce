/* Sizes of the register blocks. */
#ifndef BLOCK_H
#define BLOCK_H

#include <string.h>

#include "vector.h"
#if VECTOR_BYTES >= 32
#include "line.h"
#endif

/* Rows of the register block, which uses two vectors per row, two for b and one for a. */
#if defined(GEMM_MR)
/* set by a variant of its own */
#elif defined(__aarch64__)
#define GEMM_MR 12
#else
#define GEMM_MR 6
#endif

/* Cells of a block of k. */
#ifndef GEMM_KC
#define GEMM_KC 256
#endif

enum { GEMM_RUN = 32 /* cells of a run, which divides a block */ };

static inline int64_t gemm_min(int64_t a, int64_t b) { return a < b ? a : b; }

#endif
