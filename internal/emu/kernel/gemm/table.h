/* The matrix products and triangular systems that are compiled for each CPU variant. */
#ifndef TABLE_H
#define TABLE_H

#include <stdbool.h>
#include <stdint.h>

struct gemm;       /* gemm.h */
struct triangular; /* triangular.h */

struct gemm_kernels {
	int rows; /* of the register block */
	void (*gemm)(const struct gemm *g, int64_t lo, int64_t hi, char *scratch);
	void (*triangular_solve)(const struct triangular *t, int64_t lo, int64_t hi);
};

extern const struct gemm_kernels gemm_portable;
#if defined(__x86_64__)
extern const struct gemm_kernels gemm_avx2;
extern const struct gemm_kernels gemm_avx512;
extern const struct gemm_kernels gemm_avx512bf16;
extern const struct gemm_kernels gemm_amx;
#endif

/* The kernels of the variant in use. */
extern const struct gemm_kernels *gemm_kernels;

/* Whether products of bfloat16 may be those of units that multiply pairs, whose sums have other bits. */
extern bool gemm_pairs;

/* Chooses the kernels of a variant, or of the best one before it that has some. */
void gemm_use(int variant, bool pairs);

#endif
